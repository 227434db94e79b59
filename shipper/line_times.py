"""Times of log lines: which family of formats a log file has, and the time of one line. Pure.

The families are in `line_formats`, the zones in `line_zones`. The report evaluates the same patterns in Spark.
"""

import datetime as dt
import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any, NamedTuple

from shipper import line_formats, line_zones
from shipper.line_formats import (
    ANY,
    BY_NAME,
    JSON,
    LONG_STAMP_PREFIX,
    MAY_BE_STRAY,
    MONTH_NUMBERS,
    NONE,
    PLACEHOLDER_YEAR,
    TIME_FAMILIES,
    TIME_PATHS,
    TimeFamily,
    TimeForm,
)

SAMPLE_LINES = 200
"""Lines of a log file that decide its format; the first `QUICK_LINES` are enough if they agree."""

QUICK_LINES = 20

_STRAY_SHARE = 0.02
"""Maximum share of the dated lines that may be of another family in a file that is not mixed."""

_WIDER = {"iso_utc": "iso", "iso": "iso_named"}
"""Families whose lines are also of another one, which a file with lines of both has."""

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Sets the colour of a text on a terminal. For Java and for Python."""


def detect_family(lines: Sequence[str]) -> str:
    """The family of the times of a log file that begins with `lines`: a name of `BY_NAME`, or ANY, NONE, JSON."""
    nonblank = (COLOUR.sub("", line.rstrip("\r\n")) for line in lines if line.strip())
    quick = list(islice(nonblank, QUICK_LINES))
    votes = _votes(quick)
    if len(votes) != 1 or votes.total() != len(quick):
        votes += _votes(islice(nonblank, SAMPLE_LINES - QUICK_LINES))
    for narrow, wide in _WIDER.items():
        if narrow in votes and any(name in votes for name in ("iso", "iso_named") if name != narrow):
            votes["iso_named" if "iso_named" in votes else wide] += votes.pop(narrow)
    if not votes:
        return NONE
    name, most = votes.most_common(1)[0]
    has_few_strays = most > 1 and votes.total() - most <= max(1, _STRAY_SHARE * votes.total())
    return name if len(votes) == 1 or has_few_strays else ANY


def _votes(lines: Iterable[str]) -> Counter[str]:
    return Counter(name for line in lines if (name := _family_of(line)))


def _family_of(line: str) -> str:
    if line.startswith("{") and _json_time(line):
        return JSON
    return next((family.name for family in TIME_FAMILIES if family.fits(line)), "")


def _json_time(line: str) -> bool:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and first_at(fields, TIME_PATHS) is not None


def first_at(fields: Mapping[str, Any], paths: Iterable[str]) -> object:
    """The value at the first of `paths` that exists and is no object."""
    return next((found for path in paths if (found := at_path(fields, path)) is not None), None)


def at_path(fields: Mapping[str, Any], path: str) -> object:
    """The value at a key, or at a key in the object, or in the text of an object, at another one; None: an object."""
    value = fields.get(path)
    if value is None and "." in path:
        outer, _, inner = path.partition(".")
        within = fields.get(outer)
        if isinstance(within, str) and within.startswith("{"):
            within = object_of(within)
        value = within.get(inner) if isinstance(within, dict) else None
    return None if isinstance(value, dict) or (isinstance(value, str) and value.startswith("{")) else value


def object_of(text: str | bytes) -> dict[str, Any]:
    """The fields of a text that is an object in JSON; none of another text."""
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# -- the time of one line ------------------------------------------------------------------------------------------

VALID_AHEAD_SECONDS = 47 * 3600
"""A time is valid up to so long after the start of the day on which its line was stored: zones, clocks that are ahead.
A later one counts as no time."""

ESCAPE = "\x1b"
_ESCAPE = ESCAPE.encode()
_COLOUR_BYTES = re.compile(COLOUR.pattern.encode())
COLOURED = 2 * LONG_STAMP_PREFIX
"""Characters of a line that begins with a colour that are searched for colours."""
_SECOND_NS = 1_000_000_000
_MAX_CACHED = 4096
_MAX_CHARACTER_BYTES = 4
_HEAD_BYTES = 19
_HOURS_OF_HALF = 12
_EPOCH_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_HEAD = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,](\d{1,9})\d*+)?+(Z?)")
_HEAD_ZONE = re.compile(line_formats.HEAD_ZONE, re.ASCII)
_HEAD_REST = 24
"""Characters after the head of a time that may have its zone."""
_EPOCH_FRACTION = re.compile(r"(\d{9}|\d{6}|\d{3})?(?:[.:](\d{1,9}))?", re.ASCII)
_MAY_BE_STRAY = re.compile(MAY_BE_STRAY, re.ASCII | re.DOTALL)


class _Second(NamedTuple):
    """What the text of a time means."""

    second: int  #: since 1970; without a zone: of a clock that shows the time of the zone of the host
    has_zone: bool


class LineClock:
    """The times in the lines of one log file that were stored on one day (UTC). The report has the same rules.

    Times without a zone are of `zone`, the IANA name of the zone of the host; one that is not known is UTC. A time
    without a year is in the latest one in which it is no more than `VALID_AHEAD_SECONDS` after the start of `day`: on
    31 December a host that is ahead of UTC, or whose clock is ahead, writes times of the next year.
    """

    def __init__(self, family: str, day: dt.date, zone: str = "UTC") -> None:
        self.has_times = family != NONE
        self._zone = line_zones.host_zone(zone)
        self._own_names = line_zones.own_names(self._zone, day.year)
        self._family = family
        self._year = latest_year(day)
        self._latest = (day - _EPOCH_START.date()).days * 86_400 + VALID_AHEAD_SECONDS
        self._cached: dict[object, _Second | None] = {}
        one = BY_NAME.get("iso_named" if self._zone and family == "iso_utc" else family)
        self._is_head = one is not None and one.form is TimeForm.HEAD
        self._one = _Tried(one, one.pattern.removeprefix("^"), one.characters, one.first) if one else None

    def time_ns(self, line: bytes) -> int | None:
        """Nanoseconds since 1970 of the time in `line`; None: it has none, or none that is valid."""
        if line.startswith(_ESCAPE):
            line = _COLOUR_BYTES.sub(b"", line[: COLOURED * _MAX_CHARACTER_BYTES])
        if self._is_head and line[4:5] == b"-" and (found := self._of_head(line)) is not None:
            return self._resolved(*found)
        if self._family in {JSON, ANY} and line.startswith(b"{"):
            value = first_at(object_of(line), TIME_PATHS)
            if value is not None:
                return self._of_json(value)
        text = line[: LONG_STAMP_PREFIX * _MAX_CHARACTER_BYTES].decode("utf-8", "replace")[:LONG_STAMP_PREFIX]
        if self._family == ANY:
            return self._of_one(text, _tried_of_mixed())
        if self._one is not None and not self._is_head and (found := self._read(text, self._one)):
            return self._resolved(*found)
        return self._of_one(text, _tried_of_stray()) if _MAY_BE_STRAY.match(text) else None

    def _of_head(self, line: bytes) -> tuple[_Second | None, int] | None:
        """The time in the first characters; None: these are no time, or its zone is not UTC."""
        found = _HEAD.match(line)
        if found is None:
            return None
        rest = line[_HEAD_BYTES : _HEAD_BYTES + _HEAD_REST]
        if not found[2] and rest and _HEAD_ZONE.match(rest.decode("ascii", "replace")):
            return None
        text = line[:_HEAD_BYTES], found[2]
        second = self._cached.get(text, _MISSING)
        if second is _MISSING:
            head = text[0].decode("ascii")
            fields = {"year": head[:4], "month": head[5:7], "day": head[8:10], "clock": head[11:]}
            second = self._keep(text, self._meaning(fields | {"zone": found[2].decode()}))
        return second, _fraction_ns(found[1].decode()) if found[1] else 0

    def _of_one(self, text: str, several: Sequence["_Tried"]) -> int | None:
        found = next((found for each in several if (found := self._read(text, each))), None)
        return found and self._resolved(*found)

    def _read(self, text: str, tried: "_Tried") -> tuple[_Second | None, int] | None:
        found = tried.search(text)
        if found is None:
            return None
        key = (tried.family.name, *(found[place] for place in tried.places))
        second = self._cached.get(key, _MISSING)
        if second is _MISSING:
            second = self._keep(key, self._meaning(dict(zip(tried.family.groups, found.groups(""), strict=True))))
        return second, tried.fraction_ns(text, found)

    def _keep(self, key: object, second: _Second | None) -> _Second | None:
        """Many lines have the same second: it is parsed once."""
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[key] = second
        return second

    def _meaning(self, fields: Mapping[str, str]) -> _Second | None:
        """The second that the fields of a time mean; None: there is no such time, or its zone is not known."""
        if "epoch" in fields:
            return _Second(int(fields["epoch"]), has_zone=True)
        wall = _wall(fields)
        zone = fields.get("zone", "")
        if wall is None or not zone or zone in self._own_names:
            return None if wall is None else _Second(wall, has_zone=False)
        if "/" in zone:
            utc = line_zones.to_utc(wall, zone)
            return None if utc is None else _Second(utc, has_zone=True)
        offset = line_zones.offset_seconds(line_zones.OFFSETS.get(zone, zone))
        return None if offset is None else _Second(wall - offset, has_zone=True)

    def _resolved(self, found: _Second | None, fraction_ns: int) -> int | None:
        if found is None or found.second < 0:
            return None
        second = found.second
        if PLACEHOLDER_START <= second < PLACEHOLDER_END:
            this_year = in_year(second, self._year)
            second = this_year if this_year <= self._latest else in_year(second, self._year - 1)
        if self._zone and not found.has_zone and 0 <= second <= self._latest:
            second = line_zones.to_utc(second, self._zone) or 0
        return second * _SECOND_NS + fraction_ns if 0 <= second <= self._latest else None

    def _of_json(self, value: object) -> int | None:
        """The time that a value in an object is."""
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            return None
        try:
            found = _scaled_ns(Decimal(value))
        except InvalidOperation:
            return self._of_one(str(value)[:LONG_STAMP_PREFIX], _tried_of_mixed())
        if found is None or found < 0:
            return None
        return self._resolved(_Second(found // _SECOND_NS, has_zone=True), found % _SECOND_NS)


_MISSING = _Second(-1, has_zone=True)


class _Tried:
    """A family whose pattern is compared with the first `characters` of lines."""

    def __init__(self, family: TimeFamily, pattern: str, characters: int, first: str = "") -> None:
        self.family = family
        self.places = [place for place, name in enumerate(family.groups, 1) if name != "fraction"]
        self._pattern = re.compile(pattern, re.ASCII | re.DOTALL)
        self._characters = characters
        self._first = first if pattern.startswith("^") and family.is_anchored else ""
        self._fraction = family.groups.index("fraction") + 1 if "fraction" in family.groups else 0
        last = next((name for name in ("second", "clock", "epoch") if name in family.groups), "year")
        self._clock = family.groups.index(last) + 1

    def search(self, text: str) -> re.Match[str] | None:
        if self._first and text[:1] not in self._first:
            return None
        return self._pattern.search(text, 0, self._characters)

    def fraction_ns(self, text: str, found: re.Match[str]) -> int:
        if self.family.form is TimeForm.EPOCH:
            rest = _EPOCH_FRACTION.match(text, found.end(self._clock))
            return _fraction_ns("".join(filter(None, rest.groups()))) if rest else 0
        if self._fraction:
            return _fraction_ns(found[self._fraction] or "0")
        rest = _FRACTION.match(text, found.end(self._clock))
        return _fraction_ns(rest[1]) if rest else 0


_FRACTION = re.compile(r"[.,:](\d{1,9})", re.ASCII)


@functools.cache
def _tried_of_mixed() -> Sequence[_Tried]:
    return [_Tried(each, each.from_start, LONG_STAMP_PREFIX, each.first) for each in line_formats.MIXED]


@functools.cache
def _tried_of_stray() -> Sequence[_Tried]:
    return [_Tried(each, each.from_start, LONG_STAMP_PREFIX, each.first) for each in line_formats.STRAY]


def _wall(fields: Mapping[str, str]) -> int | None:
    """Seconds from 1970 to the time that `fields` name, without their zone; None: there is no such time."""
    clock = f"{fields['clock']}:{fields['minute']}:{fields['second']}" if "minute" in fields else fields["clock"]
    hour, minute, second = map(int, clock.split(":"))
    if half := fields.get("half", ""):
        hour = hour % _HOURS_OF_HALF + (_HOURS_OF_HALF if half in "Pp" else 0) if 1 <= hour <= _HOURS_OF_HALF else -1
    year = f"20{fields['century']}" if "century" in fields else fields.get("year", str(PLACEHOLDER_YEAR))
    month = MONTH_NUMBERS.get(fields["month"], fields["month"])
    try:
        when = dt.datetime(int(year), int(month), int(fields["day"]), hour, minute, second, tzinfo=dt.UTC)
    except ValueError:
        return None
    return int((when - _EPOCH_START).total_seconds())


PLACEHOLDER_START = int((dt.datetime(PLACEHOLDER_YEAR, 1, 1, tzinfo=dt.UTC) - _EPOCH_START).total_seconds())
PLACEHOLDER_END = int((dt.datetime(PLACEHOLDER_YEAR + 1, 1, 1, tzinfo=dt.UTC) - _EPOCH_START).total_seconds())


def latest_year(day: dt.date) -> int:
    """The last year of which lines that arrived on `day` may have times."""
    return (day + dt.timedelta(seconds=VALID_AHEAD_SECONDS)).year


def in_year(second: int, year: int) -> int:
    """A time of the placeholder year in another one; 29 February becomes 28 February in a year without it."""
    when = _EPOCH_START + dt.timedelta(seconds=second)
    try:
        when = when.replace(year=year)
    except ValueError:
        when = when.replace(year=year, day=28)
    return int((when - _EPOCH_START).total_seconds())


def _fraction_ns(digits: str) -> int:
    return int(digits[:9].ljust(9, "0"))


def _scaled_ns(number: Decimal) -> int | None:
    """A number is seconds, ms, us or ns since 1970, by its size."""
    if not number.is_finite() or abs(number) >= 10**32:
        return None
    for most, exponent in ((10**11, 9), (10**14, 6), (10**17, 3)):
        if number < most:
            return int(number * 10**exponent)
    return int(number)
