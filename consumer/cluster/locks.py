"""The archive of a collector with its journals and locks."""

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from consumer.archive import LOCKS, Layout, journal_path, lock_path, newest_epoch, newest_journals
from shipper.durable_files import Lock, make_directory
from shipper.errors import Fatal
from shipper.layout import MANIFEST_DIRECTORY, escape, unescape

BOOT = Path("/proc/sys/kernel/random/boot_id")
OTHER_NAMES = 1000


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
        """The current epoch; None: the partition has no journal here."""
        return newest_epoch(self.journals, self.prefix, partition)

    def journal(self, partition: int, epoch: int) -> Path:
        """The journal of an epoch."""
        return journal_path(self.journals, self.prefix, partition, epoch)

    def newest_journals(self) -> dict[int, Path]:
        """The current journal of each partition of this archive."""
        return newest_journals(self.journals, self.prefix)

    def lock(self, partition: int, epoch: int) -> Path:
        """The lock of the one writer of an epoch."""
        return lock_path(self.directory, partition, epoch)

    def has_open_files(self, partition: int, date: str) -> bool:
        """Whether something of a day of a partition is not sealed."""
        return any((self.directory / f"date={date}/partition={partition}").glob("host=*/_[os]*"))

    def what(self, partition: int) -> str:
        """The partition with its archive, as text."""
        return f"partition {partition} of the archive {self.directory}"


@functools.cache
def kernel() -> str:
    """The identity of the running kernel: on one kernel the locks on files show which processes live."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return f"unknown-{os.getpid()}"


def lock_identity(path: Path) -> str:
    """The identity of the lock `path` on this kernel. The file is created if it is missing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return f"{kernel()}/{found.st_dev}:{found.st_ino}"


def try_lock(path: Path, what: str) -> contextlib.ExitStack | None:
    """The lock, released when the stack is closed; None: another process holds it."""
    stack = contextlib.ExitStack()
    try:
        stack.enter_context(Lock(path, what))
    except Fatal:
        return None
    return stack


def holder_of(path: Path) -> int:
    """The id of the process that took the lock last; 0: unknown."""
    try:
        return int(path.read_bytes()[:32].split()[0])
    except (OSError, ValueError, IndexError):
        return 0


@dataclass(frozen=True, slots=True)
class Name:
    """The name of this collector in manifests, unique among the live collectors of an archive."""

    text: str
    lock: str
    held: contextlib.ExitStack


def take_name(directory: Path, wanted: str) -> Name:
    """`wanted`, or `wanted-2` and so on if a live collector has it; locked until `held` is closed.

    Raises:
        Fatal: a thousand collectors have such names.
    """
    for number in range(1, OTHER_NAMES):
        text = wanted if number == 1 else f"{wanted}-{number}"
        path = name_lock(directory, text)
        if (held := try_lock(path, text)) is not None:
            return Name(text, lock_identity(path), held)
    raise Fatal(f"{OTHER_NAMES} collectors named {wanted} write the archive {directory}")


def name_lock(directory: Path, name: str) -> Path:
    """The lock on a collector's name: nothing is written under the name once it is free."""
    make_directory(directory / LOCKS)
    return directory / LOCKS / f"collector={escape(name)}.lock"


@contextlib.contextmanager
def dead_names(directory: Path, mine: str) -> Iterator[list[str]]:
    """Lock the names of dead collectors that sealed segments on open days.

    No collector can take such a name inside the block.
    """
    with contextlib.ExitStack() as stack:
        dead = []
        for name in _names_of_open_days(directory) - {mine}:
            if (lock := try_lock(name_lock(directory, name), name)) is not None:
                stack.enter_context(lock)
                dead.append(name)
        yield sorted(dead)


def _names_of_open_days(directory: Path) -> set[str]:
    lists = directory.glob(f"{MANIFEST_DIRECTORY}/date=*/*.jsonl")
    return {unescape(path.stem) for path in lists if not path.with_suffix(".done").exists()}
