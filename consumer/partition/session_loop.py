"""The sessions of a partition's worker with the server: one after another, with back-off when one failed."""

from collections.abc import Awaitable, Callable

from consumer.model import PartitionOptions
from consumer.partition.disk_pause import DiskPause, backoff
from shipper import events
from shipper.errors import ArchiveTrouble
from shipper.lifecycle import Pulse, Stop, notify
from shipper.model import Delivery
from shipper.ports import Inbox
from shipper.retry import Patience, SessionRetry, Trouble

STUCK_SESSIONS = 3
"""Number of sessions that end at one message in a row, after which the trouble names it."""

NO_SESSION = "no session with the server yet"
"""The trouble of a worker that has just begun."""


class SessionLoop:
    """Opens a session, serves it, and opens the next one with back-off when it failed. Owned by a worker.

    `stop` and `pulse` are the worker's too: its loop ends when a stop is requested, and reports each iteration.
    """

    def __init__(
        self,
        options: PartitionOptions,
        open_inbox: Callable[[], Awaitable[Inbox]],
        stop: Stop,
        patience: Patience,
        pulse: Pulse,
    ) -> None:
        self._options = options
        self._open_inbox = open_inbox
        self._patience = patience
        self._retry = SessionRetry("collector", patience, nap=self._nap, policy=backoff, report=self._report)
        self._pause = DiskPause(options.partition)
        self._at: Delivery | None = None  # the first message of the batch that is being committed
        self._stuck_at, self._stuck = 0, 0  # sequence at which the last session ended, and how many did in a row
        self.stop = stop
        self.pulse = pulse
        self.trouble = NO_SESSION

    async def run(self, serve: Callable[[Inbox], Awaitable[None]]) -> None:
        """Call `serve` in one session after another until it returns, or until a stop is requested.

        Raises Unavailable: no server for too long. And what `serve` raises, except Transient.
        """
        while not self.stop.requested:
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
        if not self._pause.is_on:
            self.trouble = ""
            events.archive_works(partition=self._options.partition)
            events.session_begun(program="collector", subject=self._options.stream)
        notify("READY=1")

    def is_stuck_at(self, sequence: int) -> bool:
        """Whether sessions end at `sequence` again and again."""
        return self._stuck >= STUCK_SESSIONS and self._stuck_at == sequence

    def committing(self, first: Delivery | None) -> None:
        """A batch that begins with `first` is being committed. None means that no batch is."""
        self._at = first

    def progress(self) -> None:
        """The server answers."""
        self._patience.progress()

    def archive_works(self) -> None:
        """A batch was committed, or there is nothing to commit and no maintenance task fails."""
        self._patience.progress()
        if self._pause.is_on:
            self._pause.works()
            self.trouble = self.trouble if self._pause.is_on else ""

    def _report(self, error: Trouble, delay: float) -> None:
        if isinstance(error, ArchiveTrouble):  # of the disk, whatever the message
            self._at, self.trouble = None, str(error)
            self._pause.begin(error)
        else:
            self.trouble = str(error) + self._named()
            self._pause.session_ended()
            events.session_ended(program="collector", error=self.trouble, hint=error.hint, retry_in=delay)

    def _named(self) -> str:
        """The message at which sessions end again and again, for the trouble. Empty means that there is none."""
        at, self._at = self._at, None
        if at is None:
            return ""
        self._stuck = self._stuck + 1 if at.first_sequence == self._stuck_at else 1
        self._stuck_at = at.first_sequence
        if self._stuck < STUCK_SESSIONS:
            return ""
        subject = at.subject.encode("ascii", "backslashreplace").decode()[:200]
        return f"; {self._stuck} sessions ended at message {at.first_sequence} of {subject}"

    async def _nap(self, seconds: float) -> None:
        self.pulse.turn(rest=seconds)
        await self.stop.nap(seconds)
