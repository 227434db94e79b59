"""Durable changes to the file system: replace a file as a whole, make a rename last, hold a lock."""

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

from shipper.errors import Fatal


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable: a rename or a new file is lost at power failure without it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Put `content` at `path` so that a reader sees the old or the new file, never a part, also after power failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def make_directory(path: Path, *, mode: int = 0o755) -> None:
    """Create `path` with its parents and make each new name durable."""
    if path.is_dir():
        return
    make_directory(path.parent, mode=mode)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=mode)
        sync_directory(path.parent)


class Lock:
    """An exclusive lock on `path` that the kernel gives back when the process ends, however it ends."""

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what
        self._descriptor: int | None = None

    def __enter__(self) -> "Lock":
        """Take the lock.

        Raises:
            Fatal: another process holds it; the message names that process.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise Fatal(
                f"{self._what} is in use by process {holder or 'unknown'} (lock {self._path})",
                hint="stop that process first, or give this one its own state directory",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
