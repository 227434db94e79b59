"""Device numbers may change with a reboot or a mount; the file is the same if its inode number and its content are."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from producer.following.source import Source
from producer.following.tail import holds
from producer.looking import discover
from producer.looking.discover import Seen
from producer.looking.links import Links
from shipper import events


def at_their_devices(sources: Iterable[Source], files: Iterable[Seen], links: Links) -> list[Source]:
    """`sources` with the device numbers that their files have now. `files`: what a look found."""
    by_inode: dict[int, list[Seen]] = {}
    for seen in files:
        by_inode.setdefault(seen.inode, []).append(seen)
    return [_at_its_device(source, by_inode.get(source.inode, []), links) for source in sources]


def lies_at_its_name(source: Source, newest: Mapping[tuple[int, int], str], links: Links) -> bool:
    """Whether a source lives under the name under which it was first seen; True also where that is unknown.

    An inode number may have come back with another file: `newest` says by key which source began last.
    """
    if source.ended_at or newest[source.key] != source.id:
        return False
    try:
        seen = discover.seen_at(source.file)
        return seen is not None and seen.key == source.key and holds(seen, source.mark, links)
    except OSError:
        return True


def _at_its_device(source: Source, files: list[Seen], links: Links) -> Source:
    """A source that shipped nothing yet, or whose file cannot be found, stays as it is."""
    try:
        if not _has_moved(source, files):
            return source
        beside = [seen for name in source.names for seen in (discover.seen_at(name), *discover.rotations(name))]
        for seen in (*files, *beside):
            if seen is not None and seen.inode == source.inode and holds(seen, source.mark, links):
                events.device_changed(file=source.file, source=source.id)
                return replace(source, device=seen.device)
    except OSError as error:
        if not discover.is_gone(error):
            events.file_unreadable(path=source.file, error=error.strerror or str(error))
    return source


def _has_moved(source: Source, files: list[Seen]) -> bool:
    known = bool(source.inode and source.mark.head_length)
    return known and not any(seen.key == source.key for seen in files) and _device_beside(source) != source.device


def _device_beside(source: Source) -> int:
    return os.stat(os.path.dirname(source.names[-1])).st_dev
