"""What the collectors' journals hold: read from outside, while they work, hang or are dead."""

import contextlib
import sqlite3
from pathlib import Path


def newest(where: Path) -> dict[int, Path]:
    """The journals below a directory by partition, each of its newest epoch."""
    found: dict[int, tuple[int, Path]] = {}
    for path in where.rglob("logs.p*.sqlite"):
        partition, _, epoch = path.name.removeprefix("logs.p").removesuffix(".sqlite").partition(".")
        found[int(partition)] = max(found.get(int(partition), (-1, path)), (int(epoch or 0), path))
    return {partition: path for partition, (_, path) in found.items()}


def not_listed(journal: Path) -> list[tuple[str, int]]:
    """The files that are open or being sealed: the segment that each becomes, if it does, and its bytes of log text."""
    return _asked(journal, "SELECT sealing, raw FROM files")


def lost(journal: Path) -> int:
    """Bytes that are missing by its gap records."""
    return sum(length for (length,) in _asked(journal, "SELECT end - start FROM gaps"))


def resume(journal: Path) -> int:
    """Up to which sequence its stream may be purged."""
    return max([1, *(sequence for (sequence,) in _asked(journal, "SELECT resume FROM stream"))])


def _asked(journal: Path, query: str) -> list[tuple]:
    """The answer; nothing where it is not there yet, or gone as another epoch began."""
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=5)) as database,
    ):
        return database.execute(query).fetchall()
    return []
