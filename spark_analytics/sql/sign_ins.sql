-- Authentication events by hour, accepted and failed passwords by second, for table `auth_daily`.
SELECT /*+ BROADCAST(logs) */
    partition, host, auth, user, remote,
    CAST(sum(lines) AS BIGINT) AS lines,
    CAST(sum(lines * attempts) AS BIGINT) AS attempts,
    min(first_ts) AS first_ts,
    max(last_ts) AS last_ts
FROM groups
JOIN logs ON groups.log = logs.log
WHERE auth IS NOT NULL
GROUP BY partition, host, auth, user, remote, hour, login_second
