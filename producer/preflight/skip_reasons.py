"""Why a name that a pattern matches is not read: one reason each, in the words of a person."""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from producer.discovery.safe_open import ExcludedName, Links, NotFollowed
from producer.discovery.scanner import Key, Seen, Watched, names
from producer.options import Following
from producer.tailer.copytruncate import originals
from producer.tailer.decompress import is_compressed_file
from producer.tailer.file_reader import FileReader
from producer.tailer.tailer import Tailer

OTHER_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class Skip(NamedTuple):
    """A name that matches and is not read."""

    path: str
    reason: str  #: a stable word, for scripts
    text: str


def skips(following: Following, sources: Tailer) -> Iterator[Skip]:
    """Each name that matches and is not read, once, in the order of the patterns. `sources` have scanned."""
    read: dict[Key, FileReader] = {reader.key: reader for reader in sources.reading}
    matched = dict.fromkeys((name, pattern) for pattern in following.watched.patterns for name in names(pattern))
    told: set[str] = set()
    for name, pattern in matched:
        if name not in told:
            told.add(name)
            refused = sources.resolver.refused.get(name)
            if skip := _why_refused(name, refused) if refused else _why(name, pattern, following, read, sources):
                yield skip


def _why(name: str, pattern: str, following: Following, read: Mapping[Key, FileReader], sources: Tailer) -> Skip | None:
    """The reason of one name; None: it is read, or is not worth a word."""
    excluding = [each for each in following.watched.exclude if Watched((), (each,)).excludes(name)]
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return Skip(name, "dangling", f"a link to {os.readlink(name)}, which is not there") if _is_link(name) else None
    except OSError as error:
        return Skip(name, "unreadable", error.strerror or str(error))
    if stat.S_ISDIR(found.st_mode):
        whole_tree = os.path.basename(pattern) == "**"
        return None if whole_tree else Skip(name, "directory", f"a directory; write '{name}/*' for the files in it")
    if excluding:
        return Skip(name, "excluded", f"excluded by {excluding[0]}")
    if kind := OTHER_KINDS.get(stat.S_IFMT(found.st_mode)):
        named = "; named by its own path it is read as an input" if stat.S_ISFIFO(found.st_mode) else ""
        return Skip(name, "no_file", f"{kind}, no regular file{named}")
    return _why_file(
        Seen(name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns), following.links, read, sources
    )


def _why_refused(name: str, refused: NotFollowed) -> Skip:
    if isinstance(refused, ExcludedName):
        return Skip(name, "excluded", refused.reason)
    return Skip(name, "link_not_followed", f"{refused.reason}; see link_roots")


def _why_file(seen: Seen, links: Links, read: Mapping[Key, FileReader], sources: Tailer) -> Skip | None:
    reader = read.get(seen.key)
    if reader is not None:
        return None if reader.path == seen.path else _second_name(seen.path, reader.path)
    if error := _unreadable(seen.path, links):
        return Skip(seen.path, "unreadable", error)
    if _is_compressed(seen, links):
        return Skip(seen.path, "compressed", f"{_whose(seen.path)}; name it by its own path to ship it as it is")
    if sources.is_copy(seen):
        return Skip(seen.path, "copy", "a copy that copytruncate made: its lines are read from the original")
    return Skip(seen.path, "unknown", "changed during the scan; the next scan decides")


def _whose(path: str) -> str:
    """Of which file a compressed one is a rotation: only what of it is known to be unread is read from there."""
    names = [name for name in sorted(originals(path)) if name != path and os.path.lexists(name)]
    return f"a compressed rotation of {names[0]} without unread lines" if names else "compressed, of no known file"


def _is_compressed(seen: Seen, links: Links) -> bool:
    try:
        return is_compressed_file(seen.path, seen, links)
    except OSError:
        return False


def _second_name(path: str, first: str) -> Skip:
    if _is_link(path):
        return Skip(path, "second_name", f"a link to a file that is read as {first}")
    return Skip(path, "second_name", f"a second name (hard link) of {first}, under which it is read")


def _is_link(path: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


def _unreadable(path: str, links: Links) -> str:
    try:
        os.close(links.open(path))
    except OSError as error:
        return error.strerror or str(error)
    return ""
