"""The end of a file: after its last block is acknowledged it is closed, retained, deleted, and forgotten later."""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import replace

from producer.discovery import scanner
from producer.discovery.scanner import Key
from producer.model import Piece, Source
from producer.tailer.cleanup import REMOVED, DeletableFile, DeletionOutcome, deletable_files, delete
from producer.tailer.file_reader import FileReader
from producer.tailer.file_table import FileTable, TrackedFile
from producer.tailer.resolver import Resolver
from shipper.control import ReceiptsReply
from shipper.model import End

FORGET_SECONDS = 3600.0
"""Seconds between two searches for ended sources that are old enough to be forgotten."""


class EndedFiles:
    """Closes, retains, deletes and forgets the files that were read to their end. Owned by `Tailer`."""

    def __init__(self, table: FileTable, resolver: Resolver) -> None:
        self._table = table
        self._resolver = resolver
        self._over: list[tuple[str, End]] = []  # last blocks that are acknowledged
        self._forget_at = table.clock() + FORGET_SECONDS

    def acknowledged(self, piece: Piece, sequence: int) -> None:
        """JetStream has stored `piece` and everything before it of its source."""
        self._table.acks.note_ack(piece, sequence)
        if piece.end is not None:
            self._over.append((piece.source, piece.end))

    def retire(self) -> None:
        """Close the files whose last block is acknowledged; one that got more bytes meanwhile goes on."""
        over, self._over = self._over, []
        for source, why in over:
            file, reader = self._table.get(source), self._table.reader(source)
            if why is End.EXCLUDED:
                self._table.acks.exclude(source)
            elif file is None or reader is None:
                self._table.end(self._table.acks.end(source, file_rests=False))
            elif why is End.TRUNCATED or not self._goes_on(file, reader):
                ended = self._table.acks.end(source, file_rests=self._resolver.may_reappear(reader, why))
                self._retain(ended, reader)
                self._table.end(ended)
        if over:
            self._table.retained.settle(self._table.acks.known)

    def _retain(self, ended: Source, reader: FileReader) -> None:
        """Keep the file of a source that ended open until an archive has it. A copy, or a spool, is no own file."""
        if (
            self._table.retained.bounds.octets
            and reader.ends_as is None
            and reader.file not in self._table.following.spools
        ):
            with contextlib.suppress(OSError):
                self._table.retained.retain(ended, reader.detach())

    def note_receipts(self, told: ReceiptsReply) -> None:
        """An archive holds so much."""
        self._table.acks.note_receipts(told)
        self._table.retained.settle(self._table.acks.known)

    def note_unsolicited(self, told: ReceiptsReply) -> list[str]:
        """The same for an unsolicited message; returns the sources of which it proves nothing."""
        unproven = self._table.acks.note_unsolicited(told)
        self._table.retained.settle(self._table.acks.known)
        return unproven

    def deletable_files(self) -> list[DeletableFile]:
        """The files that may be deleted once the archive has them."""
        named = [
            source
            for source in self._table.acks.known.values()
            if self._resolver.is_named(source) and not source.excluded
        ]
        return deletable_files(named, self._table, self._table.following.watched)

    def delete(self, target: DeletableFile) -> DeletionOutcome:
        """Delete a file unless it changed; what is written in that moment is read all the same. Raises OSError."""
        file = self._table.get(target.source.id)
        if file is None or file.reader is None:
            return self._delete_closed(target)
        fate = delete(target, file.reader.descriptor)
        if fate in REMOVED:
            self._table.leave(file)
        return fate

    def release(self, source: Source) -> None:
        """The file of a source that ended is deleted: its inode number is free for any other file."""
        self._table.forget(source)
        self._table.acks.release(source)

    def _goes_on(self, file: TrackedFile, reader: FileReader) -> bool:
        """Whether a program wrote to a file after its last block was read; then it is read on."""
        if not reader.has_grown():
            return False
        file.left_at = self._table.clock()
        self._table.queue(file)
        return True

    def forget_if_due(self, files: Iterable[Key], copied: set[str]) -> None:
        """Once an hour: forget old sources, except those whose file or copy the last scan found."""
        if self._table.clock() >= self._forget_at:
            self._forget_at = self._table.clock() + FORGET_SECONDS
            ended = (self._table.ended_at(key) for key in files)
            kept = copied | {file.id for file in ended if file is not None}
            left_out = [source for source in self._table.acks.known.values() if source.excluded]
            kept |= {source.id for source in left_out if scanner.is_at(source.file, source.key)}
            for source in self._table.acks.forget_old(kept):  # else what is still there would be shipped again
                self._table.forget(source)

    def _delete_closed(self, file: DeletableFile) -> DeletionOutcome:
        """Delete the file of a source that ended; if it got more bytes just then, go on with it. Raises OSError."""
        source = file.source
        fate = DeletionOutcome.CHANGED
        descriptor = self._resolver.open(source.file, file.path, source.key)
        if descriptor is None:
            return fate
        try:
            fate = delete(file, descriptor)
        finally:
            if fate is not DeletionOutcome.LATE:
                os.close(descriptor)
        if fate in REMOVED:
            self._table.forget(source)
            self._table.acks.end(source.id, file_rests=False)  # its inode number is free for any other file
        if fate is DeletionOutcome.LATE:
            self._resolver.resume_open(replace(source, ended_at=0.0), descriptor, file.path)
        return fate
