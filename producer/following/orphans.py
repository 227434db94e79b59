"""Sources whose own file is gone or was rewritten: each goes on in its rest, or says farewell, when its turn comes."""

from collections.abc import Callable
from typing import NamedTuple

from producer.following.rest import Rests
from producer.following.source import Source
from producer.following.tail import Tail
from producer.following.tails import Tails
from producer.following.unpack import Unfinished
from shipper import events
from shipper.model import End


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
