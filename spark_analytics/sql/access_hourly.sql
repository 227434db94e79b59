-- Table `access_hourly`: sums of the requests with their sketches.
WITH sums AS (
    SELECT log, hour, status, CAST(sum(lines) AS BIGINT) AS requests, CAST(sum(sent) AS BIGINT) AS bytes
    FROM requests
    GROUP BY log, hour, status
)
SELECT /*+ BROADCAST(logs) */
    partition, host, file, sums.hour, sums.status,
    concat(substring(CAST(sums.status AS STRING), 1, 1), 'xx') AS status_class,
    requests, bytes, latency_kll, clients_hll
FROM sums
JOIN logs ON sums.log = logs.log
JOIN sketches ON sums.log = sketches.log AND sums.status = sketches.status
    AND sums.hour IS NOT DISTINCT FROM sketches.hour
