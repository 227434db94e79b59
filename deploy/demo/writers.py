"""A program that logs: lines arrive in bursts, often in two writes, and the file is rotated by rename."""

import hashlib
import random
from pathlib import Path

from deploy.demo.hosts import LogFeed

BURST_BYTES = 256 * 1024
"""Maximum bytes per tick; a writer that lags catches up over several ticks."""
SPLIT_CHANCE = 0.3
"""Part of the bursts whose last line arrives in two writes; a rotation may fall between them."""


class Writer:
    """The writer of one feed. Keeps the sum of what it wrote: the archive is proven against that."""

    def __init__(self, feed: LogFeed, path: Path, *, seconds: float, rotate_every: float, seed: int) -> None:
        self.feed = feed
        self.path = path
        self.octets = 0
        self.lines = 0
        self.generations = 1
        self.held = 0  #: bytes after the last newline
        self._sum = hashlib.sha256()
        self._random = random.Random(f"{seed} {feed.host} {feed.name}")  # noqa: S311 - seeded, to be the same again
        self._text = feed.text()
        self._pace = feed.bytes_planned / seconds
        self._rotate_every = rotate_every
        self._rotate_at = rotate_every * self._random.uniform(0.4, 1.2)
        self._rest = b""  # the second write of the last line
        self._renamed = False
        self._ended = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)

    @property
    def sha256(self) -> str:
        """Of all bytes that were written, over all generations."""
        return self._sum.hexdigest()

    @property
    def sources(self) -> list[Path]:
        """The generations on disk, the oldest first."""
        older = [self._older(number) for number in range(self.generations - 1, 0, -1)]
        return [*older, self.path]

    @property
    def done(self) -> bool:
        """Whether all is written that was planned."""
        return self._ended or self.octets + len(self._rest) >= self.feed.bytes_planned

    def tick(self, elapsed: float) -> None:
        """Write what is due `elapsed` seconds after the flow began; rotate when that is due."""
        self._complete()
        owed = min(BURST_BYTES, int(elapsed * self._pace) - self.octets)
        burst = self._text.burst(owed) if owed > 0 else b""
        self._ended = self._ended or (owed > 0 and not burst)
        if len(burst) > 1 and self._random.random() < SPLIT_CHANCE:
            at = self._random.randrange(max(1, burst.rfind(b"\n", 0, -1) + 1), len(burst))
            burst, self._rest = burst[:at], burst[at:]
        self._append(burst)
        if elapsed >= self._rotate_at:
            self._rotate_at = elapsed + self._rotate_every * self._random.uniform(0.6, 1.4)
            self._rename()

    def finish(self) -> None:
        """Write the rest of an open line, and the last line without a newline if the feed requires it."""
        self._complete()
        if self.feed.unterminated:
            self._append(self._text.burst(1).rstrip(b"\r\n"))
        self._file.close()

    def close(self) -> None:
        """Let the file go as it is."""
        self._file.close()

    def _complete(self) -> None:
        """The second write of a line goes to the same file as the first one, even if it was renamed."""
        rest, self._rest = self._rest, b""
        self._append(rest)
        if self._renamed:
            self._file.close()
            self._file = self.path.open("ab", buffering=0)
            self.generations += 1
            self._renamed = False

    def _rename(self) -> None:
        """app.log -> app.log.1 -> app.log.2; the new app.log comes with the next tick.

        Never after an unterminated line: there the archive separates generations by a newline of its own.
        """
        if self.octets == 0 or (self.held and not self._rest.endswith(b"\n")):
            return
        for number in range(self.generations - 1, 0, -1):
            self._older(number).rename(self._older(number + 1))
        self.path.rename(self._older(1))
        self._renamed = True

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self.octets += len(data)
        newlines = data.count(b"\n")
        self.lines += newlines
        self.held = len(data) - data.rfind(b"\n") - 1 if newlines else self.held + len(data)
        self._sum.update(data)
