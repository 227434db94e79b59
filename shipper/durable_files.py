"""Durable changes to the file system: replace a file as a whole, make a rename last, hold a lock; and who may read."""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from shipper.errors import Fatal

MAX_LOCK_BYTES = 200
"""Of a lock file are read: the number of a process, and an address."""
MAX_COMMAND = 160
"""Characters of a command line that a message shows."""
_ADDRESS = re.compile(r"[A-Za-z0-9.:\[\]_-]+:\d{1,5}")
_READERS_UMASK = {"group": 0o027, "all": 0o022}
"""What the umask has at least, by who may read what is created."""


@contextlib.contextmanager
def readable_by(readers: str) -> Iterator[None]:
    """Within the block, what this process creates is readable by its `group`, or by `all`, if the umask allows it.

    Files are 0640 and directories 0750 for `group`, whatever the process inherited; those that exist keep their modes.
    """
    inherited = os.umask(0o077)
    os.umask(inherited | _READERS_UMASK[readers])
    try:
        yield
    finally:
        os.umask(inherited)


_NO_SYNC_OF_NAMES = frozenset({errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.EOPNOTSUPP})
"""File systems of networks that have no sync of a directory answer so; their names are durable otherwise, or never."""


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable: a rename or a new file is lost at power failure without it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC_OF_NAMES:
            raise
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


_C = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EMLINK, errno.EINVAL})
_NO_SUCH_RENAME = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


def name_if_free(temporary: Path, target: Path) -> bool:
    """Give a file a second name, or its only one where the file system has no hard links; False: `target` is taken.

    `temporary` may be there or not afterwards. Raises OSError.
    """
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _rename_if_free(temporary, target)
    return True


def _rename_if_free(temporary: Path, target: Path) -> bool:
    """Where no rename without replacing exists either, another process could take the name at the same moment."""
    names = os.fsencode(temporary), os.fsencode(target)
    if hasattr(_C, "renameat2"):
        if _C.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE) == 0:
            return True
        if (number := ctypes.get_errno()) == errno.EEXIST:
            return False
        if number not in _NO_SUCH_RENAME:
            raise OSError(number, os.strerror(number), str(target))
    if target.exists():
        return False
    temporary.rename(target)
    return True


def make_directory(path: Path, *, mode: int = 0o755) -> None:
    """Create `path` with its parents and make each new name durable."""
    if path.is_dir():
        return
    make_directory(path.parent, mode=mode)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=mode)
        sync_directory(path.parent)


def private_directory(path: Path) -> None:
    """Create `path` with its parents, mode 0700, for files that this process trusts.

    Raises OSError, as `check_private` does.
    """
    make_directory(path, mode=0o700)
    check_private(path)


def check_private(path: Path) -> None:
    """Check that no other user can put a file or link in the place of a file in the directory `path`.

    The group may write to it: administrators grant that. Raises PermissionError: it belongs to another user, each user
    may write to it, or a link of another user leads to it; and OSError.
    """
    trusted = {0, os.geteuid()}
    whole = path.absolute()
    for step in (*reversed(whole.parents), whole):
        found = step.lstat()
        if stat.S_ISLNK(found.st_mode) and found.st_uid not in trusted:
            raise PermissionError(errno.EPERM, f"{step} is a link of user {found.st_uid}", str(path))
    found = whole.stat()
    if found.st_uid not in trusted:
        raise PermissionError(errno.EPERM, f"it belongs to user {found.st_uid}", str(path))
    if found.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "every user may write to it", str(path))


class LockHolder(NamedTuple):
    """The process that holds a lock, as far as this process sees it. For messages only: a lock file can be edited."""

    pid: int  #: 0: unknown
    command: str = ""  #: its command line; empty: the process is not visible here, as in another container
    listen: str = ""  #: host:port of its end points; empty: none, or unknown

    @property
    def named(self) -> str:
        """For a message: `process 4711 (fshipper produce /var/log/syslog)`."""
        if not self.pid:
            return "process unknown"
        return f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"


class LockHeld(Fatal):
    """Another process holds a lock: `holder`."""

    def __init__(self, message: str, *, hint: str, holder: LockHolder) -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


@dataclass(eq=False)
class Lock:
    """An exclusive lock on `path` that the kernel gives back when the process ends, however it ends.

    `listen`: address of the status page of this process, for the message of a process that is refused the lock.
    """

    path: Path
    what: str
    listen: str = field(default="", kw_only=True)
    _descriptor: int | None = field(default=None, init=False)

    def __enter__(self) -> "Lock":
        """Take the lock. Raises LockHeld: another process holds it; the message names that process."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(os.pread(descriptor, MAX_LOCK_BYTES, 0))
            os.close(descriptor)
            see = f"see what it is: ps -fp {holder.pid}" if holder.pid else f"find it: fuser -v {self.path}"
            raise LockHeld(
                f"{self.what} is in use by {holder.named} (lock {self.path})",
                hint=f"{see}; wait until it ends, or stop it",
                holder=holder,
            ) from None
        about = f"{os.getpid()}\n" + (f"{self.listen}\n" if self.listen else "")
        with contextlib.suppress(OSError):  # on a full disk other processes see no holder, and the lock is held
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, about.encode(), 0)
        self._descriptor = descriptor
        return self

    def __exit__(self, *_: object) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _holder(content: bytes) -> LockHolder:
    """Who wrote a lock file. Nothing in it is trusted: what is no number and no address is left out."""
    pid, _, listen = content.decode("ascii", "replace").partition("\n")
    if not (pid.strip().isascii() and pid.strip().isdigit()):
        return LockHolder(0)
    address = listen.strip()
    return LockHolder(int(pid), command_of(int(pid)), address if _ADDRESS.fullmatch(address) else "")


def command_of(pid: int) -> str:
    """The command line of a process, printable and at most `MAX_COMMAND`; empty: it is not visible here."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return ""
    if len(words) > 1 and os.path.basename(words[0]).startswith("python"):
        words = words[1:]
    text = " ".join([os.path.basename(words[0]), *words[1:]])
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= MAX_COMMAND else text[: MAX_COMMAND - 1] + "…"
