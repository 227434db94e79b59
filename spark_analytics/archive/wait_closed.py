"""Waits until all collectors have closed a day."""

import time
from collections.abc import Callable, Sequence

from spark_analytics.archive import inventory
from spark_analytics.storage.locations import Location

POLL_SECONDS = 5.0
"""Interval between two reads of the archive, in seconds."""


def until_closed(archive: Location, dates: Sequence[str], seconds: float, tell: Callable[[str], None]) -> None:
    """Returns when every collector has closed `dates` and no file of these is open, at the latest after `seconds`.

    `tell` is called with the collectors and files that are awaited when these change, and when the time is over.

    Raises:
        ConfigError: there is no archive, or it cannot be read.
        Unavailable: retention removed a day.
    """
    end = time.monotonic() + seconds
    for date in dates:
        said = ""
        while awaited := _awaited(archive, date):
            left = end - time.monotonic()
            if left <= 0:
                tell(f"{date}: waited in vain for {awaited}; it is reported as it is")
                break
            if awaited != said:
                tell(f"{date}: waiting for {awaited}, at most {left:.0f} s more")
                said = awaited
            time.sleep(min(POLL_SECONDS, left))


def _awaited(archive: Location, date: str) -> str:
    """What is missing before the day is closed, in words; empty if it is closed."""
    try:
        day = inventory.read_day(archive, date)
    except inventory.NothingSealed:
        return "its first segment"
    if day.manifests.open_collectors:
        return " and ".join(day.manifests.open_collectors)
    return f"files that are still open ({day.open_files})" if day.open_files else ""
