"""Check files against what is said of them, as many at a time as there are processors."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from consumer.audit.entry import Entry, State
from consumer.sealing.packing import BROKEN, CHUNK_BYTES, Passing, Tally, texts
from shipper.units import format_bytes

_ROOM_BYTES = 64 * 1024 * 1024
_AHEAD = 4  # checks a thread that are waiting; the results come in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came out for one file."""

    entry: Entry
    raw: int = 0  #: bytes of text that were found
    lines: int = 0
    octets: int = 0  #: bytes that were read
    behind: int = 0  #: bytes behind what is committed of an open file
    wrong: tuple[str, ...] = ()  #: what is not as it should be; nothing: all is well
    missing: bool = False
    unreadable: str = ""

    @property
    def sound(self) -> bool:
        """Whether the bytes are the ones that were committed."""
        return not (self.wrong or self.missing or self.unreadable)


def check_all(archive: Path, entries: Iterable[Entry], told: Callable[[int], None]) -> Iterator[Checked]:
    """Check each of `entries`, in order; `told` is called with the bytes of each as it is done. Reading only."""
    threads = os.cpu_count() or 1
    calls = threading.Lock()

    def work(entry: Entry) -> Checked:
        checked = check(archive, entry)
        with calls:
            told(entry.stored)
        return checked

    waiting: deque[Future[Checked]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="audit") as pool:
        try:
            for entry in entries:
                waiting.append(pool.submit(work, entry))
                if len(waiting) >= _AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class _Measured(NamedTuple):
    """What is in a file, as far as it could be read."""

    size: int  #: bytes on disk, all of them
    stored: Passing  #: the bytes that were read
    text: Tally
    broken: str  #: why it leads no further


def check(archive: Path, entry: Entry) -> Checked:
    """Read the file of `entry` once and compare."""
    found: _Measured | None = None
    for path in filter(None, (entry.path, entry.also)):
        try:
            found = _measure(archive / path, entry)
            break
        except FileNotFoundError:
            continue
        except OSError as error:
            return Checked(entry=entry, unreadable=error.strerror or str(error))
    if found is None:
        return Checked(entry=entry, missing=entry.stored > 0)
    return Checked(
        entry=entry,
        raw=found.text.octets,
        lines=found.text.lines,
        octets=found.stored.octets,
        behind=max(0, found.size - entry.stored) if entry.is_waiting else 0,
        wrong=tuple(_differences(entry, found)),
    )


def _measure(path: Path, entry: Entry) -> _Measured:
    """Read as much of a file as counts, and of its text not much more than there should be. Raises OSError."""
    text, broken = Tally(), ""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        stored = Passing(file, entry.stored if entry.is_waiting else sys.maxsize)
        try:
            for piece in texts(stored, entry.codec):
                text.add(piece)
                if text.octets > 2 * entry.raw + _ROOM_BYTES:
                    broken = "there is far more text in it than there should be"
                    break
        except BROKEN as error:
            broken = str(error)
        while stored.read(CHUNK_BYTES):  # what nobody could unpack
            pass
    return _Measured(size, stored, text, broken)


def _differences(entry: Entry, found: _Measured) -> Iterator[str]:
    """What is other than it should be, most telling first, as parts of a sentence."""
    if found.stored.octets != entry.stored:
        yield f"{_more(found.stored.octets - entry.stored)} on disk than {_told(entry)}"
    if found.broken:
        yield f"it cannot be unpacked ({found.broken})"
    if found.text.octets != entry.raw:
        yield f"{_more(found.text.octets - entry.raw)} of text"
    if entry.lines is not None and found.text.lines != entry.lines:
        yield f"{found.text.lines} lines instead of {entry.lines}"
    if entry.crc is not None and found.text.crc != entry.crc:
        yield f"CRC-32 of the text is {found.text.crc:08x}, not {entry.crc:08x}"
    if entry.stored_crc is not None and found.stored.crc != entry.stored_crc:
        yield f"CRC-32 of the file is {found.stored.crc:08x}, not {entry.stored_crc:08x}"


def _more(octets: int) -> str:
    count = f"{abs(octets):,} bytes" if abs(octets) < _ROOM_BYTES else format_bytes(abs(octets))
    return f"{count} {'more' if octets > 0 else 'fewer'}"


def _told(entry: Entry) -> str:
    return "its manifest lists" if entry.state is State.SEALED else "its journal has committed"
