-- Requests to web servers.
SELECT log, hour, status, remote, path, latency, lines, coalesce(sent, 0) AS sent FROM groups WHERE status IS NOT NULL
