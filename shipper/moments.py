"""Moments as people write them: `10m`, `1h ago`, `yesterday`, `09:30`, a day, RFC 3339, seconds since 1970. Pure."""

import datetime as dt
import re

from shipper.errors import UsageError
from shipper.layout import NANOSECONDS
from shipper.units import parse_seconds

EXAMPLES = "write 10m, 1w, today, yesterday, 09:30, 2026-11-20 or 2026-11-20T10:00:00Z"
_FRACTION = re.compile(r"\.(\d+)")
_SINCE_1970 = re.compile(r"@?(\d{10}|\d{13}|\d{16}|\d{19})|@(\d+)", re.ASCII)
_MOST_SECONDS_DIGITS = 10
_DAY = re.compile(r"(now|today|yesterday)(?: +(\S+))?", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)
_AMBIGUOUS = re.compile(r"\d+(?:\.\d+)?M\b")


def moment(text: str, now_ns: int, zone: dt.tzinfo = dt.UTC, *, after_ns: int = 0) -> int:
    """The time that `text` means, ns since 1970: before `now_ns`, or of a clock in `zone`.

    A time of the day is the last one that was; with `after_ns` the first one after it.

    Raises:
        UsageError: it means none.
    """
    plain = text.strip()
    if (seconds := duration_seconds(plain)) is not None:
        return max(1, now_ns - round(seconds * NANOSECONDS))
    if found := _SINCE_1970.fullmatch(plain):
        digits = found[1] or found[2]
        unit_ns = 10 ** (9 - (len(digits) - _MOST_SECONDS_DIGITS if found[1] else 0))
        return max(1, int(digits) * int(unit_ns))
    now = dt.datetime.fromtimestamp(now_ns // NANOSECONDS, tz=zone)
    if (clock := _time_of_day(plain)) is not None:
        today = _ns(dt.datetime.combine(now.date(), clock), zone)
        days = (0, 1, -1) if after_ns else (0, -1)
        moments = (_ns(dt.datetime.combine(now.date() + dt.timedelta(days=day), clock), zone) for day in sorted(days))
        if after_ns:
            return next((each for each in moments if each > after_ns), today)
        return today if today <= now_ns else next(iter(moments))
    if found := _DAY.fullmatch(plain):
        return _of_named_day(found, text, now, now_ns, zone)
    fraction = _FRACTION.search(plain)
    try:
        when = dt.datetime.fromisoformat(_FRACTION.sub("", plain, count=1).upper())
    except ValueError:
        raise UsageError(f"{text!r} is no moment", hint=f"{EXAMPLES} (UTC without a zone)") from None
    return _ns(when, zone) + (int(fraction[1][:9].ljust(9, "0")) if fraction else 0)


def day(text: str, today: dt.date) -> dt.date:
    """The day that `text` names: a date, `today` or `yesterday`, UTC. Raises UsageError: it names none."""
    named = {"today": today, "yesterday": today - dt.timedelta(days=1)}
    if text in named:
        return named[text]
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=dt.UTC).date()
    except ValueError:
        raise UsageError(f"{text!r} is no day", hint="write YYYY-MM-DD, today or yesterday; days are UTC") from None


def duration_seconds(text: str) -> float | None:
    """The seconds of a duration (`10m`, `1h ago`); None: it is none. Raises UsageError: it may mean two."""
    plain = re.sub(r"\s+ago$", "", text.strip(), flags=re.IGNORECASE)
    if _AMBIGUOUS.search(plain):
        raise UsageError(f"{text!r} is not clear: minutes are m, and months are days", hint="write 1m or 30d")
    if _SINCE_1970.fullmatch(plain):
        return None
    try:
        return parse_seconds(plain)
    except ValueError:
        return None


def _of_named_day(found: re.Match[str], text: str, now: dt.datetime, now_ns: int, zone: dt.tzinfo) -> int:
    name, clock = found[1].lower(), _time_of_day(found[2] or "00:00")
    if clock is None or (name == "now" and found[2]):
        raise UsageError(f"{text!r} is no moment", hint=f"{EXAMPLES} (UTC without a zone)")
    if name == "now":
        return now_ns
    day = now.date() - dt.timedelta(days=name == "yesterday")
    return _ns(dt.datetime.combine(day, clock), zone)


def _time_of_day(text: str) -> dt.time | None:
    found = _CLOCK.fullmatch(text)
    try:
        return dt.time(int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
    except ValueError:
        return None


def _ns(when: dt.datetime, zone: dt.tzinfo) -> int:
    return round((when if when.tzinfo else when.replace(tzinfo=zone)).timestamp()) * NANOSECONDS
