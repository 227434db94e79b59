-- What the scan counted of each segment, with the positions of its first and its last row.
WITH blocks AS (
    SELECT
        segment, block_start, sum(lines) AS lines, sum(bytes) AS bytes,
        min(first_row) AS first_row, max(last_row) AS last_row
    FROM scanned
    GROUP BY segment, block_start
)
SELECT
    segment,
    CAST(sum(lines) AS BIGINT) AS lines,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    min(block_start) AS first_block, min_by(first_row, block_start) AS first_row,
    max(block_start) AS last_block, max_by(last_row, block_start) AS last_row
FROM blocks
GROUP BY segment
