"""Schemas of the tables: the columns that readers of the report may rely on.

Every table is a directory `OUT/tables/<name>/date=YYYY-MM-DD/` of Parquet (zstd); `date` is the UTC day on which the
collector received the lines, so a closed day never changes. Times are UTC, sizes are raw bytes, and `file` is the log
file's path on its host.

`lines` of files, hosts, partitions, audit and runs are newlines, as `wc -l` and the manifests count them: these add up
over segments. Tables of line content (`hourly`, patterns, levels, authentication, requests) count each line, also a
last one without a newline: `hourly.unfinished` is the number of those, so that `lines - unfinished` is the number in
the other tables. `bytes` are the same everywhere.
"""

from pyspark.sql import types as T  # noqa: N812 - the name every PySpark program uses

FILE = ("partition", "host", "file")
"""The columns that identify one log file."""

_INT, _LONG, _DOUBLE, _TEXT = T.IntegerType(), T.LongType(), T.DoubleType(), T.StringType()
_TIME, _FLAG, _BINARY = T.TimestampType(), T.BooleanType(), T.BinaryType()

LEVELS = ("fatal", "error", "warn", "notice", "info", "debug", "trace", "none")
"""Every value of `level`, worst first; `none` if the line has no level."""

MAX_TEXT_CHARACTERS = 300
"""Maximum characters of a masked line or an example."""


def _table(**columns: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])


TEXT = _table(value=_TEXT)
"""The schema of Spark's text reader."""

HOURLY = _table(
    partition=_INT,
    host=_TEXT,
    file=_TEXT,
    hour=_TIME,
    level=_TEXT,
    fingerprint=_LONG,
    lines=_LONG,
    unfinished=_LONG,
    bytes=_LONG,
    first_ts=_TIME,
    last_ts=_TIME,
    late_lines=_LONG,
    no_ts_lines=_LONG,
    continuation_lines=_LONG,
)
"""Table `hourly`: counted from lines; most other tables derive from it.

`hour` is the hour of the event by the line's own time where it has one, else that at which JetStream stored the
segment's first block: `no_ts_lines` are of the second kind, and `continuation_lines` of these are in files whose other
lines have times (stack traces): level `none`, fingerprint 0. `late_lines` happened on a day before `date`.
`fingerprint` is the xxhash64 of the masked line (table `fingerprints`).
"""

FINGERPRINTS = _table(fingerprint=_LONG, text=_TEXT, example=_TEXT, lines=_LONG, pattern_id=_TEXT)
"""Table `fingerprints`: each masked line of the day, at most `MAX_TEXT_CHARACTERS` of it, with its pattern.

`example` is an unmasked line if one was searched, else null.
"""

PATTERNS = _table(
    pattern_id=_TEXT,
    template=_TEXT,
    first_seen_date=T.DateType(),
    last_seen_date=T.DateType(),
    files=_TEXT,
    example=_TEXT,
)
"""Table `patterns`: the registry of all patterns up to and with `date`; `files` are up to three of the log files."""

PATTERN_DAILY = _table(
    pattern_id=_TEXT,
    level=_TEXT,
    lines=_LONG,
    hosts=_LONG,
    files=_LONG,
    file=_TEXT,
    baseline_days=_INT,
    baseline_median=_DOUBLE,
    surge=_DOUBLE,
    is_new=_FLAG,
)
"""Table `pattern_daily`: per pattern and level. `file` is the one with most of the lines.

`baseline_median` is of the lines on the days before (a day without counts as 0); `surge` is log2((lines + 5) /
(median + 5)), null below 20 lines or three baseline days; `is_new`: not in the registry within 30 days, null on the
first day of all.
"""

FILE_DAILY = _table(
    partition=_INT,
    host=_TEXT,
    file=_TEXT,
    lines=_LONG,
    bytes=_LONG,
    err=_LONG,
    warn=_LONG,
    late_lines=_LONG,
    no_ts_lines=_LONG,
    continuation_lines=_LONG,
    active_hours=_LONG,
    first_ts=_TIME,
    last_ts=_TIME,
    last_arrival=_TIME,
    baseline_days=_INT,
    median7_lines=_DOUBLE,
    err_rate=_DOUBLE,
    err_rate_low=_DOUBLE,
    err_rate_high=_DOUBLE,
    median7_err_rate=_DOUBLE,
)
"""Table `file_daily`: per log file; `err` are its lines of level error and fatal.

`err_rate_low` and `err_rate_high` are the Wilson interval (99 %) of err / lines; `median7_*` the medians over those
days of the seven before that have tables (`baseline_days`; a day without the file counts as 0 lines), null without.
"""

HOST_DAILY = _table(
    partition=_INT,
    host=_TEXT,
    files=_LONG,
    lines=_LONG,
    bytes=_LONG,
    err=_LONG,
    warn=_LONG,
    late_lines=_LONG,
    no_ts_lines=_LONG,
    active_hours=_LONG,
    first_ts=_TIME,
    last_ts=_TIME,
    last_arrival=_TIME,
    share_of_partition=_DOUBLE,
    baseline_days=_INT,
    median7_lines=_DOUBLE,
    delta_vs_median7=_DOUBLE,
    err_rate=_DOUBLE,
    err_rate_low=_DOUBLE,
    err_rate_high=_DOUBLE,
    median7_err_rate=_DOUBLE,
    silent_since=_TIME,
    is_new=_FLAG,
)
"""Table `host_daily`: per host, also for hosts of the seven days before without a line today (0 lines).

`last_arrival` is when JetStream stored its last block, `share_of_partition` is of bytes, `delta_vs_median7` is
lines / median - 1, `silent_since` the last arrival of a host that used to speak and was silent for the last six hours
of the day, `is_new` whether no day of the baseline has it (null without baseline).
"""

PARTITION_DAILY = _table(
    partition=_INT,
    hosts=_LONG,
    lines=_LONG,
    bytes=_LONG,
    max_hour_lines=_LONG,
    share=_DOUBLE,
    skew=_DOUBLE,
    gini=_DOUBLE,
    top_host=_TEXT,
    top_host_share=_DOUBLE,
    seq_first=_LONG,
    seq_last=_LONG,
    seq_missing=_LONG,
)
"""Table `partition_daily`: shares are of bytes; `skew` = share x partitions (1.0 is even); `gini` of its hosts' bytes.

`seq_missing` are stream sequences between the partition's first and last that no segment's range covers.
"""

ACCESS_HOURLY = _table(
    partition=_INT,
    host=_TEXT,
    file=_TEXT,
    hour=_TIME,
    status=_INT,
    status_class=_TEXT,
    requests=_LONG,
    bytes=_LONG,
    latency_kll=_BINARY,
    clients_hll=_BINARY,
)
"""Table `access_hourly`: per access log, hour and status; `bytes` are those sent. Sketches merge over rows and days:
`kll_sketch_merge_double` (milliseconds, null where the log has none), `hll_union_agg` (client addresses).
"""

ACCESS_TOP = _table(kind=_TEXT, key=_TEXT, n=_LONG)
"""Table `access_top`: kind is path404, path5xx, slowpath (a second or more), client or status; the most of each."""

AUTH_DAILY = _table(
    partition=_INT,
    host=_TEXT,
    kind=_TEXT,
    user=_TEXT,
    remote=_TEXT,
    n=_LONG,
    attempts=_LONG,
    method=_TEXT,
    first_ts=_TIME,
    last_ts=_TIME,
    failed_attempts=_LONG,
    failed_first_ts=_TIME,
    failed_last_ts=_TIME,
    failed_accepted_ts=_TIME,
)
"""Table `auth_daily`: kind is failed_password, odd_name (one for a name that has a blank in it or is empty),
failed_publickey, invalid_user, pam_failure, accepted, sudo_failure or breakin_warning.

`n` are lines, `attempts` counts what `message repeated N times` stands for. Empty `user` or `remote`: the line has
none. `method` is the one that sshd names (password, publickey, keyboard-interactive/pam), empty without one. The first
and last time are those of the lines.

`failed_attempts` is set for accepted passwords (`method` password or keyboard-interactive): failed passwords of the
same user and address on any host before an acceptance (`failed_accepted_ts`) and after the acceptance before it, where
they are most; the first and the last of them are `failed_first_ts` and `failed_last_ts`. Failures in the second of an
acceptance count as before it. Columns from `method` on are null in tables of an older version.
"""

AUDIT = _table(
    partition=_INT,
    host=_TEXT,
    file=_TEXT,
    status=_TEXT,
    segments=_LONG,
    lines_manifest=_LONG,
    lines_counted=_LONG,
    bytes_manifest=_LONG,
    bytes_counted=_LONG,
    gap_bytes=_LONG,
    offset_gap_bytes=_LONG,
    doubled_bytes=_LONG,
    doubled_lines=_LONG,
    duplicates=_LONG,
    joins=_LONG,
    first_seq=_LONG,
    last_seq=_LONG,
    seq_overlap=_LONG,
    segments_missing=_LONG,
    segments_truncated=_LONG,
    segments_differing=_LONG,
    files_unregistered=_LONG,
    example=_TEXT,
)
"""Table `audit`: per log file, what the manifests list against what was read.

`status`, worst first: missing, truncated, differs, unregistered, offset_gap, gap, doubled, complete. `gap_bytes` are
recorded as lost, `offset_gap_bytes` are bytes of a source between two of the day's spans that no gap explains,
`doubled_bytes` and `doubled_lines` are in an earlier segment, too, so that the totals count them twice (null: an older
version made the table), `seq_overlap` stream sequences that two segments of the file both claim; `example` is the
path of a segment that made the status. A sealed file that no manifest lists has a row of its own with its stored name
in `file`.
"""

RUNS = _table(
    run_id=_TEXT,
    input_fingerprint=_TEXT,
    started=_TIME,
    seconds=_DOUBLE,
    spark_version=_TEXT,
    master=_TEXT,
    status=_TEXT,
    lines=_LONG,
    bytes=_LONG,
)
"""Table `runs`: the run that made the day's tables; swapped in last. `status` is complete, open, doubled, gaps or
damaged."""

TABLES = {
    "hourly": HOURLY,
    "fingerprints": FINGERPRINTS,
    "patterns": PATTERNS,
    "pattern_daily": PATTERN_DAILY,
    "file_daily": FILE_DAILY,
    "host_daily": HOST_DAILY,
    "partition_daily": PARTITION_DAILY,
    "access_hourly": ACCESS_HOURLY,
    "access_top": ACCESS_TOP,
    "auth_daily": AUTH_DAILY,
    "audit": AUDIT,
    "runs": RUNS,
}
"""Every table by its name; the order is that in which a new day becomes visible."""
