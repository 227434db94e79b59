"""One source being read: its open file, how far it is read, and the sums up to there. The bound of open files."""

import contextlib
import enum
import errno
import os
from collections import OrderedDict
from collections.abc import Sized
from dataclasses import replace

from producer.charset import BOMS, UNIT_BYTES, Charset, charset_of, lead_before
from producer.charset import PROBE_BYTES as HEAD_FOR_CHARSET_BYTES
from producer.discovery import scanner
from producer.discovery.safe_open import FOLLOWED_BY_OWNER, Links, NotFollowed, close_on_exit
from producer.discovery.scanner import Key, Seen
from producer.fingerprint import HEAD_BYTES, TAIL_BYTES, Mark, first_mark, read_ends
from producer.model import Piece, Source
from producer.padding import content_end, content_end_after
from producer.transform.edits import Cut, Flush
from shipper.bytes_ops import crc32, crc32_combine
from shipper.model import End, Span

RESERVED_DESCRIPTORS = 48
"""For everything that is no log file: connection, checkpoint, watcher, metrics, and what they open for a moment."""


class DescriptorCache:
    """At most `at_most` open files, except those that have no name any more: no other file has their bytes.

    `others`: further open files that count; `links`: how a file is opened again. Owned by `FileTable`.
    """

    def __init__(self, at_most: int, others: Sized, links: Links) -> None:
        self.links = links
        self._at_most = at_most
        self._others = others
        self._open: OrderedDict[int, FileReader] = OrderedDict()

    def used(self, owner: "FileReader") -> None:
        """`owner` has an open descriptor and needs it now. Another one may be closed for it."""
        self._open[id(owner)] = owner
        self._open.move_to_end(id(owner))
        if len(self._open) > max(1, self._at_most - len(self._others)):
            for key, oldest in self._open.items():
                if oldest is not owner and is_linked(oldest.fd):
                    del self._open[key]
                    oldest.suspend()
                    return

    def closed(self, owner: "FileReader") -> None:
        """`owner` closed its descriptor for good."""
        self._open.pop(id(owner), None)


def file_limit(chosen: int, soft_limit: int) -> int:
    """How many log files may be open: `chosen` (0: no choice), within what the process may have."""
    allowed = max(1, soft_limit - RESERVED_DESCRIPTORS)
    return min(chosen, allowed) if chosen else allowed


def is_linked(descriptor: int) -> bool:
    """Whether some name leads to the file. Where that is unknown it stays open."""
    try:
        return os.fstat(descriptor).st_nlink > 0
    except OSError:
        return False


GUARD_BYTES = 64
"""Bytes before the offset that every read takes along: if they changed, the file was rewritten under us."""
PROBE_BYTES = 4096
"""At the end of a full block, to see where its last line ends: what is read beyond that would have to be cut off."""


class ReadOutcome(enum.Enum):
    """What follows the last byte that was read."""

    MORE = "more"  #: probably more to read
    END = "end"  #: the end of the file, after a newline
    PARTIAL_LINE = "partial line"  #: a line without its newline, which is not read yet
    REWRITTEN = "rewritten"  #: the file is shorter, or has other bytes before the offset


class FileReader:
    """The open file of one source. Owned by its `TrackedFile`. Raises OSError where a read fails: that is "unknown".

    `name`: a name in the configuration that `path` is; None: links or rotations led from the source's name to `path`.
    """

    def __init__(self, source: Source, descriptor: int, path: str, name: str | None = None) -> None:
        self.id = source.id
        self.file = source.file
        self.origin = source.origin
        self.handoff = source.handoff
        self.path = path  #: of the file now
        self._name = source.file if name is None else name  # the path is opened as this name
        self._names = source.names
        self.fd = descriptor  #: the open descriptor; -1 while it is suspended
        self._cache: DescriptorCache | None = None  # bounds the open files
        self.offset = source.offset
        self.crc = source.crc
        self.limit: int | None = None  #: `--once`: read no further
        self.outcome = ReadOutcome.MORE
        self.ends_as: End | None = None  #: its own file is gone, this is another one with its content: how it ends
        stat = os.fstat(descriptor)
        self.device, self.inode = stat.st_dev, stat.st_ino
        self.stat_size, self.mtime_ns = stat.st_size, stat.st_mtime_ns
        self.size = content_end(descriptor, source.offset, stat.st_size)  #: without NULs at its end
        self._head, self._before = read_ends(descriptor, source.offset)
        self.start = source.mark if source.offset else first_mark(descriptor, 0)  #: while nothing of it is read
        self.marked = source.mark.head_length > 0  #: the checkpoint knows what it begins with; not read before
        # what was seen and is NUL now was no content: older versions counted NULs at the end
        self._largest = self.size if stat.st_size >= source.size else max(self.size, source.size)
        self._ahead, self._ahead_at = b"", 0  # read already, not cut yet (line mode)
        self.line_before = b""  #: the line that the generation before it did not end
        self._charset: Charset | None = None  # unknown until its first bytes are there
        self._lead: bytes | None = None  # of the line that the offset is in; None: not read yet

    @property
    def key(self) -> Key:
        """Device and inode."""
        return self.device, self.inode

    @property
    def mark(self) -> Mark:
        """What identifies the file up to the offset."""
        return self.start if self.offset == 0 else Mark.of(self.offset, self._head, self._before)

    @property
    def is_blank(self) -> bool:
        """Whether no scan found a byte in it yet."""
        return not (self.size or self.start.head_length or self.offset > self.origin)

    @property
    def is_padded(self) -> bool:
        """Whether the file ends with NULs, which its writer may fill without a change of size or time."""
        return self.stat_size > self.size

    def check(self) -> int:
        """Notice growth, truncation, and a rewrite that kept the size. Raises FileNotFoundError: gone while suspended.

        Returns how many bytes after the offset were there and are gone, though the bytes before it are unchanged: a
        program that cuts off its own torn last line does that.
        """
        if self.ends_as is not None:
            return 0  # a copy is complete; its last block counts the missing bytes
        stat = self._stat()
        changed = stat.st_mtime_ns != self.mtime_ns or stat.st_size != self.stat_size or self._is_filled()
        self.mtime_ns = stat.st_mtime_ns
        if changed:
            self._measure(stat.st_size)
        if self.size < self._largest and (self.offset == 0 or stat.st_size < self.offset):
            self.outcome = ReadOutcome.REWRITTEN  # nothing was read yet: what is there now may be anything
        elif changed and not self._guard_holds():
            self.outcome = ReadOutcome.REWRITTEN
        elif changed:
            self.outcome = ReadOutcome.MORE
            if self.offset == 0:
                self.start = first_mark(self.descriptor, 0)
        if self.outcome is ReadOutcome.REWRITTEN:
            return 0  # the last block of the source counts the lost bytes
        lost, self._largest = max(0, self._largest - self.size), self.size
        return lost

    def read(self, cut: Cut, *, flush: Flush) -> Piece | None:
        """The next whole lines, at most a block. By `flush` an unterminated one. None: `outcome` has the reason."""
        if not self.marked:
            self.outcome = ReadOutcome.END
            return None
        charset = self._charset_for(cut)
        if cut.lines_a_piece and (lines := self._lines_ahead(cut, charset)):
            return self._cut_off(lines, cut, charset)
        data = self._pread(cut.read_bytes(charset), charset)
        if data is None:
            self.outcome = ReadOutcome.REWRITTEN
            return None
        if data.endswith(b"\0"):
            data = self._without_padding(data)
        taken = cut.taken(data, flush=flush, charset=charset, at=self.offset)
        if taken == 0:
            self.outcome = ReadOutcome.PARTIAL_LINE if data else ReadOutcome.END
            return None
        if cut.lines_a_piece:
            self._ahead, self._ahead_at = data, taken
        self.outcome = ReadOutcome.MORE
        return self._cut_off(data[:taken] if taken < len(data) else data, cut, charset)

    def continues_in_copy(self, why: End) -> None:
        """The file is not the source's own: it is read to the end that it has now, then the source ends."""
        self.ends_as = End.TRUNCATED if why is End.TRUNCATED else End.ROTATED
        self.limit = self.size

    def as_read(self, source: Source) -> Source:
        """`source` as far as it is read, with the most bytes that were seen of it."""
        mark = self.mark if self.marked else source.mark
        return replace(source, offset=self.offset, crc=self.crc, mark=mark, size=self._largest)

    def finish(self, why: End) -> Piece:
        """The last, empty piece of the source. Bytes that were seen but can never be read are its gap."""
        return last_piece(self, why, max(0, self._largest - self.offset))

    def forget_ahead(self) -> None:
        """Keep nothing in memory between two turns. What was not cut yet is read again."""
        self._ahead, self._ahead_at = b"", 0

    def has_grown(self) -> bool:
        """Whether the file has bytes after the last block. Unknown counts as no."""
        try:
            size = self._stat().st_size
            if self.limit is not None or size <= self.offset:
                return False
            return content_end(self.descriptor, self.offset, size) > self.offset
        except OSError:
            return False

    @property
    def size_on_disk(self) -> int:
        """Bytes that the file has now. 0: unknown."""
        try:
            return self._stat().st_size
        except OSError:
            return 0

    def has_name(self) -> bool:
        """Whether some name still leads to the file, or that is unknown. Its inode number means nothing otherwise."""
        try:
            return self._stat().st_nlink > 0
        except OSError as error:
            return not isinstance(error, scanner.GONE)

    @property
    def unread_bytes(self) -> int:
        """Bytes that the last scan found after the offset, up to the limit."""
        return max(0, min(self.size, self.size if self.limit is None else self.limit) - self.offset)

    @property
    def descriptor(self) -> int:
        """The open file. Raises OSError where it is suspended and cannot be opened; FileNotFoundError: it is gone."""
        if self.fd < 0:
            self.fd = self._opened()
        if self._cache:
            self._cache.used(self)
        return self.fd

    def found_at(self, path: str) -> None:
        """A scan found the file at `path`, which is a name in the configuration."""
        self.path = self._name = path

    def moved_to(self, path: str) -> None:
        """A scan found the inode at `path`: the next time that the file is opened, it is there.

        Of a suspended file the content decides, because the inode number may be another file's by now.
        """
        if path == self.path or not self.start.head_length or scanner.is_at(self.path, self.key):
            return
        links = self._cache.links if self._cache else FOLLOWED_BY_OWNER
        with contextlib.suppress(OSError):  # opening it where it was meets the same error
            descriptor = links.open_as(path, path, self.key)
            with close_on_exit(descriptor):
                if descriptor is not None and (self.fd >= 0 or self.start.agrees(descriptor)):
                    self.found_at(path)

    def suspend(self) -> None:
        """Close the descriptor until it is needed again."""
        descriptor, self.fd = self.fd, -1
        if descriptor >= 0:
            os.close(descriptor)

    def detach(self) -> int:
        """Give the descriptor to the caller, who closes it. Raises OSError: it is suspended and cannot be opened."""
        descriptor, self.fd = self.descriptor, -1
        return descriptor

    def use(self, cache: DescriptorCache) -> None:
        """`cache` bounds the open files from now on."""
        self._cache = cache
        if self.fd >= 0:
            cache.used(self)

    def close(self) -> None:
        """Close the file for good."""
        if self._cache:
            self._cache.closed(self)
        self.suspend()

    def _stat(self) -> os.stat_result:
        if self.fd < 0:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found = os.stat(self.path)
                if (found.st_dev, found.st_ino) == self.key:
                    return found
        return os.fstat(self.descriptor)

    def _measure(self, stat_size: int) -> None:
        """Note the size of the file, and where its content ends."""
        known = max(self.offset, self.size) if self.is_padded and stat_size == self.stat_size else None
        self.size = self.stat_size = stat_size  # also if its end cannot be read
        if known is not None:
            end = content_end_after(self.descriptor, known, stat_size)
        else:
            end = content_end(self.descriptor, self.offset, stat_size)
        if self._charset not in (None, Charset.BYTES) and end < stat_size:
            end += end % UNIT_BYTES  # the high byte of a newline
        self.size = end

    def _is_filled(self) -> bool:
        """Whether a padded file has content where that ended."""
        return self.is_padded and bool(os.pread(self.descriptor, PROBE_BYTES, self.size).rstrip(b"\0"))

    def _without_padding(self, data: bytes) -> bytes:
        """What was read at the offset, without NULs that no content follows."""
        self._measure(os.fstat(self.descriptor).st_size)
        return data[: max(0, self.size - self.offset)]

    def _may_lie_at(self, path: str) -> bool:
        """A file that has no byte yet is known by its inode number only, and that may be another file's by now."""
        is_rotation = scanner.is_sibling(path, self.file) and not path.endswith(scanner.COMPRESSED)
        return self.start.head_length > 0 or is_rotation

    def _opened(self) -> int:
        """The file where it was, or where a rename within the directory put it."""
        links = self._cache.links if self._cache else FOLLOWED_BY_OWNER
        try:
            descriptor = links.open_as(self._name, self.path, self.key)
        except NotFollowed:
            descriptor = None  # another name may lead there
        if descriptor is None:
            path = scanner.Listing().find_renamed((self.path, *self._names), self.key)
            descriptor = links.open_as(self.file, path, self.key) if path and self._may_lie_at(path) else None
            if descriptor is None or path is None:
                raise FileNotFoundError(errno.ENOENT, "deleted while it was not open", self.path)
            self.path, self._name = path, self.file
        return descriptor

    def _guard_holds(self) -> bool:
        if self.offset == 0:
            return self.start.agrees(self.descriptor)
        guard = self._before[-GUARD_BYTES:]
        return os.pread(self.descriptor, len(guard), self.offset - len(guard)) == guard

    def _pread(self, block_bytes: int, charset: Charset) -> bytes | None:
        """Bytes from the offset on. None when the bytes before it are not the ones that were read."""
        descriptor = self.descriptor
        size = block_bytes if self.limit is None else min(block_bytes, max(0, self.limit - self.offset))
        if charset is Charset.BYTES and size > 16 * PROBE_BYTES and self.size - self.offset >= size:
            size = _whole_lines(descriptor, self.offset, size)
        data = os.pread(descriptor, size, self.offset)
        if self.offset == 0:
            return data if self.start.is_head_of(data) else None
        return data if self._guard_holds() else None  # read after the data: it proves the data

    def _charset_for(self, cut: Cut) -> Charset:
        """The character set of the file: by its first bytes, if `cut` requires that."""
        if not cut.charset:
            return Charset.BYTES
        if self._charset is None:
            head = os.pread(self.descriptor, HEAD_FOR_CHARSET_BYTES, 0)
            if len(head) < HEAD_FOR_CHARSET_BYTES and not head.startswith(tuple(BOMS)):
                return charset_of(cut.charset, head)
            self._charset = charset_of(cut.charset, head)
        return self._charset

    def _cut_off(self, data: bytes, cut: Cut, charset: Charset) -> Piece:
        """The next piece, with what its editing needs."""
        if not cut.lead_bytes and not cut.context_bytes:
            return self._advance(data)._replace(charset=charset) if cut.charset else self._advance(data)
        if self._lead is None and cut.lead_bytes:
            line = lead_before(self.descriptor, self.offset, charset, most=cut.lead_bytes)
            self._lead = cut.first_piece(line, charset)
        context = self._context(charset, cut.context_bytes)
        lead, ends = self._lead or b"", charset.last_end(data, at=self.offset) == len(data)
        self._lead = b"" if ends else lead or data[: cut.lead_bytes]
        return self._advance(data)._replace(lead=lead, charset=charset, context=context)

    def _context(self, charset: Charset, most: int) -> bytes:
        """The bytes before the offset that belong to its line, at most `most`. Of a predecessor, if the file begins."""
        if self.offset == 0:
            return self.line_before
        if most == 0 or not self.unfinished_line(charset):
            return b""
        start = max(0, self.offset - most)
        data = os.pread(self.descriptor, self.offset - start, start)
        return data[charset.last_end(data, at=start) :]

    def unfinished_line(self, charset: Charset | None = None) -> bytes:
        """The last bytes that were read, at most `TAIL_BYTES`, of a line whose newline was not read."""
        known = charset or self._charset or Charset.BYTES
        return self._before[known.last_end(self._before, at=self.offset - len(self._before)) :]

    def _lines_ahead(self, cut: Cut, charset: Charset) -> bytes:
        """The next whole lines of what was read already; b"" when there are none."""
        end = cut.first_lines(self._ahead, self._ahead_at, charset, self.offset - self._ahead_at)
        if end == 0:
            self.forget_ahead()
            return b""
        lines, self._ahead_at = self._ahead[self._ahead_at : end], end
        return lines

    def _advance(self, data: bytes) -> Piece:
        start, self.offset = self.offset, self.offset + len(data)
        before, crc = self.crc, crc32(data)
        self.crc = crc32_combine(before, crc, len(data))
        if len(self._head) < HEAD_BYTES and start == len(self._head):
            self._head += data[: HEAD_BYTES - len(self._head)]
        self._before = data[-TAIL_BYTES:] if len(data) >= TAIL_BYTES else (self._before + data)[-TAIL_BYTES:]
        span = Span(start, self.offset)
        piece = Piece(self.id, self.file, self.origin, span, data, self.crc, self.mark)
        return piece._replace(handoff=self.handoff, crc=crc, crc_before=before)


def last_piece(source: Source | FileReader, why: End, gap: int) -> Piece:
    """The last, empty piece of a source, at its offset."""
    span = Span(source.offset, source.offset)
    piece = Piece(source.id, source.file, source.origin, span, b"", source.crc, source.mark, why, gap)
    return piece._replace(handoff=source.handoff)


def _whole_lines(descriptor: int, offset: int, size: int) -> int:
    """How many of the next `size` bytes are whole lines, by the last of these bytes. `size` if they have no newline.

    Only a hint: the lines are cut in the same way without it. It avoids a copy of nearly every large block.
    """
    end = os.pread(descriptor, PROBE_BYTES, offset + size - PROBE_BYTES)
    after = end.rfind(b"\n") + 1
    return size - PROBE_BYTES + after if after and len(end) == PROBE_BYTES else size


def content_matches(seen: Seen, mark: Mark, links: Links) -> bool:
    """Whether the content of the file that was seen agrees with the mark. Raises OSError: unknown."""
    descriptor = links.open_as(seen.path, seen.path, seen.key)
    with close_on_exit(descriptor):
        return descriptor is not None and mark.agrees(descriptor)
