"""Rotations of a file that a link leads to: they are in the directory of the file, not in that of the link.

Kubernetes: /var/log/containers/c.log -> /var/log/pods/web/0.log, which is renamed to 0.log.20261121-101010 where it is.
"""

import os
from collections.abc import Callable, Container

from producer.discovery import scanner
from producer.discovery.patterns import real_path
from producer.discovery.scanner import Listing, Seen
from producer.model import Source
from shipper import events

MAX_TARGETS = 4
"""That a name led to lately: a link to the newest release leads elsewhere every day."""


class LinkTargets:
    """What the watched names lead to, and led to. Owned by `AckTracker`.

    `may_hold`: whether a file may be read as a rotation of a name.
    """

    def __init__(self, may_hold: Callable[[str, Seen], bool] = lambda _name, _seen: True) -> None:
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
        found: dict[scanner.Key, tuple[tuple[int, tuple[int, str]], Seen]] = {}
        now = (file, self._real(file, listing))
        for name in dict.fromkeys((*now, *self._of.get(file, ()))):
            try:
                former = None if name in now else scanner.scan_file(name)
                beside = [*listing.rotations(name), *([former] if former else [])]
            except OSError as error:  # a directory that may be searched, but not listed
                events.file_unreadable(path=name, error=error.strerror or str(error))
                continue
            for seen in [seen for seen in beside if self._may_hold(file, seen)]:
                found.setdefault(seen.key, (scanner.age(seen, name), seen))
        return [seen for _, seen in sorted(found.values())]

    def find(self, file: str, key: scanner.Key, listing: Listing) -> str | None:
        """The path of the file `key` now, which had the name `file`. Raises OSError."""
        names = (file, self._real(file, listing), *self._of.get(file, ()))
        directories = dict.fromkeys(map(os.path.dirname, names))
        return next((path for each in directories if (path := listing.find_inode(each, key)) is not None), None)

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
