"""Time zones by the IANA names that people give. Pure."""

import datetime as dt
import difflib
import functools
import re
import zoneinfo

from shipper.codec import zone_name
from shipper.errors import UsageError

NEAR = 3
"""Maximum names that an error offers."""


@functools.lru_cache(maxsize=256)
def load(name: str) -> dt.tzinfo | None:
    """The zone of a name; empty: UTC. None: this machine knows no such zone."""
    if not name or name == "UTC":
        return dt.UTC
    if not zone_name(name):
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def chosen(name: str, *words: str) -> dt.tzinfo:
    """The zone of `--timezone`; `words` are what the option takes besides names.

    Raises:
        UsageError: this machine knows no such zone; the hint has names like it.
    """
    found = load(name) if name else None
    if found is None:
        near = nearest(name)
        examples = ", ".join(("Europe/Berlin", "UTC", *words))
        hint = f"did you mean {', '.join(near)}?" if near else f"write a name such as {examples}"
        raise UsageError(f"--timezone {name!r} is no zone", hint=hint)
    return found


def nearest(name: str) -> list[str]:
    """The zones whose names, or whose cities, are like `name`."""
    wanted = re.sub(r"[\s_-]+", "_", name.strip().lower())
    known = sorted(zoneinfo.available_timezones(), key=lambda zone: ("/" not in zone, zone))
    whole = {zone.lower(): zone for zone in known}
    if wanted in whole:  # written in other letters
        return [whole[wanted]]
    cities = {zone.rpartition("/")[2].lower(): zone for zone in reversed(known)}
    found = [cities[one] for one in difflib.get_close_matches(wanted.rpartition("/")[2], cities, NEAR, 0.8)]
    found += [whole[one] for one in difflib.get_close_matches(wanted, whole, NEAR, 0.7)]
    return list(dict.fromkeys(found))[:NEAR]
