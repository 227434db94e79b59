"""Heartbeats: every few seconds the host publishes its state on its own subject.

They never delay shipping: they are made while no thread reads files, sent without waiting for a reply, and skipped
while the socket is full. If the server refuses one, none is sent in the rest of the session.

The backlog is measured for them: bytes of the files that are not acknowledged, and their age.
"""

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import shipper
from producer.linger import Linger
from producer.model import Destination, Entry, Source
from producer.options import Task
from producer.scheduler import Scheduler
from producer.session.delivery import Delivery
from producer.session.host_name_guard import HostNameGuard
from producer.tailer.file_reader import FileReader
from shipper import events
from shipper.heartbeat import ENDED_EVERY, MAX_FILES, Heartbeat, LaggingFile, encode
from shipper.ports import Publisher
from shipper.subjects import beat_subject


class _Since(NamedTuple):
    """A file that lagged at the previous measurement."""

    seen_at: float  #: when its oldest byte that is not acknowledged was found
    size: int  #: of the file then; bytes after it were found later
    offset: int  #: acknowledged
    still_since: float  #: since when the offset has not moved


@dataclass(frozen=True, slots=True)
class Backlog:
    """Bytes that are not acknowledged: all files together, and the files that lag most."""

    octets: int = 0
    age: float = 0.0  #: seconds since the oldest of these bytes was found
    files: int = 0  #: that have such bytes
    worst: tuple[LaggingFile, ...] = ()


class BacklogMeter:
    """Records since when each file lags. Only files that lag use memory. Owned by the heartbeats."""

    def __init__(self) -> None:
        self._since: dict[str, _Since] = {}
        self._measured_at = 0.0

    def measure(
        self, readers: Iterable[FileReader], known: Mapping[str, Source], archive_name: Callable[[str], str], now: float
    ) -> Backlog:
        """What is not acknowledged `now` (monotonic), also a last line that waits for its newline."""
        before, self._since = self._since, {}
        octets = 0
        lagging: list[tuple[int, str, str]] = []
        for reader in readers:
            source = known.get(reader.id)
            if source is None or source.offset >= reader.size:
                continue
            octets += reader.size - source.offset
            self._since[reader.id] = self._aged(before.get(reader.id), reader.size, source.offset, now)
            lagging.append((reader.size - source.offset, reader.id, archive_name(reader.file)))
        self._measured_at = now
        oldest = min((since.seen_at for since in self._since.values()), default=now)
        worst = []
        for unacknowledged, id_, file in heapq.nlargest(MAX_FILES, lagging):
            since = self._since[id_]
            age, still = round(now - since.seen_at, 3), round(now - since.still_since, 3)
            worst.append(LaggingFile(file=file, offset=since.offset, behind=unacknowledged, age=age, still=still))
        return Backlog(octets, now - oldest, len(lagging), tuple(worst))

    def _aged(self, before: _Since | None, size: int, offset: int, now: float) -> _Since:
        if before is None:
            return _Since(now, size, offset, now)
        still_since = before.still_since if offset == before.offset else now
        if offset < before.size:
            return _Since(before.seen_at, before.size, offset, still_since)
        return _Since(self._measured_at, size, offset, still_since)  # found after the previous measurement


MEASURE_SECONDS = 5.0
"""Interval between measurements of the backlog if heartbeats are off, in seconds: the backlog is also a metric."""
LATE = 0.8
"""Part of the heartbeat interval after which the newest heartbeat is read: another producer may have sent it."""
SOON_SECONDS = 1.0
"""Delay of the next heartbeat after one that the socket had no space for, and at the start."""


class Heartbeats:
    """Measures the backlog and sends heartbeats. Owned by the pipeline."""

    def __init__(
        self, task: Task, destination: Destination, delivery: Delivery, guard: HostNameGuard, linger: Linger
    ) -> None:
        self._task = task
        self._linger = linger
        self._destination = destination
        self._guard = guard
        self.cancel = guard.cancel  #: drops the check of a session that has ended
        self._delivery = delivery
        self._version = shipper.__version__  # reading it takes a millisecond
        self._every = task.heartbeat or MEASURE_SECONDS
        self._subject = beat_subject(task.prefix, task.host)
        self._backlogs = BacklogMeter()
        self._backlog = Backlog()
        self._files = self._unreadable = self._retained = 0
        self._began = self._acknowledged_at = self._rated_at = time.monotonic()
        self._shipped = self._rated = 0
        self._rate = 0.0
        self.trouble = ""  #: why the last session ended, or why nothing is stored in this one
        self._measure_at = self._send_at = self._began

    def next_at(self) -> float:
        """When the next heartbeat is due."""
        return self._send_at

    def acknowledged(self, entries: Iterable[Entry]) -> None:
        """The server stored blocks."""
        self._shipped += sum(entry.piece.span.length for entry in entries)
        self._acknowledged_at = time.monotonic()
        self.trouble = ""

    async def run(self, session: Publisher | None) -> None:
        """Measure the backlog, and send a heartbeat if there is a session. When it is due."""
        now = time.monotonic()
        if session is None:
            if now >= self._measure_at:
                self._measure(now)
        elif now >= self._send_at:
            self._measure(now)
            sent = not self._task.heartbeat or await session.mention(self._subject, encode(self._beat(now)))
            if sent and self._task.heartbeat:
                self._guard.check_later(session, LATE * self._every)
            soon = not sent or now - self._began < self._every
            self._send_at = now + (min(SOON_SECONDS, self._every) if soon else self._every)

    async def check_name(self, publisher: Publisher, scheduler: Scheduler) -> None:
        """Once, at the start: check that no other live producer has this name. Raises ConfigError, SessionLost."""
        await self._guard.check_at_start(publisher, scheduler, lambda: self._refuse(publisher))

    async def _refuse(self, publisher: Publisher) -> bool:
        """Report that this process ends because another live one has this host's name. False: heartbeats are off."""
        if self._task.heartbeat:
            await publisher.mention(self._subject, encode(self._beat(time.monotonic(), refused=True)))
        return bool(self._task.heartbeat)

    async def farewell(self, publisher: Publisher) -> None:
        """Send the last heartbeat: the producer was requested to stop. Nothing before the name is checked."""
        if self._task.heartbeat and self._guard.is_checked:
            now = time.monotonic()
            self._measure(now)
            await publisher.mention(self._subject, encode(self._beat(now, leaves=True)))

    async def report_end(self, publisher: Publisher) -> None:
        """Send one heartbeat: the producer ends because everything is shipped."""
        if self._task.reports_end and self._guard.is_checked:
            now = time.monotonic()
            self._measure(now)
            beat = replace(self._beat(now, leaves=True), ended=True, every=ENDED_EVERY)
            await publisher.mention(self._subject, encode(beat))

    def status(self) -> dict[str, Any]:
        """What the producer does now, and what was measured last, for people and scripts."""
        task, sources, window = self._task, self._delivery.tailer, self._delivery.window
        worst = [
            {"file": each.file, "behind_bytes": each.behind, "age_seconds": each.age} for each in self._backlog.worst
        ]
        left_out = sources.excluded_bytes
        return {
            "map_version": self._destination.place.version,
            "moving": bool(self._destination.place.leaving),
            "host": task.host,
            "subject": self._destination.subject,
            "sources": len(sources.acks.known),
            "unarchived_bytes": sources.acks.unarchived_bytes,
            "held_files": len(sources.retained),
            "held_bytes": sources.retained.octets,
            "excluded_files": len(left_out),
            "excluded_bytes": sum(left_out.values()),
            "links_not_followed": len(sources.resolver.links_not_followed),
            "in_flight_blocks": len(window),
            "in_flight_bytes": window.bytes,
            "backlog_bytes": sources.read_scheduler.backlog_bytes,
            "version": self._version,
            "up_seconds": round(time.monotonic() - self._began, 1),
            "delay_seconds": self._linger.delay,
            "files": self._files,
            "unreadable_files": self._unreadable,
            "unacknowledged_bytes": self._backlog.octets,
            "unacknowledged_seconds": round(self._backlog.age, 1),
            "behind": worst,
            "acknowledged_bytes": self._shipped,
            "acknowledged_seconds_ago": round(time.monotonic() - self._acknowledged_at, 1),
            "redacted_names": self._redacted_names(),
            "trouble": self.trouble,
            "other_producer": self._guard.other,
        }

    def _redacted_names(self) -> list[dict[str, Any]]:
        """The files that are shipped under another name: their local names hold secrets."""
        task = self._task
        renamed = (
            {"file": task.archive_name(each.file), "source": each.id, "device": each.key[0], "inode": each.key[1]}
            for each in self._delivery.tailer.readers
            if task.is_redacted(each.file)
        )
        return list(itertools.islice(renamed, MAX_FILES))

    def _measure(self, now: float) -> None:
        sources = self._delivery.tailer
        readers = sources.readers
        self._backlog = self._backlogs.measure(readers, sources.acks.known, self._task.archive_name, now)
        self._files, self._unreadable = len(readers), len(sources.unreadable)
        self._retained = sources.retained.octets
        self._measure_at = now + self._every
        events.backlog_measured(
            octets=self._backlog.octets,
            age=self._backlog.age,
            files=self._files,
            unreadable=self._unreadable,
            delay=self._linger.delay,
        )

    def _beat(self, now: float, *, leaves: bool = False, refused: bool = False) -> Heartbeat:
        if now > self._rated_at:
            self._rate = (self._shipped - self._rated) / (now - self._rated_at)
            self._rated_at, self._rated = now, self._shipped
        return Heartbeat(
            version=self._version,
            partition=self._destination.partition,
            every=self._every,
            up=now - self._began,
            files=self._files,
            backlog=self._backlog.octets,
            backlog_age=self._backlog.age,
            backlog_files=self._backlog.files,
            silent=now - self._acknowledged_at,
            shipped=self._shipped,
            rate=self._rate,
            in_flight=self._delivery.window.bytes,
            held=self._retained,
            delay=self._linger.delay,
            unreadable=self._unreadable,
            trouble=self.trouble,
            leaves=leaves,
            refused=refused,
            other=self._guard.other,
            worst=self._backlog.worst,
            **(asdict(self._guard.me) if self._guard.me else {}),
        )
