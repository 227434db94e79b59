"""The sessions of one partition with the server, one after another; what is reported while the archive fails."""

import time
from collections.abc import Awaitable, Callable

from consumer.options import PartitionOptions
from shipper import events
from shipper.errors import ArchiveTrouble
from shipper.lifecycle import Pulse, Stop, notify
from shipper.ports import Inbox
from shipper.retry import ARCHIVE, SESSION, Backoff, Patience, SessionRetry, Trouble

STEADY_SECONDS = 1.0
"""Seconds for which an archive must work until it counts as recovered: a disk that is nearly full accepts a small batch
now and then."""

OpenInbox = Callable[[], Awaitable[Inbox]]


class SessionLoop:
    """Opens a session, serves it, and opens the next one with back-off when it failed. Owned by a worker.

    `stop` and `pulse` are the worker's too: its loop ends when a stop is requested, and reports each iteration.
    """

    def __init__(
        self, options: PartitionOptions, open_inbox: OpenInbox, stop: Stop, patience: Patience, pulse: Pulse
    ) -> None:
        self._options = options
        self._open_inbox = open_inbox
        self._patience = patience
        self._retry = SessionRetry("collector", patience, nap=self._nap, policy=_backoff, report=self._report)
        self._is_archive_failing = False  # until it works for STEADY_SECONDS, not only until a session began
        self._works_since = 0.0  # monotonic time since when a failed archive works; 0: it does not
        self.stop = stop
        self.pulse = pulse
        self.trouble = "no session with the server yet"

    async def run(self, serve: Callable[[Inbox], Awaitable[None]]) -> None:
        """Call `serve` in one session after another until it returns, or until a stop is requested.

        Raises:
            Unavailable: no server for too long. And what `serve` raises, except Transient.
        """
        while not self.stop.asked:
            self.pulse.turn()
            async with self._retry.attempt():
                inbox = await self._open_inbox()
                try:
                    await serve(inbox)
                finally:
                    await inbox.close()
                return

    def established(self) -> None:
        """The session works: the partition is recovered, and messages are requested."""
        self._patience.served()
        if not self._is_archive_failing:
            self.trouble = ""
            events.archive_works(partition=self._options.partition)
            events.session_begun(program="collector", subject=self._options.stream)
        notify("READY=1")

    def progress(self) -> None:
        """The server answers."""
        self._patience.progress()

    def archive_works(self) -> None:
        """A batch was committed, or there is nothing to commit and no maintenance task fails."""
        self._patience.progress()
        if not self._is_archive_failing:
            return
        self._works_since = self._works_since or time.monotonic()
        if time.monotonic() - self._works_since >= STEADY_SECONDS:
            events.archive_recovered(partition=self._options.partition)
            self._is_archive_failing, self.trouble = False, ""

    def _report(self, error: Trouble, delay: float) -> None:
        self.trouble = str(error)
        self._works_since = 0.0
        if isinstance(error, ArchiveTrouble):
            self._is_archive_failing = True
            events.archive_failed(partition=self._options.partition, error=str(error))
        else:
            events.session_ended(program="collector", error=str(error), hint=error.hint, retry_in=delay)

    async def _nap(self, seconds: float) -> None:
        self.pulse.turn(rest=seconds)
        await self.stop.nap(seconds)


def _backoff(error: Trouble) -> Backoff:
    return ARCHIVE if isinstance(error, ArchiveTrouble) else SESSION
