"""The time of a line: column expressions over a prefix of the line.

They use built-in functions on a prefix only: a line may have megabytes, and a Python function would take longer than
the rest of the job. The time format of a log file (`TimeFamily`) comes as columns that are constant in a segment: Spark
caches the last compiled pattern, so one expression serves all families at no cost.
"""

import datetime as dt
import functools
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from shipper.line_times import (
    ANY,
    JSON,
    MONTHS,
    NONE,
    PLACEHOLDER_YEAR,
    TIME_FAMILIES,
    TimeFamily,
    TimeForm,
)
from spark_analytics.lines import severity

HEAD_CHARACTERS = 19
"""Length of `2026-11-20 10:59:59`."""

HOUR_SECONDS = 3600
_ISO_DASH = 5
_ALL = 2**31 - 1
"""A length that reaches to the end of any text."""

_NUMBERS = {name: f"{number:02}" for number, name in enumerate(MONTHS, 1)}
_LAST_SECOND = 253_402_300_799  # of the year 9999
_FOUND = "\x01"
"""Prefix of a text that a pattern extracted: without a match the result is the line, which may be like a time."""

_EXTRACTED = {TimeForm.EPOCH, TimeForm.CLF}
"""The forms whose text is contiguous in the line: extracting it takes half the time of arranging groups."""

STAMP_COLUMNS = ("family", "stamp_form", "stamp_pattern", "stamp_shape", "stamp_characters")
"""The columns of a segment for the time format of its lines; `stamp_form` is one of `FORMS`."""

FORMS = {name: number for number, name in enumerate((ANY, NONE, JSON, *(form.name for form in TimeForm)))}
"""Numbers of the forms of times, and of families without a form, by name: numbers are compared faster."""


def stamp_columns(family: str) -> tuple[str, int, str, str, int]:
    """The values of `STAMP_COLUMNS` for a family."""
    one = next((known for known in TIME_FAMILIES if known.name == family), None)
    if one is None:
        return family, FORMS[family], "", "", 0
    pattern = one.pattern.removeprefix("^") if one.form in _EXTRACTED else _whole(one)
    return family, FORMS[one.form.name], pattern, _FOUND + one.shape, one.characters


def _whole(family: TimeFamily) -> str:
    return f"(?s)^.*?{family.pattern.removeprefix('^')}.*$"


def stamp_text(line: Column, forms: set[int]) -> Column:
    """The text of the line's time by the pattern of its segment; empty or another text if it has none.

    It should be a column of its own, so that it is evaluated once, for `event_second`. `forms` as there.
    """
    prefix, pattern = F.substr(line, F.lit(1), F.col("stamp_characters")), F.col("stamp_pattern")
    head = F.when(F.substring(line, _ISO_DASH, 1) == "-", F.substring(line, 1, HEAD_CHARACTERS))
    piece = F.call_function("regexp_extract", prefix, pattern, F.lit(1))
    shaped = F.regexp_replace(prefix, pattern, F.col("stamp_shape"))
    ways = ((head, {TimeForm.HEAD}), (piece, _EXTRACTED), (shaped, set(TimeForm) - _EXTRACTED - {TimeForm.HEAD}))
    form, text = F.col("stamp_form"), F.lit(None).cast("string")
    for way, of in ways:
        if there := sorted(forms & {FORMS[one.name] for one in of}):
            text = F.when(form.isin(*there), way).otherwise(text)
    return text


def event_second(line: Column, text: Column, in_json: Column, forms: set[int]) -> Column:
    """Seconds since 1970 (UTC) of the time in `line`, or null; for `resolve_year`.

    `forms` are the values of `stamp_form` that occur: each branch is code to compile. Times without a zone are UTC;
    times without a year are in `PLACEHOLDER_YEAR`.
    """
    form = F.col("stamp_form")
    branches: dict[str, Callable[[], Column]] = {
        TimeForm.HEAD.name: lambda: F.unix_seconds(text.try_cast("timestamp")),
        **{one.name: functools.partial(_second_of, text, one) for one in TimeForm if one is not TimeForm.HEAD},
        JSON: lambda: _json_second(in_json),
        ANY: lambda: F.coalesce(
            *(_tried(line, family) for family in TIME_FAMILIES if family.form is not TimeForm.HEAD)
        ),
    }
    chosen = F.lit(None).cast("bigint")
    for name in sorted(name for name in branches if FORMS[name] in forms):
        chosen = F.when(form == FORMS[name], branches[name]()).otherwise(chosen)
    return chosen


def _second_of(text: Column, form: TimeForm) -> Column:
    """Parses `stamp_text`; a text without a time is not parsed, because each failure costs an exception."""
    if form in _EXTRACTED:
        return _second(F.when(text != "", text), form)
    shaped = text if form is TimeForm.ISO else _from(text, 2)  # a cast ignores control characters
    return _second(F.when(text.startswith(_FOUND), shaped), form)


def _second(text: Column, form: TimeForm) -> Column:
    if form is TimeForm.EPOCH:
        return text.try_cast("bigint")
    if form is TimeForm.NAMED_MONTH:
        text = _numbered(F.substring(text, 5, 4), F.substring(text, 1, 3), _from(text, 10))
    if form is TimeForm.CLF:
        day = F.concat(F.substring(text, 1, 2), F.lit(" "), _from(text, 13))
        text = _numbered(F.substring(text, 8, 4), F.substring(text, 4, 3), day)
    return F.unix_seconds(text.try_cast("timestamp"))


def _numbered(year: Column, month: Column, rest: Column) -> Column:
    """A time with a month name in the form that a cast parses, which takes a fifth of the time of a format."""
    number = severity.lookup(_NUMBERS, month)
    return F.concat(year, F.lit("-"), number, F.lit("-"), rest)


def _from(text: Column, place: int) -> Column:
    return F.substring(text, place, _ALL)


def _tried(line: Column, family: TimeFamily) -> Column:
    prefix = F.substring(line, 1, family.characters)
    fits = prefix.rlike(family.pattern)
    if family.first:
        fits = F.contains(F.lit(family.first), F.substring(line, 1, 1)) & fits
    return _second(F.when(fits, F.regexp_replace(prefix, F.lit(_whole(family)), F.lit(family.shape))), family.form)


def _json_second(text: Column) -> Column:
    """A number is seconds, ms, us or ns since 1970, by its size; other texts are ISO or CLF."""
    number = text.try_cast("decimal(38, 6)")
    scaled = (
        F.when(number < 10**11, number)
        .when(number < 10**14, number / 10**3)
        .when(number < 10**17, number / 10**6)
        .otherwise(number / 10**9)
    )
    clf = F.try_to_timestamp(text, F.lit(TimeForm.CLF.value))
    named = F.unix_seconds(F.coalesce(F.when(F.length(text) > HEAD_CHARACTERS - 1, text).try_cast("timestamp"), clf))
    return F.when(number.isNotNull(), scaled.try_cast("bigint")).otherwise(named)


def resolve_year(second: Column, day: dt.date) -> Column:
    """The time of `event_second` with its year, for lines that arrived on `day`; null if it is not valid.

    A time without a year is in the year of `day`, or in the year before if it would be more than a day ahead. A time
    before 1970 or more than a day ahead is not valid: the clock was wrong.
    """
    time = F.timestamp_seconds(F.when(second.between(0, _LAST_SECOND), second))  # Spark fails on overflow
    this_year = time - F.make_interval(years=F.lit(PLACEHOLDER_YEAR - day.year))
    last_year = time - F.make_interval(years=F.lit(PLACEHOLDER_YEAR - day.year + 1))
    latest = F.lit(midnight(day + dt.timedelta(days=1)) + dt.timedelta(hours=23))  # slack for clocks that are ahead
    dated = F.when(F.year(time) != PLACEHOLDER_YEAR, time).when(this_year <= latest, this_year).otherwise(last_year)
    return F.when(dated.between(F.lit(midnight(dt.date(1970, 1, 1))), latest), dated)


def midnight(day: dt.date) -> dt.datetime:
    """The first moment of `day`, UTC."""
    return dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
