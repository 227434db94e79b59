-- The most frequent keys of requests, of all kinds, for table `access_top`.
WITH entries AS (
    SELECT 'client' AS kind, remote AS key, lines FROM requests
    UNION ALL
    SELECT 'status', CAST(status AS STRING), lines FROM requests
    UNION ALL
    SELECT 'path404', path, lines FROM requests WHERE status = 404
    UNION ALL
    SELECT 'path5xx', path, lines FROM requests WHERE status >= 500
    UNION ALL
    SELECT 'slowpath', path, lines FROM requests WHERE latency >= $slow_step
)
SELECT kind, key, CAST(sum(lines) AS BIGINT) AS lines
FROM entries
WHERE key IS NOT NULL
GROUP BY kind, key
ORDER BY lines DESC, kind, key
LIMIT $max_keys
