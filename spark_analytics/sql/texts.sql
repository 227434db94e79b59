-- The masked lines with the most lines, for table `fingerprints`.
SELECT fingerprint, text, CAST(sum(lines) AS BIGINT) AS lines
FROM groups
WHERE text IS NOT NULL
GROUP BY fingerprint, text
ORDER BY lines DESC, text
LIMIT $max_distinct
