"""The one pass over the lines: each line becomes a place in a group, and nothing is kept of it but that.

Only long columns are aggregated: a string or a struct would turn the hash aggregate into two sorts, so texts are
grouping keys. What is needed twice is a column of a step of its own, for Spark evaluates an expression as often as it
is mentioned. Which steps there are depends on what the day holds: each costs code that Java has to compile.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from spark_analytics import access, auth, levels, parse
from spark_analytics.families import ANY, NONE, TIME_KEYS, Kind, Writing
from spark_analytics.patterns import columns, rules

LEVEL_KEYS = ("level", "lvl", "severity", "levelname", "loglevel", "log.level")

HEAD_CHARACTERS = auth.AUTH_PREFIX
"""Characters of a line that are looked at for its level and for who signed in."""

SEGMENT_COLUMNS = ("uri", "segment", "kind", *parse.WRITING, "header", "level_pattern")
"""What is known of a line by its segment."""

GROUP = ("segment", "block_start", "hour", "level", "text", "auth", "user", "remote", "attempts")
GROUP_OF_REQUESTS = ("status", "path", "latency")

_JSON = T.StructType(
    [
        T.StructField(key, T.StringType())
        for key in dict.fromkeys(
            (*TIME_KEYS, *LEVEL_KEYS, *rules.MESSAGE_KEYS, *(key for keys in access.JSON_KEYS.values() for key in keys))
        )
    ]
)


def json_schema() -> T.StructType:
    """The keys of a JSON line that anybody asks for, each as text."""
    return _JSON


@dataclass(frozen=True, slots=True)
class Written:
    """How the day's log files are written: what the scan has to look for."""

    forms: frozenset[str]
    kinds: frozenset[Kind]

    @classmethod
    def of(cls, writings: Iterable[Writing]) -> "Written":
        """Of all the day's log files together."""
        known = set(writings)
        return cls(
            frozenset(parse.writing(one.family)[1] for one in known),
            frozenset(one.kind for one in known)
            | ({Kind.SYSLOG} if any(one.family == ANY for one in known) else set()),
        )

    @property
    def requests(self) -> bool:
        """Whether there may be web servers' lines."""
        return bool(self.kinds & {Kind.ACCESS, Kind.JSON})


def segment_columns(uri: str, number: int, writing: Writing) -> tuple[str | int, ...]:
    """The values of `SEGMENT_COLUMNS` of a segment."""
    return uri, number, writing.kind.value, *parse.writing(writing.family), rules.header(writing.family), writing.level


def count_rows(rows: DataFrame, segments: DataFrame, written: Written) -> DataFrame:
    """Lines and bytes per segment, block, hour and everything that a table asks for.

    `rows` has (value, file_path, block_start, row), `segments` the `SEGMENT_COLUMNS`. Hours and times are in seconds
    and hours since 1970, without their year where the line names none (`parse.meant`). `first_row` and `last_row` are
    places in the block; a line counts a byte for its newline.
    """
    known = rows.join(F.broadcast(segments.withColumnRenamed("uri", "file_path")), on="file_path", how="inner")
    return (
        known.transform(_looked_at, written)
        .transform(_dated, written)
        .transform(_told, written)
        .groupBy(*GROUP, *GROUP_OF_REQUESTS)
        .agg(
            F.count(F.lit(1)).alias("lines"),
            F.sum("bytes").alias("bytes"),
            F.min("row").alias("first_row"),
            F.max("row").alias("last_row"),
            F.min("second").alias("first_second"),
            F.max("second").alias("last_second"),
            F.sum("sent").alias("sent"),
        )
        .withColumn("text", F.rtrim("text", F.lit("\r")))  # of a group, not of each line
    )


def _looked_at(known: DataFrame, written: Written) -> DataFrame:
    """Each line with the text of its time, its fields where it is JSON, and its bytes."""
    line = F.col("value")
    fields = F.when(F.col("kind") == Kind.JSON.value, F.from_json(line, _JSON)) if Kind.JSON in written.kinds else None
    return known.withColumns(
        {
            "bytes": (F.octet_length("value") + F.lit(1)).cast("bigint"),
            "stamp": parse.stamp_text(line),
            "head": _head(line),
            "fields": fields if fields is not None else F.lit(None).cast(_JSON),
        }
    )


def _dated(looked: DataFrame, written: Written) -> DataFrame:
    """Each line with its second, and with the parts of its request."""
    line, fields = F.col("value"), F.col("fields")
    in_json = _first(fields, TIME_KEYS) if Kind.JSON in written.kinds else F.lit(None)
    found = F.lit(None).cast("array<string>")
    if Kind.JSON in written.kinds:
        found = F.when(F.col("kind") == Kind.JSON.value, access.json_parts(fields)).otherwise(found)
    if Kind.ACCESS in written.kinds:
        found = F.when(F.col("kind") == Kind.ACCESS.value, access.parts(line)).otherwise(found)
    return looked.withColumns(
        {
            "second": parse.event_second(line, F.col("stamp"), in_json, set(written.forms)),
            "parts": found,
            "seems": _syslog(auth.marked(F.col("head")), written),
        }
    )


def _syslog(looked: Column, written: Written) -> Column:
    if Kind.SYSLOG not in written.kinds:
        return F.lit(None).cast("string")
    return F.when((F.col("kind") == Kind.SYSLOG.value) | (F.col("family") == ANY), looked)


def _told(dated: DataFrame, written: Written) -> DataFrame:
    """Each line as the columns of `GROUP` and what is summed. Without a time where others have one it says nothing."""
    speaks = F.col("second").isNotNull() | (F.col("family") == NONE)
    parts, requests = F.col("parts"), written.requests
    nothing = F.lit(None)
    staged = dated.withColumns(
        {
            "status": access.status(parts) if requests else nothing.cast("int"),
            "latency": access.latency(parts) if requests else nothing.cast("int"),
            "beginning": F.substring("head", 1, levels.LEVEL_PREFIX),
            "person": auth.parts(F.col("head"), F.col("seems")) if Kind.SYSLOG in written.kinds else _nobody(),
        }
    )
    asked, person = F.col("status").isNotNull(), F.col("person")
    signs = F.coalesce(auth.proved(person), F.lit(False))
    masked = columns.masked(_message(written), F.col("header"))
    return staged.select(
        "segment",
        "block_start",
        "row",
        "bytes",
        "second",
        F.expr("second div 3600").alias("hour"),
        F.when(speaks, _level(written)).otherwise("none").alias("level"),
        F.when(asked, access.text(parts)).when(speaks, masked).alias("text"),
        F.when(signs, auth.kind(F.col("seems"), auth.user(person))).alias("auth"),
        F.when(signs, auth.user(person)).alias("user"),
        F.when(signs, auth.remote(person)).when(asked, access.client(parts)).alias("remote"),
        F.when(signs, auth.attempts(person)).alias("attempts"),
        "status",
        F.when(asked, access.path(parts, F.col("status"), F.col("latency"))).alias("path"),
        F.when(asked, F.col("latency")).alias("latency"),
        (F.when(asked, access.sent(parts)) if requests else nothing.cast("bigint")).alias("sent"),
    )


def _nobody() -> Column:
    return F.lit(None).cast("array<string>")


def _head(line: Column) -> Column:
    """The line as far as most expressions look: bytes are asked first, as counting characters is a pass over them."""
    return F.when(F.octet_length(line) <= HEAD_CHARACTERS, line).otherwise(F.substring(line, 1, HEAD_CHARACTERS))


def _message(written: Written) -> Column:
    """What the line tells: of JSON its message, if it has one."""
    line = F.col("value")
    if Kind.JSON not in written.kinds:
        return line
    return F.when(
        F.col("kind") == Kind.JSON.value, F.coalesce(_first(F.col("fields"), rules.MESSAGE_KEYS), line)
    ).otherwise(line)


def _level(written: Written) -> Column:
    kind, level = F.col("kind"), levels.of_line(F.col("beginning"), F.col("level_pattern"))
    if Kind.JSON in written.kinds:
        named = levels.of_name(_first(F.col("fields"), LEVEL_KEYS))
        told = F.coalesce(named, levels.of_status(F.col("status")), F.lit("none"))
        level = F.when(kind == Kind.JSON.value, told).otherwise(level)
    if Kind.ACCESS in written.kinds:
        by_status = F.coalesce(levels.of_status(F.col("status")), F.lit("none"))
        level = F.when(kind == Kind.ACCESS.value, by_status).otherwise(level)
    return level


def _first(fields: Column, keys: Iterable[str]) -> Column:
    return F.coalesce(*(fields.getField(key) for key in keys))
