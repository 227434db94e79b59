"""The pause of a partition while its archive cannot be written, for example because the disk is full.

A failed write is an `ArchiveTrouble` (`consumer/commit/store.py`), which ends the session. `SessionLoop` waits for the
back-off that is chosen here, and then reads again after the last commit. The messages stay in the stream meanwhile.
"""

import time

from shipper import events
from shipper.errors import ArchiveTrouble
from shipper.retry import ARCHIVE, SESSION, Backoff, Trouble

STEADY_SECONDS = 1.0
"""Seconds for which an archive must work until it counts as recovered: a disk that is nearly full accepts a small batch
now and then."""


def backoff(error: Trouble) -> Backoff:
    """How long to wait before the session that follows `error`."""
    return ARCHIVE if isinstance(error, ArchiveTrouble) else SESSION


class DiskPause:
    """Whether a partition waits for its archive. The first success does not end the pause. Owned by a session loop."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._works_since = 0.0  # monotonic time; 0 while the archive does not work
        self.is_on = False

    def begin(self, error: ArchiveTrouble) -> None:
        """The archive cannot be written."""
        self.is_on, self._works_since = True, 0.0
        events.archive_failed(partition=self._partition, error=str(error))

    def session_ended(self) -> None:
        """A session ended for another reason: the archive must work for `STEADY_SECONDS` again."""
        self._works_since = 0.0

    def works(self) -> None:
        """A batch was committed, or there is nothing to commit. The pause ends if that lasts for `STEADY_SECONDS`."""
        if self.is_on:
            self._works_since = self._works_since or time.monotonic()
            if time.monotonic() - self._works_since >= STEADY_SECONDS:
                events.archive_recovered(partition=self._partition)
                self.is_on = False
