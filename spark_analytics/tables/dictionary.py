"""The data dictionary of the tables: what a row is, unit and meaning of each column (docs/reference/tables.md).

A name keeps its meaning: a column gets another name before it gets another meaning, and none is removed within a
major version.
"""

from typing import NamedTuple


class Column(NamedTuple):
    """Unit and meaning of one column."""

    unit: str
    meaning: str
    known_as: str = ""  #: the attribute of OpenTelemetry and the field of ECS, separated by ` / `


ROWS = {
    "hourly": "log file, hour, level, masked line",
    "fingerprints": "masked line",
    "patterns": "pattern, up to this day",
    "pattern_daily": "pattern and level",
    "event_daily": "event or pattern, level, log file",
    "file_daily": "log file",
    "host_daily": "host",
    "partition_daily": "partition",
    "access_hourly": "access log, hour, status",
    "access_top": "kind and key",
    "auth_daily": "host, kind, user, remote address, method",
    "audit": "log file",
    "redacted_daily": "log file and rule",
    "runs": "run",
}
"""What one row of each table is of."""

_MEDIAN = "median of the baseline days; a day without lines counts as 0"

COMMON = {
    "date": Column(
        "UTC day", "day on which JetStream stored the lines, from the name of the directory", "- / event.ingested"
    ),
    "partition": Column("number", "partition of the host", "messaging.destination.partition.id / -"),
    "host": Column("name", "host that wrote the lines", "host.name / host.name"),
    "file": Column("path", "path of the log file on the host", "log.file.path / log.file.path"),
    "hour": Column(
        "UTC time",
        "hour of the time in the line; without one, the hour in which JetStream stored the segment's first block",
    ),
    "level": Column(
        "word",
        "`fatal`, `error`, `warn`, `notice`, `info`, `debug`, `trace`, or `none` if the line has no level",
        "severity_text / log.level",
    ),
    "fingerprint": Column("xxhash64", "hash of the masked line; 0 for continuation lines"),
    "lines": Column("newlines", "lines that end with a newline, as `wc -l` counts them"),
    "bytes": Column("bytes", "bytes of the text"),
    "err": Column("lines", "lines of level `error` and `fatal`"),
    "warn": Column("lines", "lines of level `warn`"),
    "first_ts": Column("UTC time", "first time in the lines; null without one", "time_unix_nano / @timestamp"),
    "last_ts": Column("UTC time", "last time in the lines; null without one", "time_unix_nano / @timestamp"),
    "last_arrival": Column(
        "UTC time", "when JetStream stored the last block", "observed_time_unix_nano / event.ingested"
    ),
    "late_lines": Column("lines", "lines whose time is on a day before `date`"),
    "no_ts_lines": Column("lines", "lines without a time"),
    "continuation_lines": Column(
        "lines", "lines of `no_ts_lines` in files whose other lines have times, such as stack traces"
    ),
    "active_hours": Column("hours", "hours with at least one line"),
    "baseline_days": Column("days", "days of the baseline that have tables, at most `--baseline-days`"),
    "median7_lines": Column("lines", "lines a day: " + _MEDIAN),
    "err_rate": Column("share, 0 to 1", "`err` / `lines`"),
    "err_rate_low": Column("share, 0 to 1", "lower end of its Wilson interval (99 %)"),
    "err_rate_high": Column("share, 0 to 1", "upper end of its Wilson interval (99 %)"),
    "median7_err_rate": Column("share, 0 to 1", "`err_rate`: " + _MEDIAN),
    "pattern_id": Column("text", "identifier of the pattern, the same on every day"),
    "example": Column("text", "an unmasked line; null if none was searched", "body / message"),
    "files": Column("files", "number of log files with a line"),
    "hosts": Column("hosts", "number of hosts with a line"),
    "is_new": Column("true, false", "the pattern was not seen in the last 30 days; null on the first day"),
    "kind": Column("word", "kind of the row"),
    "status": Column("word", "state"),
}
"""Columns that mean the same in every table, unless `OF_TABLE` has another meaning."""

OF_TABLE = {
    "hourly": {
        "lines": Column("lines", "lines, including a last one without a newline"),
        "unfinished": Column("lines", "last lines without a newline"),
    },
    "fingerprints": {
        "text": Column("text", "masked line, at most 300 characters"),
        "lines": Column("lines", "lines of the day, including unfinished ones"),
    },
    "patterns": {
        "template": Column("text", "the text that the lines of the pattern have in common"),
        "first_seen_date": Column("UTC day", "first day with a line of the pattern"),
        "last_seen_date": Column("UTC day", "last day with a line of the pattern"),
        "files": Column("text", "up to three of the log files"),
    },
    "pattern_daily": {
        "lines": Column("lines", "lines, including unfinished ones"),
        "file": Column("path", "the log file with most of the lines"),
        "baseline_median": Column(
            "lines", "median of the lines on the baseline days; a day without the pattern counts as 0"
        ),
        "surge": Column("log2", "log2((lines + 5) / (median + 5)); null below 20 lines or three baseline days"),
    },
    "event_daily": {
        "kind": Column("word", "kind of known event, such as `io_error`; empty: a pattern that is a finding"),
        "pattern_id": Column("id", "the pattern; empty in rows of known events"),
        "subject": Column("text", "what the event is about, such as `sdb` or `postgresql.service`"),
        "lines": Column("lines", "lines, including unfinished ones; at most 50 log files for each event and pattern"),
        "example": Column("text", "one line, or its masked text"),
    },
    "host_daily": {
        "share_of_partition": Column("share, 0 to 1", "bytes of the host / bytes of its partition"),
        "delta_vs_median7": Column("ratio", "lines / median - 1; null without a baseline"),
        "silent_since": Column(
            "UTC time", "last arrival, of a host that sent nothing in the last six hours of the day"
        ),
        "is_new": Column("true, false", "no day of the baseline has the host; null without a baseline"),
        "lines": Column("newlines", "lines; 0 for a host of the baseline that sent nothing"),
    },
    "partition_daily": {
        "max_hour_lines": Column("lines", "lines of the hour with the most"),
        "share": Column("share, 0 to 1", "bytes of the partition / bytes of the day"),
        "skew": Column("ratio", "share x number of partitions; 1.0 is even"),
        "gini": Column("0 to 1", "Gini coefficient of the bytes of the partition's hosts; 0 is even"),
        "top_host": Column("name", "host with the most bytes", "host.name / host.name"),
        "top_host_share": Column("share, 0 to 1", "bytes of `top_host` / bytes of the partition"),
        "seq_first": Column("stream sequence", "first one of the day's segments"),
        "seq_last": Column("stream sequence", "last one of the day's segments"),
        "seq_missing": Column("messages", "stream sequences between first and last that no segment covers"),
    },
    "access_hourly": {
        "status": Column(
            "HTTP status", "status of the response", "http.response.status_code / http.response.status_code"
        ),
        "status_class": Column("word", "`1xx` to `5xx`"),
        "requests": Column("requests", "lines of the access log"),
        "bytes": Column("bytes", "bytes of the responses", "http.response.body.size / http.response.body.bytes"),
        "latency_kll": Column(
            "sketch of ms",
            "latency; merge with `kll_sketch_merge_double`; null where the log has none",
            "http.server.request.duration / event.duration",
        ),
        "clients_hll": Column("sketch", "client addresses; merge with `hll_union_agg`", "client.address / client.ip"),
    },
    "access_top": {
        "kind": Column("word", "`path404`, `path5xx`, `slowpath` (a second or more), `client`, `status`"),
        "key": Column("text", "path, client address or status", "url.path, client.address / url.path, client.ip"),
        "n": Column("requests", "lines"),
    },
    "auth_daily": {
        "kind": Column(
            "word",
            "`failed_password`, `odd_name` (a user name that is empty or contains a blank), `failed_publickey`,"
            " `invalid_user`, `pam_failure`, `accepted`, `sudo_failure`, `breakin_warning`",
            "- / event.action",
        ),
        "user": Column("name", "user name; empty if the line has none", "user.name / user.name"),
        "remote": Column("address", "remote address; empty if the line has none", "client.address / source.ip"),
        "n": Column("lines", "lines"),
        "attempts": Column("attempts", "attempts, including those of `message repeated N times`"),
        "method": Column("word", "method that sshd names, such as `publickey`; or empty"),
        "failed_attempts": Column(
            "attempts",
            "most failed passwords of a user and address, on any host, between two accepted passwords; else null",
        ),
        "failed_first_ts": Column("UTC time", "first of the `failed_attempts`"),
        "failed_last_ts": Column("UTC time", "last of the `failed_attempts`"),
        "failed_accepted_ts": Column("UTC time", "the accepted password that follows the `failed_attempts`"),
    },
    "audit": {
        "status": Column(
            "word",
            "worst first: `missing`, `truncated`, `differs`, `unregistered`, `offset_gap`, `gap`, `doubled`,"
            " `complete`",
        ),
        "segments": Column("segments", "segments that the manifests list"),
        "lines_manifest": Column("newlines", "lines in the manifests"),
        "lines_counted": Column("newlines", "lines that the report counted"),
        "bytes_manifest": Column("bytes", "bytes in the manifests"),
        "bytes_counted": Column("bytes", "bytes that the report counted"),
        "gap_bytes": Column("bytes", "bytes recorded as lost"),
        "offset_gap_bytes": Column("bytes", "bytes between two spans of the day that no gap record explains"),
        "doubled_bytes": Column(
            "bytes",
            "bytes that an earlier segment also has; totals count them twice",
        ),
        "doubled_lines": Column(
            "lines",
            "lines that an earlier segment also has; totals count them twice",
        ),
        "duplicates": Column("blocks", "blocks that the collector dropped: archived before"),
        "joins": Column("blocks", "blocks of which the collector wrote only the new part"),
        "first_seq": Column("stream sequence", "first one of the file's segments"),
        "last_seq": Column("stream sequence", "last one of the file's segments"),
        "seq_overlap": Column("messages", "stream sequences that two segments of the file contain"),
        "segments_missing": Column("segments", "listed, not on disk"),
        "segments_truncated": Column("segments", "shorter than listed, or cut in a frame"),
        "segments_differing": Column("segments", "with other lines or bytes than the manifest line"),
        "files_unregistered": Column("segments", "on disk, in no manifest; such a row has the stored name in `file`"),
        "example": Column("path", "path of a segment that caused the status"),
    },
    "redacted_daily": {
        "rule": Column(
            "word", "rule of the host's redaction that fired; `other`: rules that were too many to be named"
        ),
        "places": Column("places", "how often it fired, as the host counted"),
    },
    "runs": {
        "run_id": Column("text", "day and start of the run"),
        "input_fingerprint": Column("text", "digest of the manifests and segments that were read"),
        "started": Column("UTC time", "when the run of this day started"),
        "seconds": Column("s", "duration up to the commit of the tables"),
        "spark_version": Column("text", "version of Spark"),
        "master": Column("text", "master of Spark"),
        "status": Column("word", "`complete`, `open`, `doubled`, `gaps` or `damaged`"),
    },
}
"""Columns of single tables."""


def column(table: str, name: str) -> Column:
    """Unit and meaning of column `name` of `table`. Raises KeyError: it has no description."""
    return OF_TABLE.get(table, {}).get(name) or COMMON[name]
