"""What the tables hold: the columns that readers of the report may rely on. Hours are UTC, sizes are raw bytes."""

from pyspark.sql import types as T  # noqa: N812 - the name every PySpark program uses

TEXT = T.StructType([T.StructField("value", T.StringType())])
"""What Spark's text reader yields."""

ROWS = T.StructType(
    [
        T.StructField("value", T.StringType()),
        T.StructField("file_path", T.StringType()),
        T.StructField("block_start", T.LongType()),
        T.StructField("row", T.LongType()),
    ]
)
"""A line of the archive, the segment it came from as a URI, and its place in the segment: (block_start, row)."""

SEGMENTS = T.StructType(
    [
        T.StructField("uri", T.StringType(), nullable=False),
        T.StructField("partition", T.IntegerType(), nullable=False),
        T.StructField("host", T.StringType(), nullable=False),
        T.StructField("file", T.StringType(), nullable=False),
        T.StructField("lines_manifest", T.LongType(), nullable=False),
        T.StructField("bytes_manifest", T.LongType(), nullable=False),
        T.StructField("gap_bytes", T.LongType(), nullable=False),
        T.StructField("duplicates", T.LongType(), nullable=False),
        T.StructField("joins", T.LongType(), nullable=False),
        T.StructField("first_seq", T.LongType(), nullable=False),
        T.StructField("last_seq", T.LongType(), nullable=False),
        T.StructField("stored_at", T.StringType(), nullable=False),
        T.StructField("missing", T.BooleanType(), nullable=False),
        T.StructField("bytes_there", T.LongType(), nullable=False),
    ]
)
"""A segment that a manifest lists. `uri` is `file:` and the absolute path, not percent-encoded; `bytes_there` are the
raw bytes that reading it to its end yields: as listed, and for a plain file its size on disk."""

HOURLY = ("partition", "host", "file", "hour", "level", "lines", "bytes", "no_ts_lines")
"""Table `hourly` (partitioned by `date`): the one table that is counted from lines, all others derive from it.

`hour` is the hour of the event by the line's own time stamp where it has one that we know, else of the time at which
JetStream stored the segment's first block; `no_ts_lines` says how many of `lines` are of the second kind.
"""

AUDIT = (
    "partition",
    "host",
    "file",
    "status",
    "segments",
    "lines_manifest",
    "lines_counted",
    "bytes_manifest",
    "bytes_counted",
    "gap_bytes",
    "duplicates",
    "joins",
    "first_seq",
    "last_seq",
    "segments_missing",
    "segments_differing",
    "files_unregistered",
)
"""Table `audit` (partitioned by `date`): per log file, what the manifests list against what was read.

A sealed file that no manifest lists has a row of its own with status `unregistered` and its stored name in `file`.
"""

LEVELS = ("fatal", "error", "warn", "notice", "info", "debug", "trace", "none")
"""Every value of `level`, worst first; `none` where the line does not say."""
