"""Groups as values: whose they are, when they happened, and what `wc` would have counted. What `hourly` is in Spark."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from spark_analytics import parse
from spark_analytics.counts import Correction, Place, Placing
from spark_analytics.families import NONE, SOME_YEAR
from spark_analytics.volumes import LogFile

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SLACK_SECONDS = 47 * 3600
"""The latest time that a line can mean, from the day's first moment: a day's slack (`parse.meant`)."""


class Group(NamedTuple):
    """A row of the scan: `counts.COLUMNS`."""

    segment: int
    block_start: int
    hour: int | None
    level: str
    text: str | None
    auth: str | None
    user: str | None
    remote: str | None
    attempts: int | None
    status: int | None
    path: str | None
    latency: int | None
    lines: int
    bytes: int
    first_row: int
    last_row: int
    first_second: int | None
    last_second: int | None
    sent: int | None
    fingerprint: int


class Placed(NamedTuple):
    """A group with its log file and its hour as it is meant; times are in seconds since 1970."""

    group: Group
    file: LogFile
    is_timeless: bool  #: no line of the file has a time
    hour: int | None
    is_dated: bool
    bytes: int
    unfinished: int
    first_ts: int | None
    last_ts: int | None


def placed(groups: Iterable[Group], placing: Placing) -> Iterator[Placed]:
    """Each of `groups` in its place."""
    of_segment = {place.segment: place for place in placing.places}
    corrections = {one.segment: one for one in placing.corrections}
    time = meaning(placing.day)
    for group in groups:
        dated = None if group.hour is None else time(group.hour * parse.HOUR_SECONDS)
        first, last = (None, None) if dated is None else (time(group.first_second), time(group.last_second))
        surplus, mark = _correction(group, corrections.get(group.segment))
        place = of_segment[group.segment]
        yield Placed(
            group=group,
            file=_file(place),
            is_timeless=place.family == NONE,
            hour=place.stored_hour if dated is None else dated,
            is_dated=dated is not None,
            bytes=group.bytes - surplus + mark,
            unfinished=surplus,
            first_ts=first,
            last_ts=last,
        )


def _file(place: Place) -> LogFile:
    return place.partition, place.host, place.file


def _correction(group: Group, known: Correction | None) -> tuple[int, int]:
    """Lines (and bytes) that the group gives back, and bytes that it gets."""
    if known is None:
        return 0, 0
    gives = (group.block_start, group.last_row) == (known.end_block, known.end_row)
    gets = (group.block_start, group.first_row) == (known.head_block, known.head_row)
    return known.surplus if gives else 0, known.mark if gets else 0


def meaning(day: dt.date) -> Callable[[int | None], int | None]:
    """`parse.meant` of values: the second that the scan gave, with its year; None where it cannot be meant."""
    latest = second_of(parse.midnight(day)) + _SLACK_SECONDS
    yearless = range(_new_year(SOME_YEAR), _new_year(SOME_YEAR + 1))

    @cache
    def in_a_year(second: int) -> int:
        this_year = _moved(second, day.year)
        return this_year if this_year <= latest else _moved(second, day.year - 1)

    def meant(second: int | None) -> int | None:
        if second is None:
            return None
        dated = in_a_year(second) if second in yearless else second
        return dated if 0 <= dated <= latest else None

    return meant


def second_of(time: dt.datetime) -> int:
    """Seconds since 1970."""
    return (time - _EPOCH) // dt.timedelta(seconds=1)


def _new_year(year: int) -> int:
    return second_of(dt.datetime(year, 1, 1, tzinfo=dt.UTC))


def _moved(second: int, year: int) -> int:
    """The same moment of `year`; 29 February is the 28th where there is none."""
    time = _EPOCH + dt.timedelta(seconds=second)
    try:
        return second_of(time.replace(year=year))
    except ValueError:
        return second_of(time.replace(year=year, day=28))
