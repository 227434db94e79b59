"""Find the content of a file that is gone or was rewritten: it may be in a copy, or in a compressed rotation.

The first bytes of a candidate and the bytes before the offset must agree with the source's mark, as at a resume.
"""

import itertools
import os
import re
import tempfile
from collections.abc import Collection, Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from producer.charset import MAX_SEARCH_BYTES
from producer.discovery import scanner
from producer.discovery.safe_open import close_on_exit
from producer.discovery.scanner import Key, Seen, Version
from producer.fingerprint import ENOUGH_BYTES, HEAD_BYTES
from producer.model import Source
from producer.tailer import decompress
from producer.tailer.copy_search import CopySearch
from producer.tailer.decompress import CorruptFile, IncompleteFile
from producer.tailer.file_table import FileTable
from shipper import events

SETTLED_SECONDS = 60.0
"""A compressed file that is incomplete and did not change for so long stays as it is."""
KEPT_BYTES = MAX_SEARCH_BYTES
"""Bytes before the offset: the search for the start of a line goes back so far."""
SECOND_NS = 10**9
_COUNTED = re.compile(r"\.\d{1,3}\.(?=[^/]+\Z)")  # app.1.log, as logrotate names it with `extension .log`


class FoundContent(NamedTuple):
    """An open file with the content of a source up to its offset and after it. Decompressed content has no name."""

    descriptor: int
    path: str  #: the file that was found
    version: Version  #: of that file
    size: int


class ContentFinder:
    """Finds the content of lost files. Owned by `Resolver`. One caller at a time. `directory`: for temporary files."""

    def __init__(self, table: FileTable, directory: Path) -> None:
        self.links = table.following.links
        self._table = table
        self._directory = directory
        self._unfinished: dict[Key, tuple[int, int, float]] = {}  # size, mtime, since
        self.claims: dict[Version, str] = {}  #: by file: the source whose content it has
        self.watched: Collection[Seen] = ()  #: what the last scan found
        self._search = CopySearch(table)

    def find(self, source: Source) -> FoundContent | None:
        """The content of `source`. None: no file has it. Raises IncompleteFile and OSError: unknown, try again."""
        best = self._largest(source, itertools.chain(self._rotations(source), self._copies(source)))
        if best is not None:
            self.claims[best.version] = source.id
        return best

    def _largest(self, source: Source, candidates: Iterable[Seen]) -> FoundContent | None:
        best: FoundContent | None = None
        unknown: Exception | None = None
        for seen in candidates:
            try:
                found = self._content_in(seen, source)
            except (IncompleteFile, OSError) as error:
                unknown = IncompleteFile() if isinstance(error, scanner.GONE) else error  # renamed since it was listed
                continue
            if found is not None and (best is None or found.size > best.size):
                smaller, best = best, found
            else:
                smaller = found
            if smaller is not None:
                os.close(smaller.descriptor)
            if best is not None and best.size >= source.size:
                break  # the oldest that has all that was seen
        if unknown is not None and (best is None or best.size < source.size):
            if best is not None:
                os.close(best.descriptor)
            raise unknown
        return best

    def has_content(self, source: Source) -> bool:
        """Whether a rotation has the content of `source`, by its name. Raises as `find`."""
        found = self._largest(source, self._rotations(source))
        if found is not None:
            os.close(found.descriptor)
        return found is not None

    def has_candidates(self, source: Source) -> bool:
        """Whether any file may have the content of a source. Raises OSError: unknown."""
        return bool(source.mark.head_length) and any(
            True for _ in itertools.chain(self._rotations(source), self._copies(source))
        )

    def head_of(self, name: str, seen: Seen) -> bytes | None:
        """The first bytes of a compressed file's content, read as `name`. None: damaged. Raises as `find`."""
        with open(self.opened(name, seen), "rb") as file:
            try:
                return decompress.head_of(file, decompress.suffix_of(seen.path))
            except CorruptFile as error:
                events.file_unreadable(path=seen.path, error=str(error))
                return None
            except IncompleteFile:
                if self._may_go_on(seen):
                    raise
                return None

    def holds_bytes(self, name: str, seen: Seen) -> bool:
        """Whether a file with the suffix of compressed files has content to be read as `name`. Raises as `find`."""
        if not decompress.is_compressed_file(name, seen, self.links) or self.head_of(name, seen):
            return True
        self.claims[seen.version] = ""  # of no source: empty, or damaged, which was logged
        return False

    def _rotations(self, source: Source) -> Iterator[Seen]:
        """The files that may have the content of a source by their names, the oldest that is not older than it first.

        Where only the first bytes are known, an older file does not count: it may begin as this one does.
        """
        since = source.mtime_ns // SECOND_NS * SECOND_NS  # not every tool keeps more than the second
        found = {}
        for base in source.names:
            for name in (base, *scanner.originals(base)):
                in_place = [scanner.scan_file(name + suffix) for suffix in scanner.COMPRESSED]
                for seen in (*scanner.Listing().rotations(name), *in_place):
                    if seen is not None and self._table.following.may_hold(source.file, seen):
                        found[seen.key] = (seen.mtime_ns < since, scanner.age(seen, base), seen)
        for _, _, seen in sorted(found.values()):
            if self._may_be(source, seen, since):
                yield seen

    def _copies(self, source: Source) -> Iterator[Seen]:
        """The same by their first bytes, whatever their names. Of few bytes only under the name of a rotation."""
        if self._table.is_spooled(source.file):
            return
        since = source.mtime_ns // SECOND_NS * SECOND_NS
        for seen in self._search.like(source, self._lost_at(source), self.watched):
            is_certain = source.mark.head_length >= ENOUGH_BYTES or is_rotation_of(
                seen, source, self._table.acks.changed_before
            )
            may_hold = self._table.following.may_hold(source.file, seen)
            if is_certain and may_hold and seen.path not in source.names and self._may_be(source, seen, since):
                yield seen

    def _may_be(self, source: Source, seen: Seen, since: int) -> bool:
        own = seen.key == source.key or self.claims.get(seen.version) == source.id
        newer = seen.mtime_ns >= since or source.mark.tail_length > 0
        return own or (newer and seen.version not in self.claims and not self._table.is_tracked(seen))

    def _lost_at(self, source: Source) -> float:
        file = self._table.get(source.id)
        return self._table.clock() if file is None or file.failing_since is None else file.failing_since

    def _content_in(self, seen: Seen, source: Source) -> FoundContent | None:
        descriptor = self.opened(source.file, seen)
        with close_on_exit(descriptor) as closing:
            try:
                if decompress.is_compressed(seen.path, descriptor):
                    return self._decompressed(descriptor, seen, source)
                if source.mark.agrees(descriptor):
                    found = FoundContent(descriptor, seen.path, seen.version, os.fstat(descriptor).st_size)
                    closing.pop_all()
                    return found
            except CorruptFile as error:
                events.file_unreadable(path=seen.path, error=str(error))
        return None

    def opened(self, name: str, seen: Seen) -> int:
        """A descriptor of a file, to be read as `name`. Raises IncompleteFile: it was renamed since it was listed."""
        descriptor = self.links.open_as(name, seen.path, seen.key)
        if descriptor is None:
            raise IncompleteFile
        return descriptor

    def _decompressed(self, descriptor: int, seen: Seen, source: Source) -> FoundContent | None:
        """The content of a compressed file: its head, and all after the offset. None: it is another content."""
        mark = source.mark
        keep_from = max(0, min(source.offset, mark.offset) - KEPT_BYTES)
        with (
            open(descriptor, "rb", closefd=False) as packed,
            tempfile.TemporaryFile(dir=self._directory, buffering=0) as target,
        ):
            position, agrees = 0, False
            try:
                for data in decompress.content(packed, decompress.suffix_of(seen.path)):
                    _write(target.fileno(), data[: max(0, HEAD_BYTES - position)], position)
                    skipped = min(len(data), max(0, keep_from - position))
                    _write(target.fileno(), data[skipped:], position + skipped)
                    position += len(data)
                    if not agrees and position >= max(mark.offset, mark.head_length):
                        agrees = mark.agrees(target.fileno())
                        if not agrees:
                            return None
            except IncompleteFile:
                if self._may_go_on(seen):
                    raise
                events.rest_incomplete(path=seen.path, octets=position)
            if not agrees:
                return None
            os.ftruncate(target.fileno(), position)
            return FoundContent(os.dup(target.fileno()), seen.path, seen.version, position)

    def _may_go_on(self, seen: Seen) -> bool:
        """Whether an incomplete file changed within the last minute."""
        size, mtime_ns, since = self._unfinished.get(seen.key, (-1, -1, 0.0))
        if (size, mtime_ns) != (seen.size, seen.mtime_ns):
            since = self._table.clock()
            self._unfinished[seen.key] = (seen.size, seen.mtime_ns, since)
        return self._table.clock() - since < SETTLED_SECONDS


def _write(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def is_rotation_of(seen: Seen, source: Source, known: Container[str]) -> bool:
    """Whether a rotation of a source would give this name: no proof, but few bytes in common are enough then.

    The same name in another directory is none.
    """
    names = {os.path.basename(name) for name in source.names}
    before = {os.path.basename(name) for name in originals(seen.path) - {seen.path}}
    return not before.isdisjoint(names) and not is_rotation_of_another(seen, source, known)


def is_rotation_of_another(seen: Seen, source: Source, known: Container[str]) -> bool:
    """Whether a file has the name of a rotation of another file, next to it, that is `known`."""
    before = originals(seen.path) - {seen.path}
    return before.isdisjoint(source.names) and any(name in known for name in before)


def originals(path: str) -> set[str]:
    """The names that the content of a compressed file may have had: without the suffix, without count or date."""
    plain = path.removesuffix(decompress.suffix_of(path))
    counted = [plain[: found.start()] + plain[found.end() - 1 :] for found in _COUNTED.finditer(plain)]
    return {*scanner.originals(path), plain, *counted}
