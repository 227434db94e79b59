"""The one pass over the lines: each line becomes a place in a group, and nothing is kept of it but that.

What lines that are alike but for their numbers have in common (their level, their message) is asked of the group, once.
Only long columns are aggregated: a string or a struct would turn the hash aggregate into two sorts, so texts are
grouping keys. What is needed twice is a column of a step of its own, for Spark evaluates an expression as often as it
is mentioned. Which steps there are depends on what the day holds: each costs code that Java has to compile.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from spark_analytics.lines import severity, timestamps
from spark_analytics.lines.log_formats import ANY, NONE, TIME_KEYS, Kind, Writing
from spark_analytics.metrics import auth_events, web_requests
from spark_analytics.patterns import mask, mask_spark

LEVEL_KEYS = ("level", "lvl", "severity", "levelname", "loglevel", "log.level")

HEAD_CHARACTERS = auth_events.AUTH_PREFIX
"""Characters of a line that are looked at for its level and for who signed in."""

SEGMENT_SCHEMA = "uri STRING, segment INT, writing INT, waits BOOLEAN, kind INT, stamp_form INT, stamp_characters INT"
"""What is known of a line by its segment. `writing` is a number of `Written.known`, which says all the rest (`each`): a
text that comes with the segment is made anew for each line."""

_KINDS = {kind: number for number, kind in enumerate(Kind)}

GROUP = ("segment", "block_start", "hour", "level", "text", "auth", "user", "remote", "attempts")
GROUP_OF_REQUESTS = ("status", "path", "latency")
SUMS = ("lines", "bytes", "first_row", "last_row", "first_second", "last_second", "sent")
_NAMES = ("user", "remote", "path")
"""Texts of strangers that tables hold: bytes that are no UTF-8 become the same mark in all of them."""

_JSON = T.StructType(
    [
        T.StructField(key, T.StringType())
        for key in dict.fromkeys(
            (
                *TIME_KEYS,
                *LEVEL_KEYS,
                *mask.MESSAGE_KEYS,
                *(key for keys in web_requests.JSON_KEYS.values() for key in keys),
            )
        )
    ]
)


def json_schema() -> T.StructType:
    """The keys of a JSON line that anybody asks for, each as text."""
    return _JSON


def waits(writing: Writing) -> bool:
    """Whether level and message of such lines are asked of their group: it has all of them but the numbers."""
    is_text = writing.kind in {Kind.PLAIN, Kind.SYSLOG}
    return is_text and not mask.ahead(writing.family) and not writing.varies


@dataclass(frozen=True)
class Written:
    """How the day's log files are written: what the scan has to look for."""

    known: tuple[Writing, ...]

    @classmethod
    def of(cls, writings: Iterable[Writing]) -> "Written":
        """Of all the day's log files together."""
        return cls(tuple(sorted(set(writings), key=repr)) or (Writing(NONE, Kind.PLAIN),))

    @cached_property
    def forms(self) -> frozenset[int]:
        """The forms of their times."""
        return frozenset(timestamps.writing(one.family)[1] for one in self.known)

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
    def texts_at_once(self) -> Sequence[Writing]:
        """How lines of text are written that do not wait."""
        return [one for one in self.known if one.kind in {Kind.PLAIN, Kind.SYSLOG} and not waits(one)]

    @property
    def texts_that_wait(self) -> Sequence[Writing]:
        """How those are written that do."""
        return [one for one in self.known if waits(one)]

    def columns(self, uri: str, number: int, writing: Writing) -> tuple[str | int | bool, ...]:
        """The values of `SEGMENT_SCHEMA` of a segment."""
        _, form, *_, characters = timestamps.writing(writing.family)
        return uri, number, self.known.index(writing), waits(writing), _KINDS[writing.kind], form, characters

    def each(self, text: Callable[[Writing], str]) -> Column:
        """The `text` of a line by how it is written."""
        texts = [text(one) for one in self.known]
        return F.lit(texts[0]) if len(set(texts)) == 1 else F.get(severity.constants(texts), F.col("writing"))


def count_rows(rows: DataFrame, segments: DataFrame, written: Written) -> DataFrame:
    """Lines and bytes per segment, block, hour and everything that a table asks for.

    `rows` has (value, file_path, block_start, row), `segments` is of `SEGMENT_SCHEMA`. Some groups may differ in their
    sums alone. Hours and times are in seconds
    and hours since 1970, without their year where the line names none (`parse.meant`). `first_row` and `last_row` are
    places in the block; a line counts a byte for its newline. What lines that wait say is asked by `heard`.
    """
    known = segments.select(F.col("uri").alias("file_path"), *map(_never_null, segments.schema.fields[1:]))
    return (
        rows.join(F.broadcast(known), on="file_path", how="inner")
        .transform(_looked_at, written)
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
        .withColumns({name: F.make_valid_utf8(name) for name in _NAMES})
    )


def _never_null(field: T.StructField) -> Column:
    """A column that has no null, told so that Spark's code asks no line for one."""
    some = F.lit(False) if isinstance(field.dataType, T.BooleanType) else F.lit(0)
    return F.coalesce(field.name, some).alias(field.name)


def _is(kind: Kind) -> Column:
    return F.col("kind") == _KINDS[kind]


def _is_of(family: str) -> Column:
    """Whether the line is of a family without a pattern of its own."""
    return F.col("stamp_form") == timestamps.FORMS[family]


def _looked_at(known: DataFrame, written: Written) -> DataFrame:
    """Each line with the text of its time, its fields where it is JSON, and its bytes."""
    line = F.col("value")
    fields = F.when(_is(Kind.JSON), F.from_json(line, _JSON)) if Kind.JSON in written.kinds else None
    stamp = {
        "stamp_pattern": written.each(lambda one: timestamps.writing(one.family)[2]),
        "stamp_shape": written.each(lambda one: timestamps.writing(one.family)[3]),
    }
    return known.withColumns(stamp).withColumns(
        {
            "bytes": (F.octet_length("value") + F.lit(1)).cast("bigint"),
            "stamp": timestamps.stamp_text(line, set(written.forms)),
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
        found = F.when(_is(Kind.JSON), web_requests.json_parts(fields)).otherwise(found)
    if Kind.ACCESS in written.kinds:
        found = F.when(_is(Kind.ACCESS), web_requests.parts(line)).otherwise(found)
    return looked.withColumns(
        {
            "second": timestamps.event_second(line, F.col("stamp"), in_json, set(written.forms)),
            "parts": found,
            "seems": _syslog(auth_events.marked(F.col("head")), written),
        }
    )


def _syslog(looked: Column, written: Written) -> Column:
    if Kind.SYSLOG not in written.kinds:
        return F.lit(None).cast("string")
    return F.when(_is(Kind.SYSLOG) | _is_of(ANY), looked)


def _told(dated: DataFrame, written: Written) -> DataFrame:
    """Each line as the columns of `GROUP` and what is summed. Without a time where others have one it says nothing."""
    speaks = F.col("second").isNotNull() | _is_of(NONE)
    parts, requests = F.col("parts"), written.requests
    nothing = F.lit(None)
    staged = dated.withColumns(
        {
            "status": web_requests.status(parts) if requests else nothing.cast("int"),
            "latency": web_requests.latency(parts) if requests else nothing.cast("int"),
            "begun": F.when(~F.col("waits"), F.substring("head", 1, severity.LEVEL_PREFIX)),
            "person": auth_events.parts(F.col("head"), F.col("seems")) if Kind.SYSLOG in written.kinds else _nobody(),
        }
    )
    asked, person = F.col("status").isNotNull(), F.col("person")
    signs = F.coalesce(auth_events.proved(person), F.lit(False))
    return staged.select(
        "writing",
        "segment",
        "block_start",
        "row",
        "bytes",
        "second",
        F.expr("second div 3600").alias("hour"),
        _level(written, speaks).alias("level"),
        F.when(asked, web_requests.text(parts)).when(speaks, _text(written)).alias("text"),
        F.when(signs, auth_events.kind(F.col("seems"), auth_events.user(person))).alias("auth"),
        F.when(signs, auth_events.user(person)).alias("user"),
        F.when(signs, auth_events.remote(person)).when(asked, web_requests.client(parts)).alias("remote"),
        F.when(signs, auth_events.attempts(person)).alias("attempts"),
        "status",
        F.when(asked, web_requests.path(parts, F.col("status"), F.col("latency"))).alias("path"),
        F.when(asked, F.col("latency")).alias("latency"),
        (F.when(asked, web_requests.sent(parts)) if requests else nothing.cast("bigint")).alias("sent"),
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
    return F.when(_is(Kind.JSON), F.coalesce(_first(F.col("fields"), mask.MESSAGE_KEYS), line)).otherwise(line)


def _text(written: Written) -> Column:
    """The message masked; of a line that waits the whole line without its digits, but for those of syslog's PRI."""
    line, begun = mask_spark.cut(F.col("value")), F.regexp_extract("head", mask.BEGUN, 0)
    behind = F.substr(line, F.length(begun) + 1)
    told = F.concat(begun, _hidden(behind, written))
    waiting = F.when(F.startswith("value", F.lit("<")), told).otherwise(_hidden(line, written))
    others = [one for one in written.known if not waits(one)]
    if not others:
        return waiting
    cuts = any(mask.ahead(one.family) for one in others)
    ahead = written.each(lambda one: mask.ahead(one.family)) if cuts else None
    text = mask_spark.numbered(_message(written), ahead)
    if any(one.varies for one in others):
        text = mask_spark.headless(text, written.each(lambda one: "" if waits(one) else mask.behind(one.family)))
    return text if len(others) == len(written.known) else F.when(F.col("waits"), waiting).otherwise(text)


def _hidden(line: Column, written: Written) -> Column:
    """A line that waits without its digits, or without its numbers where else too few were alike."""
    uneven = [number for number, one in enumerate(written.known) if waits(one) and one.uneven]
    hidden = mask_spark.digits_hidden(line)
    return (
        F.when(F.col("writing").isin(uneven), mask_spark.numbered(line, None)).otherwise(hidden) if uneven else hidden
    )


def _level(written: Written, speaks: Column) -> Column:
    """The level; null of a line that waits."""
    level = F.lit("none")
    if written.texts_at_once:
        level = _said(F.col("begun"), written, written.texts_at_once)
    if Kind.JSON in written.kinds:
        named = severity.of_name(_first(F.col("fields"), LEVEL_KEYS))
        told = F.coalesce(named, severity.of_status(F.col("status")), F.lit("none"))
        level = F.when(_is(Kind.JSON), told).otherwise(level)
    if Kind.ACCESS in written.kinds:
        by_status = F.coalesce(severity.of_status(F.col("status")), F.lit("none"))
        level = F.when(_is(Kind.ACCESS), by_status).otherwise(level)
    return F.when(~F.col("waits"), F.when(speaks, level).otherwise("none"))


def _said(head: Column, written: Written, writings: Iterable[Writing]) -> Column:
    """The level of lines that begin with `head` and are of one of `writings`."""
    has_place = any(one.level for one in writings)
    has_letter = any(one.family in severity.LETTERED_FAMILIES for one in writings)
    placed = written.each(lambda one: one.level) if has_place else None
    family = written.each(lambda one: one.family) if has_letter else None
    return severity.of_line(head, placed, family)


def heard(groups: DataFrame, written: Written) -> DataFrame:
    """`groups` of `count_rows`, or (writing, level, text) of some, with the level and the message of lines that waited.

    `fingerprint` is the message's xxhash64, 0 where there is none; `text` is it as tables hold it.
    """
    waited = F.col("writing").isin([number for number, one in enumerate(written.known) if waits(one)])
    behind = written.each(lambda one: mask.behind(one.family))
    begun = F.regexp_extract("text", mask.BEGUN, 0)
    rest = mask_spark.numbered(F.substr("text", F.length(begun) + 1), None)
    level = _said(F.substring(F.concat(begun, rest), 1, severity.LEVEL_PREFIX), written, written.texts_that_wait)
    text = F.concat(mask_spark.numbered(begun, None), rest)  # when syslog's PRI has told the level
    told = F.when(waited, mask_spark.headless(text, behind)).otherwise(F.col("text"))
    named = groups.withColumns(
        {
            "level": F.coalesce("level", F.when(F.col("text").isNull(), "none"), level),
            "text": F.rtrim(told, F.lit("\r")),
        }
    )
    fingerprint = F.when(F.col("text").isNull(), F.lit(0)).otherwise(F.xxhash64("text")).cast("bigint")
    return named.withColumns({"fingerprint": fingerprint, "text": F.make_valid_utf8("text")})


def _first(fields: Column, keys: Iterable[str]) -> Column:
    return F.coalesce(*(fields.getField(key) for key in keys))
