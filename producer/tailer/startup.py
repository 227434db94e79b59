"""At the start: continue the sources of the checkpoint in their files, end them, or exclude them.

Device numbers may change with a reboot or a mount: a file is the same if its inode number and its content are.
"""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace

from producer.discovery import scanner
from producer.discovery.safe_open import Links
from producer.discovery.scanner import Key, ScanResult, Seen
from producer.model import Source
from producer.tailer.decompress import IncompleteFile
from producer.tailer.file_reader import content_matches
from producer.tailer.file_table import FileTable
from producer.tailer.resolver import Resolver
from producer.tailer.rotation import BlankSources
from shipper import events
from shipper.model import End


class Startup:
    """Continues the sources of the checkpoint when the tailer starts. Owned by `Tailer`."""

    def __init__(self, table: FileTable, resolver: Resolver, blanks: BlankSources) -> None:
        self._table = table
        self._acks = table.acks
        self._links = table.following.links
        self._resolver = resolver
        self._blanks = blanks

    def resume(self, sources: list[Source]) -> None:
        """Find the file of each source again, or end the source.

        A source whose file the configuration does not name is not read, and its file is not opened.
        """
        found = scanner.scan(self._table.following.watched)
        self._resolver.found({seen.key: seen for seen in found.files}, {})
        sources = [self._table.retained.with_retained_inode(source) for source in sources]
        names = {each.file for each in sources if self._resolver.is_named(each) and not self._is_twin(each, found)}
        unnamed = [source for source in sources if source.file not in names]
        before = [source for source in sources if source.file in names]
        by_inode: dict[int, list[Seen]] = {}
        for seen in found.files:
            by_inode.setdefault(seen.inode, []).append(seen)
        now = [_with_current_device(source, by_inode.get(source.inode, []), self._links) for source in before]
        sources = [*unnamed, *now]
        newest = {source.key: source.id for source in sources if not source.ended_at}
        sources = self._blanks.without(sources)
        for source in sources:
            self._acks.add(source)
        for source in set(now) - set(before):
            self._acks.change(source)
        self._acks.scan_ends(())
        # the youngest generation of a name comes last, whenever it was first seen
        for source in (each for each in sources if each.file not in names):
            self._exclude(source, newest)
        named = [source for source in sources if source.file in names]
        for source in sorted(named, key=lambda source: has_first_name(source, newest, self._links)):
            if source.excluded:
                self._include_again(source)
            elif source.ended_at:
                self._table.end(source)
            elif not source.inode:  # went back, and its file was gone when it ended
                self._table.lose_source(source, End.DELETED)
            elif newest[source.key] != source.id:  # the same inode was truncated, and its last block not acknowledged
                self._table.lose_source(source, End.TRUNCATED)
            else:
                self._resolver.resume(source)
        self._table.retained.close_handed_over()

    def _is_twin(self, source: Source, found: ScanResult) -> bool:
        """Whether the file of a source is excluded under another name, to which a link leads or which it has, too."""
        if source.file in found.excluded:
            return True
        watched = self._table.following.watched
        try:
            stat = os.stat(source.file) if watched.exclude else None
            if stat is None or stat.st_nlink <= 1 or (stat.st_dev, stat.st_ino) != source.key:
                return False
            return bool(scanner.excluded_twin(source.file, source.key, watched, self._resolver.listing))
        except OSError:
            return False  # opening it meets the same error

    def _include_again(self, source: Source) -> None:
        """Go on with a source that was excluded, in its file or in a copy. What is gone by now was excluded."""
        living = source.named_again()
        if self._resolver.resume(living, or_lose=False):
            return
        is_found = False
        with contextlib.suppress(OSError, IncompleteFile):  # the next start tries again
            is_found = living.mark.head_length > 0 and self._resolver.finder.has_content(living)
        if not is_found:
            self._table.exclude(source)
            return
        self._acks.add(living)
        self._table.lose_source(living, End.DELETED)

    def _is_under_another_name(self, source: Source) -> bool:
        """Whether a file that lost its name in the configuration has another one there: then it is read as before."""
        if source.key not in self._resolver.files or not source.inode:
            return False
        if source.ended_at and not source.excluded:
            self._table.end(source)
            return True
        return self._resolver.resume(source.named_again(), or_lose=False)

    def _exclude(self, source: Source, newest: Mapping[Key, str]) -> None:
        """Read nothing more of a source, and record that: it is excluded, and not lost."""
        if self._is_under_another_name(source):
            return
        self._table.retained.drop(source.id)
        self._table.exclude(source)  # it goes on if its file comes back under a name that is watched
        if source.excluded or source.ended_at:
            if source.excluded:
                self._acks.note_size(source.id, scanner.size_at(source.file, source.key))
            return
        if newest.get(source.key) == source.id:
            source = replace(source, size=max(source.size, scanner.size_at(source.file, source.key)))
            self._acks.note_size(source.id, source.size)
        events.file_excluded(path=source.file, source=source.id, unread=max(0, source.size - source.offset))
        if source.offset > source.origin:
            self._table.finish_excluded(source)
        else:  # no archive has anything of it
            self._acks.exclude(source.id)


def has_first_name(source: Source, newest: Mapping[tuple[int, int], str], links: Links) -> bool:
    """Whether the file of a source has the name under which it was first seen. True also where that is unknown.

    An inode number may have come back with another file: `newest` has by key the source that began last.
    """
    if source.ended_at or newest[source.key] != source.id:
        return False
    try:
        seen = scanner.scan_file(source.file)
        return seen is not None and seen.key == source.key and content_matches(seen, source.mark, links)
    except OSError:
        return True


def _with_current_device(source: Source, files: list[Seen], links: Links) -> Source:
    """A source with the device number that its file has now. `files`: those with its inode number that a scan found.

    One that shipped nothing yet, or whose file cannot be found, stays as it is.
    """
    if not (source.inode and source.mark.head_length) or any(seen.key == source.key for seen in files):
        return source
    try:
        if os.stat(os.path.dirname(source.names[-1])).st_dev == source.device:
            return source
        rotations = [
            seen for name in source.names for seen in (scanner.scan_file(name), *scanner.Listing().rotations(name))
        ]
        for seen in (*files, *rotations):
            if seen is not None and seen.inode == source.inode and content_matches(seen, source.mark, links):
                events.device_changed(file=source.file, source=source.id)
                return replace(source, device=seen.device)
    except OSError as error:
        if not isinstance(error, scanner.GONE):
            events.file_unreadable(path=source.file, error=error.strerror or str(error))
    return source
