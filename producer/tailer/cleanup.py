"""Which files may be deleted once the archive has them: read to their end, acknowledged, and with a name that may go.

Read to its end: the last byte read is a newline, or the file ended without one. And its name is

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
from typing import NamedTuple

from producer.discovery import scanner
from producer.discovery.safe_open import NotFollowed, directory_without_links, is_directory_of_others
from producer.discovery.scanner import Watched
from producer.model import Source
from producer.tailer.file_table import FileTable, TrackedFile

HIDDEN_PREFIX = ".fshipper-deleting-"


class DeletableFile(NamedTuple):
    """A file that is read to its end and acknowledged, and its path now."""

    source: Source
    path: str
    rotated: bool  #: it had another name when it was first seen


def hidden_name(path: str, source: Source) -> str:
    """The path of the file of `source`, in the directory of `path`, in the moment before it is deleted."""
    return os.path.join(os.path.dirname(path), HIDDEN_PREFIX + source.id)


def deletable_files(sources: Iterable[Source], table: FileTable, watched: Watched) -> list[DeletableFile]:
    """The files of `sources` that are read to their end and acknowledged, under names that may be deleted."""
    resting: dict[str, list[Source]] = {}
    found = []
    for source in sources:
        file, reader = table.get(source.id), table.reader(source.id)
        if source.origin or not source.size:
            continue  # the archive never has all of it, or has nothing
        if file is not None and reader is not None and _is_read(file, source):
            found.append(DeletableFile(source, reader.path, rotated=scanner.is_sibling(reader.path, source.file)))
        elif reader is None and source.ended_at and source.inode and source.size <= source.offset:
            resting.setdefault(source.file, []).append(source)
    found.extend(_rotated(resting))
    return [file for file in found if _may_go(file, watched)]


def _is_read(file: TrackedFile, source: Source) -> bool:
    """Whether everything in a file that is tailed is read and acknowledged, and it has a watched name."""
    reader = file.reader
    if reader is None or not file.is_reading or not file.is_named:
        return False
    return source.offset == reader.offset == reader.size == source.size


def _rotated(resting: Mapping[str, list[Source]]) -> Iterator[DeletableFile]:
    """The present paths of the files of sources that ended, as far as they exist."""
    for name, sources in resting.items():
        try:
            paths = {seen.key: seen.path for seen in scanner.siblings(name)}
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


NO_LEASE_ERRORS = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}


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


def delete(file: DeletableFile, descriptor: int) -> DeletionOutcome:
    """Delete `file`, which is open as `descriptor`, if it still is what was acknowledged.

    Raises OSError: it has its name, or its hidden name if the rename could not be undone.
    """
    if not _is_same(descriptor, file.source):
        return DeletionOutcome.CHANGED
    held = _lease(descriptor)
    try:
        if held is DeletionOutcome.WRITTEN or (held is DeletionOutcome.UNKNOWN and not file.rotated):
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


def _is_same(descriptor: int, source: Source) -> bool:
    return _is_as_long(descriptor, source) and source.mark.agrees(descriptor)


def _is_as_long(descriptor: int, source: Source) -> bool:
    found = os.fstat(descriptor)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) == (
        source.device,
        source.inode,
        source.size,
        source.mtime_ns,
    )


def _lease(descriptor: int) -> DeletionOutcome | None:
    """Hold up writers; None: held, and there was none."""
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
        if not (ours and _is_as_long(descriptor, file.source)) or _is_asked_for(descriptor, leased=leased):
            _put_back(hidden, name, directory)
            return DeletionOutcome.CHANGED
        os.unlink(hidden, dir_fd=directory)
    except OSError:
        _put_back(hidden, name, directory)
        raise
    late = os.fstat(descriptor).st_size > file.source.size or _is_asked_for(descriptor, leased=leased)
    return DeletionOutcome.LATE if late else DeletionOutcome.DELETED


def _is_asked_for(descriptor: int, *, leased: bool) -> bool:
    """Whether a writer waits for the lease."""
    return leased and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK


def _is_there(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _put_back(hidden: str, name: str, directory: int) -> None:
    """Give a file its name again, unless that is taken by now: then the hidden one stays, and is found by its inode."""
    with contextlib.suppress(OSError):
        try:
            os.link(hidden, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except PermissionError:  # a file system without hard links
            if not _is_there(name, directory):
                os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
            return
        os.unlink(hidden, dir_fd=directory)
