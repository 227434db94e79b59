-- Requests by hour and status class.
SELECT
    hour, concat(substring(CAST(status AS STRING), 1, 1), 'xx') AS status_class,
    CAST(sum(lines) AS BIGINT) AS requests, CAST(sum(sent) AS BIGINT) AS bytes
FROM requests
WHERE hour IS NOT NULL
GROUP BY hour, concat(substring(CAST(status AS STRING), 1, 1), 'xx')
