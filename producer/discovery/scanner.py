"""Which files exist: globs and explicit paths are expanded to regular files, each once."""

import bisect
import contextlib
import fnmatch
import glob
import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from producer.discovery.patterns import (
    EVERY_DEPTH,
    Unlisted,
    directories,
    expand,
    link_targets,
    listed,
    pass_over,
    path_matcher,
    real_path,
)
from producer.model import Source
from shipper import events

COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".Z")
GONE = (FileNotFoundError, NotADirectoryError)
"""Errors that mean that a file is gone. All others (EMFILE, EACCES, EIO, ESTALE) mean "unknown"."""
TICK_NS = 2_000_000_000  # the coarsest clock of a file system
LONGEST_COUNT = 3  # digits: app.log.12 is a count and grows with age, app.log-20261120 a date and does not
_ROTATED_NAME = re.compile(r"([.\-_]\d[\dTZ:+\-_.]*)?(\.(gz|zst|bz2|xz|lz4|Z))?")
_ROTATED = re.compile(r"[.\-_](\d+)")  # app.log.1, app.log-20261120; not app.log.bak, which is a copy
_DATED = re.compile(r"[.\-_]*\d[\d.\-_:T]{4,}\d(?=\.[^\d/][^/]*\Z)")  # app-20261120.log, app__2026-11-20_00-00-00.log

_ANY_NAME = "\1"
"""Stands for every name in a directory: only a wildcard matches it."""

Key = tuple[int, int]
Version = tuple[int, int, int]


class Seen(NamedTuple):
    """A regular file under a name that is watched."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int

    @property
    def key(self) -> Key:
        """Device and inode."""
        return self.device, self.inode

    @property
    def version(self) -> "Version":
        """What another file with the same inode number does not have."""
        return self.device, self.inode, self.mtime_ns


@dataclass(frozen=True, slots=True)
class Watched:
    """What to ship: absolute paths and globs (`**` crosses directories), less what `exclude` matches."""

    patterns: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    own: Container[str] = frozenset()  #: names that nothing excludes: what inputs without a file append to

    @classmethod
    def of(cls, patterns: Sequence[str], exclude: Sequence[str] = ()) -> "Watched":
        """The patterns made absolute, so that a later change of directory changes nothing.

        An exclude pattern without a slash matches the last part of a path in any directory: `*.gz`.
        """
        excluded = (os.path.abspath(pattern) if "/" in pattern else pattern for pattern in exclude)
        return cls(tuple(map(os.path.abspath, patterns)), tuple(excluded))

    def excludes(self, path: str) -> bool:
        """Whether `path` is not to be shipped, whatever else names it."""
        return path not in self.own and any(
            fnmatch.fnmatchcase(path if "/" in pattern else os.path.basename(path), pattern) for pattern in self.exclude
        )

    def excludes_all_below(self, directory: str) -> bool:
        """Whether an exclude pattern names `directory`, or whatever is in it."""
        anything = os.path.join(directory, _ANY_NAME)
        return any(
            "/" in pattern and (fnmatch.fnmatchcase(directory, pattern) or fnmatch.fnmatchcase(anything, pattern))
            for pattern in self.exclude
        )


def name_filter(watched: Watched) -> Callable[[str], bool]:
    """A function: whether `watched` names an absolute path, and does not exclude it."""
    is_named = path_matcher(watched.patterns)
    return lambda path: is_named(path) and not watched.excludes(path)


class ScanResult(NamedTuple):
    """The result of one scan of the file system."""

    files: list[Seen]  #: each device and inode once, under its first name
    unknown: list[tuple[str, OSError]]  #: names that could not be checked: neither there nor gone
    #: every name that leads to a file, links on the way too; None: it leads nowhere yet
    names: Mapping[str, Key | None]
    directories: set[str]  #: where names could come, go, or change; not all of them exist
    fifos: list[str]  #: FIFOs that a glob found: they are read only where they are named
    others: Mapping[Key, list[str]] = MappingProxyType({})  #: the further names of files
    excluded: Mapping[str, str] = MappingProxyType({})  #: names that lead over links to excluded ones, which are these
    #: directories that a glob searches and this user may not: whether names match there is unknown
    unlisted: Mapping[str, OSError] = MappingProxyType({})


def scan(watched: Watched) -> ScanResult:
    """Every regular file that `watched` names now."""
    files: dict[Key, Seen] = {}
    names: dict[str, Key | None] = {}
    others: dict[Key, list[str]] = {}
    excluded: dict[str, str] = {}
    unlisted: dict[str, OSError] = {}
    found = ScanResult([], [], names, directories(watched.patterns), [], others, excluded, unlisted)
    for path, entry in _not_excluded(watched, excluded, unlisted):
        key = None
        try:
            status = os.stat(path) if entry is None else entry.stat()
        except GONE:
            pass  # gone since it was listed, a link to nothing, or an explicit path that does not exist yet
        except OSError as error:
            found.unknown.append((path, error))
            continue
        else:
            if stat.S_ISFIFO(status.st_mode) and path not in watched.patterns:
                found.fifos.append(path)
            if not stat.S_ISREG(status.st_mode):
                continue
            seen = Seen(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            names[path] = key = seen.key
            if files.setdefault(key, seen) is not seen:
                others.setdefault(key, []).append(path)
        if entry is None or entry.is_symlink():
            for name in link_targets(path):
                names.setdefault(name, key)
                found.directories.add(os.path.dirname(name))
    found.files.extend(files.values())
    return found


def _not_excluded(
    watched: Watched, to_excluded: dict[str, str], unlisted: dict[str, OSError]
) -> "Iterator[tuple[str, os.DirEntry[str] | None]]":
    """The names that are watched. `to_excluded` gets those that lead over links to excluded ones."""
    real_directories: dict[str, str] = {}
    for path, entry in _names(watched, unlisted).items():
        if watched.exclude:
            if watched.excludes(path):
                continue
            is_link = entry is None or entry.is_symlink()
            if name := _excluded_target(path, watched, real_directories, is_link=is_link):
                to_excluded[path] = name
                continue
        yield path, entry


def _excluded_target(path: str, watched: Watched, real_directories: dict[str, str], *, is_link: bool) -> str:
    """The excluded name to which links lead from `path`. Empty: there is none."""
    if path in watched.own:
        return ""
    if is_link:
        names = [*map(os.path.normpath, link_targets(path)), real_path(path)]
    else:
        directory, name = os.path.split(path)
        if directory not in real_directories:
            real_directories[directory] = real_path(directory)
        names = [os.path.join(real_directories[directory], name)]
    return next((name for name in names if name != path and watched.excludes(name)), "")


def excluded_twin(path: str, key: Key, watched: Watched, listing: "Listing") -> str:
    """An excluded name of the file `key`, which is also at `path`. Empty: there is none. Raises OSError.

    A name that a rotation gave to the file does not count: a rotated file is excluded so that it is not read twice.
    """
    plain = [os.path.dirname(name) for name in watched.exclude if "/" in name and not glob.has_magic(name)]
    for directory in {os.path.dirname(path), os.path.dirname(real_path(path)), *plain} | directories(watched.patterns):
        for name in listing.names_of(directory, key):
            if watched.excludes(name) and not is_rotated_name(name, path):
                return name
    return ""


def is_rotated_name(path: str, original: str = "") -> bool:
    """Whether a rotation makes `path` of `original`, or of any name: with a count or a date, compressed or not."""
    name = os.path.basename(path)
    starts = [len(os.path.basename(original))] if original else range(1, len(name))
    is_other = bool(original) and not name.startswith(os.path.basename(original))
    return not is_other and any(start < len(name) and _ROTATED_NAME.fullmatch(name, start) for start in starts)


def _names(watched: Watched, unlisted: dict[str, OSError]) -> "dict[str, os.DirEntry[str] | None]":
    """The names that exist or may exist, in their order, with their directory entries if their directory was listed."""
    given: dict[str, os.DirEntry[str] | None] = {}

    def note(directory: str, error: OSError) -> None:
        if not watched.excludes_all_below(directory):
            unlisted[directory] = error

    for pattern in watched.patterns:
        is_glob = glob.has_magic(pattern)
        if not is_glob or os.path.lexists(pattern):  # a shell may have expanded a glob to such a name: app[1].log
            given.setdefault(pattern)
        for path, entry in sorted(matches(pattern, note).items()) if is_glob else ():
            given.setdefault(path, entry)
    return given


def matches(pattern: str, unlisted: Unlisted) -> "dict[str, os.DirEntry[str] | None]":
    """The names that a glob finds, hidden ones only if the pattern begins with a dot."""
    parent, last = os.path.split(pattern)
    if last == EVERY_DEPTH:
        parent, last = pattern, "*"
    if not glob.has_magic(last):
        return dict.fromkeys(os.path.join(directory, last) for directory in expand(parent, unlisted))
    is_match = re.compile(fnmatch.translate(last)).match
    hidden = last.startswith(".")
    return {
        prefix + entry.name: entry
        for prefix in (os.path.join(directory, "") for directory in expand(parent, unlisted))
        for entry in listed(prefix, unlisted)
        if (hidden or not entry.name.startswith(".")) and is_match(entry.name)
    }


class Listing:
    """The directories of one scan, each listed once: thousands of files may be searched in one of them."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entries] = {}

    def siblings(self, path: str) -> list[Seen]:
        """Uncompressed rotations in the directory of `path`, by their names, the oldest first. Raises OSError."""
        return [seen for seen in self.rotations(path) if not seen.path.endswith(COMPRESSED)]

    def rotations(self, path: str) -> list[Seen]:
        """Rotations in the directory of `path`, by their names, also compressed ones, the oldest first."""
        directory, name = os.path.split(path)
        names, stem = self._listed(directory).names, os.path.splitext(name)[0]
        found = []
        for other in itertools.islice(names, bisect.bisect_left(names, stem), None):
            if not other.startswith(stem):
                break
            if is_sibling(other, name) and (seen := scan_file(os.path.join(directory, other))) is not None:
                found.append(seen)
        return sorted(found, key=lambda seen: age(seen, path))

    def find_inode(self, directory: str, key: Key) -> str | None:
        """The path of the file `key` in `directory` now. Raises OSError."""
        found = self.names_of(directory, key)
        if not found and self._entries[directory].changed_at != _changed_at(directory):
            del self._entries[directory]
            found = self.names_of(directory, key)
        return found[0] if found else None

    def find_renamed(self, names: Iterable[str], key: Key) -> str | None:
        """The path of the file `key` now, in the first directory of `names` that has it. Raises OSError."""
        directories = dict.fromkeys(map(os.path.dirname, names))
        return next((path for each in directories if (path := self.find_inode(each, key)) is not None), None)

    def names_of(self, directory: str, key: Key) -> list[str]:
        """The names in `directory` under which the file `key` is now. Raises OSError."""
        paths = (os.path.join(directory, name) for name in self._listed(directory).by_inode.get(key[1], ()))
        return [path for path in paths if (seen := scan_file(path)) is not None and seen.key == key]

    def _listed(self, directory: str) -> "_Entries":
        if directory not in self._entries:
            before, changed_at = time.time_ns(), _changed_at(directory)
            by_inode: dict[int, list[str]] = {}
            with contextlib.suppress(*GONE), os.scandir(directory) as entries:
                for entry in entries:
                    by_inode.setdefault(entry.inode(), []).append(entry.name)
            names = sorted(itertools.chain.from_iterable(by_inode.values()))
            is_certain = changed_at < before - TICK_NS
            self._entries[directory] = _Entries(names, by_inode, changed_at if is_certain else 0)
        return self._entries[directory]


class _Entries(NamedTuple):
    names: list[str]  # sorted
    by_inode: dict[int, list[str]]
    changed_at: int  # of the directory, ns; 0: so shortly before it was listed that the next change may not show


def _changed_at(directory: str) -> int:
    """When names in it changed last, ns. -1: it is not there. Raises OSError."""
    try:
        return os.stat(directory).st_mtime_ns
    except GONE:
        return -1


def age(seen: Seen, original: str) -> tuple[int, int, str]:
    """Orders the rotations of `original`, the oldest first. By their counts if one tick of the clock wrote them."""
    suffix = seen.path[len(original) :]
    found = _ROTATED.match(suffix)
    is_count = found is not None and len(found[1]) <= LONGEST_COUNT
    return seen.mtime_ns, -int(found[1]) if found and is_count else 0, suffix


def is_sibling(path: str, original: str) -> bool:
    """Whether a rotation of `original` would give the name `path`."""
    if path.startswith(original):
        return _ROTATED.match(path, len(original)) is not None
    return path.startswith(os.path.splitext(original)[0]) and original in _without_date(path)


def originals(path: str) -> list[str]:
    """The names that `path` may have had before a rotation gave it a number or a date."""
    directory, name = os.path.split(path)
    rotated = [os.path.join(directory, name[: found.start()]) for found in _ROTATED.finditer(name, 1)]
    return [*rotated, *_without_date(path)]


def _without_date(path: str) -> list[str]:
    """The names that `path` may have had before a rotation put a date in front of its extension."""
    start, suffix = path.rfind("/") + 1, os.path.splitext(path)[1]
    plain = path.removesuffix(suffix) if suffix in COMPRESSED else path
    found = _DATED.search(plain, start + 1)
    return [plain[: found.start()] + plain[found.end() :]] if found else []


def is_at(path: str, key: tuple[int, int]) -> bool:
    """Whether the file `key` is at `path`. True also where that is unknown."""
    try:
        found = os.stat(path)
    except OSError as error:
        return not isinstance(error, GONE)
    return (found.st_dev, found.st_ino) == key


def size_at(path: str, key: Key) -> int:
    """The size of the file `key`, if it is at `path`. 0: that is unknown."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    return found.st_size if (found.st_dev, found.st_ino) == key else 0


def scan_file(path: str) -> Seen | None:
    """The regular file at `path`. Raises OSError: unknown."""
    try:
        found = os.stat(path)
    except GONE:
        return None
    regular = stat.S_ISREG(found.st_mode)
    return Seen(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) if regular else None


def names(pattern: str) -> list[str]:
    """The names that a pattern matches, excluded or not. One without a wildcard is itself, where it exists."""
    found = sorted(matches(pattern, pass_over)) if glob.has_magic(pattern) else []
    itself = [pattern] if os.path.lexists(pattern) else []
    return [name.rstrip("/") for name in dict.fromkeys([*itself, *found])]


# -- rotations of a file that a link leads to -------------------------------------------------------------------------
#
# They are in the directory of the file, not in that of the link.
# Kubernetes: /var/log/containers/c.log -> /var/log/pods/web/0.log, which is renamed to 0.log.20261121-101010 there.

MAX_TARGETS = 4
"""That a name led to lately: a link to the newest release leads elsewhere every day."""


class LinkTargets:
    """What the watched names lead to, and led to. Owned by `AckTracker`.

    `may_hold`: whether a file may be read as a rotation of a name.
    """

    def __init__(self, may_hold: Callable[[str, Seen], bool]) -> None:
        self._may_hold = may_hold
        self._of: dict[str, list[str]] = {}  # by the name in the archive, the newest last
        self._listing: Listing | None = None
        self._real_directories: dict[str, str] = {}  # while that listing is the newest

    def learn(self, source: Source) -> None:
        """Remember the path of a source's file."""
        if source.real and source.real not in (known := self._of.setdefault(source.file, [])):
            known.append(source.real)
            del known[:-MAX_TARGETS]

    def keep(self, files: Container[str]) -> None:
        """Forget all names but these."""
        self._of = {file: reals for file, reals in self._of.items() if file in files}

    def rotations(self, file: str, listing: Listing) -> list[Seen]:
        """The rotations of `file` that may be read, in its directory and in that of its target, oldest first.

        Also the file at a former target: the link may have changed before a scan found its last bytes.
        """
        found: dict[Key, tuple[tuple[int, int, str], Seen]] = {}
        now = (file, self._real(file, listing))
        for name in dict.fromkeys((*now, *self._of.get(file, ()))):
            try:
                former = None if name in now else scan_file(name)
                beside = [*listing.rotations(name), *([former] if former else [])]
            except OSError as error:  # a directory that may be searched, but not listed
                events.file_unreadable(path=name, error=error.strerror or str(error))
                continue
            for seen in [seen for seen in beside if self._may_hold(file, seen)]:
                found.setdefault(seen.key, (age(seen, name), seen))
        return [seen for _, seen in sorted(found.values())]

    def find(self, file: str, key: Key, listing: Listing) -> str | None:
        """The path of the file `key` now, which had the name `file`. Raises OSError."""
        return listing.find_renamed((file, self._real(file, listing), *self._of.get(file, ())), key)

    def _real(self, file: str, listing: Listing) -> str:
        """What a name leads to now."""
        if self._listing is not listing:
            self._listing, self._real_directories = listing, {}
        if os.path.islink(file):
            return real_path(file)
        directory, name = os.path.split(file)
        if directory not in self._real_directories:
            self._real_directories[directory] = real_path(directory)
        return os.path.join(self._real_directories[directory], name)


def resolved_path(file: str, path: str) -> str:
    """The value of `Source.real` for a file at `path` whose name in the archive is `file`."""
    real = real_path(path)
    if path == file:
        return "" if real == file else real
    return "" if os.path.dirname(path) == os.path.dirname(file) else real
