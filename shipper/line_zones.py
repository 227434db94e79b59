"""Zones of times in log lines: offsets, names and IANA names after a time, and the zone of a host. Pure.

A name that means several zones (`IST`) is read in the zone of the host if that zone uses the name; else its offset is
not known, and the line has no time. A name that is not in the tables is a word, no zone.
"""

import datetime as dt
import functools
import zoneinfo

NAMES = {
    **dict.fromkeys(("Z", "UTC", "GMT", "UT", "WET"), "+00:00"),
    **dict.fromkeys(("WEST", "BST", "CET", "MEZ"), "+01:00"),
    **dict.fromkeys(("CEST", "MESZ", "EET", "SAST"), "+02:00"),
    **dict.fromkeys(("EEST", "MSK"), "+03:00"),
    **dict.fromkeys(("MSD", "SAMT"), "+04:00"),
    **dict.fromkeys(("YEKT", "PKT"), "+05:00"),
    **dict.fromkeys(("KRAT", "WIB"), "+07:00"),
    **dict.fromkeys(("HKT", "SGT", "AWST", "IRKT"), "+08:00"),
    **dict.fromkeys(("JST", "KST", "YAKT"), "+09:00"),
    "ACST": "+09:30",
    **dict.fromkeys(("AEST", "VLAT"), "+10:00"),
    "ACDT": "+10:30",
    "AEDT": "+11:00",
    "NZST": "+12:00",
    "NZDT": "+13:00",
    "NST": "-03:30",
    "NDT": "-02:30",
    **dict.fromkeys(("BRT", "ADT"), "-03:00"),
    "EDT": "-04:00",
    **dict.fromkeys(("EST", "CDT"), "-05:00"),
    **dict.fromkeys(("CST", "MDT"), "-06:00"),
    **dict.fromkeys(("MST", "PDT"), "-07:00"),
    **dict.fromkeys(("PST", "AKDT"), "-08:00"),
    "AKST": "-09:00",
    "HST": "-10:00",
}
"""The offset of each name."""

AMBIGUOUS = ("IST", "AST", "SST", "GST", "AMT", "WST", "CST", "CDT", "BST")
"""Names of several zones. Those in `NAMES` have the offset there (US, United Kingdom), unless the zone of the host uses
the name: CST is China's time on a host in Asia/Shanghai."""

UNKNOWN = "?"
"""The offset of a name without one."""

_DB2_MINUTES = {
    f"{sign}{minutes:03}": f"{sign}{minutes // 60:02}:{minutes % 60:02}"
    for sign in "+-"
    for minutes in range(0, 14 * 60 + 1, 15)
}

OFFSETS = dict.fromkeys(AMBIGUOUS, UNKNOWN) | NAMES | _DB2_MINUTES
"""The offset of each text that is no offset in the usual form: names, and minutes as DB2 writes them (`+060`)."""

_AREAS = "Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc"
NAME = "|".join(sorted({*NAMES, *AMBIGUOUS} - {"Z"}, key=lambda name: (-len(name), name)))
"""Any name of a zone."""

NAMED = rf" ?\[?(?:{NAME}|(?:{_AREAS})/[A-Z])"
"""Begins the name of a zone after a time. For Java and for Python, as all patterns here."""

_STARTS = [*NAMES, *AMBIGUOUS, *(f"{area}/" for area in _AREAS.split("|"))]
_NUMBERS = [f"{sign}{hours:02}" for sign in "+-" for hours in range(100)]
BEGINNINGS = frozenset(
    (before + name)[:3] for name in (*_STARTS, *_NUMBERS) for before in ("", " ", "[", " [") if name != "Z"
)
"""The first three characters of whatever may be a zone after a time: most texts after a time begin otherwise."""

NUMERIC = r"(?: ?+(?:(?:UTC|GMT)(?=[+-]))?+(Z|[+-](?:0[0-9]|1[0-4])(?::?+[0-5][0-9])?+)(?![A-Za-z0-9.:]))?+"
"""An offset that may be after a time, in a group."""

EACH = (
    r"(?: ?+\[?+(?:(?:UTC|GMT)(?=[+-]))?+"
    r"(Z(?![A-Za-z0-9_/])|[+-](?:(?:0[0-9]|1[0-4])(?::?+[0-5][0-9])?+|[0-9]{3})(?![A-Za-z0-9.:])"
    rf"|(?:{NAME}|(?:{_AREAS})/[A-Z][A-Za-z0-9_+-]{{1,40}}+(?:/[A-Z][A-Za-z_]{{1,40}}+)?+)(?![A-Za-z0-9_/])))?+"
)
"""Any zone that may be after a time, in a group."""

UTC = ("", "UTC", "Etc/UTC", "Etc/UCT", "Etc/GMT", "GMT", "Z")


@functools.cache
def host_zone(name: str) -> str:
    """The IANA name of a host's zone; empty: UTC, or a name that is not known here."""
    try:
        return "" if name in UTC or not zoneinfo.ZoneInfo(name) else name
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return ""


@functools.cache
def own_names(zone: str, year: int) -> tuple[str, ...]:
    """Those of `AMBIGUOUS` that mean the zone of the host, which is of `host_zone`, in `year`."""
    if not zone:
        return ()
    found = {dt.datetime(year, month, 1, tzinfo=zoneinfo.ZoneInfo(zone)).tzname() for month in (1, 7)}
    return tuple(name for name in AMBIGUOUS if name in found)


@functools.cache
def _zone(name: str) -> dt.tzinfo:
    return zoneinfo.ZoneInfo(name)


_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of wall clocks


def to_utc(wall: int, zone: str) -> int | None:
    """The second since 1970 at which a clock in `zone` shows the time that a clock in UTC shows at `wall`.

    A time that occurs twice, when clocks go back, is the first of the two. A time that is left out, when they go
    forward, is read as if they had not. `zone` is an IANA name; None: there is no such zone.
    """
    try:
        moment = (_EPOCH + dt.timedelta(seconds=wall)).replace(tzinfo=_zone(zone))
        return wall - int((moment.utcoffset() or dt.timedelta()).total_seconds())
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
        return None


def offset_seconds(text: str) -> int | None:
    """Seconds east of UTC of `Z`, `+02`, `+0200` or `+02:00`; None: it is none, or more than 18 hours."""
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "")
    if text[:1] not in {"+", "-"} or not digits.isdecimal() or len(digits) not in {2, 4}:
        return None
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    seconds = (hours * 60 + minutes) * 60
    if seconds > _MAX_OFFSET_SECONDS or minutes > 59:  # noqa: PLR2004 - of an hour
        return None
    return -seconds if text[0] == "-" else seconds


_MAX_OFFSET_SECONDS = 18 * 3600
