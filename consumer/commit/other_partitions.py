"""Reads the journals of the other partitions: a source belongs to the archive, not to a partition.

A host is in one partition at a time, and the partition map moves it in order. Blocks can arrive in a second partition
without a move: from an older producer with another number of partitions, or with a copied state directory. Then the
second partition drops what the archive holds and writes what follows.

Two partitions of one process never decide about the same source at the same time (`ArchiveSources.exclusive`), because
each must see what the other one committed. The journals of other processes are read when a source is new.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from consumer.archive.journal import SOURCE_COLUMNS, to_known
from consumer.model import ArchivedSource, SourceKey
from shipper import events
from shipper.errors import Poison
from shipper.model import Delivery
from shipper.subjects import parse_log_subject

RESCAN_SECONDS = 5.0
"""Seconds between two scans for journals that other processes created."""
COMPLAIN_SECONDS = 60.0


class FoundSource(NamedTuple):
    """A source in another partition's journal."""

    partition: int
    known: ArchivedSource


def each_once(found: Iterable[ArchivedSource], *, newest: int) -> list[ArchivedSource]:
    """The `newest` sources of one host, newest first. The entry of each has the highest watermark."""
    best: dict[str, ArchivedSource] = {}
    for known in found:
        if known.id not in best or known.watermark > best[known.id].watermark:
            best[known.id] = known
    return sorted(best.values(), key=lambda known: -known.seen_ns)[:newest]


@dataclass(slots=True)
class ArchiveSources:
    """Which sources the partitions of one process share. Owned by the collector's loop. `shared` is read by workers."""

    journals: Callable[[], Mapping[int, Path]] = dict  #: the current journal of every partition of the archive
    shared: set[SourceKey] = field(default_factory=set)  #: met in more than one partition
    opened: int = 0  #: journals that this process has opened; a change requires a new scan
    _busy: set[SourceKey] = field(default_factory=set)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def exclusive(self, keys: frozenset[SourceKey]) -> AsyncIterator[None]:
        """Lock all of `keys`: until the end no other partition of this process decides about their blocks."""
        while not self._busy.isdisjoint(keys):
            self._freed.clear()
            await self._freed.wait()
        self._busy |= keys
        try:
            yield
        finally:
            self._busy -= keys
            self._freed.set()


class OtherPartitions:
    """The journals of all partitions but one, read only. Owned by the worker of that one: one call at a time.

    A journal that cannot be read is skipped, and an event reports it: one damaged journal must not stop all partitions.
    """

    def __init__(self, partition: int, sources: ArchiveSources | None = None) -> None:
        self._partition = partition
        self.sources = sources or ArchiveSources()
        self.sources.opened += 1
        self._scanned = 0  # value of `opened` at the last scan
        self._open: dict[int, tuple[Path, sqlite3.Connection]] = {}
        self._rescan_at = 0.0
        self._complained_at = -COMPLAIN_SECONDS

    def find(self, key: SourceKey) -> FoundSource | None:
        """The partition that has archived most of a source. None means that no other one knows it."""
        query = f"SELECT {SOURCE_COLUMNS} FROM sources WHERE host = ? AND id = ?"  # noqa: S608 - fixed names
        found = [FoundSource(number, known) for number, rows in self._ask(query, key) for known in map(to_known, rows)]
        return max(found, key=lambda each: each.known.watermark, default=None)

    def maybe_shared(self, batch: Iterable[Delivery], is_cached: Callable[[SourceKey], bool]) -> frozenset[SourceKey]:
        """The sources of a batch that another partition may have, too: shared ones, and those that are new here.

        `is_cached`: whether this partition's journal has a source in memory.
        """
        shared = self.sources.shared
        named = {(delivery.subject, id_) for delivery in batch if (id_ := delivery.headers.get("Log-Id"))}
        keys = (SourceKey(host, id_) for subject, id_ in named if (host := _host_of(subject)))
        return frozenset(key for key in keys if key in shared or not is_cached(key))

    def shared(self) -> set[SourceKey]:
        """The sources that were new to a partition when another one had already archived a part of them."""
        self._rescan()
        found: set[SourceKey] = set()
        for _, database in self._open.values():
            with contextlib.suppress(sqlite3.Error):  # a journal of an older version has no such table
                found |= {SourceKey(*row) for row in database.execute("SELECT host, id FROM shared")}
        return found

    def newest_of(self, host: str, *, newest: int) -> list[ArchivedSource]:
        """The sources of `host` that other partitions have something of, newest first. Each source is there once."""
        query = f"SELECT {SOURCE_COLUMNS} FROM sources WHERE host = ? ORDER BY seen_ns DESC LIMIT ?"  # noqa: S608
        return each_once((to_known(row) for _, rows in self._ask(query, (host, newest)) for row in rows), newest=newest)

    def close(self) -> None:
        """Close the journals."""
        for _, database in self._open.values():
            database.close()
        self._open.clear()

    def _ask(self, query: str, values: Iterable[object]) -> list[tuple[int, list[Any]]]:
        self._rescan()
        answers = []
        for number, (path, database) in list(self._open.items()):
            try:
                rows = database.execute(query, tuple(values)).fetchall()
            except sqlite3.Error as error:
                self._drop(number)
                self._complain(path, error)
            else:
                answers.append((number, rows))
        return answers

    def _rescan(self) -> None:
        now = time.monotonic()
        if now < self._rescan_at and self._scanned == self.sources.opened:
            return
        self._rescan_at, self._scanned = now + RESCAN_SECONDS, self.sources.opened
        there = {number: path for number, path in self.sources.journals().items() if number != self._partition}
        for number in [number for number, (path, _) in self._open.items() if there.get(number) != path]:
            self._drop(number)
        for number, path in there.items():
            if number not in self._open:
                try:
                    self._open[number] = (
                        path,
                        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False),
                    )
                except sqlite3.Error as error:
                    self._complain(path, error)

    def _drop(self, number: int) -> None:
        _, database = self._open.pop(number)
        database.close()

    def _complain(self, path: Path, error: sqlite3.Error) -> None:
        if time.monotonic() - self._complained_at >= COMPLAIN_SECONDS:
            self._complained_at = time.monotonic()
            events.journal_unreadable(partition=self._partition, journal=str(path), error=str(error))


def _host_of(subject: str) -> str:
    """The host that published on `subject`. Empty means that it is no log subject, so its message is a dead letter."""
    try:
        return parse_log_subject(subject).host
    except Poison:
        return ""
