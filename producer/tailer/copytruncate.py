"""Recognises copies of known files, made by copytruncate or a compressing rotation. Copies are not shipped.

Compressed files that a glob finds: read as rotations of a file that is followed, or left out. Never their raw bytes.

A path that is named without a glob is shipped as it is.
"""

import os
from collections.abc import Collection, Iterator, Mapping

from producer.discovery import scanner
from producer.discovery.safe_open import Links, close_on_exit
from producer.discovery.scanner import Key, Seen, Watched
from producer.fingerprint import Mark, crc_of
from producer.model import Source
from producer.tailer import decompress
from producer.tailer.decompress import CorruptFile
from producer.tailer.file_table import FileTable
from producer.tailer.lost_file import SECOND_NS, ContentFinder
from shipper import events

COMPARED_BYTES = 4096


class Copies:
    """The copies that were recognised, and of which source. Owned by `Rotation`."""

    def __init__(self, table: FileTable, finder: ContentFinder) -> None:
        self._table = table
        self._finder = finder
        self._found: dict[Key, tuple[Seen, str]] = {}

    @property
    def sources(self) -> set[str]:
        """The sources whose copies the last scans found."""
        return {source for _, source in self._found.values()}

    def forget(self, keys: Collection[Key]) -> None:
        """Only the files `keys` are still there: an inode number may come back with another file."""
        self._found = {key: found for key, found in self._found.items() if key in keys}

    def is_copy(self, seen: Seen) -> bool:
        """Whether the content of `seen` is known under another name. Raises OSError, IncompleteFile: unknown.

        One that changed since is judged again: what is shorter than its original may turn out to be something else.
        """
        before, _ = self._found.get(seen.key, (None, ""))
        if before is not None and (before.size, before.mtime_ns) == (seen.size, seen.mtime_ns):
            return True
        is_compressed = decompress.is_compressed_file(seen.path, seen, self._finder.links)
        found = self._compressed_from(seen) if is_compressed else self._copied_from(seen)
        self._found.pop(seen.key, None)
        if found is not None:
            self._found[seen.key] = (seen, found)
        return found is not None

    # -- a plain file -------------------------------------------------------------------------------------------

    def _copied_from(self, seen: Seen) -> str | None:
        """The source whose content `seen` has, if it has the name of a rotation and was not renamed from there.

        The original still has its name, or was truncated there, or is gone: so this file is a copy.
        """
        marks = [mark for name in scanner.originals(seen.path) for mark in self._marks(name)]
        if not marks:
            return None
        descriptor = self._finder.opened(seen.path, seen)
        with close_on_exit(descriptor):
            return next((source.id for source, mark in marks if self._holds(descriptor, source, mark)), None)

    def _marks(self, name: str) -> Iterator[tuple[Source, Mark]]:
        is_in_place = self._is_in_place(name)
        for source in list(self._table.acks.known.values()):
            if name in source.names and (is_in_place or not source.inode):
                reader = self._table.reader(source.id)
                for mark in {source.mark, source.mark if reader is None else reader.mark}:
                    if mark.head_length:
                        yield source, mark

    def _holds(self, descriptor: int, source: Source, mark: Mark) -> bool:
        """Whether an open file begins like the marked one, and goes on like it as far as it goes.

        A copy that is still being made is shorter than what it is a copy of; so is one of a file that grew meanwhile.
        """
        size = os.fstat(descriptor).st_size
        if size >= mark.offset:
            return mark.agrees(descriptor)
        return mark.is_head_of(os.pread(descriptor, mark.head_length, 0)) and self._goes_on(descriptor, size, source)

    def _goes_on(self, descriptor: int, size: int, source: Source) -> bool:
        """Whether the first `size` bytes are the source's, as far as anything is left to compare them with."""
        reader = self._table.reader(source.id)
        if reader is not None and reader.ends_as is None:
            at = max(0, size - COMPARED_BYTES)
            return os.pread(descriptor, size - at, at) == os.pread(reader.descriptor, size - at, at)
        points = [point for point in source.ring if source.origin < point.offset <= size]
        return not points or crc_of(descriptor, source.origin, points[-1].offset) == points[-1].crc

    def _is_in_place(self, name: str) -> bool:
        """Whether the file that is followed under `name`, or was until its truncation, is still there."""
        try:
            found = os.stat(name)
        except OSError:
            return False
        key = (found.st_dev, found.st_ino)
        if key in self._table.truncated:
            return True
        file = self._table.at(key)
        if file is None or not file.is_reading:
            return False
        source = self._table.acks.known.get(file.id)
        return file.name == name or (source is not None and name in source.names)

    # -- a compressed one ---------------------------------------------------------------------------------------

    def _compressed_from(self, seen: Seen) -> str | None:
        """The source whose content `seen` holds compressed; each file is taken for one source's, the oldest first."""
        if seen.key in self._finder.claims:
            return self._finder.claims[seen.key]
        names = originals(seen.path)
        siblings = {each.key: each for name in names for each in scanner.Listing().rotations(name)}
        claimed = {source for key, source in self._finder.claims.items() if key in siblings}
        likely = [
            source
            for source in list(self._table.acks.known.values())
            if not names.isdisjoint(source.names) and source.mark.head_length and source.id not in claimed
        ]
        head = self._finder.head_of(seen.path, seen) if likely else None
        likely = [
            source
            for source in likely
            if head is not None and source.mark.is_head_of(head)
            if source.key == seen.key
            or source.mtime_ns // SECOND_NS == seen.mtime_ns // SECOND_NS
            or not self._is_still_in(siblings.get(source.key), source)
        ]
        # compressing keeps the time of the last change, some tools to the nanosecond
        same_time = (each for each in likely if each.mtime_ns == seen.mtime_ns and each.mtime_ns % SECOND_NS)
        found = next(same_time, None) or self._holder(seen, likely)
        if found is not None:
            self._finder.claims[seen.key] = found.id
        return found.id if found is not None else None

    def _is_still_in(self, sibling: Seen | None, source: Source) -> bool:
        """Whether the file at the inode of `source` has its content; a newer rotation may have got the inode number."""
        if sibling is None:
            return False
        if decompress.suffix_of(sibling.path):
            head = self._finder.head_of(sibling.path, sibling)
            return head is None or source.mark.is_head_of(head)
        descriptor = self._finder.opened(sibling.path, sibling)
        with close_on_exit(descriptor):
            return source.mark.agrees(descriptor)

    def _holder(self, seen: Seen, sources: list[Source]) -> Source | None:
        """The first of `sources` whose content a compressed file holds, up to the source's offset."""
        if not sources:
            return None
        with open(self._finder.opened(seen.path, seen), "rb") as file:
            try:
                content = decompress.content(file, decompress.suffix_of(seen.path))
                found = set(decompress.agreeing(content, {source.mark for source in sources}))
            except CorruptFile:
                return None
        return next((source for source in sources if source.mark in found), None)


def originals(path: str) -> set[str]:
    """The names that the content of a compressed file may have had: without the suffix, without count or date."""
    return {*scanner.originals(path), path.removesuffix(decompress.suffix_of(path))}


class CompressedFiles:
    """The compressed files that the scans found. Owned by `Rotation`."""

    def __init__(self, watched: Watched, links: Links) -> None:
        self._links = links
        self._named = set(watched.patterns)
        self._found: dict[Key, str] = {}
        self._logged: set[str] = set()

    def is_named(self, seen: Seen) -> bool:
        """Whether a file with the suffix of compressed files is named without a glob."""
        return seen.path in self._named and bool(decompress.suffix_of(seen.path))

    def excludes(self, seen: Seen) -> bool:
        """Whether `seen` is compressed and only a glob names it."""
        if seen.key in self._found or self.is_named(seen):
            return seen.key in self._found
        try:
            is_compressed = decompress.is_compressed_file(seen.path, seen, self._links)
        except OSError:
            return False  # opening it meets the same error and logs it
        if is_compressed and seen.size:
            self._found[seen.key] = seen.path
        return is_compressed

    def scan_ends(self, keys: Collection[Key], *, known: Mapping[str, object]) -> None:
        """Log once for each path what was left out that is no rotation of a file whose name is in `known`."""
        self._found = {key: path for key, path in self._found.items() if key in keys}
        for path in self._found.values():
            if path not in self._logged and known.keys().isdisjoint(originals(path)):
                events.compressed_left_out(path=path)
            self._logged.add(path)
