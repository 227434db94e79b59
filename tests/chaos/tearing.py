"""What power loss leaves of a SQLite database: the last transaction, whose sync had not returned, is torn.

Only for a database whose program died right after that commit, before it did anything that follows from it. Everything
that was synced earlier stays, as a disk keeps it.
"""

import contextlib
import random
import shutil
import sqlite3
import struct
import tempfile
from pathlib import Path

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
BACKFILLED_AT = 96  # in the -shm: frames that are in the database file already (wal.c, WalCkptInfo)


def tear(database: Path, chance: random.Random) -> str:
    """Tear the last transaction of `database`; what was done, "" where nothing could be torn."""
    wal = Path(f"{database}-wal")
    if not wal.exists() or wal.stat().st_size <= HEADER_BYTES:
        return ""
    content = wal.read_bytes()
    page, frames = _frames(content)
    commits = [number for number, is_commit in enumerate(frames) if is_commit]
    if not commits:
        return ""
    first = commits[-2] + 1 if len(commits) > 1 else 0
    size = FRAME_HEADER_BYTES + page
    begin, end = HEADER_BYTES + first * size, HEADER_BYTES + (commits[-1] + 1) * size
    if _backfilled(database) > first:
        return ""  # SQLite copied it already, so it was synced
    at = chance.randrange(begin, end)
    how = chance.choice(("cut", "zeros", "noise"))
    torn = {"cut": b"", "zeros": bytes(end - at), "noise": chance.randbytes(end - at)}[how]
    wal.write_bytes(content[:at] + torn + (content[end:] if torn else b""))
    return f"{how} from byte {at} on of a transaction at {begin}-{end} in {wal.name}"


def spoil_what_does_not_count(archive: Path, journal: Path, chance: random.Random) -> int:
    """Put noise or zeros after the committed length of every open file: those bytes are not promised. How many."""
    spoiled = 0
    for name, length in _committed(journal):
        path = archive / name
        if path.exists() and path.stat().st_size >= length:
            with path.open("r+b") as file:
                file.seek(length)
                file.truncate()
                file.write(chance.choice((b"", bytes(5000), chance.randbytes(5000))))
            spoiled += 1
    return spoiled


def _committed(journal: Path) -> list[tuple[str, int]]:
    """The open files and their lengths, read from a copy: who opens a journal mends it."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / journal.name
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{journal}{suffix}", f"{copy}{suffix}")
        with contextlib.closing(sqlite3.connect(copy)) as database:
            return database.execute("SELECT path, length FROM files WHERE sealing = ''").fetchall()


def _frames(content: bytes) -> tuple[int, list[bool]]:
    """The page size, and for each valid frame of the log whether it ends a transaction."""
    page = struct.unpack_from(">I", content, 8)[0]
    salts = content[16:24]
    frames = []
    for at in range(HEADER_BYTES, len(content) - FRAME_HEADER_BYTES - page + 1, FRAME_HEADER_BYTES + page):
        if content[at + 8 : at + 16] != salts:
            break  # of an earlier round of the log
        frames.append(struct.unpack_from(">I", content, at + 4)[0] > 0)
    return page, frames


def _backfilled(database: Path) -> int:
    try:
        return struct.unpack_from("=I", Path(f"{database}-shm").read_bytes(), BACKFILLED_AT)[0]
    except (FileNotFoundError, struct.error):
        return 0
