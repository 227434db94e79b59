"""Expressions of the scan: one pass over the lines of a day that reduces them to groups with equal keys.

Lines that differ only in their numbers have the same level and message, so these are evaluated once for a group
(`classify_groups`) where the log format allows it: such lines are *deferred*. `digits_hidden` is applied to them
instead of the mask; it is faster, and leaves groups that differ in the length of their numbers. Only numbers are
aggregated: a string or a struct would turn the hash aggregate into two sorts, so texts are grouping keys. An expression
that is used twice is a column of an earlier step, because Spark evaluates an expression each time it occurs. The steps
contain only what the formats of the day need, because Java has to compile their code.
"""

import datetime as dt
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from shipper import line_zones
from shipper.line_formats import ANY, NONE, TIME_PATHS
from shipper.line_levels import JUL_SECOND_PATTERN, LEVEL_PREFIX, RULES, TEXT_PATHS, Rule
from spark_analytics.lines import json_fields, log_formats, severity, timestamps
from spark_analytics.lines.log_formats import LineKind, LogFormat
from spark_analytics.metrics import auth_events, web_requests
from spark_analytics.patterns import mask
from spark_analytics.runtime import tuning

HEAD_CHARACTERS = auth_events.AUTH_PREFIX
"""Characters at the start of a line that are searched for its level and for logins."""

SEGMENT_SCHEMA = "uri STRING, segment INT, format INT, deferred BOOLEAN, kind INT, stamp_form INT, stamp_characters INT"
"""Columns that a line gets from its segment. `format` is an index in `DayFormats.known`, by which `DayFormats.each`
selects texts: a text column of the segment would be copied for each line."""

_KINDS = {kind: number for number, kind in enumerate(LineKind)}

KEY = (
    "format", "segment", "block_start", "hour", "level", "text", "auth", "user", "remote", "attempts", "login_second",
    "status", "path", "latency",
)  # fmt: skip
SUMMED = {
    "lines": ("row", "count"),
    "bytes": ("bytes", "sum"),
    "first_row": ("row", "min"),
    "last_row": ("row", "max"),
    "first_second": ("second", "min"),
    "last_second": ("second", "max"),
    "sent": ("sent", "sum"),
}
"""Columns of a group besides `KEY`: a column of its lines, and how it is aggregated."""

_NAMES = ("user", "remote", "path")
"""Texts chosen by any user who can write to a log: invalid UTF-8 becomes the same replacement character everywhere."""

JUL = "jul"
JSON_KEYS = json_fields.keys_of(
    (*TIME_PATHS, *severity.JSON_PATHS, *mask.MESSAGE_KEYS, *itertools.chain(*web_requests.JSON_KEYS.values()))
)
"""The keys of a JSON line that are read."""


MAX_CLOCKS = 6
"""Usual clocks of a day that have code of their own; the most formats have them."""


def is_deferred(log_format: LogFormat) -> bool:
    """Whether level and message are evaluated for the group: its text has everything but the numbers."""
    is_text = log_format.kind in {LineKind.PLAIN, LineKind.SYSLOG}
    is_masked = not mask.header_before_masking(log_format.family) and not log_format.varies
    return is_text and is_masked and not log_format.is_numbered


@dataclass(frozen=True)
class DayFormats:
    """The distinct log formats of a day."""

    known: tuple[LogFormat, ...]

    @classmethod
    def of(cls, formats: Iterable[LogFormat]) -> "DayFormats":
        """The distinct ones of `formats`; a plain format without times if there are none."""
        return cls(tuple(sorted(set(formats), key=repr)) or (LogFormat(NONE, LineKind.PLAIN),))

    @cached_property
    def forms(self) -> frozenset[int]:
        """The forms of their time stamps."""
        return frozenset(timestamps.stamp_columns(one.family, one.zone)[1] for one in self.known)

    @cached_property
    def kinds(self) -> frozenset[LineKind]:
        """The kinds of their lines."""
        mixed = {LineKind.SYSLOG} if any(one.family == ANY for one in self.known) else set()
        return frozenset({one.kind for one in self.known} | mixed)

    @property
    def requests(self) -> bool:
        """Whether there may be lines of web servers."""
        return bool(self.kinds & {LineKind.ACCESS, LineKind.JSON})

    def columns(self, uri: str, number: int, log_format: LogFormat) -> tuple[str | int | bool, ...]:
        """The values of `SEGMENT_SCHEMA` of a segment."""
        _, form, *_, characters = timestamps.stamp_columns(log_format.family, log_format.zone)
        index, kind = self.known.index(log_format), _KINDS[log_format.kind]
        return uri, number, index, is_deferred(log_format), kind, form, characters

    def host_zone(self, day: dt.date) -> timestamps.HostZone | None:
        """The zones of the hosts; None: all are in UTC."""
        if not any(one.zone for one in self.known):
            return None
        names = self.each(lambda one: f",{','.join(line_zones.own_names(one.zone, day.year))},")
        return timestamps.HostZone(self.each(lambda one: one.zone), names, day)

    @cached_property
    def clocks(self) -> Mapping[str, Sequence[int]]:
        """The formats of each usual clock; on a host that is not in UTC a clock without an offset is not usual."""
        found: dict[str, list[int]] = {}
        for number, one in enumerate(self.known):
            if one.clock and (not one.zone or log_formats.offset_of(one.clock)):
                found.setdefault(one.clock, []).append(number)
        return dict(sorted(found.items(), key=lambda each: -len(each[1]))[:MAX_CLOCKS])

    def usual_time(self, hidden: Column) -> Column:
        """The text of the time of a line that has the usual one of its file, see `timestamps.usual_text`."""
        front, clocks = F.col("front"), self.clocks.items()
        texts = (self.when_of(numbers, timestamps.usual_text(front, hidden, clock)) for clock, numbers in clocks)
        return F.coalesce(*texts, F.lit(None).cast("string"))

    @cached_property
    def clocked(self) -> Sequence[int]:
        """The formats of `clocks`."""
        return sorted(itertools.chain(*self.clocks.values()))

    @cached_property
    def hidden_whole(self) -> Sequence[int]:
        """Those of whose lines the whole text is needed, each digit replaced by 0."""
        known = self.known
        return [number for number in self.clocked if is_deferred(known[number]) and not known[number].uneven]

    def when_of(self, numbers: Sequence[int], value: Column) -> Column:
        """`value` of lines of the formats `numbers`; else null."""
        return value if len(numbers) == len(self.known) else F.when(F.col("format").isin(*numbers), value)

    def each(self, text: Callable[[LogFormat], str]) -> Column:
        """The `text` of a line by its format."""
        texts = [text(one) for one in self.known]
        return F.lit(texts[0]) if len(set(texts)) == 1 else F.get(severity.constants(texts), F.col("format"))


def with_segment(rows: DataFrame, segments: DataFrame) -> DataFrame:
    """`rows` (value, file_path, block_start, row) with the columns of their segments, which are of `SEGMENT_SCHEMA`.

    The columns are declared to have no nulls, so that Spark's code does not check each line.
    """
    defaults = {name: F.lit(False) if name == "deferred" else F.lit(0) for name in segments.columns[1:]}
    never_null = (F.coalesce(name, default).alias(name) for name, default in defaults.items())
    known = segments.select(F.col("uri").alias("file_path"), *never_null)
    return rows.join(F.broadcast(known), on="file_path", how="inner")


@dataclass(frozen=True, slots=True)
class LineColumns:
    """What is evaluated for each line, independent of the data frame of the lines."""

    steps: tuple[Mapping[str, Column], ...]  #: a step may use the columns of those before
    kept: Sequence[Column | str]  #: `KEY` and what is summed

    @classmethod
    def of(cls, formats: DayFormats, day: dt.date) -> "LineColumns":
        """Those that lines of `formats` need that were stored on `day`."""
        patterns = {
            "stamp_pattern": formats.each(lambda one: timestamps.stamp_columns(one.family, one.zone)[2]),
            "stamp_shape": formats.each(lambda one: timestamps.stamp_columns(one.family, one.zone)[3]),
        }
        line = F.col("value")
        usual_time = formats.usual_time(F.col("hidden"))
        times = timestamps.Dated(line, F.col("json_time"), formats.forms, usual_time, formats.host_zone(day))
        usual, own, others, dated, second = times.steps()
        steps = (
            {**patterns, "front": timestamps.front_of(line)},
            {"hidden": _hidden(formats)},
            {**usual, **_fields(formats)},
            {**own, **_candidates(formats)},
            others,
            {**dated, **_parts(formats)},
            {**second, "level_head": severity.uncoloured(F.col("level_text"))},
        )
        return cls(steps, _key(formats))

    def of_lines(self, rows: DataFrame) -> DataFrame:
        """The columns `kept` of each of `rows`."""
        with tuning.temporary_settings(rows.sparkSession, json_fields.CASE_SENSITIVE):
            for step in self.steps:
                rows = rows.withColumns(dict(step))
            return rows.select(*self.kept)


def group_lines(rows: DataFrame, columns: LineColumns) -> DataFrame:
    """Lines and bytes per segment, block, hour and everything that a table needs.

    `rows` has (value, block_start, row) and the columns of `with_segment`. Several groups may have equal keys. Times
    are in seconds and hours since 1970, without their year where the line has none (`timestamps.resolve_year`).
    `first_row` and `last_row` are positions in the block; a line counts a byte for its newline. Of deferred lines level
    and message are not evaluated: `classify_groups` does it. Lines that accept or refuse a password have their second
    as a key (`login_second`): their order matters.
    """
    summed = [getattr(F, function)(column).alias(name) for name, (column, function) in SUMMED.items()]
    return _with_valid_names(columns.of_lines(rows).groupBy(*KEY).agg(*summed))


def lines_to_group(rows: DataFrame, columns: LineColumns) -> DataFrame:
    """What `group_lines` groups: `KEY` and the summed columns of each line."""
    return _with_valid_names(columns.of_lines(rows))


def _with_valid_names(rows: DataFrame) -> DataFrame:
    return rows.withColumns({name: F.make_valid_utf8(name) for name in _NAMES})


def _is(kind: LineKind) -> Column:
    return F.col("kind") == _KINDS[kind]


def _is_of(family: str) -> Column:
    """Whether the line is of a family without a pattern of its own."""
    return F.col("stamp_form") == timestamps.FORMS[family]


def _fields(formats: DayFormats) -> dict[str, Column]:
    """The fields of a line where it is JSON, its first characters, and its bytes."""
    line, in_json = F.col("value"), LineKind.JSON in formats.kinds
    return {
        "bytes": (F.octet_length("value") + F.lit(1)).cast("bigint"),
        "head": severity.first_characters(line, HEAD_CHARACTERS),
        "fields": _parsed(line) if in_json else F.lit(None),
    }


def _hidden(formats: DayFormats) -> Column:
    """The text of a line, or its beginning, each digit replaced by 0, if it may begin with the usual clock."""
    if not formats.clocked:
        return F.lit(None).cast("string")
    line, front, whole = F.col("value"), F.col("front"), formats.hidden_whole
    text = front.cast("string")
    if whole:
        text = cut(line) if whole == formats.clocked else F.coalesce(formats.when_of(whole, cut(line)), text)
    return formats.when_of(formats.clocked, F.when(front.isNotNull(), digits_hidden(text)))


def _parsed(line: Column) -> Column:
    return F.when(_is(LineKind.JSON), json_fields.parsed(line, JSON_KEYS))


def _candidates(formats: DayFormats) -> dict[str, Column]:
    """What is read of an object, the parts of the request of a line, and the kind of login that it may be.

    Later steps do not use `fields`: between steps each of its hundred texts would be copied.
    """
    line, fields, none = F.col("value"), F.col("fields"), F.lit(None).cast("string")
    parts, candidate = F.lit(None).cast("array<string>"), none
    found = dict.fromkeys(("json_time", "json_level", "json_text", "json_serilog", "json_message"), none)
    if LineKind.JSON in formats.kinds:
        found = {
            "json_time": json_fields.first(fields, TIME_PATHS),
            "json_level": severity.of_fields(fields),
            "json_text": json_fields.first(fields, TEXT_PATHS),
            "json_serilog": severity.of_serilog(fields),
            "json_message": json_fields.first_text(fields, mask.MESSAGE_KEYS),
        }
        found = {name: severity.own_method(F.when(_is(LineKind.JSON), value)) for name, value in found.items()}
        parts = severity.own_method(F.when(_is(LineKind.JSON), web_requests.json_parts(fields)))
    if LineKind.ACCESS in formats.kinds:
        parts = F.when(_is(LineKind.ACCESS), web_requests.parts(line)).otherwise(parts)
    if LineKind.SYSLOG in formats.kinds:
        candidate = F.when(_is(LineKind.SYSLOG) | _is_of(ANY), auth_events.candidate_kind(F.col("head")))
    return {**found, "parts": parts, "candidate": candidate}


def _parts(formats: DayFormats) -> dict[str, Column]:
    """Status and latency of a request, the characters that have the level, and the parts of a login."""
    parts, null = F.col("parts"), F.lit(None)
    has_logins = LineKind.SYSLOG in formats.kinds
    return {
        "status": web_requests.status(parts) if formats.requests else null.cast("int"),
        "latency": severity.own_method(web_requests.latency(parts)) if formats.requests else null.cast("int"),
        "level_text": F.when(~F.col("deferred"), F.substring(_level_text(formats), 1, LEVEL_PREFIX)),
        "login": (
            severity.own_method(auth_events.parts(F.col("head"), F.col("candidate")))
            if has_logins
            else null.cast("array<string>")
        ),
    }


def _key(formats: DayFormats) -> Sequence[Column | str]:
    """The columns of `KEY` and those that are summed.

    A line without a time in a file whose other lines have one (a stack trace) has no level and no message, unless it
    is an object in JSON, or the second line of java.util.logging, which has both.
    """
    has_message = F.col("second").isNotNull() | _is_of(NONE)
    if jul := [number for number, one in enumerate(formats.known) if one.family == JUL]:
        has_message |= F.col("format").isin(jul) & F.col("value").rlike(JUL_SECOND_PATTERN)
    if LineKind.JSON in formats.kinds:
        has_message |= _is(LineKind.JSON) & F.col("value").startswith("{")
    parts, null = F.col("parts"), F.lit(None)
    is_request, login = F.col("status").isNotNull(), F.col("login")
    is_login = F.coalesce(auth_events.is_confirmed(login), F.lit(False))
    return (
        "format",
        "segment",
        "block_start",
        "row",
        "bytes",
        "second",
        F.expr("second div 3600").alias("hour"),
        severity.own_method(_level(formats, has_message)).alias("level"),
        severity.own_method(F.when(is_request, web_requests.text(parts)).when(has_message, _text(formats))).alias(
            "text"
        ),
        F.when(is_login, auth_events.kind(F.col("candidate"), login)).alias("auth"),
        F.when(is_login, auth_events.user(login)).alias("user"),
        F.when(is_login, auth_events.remote(login)).when(is_request, web_requests.client(parts)).alias("remote"),
        F.when(is_login, auth_events.attempts(login)).alias("attempts"),
        F.when(is_login & auth_events.is_password(F.col("candidate"), login), F.col("second")).alias("login_second"),
        "status",
        severity.own_method(F.when(is_request, web_requests.path(parts, F.col("status"), F.col("latency")))).alias(
            "path"
        ),
        F.when(is_request, F.col("latency")).alias("latency"),
        (F.when(is_request, web_requests.sent(parts)) if formats.requests else null.cast("bigint")).alias("sent"),
    )


def _text(formats: DayFormats) -> Column:
    """The masked message; of a deferred line the whole line without its digits, except those of syslog's PRI."""
    line, pri = cut(F.col("value")), F.regexp_extract("head", mask.PRI, 0)
    with_pri = F.concat(pri, _without_digits(F.substr(line, F.length(pri) + 1), formats))
    deferred = F.when(F.startswith("value", F.lit("<")), with_pri).otherwise(_without_digits(line, formats))
    others = [one for one in formats.known if not is_deferred(one)]
    if not others:
        return deferred
    has_header = any(mask.header_before_masking(one.family) for one in others)
    header = formats.each(lambda one: mask.header_before_masking(one.family)) if has_header else None
    message = F.col("value")
    if LineKind.JSON in formats.kinds:
        message = F.when(_is(LineKind.JSON), F.coalesce("json_message", message)).otherwise(message)
    text = numbered(message, header)
    if any(one.varies for one in others):
        masked_header = formats.each(lambda one: "" if is_deferred(one) else mask.header_after_masking(one.family))
        text = headless(text, masked_header)
    return text if len(others) == len(formats.known) else F.when(F.col("deferred"), deferred).otherwise(text)


def _without_digits(line: Column, formats: DayFormats) -> Column:
    """A deferred line without its digits, or without its numbers in formats whose numbers vary in length."""
    uneven = [number for number, one in enumerate(formats.known) if is_deferred(one) and one.uneven]
    hidden = digits_hidden(line)
    if formats.hidden_whole:
        hidden = F.coalesce(formats.when_of(formats.hidden_whole, F.col("hidden")), hidden)
    return F.when(F.col("format").isin(uneven), numbered(line, None)).otherwise(hidden) if uneven else hidden


def _level_text(formats: DayFormats) -> Column:
    """The text that has the level of a line where no field of an object has it."""
    line = F.col("head")
    if LineKind.JSON not in formats.kinds:
        return line
    torn = F.when(F.get_json_object("value", "$").isNull(), line)
    in_json = F.coalesce("json_text", torn, F.lit(""))
    is_object = _is(LineKind.JSON) & line.startswith("{")
    return F.when(is_object & F.col("json_level").isNull(), in_json).when(~is_object, line)


def _level(formats: DayFormats, has_message: Column) -> Column:
    """The level; null of a deferred line."""
    level = F.lit("none")
    texts = [one for one in formats.known if one.kind is not LineKind.ACCESS and not is_deferred(one)]
    if texts:
        level = _level_of_text(F.col("level_head"), formats, texts)
    if LineKind.JSON in formats.kinds:
        named = ("json_level", severity.of_status(F.col("status")), F.nullif(level, F.lit("none")), "json_serilog")
        level = F.when(_is(LineKind.JSON), F.coalesce(*named, F.lit("none"))).otherwise(level)
    if LineKind.ACCESS in formats.kinds:
        by_status = F.coalesce(severity.of_status(F.col("status")), F.lit("none"))
        level = F.when(_is(LineKind.ACCESS), by_status).otherwise(level)
    return F.when(~F.col("deferred"), F.when(has_message, level).otherwise("none"))


def _level_of_text(head: Column, formats: DayFormats, of: Iterable[LogFormat], rules: Iterable[Rule] = RULES) -> Column:
    """The level of lines that begin with `head` and have one of the formats `of`."""
    has_pattern = any(one.level for one in of)
    return severity.of_line(head, formats.each(lambda one: one.level) if has_pattern else None, rules)


def classify_groups(groups: DataFrame, formats: DayFormats) -> DataFrame:
    """`groups` of `group_lines`, or some of their (format, level, text), with level and message of deferred lines.

    `fingerprint` is the xxhash64 of the message, 0 where there is none; `text` is the message as tables have it.
    """
    deferred = {number: one for number, one in enumerate(formats.known) if is_deferred(one)}
    is_deferred_group = F.col("format").isin([*deferred])
    header = formats.each(lambda one: mask.header_after_masking(one.family))
    pri = F.when(F.startswith("text", F.lit("<")), F.regexp_extract("text", mask.PRI, 0)).otherwise("")
    rest = F.when(is_deferred_group, numbered(F.substr("text", F.length(pri) + 1), None))
    text = F.concat(numbered(pri, None), F.col("rest"))  # PRI is masked after it gave the level
    unended = F.when(is_deferred_group, headless(text, header)).otherwise(F.col("text"))
    head = severity.head_of(F.concat(pri, F.col("rest")))
    of_text = _level_of_text(F.col("level_head"), formats, deferred.values(), severity.RULES_WITHOUT_NUMBERS)
    level = F.when(F.col("text").isNull(), "none").otherwise(of_text)
    message, found = F.rtrim("message", F.lit("\r")), F.col("message").isNotNull()
    return (
        groups.withColumn("rest", rest)
        .withColumns({"level_head": head, "message": unended})
        .select(
            *(name for name in groups.columns if name not in {"level", "text"}),
            F.coalesce("level", level).alias("level"),
            F.make_valid_utf8(message).alias("text"),
            F.when(found, F.xxhash64(message)).otherwise(F.lit(0)).cast("bigint").alias("fingerprint"),
        )
    )


# -- the mask: `headless(numbered(...))` gives the same text as `mask.masked` ------------------------------------------


def numbered(message: Column, header: Column | None) -> Column:
    """`message` with each number replaced by `MASK`, without `header` (`mask.header_before_masking`).

    `header` is None if no line has one. It may differ by row, but Java compiles it again whenever it changes.
    """
    text = cut(message)
    if header is not None:
        text = headless(text, header)
    return F.regexp_replace(text, mask.NUMBER, mask.MASK)


def digits_hidden(line: Column) -> Column:
    """`line`, which is `cut`, with each digit replaced by `0`; `numbered` gives the same result for both."""
    keep = F.lit(None)
    return F.mask(line, keep, keep, F.lit(mask.MASK), keep)


def headless(text: Column, header: Column) -> Column:
    """`text` without what `header` matches; empty: nothing. For `numbered` text it is `mask.header_after_masking`."""
    return F.when(header != "", F.regexp_replace(text, header, F.lit(""))).otherwise(text)


def cut(message: Column) -> Column:
    """`message`, or the first `MAX_CHARACTERS` of a longer one followed by `MASK`.

    Bytes are compared first, because counting characters is a pass over the message.
    """
    most = mask.MAX_CHARACTERS
    is_long = (F.octet_length(message) > most) & (F.char_length(message) > most)
    return F.when(is_long, F.concat(F.substring(message, 1, most), F.lit(mask.MASK))).otherwise(message)
