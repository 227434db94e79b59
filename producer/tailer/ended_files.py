"""The end of a file: after its last block is acknowledged it is closed, retained, deleted, and forgotten later.

A file may be deleted once the archive has it if it is read to its end: the last byte read is a newline, or the file
ended without one. And its name is

* a rotated one: `app.log.1` of what was shipped as `app.log`, whether that name is watched or not;
* or one that a glob found. The live file of a running program is among those; the read lease protects it, see below.

Never: a path that was named without a glob, an excluded name, a name that a person chose (`app.log.keep`), a
symbolic link, an empty file, the spool of an input (it deletes its files itself).

Delete one file so that no byte is lost, whatever its writers do at that moment.

1. Open it, and see that it still is what was acknowledged: device, inode, size, time of change, first and last bytes.
2. Take a read lease (Linux): the kernel grants it only while no program has the file open for writing, and holds up
   every program that tries to. So a log that its program has open stays, however silent it is: without a name, the
   program's next line could be read by no other process. If the lease is not permitted (not root, not the owner, not a
   local file system) a file is deleted only if it was rotated.
3. Rename it to a hidden name in its directory. This makes certain that the next step removes this file: under its old
   name a rotation may have put another one. A kill here leaves the hidden name, under which the source is found again.
   All names are relative to the descriptor of the directory, to which no link may lead, and which only root, the user
   of the producer or the owner of the file may change: else a hostile user chooses what is removed.
4. Check it again; unlink it, or rename it back. If a program wrote in that moment, its bytes are read through the
   descriptor, which needs no name.
"""

import contextlib
import enum
import errno
import fcntl
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from producer.discovery import scanner
from producer.discovery.safe_open import NotFollowed, close_on_exit, directory_without_links, is_directory_of_others
from producer.discovery.scanner import Key, Watched
from producer.model import Piece, Source
from producer.padding import content_end
from producer.tailer.file_reader import FileReader
from producer.tailer.file_table import Event, FileTable
from producer.tailer.resolver import Resolver
from shipper import events
from shipper.control import ReceiptsReply
from shipper.model import End

HIDDEN_PREFIX = ".fshipper-deleting-"
FORGET_SECONDS = 3600.0
"""Seconds between two searches for ended sources that are old enough to be forgotten."""


class DeletableFile(NamedTuple):
    """A file that is read to its end and acknowledged, and its path now."""

    source: Source
    path: str
    rotated: bool  #: it had another name when it was first seen


class DeletionOutcome(enum.Enum):
    """What became of a file that was to be deleted."""

    DELETED = "deleted"
    LATE = "deleted while a program wrote into it"
    CHANGED = "it changed since it was shipped"
    WRITTEN = "a program has it open for writing"
    LINKED = "a link leads to its directory; name the file by its own path"
    FOREIGN = "other users may rename files in its directory"
    UNKNOWN = "this user may not check whether a program has it open for writing"


REMOVED = {DeletionOutcome.DELETED, DeletionOutcome.LATE}


class EndedFiles:
    """Closes, retains, deletes and forgets the files that were read to their end. Owned by `Tailer`."""

    def __init__(self, table: FileTable, resolver: Resolver) -> None:
        self._table = table
        self._acks = table.acks
        self._retained = table.retained
        self._resolver = resolver
        self._over: list[tuple[str, End]] = []  # last blocks that are acknowledged
        self._forget_at = table.clock() + FORGET_SECONDS

    def acknowledged(self, piece: Piece, sequence: int) -> None:
        """JetStream has stored `piece` and everything before it of its source."""
        self._acks.note_ack(piece, sequence)
        if piece.end is not None:
            self._over.append((piece.source, piece.end))

    def retire(self) -> None:
        """Close the files whose last block is acknowledged. One that got more bytes meanwhile goes on."""
        over, self._over = self._over, []
        for source, why in over:
            file, reader = self._table.get(source), self._table.reader(source)
            if why is End.EXCLUDED:
                self._acks.exclude(source)
            elif file is None or reader is None:
                self._table.end(self._acks.end(source, file_rests=False))
            elif why is not End.TRUNCATED and reader.has_grown():
                file.left_at = self._table.clock()
                self._table.move(file, Event.GREW)
            else:
                if reader.is_padded and why is not End.TRUNCATED:
                    octets = reader.stat_size - reader.size
                    events.padding_not_shipped(file=reader.file, octets=octets)
                ended = self._acks.end(source, file_rests=self._resolver.may_reappear(reader, why))
                self._retain(ended, reader)
                self._table.end(ended)
        if over:
            self._retained.settle(self._acks.known)

    def _retain(self, ended: Source, reader: FileReader) -> None:
        """Keep the file of a source that ended open until an archive has it. A copy, or a spool, is no own file."""
        is_own = reader.ends_as is None and reader.file not in self._table.following.spools
        if self._retained.bounds.octets and is_own:
            with contextlib.suppress(OSError):
                self._retained.retain(ended, reader.detach())

    def note_receipts(self, reply: ReceiptsReply) -> None:
        """An archive holds so much."""
        self._acks.note_receipts(reply)
        self._retained.settle(self._acks.known)

    def note_unsolicited(self, reply: ReceiptsReply) -> list[str]:
        """The same for an unsolicited message. Returns the sources of which it proves nothing."""
        unproven = self._acks.note_unsolicited(reply)
        self._retained.settle(self._acks.known)
        return unproven

    def deletable_files(self) -> list[DeletableFile]:
        """The files that may be deleted once the archive has them: read to their ends and acknowledged."""
        resting: dict[str, list[Source]] = {}
        found = []
        for source in self._acks.known.values():
            file, reader = self._table.get(source.id), self._table.reader(source.id)
            if source.excluded or source.origin or not source.size or not self._resolver.is_named(source):
                continue  # the archive never has all of it, or has nothing
            if file is not None and reader is not None:
                is_read = source.offset == reader.offset == reader.size == source.size
                if is_read and file.is_reading and file.is_named and not reader.unfinished_line():
                    rotated = scanner.is_sibling(reader.path, source.file)
                    found.append(DeletableFile(source, reader.path, rotated=rotated))
            elif source.ended_at and source.inode and source.size <= source.offset:
                resting.setdefault(source.file, []).append(source)
        watched = self._table.following.watched
        return [file for file in (*found, *_rotated(resting)) if _may_go(file, watched)]

    def delete(self, target: DeletableFile) -> DeletionOutcome:
        """Delete a file unless it changed. What is written in that moment is read all the same. Raises OSError."""
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
        self._acks.change(replace(self._acks.known[source.id], device=0, inode=0))

    def forget_if_due(self, files: Iterable[Key], copied: set[str]) -> None:
        """Once an hour: forget old sources, except those whose file or copy the last scan found."""
        if self._table.clock() >= self._forget_at:
            self._forget_at = self._table.clock() + FORGET_SECONDS
            ended = (self._table.ended_at(key) for key in files)
            kept = copied | {file.id for file in ended if file is not None}
            left_out = [source for source in self._acks.known.values() if source.excluded]
            kept |= {source.id for source in left_out if scanner.is_at(source.file, source.key)}
            for source in self._acks.forget_old(kept):  # else what is still there would be shipped again
                self._table.forget(source)

    def _delete_closed(self, file: DeletableFile) -> DeletionOutcome:
        """Delete the file of a source that ended. If it got more bytes just then, go on with it. Raises OSError."""
        source = file.source
        descriptor = self._resolver.open(source.file, file.path, source.key)
        if descriptor is None:
            return DeletionOutcome.CHANGED
        with close_on_exit(descriptor) as closing:
            fate = delete(file, descriptor)
            if fate in REMOVED:
                self._table.forget(source)
                self._acks.end(source.id, file_rests=False)  # its inode number is free for any other file
            if fate is DeletionOutcome.LATE:
                closing.pop_all()
                self._resolver.resume_open(replace(source, ended_at=0.0), descriptor, file.path)
        return fate


# -- which files may be deleted ----------------------------------------------------------------------------------------


def hidden_name(path: str, source: Source) -> str:
    """The path of the file of `source`, in the directory of `path`, in the moment before it is deleted."""
    return os.path.join(os.path.dirname(path), HIDDEN_PREFIX + source.id)


def _rotated(resting: Mapping[str, list[Source]]) -> Iterator[DeletableFile]:
    """The present paths of the files of sources that ended, as far as they exist."""
    for name, sources in resting.items():
        try:
            paths = {seen.key: seen.path for seen in scanner.Listing().siblings(name)}
        except OSError:
            continue  # unknown now
        for source in sources:
            hidden = hidden_name(name, source)  # a kill may have left it
            path = hidden if scanner.is_at(hidden, source.key) else paths.get(source.key)
            if path is not None:
                yield DeletableFile(source, path, rotated=True)


def _may_go(file: DeletableFile, watched: Watched) -> bool:
    kept = (file.path in watched.patterns and not file.rotated) or file.source.file in watched.own
    return not kept and not watched.excludes(file.path) and not os.path.islink(file.path)


# -- delete one file ---------------------------------------------------------------------------------------------------

NO_LEASE_ERRORS = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}


def delete(file: DeletableFile, descriptor: int) -> DeletionOutcome:
    """Delete `file`, which is open as `descriptor`, if it still is what was acknowledged.

    Raises OSError: it has its name, or its hidden name if the rename could not be undone.
    """
    if not (_is_as_long(descriptor, file.source) and file.source.mark.agrees(descriptor)):
        return DeletionOutcome.CHANGED
    held = _lease(descriptor)
    try:
        is_padded = os.fstat(descriptor).st_size > file.source.size  # may be filled without a change of size or time
        if held is DeletionOutcome.WRITTEN or (held is DeletionOutcome.UNKNOWN and (is_padded or not file.rotated)):
            return held
        with directory_without_links(os.path.dirname(file.path)) as directory:
            if is_directory_of_others(os.fstat(directory), os.fstat(descriptor)):
                return DeletionOutcome.FOREIGN
            return _unlink(file, descriptor, directory, leased=held is None)
    except NotFollowed:
        return DeletionOutcome.LINKED
    finally:
        if held is None:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _is_as_long(descriptor: int, source: Source) -> bool:
    """Whether it is the file of `source`, with the same content. NULs may follow that."""
    found = os.fstat(descriptor)
    is_same_file = (found.st_dev, found.st_ino, found.st_mtime_ns) == (*source.key, source.mtime_ns)
    return is_same_file and content_end(descriptor, source.offset, found.st_size) == source.size


def _lease(descriptor: int) -> DeletionOutcome | None:
    """Hold up writers. None: held, and there was none."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # ignored; by default a writer causes SIGIO, which kills
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno in NO_LEASE_ERRORS:
            return DeletionOutcome.UNKNOWN
        if error.errno == errno.EAGAIN:
            return DeletionOutcome.WRITTEN
        raise
    return None


def _unlink(file: DeletableFile, descriptor: int, directory: int, *, leased: bool) -> DeletionOutcome:
    name, hidden = os.path.basename(file.path), os.path.basename(hidden_name(file.path, file.source))
    if hidden != name:
        os.rename(name, hidden, src_dir_fd=directory, dst_dir_fd=directory)
    try:
        found = os.stat(hidden, dir_fd=directory, follow_symlinks=False)
        ours = (found.st_dev, found.st_ino) == file.source.key
        if not (ours and _is_as_long(descriptor, file.source)) or _is_requested(descriptor, leased=leased):
            _put_back(hidden, name, directory)
            return DeletionOutcome.CHANGED
        os.unlink(hidden, dir_fd=directory)
    except OSError:
        _put_back(hidden, name, directory)
        raise
    end = content_end(descriptor, file.source.offset, os.fstat(descriptor).st_size)
    late = end > file.source.size or _is_requested(descriptor, leased=leased)
    return DeletionOutcome.LATE if late else DeletionOutcome.DELETED


def _is_requested(descriptor: int, *, leased: bool) -> bool:
    """Whether a writer waits for the lease."""
    return leased and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK


def _put_back(hidden: str, name: str, directory: int) -> None:
    """Give a file its name again, unless that is taken by now: then the hidden one stays, and is found by its inode."""
    with contextlib.suppress(OSError):
        try:
            os.link(hidden, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except PermissionError:  # a file system without hard links
            try:
                os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
            return
        os.unlink(hidden, dir_fd=directory)
