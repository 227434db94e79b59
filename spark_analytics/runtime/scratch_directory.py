"""Temporary directories; each run removes those that killed runs left."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from spark_analytics.runtime import interrupts

PREFIX = "fshipper-report-"

UNLOCKED_SECONDS = 3600.0
"""Age at which a directory without a lock is removed: an older version made it, or a run was killed as it made it."""

_LOCK = ".lock"


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """An empty directory of this user, removed at the end; before, those of killed runs are removed.

    The lock in it is held by this process only, not by its Java, so it is free as soon as the process has ended.
    """
    _sweep(Path(tempfile.gettempdir()))
    made = Path(tempfile.mkdtemp(prefix=PREFIX))
    with interrupts.removed_at_end(made), contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, made, ignore_errors=True)
        handle = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        stack.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield made


@contextlib.contextmanager
def redirected_tempfile(place: Path) -> Iterator[None]:
    """Makes `tempfile` use `place` within the block: pyspark creates a directory while Java starts."""
    before, tempfile.tempdir = tempfile.tempdir, str(place)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _sweep(place: Path) -> None:
    for left in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            about = left.lstat()
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and _is_abandoned(left, about.st_mtime):
                shutil.rmtree(left, ignore_errors=True)


def _is_abandoned(left: Path, modified: float) -> bool:
    try:
        handle = os.open(left / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - modified > UNLOCKED_SECONDS
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True
