"""Which files are there: globs and explicit paths -> regular files, each once. Looking is truth."""

import errno
import fnmatch
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".Z")
_ROTATED = re.compile(r"[.\-_]\d")  # app.log.1, app.log-20261120; not app.log.bak, which is a copy


class Seen(NamedTuple):
    """A regular file under a name that is watched."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int

    @property
    def key(self) -> tuple[int, int]:
        """Device and inode."""
        return self.device, self.inode


@dataclass(frozen=True, slots=True)
class Watched:
    """What to ship: absolute paths and globs (`**` crosses directories), less what `exclude` matches."""

    patterns: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, patterns: Sequence[str], exclude: Sequence[str] = ()) -> "Watched":
        """The patterns made absolute, so that a later change of directory changes nothing."""
        return cls(tuple(map(os.path.abspath, patterns)), tuple(map(os.path.abspath, exclude)))


class Look(NamedTuple):
    """What one look at the file system found."""

    files: list[Seen]  #: each device and inode once, under its first name
    unknown: list[tuple[str, OSError]]  #: names that could not be looked at: neither there nor gone


def look(watched: Watched) -> Look:
    """Every regular file that `watched` names now."""
    files: dict[tuple[int, int], Seen] = {}
    unknown: list[tuple[str, OSError]] = []
    for path in _names(watched):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            continue  # gone since it was listed, or an explicit path that does not exist yet
        except OSError as error:
            unknown.append((path, error))
            continue
        if stat.S_ISREG(found.st_mode):
            seen = Seen(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            files.setdefault(seen.key, seen)
    return Look(list(files.values()), unknown)


def _names(watched: Watched) -> Iterator[str]:
    given: dict[str, None] = {}
    for pattern in watched.patterns:
        given.update(dict.fromkeys([pattern] if not glob.has_magic(pattern) else sorted(expand(pattern))))
    for name in given:
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in watched.exclude):
            yield name


def expand(pattern: str) -> Iterable[str]:
    """The names that a glob matches, hidden ones only where the pattern says so."""
    return glob.iglob(pattern, recursive=True)


def directories(watched: Watched) -> set[str]:
    """The existing directories in which new names could match."""
    found: set[str] = set()
    for pattern in watched.patterns:
        parent = os.path.dirname(pattern)
        found.update(expand(parent) if glob.has_magic(parent) else [parent])
    return {name for name in found if os.path.isdir(name)}


def siblings(path: str) -> list[Seen]:
    """Uncompressed files beside `path` that a rotation would name after it, the oldest first."""
    directory, name = os.path.split(path)
    found = []
    for entry in _entries(directory):
        rotated = entry.name.startswith(name) and _ROTATED.match(entry.name, len(name))
        if rotated and not entry.name.endswith(COMPRESSED):
            found.extend(_seen(entry))
    return sorted(found, key=lambda seen: seen.mtime_ns)


def find_inode(directory: str, key: tuple[int, int]) -> str | None:
    """The name in `directory` under which the file `key` lies now."""
    for entry in _entries(directory):
        if entry.inode() == key[1] and any(seen.key == key for seen in _seen(entry)):
            return entry.path
    return None


def _entries(directory: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _seen(entry: "os.DirEntry[str]") -> list[Seen]:
    try:
        found = entry.stat()
    except FileNotFoundError:
        return []
    if not stat.S_ISREG(found.st_mode):
        return []
    return [Seen(entry.path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)]


def is_gone(error: OSError) -> bool:
    """Whether an error says that a file is gone; everything else (EMFILE, EACCES, EIO, ESTALE) means "unknown"."""
    return error.errno == errno.ENOENT
