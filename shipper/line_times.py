"""Time stamps of log lines: the families of formats, which one a log file has, and the time of one line. Pure.

The families are those of the 16 Loghub systems, plus access logs, syslog, klog and JSON. Every pattern has the same
meaning in Java and in Python's `re` with `ASCII`: the report evaluates them in Spark, a search evaluates them here.
"""

import datetime as dt
import enum
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import islice

STAMP_PREFIX = 64
"""Characters that are searched for a time stamp. Each expression copies them, so the number is small."""

LONG_STAMP_PREFIX = 160
"""The same for access logs and HPC, where the time comes after other fields."""

AHEAD = 8
"""Characters before a time at the start of a line: a blank, a colour code, the rest of another line."""

PLACEHOLDER_YEAR = 9996
"""The year of times without one: a leap year, so that 29 February is valid, and one that no log has."""

SAMPLE_LINES = 200
"""Lines of a log file that decide its format; the first `QUICK_LINES` are enough if they agree."""

QUICK_LINES = 20

ANY, NONE, JSON = "any", "none", "json"
"""Families without a pattern: every pattern is tried; there are no times; a JSON key has the time."""


class TimeForm(enum.Enum):
    """How the text that a family extracts is parsed."""

    HEAD = "head"  #: the first 19 characters are the time, in UTC
    ISO = "iso"  #: a cast; the zone, if any, is in the text, else UTC
    CLF = "dd/MMM/yyyy:HH:mm:ss Z"
    NAMED_MONTH = "MMM yyyy d HH:mm:ss"
    EPOCH = "epoch"  #: whole seconds since 1970


@dataclass(frozen=True, slots=True)
class TimeFamily:
    """A format of times: `pattern` finds one, `shape` arranges its groups in the order of `form`."""

    name: str
    first: str  #: possible first characters of a line; empty: any
    pattern: str
    shape: str
    form: TimeForm
    characters: int = STAMP_PREFIX
    compiled: re.Pattern[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.pattern, re.ASCII))

    def fits(self, line: str) -> bool:
        """Whether `line` has a time of this family."""
        if self.first and line[:1] not in self.first:
            return False
        return self.compiled.search(line, 0, self.characters) is not None


_DIGITS = "0123456789"
_CLOCK = r"(\d\d:\d\d:\d\d)"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = f"({'|'.join(MONTHS)})"

TIME_FAMILIES = (
    TimeFamily(
        "iso_utc", _DIGITS, r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?![.,]?\d* ?[+-]\d\d:?\d\d)", "", TimeForm.HEAD
    ),
    TimeFamily(
        "iso",
        "",
        rf"(\d{{4}}-\d\d-\d\d)[T ]{_CLOCK}(?:[.,]\d{{1,9}})?(Z|[+-]\d\d:?\d\d)?",
        "$1 $2$3",
        TimeForm.ISO,
    ),
    TimeFamily(
        "rfc3164",
        "JFMASOND<",
        rf"^(?:<\d{{1,3}}>)?{_MONTH} {{1,2}}(\d{{1,2}}) {_CLOCK}",
        f"$1 {PLACEHOLDER_YEAR} $2 $3",
        TimeForm.NAMED_MONTH,
        AHEAD + 21,
    ),
    TimeFamily("spark", _DIGITS, rf"^(\d\d)/(\d\d)/(\d\d) {_CLOCK}", "20$1-$2-$3 $4", TimeForm.ISO, AHEAD + 17),
    TimeFamily("nginx_error", _DIGITS, rf"^(\d{{4}})/(\d\d)/(\d\d) {_CLOCK}", "$1-$2-$3 $4", TimeForm.ISO, AHEAD + 19),
    TimeFamily(
        "hdfs", _DIGITS, r"^(\d\d)(\d\d)(\d\d) (\d\d)(\d\d)(\d\d) ", "20$1-$2-$3 $4:$5:$6", TimeForm.ISO, AHEAD + 14
    ),
    TimeFamily("android", _DIGITS, rf"^(\d\d-\d\d) {_CLOCK}\.", f"{PLACEHOLDER_YEAR}-$1 $2", TimeForm.ISO, AHEAD + 15),
    TimeFamily(
        "healthapp",
        _DIGITS,
        r"^(\d{4})(\d\d)(\d\d)-(\d{1,2}:\d{1,2}:\d{1,2}):\d",
        "$1-$2-$3 $4",
        TimeForm.ISO,
        AHEAD + 19,
    ),
    TimeFamily(
        "apache_error",
        "[",
        rf"^\[[A-Z][a-z]{{2}} {_MONTH} (\d\d) {_CLOCK}(?:\.\d+)? (\d{{4}})\]",
        "$1 $4 $2 $3",
        TimeForm.NAMED_MONTH,
        AHEAD + 36,
    ),
    TimeFamily(
        "proxifier", "[", rf"^\[(\d\d)\.(\d\d) {_CLOCK}\]", f"{PLACEHOLDER_YEAR}-$1-$2 $3", TimeForm.ISO, AHEAD + 16
    ),
    TimeFamily(
        "klog", "IWEF", rf"^[IWEF](\d\d)(\d\d) {_CLOCK}\.", f"{PLACEHOLDER_YEAR}-$1-$2 $3", TimeForm.ISO, AHEAD + 15
    ),
    # Blue Gene and Thunderbird, HPC, squid.
    TimeFamily("epoch_dated", "", r"^\S+ (\d{10}) \d{4}\.\d\d\.\d\d ", "$1", TimeForm.EPOCH),
    TimeFamily("epoch_fifth", _DIGITS, r"^\d+ \S+ \S+ \S+ (\d{10}) ", "$1", TimeForm.EPOCH, LONG_STAMP_PREFIX),
    TimeFamily(
        "epoch_first", _DIGITS, r"^(\d{10})(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\s", "$1", TimeForm.EPOCH, AHEAD + 40
    ),
    TimeFamily(
        "epoch_json",
        "{",
        r'"@?(?:timestamp|time|ts)": ?(\d{10})',
        "$1",
        TimeForm.EPOCH,
        LONG_STAMP_PREFIX,
    ),
    TimeFamily(
        "clf",
        "",
        rf"\b(\d\d/{_MONTH}/\d{{4}}:\d\d:\d\d:\d\d [+-]\d{{4}})",
        "$1",
        TimeForm.CLF,
        LONG_STAMP_PREFIX,
    ),
)
"""In the order of matching. No family shadows a later one on the Loghub files; `iso_utc` is a faster `iso`."""

BY_NAME = {family.name: family for family in TIME_FAMILIES}

TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "datetime", "date", "eventTime", "time_local", "t")
"""Keys of the time in JSON lines: ISO 8601, CLF, or a number since 1970; the first that exists is used."""

_STRAY_SHARE = 0.02
"""Maximum share of the dated lines that may be of another family in a file that is not mixed."""


def detect_family(lines: Sequence[str]) -> str:
    """The family of the times of a log file that begins with `lines`: a name of `BY_NAME`, or ANY, NONE, JSON."""
    nonblank = (line.rstrip("\r\n") for line in lines if line.strip())
    quick = list(islice(nonblank, QUICK_LINES))
    votes = _votes(quick)
    if len(votes) != 1 or votes.total() != len(quick):
        votes += _votes(islice(nonblank, SAMPLE_LINES - QUICK_LINES))
    if "iso" in votes and "iso_utc" in votes:
        votes["iso"] += votes.pop("iso_utc")
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
    return isinstance(fields, dict) and any(fields.get(key) is not None for key in TIME_KEYS)


# -- the time of one line ------------------------------------------------------------------------------------------

VALID_AHEAD_SECONDS = 47 * 3600
"""A time is valid up to so long after the start of the day on which its line was stored: zones, clocks that are ahead.
A later one counts as no time."""

_SECOND_NS = 1_000_000_000
_MAX_CACHED = 4096
_MAX_CHARACTER_BYTES = 4
_HEAD_BYTES = 19
_LEAST_JSON_TIME = 19
_MAX_OFFSET_SECONDS = 18 * 3600
_EPOCH_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TIME = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9})\d*)?\s*"
    r"(?:Z|UTC|([+-])(\d\d)(?::?(\d\d))?)?\s*",
    re.ASCII,
)
_HEAD_FRACTION = re.compile(rb"[.,](\d{1,9})")
_FRACTION = re.compile(r"[.,](\d{1,9})", re.ASCII)
_HEALTHAPP_FRACTION = re.compile(r":(\d{1,3})(?!\d)", re.ASCII)
_EPOCH_FRACTION = re.compile(r"(\d{9}|\d{6}|\d{3})?(?:\.(\d{1,9}))?", re.ASCII)
_CLOCK_GROUPS = {"iso": 2, "apache_error": 3}
"""The group that ends where a fraction of the second begins; of other families the last one."""
_MONTH_NUMBERS = {name: f"{number:02}" for number, name in enumerate(MONTHS, 1)}


class LineClock:
    """The times in the lines of one log file that were stored on one day (UTC). The report has the same rules.

    Times without a zone are UTC. A time without a year is in the year of `day`, or in the year before if it would be
    more than `VALID_AHEAD_SECONDS` after the start of `day`.
    """

    def __init__(self, family: str, day: dt.date) -> None:
        self.has_times = family != NONE
        self._family = family
        self._day = day
        self._latest = (day - _EPOCH_START.date()).days * 86_400 + VALID_AHEAD_SECONDS
        self._cached: dict[object, int | None] = {}
        one = BY_NAME.get(family)
        self._is_head = one is not None and one.form is TimeForm.HEAD
        known = [each for each in TIME_FAMILIES if each.form is not TimeForm.HEAD]
        self._tried = [_Tried(each, is_only=False) for each in known] if family == ANY else []
        self._one = _Tried(one, is_only=True) if one is not None else None

    def time_ns(self, line: bytes) -> int | None:
        """Nanoseconds since 1970 of the time in `line`; None: it has none, or none that is valid."""
        if self._is_head:
            return self._of_head(line)
        if self._family == JSON:
            found = _json_ns(line)
            return found if found is None else self._resolved(found // _SECOND_NS, found % _SECOND_NS)
        text = line[: LONG_STAMP_PREFIX * _MAX_CHARACTER_BYTES].decode("utf-8", "replace")
        if self._one is not None:
            return self._of_family(text, self._one)
        return next((found for each in self._tried if (found := self._of_family(text, each)) is not None), None)

    def _of_head(self, line: bytes) -> int | None:
        text = line[:_HEAD_BYTES]
        second = self._cached.get(text, -1)
        if second == -1:
            second = self._keep(text, _second(text.decode("ascii", "replace")) if text[4:5] == b"-" else None)
        fraction = _HEAD_FRACTION.match(line, _HEAD_BYTES)
        return self._resolved(second, _fraction_ns(fraction[1].decode()) if fraction else 0)

    def _of_family(self, text: str, tried: "_Tried") -> int | None:
        found = tried.search(text)
        if found is None:
            return None
        key = (tried.family.name, *found.groups())
        second = self._cached.get(key, -1)
        if second == -1:
            second = self._keep(key, tried.second(found))
        return self._resolved(second, tried.fraction_ns(text, found))

    def _keep(self, key: object, second: int | None) -> int | None:
        """Many lines have the same second: it is parsed once."""
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[key] = second
        return second

    def _resolved(self, second: int | None, fraction_ns: int) -> int | None:
        if second is None or second < 0:
            return None
        if second >= PLACEHOLDER_START and second < PLACEHOLDER_END:
            this_year = in_year(second, self._day.year)
            second = this_year if this_year <= self._latest else in_year(second, self._day.year - 1)
        return second * _SECOND_NS + fraction_ns if 0 <= second <= self._latest else None


class _Tried:
    """A family whose pattern is compared with lines. `is_only`: the log file has no other one."""

    def __init__(self, family: TimeFamily, *, is_only: bool) -> None:
        self.family = family
        expression = family.pattern.removeprefix("^") if is_only else family.pattern
        self._pattern = re.compile(expression, re.ASCII)
        self._first = "" if is_only else family.first
        self._template = re.sub(r"\$(\d)", r"\\g<\1>", family.shape)
        self._clock = _CLOCK_GROUPS.get(family.name, self._pattern.groups)

    def search(self, text: str) -> re.Match[str] | None:
        if self._first and text[:1] not in self._first:
            return None
        return self._pattern.search(text, 0, self.family.characters)

    def second(self, found: re.Match[str]) -> int | None:
        text = found.expand(self._template)
        match self.family.form:
            case TimeForm.EPOCH:
                return int(text)
            case TimeForm.NAMED_MONTH:
                text = f"{text[4:8]}-{_MONTH_NUMBERS[text[:3]]}-{text[9:]}"
            case TimeForm.CLF:
                text = _of_clf(text)
        return _second(text)

    def fraction_ns(self, text: str, found: re.Match[str]) -> int:
        if self.family.form is TimeForm.CLF:
            return 0
        if self.family.form is TimeForm.EPOCH:
            rest = _EPOCH_FRACTION.match(text, found.end(self._clock))
            return _fraction_ns("".join(filter(None, rest.groups()))) if rest else 0
        pattern = _HEALTHAPP_FRACTION if self.family.name == "healthapp" else _FRACTION
        rest = pattern.match(text, found.end(self._clock))
        return _fraction_ns(rest[1]) if rest else 0


def _of_clf(text: str) -> str:
    return f"{text[7:11]}-{_MONTH_NUMBERS[text[3:6]]}-{text[:2]} {text[12:]}"


def _second(text: str) -> int | None:
    """Seconds since 1970 of a time that begins with the year; None: there is no such time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    sign, hours, minutes = found[8], int(found[9] or 0), int(found[10] or 0)
    offset = (hours * 60 + minutes) * 60 * (-1 if sign == "-" else 1)
    if abs(offset) > _MAX_OFFSET_SECONDS or minutes > 59:  # noqa: PLR2004 - of an hour
        return None
    try:
        when = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    except ValueError:
        return None
    return int((when - _EPOCH_START).total_seconds()) - offset


PLACEHOLDER_START = _second(f"{PLACEHOLDER_YEAR}-01-01 00:00:00") or 0
PLACEHOLDER_END = _second(f"{PLACEHOLDER_YEAR + 1}-01-01 00:00:00") or 0


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


def _json_ns(line: bytes) -> int | None:
    """The time in an object: the value of the first key of `TIME_KEYS` that exists."""
    try:
        fields = json.loads(line, parse_float=Decimal) if line.startswith(b"{") else {}
    except (ValueError, RecursionError):
        return None
    value = next((found for key in TIME_KEYS if (found := fields.get(key)) is not None), None)
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        return _scaled_ns(Decimal(value))
    except InvalidOperation:
        return _of_json_text(str(value))


def _of_json_text(text: str) -> int | None:
    if len(text) < _LEAST_JSON_TIME:
        return None
    clf = BY_NAME["clf"].compiled.fullmatch(text)
    second = _second(_of_clf(text) if clf else text)
    fraction = None if clf else _FRACTION.search(text)
    return None if second is None else second * _SECOND_NS + (_fraction_ns(fraction[1]) if fraction else 0)


def _scaled_ns(number: Decimal) -> int | None:
    """A number is seconds, ms, us or ns since 1970, by its size."""
    if not number.is_finite() or abs(number) >= 10**32:
        return None
    for most, exponent in ((10**11, 9), (10**14, 6), (10**17, 3)):
        if number < most:
            return int(number * 10**exponent)
    return int(number)
