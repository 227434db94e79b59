"""Search an archive in this process or as a command, and a slow reference that reads every line."""

import json
import os
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from harness import forking
from keeping import DAY_NS, seal_all, write_open

from consumer.archive.event_times import TimeOf
from consumer.archive.parts import Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import USUAL, Wanted
from consumer.read.file_search import FileSearch, Hit
from consumer.read.neighbours import Neighbours
from consumer.read.query import Query
from consumer.read.search_pool import Search, _Done, _Progress, _scanned
from consumer.read.search_request import Request
from shipper.layout import NANOSECONDS


class Place(NamedTuple):
    """Identity of a line."""

    host: str
    file: str
    offset: int
    line: bytes


class Searched(NamedTuple):
    """Result of a search in this process."""

    hits: list[Hit]
    places: list[Place]
    search: Search


class SearchHere(Search):
    """A search without worker processes: of a small one the fork takes most of the time."""

    def _messages(self) -> Iterator[_Progress | _Done]:
        number, sent = self._next(), list[_Progress | _Done]()
        link = SimpleNamespace(send=sent.append)
        done = _scanned(link, self._request, self._neighbours, number, self.parts[number], 0)
        yield from (*sent, done)


def search(
    archive: Path, query: Query, *, jobs: int = 0, idle: Callable[[], None] = lambda: None,
    neighbours: Neighbours | None = None, by: TimeOf = TimeOf.STORED, since_ns: int = 0, until_ns: int | None = None,
    **more: Any,
) -> Searched:  # fmt: skip
    """Every hit, in order, found in this process or with jobs by as many workers."""
    wanted = Wanted(since_ns=since_ns, until_ns=until_ns, allowance=USUAL if by is TimeOf.EVENT else None)
    reader = ArchiveReader(archive, archive.parent)
    request, parts = Request(query=query, wanted=wanted, **more), reader.find(wanted)
    with (Search if jobs else SearchHere)(
        request, parts, jobs=jobs, neighbours=neighbours or Neighbours(reader)
    ) as found:
        hits = list(found.hits(idle))
        places = []
        for hit in hits:
            part, (_, offset) = found.parts[hit.number], found.parts[hit.number].source_at(hit.at)
            places.append(Place(part.host, part.file, hit.at if offset is None else offset, hit.line))
    return Searched(hits, places, found)


def places_here(archive: Path, query: Query) -> list[Place]:
    """Every hit, found in this process without workers."""
    places = list[Place]()
    reader = ArchiveReader(archive, archive.parent)
    for number, part in enumerate(reader.find(Wanted())):

        def report(hits: list[Hit], _complete: int, _read: int, part: Part = part) -> None:
            places.extend(Place(part.host, part.file, part.spans[0].start + hit.at, hit.line) for hit in hits)

        FileSearch(Request(query=query, wanted=Wanted()), part, number, report, Neighbours(reader)).run()
    return places


def lines_of(text: bytes) -> Iterable[tuple[int, bytes]]:
    """Offset and content of each line, as a reference finds them."""
    at = 0
    for line in text.split(b"\n"):
        if at < len(text):
            yield at, line
        at += len(line) + 1


def expected(files: dict[tuple[str, str], bytes], matches: Callable[[bytes], bool]) -> list[Place]:
    """What a slow reader finds."""
    return sorted(
        Place(host, file, at, line)
        for (host, file), text in files.items()
        for at, line in lines_of(text)
        if matches(line)
    )


def write_archive(
    place: Path, files: dict[tuple[str, str], bytes], cut: Callable[[bytes], list[bytes]], *, codec: str = "zstd",
    still_open: int = 0,
) -> Path:  # fmt: skip
    """Sealed segments of some files; the last part of the first `still_open` files is not sealed."""
    sequence = 7
    for number, ((host, file), text) in enumerate(files.items()):
        source, start, parts = f"{zlib.crc32((host + file).encode()):016x}", 0, cut(text)
        for index, part in enumerate(parts):
            begin = DAY_NS + index * 60 * NANOSECONDS
            write_open(
                place, file, [part], host=host, source=source, start=start, sequence=sequence,
                stored_ns=(begin, begin + 59 * NANOSECONDS),
            )  # fmt: skip
            sequence, start = sequence + 10, start + len(part)
            if not (number < still_open and index == len(parts) - 1):
                seal_all_but(place, number < still_open, codec)
    archive = place / "archive"
    (archive / "_archive.json").write_text(json.dumps({"id": "0000"}))
    journal = place / "collector" / "0000" / "partition=0"
    journal.parent.mkdir(parents=True, exist_ok=True)
    return archive


def seal_all_but(place: Path, _last: bool, codec: str) -> None:
    """Seal everything that is open."""
    seal_all(place, codec=codec)


def fshipper(
    *arguments: str, code: int | None = 0, verb: Sequence[str] = ("search",), **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """`fshipper search`, or another verb, as a command."""
    with forking.popen(
        [*verb, *arguments], env=dict(os.environ) | environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        out, err = process.communicate(timeout=120)
    assert code is None or process.returncode == code, f"{process.returncode}\n{err.decode()}"
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
