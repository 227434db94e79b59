"""A spool below the directory of a test, an input that reads into it, and what it holds."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from producer.fingerprint import Mark
from producer.inputs.reader import Reader
from producer.inputs.spool import Progress, Spool
from producer.model import Source, new_source

NEWLINE = b"\n"


def spool_in(directory: Path, limit: int = 1 << 20) -> Spool:
    return Spool(directory / "spool", "/name", limit_bytes=limit)


@contextlib.contextmanager
def running(reader: Reader) -> Iterator[None]:
    reader.start()
    try:
        yield
    finally:
        reader.stop()
        reader.join()
        assert not reader.is_reading
        reader.spool.close()


def text(directory: Path) -> bytes:
    path = directory / "spool" / "log"
    return path.read_bytes() if path.exists() else b""


def plain(said: str) -> str:
    """What was logged, without its colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", said)


def knows(spool: Spool) -> Progress:
    """The pipeline follows the file that grows, and nothing is acknowledged."""
    stat = spool.log.stat()
    source = new_source(str(spool.log), stat, origin=0, mark=Mark())
    return Progress.of([source], [])


def never(_source: Source) -> None:
    raise AssertionError("nothing is to be deleted")
