"""Locks between the collectors of one archive: on the partitions, and on the names of the collectors."""

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from consumer.archive.directory import LOCKS, try_lock
from shipper.durable_files import make_directory
from shipper.errors import Fatal
from shipper.layout import MANIFEST_DIRECTORY, escape, unescape

BOOT = Path("/proc/sys/kernel/random/boot_id")
OTHER_NAMES = 1000


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


def holder_of(path: Path) -> int:
    """The id of the process that took the lock last. 0 means that it is unknown."""
    try:
        return int(path.read_bytes()[:32].split()[0])
    except (OSError, ValueError, IndexError):
        return 0


class Name(NamedTuple):
    """The name of this collector in manifests, unique among the live collectors of an archive."""

    text: str
    lock: str
    held: contextlib.ExitStack


def take_name(directory: Path, wanted: str) -> Name:
    """`wanted`, or `wanted-2` and so on if a live collector has it. It is locked until `held` is closed.

    Raises Fatal: a thousand collectors have such names.
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
        manifests = directory.glob(f"{MANIFEST_DIRECTORY}/date=*/*.jsonl")
        for name in {unescape(path.stem) for path in manifests if not path.with_suffix(".done").exists()} - {mine}:
            if (lock := try_lock(name_lock(directory, name), name)) is not None:
                stack.enter_context(lock)
                dead.append(name)
        yield sorted(dead)
