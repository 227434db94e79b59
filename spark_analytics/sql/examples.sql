-- For each of the masked lines `unseen` the segment with most of its lines, the first of several.
WITH sums AS (
    SELECT /*+ BROADCAST(unseen) */ groups.fingerprint, segment, sum(lines) AS lines
    FROM groups
    JOIN unseen ON groups.fingerprint = unseen.fingerprint
    WHERE text IS NOT NULL
    GROUP BY groups.fingerprint, segment
),
ranked AS (
    SELECT
        fingerprint, segment, row_number() OVER (PARTITION BY fingerprint ORDER BY lines DESC, segment) AS place
    FROM sums
)
SELECT fingerprint, segment FROM ranked WHERE place = 1
