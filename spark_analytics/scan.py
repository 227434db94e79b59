"""The one pass over the lines: each line becomes a place in a group, and nothing is kept of it but that.

What lines that are alike but for their numbers have in common (their level, their message) is asked of the group, once.
Only long columns are aggregated: a string or a struct would turn the hash aggregate into two sorts, so texts are
grouping keys. What is needed twice is a column of a step of its own, for Spark evaluates an expression as often as it
is mentioned. Which steps there are depends on what the day holds: each costs code that Java has to compile.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from spark_analytics import access, auth, levels, parse
from spark_analytics.families import ANY, NONE, TIME_KEYS, Kind, Writing
from spark_analytics.patterns import columns, rules

LEVEL_KEYS = ("level", "lvl", "severity", "levelname", "loglevel", "log.level")

HEAD_CHARACTERS = auth.AUTH_PREFIX
"""Characters of a line that are looked at for its level and for who signed in."""

SEGMENT_SCHEMA = (
    "uri STRING, segment INT, writing INT, waits BOOLEAN, kind STRING, family STRING, stamp_form STRING,"
    " stamp_pattern STRING, stamp_shape STRING, stamp_characters INT, ahead STRING, behind STRING, level_pattern STRING"
)
"""What is known of a line by its segment: `writing` is a number of `Written.known`, `waits` as `waits` says."""

GROUP = ("segment", "block_start", "hour", "level", "text", "auth", "user", "remote", "attempts")
GROUP_OF_REQUESTS = ("status", "path", "latency")
SUMS = ("lines", "bytes", "first_row", "last_row", "first_second", "last_second", "sent")

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


def waits(writing: Writing) -> bool:
    """Whether level and message of such lines are asked of their group: it has all of them but the numbers."""
    is_text = writing.kind in {Kind.PLAIN, Kind.SYSLOG}
    return is_text and not rules.ahead(writing.family) and not writing.varies


@dataclass(frozen=True)
class Written:
    """How the day's log files are written: what the scan has to look for."""

    known: tuple[Writing, ...]

    @classmethod
    def of(cls, writings: Iterable[Writing]) -> "Written":
        """Of all the day's log files together."""
        return cls(tuple(sorted(set(writings), key=repr)) or (Writing(NONE, Kind.PLAIN),))

    @cached_property
    def forms(self) -> frozenset[str]:
        """The forms of their times."""
        return frozenset(parse.writing(one.family)[1] for one in self.known)

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """What else their lines say."""
        mixed = {Kind.SYSLOG} if any(one.family == ANY for one in self.known) else set()
        return frozenset({one.kind for one in self.known} | mixed)

    @property
    def requests(self) -> bool:
        """Whether there may be web servers' lines."""
        return bool(self.kinds & {Kind.ACCESS, Kind.JSON})

    @property
    def texts_at_once(self) -> bool:
        """Whether there are lines of text that do not wait."""
        return any(one.kind in {Kind.PLAIN, Kind.SYSLOG} and not waits(one) for one in self.known)

    def columns(self, uri: str, number: int, writing: Writing) -> tuple[str | int | bool, ...]:
        """The values of `SEGMENT_SCHEMA` of a segment."""
        at_once = "" if waits(writing) else rules.behind(writing.family)
        time = parse.writing(writing.family)
        ahead = rules.ahead(writing.family)
        place = self.known.index(writing)
        return uri, number, place, waits(writing), writing.kind.value, *time, ahead, at_once, writing.level


def count_rows(rows: DataFrame, segments: DataFrame, written: Written) -> DataFrame:
    """Lines and bytes per segment, block, hour and everything that a table asks for.

    `rows` has (value, file_path, block_start, row), `segments` is of `SEGMENT_SCHEMA`. Some groups may differ in their
    sums alone. Hours and times are in seconds
    and hours since 1970, without their year where the line names none (`parse.meant`). `first_row` and `last_row` are
    places in the block; a line counts a byte for its newline.
    """
    known = rows.join(F.broadcast(segments.withColumnRenamed("uri", "file_path")), on="file_path", how="inner")
    return (
        known.transform(_looked_at, written)
        .transform(_dated, written)
        .transform(_told, written)
        .groupBy("writing", *GROUP, *GROUP_OF_REQUESTS)
        .agg(
            F.count(F.lit(1)).alias("lines"),
            F.sum("bytes").alias("bytes"),
            F.min("row").alias("first_row"),
            F.max("row").alias("last_row"),
            F.min("second").alias("first_second"),
            F.max("second").alias("last_second"),
            F.sum("sent").alias("sent"),
        )
        .transform(_heard, written)
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
            "person": auth.parts(F.col("head"), F.col("seems")) if Kind.SYSLOG in written.kinds else _nobody(),
        }
    )
    asked, person = F.col("status").isNotNull(), F.col("person")
    signs = F.coalesce(auth.proved(person), F.lit(False))
    return staged.select(
        "writing",
        "segment",
        "block_start",
        "row",
        "bytes",
        "second",
        F.expr("second div 3600").alias("hour"),
        _level(written, speaks).alias("level"),
        F.when(asked, access.text(parts)).when(speaks, _text(written)).alias("text"),
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


def _text(written: Written) -> Column:
    """The message masked; of a line that waits the whole line, and in it the number of syslog's PRI as it is."""
    ahead = F.col("ahead") if any(rules.ahead(one.family) for one in written.known) else None
    text = columns.numbered(_message(written), ahead)
    if any(one.varies for one in written.known):
        text = columns.headless(text, F.col("behind"))
    begun = F.regexp_extract("head", rules.BEGUN, 0)
    prior = F.concat(begun, F.regexp_replace(text, f"^<{rules.MASK}>", ""))
    return F.when(F.col("waits") & F.startswith("value", F.lit("<")), prior).otherwise(text)


def _level(written: Written, speaks: Column) -> Column:
    """The level; null of a line that waits."""
    kind, level = F.col("kind"), F.lit("none")
    if written.texts_at_once:
        head = F.substring("head", 1, levels.LEVEL_PREFIX)
        level = levels.of_line(head, F.col("level_pattern"), F.col("family"))
    if Kind.JSON in written.kinds:
        named = levels.of_name(_first(F.col("fields"), LEVEL_KEYS))
        told = F.coalesce(named, levels.of_status(F.col("status")), F.lit("none"))
        level = F.when(kind == Kind.JSON.value, told).otherwise(level)
    if Kind.ACCESS in written.kinds:
        by_status = F.coalesce(levels.of_status(F.col("status")), F.lit("none"))
        level = F.when(kind == Kind.ACCESS.value, by_status).otherwise(level)
    return F.when(~F.col("waits"), F.when(speaks, level).otherwise("none"))


def _heard(groups: DataFrame, written: Written) -> DataFrame:
    """Groups with the level and the message of the lines that waited."""
    known = groups.withColumns(_of_writing(written))
    text = F.regexp_replace("text", rules.NUMBER, rules.MASK)  # when syslog's PRI has told the level
    head = F.substring("text", 1, levels.LEVEL_PREFIX)
    level = levels.of_line(head, F.col("level_pattern"), F.col("family"))
    told = F.when(F.col("waits"), columns.headless(text, F.col("behind"))).otherwise(F.col("text"))
    heard = {
        "level": F.coalesce("level", F.when(F.col("text").isNull(), "none"), level),
        "text": F.rtrim(told, F.lit("\r")),
    }
    return known.withColumns(heard).select(*GROUP, *GROUP_OF_REQUESTS, *SUMS)


def _of_writing(written: Written) -> dict[str, Column]:
    """What is known of a group by how its lines are written."""
    rows = ((waits(one), one.family, rules.behind(one.family), one.level) for one in written.known)
    values = zip(("waits", "family", "behind", "level_pattern"), zip(*rows, strict=True), strict=True)
    return {name: F.get(F.array(*map(F.lit, of_each)), F.col("writing")) for name, of_each in values}


def _first(fields: Column, keys: Iterable[str]) -> Column:
    return F.coalesce(*(fields.getField(key) for key in keys))
