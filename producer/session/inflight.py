"""The in-flight window: blocks that are not acknowledged yet, in order, so that a new session can send them again."""

from collections import deque
from collections.abc import Iterator

from producer.model import Entry
from shipper.errors import SessionLost

MAX_ENTRIES = 4096
ENTRY_BYTES = 1024
"""Added for each block: headers and bookkeeping, so that many small blocks count, too."""


class Window:
    """The in-flight entries of one host, oldest first, limited in bytes and number. Owned by the sender."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._open: deque[tuple[int, Entry, float]] = deque()
        self._bytes = 0
        self._next = 1

    def __len__(self) -> int:
        return len(self._open)

    @property
    def room(self) -> bool:
        """Whether more may be read."""
        return self._bytes < self._max_bytes and len(self._open) < MAX_ENTRIES

    @property
    def bytes(self) -> int:
        """Payload bytes in flight."""
        return self._bytes

    def open(self, entry: Entry, now: float) -> int:
        """Put `entry` in flight; returns its token, which grows by one."""
        token, self._next = self._next, self._next + 1
        self._open.append((token, entry, now))
        self._bytes += len(entry.payload) + ENTRY_BYTES
        return token

    def settle(self, token: int) -> Entry:
        """The entry of `token`, which must be the oldest in flight. Raises SessionLost if it is not."""
        if not self._open or self._open[0][0] != token:
            raise SessionLost(f"ack for block {token} came out of order")
        _, entry, _ = self._open.popleft()
        self._bytes -= len(entry.payload) + ENTRY_BYTES
        return entry

    @property
    def sources(self) -> set[str]:
        """The sources that have blocks in flight."""
        return {entry.piece.source for _, entry, _ in self._open}

    def end_of(self, source: str) -> int:
        """End offset of the newest block of a source in flight; 0: none is."""
        return max(
            (e.piece.span.end for _, e, _ in self._open if e.piece.source == source and e.piece.span.length), default=0
        )

    @property
    def oldest_sent_at(self) -> float:
        """Monotonic time at which the oldest entry was sent; there must be one."""
        return self._open[0][2]

    def check_late(self, now: float, ack_timeout: float) -> None:
        """Raise SessionLost if the oldest entry has waited for longer than `ack_timeout` seconds."""
        if self._open and now >= self.oldest_sent_at + ack_timeout:
            raise SessionLost(f"no ack for {ack_timeout:.0f} s")

    def again(self, now: float) -> Iterator[tuple[int, Entry]]:
        """Every entry in order, to be sent again by a new session at `now` (go-back-N)."""
        self._open = deque((token, entry, now) for token, entry, _ in self._open)
        for token, entry, _ in list(self._open):
            yield token, entry

    def clear(self) -> None:
        """Remove everything: it is read again."""
        self._open.clear()
        self._bytes = 0
