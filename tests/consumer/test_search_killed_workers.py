"""Workers that are killed while they read: every hit is found once, or the file is named."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from searching import write_archive

from consumer.archive.event_times import TimeOf
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import USUAL, Wanted
from consumer.read.file_search import Hit
from consumer.read.neighbours import Neighbours
from consumer.read.query import parse
from consumer.read.search_pool import Search
from consumer.read.search_request import Request

LINES = 60_000
FILE = ("web1.example.net", "/a.log")


@contextlib.contextmanager
def searching(archive: Path, query: str, *, by: TimeOf = TimeOf.STORED) -> Iterator[Search]:
    reader, wanted = ArchiveReader(archive, archive.parent), Wanted(allowance=USUAL if by is TimeOf.EVENT else None)
    request = Request(query=parse(query), wanted=wanted)
    with Search(request, reader.find(Wanted()), jobs=1, neighbours=Neighbours(reader)) as search:
        yield search


def kill_the_worker() -> None:
    (worker,) = multiprocessing.active_children()
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()


def is_blocked(archive: Path) -> bool:
    """Whether a reader waits for a writer of the FIFO that is there instead of the segment."""
    try:
        os.close(os.open(next(archive.rglob("a.log-*")), os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def test_a_worker_that_is_killed_after_it_sent_hits_is_replaced_and_no_hit_comes_twice(tmp_path: Path) -> None:
    text = b"".join(b"line %06d with some more text so that a pipe is full soon\n" % number for number in range(LINES))
    archive = write_archive(tmp_path, {FILE: text}, lambda text: [text])
    with searching(archive, "line") as search:
        hits = search.hits(lambda: None)
        found = [next(hits)]  # the worker waits: its output is not read
        kill_the_worker()
        found += hits
    assert [hit.at for hit in found] == list(range(0, len(text), len(text) // LINES))
    assert search.unreadable == []
    assert search.totals.bytes_read <= search.totals.bytes_total


def test_a_file_whose_workers_are_killed_twice_is_named_and_the_others_are_searched(tmp_path: Path) -> None:
    files = {FILE: b"line a\n", ("web2.example.net", "/b.log"): b"line b\n"}
    archive = write_archive(tmp_path, files, lambda text: [text])
    segment = next(archive.rglob("a.log-*"))
    segment.unlink()
    os.mkfifo(segment)
    kills = 0

    def idle() -> None:
        nonlocal kills
        if is_blocked(archive) or kills == 0:
            kills += 1
            kill_the_worker()

    found: list[Hit] = []
    with searching(archive, "line") as search:
        found += search.hits(idle)
    assert kills == 2
    assert [hit.line for hit in found] == [b"line b"]
    (named,) = search.unreadable
    assert named.path == segment.relative_to(archive).as_posix()
    assert named.error == "2 worker processes ended while they read it, the last one with signal 9"
