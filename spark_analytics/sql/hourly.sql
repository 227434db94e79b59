-- Table `hourly`. An empty segment has a row with 0 lines, so that its log file is in the tables.
WITH counted AS (
    SELECT
        log, hour, level, fingerprint, lines, unfinished, bytes, first_ts, last_ts,
        CASE WHEN is_dated AND hour < $midnight THEN lines ELSE 0 END AS late_lines,
        CASE WHEN is_dated THEN 0 ELSE lines END AS no_ts_lines,
        CASE WHEN is_continuation THEN lines ELSE 0 END AS continuation_lines
    FROM groups
    UNION ALL
    SELECT log, stored_hour, 'none', 0, 0, 0, bytes, NULL, NULL, 0, 0, 0 FROM empty_segments
),
sums AS (
    SELECT
        log, hour, level, fingerprint,
        CAST(sum(lines) AS BIGINT) AS lines,
        CAST(sum(unfinished) AS BIGINT) AS unfinished,
        CAST(sum(bytes) AS BIGINT) AS bytes,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts,
        CAST(sum(late_lines) AS BIGINT) AS late_lines,
        CAST(sum(no_ts_lines) AS BIGINT) AS no_ts_lines,
        CAST(sum(continuation_lines) AS BIGINT) AS continuation_lines
    FROM counted
    GROUP BY log, hour, level, fingerprint
)
SELECT /*+ BROADCAST(logs) */
    partition, host, file, hour, level, fingerprint, lines, unfinished, bytes, first_ts, last_ts, late_lines,
    no_ts_lines, continuation_lines
FROM sums
JOIN logs ON sums.log = logs.log
