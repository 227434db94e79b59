-- Requests by hour and status class.
SELECT hour, status_class, CAST(sum(requests) AS BIGINT) AS requests, CAST(sum(bytes) AS BIGINT) AS bytes
FROM access_hourly
WHERE hour IS NOT NULL
GROUP BY hour, status_class
