"""A new file under a name whose old file is gone, and that begins with all that was shipped: its source goes on there.

Editors, `sed -i` and `rsync` write a new file and rename it over the old one.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from producer.discovery.safe_open import close_on_exit
from producer.discovery.scanner import Seen, resolved_path
from producer.fingerprint import CHUNK_BYTES, crc_of, first_mark
from producer.model import Source, new_source
from producer.tailer.decompress import IncompleteFile
from producer.tailer.file_table import Event, FileState, FileTable, TrackedFile
from producer.tailer.resolver import Resolver
from shipper import events
from shipper.model import End

MIN_COMMON_BYTES = 1024
"""Bytes that a file must have in common with the one before: a restarted program may write the same first lines."""


class Predecessor(NamedTuple):
    """The youngest source of a name, whose file has no name any more."""

    file: TrackedFile
    source: Source  #: as far as it is read
    size: int  #: bytes that the new file must have


class AtomicReplacement:
    """Finds the sources that go on in the file that replaced theirs. Owned by `Rotation`."""

    def __init__(self, table: FileTable, resolver: Resolver) -> None:
        self._table = table
        self._resolver = resolver

    def goes_on(self, seen: Seen) -> bool:
        """Whether a source goes on in `seen`, or that is unknown until the next scan."""
        before = predecessor(self._table.generations(seen.path), self._table.acks.known)
        if before is None or seen.size < before.size or before.source.offset - before.source.origin < MIN_COMMON_BYTES:
            return False
        try:
            descriptor = self._resolver.finder.links.open_as(seen.path, seen.path, seen.key)
            with close_on_exit(descriptor) as closing:
                if descriptor is not None and _begins_with(descriptor, before) and self._has_no_copy(before.source):
                    self._go_on(before, descriptor, seen)
                    closing.pop_all()
                    return True
        except IncompleteFile:
            return True
        except OSError as error:
            events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        return False

    def _has_no_copy(self, source: Source) -> bool:
        """Whether no other file has the shipped bytes; else two generations only begin alike. Raises IncompleteFile."""
        found = self._resolver.finder.find(source)
        if found is not None:
            os.close(found.descriptor)
        return found is None

    def _go_on(self, before: Predecessor, descriptor: int, seen: Seen) -> None:
        """Let a source go on in the open file, durably before its first byte is read there; else the next scan does.

        What a program may still write to the old file, which it has open, is a source that begins where that ends.
        """
        file, old, late = before.file, before.file.reader, None
        new = self._resolver.reader(_at(seen, before.source), descriptor, seen.path)
        if old is not None:
            mark = first_mark(old.fd, before.size)
            late = new_source(old.file, os.fstat(old.fd), origin=before.size, mark=mark)
        if not self._table.acks.add_durably([_at(seen, self._table.acks.known[new.id]), *([late] if late else [])]):
            new.close()
            return
        late_descriptor = -1 if old is None else os.dup(old.fd)
        is_read = before.source.offset >= before.size
        if late and old and is_read:  # the older generation first
            self._resolver.follow_late(late, late_descriptor, old.path)
        self._table.open_file(file, new)
        self._table.renew_generation(file)
        self._table.move(file, Event.CONTENT_FOUND)
        if late and old and not is_read:
            self._resolver.follow_late(late, late_descriptor, old.path)
        self._table.acks.note_scan(new.id, new.size, new.mtime_ns, new.start)
        events.file_replaced(path=seen.path, source=new.id, offset=new.offset)


def predecessor(generations: list[TrackedFile], known: Mapping[str, Source]) -> Predecessor | None:
    """The file that had a name last, if it has none any more. Raises OSError."""
    for file in reversed(generations):
        reader = file.reader
        if file.state is FileState.LOST and file.end is End.DELETED and file.source is not None:
            return Predecessor(file, file.source, file.source.size)
        if reader is None or not file.is_reading:
            continue
        if file.id not in known:  # begun by this scan
            return None
        if reader.fd < 0 or reader.ends_as is not None or not reader.marked or reader.has_name():
            return None
        return Predecessor(file, reader.as_read(known[file.id]), os.fstat(reader.fd).st_size)
    return None


def _at(seen: Seen, source: Source) -> Source:
    """A source whose file is the one that was seen."""
    real = resolved_path(source.file, seen.path)
    return replace(source, device=seen.device, inode=seen.inode, size=seen.size, mtime_ns=seen.mtime_ns, real=real)


def _begins_with(descriptor: int, before: Predecessor) -> bool:
    """Whether an open file has all that was shipped, and what is in the old file after that. Raises OSError."""
    source, old = before.source, before.file.reader
    if not source.mark.agrees(descriptor) or crc_of(descriptor, source.origin, source.offset) != source.crc:
        return False
    if old is None:
        return True
    at = source.offset
    while at < before.size:
        length = min(CHUNK_BYTES, before.size - at)
        data = os.pread(old.fd, length, at)
        if not data or os.pread(descriptor, len(data), at) != data:
            return False
        at += len(data)
    return True
