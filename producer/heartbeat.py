"""Heartbeats: every few seconds the host says how it is, on a subject of its own, to whoever wants to know.

They never hold shipping up: they are made where nothing is being read, sent without an answer, and left out where the
socket has no room. A server that does not want them is not asked again in that session.
"""

import functools
import time
from collections.abc import Callable
from typing import Any

import shipper
from producer.backlog import Backlog, Backlogs
from producer.following.sources import Sources
from producer.task import Task
from producer.window import Window
from shipper import events
from shipper.heartbeat import Heartbeat, encode
from shipper.ports import Publisher
from shipper.subjects import beat_subject

MEASURE_SECONDS = 5.0
"""Where no heartbeats are wanted, between two looks at the backlog: it is a metric, too."""
SOON_SECONDS = 1.0
"""Behind one that found no room, and at the beginning."""


class Heartbeats:
    """When the next heartbeat is due, and what it says. Owned by the pipeline; called while nothing is being read."""

    def __init__(self, task: Task, window: Window, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._task = task
        self._window = window
        self._clock = clock
        self._every = task.heartbeat or MEASURE_SECONDS
        self._subject = beat_subject(task.prefix, task.host)
        self._backlogs = Backlogs()
        self._backlog = Backlog()
        self._files = self._unreadable = 0
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

    async def tend(self, sources: Sources, publisher: Publisher | None = None) -> None:
        """Measure what waits, and say it if there is a session; when it is due."""
        now = self._clock()
        if publisher is None:
            if now >= self._measure_at:
                self._measure(sources, now)
        elif now >= self._send_at:
            self._measure(sources, now)
            sent = not self._task.heartbeat or await publisher.mention(self._subject, encode(self._beat(now)))
            soon = not sent or now - self._began < self._every  # a host that has just begun is new for one second only
            self._send_at = now + (min(SOON_SECONDS, self._every) if soon else self._every)

    async def farewell(self, sources: Sources, publisher: Publisher) -> None:
        """Say that none follows, once somebody asked the producer to end."""
        if self._task.heartbeat:
            now = self._clock()
            self._measure(sources, now)
            await publisher.mention(self._subject, encode(self._beat(now, leaves=True)))

    def status(self, sources: Sources) -> dict[str, Any]:
        """What the producer does now, and what was measured last, for people and scripts."""
        task, held = self._task, self._task.following.held
        worst = [
            {"file": each.file, "behind_bytes": each.behind, "age_seconds": each.age} for each in self._backlog.worst
        ]
        return {
            "host": task.host,
            "subject": task.subject,
            "sources": len(sources.ledger.known),
            "unarchived_bytes": sources.ledger.unarchived_bytes,
            "held_files": len(held),
            "held_bytes": held.octets,
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
            "trouble": self._trouble,
        }

    def _measure(self, sources: Sources, now: float) -> None:
        tails = list(sources.tails)
        self._backlog = self._backlogs.look(tails, sources.ledger.known, self._task.following.spools, now)
        self._files, self._unreadable = len(tails), len(sources.unopened)
        self._measure_at = now + self._every
        events.backlog_measured(
            octets=self._backlog.octets, age=self._backlog.age, files=self._files, unreadable=self._unreadable
        )

    def _beat(self, now: float, *, leaves: bool = False) -> Heartbeat:
        if now > self._rated_at:
            self._rate = (self._shipped - self._rated) / (now - self._rated_at)
            self._rated_at, self._rated = now, self._shipped
        held = self._task.following.held
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
            held=held.octets,
            unreadable=self._unreadable,
            trouble=self._trouble,
            leaves=leaves,
            worst=self._backlog.worst,
        )


@functools.cache
def _version() -> str:
    """Of this program; reading it takes a millisecond."""
    return shipper.__version__
