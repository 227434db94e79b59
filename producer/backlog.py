"""What of the files is seen and not acknowledged, and for how long: one pass over the tails, now and then."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from producer.following.source import Source
from producer.following.tail import Tail, Tip
from shipper.heartbeat import MAX_FILES, FileBehind


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

    def look(self, tails: Iterable[Tail], known: Mapping[str, Source], names: Mapping[str, str], now: float) -> Backlog:
        """What waits `now` (monotonic), but no line that its writer has yet to end.

        `names`: archive names by local path, of inputs without a file.
        """
        before, self._since = self._since, {}
        octets = 0
        behind: list[tuple[int, str, str]] = []
        for tail in tails:
            source = known.get(tail.id)
            if source is None or source.offset >= tail.size or _is_held_back(tail, source):
                continue
            octets += tail.size - source.offset
            self._since[tail.id] = self._aged(before.get(tail.id), tail.size, source.offset, now)
            behind.append((tail.size - source.offset, tail.id, names.get(tail.file, tail.file)))
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


def _is_held_back(tail: Tail, source: Source) -> bool:
    return tail.tip is Tip.REST and source.offset >= tail.offset
