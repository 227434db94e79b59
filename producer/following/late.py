"""Late lines: a renamed file that was let go may still be open in a program that writes to it."""

import os
from collections.abc import Callable, Mapping

from producer.following.opening import Opening
from producer.following.source import Source
from producer.following.tails import Key
from producer.looking import discover
from shipper import events

LATE_SECONDS = 3600.0
"""So long after its last block a file is asked whether it grew: one stat a look."""


class Late:
    """Where the files of sources that ended a moment ago lie. Owned by `Sources`."""

    def __init__(self, opening: Opening, known: Mapping[str, Source], wall: Callable[[], float]) -> None:
        self._opening = opening
        self._known = known
        self._wall = wall
        self._ended: dict[Key, tuple[Source, str]] = {}  # with the last path

    def remember(self, source: Source) -> None:
        """A source ended, its file may lie somewhere."""
        if source.inode and self._wall() - source.ended_at < LATE_SECONDS:
            self._ended[source.key] = (source, source.names[-1])

    def go_on(self) -> None:
        """Go on with the sources whose files are longer than what was shipped."""
        for ended in self._grown():
            source = self._known.get(ended.id, ended)
            if source.ended_at and self._opening.resume(source.named_again(), farewell=False):
                events.late_lines(file=source.file, source=source.id)

    def _grown(self) -> list[Source]:
        """Those that grew; what lies under a watched name is looked at anyhow."""
        grown = []
        for key, (source, path) in list(self._ended.items()):
            lies = _lies_at(path, key)
            if key in self._opening.files or lies is None or self._wall() - source.ended_at >= LATE_SECONDS:
                del self._ended[key]
                continue
            self._ended[key] = (source, lies)
            if _size(lies) > source.offset:
                del self._ended[key]
                grown.append(source)
        return grown


def _lies_at(path: str, key: Key) -> str | None:
    """Where a file lies that was seen at `path`; None: nowhere in that directory. Unknown counts as unchanged."""
    try:
        return path if discover.lies_at(path, key) else discover.find_inode(os.path.dirname(path), key)
    except OSError:
        return path


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
