"""Which inputs run, and what becomes of their spools: started before the first look, stopped first at a drain."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from producer.following.source import Source
from producer.inputs.reader import Reader
from producer.inputs.segments import Progress
from producer.inputs.spool import Hint, Spool
from shipper import events

TEND_SECONDS = 0.1


class Inputs:
    """The inputs of one producer and every spool that its state has, also of inputs that are no longer asked for.

    They live as long as the program, through every reload. Owned by the event loop.
    """

    def __init__(self, readers: Sequence[Reader] = (), spools: Sequence[Spool] = (), *, alone: bool = False) -> None:
        self._readers = readers
        self._spools = (*(reader.spool for reader in readers), *spools)
        self.end_the_program = alone and bool(readers) and all(reader.ends for reader in readers)
        self.stopping = False
        self._tended_at = 0.0
        for spool in spools:
            spool.finish()  # nobody writes there in this run

    @property
    def names(self) -> Mapping[str, str]:
        """Archive names by the local path of the spool."""
        return {str(spool.log): spool.name for spool in self._spools}

    def start(self) -> None:
        """Begin to read. Raises ConfigError: something cannot be opened; then nothing runs."""
        try:
            for reader in self._readers:
                reader.start()
        except BaseException:
            self.close()
            raise

    def hint_to(self, hint: Hint) -> None:
        """Whom to tell that a spool grew."""
        for spool in self._spools:
            spool.hint_to(hint)

    def stop(self) -> None:
        """Stop reading; what is spooled is still shipped. Returns at once."""
        self.stopping = True
        for reader in self._readers:
            reader.stop()

    def close(self) -> None:
        """Stop, and close every file."""
        self.stop()
        for reader in self._readers:
            reader.join()
        for spool in self._spools:
            spool.close()

    def check(self) -> None:
        """Raises Fatal: an input could not go on."""
        for reader in self._readers:
            reader.check()

    def tend(self, progress: Callable[[], Progress], release: Callable[[Source], None]) -> None:
        """Rotate and delete what is due, now and then. Raises Fatal: an input could not go on."""
        self.check()
        if self._spools and time.monotonic() >= self._tended_at + TEND_SECONDS:
            self._tended_at = time.monotonic()
            now = progress()
            for spool in self._spools:
                try:
                    spool.tend(now, release)
                except OSError as error:  # no room, no right: the next look tries again
                    events.spool_failed(input=spool.name, error=error.strerror or str(error))

    def is_over(self, progress: Callable[[], Progress]) -> bool:
        """Whether every input has ended and all of it is acknowledged."""
        now = progress() if self._spools else None
        return now is None or all(spool.is_over(now) for spool in self._spools)

    def is_settled(self, progress: Callable[[], Progress]) -> bool:
        """Whether all that was spooled is acknowledged, save for a line that its writer has yet to end."""
        if any(reader.is_reading for reader in self._readers):
            return False
        now = progress() if self._spools else None
        return now is None or all(spool.is_settled(now) for spool in self._spools)


def names_below(root: Path) -> dict[Path, str]:
    """The spools that lie below `root`, with the archive name of each."""
    return {path.parent: os.fsdecode(path.read_bytes()) for path in sorted(root.glob("*/name"))}
