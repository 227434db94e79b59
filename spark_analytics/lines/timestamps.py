"""The time of a line: column expressions over a prefix of the line.

They use built-in functions on a prefix only: a line may have megabytes, and a Python function would take longer than
the rest of the job. The time format of a log file (`TimeFamily`) comes as columns that are constant in a segment: Spark
caches the last compiled pattern, so one expression serves all families at no cost. `line_times.LineClock` gives the
same times.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from shipper import line_zones
from shipper.line_formats import (
    ANY,
    BY_NAME,
    FIELD_NAMES,
    JSON,
    LONG_STAMP_PREFIX,
    MAY_BE_STRAY,
    MIXED,
    MONTH_NUMBERS,
    NONE,
    PLACEHOLDER_YEAR,
    STRAY,
    TimeFamily,
    TimeForm,
    in_one,
    shape,
)
from shipper.line_times import COLOUR, COLOURED, ESCAPE, latest_year
from spark_analytics.lines import log_formats, severity

HEAD_CHARACTERS = 19
"""Length of `2026-11-20 10:59:59`."""

HOUR_SECONDS = 3600
_HALF = 12
_ALL = 2**31 - 1
"""A length that reaches to the end of any text."""

_HEAD_ZONED = HEAD_CHARACTERS + 24
"""Bytes of such a time with its fraction and its zone."""

_BEGINNING = 3
_NAMES = sorted(beginning for beginning in line_zones.BEGINNINGS if beginning[0] not in "+-")
_ISO_IN_JSON = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])\z"
)
"""Most times in JSON: a cast reads them in a tenth of the time of all families."""

_NUMBER_IN_JSON = r"^[^0-9A-Za-z]*+[+-]?\.?[0-9][0-9.eE+]*+[^0-9A-Za-z]*+\z"
"""Whatever a cast may read as a number."""

_LAST_SECOND = 253_402_300_799  # of the year 9999
_FOUND, _IN_FIELDS = "\x01", "\x02"
"""Prefixes of a text that a pattern extracted: without a match the result is the line, which may be like a time."""

UNKNOWN_ZONE = -(10**9)
"""The second of a time whose zone is not known: `resolve_year` makes it null, but its line is no continuation."""

STAMP_COLUMNS = ("family", "stamp_form", "stamp_pattern", "stamp_shape", "stamp_characters")
"""The columns of a segment for the time format of its lines; `stamp_form` is one of `FORMS`."""

FORMS = {name: number for number, name in enumerate((ANY, NONE, JSON, *(form.name for form in TimeForm)))}
"""Numbers of the forms of times, and of families without a form, by name: numbers are compared faster."""


_BEFORE = {"clf": "(?:[^/]*|.*?)"}
"""What is before the time, where most lines have something that finds it faster: its first slash."""


def stamp_columns(family: str, zone: str = "") -> tuple[str, int, str, str, int]:
    """The values of `STAMP_COLUMNS` for a family on a host in `zone`, which is of `line_zones.host_zone`."""
    if family == ANY:
        pattern, groups = in_one(MIXED)
        return family, FORMS[ANY], pattern, _IN_FIELDS + shape(TimeForm.FIELDS, groups), LONG_STAMP_PREFIX
    if family not in BY_NAME:
        return family, FORMS[family], "", "", 0
    one = BY_NAME[family]
    if zone and one.form is TimeForm.HEAD:
        one = BY_NAME["iso_named"]
    pattern = one.pattern.removeprefix("^")
    if one.form is TimeForm.HEAD:
        return family, FORMS[one.form.name], "", "", one.characters
    if one.form is TimeForm.EPOCH:
        return family, FORMS[one.form.name], pattern, "", one.characters
    form = TimeForm.FIELDS if zone else one.form
    marked = (_IN_FIELDS if form is TimeForm.FIELDS else _FOUND) + shape(form, one.groups)
    return family, FORMS[form.name], f"(?s)^{_BEFORE.get(family, '.*?')}{pattern}.*$", marked, one.characters


@dataclass(frozen=True, slots=True)
class HostZone:
    """The zones of the hosts of a day, as columns that are constant in a segment."""

    zone: Column  #: `line_zones.host_zone`; empty: UTC
    own_names: Column  #: the names that mean it, each between commas
    day: dt.date


def front_of(line: Column) -> Column:
    """The first bytes of a line that begins with a digit; bytes, as Spark counts all characters of a text to cut it."""
    begins = line.between("0", ":")  # the character after 9
    return F.when(begins, F.substring(line.cast("binary"), 1, _HEAD_ZONED))


def usual_text(front: Column, hidden: Column, clock: str) -> Column:
    """The text, which a cast reads, of the time of a line that begins with `clock`; null: the line does not.

    `front` is of `front_of`; `hidden` is the line or its front, each digit replaced by 0.
    """
    offset = log_formats.offset_of(clock)
    begins, after = clock.removesuffix(offset), len(clock) - len(offset) + 1
    is_usual = hidden.startswith(begins)
    if offset:
        is_usual &= F.substring(front, after, len(offset) + 1) == F.lit(f"{offset} ".encode())
        return F.when(is_usual, F.substring(front, 1, len(clock)).cast("string"))
    if not begins.endswith("Z"):
        is_usual &= ~_begins_zone(F.substring(front, after, _BEGINNING).cast("string"))
    return F.when(is_usual, F.substring(front, 1, HEAD_CHARACTERS).cast("string"))


@dataclass(frozen=True, slots=True)
class Dated:
    """What the times of lines are read from, besides column `front`, of `front_of`.

    `forms` are the values of `stamp_form` that occur, as each branch is code.
    """

    line: Column
    in_json: Column  #: the value at the first of `TIME_PATHS`; null: none
    forms: frozenset[int]
    usual: Column  #: of `usual_text`; null: the line has another time, or none
    host: HostZone | None = None  #: None: every host is in UTC

    def steps(self) -> Sequence[Mapping[str, Column]]:
        """Columns of which each step uses those before: `usual`, `stamp`, `dated`, and `second`.

        `second` is of `event_second`. `stamp` must not be in the first step of another evaluation: it would be
        evaluated again wherever it occurs.
        """
        is_other = F.col("usual").isNull()
        return (
            {"usual": self.usual},
            {"stamp": F.when(is_other, _stamp_text(self.line, self.forms))},
            {"stamp": self._with_others(is_other)},
            {"dated": F.when(F.col("stamp").startswith(_IN_FIELDS), F.split(_from(F.col("stamp"), 2), "\\|"))},
            {"second": self._second()},
        )

    def _has(self, *names: str) -> bool:
        return any(FORMS[name] in self.forms for name in names)

    def _with_others(self, is_other: Column) -> Column:
        """`stamp` of any family: of the text in JSON, or of a line that has no time of the family of its file.

        `own_method` has no effect within a condition.
        """
        form, stamp = F.col("stamp_form"), F.col("stamp")
        is_marked = stamp.startswith(_FOUND) | stamp.startswith(_IN_FIELDS)
        plain = [FORMS[name] for name in (TimeForm.HEAD.name, TimeForm.EPOCH.name)]
        is_found = F.coalesce(F.when(form.isin(plain), stamp != "").otherwise(is_marked), F.lit(False))
        found = F.when(is_found, stamp).when(form != FORMS[NONE], _stray_text(_plain(self.line)))
        if not self._has(ANY, JSON):
            return F.when(is_other, found)
        has_json = self.in_json.isNotNull() & form.isin(FORMS[ANY], FORMS[JSON])
        return F.coalesce(
            severity.own_method(F.when(has_json, _in_json(self.in_json))), F.when(is_other & ~has_json, found)
        )

    def _second(self) -> Column:
        """Seconds since 1970 (UTC) of the time in a line, or null; for `resolve_year`.

        Times without a year are in `PLACEHOLDER_YEAR`, except on a host that is not in UTC: its clock depends on it.
        """
        form, stamp = F.col("stamp_form"), F.col("stamp")
        branches: dict[str, Callable[[], Column]] = {
            TimeForm.HEAD.name: lambda: F.unix_seconds(stamp.try_cast("timestamp")),
            TimeForm.CAST.name: lambda: F.unix_seconds(F.when(stamp.startswith(_FOUND), stamp).try_cast("timestamp")),
            TimeForm.NAMED.name: lambda: _of_named(F.when(stamp.startswith(_FOUND), _from(stamp, 2))),
            TimeForm.EPOCH.name: lambda: F.when(stamp != "", stamp).try_cast("bigint"),
        }
        branches |= dict.fromkeys((ANY, JSON), branches[TimeForm.CAST.name])
        chosen = F.lit(None).cast("bigint")
        for name in sorted(name for name in branches if self._has(name)):
            chosen = F.when(form == FORMS[name], branches[name]()).otherwise(chosen)
        dated = F.when(F.col("dated").isNotNull(), _of_fields(F.col("dated"), self.host))
        usual = F.col("usual")
        cast = F.when(usual.isNotNull(), F.unix_seconds(usual.try_cast("timestamp"))).otherwise(chosen)
        return F.coalesce(severity.own_method(dated), cast)  # of fields nothing else is chosen


def _plain(line: Column) -> Column:
    """A line that begins with a colour without colours; of it the first characters."""
    colours = F.regexp_replace(F.substring(line, 1, COLOURED), F.lit(COLOUR.pattern), F.lit(""))
    return F.when(line.startswith(ESCAPE), colours).otherwise(line)


def _stamp_text(line: Column, forms: frozenset[int]) -> Column:
    """The text of the line's time by the pattern of its segment; null or another text if it has none."""
    prefix, pattern = F.substr(_plain(line), F.lit(1), F.col("stamp_characters")), F.col("stamp_pattern")
    piece = F.call_function("regexp_extract", prefix, pattern, F.lit(1))
    shaped = F.regexp_replace(prefix, pattern, F.col("stamp_shape"))
    by_shape = {ANY, *(form.name for form in (TimeForm.CAST, TimeForm.NAMED, TimeForm.FIELDS))}
    ways = ((_head(), {TimeForm.HEAD.name}), (piece, {TimeForm.EPOCH.name}), (shaped, by_shape))
    form, text = F.col("stamp_form"), F.lit(None).cast("string")
    for way, of in ways:
        if there := sorted(forms & {FORMS[name] for name in of}):
            text = F.when(form.isin(*there), way).otherwise(text)
    return text


def _head() -> Column:
    """The text of a time without a zone, or with Z, at the start of a line; null: it does not begin with one."""
    is_head = F.col("front").cast("string").rlike(BY_NAME["iso_utc"].pattern)
    return F.when(is_head, F.substring("front", 1, HEAD_CHARACTERS).cast("string"))


def _begins_zone(text: Column) -> Column:
    return text.between("+", ":") | text.isin(*_NAMES)  # from + to : are signs, digits and what separates a fraction


def _stray_text(line: Column) -> Column:
    """The fields of the time of a line that has none of the family of its file."""
    prefix = F.substring(line, 1, LONG_STAMP_PREFIX)
    return _in_fields(F.when(prefix.rlike(f"(?s){MAY_BE_STRAY}"), prefix), STRAY)


def _in_json(text: Column) -> Column:
    """The time of a value in JSON: ISO, fields, or a number of seconds, ms, us or ns since 1970, by its size."""
    number = text.try_cast("decimal(38, 6)")
    scaled = (
        F.when(number < 10**11, number)
        .when(number < 10**14, number / 10**3)
        .when(number < 10**17, number / 10**6)
        .otherwise(number / 10**9)
    )
    epoch = F.concat(F.lit(_IN_FIELDS + "|" * (len(FIELD_NAMES) - 1)), scaled.try_cast("bigint").cast("string"))
    is_number = text.rlike(_NUMBER_IN_JSON) & number.isNotNull()  # a failed cast costs an exception
    in_fields = _in_fields(F.substring(text, 1, LONG_STAMP_PREFIX), MIXED)
    found = F.when(is_number, epoch).otherwise(in_fields)
    return F.when(text.rlike(_ISO_IN_JSON), F.concat(F.lit(_FOUND), text)).otherwise(found)


def _in_fields(text: Column, families: Sequence[TimeFamily]) -> Column:
    pattern, groups = in_one(families)
    return F.regexp_replace(text, F.lit(pattern), F.lit(_IN_FIELDS + shape(TimeForm.FIELDS, groups)))


def _of_fields(fields: Column, host: HostZone | None) -> Column:
    """The second of the fields of a time, an array in the order of `FIELD_NAMES`."""
    field = {name: F.get(fields, F.lit(number)) for number, name in enumerate(FIELD_NAMES)}
    century = F.concat(F.lit("20"), field["century"])
    year = F.when(field["year"] != "", field["year"]).when(field["century"] != "", century)
    month = F.coalesce(severity.lookup(MONTH_NUMBERS, field["month"]), field["month"])
    minutes = F.when(field["minute"] != "", F.concat(F.lit(":"), field["minute"], F.lit(":"), field["second"]))
    day = F.concat_ws("-", F.coalesce(year, F.lit(str(PLACEHOLDER_YEAR))), month, field["day"])
    wall = F.concat(day, F.lit(" "), field["clock"], F.coalesce(minutes, F.lit("")))
    hour = F.substring_index(field["clock"], ":", 1).try_cast("int")
    half = F.when(
        hour.between(1, _HALF), F.when(F.upper(field["half"]) == "P", _HALF).otherwise(0) - hour + hour % _HALF
    )
    later = F.when(field["half"] == "", 0).otherwise(half) * HOUR_SECONDS
    zone = F.coalesce(severity.lookup(line_zones.OFFSETS, field["zone"]), field["zone"])
    text = F.concat(wall, F.when(F.contains(zone, F.lit("/")), F.concat(F.lit(" "), zone)).otherwise(zone))
    second = F.when(zone == line_zones.UNKNOWN, F.lit(UNKNOWN_ZONE)).otherwise(
        F.unix_seconds(text.try_cast("timestamp")) + later
    )
    if host is not None:
        is_local = (zone == "") | F.contains(host.own_names, F.concat(F.lit(","), field["zone"], F.lit(",")))
        local = F.unix_seconds(wall.try_cast("timestamp")) + later
        second = F.when(is_local & (host.zone != ""), _of_host(local, host)).otherwise(second)
    return F.when(field["epoch"] != "", field["epoch"].try_cast("bigint")).otherwise(second)


def _of_host(local: Column, host: HostZone) -> Column:
    """The second at which a clock of the host shows `local`; of a time that occurs twice the first."""
    found = F.unix_seconds(F.to_utc_timestamp(resolve_year(local, host.day), host.zone))
    return F.coalesce(found, F.when(local.isNotNull(), F.lit(UNKNOWN_ZONE)))


def _of_named(text: Column) -> Column:
    """The second of a time with a month name, in the form that a cast parses: a fifth of the time of a format."""
    number = severity.lookup(MONTH_NUMBERS, F.substring(text, 1, 3))
    iso = F.concat(F.substring(text, 5, 4), F.lit("-"), number, F.lit("-"), _from(text, 10))
    return F.unix_seconds(iso.try_cast("timestamp"))


def _from(text: Column, place: int) -> Column:
    return F.substring(text, place, _ALL)


def resolve_year(second: Column, day: dt.date) -> Column:
    """The time of `event_second` with its year, for lines that arrived on `day`; null if it is not valid.

    A time without a year is in the latest one in which it is no more than a day ahead (`latest_year`). A time before
    1970 or more than a day ahead is not valid: the clock was wrong.
    """
    time = F.timestamp_seconds(F.when(second.between(0, _LAST_SECOND), second))  # Spark fails on overflow
    this_year = time - F.make_interval(years=F.lit(PLACEHOLDER_YEAR - latest_year(day)))
    last_year = time - F.make_interval(years=F.lit(PLACEHOLDER_YEAR - latest_year(day) + 1))
    latest = F.lit(midnight(day + dt.timedelta(days=1)) + dt.timedelta(hours=23))  # slack for clocks that are ahead
    dated = F.when(F.year(time) != PLACEHOLDER_YEAR, time).when(this_year <= latest, this_year).otherwise(last_year)
    return F.when(dated.between(F.lit(midnight(dt.date(1970, 1, 1))), latest), dated)


def midnight(day: dt.date) -> dt.datetime:
    """The first moment of `day`, UTC."""
    return dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
