"""The space on the disk of an archive, measured without a wait: a file system that hangs must delay nothing."""

import asyncio
import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of an archive, in bytes."""

    size: int
    free: int  #: that the collector's user may write

    @property
    def is_nearly_full(self) -> bool:
        """Whether less than `LEAST_FREE` of it is free."""
        return self.free < LEAST_FREE * self.size


LEAST_FREE = 0.05
"""Free part of an archive's disk below which it is reported."""


def disk_of(archive: Path) -> Disk | None:
    """The disk of an archive now. None means that it cannot be measured."""
    try:
        found = shutil.disk_usage(archive)
    except OSError:
        return None
    return Disk(found.total, found.free)


class DiskGauge:
    """The newest measurement of a disk. Owned by one event loop."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._measuring: asyncio.Task[Disk | None] | None = None
        self._last: Disk | None = None

    def read(self) -> Disk | None:
        """The last measurement. The next one begins in a thread, unless one is pending."""
        if self._measuring is None or self._measuring.done():
            if self._measuring is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    self._last = self._measuring.result()
            self._measuring = asyncio.create_task(asyncio.to_thread(disk_of, self._archive))
        return self._last
