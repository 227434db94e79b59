"""Have a collector that runs seal its open files, so that a report of today counts the lines until now."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from shipper import layout

WAIT_SECONDS = 15.0
"""Maximum wait for the collector, which may have ended; the report then names what is still open."""
POLL_SECONDS = 0.2


def seal_open_files(archives: Iterable[object], date: str, tell: Callable[[str], None]) -> None:
    """Request it of the collectors of `archives` that offer it, and wait until what is open now is sealed."""
    waiting = {
        directory: found for directory in filter(_request, archives) if (found := set(_unsealed(directory, date)))
    }
    end = time.monotonic() + WAIT_SECONDS
    while waiting and time.monotonic() < end:
        waiting = {
            directory: left for directory, found in waiting.items() if (left := found & set(_unsealed(directory, date)))
        }
        time.sleep(POLL_SECONDS if waiting else 0)
    for directory, left in waiting.items():
        tell(f"{directory}: {len(left)} files are still open: does its collector run?")


def _request(archive: object) -> bool:
    """Whether a collector of a local archive seals on request, and this process may request it."""
    if not isinstance(archive, Path):
        return False
    with contextlib.suppress(OSError):
        os.utime(archive / layout.SEAL_REQUEST_PATH)
        return True
    return False


def _unsealed(archive: object, date: str) -> Iterator[tuple[int, int]]:
    """Device and inode of each file of a day that is open, or being sealed."""
    for path in Path(str(archive)).glob(f"date={date}/partition=*/host=*/_*"):
        with contextlib.suppress(OSError):  # sealed meanwhile
            found = path.stat()
            if found.st_size:
                yield found.st_dev, found.st_ino
