"""A new file under a name whose old file is gone, beginning with all that was shipped of it: its source goes on there.

Editors, `sed -i` and `rsync` write a new file and rename it over the old one.
"""

import os
from dataclasses import replace
from typing import NamedTuple

from producer.checkpoint.ack_tracker import Ledger
from producer.checkpoint.recovery import CHUNK_BYTES, crc_of
from producer.discovery.scanner import Seen
from producer.discovery.symlinks import real_of
from producer.fingerprint import first_mark
from producer.model import Source, new_source
from producer.tailer.decompress import Unfinished
from producer.tailer.file_reader import Tail, open_file
from producer.tailer.file_table import Tails
from producer.tailer.lost_file import Rests
from producer.tailer.read_scheduler import Reading
from producer.tailer.resolver import Opening
from shipper import events

LEAST_BYTES = 1024
"""What a file must have in common with the one before: a program that begins anew may write the same first lines."""


class Before(NamedTuple):
    """The youngest source of a name, whose file has no name any more."""

    source: Source  #: as far as it is read
    tail: Tail | None  #: its file, where that is still open
    size: int  #: bytes that the new file must have


class Replaced:
    """Finds the sources that go on in another file. Owned by `Sources`."""

    def __init__(self, tails: Tails, reading: Reading, opening: Opening, ledger: Ledger, rests: Rests) -> None:
        self._tails = tails
        self._reading = reading
        self._opening = opening
        self._ledger = ledger
        self._rests = rests

    def goes_on(self, seen: Seen) -> bool:
        """Whether a source goes on in `seen`, or that is unknown and asked again at the next look."""
        before = self._before(seen.path)
        if before is None or seen.size < before.size or before.source.offset - before.source.origin < LEAST_BYTES:
            return False
        descriptor = None
        try:
            descriptor = open_file(seen.path, seen.key, self._rests.links)
            if descriptor is not None and _begins_with(descriptor, before) and self._has_no_rest(before.source):
                goes_on = self._go_on(before, descriptor, seen)
                descriptor = None
                return goes_on
        except Unfinished:
            return True
        except OSError as error:
            events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        finally:
            if descriptor is not None:
                os.close(descriptor)
        return False

    def _before(self, file: str) -> Before | None:
        """The source that had the name last, if its file has none any more."""
        tail = next(reversed(self._tails.family(file)), None)
        deleted = max(self._reading.deleted(file), key=lambda source: self._tails.place(source.id), default=None)
        if deleted is not None and (tail is None or self._tails.place(tail.id) < self._tails.place(deleted.id)):
            return Before(deleted, None, deleted.size)
        if tail is None or tail.id not in self._ledger.known:  # begun by this look
            return None
        if tail.held < 0 or tail.ends_as is not None or not tail.marked or tail.may_come_back():
            return None
        return Before(tail.as_read(self._ledger.known[tail.id]), tail, os.fstat(tail.held).st_size)

    def _has_no_rest(self, source: Source) -> bool:
        """Whether no rotation or copy holds what was shipped: else generations only begin alike. Raises Unfinished."""
        rest = self._rests.find(source)
        if rest is not None:
            os.close(rest.descriptor)
        return rest is None

    def _go_on(self, before: Before, descriptor: int, seen: Seen) -> bool:
        """Let a source go on in the open file, durably before its first byte is read there."""
        new = Tail(_at(seen, before.source), descriptor, seen.path)
        late = None if before.tail is None else _of_late_lines(before.tail, before.size)
        begun = [_at(seen, self._ledger.known[new.id]), *([late[0]] if late else [])]
        if not self._ledger.begin(begun):
            new.close()
            if late:
                late[1].close()
            return True
        if before.tail is None:
            self._reading.found_again(before.source)
        else:
            self._tails.remove(before.tail)
        tails = [new] if late is None else [new, late[1]] if before.source.offset < before.size else [late[1], new]
        for tail in tails:  # the older ones first
            self._opening.put(tail)
            self._reading.add(tail)
        if late:
            self._reading.leave(late[1])
        self._ledger.looked(new)
        events.file_replaced(path=seen.path, source=new.id, offset=new.offset)
        return True


def _at(seen: Seen, source: Source) -> Source:
    """A source whose file is the one that was seen."""
    real = real_of(source.file, seen.path)
    return replace(source, device=seen.device, inode=seen.inode, size=seen.size, mtime_ns=seen.mtime_ns, real=real)


def _begins_with(descriptor: int, before: Before) -> bool:
    """Whether an open file holds all that was shipped, and what is in the old file behind that. Raises OSError."""
    source, tail = before.source, before.tail
    if not source.mark.agrees(descriptor) or crc_of(descriptor, source.origin, source.offset) != source.crc:
        return False
    if tail is None:
        return True
    at = source.offset
    while at < before.size:
        length = min(CHUNK_BYTES, before.size - at)
        old = os.pread(tail.held, length, at)
        if not old or os.pread(descriptor, len(old), at) != old:
            return False
        at += len(old)
    return True


def _of_late_lines(tail: Tail, size: int) -> tuple[Source, Tail]:
    """What a program may still write to the old file, which it holds open: a source that begins where the file ends."""
    stat = os.fstat(tail.held)
    mark = first_mark(tail.held, size)
    source = new_source(tail.file, stat, origin=size, mark=mark)
    return source, Tail(source, os.dup(tail.held), tail.path)
