"""Searches copies of lost files by their first bytes, under any name: near the file, and where files are watched.

Near it are its directory, the directories in that, and those next to it, to which logrotate may move (`olddir`).
Each directory is listed once for all files that were lost before, and each file's head read once until it changes.
"""

import itertools
import os
import stat
from collections.abc import Iterable, Iterator

from producer.discovery.safe_open import close_on_exit
from producer.discovery.scanner import Key, Seen
from producer.fingerprint import HEAD_BYTES, digest
from producer.model import Source
from producer.tailer import decompress
from producer.tailer.decompress import CorruptFile, IncompleteFile
from producer.tailer.file_table import FileTable

MOST_DIRECTORIES = 64
"""That are searched near one file."""
MOST_FILES = 20_000
"""That are listed in one search."""
SECOND_NS = 10**9


class CopySearch:
    """The files that may be copies. Owned by `ContentFinder`."""

    def __init__(self, table: FileTable) -> None:
        self._table = table
        self._links = table.following.links
        self._listed: dict[str, tuple[float, list[Seen]]] = {}
        self._heads: dict[Key, tuple[Seen, bytes]] = {}

    def like(self, source: Source, lost_at: float, watched: Iterable[Seen]) -> Iterator[Seen]:
        """The files that begin as `source` does and changed since, the oldest first. `watched`: what a scan found."""
        since = source.mtime_ns // SECOND_NS * SECOND_NS
        directories = dict.fromkeys([*_near(source), *(os.path.dirname(seen.path) for seen in watched)])
        files = itertools.chain.from_iterable(self._files(each, lost_at) for each in directories)
        mark = source.mark
        found = {seen.key: seen for seen in itertools.islice(files, MOST_FILES) if seen.mtime_ns >= since}
        for seen in sorted(found.values(), key=lambda each: (each.mtime_ns, each.path)):
            head = self._head(source.file, seen)[: mark.head_length]
            if (
                len(head) == mark.head_length
                and digest(head) == mark.head_hash
                and not self._table.is_spooled(seen.path)
            ):
                yield seen

    def _files(self, directory: str, lost_at: float) -> list[Seen]:
        """The regular files in a directory. Listed anew for what was lost since."""
        listed_at, files = self._listed.get(directory, (-1.0, []))
        if listed_at <= lost_at:
            files = list(_regular_files(directory))
            self._listed[directory] = (self._table.clock(), files)
        return files

    def _head(self, name: str, seen: Seen) -> bytes:
        """The first bytes of a file's content, decompressed. Empty where they cannot be read."""
        before, head = self._heads.get(seen.key, (None, b""))
        if before is not None and (before.size, before.mtime_ns) == (seen.size, seen.mtime_ns):
            return head
        if len(self._heads) >= MOST_FILES:
            self._heads.clear()
        try:
            head = self._read_head(name, seen)
        except (OSError, CorruptFile, IncompleteFile):
            return b""
        self._heads[seen.key] = (seen, head)
        return head

    def _read_head(self, name: str, seen: Seen) -> bytes:
        descriptor = self._links.open_as(name, seen.path, seen.key)
        with close_on_exit(descriptor):
            if descriptor is None:
                return b""
            if decompress.is_compressed(seen.path, descriptor):
                with open(descriptor, "rb", closefd=False) as file:
                    return decompress.head_of(file, decompress.suffix_of(seen.path))
            return os.pread(descriptor, HEAD_BYTES, 0)


def _near(source: Source) -> Iterator[str]:
    for name in source.names:
        directory = os.path.dirname(name)
        yield directory
        for parent in (directory, os.path.dirname(directory)):
            yield from itertools.islice(_directories(parent), MOST_DIRECTORIES)


def _directories(parent: str) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _regular_files(directory: str) -> Iterator[Seen]:
    try:
        with os.scandir(directory) as entries:
            listed = [entry for entry in entries if not entry.is_symlink()]
    except OSError:
        return
    for entry in itertools.islice(listed, MOST_FILES):
        try:
            found = entry.stat()
        except OSError:  # gone, or unknown: then it is no candidate now
            continue
        if stat.S_ISREG(found.st_mode):
            yield Seen(entry.path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
