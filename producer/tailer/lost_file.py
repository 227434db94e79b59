"""Where the rest of a source lies whose own file is gone or rewritten: in a copy, or in a compressed rotation.

What a candidate begins with and the bytes before the offset must agree with the source's mark, as at a resume.

Sources whose own file is gone or was rewritten: each goes on in its rest, or says farewell, when its turn comes.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from producer.charset import LOOK_BACK_BYTES
from producer.discovery import scanner
from producer.discovery.safe_open import Links
from producer.discovery.scanner import Seen
from producer.fingerprint import HEAD_BYTES
from producer.model import Source
from producer.tailer import decompress
from producer.tailer.decompress import Damaged, Unfinished
from producer.tailer.file_reader import Tail, open_file
from producer.tailer.file_table import Key, Tails
from shipper import events
from shipper.model import End

SETTLED_SECONDS = 60.0
"""A compressed file that is incomplete and did not change for so long stays as it is."""
KEPT_BYTES = LOOK_BACK_BYTES
"""Before the offset: as far as anybody looks for the start of a line."""
SECOND_NS = 10**9


class Rest(NamedTuple):
    """An open file that holds a source up to its offset and on: plain, or unpacked into one without a name."""

    descriptor: int
    path: str  #: the file that was found
    key: Key  #: of that file
    size: int


class Rests:
    """Finds the rest of a source. `directory`: for what is unpacked; `is_taken`: whether another source is read there.

    `may_hold`: whether a file may be read as a rotation of a name.

    Owned by `Sources`; called by one thread at a time.
    """

    def __init__(self, directory: Path, clock: Callable[[], float], is_taken: Callable[[Seen], bool],
        links: Links, may_hold: Callable[[str, Seen], bool],
    ) -> None:  # fmt: skip
        self.links = links
        self._may_hold = may_hold
        self._directory = directory
        self._clock = clock
        self._is_taken = is_taken
        self._unfinished: dict[Key, tuple[int, int, float]] = {}  # size, mtime, since
        self.claims: dict[Key, str] = {}  #: by file: the source whose content it is

    def find(self, source: Source) -> Rest | None:
        """The rest of `source`; None: it lies nowhere. Raises Unfinished and OSError: unknown, ask again."""
        best: Rest | None = None
        unknown: Exception | None = None
        for seen in self._candidates(source):
            try:
                rest = self._rest_in(seen, source)
            except scanner.GONE:
                unknown = Unfinished()  # renamed since it was listed: it lies somewhere
                continue
            except (Unfinished, OSError) as error:
                unknown = error
                continue
            if rest is not None and (best is None or rest.size > best.size):
                _close(best)
                best = rest
            else:
                _close(rest)
            if best is not None and best.size >= source.size:
                break  # the oldest that has all that was seen
        if unknown is not None and (best is None or best.size < source.size):
            _close(best)
            raise unknown
        if best is not None:
            self.claims[best.key] = source.id
        return best

    def has_candidates(self, source: Source) -> bool:
        """Whether anything lies where the rest of a source may be. Raises OSError: unknown."""
        return bool(source.mark.head_length) and any(True for _ in self._candidates(source))

    def begins_with(self, seen: Seen) -> bytes | None:
        """The first bytes of what a compressed file holds; None: it cannot be read. Raises Unfinished and OSError."""
        with open(self.links.open(seen.path), "rb") as file:
            try:
                return decompress.head_of(file, decompress.suffix_of(seen.path))
            except Damaged as error:
                events.file_unreadable(path=seen.path, error=str(error))
                return None
            except Unfinished:
                if self._may_go_on(seen):
                    raise
                return None

    def _candidates(self, source: Source) -> Iterator[Seen]:
        """The files beside a source's that may hold its rest, the oldest that is not older than the source first.

        Where only the first bytes are known, an older file does not count: it may begin as this one does.
        """
        since = source.mtime_ns // SECOND_NS * SECOND_NS  # not every tool keeps more than the second
        found = {}
        for base in source.names:
            for name in (base, *scanner.originals(base)):
                beside = (*scanner.rotations(name), *_packed_in_place(name))
                for seen in [seen for seen in beside if self._may_hold(source.file, seen)]:
                    found[seen.key] = (seen.mtime_ns < since, scanner.age(seen, base), seen)
        for _, _, seen in sorted(found.values()):
            own = seen.key == source.key or self.claims.get(seen.key) == source.id
            newer = seen.mtime_ns >= since or source.mark.tail_length > 0
            if own or (newer and seen.key not in self.claims and not self._is_taken(seen)):
                yield seen

    def _rest_in(self, seen: Seen, source: Source) -> Rest | None:
        if decompress.is_compressed(seen.path, self.links):
            try:
                return self._unpacked(seen, source)
            except Damaged as error:
                events.file_unreadable(path=seen.path, error=str(error))
                return None
        descriptor = open_file(seen.path, seen.key, self.links)
        if descriptor is None:
            raise Unfinished  # renamed since it was listed
        if source.mark.agrees(descriptor):
            return Rest(descriptor, seen.path, seen.key, os.fstat(descriptor).st_size)
        os.close(descriptor)
        return None

    def _unpacked(self, seen: Seen, source: Source) -> Rest | None:
        """The content of a compressed file, its head and what lies behind the offset; None: it is another content."""
        mark = source.mark
        keep_from = max(0, min(source.offset, mark.offset) - KEPT_BYTES)
        with (
            open(self.links.open(seen.path), "rb") as packed,
            tempfile.TemporaryFile(dir=self._directory, buffering=0) as target,
        ):
            position, agrees = 0, False
            try:
                for data in decompress.content(packed, decompress.suffix_of(seen.path)):
                    _write(target.fileno(), data[: max(0, HEAD_BYTES - position)], position)
                    skipped = min(len(data), max(0, keep_from - position))
                    _write(target.fileno(), data[skipped:], position + skipped)
                    position += len(data)
                    if not agrees and position >= max(mark.offset, mark.head_length):
                        agrees = mark.agrees(target.fileno())
                        if not agrees:
                            return None
            except Unfinished:
                if self._may_go_on(seen):
                    raise
                events.rest_incomplete(path=seen.path, octets=position)
            if not agrees:
                return None
            os.ftruncate(target.fileno(), position)
            return Rest(os.dup(target.fileno()), seen.path, seen.key, position)

    def _may_go_on(self, seen: Seen) -> bool:
        """Whether an incomplete file changed within the last minute."""
        size, mtime_ns, since = self._unfinished.get(seen.key, (-1, -1, 0.0))
        if (size, mtime_ns) != (seen.size, seen.mtime_ns):
            since = self._clock()
            self._unfinished[seen.key] = (seen.size, seen.mtime_ns, since)
        return self._clock() - since < SETTLED_SECONDS


def _packed_in_place(path: str) -> list[Seen]:
    """The compressed files that have the name `path` and a suffix."""
    return [seen for suffix in scanner.COMPRESSED if (seen := scanner.seen_at(path + suffix)) is not None]


def _write(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def _close(rest: Rest | None) -> None:
    if rest is not None:
        os.close(rest.descriptor)


class Orphan(NamedTuple):
    """A source without its file."""

    source: Source  #: as far as it was read
    why: End
    since: float  #: monotonic


class Orphans:
    """Owned by `Reading`. Younger generations wait for an orphan as for an older file."""

    def __init__(self, tails: Tails, rests: Rests, clock: Callable[[], float], patience_seconds: float) -> None:
        self._tails = tails
        self._rests = rests
        self._clock = clock
        self._patience = patience_seconds
        self._waiting: dict[str, Orphan] = {}
        self._asked: set[str] = set()  # since the last look: unknown
        self._passed_over: set[str] = set()  # those that no younger generation waits for any more

    def add(self, source: Source, why: End) -> None:
        """The file of `source` is not there any more, or holds something else."""
        self._tails.await_(source)
        self._waiting[source.id] = Orphan(source, why, self._clock())

    def look_again(self) -> None:
        """What was unknown may be known now."""
        self._asked.clear()

    @property
    def files(self) -> list[str]:
        """The names of the sources that wait."""
        return [orphan.source.file for orphan in self._waiting.values()]

    def of(self, file: str, why: End) -> list[Source]:
        """The sources of a name that lost their files for that reason."""
        return [each.source for each in self._waiting.values() if each.why is why and each.source.file == file]

    def found(self, source: Source) -> None:
        """A source has a file again."""
        del self._waiting[source.id]
        self._passed_over.discard(source.id)
        self._tails.no_longer_awaited(source)

    def due(self, holds_up: Callable[[Tail], bool]) -> list[Orphan]:
        """Those that no older generation holds up, and that were not asked for since the last look."""
        return [
            orphan
            for orphan in list(self._waiting.values())
            if orphan.source.id not in self._asked
            and not self._tails.awaits_before(orphan.source.file, orphan.source.id)
            and not any(map(holds_up, self._tails.before(orphan.source.file, orphan.source.id)))
        ]

    def settle(self, orphan: Orphan) -> Tail | None:
        """The open rest of an orphan; None: there is none, or that is unknown and `is_waiting`."""
        source = orphan.source
        try:
            rest = self._rests.find(source) if source.mark.head_length else None
        except (OSError, Unfinished) as error:
            self._is_unknown(orphan, error)
            return None
        self._passed_over.discard(source.id)
        del self._waiting[source.id]
        self._tails.no_longer_awaited(source)
        if rest is None:
            return None
        tail = Tail(source, rest.descriptor, rest.path)
        tail.goes_on_in_rest(orphan.why)
        self._tails.add(tail)
        events.rest_found(file=source.file, path=rest.path, offset=source.offset, octets=rest.size - source.offset)
        return tail

    def _is_unknown(self, orphan: Orphan, error: Exception) -> None:
        """The next look asks again, but the younger generations do not wait for ever."""
        source = orphan.source
        self._asked.add(source.id)
        if not isinstance(error, Unfinished):
            events.file_unreadable(path=source.file, error=str(error))
        if self._clock() - orphan.since >= self._patience and source.id not in self._passed_over:
            self._passed_over.add(source.id)
            self._tails.no_longer_awaited(source)
            events.file_passed_over(path=source.file, source=source.id, error=str(error))

    def is_waiting(self, source: Source) -> bool:
        """Whether nothing is known of its rest yet."""
        return source.id in self._waiting
