-- Table `access_hourly`.
SELECT /*+ BROADCAST(logs) */
    partition, host, file, hour, status, concat(substring(CAST(status AS STRING), 1, 1), 'xx') AS status_class,
    requests, bytes, latency_kll, clients_hll
FROM sketches
JOIN logs ON sketches.log = logs.log
