"""One at a time puts other segments in the place of those that a partition has: merging, or redacting."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from consumer.archive import LOCKS
from shipper.files import make_directory


@contextlib.contextmanager
def rewriting(archive: Path, partition: int) -> Iterator[bool]:
    """Whether nobody else is at it; then nobody will be before the end of the block."""
    make_directory(archive / LOCKS)
    descriptor = os.open(archive / LOCKS / f"rewriting={partition}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
