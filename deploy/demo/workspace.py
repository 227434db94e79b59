"""The demo's directory, with a marker and a lock."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from shipper.errors import ConfigError, Unavailable

MARKER = ".fshipper-demo"
MARKED = json.dumps(
    {"v": 1, "made_by": "fshipper demo", "note": "the next demo here replaces everything in this directory"}
)


class Workspace:
    """The paths of a demo in the directory `out`."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.hosts = out / "hosts"  #: log files of the hosts, all generations: the sources
        self.archive = out / "archive"  #: written by the collector
        self.report = out / "report"  #: written by Spark
        self.store = out / "nats"  #: streams of the server
        self.state = out / "state"  #: checkpoints and journals
        self.logs = out / "logs"  #: of the programs
        self.result = out / "result.json"  #: for programs


@contextlib.contextmanager
def taken(out: Path) -> Iterator[Workspace]:
    """`out` as an empty place for a demo; what a previous one left there is gone.

    Raises ConfigError: it holds something that no demo made, or cannot be written; Unavailable: a demo runs there.
    """
    directory = out.expanduser().absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        foreign = not (directory / MARKER).exists() and any(directory.iterdir())
        if foreign:
            raise ConfigError(
                f"{directory} is not empty, and no demo made it",
                hint="choose another directory with --out",
            )
        descriptor = os.open(directory / MARKER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(
            f"{directory} cannot be written: {error.strerror}",
            hint="choose another directory with --out",
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Unavailable(
                f"another demo runs in {directory}", hint="wait for it, or choose another --out"
            ) from None
        for entry in directory.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != MARKER:
                entry.unlink()
        os.pwrite(descriptor, MARKED.encode() + b"\n", 0)
        place = Workspace(directory)
        place.logs.mkdir()
        yield place
    finally:
        os.close(descriptor)
