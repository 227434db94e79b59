"""Schemas of the tables: the columns that readers of the report may rely on; `dictionary` has units and meanings.

Every table is a directory `OUT/tables/<name>/date=YYYY-MM-DD/` of Parquet (zstd); `date` is the UTC day on which the
collector received the lines, so a closed day never changes. Times are UTC, sizes are raw bytes, and `file` is the log
file's path on its host.

`lines` of files, hosts, partitions, audit and runs are newlines, as `wc -l` and the manifests count them: these add up
over segments. Tables of line content (`hourly`, patterns, levels, authentication, requests) count each line, also a
last one without a newline: `hourly.unfinished` is the number of those, so that `lines - unfinished` is the number in
the other tables. `bytes` are the same everywhere. Most tables derive from `hourly`. The sketches of `access_hourly`
merge over rows and days. Columns that tables of an older version lack are null.
"""

from pyspark.sql import types as T  # noqa: N812 - the name every PySpark program uses

FILE = ("partition", "host", "file")
"""The columns that identify one log file."""

LEVELS = ("fatal", "error", "warn", "notice", "info", "debug", "trace", "none")
"""Every value of `level`, worst first; `none` if the line has no level."""

MAX_TEXT_CHARACTERS = 300
"""Maximum characters of a masked line or an example."""

_KINDS: dict[str, T.DataType] = {
    "INT": T.IntegerType(),
    "BIGINT": T.LongType(),
    "DOUBLE": T.DoubleType(),
    "STRING": T.StringType(),
    "TIMESTAMP": T.TimestampType(),
    "DATE": T.DateType(),
    "BOOLEAN": T.BooleanType(),
    "BINARY": T.BinaryType(),
}


def schema_of(columns: str) -> T.StructType:
    """The schema of `name KIND, ...`, as `StructType.fromDDL` makes it, which needs a running Java."""
    named = (column.split() for column in columns.split(","))
    return T.StructType([T.StructField(name, _KINDS[kind]) for name, kind in named])


_COLUMNS = {
    "hourly": """
        partition INT, host STRING, file STRING, hour TIMESTAMP, level STRING, fingerprint BIGINT, lines BIGINT,
        unfinished BIGINT, bytes BIGINT, first_ts TIMESTAMP, last_ts TIMESTAMP, late_lines BIGINT, no_ts_lines BIGINT,
        continuation_lines BIGINT
    """,
    "fingerprints": "fingerprint BIGINT, text STRING, example STRING, lines BIGINT, pattern_id STRING",
    "patterns": """
        pattern_id STRING, template STRING, first_seen_date DATE, last_seen_date DATE, files STRING, example STRING
    """,
    "pattern_daily": """
        pattern_id STRING, level STRING, lines BIGINT, hosts BIGINT, files BIGINT, file STRING, baseline_days INT,
        baseline_median DOUBLE, surge DOUBLE, is_new BOOLEAN
    """,
    "event_daily": """
        kind STRING, pattern_id STRING, level STRING, subject STRING, partition INT, host STRING, file STRING,
        lines BIGINT, first_ts TIMESTAMP, last_ts TIMESTAMP, example STRING
    """,
    "file_daily": """
        partition INT, host STRING, file STRING, lines BIGINT, bytes BIGINT, err BIGINT, warn BIGINT, late_lines BIGINT,
        no_ts_lines BIGINT, continuation_lines BIGINT, active_hours BIGINT, first_ts TIMESTAMP, last_ts TIMESTAMP,
        last_arrival TIMESTAMP, baseline_days INT, median7_lines DOUBLE, err_rate DOUBLE, err_rate_low DOUBLE,
        err_rate_high DOUBLE, median7_err_rate DOUBLE
    """,
    "host_daily": """
        partition INT, host STRING, files BIGINT, lines BIGINT, bytes BIGINT, err BIGINT, warn BIGINT,
        late_lines BIGINT, no_ts_lines BIGINT, active_hours BIGINT, first_ts TIMESTAMP, last_ts TIMESTAMP,
        last_arrival TIMESTAMP, share_of_partition DOUBLE, baseline_days INT, median7_lines DOUBLE,
        delta_vs_median7 DOUBLE, err_rate DOUBLE, err_rate_low DOUBLE, err_rate_high DOUBLE, median7_err_rate DOUBLE,
        silent_since TIMESTAMP, is_new BOOLEAN
    """,
    "partition_daily": """
        partition INT, hosts BIGINT, lines BIGINT, bytes BIGINT, max_hour_lines BIGINT, share DOUBLE, skew DOUBLE,
        gini DOUBLE, top_host STRING, top_host_share DOUBLE, seq_first BIGINT, seq_last BIGINT, seq_missing BIGINT
    """,
    "access_hourly": """
        partition INT, host STRING, file STRING, hour TIMESTAMP, status INT, status_class STRING, requests BIGINT,
        bytes BIGINT, latency_kll BINARY, clients_hll BINARY
    """,
    "access_top": "kind STRING, key STRING, n BIGINT",
    "auth_daily": """
        partition INT, host STRING, kind STRING, user STRING, remote STRING, n BIGINT, attempts BIGINT, method STRING,
        first_ts TIMESTAMP, last_ts TIMESTAMP, failed_attempts BIGINT, failed_first_ts TIMESTAMP,
        failed_last_ts TIMESTAMP, failed_accepted_ts TIMESTAMP
    """,
    "audit": """
        partition INT, host STRING, file STRING, status STRING, segments BIGINT, lines_manifest BIGINT,
        lines_counted BIGINT, bytes_manifest BIGINT, bytes_counted BIGINT, gap_bytes BIGINT, offset_gap_bytes BIGINT,
        doubled_bytes BIGINT, doubled_lines BIGINT, duplicates BIGINT, joins BIGINT, first_seq BIGINT, last_seq BIGINT,
        seq_overlap BIGINT, segments_missing BIGINT, segments_truncated BIGINT, segments_differing BIGINT,
        files_unregistered BIGINT, example STRING
    """,
    "redacted_daily": "partition INT, host STRING, file STRING, rule STRING, places BIGINT",
    "runs": """
        run_id STRING, input_fingerprint STRING, started TIMESTAMP, seconds DOUBLE, spark_version STRING, master STRING,
        status STRING, lines BIGINT, bytes BIGINT
    """,
}
"""The columns of every table; the order of the tables is that in which a new day becomes visible."""

TABLES = {name: schema_of(columns) for name, columns in _COLUMNS.items()}
HOURLY, ACCESS_HOURLY, AUDIT = TABLES["hourly"], TABLES["access_hourly"], TABLES["audit"]
