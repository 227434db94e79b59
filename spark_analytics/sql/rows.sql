-- Places of at most $most lines of each of the rows `wanted`, of the most frequent kinds of lines. Each is the line with
-- the lowest number in its block, which is found without reading much. `kind` decides which lines a row is of, `a` to
-- `c` are its names, and its example lines differ in `other`.
WITH blocks AS (
    SELECT
        segment, block_start, min(first_row) AS block_row,
        row_number() OVER (ORDER BY segment, block_start) AS block
    FROM groups
    GROUP BY segment, block_start
),
placed AS (
    SELECT /*+ BROADCAST(blocks), BROADCAST(logs) */
        host, file, level, fingerprint, split_part(auth, ' ', 1) AS event, auth, user, remote, status, latency, path,
        lines, (first_row - block_row) * $blocks + block AS place -- in the order of row, segment, block
    FROM groups
    JOIN blocks ON groups.segment = blocks.segment AND groups.block_start = blocks.block_start
    JOIN logs ON groups.log = logs.log
),
entries AS (
    SELECT 'host' AS kind, host AS a, '' AS b, '' AS c, CAST(fingerprint AS STRING) AS other, lines, place
    FROM placed WHERE 'host' IN ($kinds)
    UNION ALL
    SELECT 'errors', host, file, '', CAST(fingerprint AS STRING), lines, place
    FROM placed WHERE 'errors' IN ($kinds) AND level IN ('fatal', 'error')
    UNION ALL
    SELECT 'password', host, user, remote, auth, lines, place
    FROM placed WHERE 'password' IN ($kinds) AND event IN ('failed_password', 'odd_name', 'accepted')
    UNION ALL
    SELECT 'failed_remote', remote, '', '', user, lines, place
    FROM placed WHERE 'failed_remote' IN ($kinds) AND event = 'failed_password'
    UNION ALL
    SELECT 'failed_user', user, '', '', remote, lines, place
    FROM placed WHERE 'failed_user' IN ($kinds) AND event = 'failed_password'
    UNION ALL
    SELECT 'failed_host', host, '', '', remote, lines, place
    FROM placed WHERE 'failed_host' IN ($kinds) AND event = 'failed_password'
    UNION ALL
    SELECT 'path404', path, '', '', remote, lines, place
    FROM placed WHERE 'path404' IN ($kinds) AND status = 404
    UNION ALL
    SELECT 'path5xx', path, '', '', remote, lines, place
    FROM placed WHERE 'path5xx' IN ($kinds) AND status >= 500
    UNION ALL
    SELECT 'slowpath', path, '', '', remote, lines, place
    FROM placed WHERE 'slowpath' IN ($kinds) AND latency >= $slow_step
    UNION ALL
    SELECT 'client', remote, '', '', CAST(status AS STRING), lines, place
    FROM placed WHERE 'client' IN ($kinds) AND status IS NOT NULL
),
first_places AS (
    SELECT /*+ BROADCAST(wanted) */
        entries.kind, entries.a, entries.b, entries.c, other, sum(lines) AS lines, min(place) AS place
    FROM entries
    JOIN wanted ON entries.kind = wanted.kind AND entries.a = wanted.a AND entries.b = wanted.b AND entries.c = wanted.c
    GROUP BY entries.kind, entries.a, entries.b, entries.c, other
),
ranked AS (
    SELECT
        kind, a, b, c, place, row_number() OVER (PARTITION BY kind, a, b, c ORDER BY lines DESC, place) AS number
    FROM first_places
)
SELECT kind, a, b, c, CAST((place - block) / $blocks AS BIGINT) AS row, segment, block_start
FROM ranked
JOIN blocks ON place % $blocks = block
WHERE number <= $most
ORDER BY kind, a, b, c, number
