"""Whether the session with the server works, and how long to wait after it ended."""

from collections.abc import Callable, Sequence

from producer.model import Entry
from shipper.errors import StreamFull, StreamMissing, Transient, Unavailable
from shipper.retry import FULL, SESSION, Patience


class SessionHealth:
    """The current trouble with the server, for people, and the back-off. Owned by the pipeline.

    `report` is called with each error.
    """

    def __init__(self, patience: Patience, report: Callable[[str], None]) -> None:
        self._patience = patience
        self._report = report
        self.trouble = "no session with the server yet"  #: empty while the session works

    def failed(self, error: Transient | Unavailable) -> float:
        """Seconds to wait after `error`. Raises Unavailable, if the time limit for trouble is over."""
        self.trouble = str(error)
        self._report(self.trouble)
        return self._patience.after(error, FULL if isinstance(error, StreamFull | StreamMissing) else SESSION)

    def started(self, *, is_progress: bool) -> None:
        """A session started. `is_progress`: nothing is in flight whose ack shows that it works better than the last."""
        self.trouble = ""
        self._patience.served()
        if is_progress:
            self._patience.progress()

    def acknowledged(self, _entries: Sequence[Entry]) -> None:
        """JetStream stored blocks."""
        self.trouble = ""
        self._patience.progress()
