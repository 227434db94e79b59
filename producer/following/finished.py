"""Which files could go once the archive has them: read to their end, acknowledged, under a name nobody expects to stay.

Read to its end: behind a newline, or let go. And its name is

* a rotated one: `app.log.1` of what was shipped as `app.log`, whether that name is watched or not;
* or one that a glob found. The live file of a running program is among those; see `deletion.py` why it is spared.

Never: a path that was named without a glob, an excluded name, a name that somebody chose by hand (`app.log.keep`), a
symbolic link, an empty file, the spool of an input (it tends its files itself).
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from producer.following.source import Source
from producer.following.tail import Tail
from producer.following.tails import Tails
from producer.looking import discover
from producer.looking.discover import Watched

HIDDEN_PREFIX = ".fshipper-deleting-"


class Finished(NamedTuple):
    """A file that is read to its end and acknowledged, and where it lies."""

    source: Source
    path: str
    rotated: bool  #: it had another name when it was first seen


def hidden_name(path: str, source: Source) -> str:
    """What the file of `source` is called beside `path` in the moment before it is deleted."""
    return os.path.join(os.path.dirname(path), HIDDEN_PREFIX + source.id)


def finished(sources: Iterable[Source], tails: Tails, watched: Watched) -> list[Finished]:
    """The files of `sources` that are read to their end and acknowledged, under names that may be deleted."""
    resting: dict[str, list[Source]] = {}
    found = []
    for source in sources:
        tail = tails.of(source.id)
        if source.origin or not source.size:
            continue  # the archive never has all of it, or has nothing
        if tail is not None and _is_read(tail, source):
            found.append(Finished(source, tail.path, rotated=discover.is_sibling(tail.path, source.file)))
        elif tail is None and source.ended_at and source.inode and source.size <= source.offset:
            resting.setdefault(source.file, []).append(source)
    found.extend(_rotated(resting))
    return [file for file in found if _may_go(file, watched)]


def _is_read(tail: Tail, source: Source) -> bool:
    """Whether everything in a file that is followed is read and acknowledged, and it lies under a watched name."""
    return tail.present and not tail.ending and source.offset == tail.offset == tail.size == source.size


def _rotated(resting: Mapping[str, list[Source]]) -> Iterator[Finished]:
    """Where the files of sources that ended lie now, of those that do."""
    for name, sources in resting.items():
        try:
            paths = {seen.key: seen.path for seen in discover.siblings(name)}
        except OSError:
            continue  # unknown now
        for source in sources:
            hidden = hidden_name(name, source)  # a kill may have left it
            path = hidden if discover.lies_at(hidden, source.key) else paths.get(source.key)
            if path is not None:
                yield Finished(source, path, rotated=True)


def _may_go(file: Finished, watched: Watched) -> bool:
    kept = (file.path in watched.patterns and not file.rotated) or file.source.file in watched.own
    return not kept and not watched.excludes(file.path) and not os.path.islink(file.path)
