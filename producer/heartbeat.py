"""Heartbeats: every few seconds the host says how it is, on a subject of its own, to whoever wants to know.

They never hold shipping up: they are made where nothing is being read, sent without an answer, and left out where the
socket has no room. A server that does not want them is not asked again in that session.

What of the files is seen and not acknowledged, and for how long: one pass over the tails, now and then.
"""

import functools
import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import shipper
from producer.model import Source
from producer.options import Task
from producer.session.host_name_guard import Namesake
from producer.session.inflight import Window
from producer.tailer.file_reader import FileReader, ReadOutcome
from producer.tailer.tailer import Tailer
from producer.transform.time_budget import HeldBack
from shipper import events
from shipper.heartbeat import MAX_FILES, FileBehind, Heartbeat, encode
from shipper.ports import Publisher
from shipper.subjects import beat_subject


class _Since(NamedTuple):
    """A file that was behind at the look before."""

    seen_at: float  #: when the oldest of its bytes was seen that is not acknowledged
    size: int  #: of the file then: acknowledged up to there, all that waits was seen later
    offset: int  #: acknowledged
    still_since: float  #: for how long the offset is that


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits, all files together and the worst of them."""

    octets: int = 0
    age: float = 0.0  #: seconds since the oldest of these bytes was seen
    files: int = 0  #: with bytes that wait
    worst: tuple[FileBehind, ...] = ()


class Backlogs:
    """Remembers since when which file is behind; only those that are cost memory. Owned by the heartbeats."""

    def __init__(self) -> None:
        self._since: dict[str, _Since] = {}
        self._looked_at = 0.0

    def look(
        self, readers: Iterable[FileReader], known: Mapping[str, Source], names: Mapping[str, str], now: float
    ) -> Backlog:
        """What waits `now` (monotonic), but no line that its writer has yet to end.

        `names`: archive names by local path, of inputs without a file.
        """
        before, self._since = self._since, {}
        octets = 0
        behind: list[tuple[int, str, str]] = []
        for reader in readers:
            source = known.get(reader.id)
            if source is None or source.offset >= reader.size or _is_held_back(reader, source):
                continue
            octets += reader.size - source.offset
            self._since[reader.id] = self._aged(before.get(reader.id), reader.size, source.offset, now)
            behind.append((reader.size - source.offset, reader.id, names.get(reader.file, reader.file)))
        self._looked_at = now
        oldest = min((since.seen_at for since in self._since.values()), default=now)
        worst = tuple(self._told(*each, now) for each in heapq.nlargest(MAX_FILES, behind))
        return Backlog(octets, now - oldest, len(behind), worst)

    def _aged(self, before: _Since | None, size: int, offset: int, now: float) -> _Since:
        if before is None:
            return _Since(now, size, offset, now)
        still_since = before.still_since if offset == before.offset else now
        if offset < before.size:
            return _Since(before.seen_at, before.size, offset, still_since)
        return _Since(self._looked_at, size, offset, still_since)  # seen since then, at the earliest

    def _told(self, octets: int, id_: str, file: str, now: float) -> FileBehind:
        since = self._since[id_]
        return FileBehind(
            file=file,
            offset=since.offset,
            behind=octets,
            age=round(now - since.seen_at, 3),
            still=round(now - since.still_since, 3),
        )


def _is_held_back(reader: FileReader, source: Source) -> bool:
    return reader.outcome is ReadOutcome.PARTIAL_LINE and source.offset >= reader.offset


MEASURE_SECONDS = 5.0
"""Where no heartbeats are wanted, between two looks at the backlog: it is a metric, too."""
LATE = 0.8
"""Of the time between two heartbeats, when the newest one is looked at: another producer's may have followed."""
SOON_SECONDS = 1.0
"""Behind one that found no room, and at the beginning."""


class Heartbeats:
    """When the next heartbeat is due, and what it says. Owned by the pipeline; called while nothing is being read."""

    def __init__(
        self, task: Task, window: Window, namesake: Namesake, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._task = task
        self._namesake = namesake
        self._window = window
        self._clock = clock
        self._every = task.heartbeat or MEASURE_SECONDS
        self._subject = beat_subject(task.prefix, task.host)
        self._backlogs = Backlogs()
        self._backlog = Backlog()
        self._files = self._unreadable = self._retained = 0
        self._began = self._acknowledged_at = self._rated_at = clock()
        self._shipped = self._rated = 0
        self._rate = 0.0
        self._trouble = ""
        self._measure_at = self._send_at = self._began

    @property
    def next_at(self) -> float:
        """Monotonic time when `tend` wants to be called."""
        return self._send_at

    @property
    def is_due(self) -> bool:
        """Whether it wants to be called now."""
        return self._clock() >= self._send_at

    def settle_in(self, task: Task) -> None:
        """The host works in another partition from now on."""
        self._task = task

    def acknowledged(self, octets: int) -> None:
        """The server stored so many bytes of lines."""
        self._shipped += octets
        self._acknowledged_at = self._clock()
        self._trouble = ""

    def has_trouble(self, error: str) -> None:
        """What the last session ended with, or why nothing is stored in this one."""
        self._trouble = error

    async def tend(self, sources: Tailer, publisher: Publisher | None = None) -> None:
        """Measure what waits, and say it if there is a session; when it is due."""
        now = self._clock()
        if publisher is None:
            if now >= self._measure_at:
                self._measure(sources, now)
        elif now >= self._send_at:
            self._measure(sources, now)
            sent = not self._task.heartbeat or await publisher.mention(self._subject, encode(self._beat(now)))
            if sent and self._task.heartbeat:
                self._namesake.look_later(publisher, LATE * self._every)
            soon = not sent or now - self._began < self._every  # a host that has just begun is new for one second only
            self._send_at = now + (min(SOON_SECONDS, self._every) if soon else self._every)

    async def refuse(self, publisher: Publisher) -> bool:
        """Say that this process ends, because another live one has the name of this host; False: heartbeats are off."""
        if self._task.heartbeat:
            await publisher.mention(self._subject, encode(self._beat(self._clock(), refused=True)))
        return bool(self._task.heartbeat)

    async def farewell(self, sources: Tailer, publisher: Publisher) -> None:
        """Say that none follows, once somebody asked the producer to end."""
        if self._task.heartbeat:
            now = self._clock()
            self._measure(sources, now)
            await publisher.mention(self._subject, encode(self._beat(now, leaves=True)))

    def status(self, sources: Tailer) -> dict[str, Any]:
        """What the producer does now, and what was measured last, for people and scripts."""
        task = self._task
        held_back = task.edits.budget.held_back
        worst = [
            {"file": each.file, "behind_bytes": each.behind, "age_seconds": each.age} for each in self._backlog.worst
        ]
        left_out = sources.left_out
        return {
            "host": task.host,
            "subject": task.subject,
            "sources": len(sources.ledger.known),
            "unarchived_bytes": sources.ledger.unarchived_bytes,
            "held_files": len(sources.retained),
            "held_bytes": sources.retained.octets,
            "excluded_files": len(left_out),
            "excluded_bytes": sum(left_out.values()),
            "links_not_followed": sources.links_not_followed,
            "in_flight_blocks": len(self._window),
            "in_flight_bytes": self._window.bytes,
            "backlog_bytes": sources.backlog_bytes,
            "version": _version(),
            "up_seconds": round(self._clock() - self._began, 1),
            "files": self._files,
            "unreadable_files": self._unreadable,
            "unacknowledged_bytes": self._backlog.octets,
            "unacknowledged_seconds": round(self._backlog.age, 1),
            "behind": worst,
            "acknowledged_bytes": self._shipped,
            "acknowledged_seconds_ago": round(self._clock() - self._acknowledged_at, 1),
            "held_back": [{"file": each.file, "offset": each.offset, "tries": each.tries} for each in held_back[:20]],
            "held_back_files": len(held_back),
            "trouble": self._trouble or _held_back(held_back),
            "other_producer": self._namesake.other,
        }

    def _measure(self, sources: Tailer, now: float) -> None:
        readers = sources.readers
        self._backlog = self._backlogs.look(readers, sources.ledger.known, self._task.following.spools, now)
        self._files, self._unreadable = len(readers), len(sources.unopened)
        self._retained = sources.retained.octets
        self._measure_at = now + self._every
        events.backlog_measured(
            octets=self._backlog.octets, age=self._backlog.age, files=self._files, unreadable=self._unreadable
        )

    def _beat(self, now: float, *, leaves: bool = False, refused: bool = False) -> Heartbeat:
        if now > self._rated_at:
            self._rate = (self._shipped - self._rated) / (now - self._rated_at)
            self._rated_at, self._rated = now, self._shipped
        me = self._namesake.me
        return Heartbeat(
            version=_version(),
            partition=self._task.partition,
            every=self._every,
            up=now - self._began,
            files=self._files,
            backlog=self._backlog.octets,
            backlog_age=self._backlog.age,
            backlog_files=self._backlog.files,
            silent=now - self._acknowledged_at,
            shipped=self._shipped,
            rate=self._rate,
            in_flight=self._window.bytes,
            held=self._retained,
            unreadable=self._unreadable,
            trouble=self._trouble or _held_back(self._task.edits.budget.held_back),
            leaves=leaves,
            refused=refused,
            instance=me.id if me else "",
            kernel=me.kernel if me else "",
            run=me.run if me else "",
            machine=me.machine if me else "",
            state=me.state if me else "",
            pid=me.pid if me else 0,
            other=self._namesake.other,
            worst=self._backlog.worst,
        )


def _held_back(files: Sequence[HeldBack]) -> str:
    """What is wrong where files are held back; empty: none is."""
    if not files:
        return ""
    more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
    return f"patterns take too long for the next block of {files[0].file}{more}: held back until a pattern is corrected"


@functools.cache
def _version() -> str:
    """Of this program; reading it takes a millisecond."""
    return shipper.__version__
