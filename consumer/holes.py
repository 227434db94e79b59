"""Holes that last: ask the producer for the bytes, and give them up only when nobody can have them any more."""

import enum
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from consumer.stage import Hole


class Step(enum.Enum):
    """What to do about a hole now."""

    WAIT = "wait"
    ASK = "ask"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    hole: Hole
    since: float
    asked_at: float = 0.0
    gone: bool = False


class Holes:
    """The open holes of a partition and what was done about them. Owned by the partition's worker."""

    def __init__(self, *, patience: float, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._limit = limit
        self._clock = clock
        self._watched: dict[str, _Watched] = {}

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def open(self) -> Mapping[str, Hole]:
        """The open holes by source."""
        return {id_: watched.hole for id_, watched in self._watched.items()}

    def update(self, holes: Mapping[str, Hole]) -> None:
        """What the last batch left open."""
        now = self._clock()
        self._watched = {
            id_: replace(self._watched[id_], hole=hole) if id_ in self._watched else _Watched(hole=hole, since=now)
            for id_, hole in holes.items()
        }

    def clear(self) -> None:
        """A new session reads again from before the first hole, so each is found again."""
        self._watched = {}

    def next_step(self, hole: Hole, *, at_once: bool) -> Step:
        """What to do about `hole` now; `at_once`: nothing else is to be expected from the stream."""
        watched, now = self._watched[hole.source], self._clock()
        if watched.gone or now - watched.since >= self._limit:
            return Step.GIVE_UP
        waited = now - (watched.asked_at or watched.since)
        ask_now = at_once and not watched.asked_at
        return Step.ASK if ask_now or waited >= self._patience else Step.WAIT

    def answered(self, hole: Hole, *, gone: bool) -> None:
        """The producer was asked: it sends again, or (`gone`) cannot."""
        self._watched[hole.source] = replace(self._watched[hole.source], asked_at=self._clock(), gone=gone)
