"""`--path`: your own files, replayed line by line as growing files of the three hosts."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.demo.hosts import BYTES_A_SECOND, HOSTS, LogFeed
from deploy.demo.workspace import EXIT_CONFIG, DemoError

COMPRESSED = {".gz", ".zst", ".bz2", ".xz", ".lz4", ".Z"}
MAX_FILES = 60
"""The demo stays one that a person can follow, far below the 1,024 files that a process may usually open."""
MAX_LINE_BYTES = 1 << 20
"""Maximum bytes of one read; a longer line is read in parts."""


class ReplayFile:
    """The first bytes of a file, at line ends if it has any."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._left = limit
        self._offset = 0

    def burst(self, size: int) -> bytes:
        """About `size` bytes more, to a line's end; none when the limit or the file's end is reached."""
        if self._left <= 0:
            return b""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(min(size, self._left))
            if data and not data.endswith(b"\n"):
                data += file.readline(MAX_LINE_BYTES)
        self._offset += len(data)
        self._left = self._left - len(data) if data else 0
        return data


def replayed(paths: Sequence[Path], seconds: float) -> tuple[list[LogFeed], list[str]]:
    """Feeds that replay `paths` in `seconds`, and what a reader should know of them.

    Fewer files than hosts: each host gets all of them; else they are dealt out. Of files that are too much for the
    flow's pace only the beginning is replayed.

    Raises:
        DemoError: a path is missing or cannot be read, or there is nothing in them.
    """
    files = [file for path in paths for file in _files(path)]
    sizes = {file: size for file in dict.fromkeys(files) if (size := _size(file))}
    if not sizes:
        raise DemoError("--path names no file with content", hint="name log files or a directory", code=EXIT_CONFIG)
    chosen = list(sizes)[:MAX_FILES]
    notes = [f"{len(sizes)} files: the first {MAX_FILES} are replayed"] if len(sizes) > MAX_FILES else []
    dealt = list(_dealt(chosen))
    share = int(BYTES_A_SECOND * seconds / len(dealt))
    if cut := [file for file in chosen if sizes[file] > share]:
        notes.append(f"{len(cut)} of {len(chosen)} files are long: the first {share / 1e6:.1f} MB of each are replayed")
    return [_feed(host, number, file, min(share, sizes[file])) for number, (host, file) in enumerate(dealt)], notes


def _dealt(files: list[Path]) -> Iterator[tuple[str, Path]]:
    hosts = list(HOSTS)
    if len(files) < len(hosts):
        yield from ((host, file) for host in hosts for file in files)
    else:
        yield from ((hosts[number % len(hosts)], file) for number, file in enumerate(files))


def _feed(host: str, number: int, file: Path, limit: int) -> LogFeed:
    """A directory of its own for each: `app.log` and `app.log.1` of yours must not pass for one that rotates."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", file.name)[-80:]
    return LogFeed(host, f"{number:02d}/{name}", lambda: ReplayFile(file, limit), limit)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    try:
        found = sorted(path.rglob("*"))
    except OSError as error:
        raise _unreadable(path, error) from None
    return [
        file for file in found if file.is_file() and file.suffix not in COMPRESSED and not file.name.startswith(".")
    ]


def _size(file: Path) -> int:
    try:
        with file.open("rb") as stream:
            stream.read(1)
            return file.stat().st_size
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(path: Path, error: OSError) -> DemoError:
    return DemoError(
        f"--path {path} cannot be read: {error.strerror or error}", hint="name files you may read", code=EXIT_CONFIG
    )
