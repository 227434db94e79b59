-- The lines of each pattern and level, with the three log files with most of them. Continuation lines have no pattern.
WITH named AS (
    SELECT /*+ BROADCAST(patterns) */
        coalesce(pattern_id, $rest) AS pattern_id, level, host, file, sum(lines) AS lines
    FROM hourly
    LEFT JOIN patterns ON hourly.fingerprint = patterns.fingerprint
    WHERE hourly.fingerprint <> 0
    GROUP BY coalesce(pattern_id, $rest), level, host, file
),
hosts AS (
    SELECT pattern_id, level, count(DISTINCT host) AS hosts FROM named GROUP BY pattern_id, level
),
files AS (
    SELECT
        pattern_id, level, file, sum(lines) AS lines,
        row_number() OVER (PARTITION BY pattern_id, level ORDER BY sum(lines) DESC, file DESC) AS place
    FROM named
    GROUP BY pattern_id, level, file
),
sums AS (
    SELECT
        pattern_id, level,
        CAST(sum(lines) AS BIGINT) AS lines,
        count(*) AS files,
        max(CASE WHEN place = 1 THEN file END) AS most,
        max(CASE WHEN place = 2 THEN file END) AS second_most,
        max(CASE WHEN place = 3 THEN file END) AS third_most
    FROM files
    GROUP BY pattern_id, level
)
SELECT sums.pattern_id, sums.level, lines, hosts, files, most, second_most, third_most
FROM sums
JOIN hosts ON sums.pattern_id = hosts.pattern_id AND sums.level = hosts.level
