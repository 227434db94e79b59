-- Sketches of the clients and latencies of requests by log file, hour and status. Spark runs this text in both engines,
-- because the sketches have its format. A sketch of quantiles has no weights, so a group of equal latencies enters it
-- once for each of its lines. The row without a log has the distinct clients of all; without requests there is none.
WITH repeated AS (
    SELECT
        log, hour, status, remote,
        explode_outer(
            CASE WHEN latency IS NOT NULL THEN array_repeat(exp(latency / $steps), CAST(lines AS INT)) END
        ) AS took
    FROM requests
),
sketched AS (
    SELECT
        log, hour, status,
        CASE WHEN count(took) > 0 THEN kll_sketch_agg_double(took) END AS latency_kll,
        hll_sketch_agg(remote, $clients_lg_k) AS clients_hll
    FROM repeated
    GROUP BY log, hour, status
)
SELECT
    log, hour, status,
    any_value(latency_kll) AS latency_kll, any_value(clients_hll) AS clients_hll,
    hll_sketch_estimate(hll_union_agg(clients_hll)) AS clients
FROM sketched
GROUP BY GROUPING SETS ((log, hour, status), ())
