-- Requests by the step of their latency.
SELECT latency, CAST(sum(lines) AS BIGINT) AS lines FROM requests WHERE latency IS NOT NULL GROUP BY latency
