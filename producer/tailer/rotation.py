"""Which generations begin: new files, and older ones that were missed and come before them. What goes on in a new file.

A generation may have come and been renamed between two scans, or while no producer ran: its name shows its original.
Sources that never had a byte cannot be identified by content, so a start searches their files anew.
"""

import contextlib
import os
from collections.abc import Container, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from producer.checkpoint.ack_tracker import AckTracker
from producer.discovery import scanner
from producer.discovery.patterns import prefix_matcher
from producer.discovery.safe_open import close_on_exit
from producer.discovery.scanner import Key, Seen, resolved_path
from producer.fingerprint import CHUNK_BYTES, crc_of, first_mark
from producer.model import Source, new_source
from producer.tailer import decompress
from producer.tailer.copytruncate import CompressedFiles, Copies
from producer.tailer.decompress import IncompleteFile
from producer.tailer.file_reader import FileReader
from producer.tailer.file_table import Event, FileState, FileTable, TrackedFile
from producer.tailer.resolver import Resolver
from shipper import events
from shipper.model import End


class Decision(NamedTuple):
    """What a file that appeared means. Empty: it is not read, or the next scan decides."""

    begin: tuple[tuple[Seen, str], ...] = ()  #: generations and their archive names, the oldest first
    may_replace: bool = False  #: it may have replaced the file of a source, which goes on in it


class BlankSources:
    """The sources of the checkpoint that never had a byte. Owned by `Rotation`.

    An inode number alone would assign any later file to them. Only the name is kept: a file that had it and was
    renamed since the last scan is found by that. They stay in the checkpoint until their name has a source again.
    """

    def __init__(self, acks: AckTracker) -> None:
        self._acks = acks
        self._blanks: list[Source] = []

    def without(self, sources: Iterable[Source]) -> list[Source]:
        """`sources` less the blank ones, whose names are known from now on."""
        kept = []
        for source in sources:
            if is_blank(source):
                self._acks.note_name(source.file, source.mtime_ns)
                self.add(source)
            else:
                kept.append(source)
        return kept

    def add(self, source: Source) -> None:
        """One that is in the checkpoint and not tracked any more."""
        self._blanks.append(source)

    def name_of(self, seen: Seen) -> str | None:
        """The name that an empty, renamed file had. Its later content belongs there."""
        same = (source.file for source in self._blanks if source.key == seen.key and seen.size == 0)
        return next((name for name in same if scanner.is_sibling(seen.path, name)), None)

    def scan_ends(self) -> None:
        """Forget those whose name has a source again."""
        if self._blanks:
            names = {source.file for source in self._acks.known.values()}
            over = [source for source in self._blanks if source.file in names]
            if over and self._acks.forget(over):
                self._blanks = [source for source in self._blanks if source.file not in names]


def is_blank(source: Source) -> bool:
    """Whether no scan found a byte of a source."""
    return not (source.ended_at or source.size or source.mark.head_length or source.offset > source.origin)


class Rotation:
    """Decides for each scan which generations begin. Owned by `Tailer`."""

    def __init__(self, table: FileTable, resolver: Resolver) -> None:
        self._table = table
        self._acks = table.acks
        self._spools = table.following.spools
        self._resolver = resolver
        self._may_match = prefix_matcher(table.following.watched.patterns)
        self._replacement = AtomicReplacement(table, resolver)
        self._compressed = CompressedFiles(table.following.watched, table.following.links)
        self.copies = Copies(table, resolver.finder)
        self.blanks = BlankSources(table.acks)

    def may_match(self, path: str) -> bool:
        """Whether a path is watched."""
        return self._may_match(path) and not self._table.following.watched.excludes(path)

    def scan_begins(self) -> None:
        """What is known of the files that were followed is known anew."""
        self.copies.scan_begins()

    def scan_ends(self, files: Mapping[Key, Seen]) -> None:
        """What was found is what the next scan compares with."""
        self.copies.forget(files.keys())
        self.blanks.scan_ends()
        self._acks.scan_ends({seen.path for seen in files.values()})
        self._compressed.scan_ends(files.keys(), known=self._acks.changed_before)

    def appeared(self, seen: Seen) -> list[Source]:
        """The generations that begin because `seen` is there, which is not read yet."""
        ended = self._table.ended_at(seen.key)
        source = None if ended is None else self._acks.known.get(ended.id)
        if source is not None and self._resolver.resume(source.named_again(), or_lose=False):
            return []
        decision = self.decide(seen)
        if decision.may_replace and self._replacement.goes_on(seen):
            return []
        begun, waits = list[Source | None](), False
        for each, name in decision.begin:
            if each is seen and waits:
                continue  # the next scan begins with it: the older generation is first
            begun.append(source := self._resolver.begin(each, name))
            waits |= source is None and each.path not in self._resolver.refused
        return [source for source in begun if source is not None]

    def decide(self, seen: Seen) -> Decision:
        """What a file means that is not read yet. Reads files, changes none of the tracked ones."""
        if self._table.waits_for_open(seen.key) or self._compressed.excludes(seen) or self.is_copy(seen):
            return Decision()
        if (blank := self.blanks.name_of(seen)) is not None:
            return Decision(((seen, blank),))
        name = self._first_name(seen)
        try:
            missed = self._missed_before(name)
        except IncompleteFile:
            return Decision()  # an older generation may be being compressed: the next scan decides
        if name != seen.path:  # it is among them, by another path of the same file, too
            return Decision(tuple((each, name) for each in missed))
        older = [(each, name) for each in missed if each.key != seen.key]
        return Decision((*older, (seen, name)), may_replace=not older and not self._table.is_spooled(seen.path))

    def vanished(self, present: Container[str]) -> list[Source]:
        """The generations that begin although no file has their name now: they came and were renamed."""
        begun: list[Source | None] = []
        for name in [name for name in self._acks.changed_before if name not in present]:
            if os.path.lexists(name) or not self.may_match(name):
                continue
            with contextlib.suppress(IncompleteFile):
                begun.extend(self._resolver.begin(each, name) for each in self._missed_before(name))
        return [source for source in begun if source is not None]

    def dismissed_blank(self, file: TrackedFile, reader: FileReader, files: Mapping[Key, Seen]) -> bool:
        """Whether an empty file is not read: it begins anew after missed generations, or is a copy.

        It may be empty again: what came and was copied between two scans is found now, or never.
        """
        seen = files.get(file.key) if file.key else None
        if seen is None or not reader.is_blank or not file.is_reading:
            return False
        if is_copy := self._is_copy_now(file, seen):
            self._table.move(file, Event.DISMISSED)
            self._acks.forget([self._acks.remove(file.id)])
        elif comes_later := self._comes_after_missed(file):
            self._table.move(file, Event.DISMISSED)
            self.blanks.add(self._acks.remove(file.id))
        return is_copy or comes_later

    def must_wait(self, file: TrackedFile, reader: FileReader) -> bool:
        """Whether only a full scan can identify the content of an empty file."""
        if not reader.is_blank:
            return False
        try:
            seen = scanner.scan_file(reader.path)
        except OSError:
            return True
        return self._comes_after_missed(file) or (seen is not None and self._is_copy_now(file, seen))

    def _comes_after_missed(self, file: TrackedFile) -> bool:
        """Whether what is written to an empty file is younger than a generation that was missed."""
        if file.name in self._spools:
            return False
        with contextlib.suppress(IncompleteFile):
            return bool(self._missed_before(file.name))
        return True

    def _is_copy_now(self, file: TrackedFile, seen: Seen) -> bool:
        """Whether an empty file becomes a copy of another, which was seen before its first byte."""
        return file.name not in self._spools and seen.size > 0 and self.is_copy(seen)

    # -- missed generations and copies ------------------------------------------------------------------------------

    def _first_name(self, seen: Seen) -> str:
        """The name that a new file had before it was renamed since the last scan, if that name is free now."""
        for name in () if self._compressed.is_named(seen) else scanner.originals(seen.path):
            known_until = self._acks.changed_before.get(name)
            if known_until is not None and seen.mtime_ns >= known_until and not os.path.lexists(name):
                return name
        return seen.path

    def _missed_before(self, name: str) -> list[Seen]:
        """The files that had `name` and are newer than all that is known of it, oldest first. Raises IncompleteFile."""
        known_until = 0 if name in self._spools else self._acks.changed_before.get(name)
        if known_until is None:
            return []
        return [
            sibling
            for sibling in self._acks.targets.rotations(name, self._resolver.listing)
            if sibling.mtime_ns >= known_until
            and not self._table.is_tracked(sibling)
            and self._is_readable(name, sibling)
            and not self._is_copy(sibling)
        ]

    def is_copy(self, seen: Seen) -> bool:
        """Whether the content of `seen` is known under another name. Unknown counts as no."""
        try:
            return not self._compressed.is_named(seen) and self._is_copy(seen)
        except IncompleteFile:
            return False

    def _is_copy(self, seen: Seen) -> bool:
        """The same. Raises IncompleteFile."""
        try:
            is_copy = self.copies.is_copy(seen)
            self._resolver.begin_after = self.copies.begins_at
            return is_copy
        except OSError:
            return False  # opening it meets the same error and logs it

    def _is_readable(self, name: str, sibling: Seen) -> bool:
        """Whether a rotation is plain, or compressed in a way that can be read. Raises IncompleteFile."""
        suffix = decompress.suffix_of(sibling.path)
        if not suffix:
            return True
        if self._compressed.is_named(sibling) or os.path.lexists(sibling.path.removesuffix(suffix)):
            return False  # shipped as it is; or its original is still there
        try:
            return self._resolver.finder.holds_bytes(name, sibling)
        except OSError as error:
            events.file_unreadable(path=sibling.path, error=error.strerror or str(error))
            return False


# -- a file that replaces another --------------------------------------------------------------------------------------

MIN_COMMON_BYTES = 1024
"""Bytes that a file must have in common with the one before: a restarted program may write the same first lines."""


class Predecessor(NamedTuple):
    """The youngest source of a name, whose file has no name any more."""

    file: TrackedFile
    source: Source  #: as far as it is read
    size: int  #: bytes that the new file must have


class AtomicReplacement:
    """Finds the sources that go on in the file that replaced theirs. Owned by `Rotation`.

    Their old file has no name any more, and the new one begins with all that was shipped: editors, `sed -i` and `rsync`
    write a new file and rename it over the old one.
    """

    def __init__(self, table: FileTable, resolver: Resolver) -> None:
        self._table = table
        self._resolver = resolver

    def goes_on(self, seen: Seen) -> bool:
        """Whether a source goes on in `seen`, or that is unknown until the next scan."""
        before = predecessor(self._table.generations(seen.path), self._table.acks.known)
        if before is None or seen.size < before.size or before.source.offset - before.source.origin < MIN_COMMON_BYTES:
            return False
        finder = self._resolver.finder
        try:
            descriptor = finder.links.open_as(seen.path, seen.path, seen.key)
            with close_on_exit(descriptor) as closing:
                # if a rotation or a copy has the shipped bytes, two generations only begin with the same bytes
                if (
                    descriptor is not None
                    and _begins_with(descriptor, before)
                    and not finder.has_content(before.source)
                ):
                    self._go_on(before, descriptor, seen, closing)
                    return True
        except IncompleteFile:
            return True
        except OSError as error:
            events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        return False

    def _go_on(self, before: Predecessor, descriptor: int, seen: Seen, closing: ExitStack) -> None:
        """Let a source go on in the open file, durably before its first byte is read there. Else the next scan does.

        What a program may still write to the old file, which it has open, is a source that begins where that ends.
        """
        file, old, late = before.file, before.file.reader, None
        new = self._resolver.reader(_at(seen, before.source), descriptor, seen.path)
        if old is not None:
            mark = first_mark(old.fd, before.size)
            late = new_source(old.file, os.fstat(old.fd), origin=before.size, mark=mark)
        if not self._table.acks.add_durably([_at(seen, self._table.acks.known[new.id]), *([late] if late else [])]):
            closing.pop_all()
            new.close()
            return
        late_descriptor = -1 if old is None else os.dup(old.fd)
        is_read = before.source.offset >= before.size
        if late and old and is_read:  # the older generation first
            self._resolver.follow_late(late, late_descriptor, old.path)
        closing.pop_all()  # the table closes it now
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
