"""Which file is read next, when one has come to its end, and where the content of a lost one goes on."""

import errno
from collections.abc import Iterator

from producer.discovery import scanner
from producer.discovery.safe_open import close_on_exit
from producer.model import Piece, Source
from producer.options import Order
from producer.tailer.decompress import IncompleteFile
from producer.tailer.file_reader import FileReader, ReadOutcome
from producer.tailer.file_table import Event, FileState, FileTable, TrackedFile, end_without_name
from producer.tailer.lost_file import ContentFinder
from producer.transform.edits import Flush
from shipper import events
from shipper.model import End

PIECE_BYTES = 1024
"""Bytes of the budget that a message costs besides its data: a megabyte of empty lines is not a million messages."""

PERMANENT_ERRORS = {errno.EIO, errno.ESTALE}
"""Errors that may never go away."""
PATIENCE_WAITS = 12
PATIENCE_SECONDS = 60.0
"""So many `rotate_wait`, and at least so long, a younger generation waits for one that cannot be read or found."""


class ReadScheduler:
    """Reads the files of a table that may have unread bytes. Owned by `Tailer`."""

    def __init__(self, table: FileTable, finder: ContentFinder) -> None:
        self._table = table
        self._finder = finder
        self._patience = max(PATIENCE_SECONDS, PATIENCE_WAITS * table.following.rotate_wait)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to read that the last scan found."""
        return not (self._table.has_last_blocks or self._readable() or self._searchable())

    @property
    def backlog_bytes(self) -> int:
        """Bytes seen in the files and not read yet."""
        readers = [file.reader for file in self._table.in_state(FileState.ACTIVE)]
        return sum(max(0, reader.size - reader.offset) for reader in readers if reader is not None)

    def scan_begins(self) -> None:
        """The content of lost files may be found now."""
        for file in self._table.in_state(FileState.LOST):
            file.searched = False

    def is_due(self, file: TrackedFile) -> bool:
        """Whether a file that left its name has been silent for so long that it ends."""
        wait = 0.0 if file.name in self._table.following.spools else self._table.following.rotate_wait
        left = file.left_at is not None and self._table.clock() - file.left_at >= wait
        return left or (file.reader is not None and file.reader.ends_as is not None)

    def is_line_due(self, file: TrackedFile) -> bool:
        """Whether the last line of a file has waited for its newline for so long that it is shipped without it."""
        is_held = file.line_size >= 0 and file.state in (FileState.HOLDING_LINE, FileState.ACTIVE)
        return is_held and self._table.clock() - file.line_since >= self._table.following.line_wait

    # -- reading --------------------------------------------------------------------------------------------------

    def pieces(self, budget_bytes: int) -> Iterator[Piece]:
        """The next pieces, about `budget_bytes` in all. FAIR: one block of each file in turn so that none starves.

        To be iterated to the end. Each piece is read when the iterator reaches it, so that its bytes are still in the
        core's cache.
        """
        self._search_lost()
        yield from (last_blocks := self._take_last_blocks())
        left, is_silent = budget_bytes, not last_blocks
        while left > 0 and (turn := self._turn()):
            for file in turn:
                before = left
                for piece in self._read_block(file, min(left, self._table.following.cut.block_bytes)):
                    left -= self._cost(piece)
                    yield self._sending(piece)
                    del piece  # its memory is used for the next one
                left, is_silent = min(left, before - 1), is_silent and left == before
                self._table.requeue(file)
                if left <= 0:
                    break
        if is_silent:  # else the next call does
            self._search_lost()
        yield from self._take_last_blocks()

    def _turn(self) -> list[TrackedFile]:
        """The files to read a block of before the next turn is chosen."""
        readable = self._readable()
        turn = [file for file in self._table.in_state(FileState.ACTIVE) if file.id in readable]
        if turn and self._table.following.order is Order.OLDEST:
            return [min(turn, key=lambda file: (file.reader.mtime_ns, file.reader.path) if file.reader else (0, ""))]
        return turn

    def _take_last_blocks(self) -> list[Piece]:
        return [self._sending(piece) for piece in self._table.take_last_blocks()]

    def _sending(self, piece: Piece) -> Piece:
        """Remember what is in flight until it is acknowledged."""
        file = self._table.get(piece.source)
        if file is not None:
            file.sent = piece.span.end
        return piece

    def _read_block(self, file: TrackedFile, budget: int) -> Iterator[Piece]:
        """One block of a file, or lines for as much where a line is a piece. What ends it, if it ends."""
        reader, following = file.reader, self._table.following
        if reader is None or file.state is not FileState.ACTIVE:
            return
        was_silent = True
        flush = self._flush(file, reader)
        reader.line_before = self._line_before(file, reader)
        try:
            while budget > 0 and (piece := reader.read(following.cut, flush=flush)):
                was_silent = False
                flush = flush.next
                budget -= self._cost(piece)
                if file.left_at is not None:
                    file.left_at = self._table.clock()  # late lines: the silence begins anew
                yield piece
                del piece
            file.failing_since, file.passed_over = None, False
        except scanner.GONE:
            self._table.lose(file, End.DELETED)
            return
        except OSError as error:
            events.file_unreadable(path=reader.path, error=error.strerror or str(error))
            reader.outcome = ReadOutcome.MORE
            self._table.move(file, Event.READ_FAILED)  # the next scan tries again
            if error.errno in PERMANENT_ERRORS:
                self._wait_or_pass_over(file, reader.path, error.strerror or str(error))
            return
        finally:
            reader.forget_ahead()
        self._after_read(file, reader, was_silent=was_silent)

    def _flush(self, file: TrackedFile, reader: FileReader) -> Flush:
        """What of an unterminated last line is read now."""
        following = self._table.following
        if (following.once and file.name not in following.spools) or self.is_due(file):
            return Flush.ALL
        is_silent = self.is_line_due(file) and reader.size == file.line_size
        return Flush.CHARACTERS if is_silent else Flush.NEVER

    def _line_before(self, file: TrackedFile, reader: FileReader) -> bytes:
        """The line that the generation before a new one did not end."""
        if reader.offset or not self._table.following.cut.context_bytes:
            return b""
        for older in reversed(list(self._table.older(file))):
            if older.reader is not None:
                return older.reader.unfinished_line()
        return self._table.unfinished.get(file.name, b"")

    def _after_read(self, file: TrackedFile, reader: FileReader, *, was_silent: bool) -> None:
        """What it means for a file that a read found no whole line."""
        if reader.outcome is ReadOutcome.REWRITTEN:
            self._table.lose(file, End.TRUNCATED)
        elif reader.outcome is ReadOutcome.PARTIAL_LINE:
            if reader.size != file.line_size or not was_silent:
                file.line_size, file.line_since = reader.size, self._table.clock()
            self._table.move(file, Event.LINE_INCOMPLETE)
            return
        file.line_size = -1
        if reader.outcome is ReadOutcome.END:
            if reader.ends_as is not None:
                self._table.finish(file, reader.ends_as)
            elif was_silent and self.is_due(file) and not file.is_named:
                self._table.finish(file, end_without_name(reader))
            else:
                self._table.move(file, Event.END_REACHED)

    def _wait_or_pass_over(self, file: TrackedFile, path: str, error: str) -> None:
        """Let younger generations go on if a file has failed for too long."""
        now = self._table.clock()
        file.failing_since = now if file.failing_since is None else file.failing_since
        if now - file.failing_since >= self._patience and not file.passed_over:
            file.passed_over = True
            events.file_passed_over(path=path, source=file.id, error=error)

    def _readable(self) -> set[str]:
        """The active files of which every older generation under the same name is read to its end."""
        readable = set()
        for name in {file.name for file in self._table.in_state(FileState.ACTIVE)}:
            for file in self._table.generations(name):
                if file.is_reading and self._must_not_begin(file):
                    break
                if file.state is FileState.ACTIVE:
                    readable.add(file.id)
                if file.blocks_younger:
                    break
        return readable

    def _must_not_begin(self, file: TrackedFile) -> bool:
        """Whether a generation has to wait until what was read of others under its name is acknowledged.

        A stream that is nearly full refuses a large block and accepts a small one after it: within one source that is
        a missing range, but the first block of the next source would be archived before the last ones of this.
        """
        reader = file.reader
        if reader is None or reader.offset > reader.origin:
            return False
        known = self._table.acks.known
        others = [other for other in self._table.generations(file.name) if other is not file and other.sent >= 0]
        return any(other.sent > known[other.id].offset for other in others if other.id in known)

    def _cost(self, piece: Piece) -> int:
        return piece.span.length + PIECE_BYTES * self._table.following.cut.messages(piece.data)

    # -- lost files -----------------------------------------------------------------------------------------------

    def _searchable(self) -> list[TrackedFile]:
        """The lost files that no older generation holds up, and that were not searched since the last scan."""
        return [
            file
            for file in self._table.in_state(FileState.LOST)
            if not file.searched and not any(older.blocks_younger for older in self._table.older(file))
        ]

    def _search_lost(self) -> None:
        for file in self._searchable():
            if file.source is not None and file.end is not None:
                self._search(file, file.source, file.end)

    def _search(self, file: TrackedFile, source: Source, why: End) -> None:
        """Continue a lost file in another one that has its content, or end it. Unknown: the next scan tries again."""
        try:
            found = self._finder.find(source) if source.mark.head_length else None
            if found is not None:
                with close_on_exit(found.descriptor) as closing:
                    reader = FileReader(source, found.descriptor, found.path)
                    reader.continues_in_copy(why)
                    closing.pop_all()
        except (OSError, IncompleteFile) as error:
            file.searched = True
            self._table.move(file, Event.NOT_FOUND_YET)
            if not isinstance(error, IncompleteFile):
                events.file_unreadable(path=file.name, error=str(error))
            self._wait_or_pass_over(file, file.name, str(error))
            return
        if found is None:
            self._table.finish_lost(file, source, why)
            return
        self._table.open_file(file, reader)
        self._table.move(file, Event.CONTENT_FOUND)
        octets = found.size - source.offset
        events.rest_found(file=file.name, path=found.path, offset=source.offset, octets=octets)
