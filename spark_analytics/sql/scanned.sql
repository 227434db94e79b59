-- The groups with the level, the message and the fingerprint that Spark found for their texts.
SELECT
    segment, block_start, hour, classified.level, classified.text, fingerprint, auth, user, remote, attempts,
    login_second, status, path, latency, lines, bytes, first_row, last_row, first_second, last_second, sent
FROM grouped
JOIN distinct_texts ON grouped.format = distinct_texts.format
    AND grouped.level IS NOT DISTINCT FROM distinct_texts.level
    AND grouped.text IS NOT DISTINCT FROM distinct_texts.text
JOIN classified ON distinct_texts.number = classified.number
