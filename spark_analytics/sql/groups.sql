-- The groups of the scan by log file and hour, with bytes as `wc` counts them: the last row of a segment may have no
-- newline, and a byte order mark before the first row was not read. The other texts read this one.
SELECT /*+ BROADCAST(segments) */
    segments.log, scanned.segment, scanned.block_start, first_row,
    coalesce(dated, stored_hour) AS hour,
    dated IS NOT NULL AS is_dated,
    dated IS NULL AND is_timed AS is_continuation, -- without a time in a file whose other lines have one
    level, fingerprint, text, lines,
    CASE WHEN block_start = end_block AND last_row = end_row THEN unterminated ELSE 0 END AS unfinished,
    bytes - unfinished + CASE WHEN block_start = head_block AND first_row = head_row THEN bom_bytes ELSE 0 END AS bytes,
    CASE WHEN dated IS NOT NULL THEN resolved(first_second) END AS first_ts,
    CASE WHEN dated IS NOT NULL THEN resolved(last_second) END AS last_ts,
    auth, user, remote, attempts, login_second, status, path, latency, sent
FROM (SELECT *, resolved(hour * 3600) AS dated FROM scanned) AS scanned
JOIN segments ON scanned.segment = segments.segment
