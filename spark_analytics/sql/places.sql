-- The lines of each of the masked lines `watched` by level and log file.
SELECT /*+ BROADCAST(watched) */
    hourly.fingerprint, level, partition, host, file,
    CAST(sum(lines) AS BIGINT) AS lines, min(first_ts) AS first_ts, max(last_ts) AS last_ts
FROM hourly
JOIN watched ON hourly.fingerprint = watched.fingerprint
GROUP BY hourly.fingerprint, level, partition, host, file
