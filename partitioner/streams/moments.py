"""A moment as people type it: `24h` ago, `2026-11-20`, `2026-11-20T10:00:00Z`. Pure."""

import datetime as dt

from shipper.errors import UsageError
from shipper.units import parse_seconds


def moment_of(text: str, now: dt.datetime, flag: str) -> dt.datetime:
    """The moment, UTC where nothing else is said. Raises UsageError."""
    try:
        return now - dt.timedelta(seconds=parse_seconds(text))
    except (ValueError, OverflowError):
        pass
    try:
        found = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{flag}: {text!r} is no time", hint="write 24h (ago), 2026-11-20 or 2026-11-20T10:00:00Z"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def rfc3339(moment: dt.datetime) -> str:
    """`moment` as the server reads it."""
    return moment.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
