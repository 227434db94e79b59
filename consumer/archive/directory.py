"""The archive directory: paths of files, its identity, and whether a partition's journal belongs to it."""

import contextlib
import errno
import fcntl
import functools
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shipper import layout
from shipper.durable_files import (
    Lock,
    LockHeld,
    make_directory,
    name_if_free,
    private_directory,
    replace_file,
    sync_directory,
)
from shipper.errors import ConfigError, Fatal, Poison
from shipper.layout import FileKey

IDENTITY = layout.IDENTITY
JOURNALS = layout.JOURNAL_DIRECTORY
LOCKS = "_lock"
OWN = frozenset({IDENTITY, JOURNALS, LOCKS, layout.MANIFEST_DIRECTORY})
"""Names next to the files of hosts that the collector uses itself; a host may have such a name."""
CACHED_BYTES = 512  # longer names are not cached: any client may send as many as it likes
MAX_CACHED = 32_768  # paths of files: ten thousand hosts write in turn
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 3000  # with the path of the archive it is below the limit of Linux, 4096


@dataclass(frozen=True, slots=True)
class Layout:
    """The path of the file of a key: the layout for Spark, or the template in `SHIPPER_OUTPUT`."""

    archive: Path
    template: str = ""
    epoch: int = 0
    frames: str = "none"  #: codec of the frames that open files hold; none: they are plain text

    def path(self, key: FileKey, time_ns: int) -> str:
        """Path relative to the archive. Raises Poison: the names lead out of it, or are not valid in a file system."""
        if self.template:
            return _template_path(self.template, key, time_ns // layout.NANOSECONDS)
        find = _open_path if len(key.file) <= CACHED_BYTES else _open_path.__wrapped__
        return find(key, self.epoch, self.frames)

    def length_before(self, path: str) -> int:
        """Bytes of a file that is not in the journal: a template's file may have been released."""
        if not self.template:
            return 0
        try:
            return (self.archive / path).stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def seals(self) -> bool:
        """Whether files become segments: a template's files stay as they are."""
        return not self.template

    def is_older(self, path: str) -> bool:
        """Whether an open file has the name of an earlier epoch, so that nothing is appended to it any more."""
        if not (self.epoch and self.seals):
            return False
        epoch = layout.epoch_of(path)
        return epoch is not None and epoch < self.epoch

    def is_own(self, path: str) -> bool:
        """Whether an open file has the name of this epoch: no earlier owner had it."""
        return (layout.epoch_of(path) or 0) == self.epoch


@functools.lru_cache(maxsize=MAX_CACHED)
def _open_path(key: FileKey, epoch: int, frames: str) -> str:
    return _checked(layout.open_path(key, epoch) + layout.CODEC_SUFFIXES[frames])


@functools.lru_cache(maxsize=MAX_CACHED)
def _template_path(template: str, key: FileKey, seconds: int) -> str:
    try:
        path = layout.template_path(template, key, seconds * layout.NANOSECONDS)
    except ValueError as error:
        raise Poison(str(error)) from None
    if path.partition("/")[0] in OWN:
        raise Poison(f"{template!r} leads to {path!r}, where the collector keeps its own files")
    return _checked(path)


def _checked(path: str) -> str:
    try:
        names = [len(name.encode()) for name in path.split("/")]
    except UnicodeEncodeError:
        raise Poison("host or file name is no text that a file name can hold") from None
    if max(names) > MAX_NAME_BYTES or sum(names) > MAX_PATH_BYTES:
        raise Poison(f"host and file name make {path[:80]!r}..., which is too long for a file system")
    return path


def open_archive(directory: Path) -> str:
    """The identity of the archive in `directory`, made if it is new. Raises ConfigError: it cannot be written."""
    path = directory / IDENTITY
    try:
        make_directory(directory)
        if not path.exists():
            mine = path.with_name(f".{path.name}.{os.getpid()}")
            replace_file(mine, json.dumps({"v": 1, "id": secrets.token_hex(8)}).encode() + b"\n")
            if name_if_free(mine, path):  # two collectors may do so at the same time: the first one stays
                sync_directory(directory)
            mine.unlink(missing_ok=True)
        found = json.loads(path.read_bytes())
        if not os.access(directory, os.W_OK):
            raise PermissionError(13, "Permission denied")
        return str(found["id"])
    except (OSError, ValueError, KeyError) as error:
        is_full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise ConfigError(
            f"cannot use the archive directory {directory}: {getattr(error, 'strerror', None) or error}",
            hint="free space on that disk (df shows it), or extend it"
            if is_full
            else "set SHIPPER_DIRECTORY (--directory) to a directory that this user may write",
        ) from None


@contextlib.contextmanager
def unmade_if_refused(directory: Path) -> Iterator[None]:
    """Remove what the block made of a new archive if it raises ConfigError, unless it holds a partition by then."""
    existed = directory.exists()
    before = set(os.listdir(directory)) if existed else set()
    try:
        yield
    except ConfigError:
        made = set(os.listdir(directory)) - before if directory.is_dir() else set()
        is_own = IDENTITY in made and made <= {IDENTITY, *OWN}
        if is_own and not any((directory / JOURNALS).glob("*.sqlite")) and not any(directory.glob("date=*")):
            for name in sorted(made):
                if (directory / name).is_dir():
                    shutil.rmtree(directory / name, ignore_errors=True)
                else:
                    (directory / name).unlink(missing_ok=True)
            if not existed:
                with contextlib.suppress(OSError):
                    directory.rmdir()
        raise


def existing_identity(directory: Path, *, hint: str) -> str:
    """The identity of the archive in `directory`, which is not made. Empty means that an older version wrote it.

    Raises ConfigError: there is no archive, or it cannot be read; `hint` explains how to choose one.
    """
    whole = directory.absolute()
    try:
        names = os.listdir(directory)
        if IDENTITY in names:
            return str(json.loads((directory / IDENTITY).read_bytes())["id"])
        if not (layout.is_archive(names) or any(directory.glob("date=*/partition=*"))):
            content = "is empty" if not names else f"has no {IDENTITY}, {layout.MANIFEST_DIRECTORY} or {JOURNALS}"
            raise ConfigError(f"{whole} is no archive of a collector: the directory {content}", hint=hint)
    except FileNotFoundError:
        raise ConfigError(f"there is no archive at {whole}", hint=hint) from None
    except NotADirectoryError:
        raise ConfigError(f"there is no archive at {whole}: it is no directory", hint=hint) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"the archive {whole} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(text, hint="read it as the collector's user or group") from None
    return ""


def journal_directory(directory: Path, identity: str, state: Path | None) -> Path:
    """The directory of this archive's journals: in the archive, or below `SHIPPER_STATE`. It is created if missing."""
    where = state / "collector" / identity if state else directory / JOURNALS
    try:
        if state:
            private_directory(where)
        else:
            make_directory(where, mode=0o700)
    except OSError as error:
        raise ConfigError(
            f"cannot use the state directory {where}: {error.strerror}",
            hint="set SHIPPER_STATE (--state) to a directory of this user, to which no other user may write",
        ) from None
    return where


def lock_path(directory: Path, partition: int, epoch: int = 0) -> Path:
    """The lock of the one writer of an epoch of a partition. It protects the files, wherever the journal is."""
    make_directory(directory / LOCKS)
    return directory / LOCKS / f"partition={partition}{f'.{epoch}' if epoch else ''}.lock"


def found_journals(journals: Path, prefix: str = ".+", partition: str = r"\d{1,6}") -> list[tuple[str, int, int, Path]]:
    """Prefix, partition, epoch and path of the journals in a directory. `prefix` and `partition` are patterns."""
    name = re.compile(rf"({prefix})\.p({partition})(?:\.([1-9]\d*))?\.sqlite")
    found = []
    with os.scandir(journals) as entries:
        for each in entries:
            with contextlib.suppress(FileNotFoundError):  # another collector took the partition over just now
                if (match := name.fullmatch(each.name)) and each.stat().st_size:
                    found.append((match[1], int(match[2]), int(match[3] or 0), Path(each.path)))
    return found


def check_subject(journals: Path, prefix: str) -> None:
    """Raises ConfigError: collectors of another subject write this archive, and both would write the same files."""
    found = {each[0] for each in found_journals(journals)}
    if found and prefix not in found:
        raise ConfigError(
            f"this archive belongs to subject {min(found)!r}, and SHIPPER_SUBJECT is {prefix!r}",
            hint=f"set SHIPPER_SUBJECT (--subject) to {min(found)}, or give the other subject an archive of its own"
            " (SHIPPER_DIRECTORY)",
        )


@dataclass(frozen=True, slots=True)
class ArchiveLocation:
    """An archive as one collector sees it."""

    layout: Layout
    archive: str  #: its identity
    journals: Path
    prefix: str  #: first token of the subjects: which streams the journals are of

    @property
    def directory(self) -> Path:
        """The archive's directory."""
        return self.layout.archive

    def newest_epoch(self, partition: int) -> int | None:
        """The highest epoch with a journal, which is the current one.

        None means that the partition has no journal here.
        """
        found = found_journals(self.journals, re.escape(self.prefix), str(partition))
        return max((epoch for _, _, epoch, _ in found), default=None)

    def newest_journals(self) -> dict[int, Path]:
        """The current journal of each partition of this archive: the one of the highest epoch."""
        found = sorted(found_journals(self.journals, re.escape(self.prefix)))
        return {partition: path for _, partition, _, path in found}

    def journal(self, partition: int, epoch: int) -> Path:
        """The journal of an epoch."""
        return self.journals / f"{self.prefix}.p{partition}{f'.{epoch}' if epoch else ''}.sqlite"

    def lock(self, partition: int, epoch: int) -> Path:
        """The lock of the one writer of an epoch."""
        return lock_path(self.directory, partition, epoch)

    def has_open_files(self, partition: int, date: str) -> bool:
        """Whether something of a day of a partition is not sealed."""
        return any((self.directory / f"date={date}/partition={partition}").glob("host=*/_[os]*"))

    def what(self, partition: int) -> str:
        """The partition with its archive, as text."""
        return f"partition {partition} of the archive {self.directory}"


def try_lock(path: Path, what: str) -> contextlib.ExitStack | None:
    """The lock, released when the stack is closed. None means that another process holds it."""
    stack = contextlib.ExitStack()
    try:
        stack.enter_context(Lock(path, what))
    except LockHeld:
        return None
    return stack


def check_journal(directory: Path, journal: Path, partition: int) -> None:
    """Raises Fatal: the archive holds files of the partition and its journal is missing: all would be written twice."""
    is_new = not journal.exists() or journal.stat().st_size == 0
    begun = _begun(directory, partition).exists() or any(directory.glob(f"date=*/partition={partition}"))
    if is_new and begun:
        raise Fatal(
            f"the archive {directory} holds files of partition {partition}, but its journal {journal} is missing",
            hint="restore the journal (SHIPPER_STATE), or give a new SHIPPER_DIRECTORY",
        )


def note_journal(directory: Path, partition: int) -> None:
    """Record in the archive that a partition has a journal: paths of a template do not contain the partition."""
    begun = _begun(directory, partition)
    if not begun.exists():
        begun.touch()
        sync_directory(begun.parent)


def _begun(directory: Path, partition: int) -> Path:
    return directory / LOCKS / f"partition={partition}.begun"


def manifests_of_day(archive: Path, date: str) -> list[Path]:
    """Paths of the manifests of a day, of all collectors."""
    return sorted((archive / layout.manifest_path(date, "x")).parent.glob("*.jsonl"))


def is_written(archive: Path, partition: int) -> bool:
    """Whether a collector holds `partition`. The check takes the lock for a moment, so call it only where needed."""
    locks = archive / LOCKS
    names = [f"partition={partition}.lock", *(path.name for path in locks.glob(f"partition={partition}.[0-9]*.lock"))]
    return any(_is_held(locks / name) for name in names)


def _is_held(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


class PinnedPath:
    """A path that must keep leading to the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = os.stat(path)

    def check(self) -> None:
        """Raises OSError: the path leads to another file, or to none."""
        if not os.path.samestat(os.stat(self._path), self._found):
            raise changed(str(self._path))


def changed(path: str) -> OSError:
    """The error for a file that another program changed."""
    return OSError(errno.ESTALE, "another program removed, replaced or truncated it", path)
