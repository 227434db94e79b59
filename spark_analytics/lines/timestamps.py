"""When a line happened: column expressions over a prefix of the line.

Only built-in functions on a prefix: a whole line may be megabytes, and a Python function would cost more than the
rest of the job. How a log file writes its times is known (`families`) and comes as columns that are constant in a
segment: Spark keeps the last compiled pattern, so one expression serves all families at no cost.
"""

import datetime as dt
import functools
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.lines import severity
from spark_analytics.lines.log_formats import ANY, FAMILIES, JSON, MONTHS, NONE, SOME_YEAR, Family, Form

HEAD_CHARACTERS = 19
"""Of `2026-11-20 10:59:59`."""

HOUR_SECONDS = 3600
_ISO_DASH = 5
_ALL = 2**31 - 1
"""So many characters are not counted."""

_NUMBERS = {name: f"{number:02}" for number, name in enumerate(MONTHS, 1)}
_LAST_SECOND = 253_402_300_799  # of the year 9999
_FOUND = "\x01"
"""Before a text that a pattern yielded: where it found nothing, the line itself might pass for a time."""

_PIECES = {Form.EPOCH, Form.CLF}
"""The forms whose text is one piece of the line: to take it out costs half of what it costs to put it together."""

WRITING = ("family", "stamp_form", "stamp_pattern", "stamp_shape", "stamp_characters")
"""The columns that tell how the lines of a segment write their time; `stamp_form` is one of `FORMS`."""

FORMS = {name: number for number, name in enumerate((ANY, NONE, JSON, *(form.name for form in Form)))}
"""The forms of times by name, and families without one, as numbers: a line's is compared with each that there is."""


def writing(family: str) -> tuple[str, int, str, str, int]:
    """The values of `WRITING` for a family."""
    one = next((known for known in FAMILIES if known.name == family), None)
    if one is None:
        return family, FORMS[family], "", "", 0
    return family, FORMS[one.form.name], _pattern(one), _FOUND + one.shape, one.characters


def _pattern(family: Family) -> str:
    return family.pattern.removeprefix("^") if family.form in _PIECES else _whole(family)


def _whole(family: Family) -> str:
    return f"(?s)^.*?{family.pattern.removeprefix('^')}.*$"


def stamp_text(line: Column, forms: set[int]) -> Column:
    """The text of the line's time by the segment's own pattern; empty or some other text where it has none.

    To be evaluated once, so it is a column of its own, and `event_second` takes it. `forms` as there.
    """
    prefix, pattern = F.substr(line, F.lit(1), F.col("stamp_characters")), F.col("stamp_pattern")
    head = F.when(F.substring(line, _ISO_DASH, 1) == "-", F.substring(line, 1, HEAD_CHARACTERS))
    piece = F.call_function("regexp_extract", prefix, pattern, F.lit(1))
    shaped = F.regexp_replace(prefix, pattern, F.col("stamp_shape"))
    ways = ((head, {Form.HEAD}), (piece, _PIECES), (shaped, set(Form) - _PIECES - {Form.HEAD}))
    form, text = F.col("stamp_form"), F.lit(None).cast("string")
    for way, of in ways:
        if there := sorted(forms & {FORMS[one.name] for one in of}):
            text = F.when(form.isin(*there), way).otherwise(text)
    return text


def event_second(line: Column, text: Column, in_json: Column, forms: set[int]) -> Column:
    """Seconds since 1970 (UTC) of the time that `line` names, or null; for `meant` to put right.

    `forms` are the values of `stamp_form` that there are today: each branch costs code. Times without a zone are taken
    as UTC; times without a year are left in `SOME_YEAR`.
    """
    form = F.col("stamp_form")
    branches: dict[str, Callable[[], Column]] = {
        Form.HEAD.name: lambda: F.unix_seconds(text.try_cast("timestamp")),
        **{one.name: functools.partial(_second_of, text, one) for one in Form if one is not Form.HEAD},
        JSON: lambda: _json_second(in_json),
        ANY: lambda: F.coalesce(*(_tried(line, family) for family in FAMILIES if family.form is not Form.HEAD)),
    }
    chosen = F.lit(None).cast("bigint")
    for name in sorted(name for name in branches if FORMS[name] in forms):
        chosen = F.when(form == FORMS[name], branches[name]()).otherwise(chosen)
    return chosen


def _second_of(text: Column, form: Form) -> Column:
    """Of a `stamp_text`; where there is no time nothing is tried, as each failure costs an exception."""
    if form in _PIECES:
        return _second(F.when(text != "", text), form)
    shaped = text if form is Form.ISO else _from(text, 2)  # a cast passes over control characters
    return _second(F.when(text.startswith(_FOUND), shaped), form)


def _second(text: Column, form: Form) -> Column:
    if form is Form.EPOCH:
        return text.try_cast("bigint")
    if form is Form.NAMED_MONTH:
        text = _numbered(F.substring(text, 5, 4), F.substring(text, 1, 3), _from(text, 10))
    if form is Form.CLF:
        day = F.concat(F.substring(text, 1, 2), F.lit(" "), _from(text, 13))
        text = _numbered(F.substring(text, 8, 4), F.substring(text, 4, 3), day)
    return F.unix_seconds(text.try_cast("timestamp"))


def _numbered(year: Column, month: Column, rest: Column) -> Column:
    """A time whose month is a name, as a cast reads it: in a fifth of the time that a format takes."""
    number = severity.looked_up(_NUMBERS, month)
    return F.concat(year, F.lit("-"), number, F.lit("-"), rest)


def _from(text: Column, place: int) -> Column:
    return F.substring(text, place, _ALL)


def _tried(line: Column, family: Family) -> Column:
    prefix = F.substring(line, 1, family.characters)
    fits = prefix.rlike(family.pattern)
    if family.first:
        fits = F.contains(F.lit(family.first), F.substring(line, 1, 1)) & fits
    return _second(F.when(fits, F.regexp_replace(prefix, F.lit(_whole(family)), F.lit(family.shape))), family.form)


def _json_second(text: Column) -> Column:
    """A number is seconds, or thousandths, millionths, billionths of one, by its size; other texts are ISO or CLF."""
    number = text.try_cast("decimal(38, 6)")
    scaled = (
        F.when(number < 10**11, number)
        .when(number < 10**14, number / 10**3)
        .when(number < 10**17, number / 10**6)
        .otherwise(number / 10**9)
    )
    clf = F.try_to_timestamp(text, F.lit(Form.CLF.value))
    named = F.unix_seconds(F.coalesce(F.when(F.length(text) > HEAD_CHARACTERS - 1, text).try_cast("timestamp"), clf))
    return F.when(number.isNotNull(), scaled.try_cast("bigint")).otherwise(named)


def meant(second: Column, day: dt.date) -> Column:
    """The time of `event_second` with its year, for lines that arrived on `day`; null where it cannot be meant.

    A time without a year is of the year of `day`, or of the one before where it would be more than a day ahead. A
    time before 1970 or more than a day ahead is none: a clock that wrong says nothing of when the line happened.
    """
    time = F.timestamp_seconds(F.when(second.between(0, _LAST_SECOND), second))  # Spark gives up at what overflows
    this_year = time - F.make_interval(years=F.lit(SOME_YEAR - day.year))
    last_year = time - F.make_interval(years=F.lit(SOME_YEAR - day.year + 1))
    latest = F.lit(_latest(day))
    dated = F.when(F.year(time) != SOME_YEAR, time).when(this_year <= latest, this_year).otherwise(last_year)
    return F.when(dated.between(F.lit(midnight(dt.date(1970, 1, 1))), latest), dated)


def midnight(day: dt.date) -> dt.datetime:
    """The first moment of `day`, UTC."""
    return dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)


def _latest(day: dt.date) -> dt.datetime:
    """A day's slack: a line may come from a zone that is ahead, or from a clock that is."""
    return midnight(day + dt.timedelta(days=1)) + dt.timedelta(hours=23)
