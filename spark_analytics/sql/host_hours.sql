-- Lines by host, hour and level.
SELECT partition, host, hour, level, CAST(sum(lines) AS BIGINT) AS lines
FROM hourly
WHERE hour IS NOT NULL AND lines > 0
GROUP BY partition, host, hour, level
