"""The demo's directory, with a marker and a lock; the errors that end a demo before its proof."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

EXIT_OTHER = 1
EXIT_UNAVAILABLE = 69
EXIT_CONFIG = 78
SIGNALLED = 128
"""Added to a signal's number, as shells do."""


class DemoError(Exception):
    """What is wrong, what the reader may do, and the exit code."""

    def __init__(self, message: str, *, hint: str = "", code: int = EXIT_OTHER) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class Interrupted(Exception):  # noqa: N818 - no error: a signal requested it
    """A signal requested the end of the demo."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.code = SIGNALLED + number


MARKER = ".fshipper-demo"
MARKED = json.dumps(
    {"v": 1, "made_by": "fshipper demo", "note": "the next demo here replaces everything in this directory"}
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The paths of a demo."""

    out: Path

    @property
    def hosts(self) -> Path:
        """The hosts' log files, all generations: the sources."""
        return self.out / "hosts"

    @property
    def archive(self) -> Path:
        """What the collector writes."""
        return self.out / "archive"

    @property
    def report(self) -> Path:
        """What Spark writes."""
        return self.out / "report"

    @property
    def store(self) -> Path:
        """The server's streams."""
        return self.out / "nats"

    @property
    def state(self) -> Path:
        """Checkpoints and journals."""
        return self.out / "state"

    @property
    def logs(self) -> Path:
        """The logs of the programs."""
        return self.out / "logs"

    @property
    def result(self) -> Path:
        """The result, for programs."""
        return self.out / "result.json"


@contextlib.contextmanager
def taken(out: Path) -> Iterator[Workspace]:
    """`out` as an empty place for a demo; what a previous one left there is gone.

    Raises:
        DemoError: it holds something that no demo made, another demo runs there, or it cannot be written.
    """
    directory = out.expanduser().absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        foreign = not (directory / MARKER).exists() and any(directory.iterdir())
        if foreign:
            raise DemoError(
                f"{directory} is not empty, and no demo made it",
                hint="choose another directory with --out",
                code=EXIT_CONFIG,
            )
        descriptor = os.open(directory / MARKER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise DemoError(
            f"{directory} cannot be written: {error.strerror}",
            hint="choose another directory with --out",
            code=EXIT_CONFIG,
        ) from None
    try:
        _lock(descriptor, directory)
        _empty(directory)
        os.pwrite(descriptor, MARKED.encode() + b"\n", 0)
        place = Workspace(directory)
        place.logs.mkdir()
        yield place
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise DemoError(
            f"another demo runs in {directory}", hint="wait for it, or choose another --out", code=EXIT_UNAVAILABLE
        ) from None


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.name == MARKER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
