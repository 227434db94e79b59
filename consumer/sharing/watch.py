"""For how long an entry has not changed, while somebody looked. Nobody's clock is compared with anybody else's."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from shipper.model import Entry


def clock() -> float:
    """Seconds that go on while the machine sleeps: what was promised before a suspend is over behind it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class _Seen:
    revision: int
    still: float = 0.0
    changed: bool = False  # since it was seen first


class Watch:
    """Looks again and again; a pause in looking, long or short, proves nothing about others."""

    def __init__(self, *, every: float, clock: Callable[[], float] = clock) -> None:
        self._longest = 2 * every
        self._clock = clock
        self._looked: float | None = None
        self._seen: dict[str, _Seen] = {}

    def look(self, entries: Mapping[str, Entry]) -> None:
        """What the bucket holds just now."""
        now = self._clock()
        passed = 0.0 if self._looked is None else min(now - self._looked, self._longest)
        self._looked = now
        revisions = dict.fromkeys(self._seen, 0) | {key: entry.revision for key, entry in entries.items()}
        for key, revision in revisions.items():
            seen = self._seen.get(key)
            same = seen is not None and seen.revision == revision
            self._seen[key] = (
                replace(seen, still=seen.still + passed) if seen and same else _Seen(revision, changed=seen is not None)
            )

    def still(self, key: str) -> float:
        """Seconds for which the entry of `key`, or that there is none any more, has not changed."""
        seen = self._seen.get(key)
        return seen.still if seen else 0.0

    def changed(self, key: str) -> bool:
        """Whether the entry changed since it was seen first."""
        return key in self._seen and self._seen[key].changed

    def knew(self, key: str) -> bool:
        """Whether there ever was an entry."""
        return key in self._seen

    def forget(self) -> None:
        """The session ended: what did not change meanwhile may only not have been able to."""
        self._looked = None
        self._seen = {key: _Seen(seen.revision) for key, seen in self._seen.items()}
