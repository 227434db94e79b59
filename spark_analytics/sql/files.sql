-- The sums of each log file. `lines` are newlines, as in all tables but `hourly`.
SELECT
    partition, host, file,
    CAST(sum(lines - unfinished) AS BIGINT) AS lines,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    CAST(sum(CASE WHEN level IN ('fatal', 'error') THEN lines ELSE 0 END) AS BIGINT) AS err,
    CAST(sum(CASE WHEN level = 'warn' THEN lines ELSE 0 END) AS BIGINT) AS warn,
    CAST(sum(late_lines) AS BIGINT) AS late_lines,
    CAST(sum(no_ts_lines) AS BIGINT) AS no_ts_lines,
    CAST(sum(continuation_lines) AS BIGINT) AS continuation_lines,
    count(DISTINCT CASE WHEN lines > 0 THEN hour END) AS active_hours,
    min(first_ts) AS first_ts,
    max(last_ts) AS last_ts
FROM hourly
GROUP BY partition, host, file
