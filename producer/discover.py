"""Which files are there: globs and explicit paths -> regular files, each once. Looking is truth."""

import fnmatch
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".Z")
GONE = (FileNotFoundError, NotADirectoryError)
LONGEST_COUNT = 3  # digits: app.log.12 is a count and grows with age, app.log-20261120 a date and does not
_ROTATED = re.compile(r"[.\-_](\d+)")  # app.log.1, app.log-20261120; not app.log.bak, which is a copy


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
        """The patterns made absolute, so that a later change of directory changes nothing.

        An exclude without a slash is about the last part of a path, wherever it lies: `*.gz`.
        """
        excluded = (os.path.abspath(pattern) if "/" in pattern else pattern for pattern in exclude)
        return cls(tuple(map(os.path.abspath, patterns)), tuple(excluded))

    def excludes(self, path: str) -> bool:
        """Whether `path` is not to be shipped, whatever else names it."""
        return any(
            fnmatch.fnmatchcase(path if "/" in pattern else os.path.basename(path), pattern) for pattern in self.exclude
        )


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
        except GONE:
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
        given[pattern] = None  # a shell may have expanded a glob to a name that looks like one: app[1].log
        if glob.has_magic(pattern):
            given.update(dict.fromkeys(sorted(expand(pattern))))
    for name in given:
        if not watched.excludes(name):
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
    return sorted(found, key=lambda seen: (seen.mtime_ns, _count_down(seen.path[len(path) :])))


def is_sibling(path: str, original: str) -> bool:
    """Whether a rotation of `original` would give the name `path`."""
    return path.startswith(original) and _ROTATED.match(path, len(original)) is not None


def originals(path: str) -> list[str]:
    """The names that `path` may have had before a rotation gave it a number or a date."""
    directory, name = os.path.split(path)
    return [os.path.join(directory, name[: found.start()]) for found in _ROTATED.finditer(name, 1)]


def lies_at(path: str, key: tuple[int, int]) -> bool:
    """Whether the file `key` lies at `path`; True also where that is unknown."""
    try:
        found = os.stat(path)
    except GONE:
        return False
    except OSError:
        return True
    return (found.st_dev, found.st_ino) == key


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
    except GONE:
        return []


def _count_down(suffix: str) -> tuple[int, str]:
    """Orders the suffixes of one rotation by age, for files that were written within one tick of the clock."""
    found = _ROTATED.match(suffix)
    digits = found[1] if found else ""
    return (-int(digits), suffix) if 0 < len(digits) <= LONGEST_COUNT else (0, suffix)


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
    return isinstance(error, GONE)
