"""A lock of the output directory: one report at a time writes to it."""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from shipper.errors import ConfigError, Unavailable
from spark_analytics.runtime import interrupts
from spark_analytics.storage.hadoop_fs import RemotePath
from spark_analytics.storage.locations import Location

STALE_SECONDS = 6 * 3600.0
"""Age at which a lock file on a store is ignored: a killed run cannot remove it, and the next run is at night."""

_LOCK = ".lock"


@contextlib.contextmanager
def exclusive(out: Location) -> Iterator[None]:
    """Holds the lock of `out`.

    A local directory is locked with flock, which ends with the process. On a store the lock is a file; two runs that
    start at the same moment may both get it if the store cannot create a file exclusively (s3a).

    Raises:
        ConfigError: `out` cannot be made or written.
        Unavailable: another report is writing there.
    """
    with _lock_local(out) if isinstance(out, Path) else _lock_remote(out):
        yield


@contextlib.contextmanager
def _lock_local(out: Path) -> Iterator[None]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _not_writable(out, error) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Unavailable(f"another report is writing to {out}", hint="wait for it, or choose another --out") from None
    finally:
        os.close(handle)


@contextlib.contextmanager
def _lock_remote(out: RemotePath) -> Iterator[None]:
    lock_file = out / _LOCK
    try:
        out.mkdir()
        if lock_file.exists() and lock_file.age_seconds(time.time()) > STALE_SECONDS:
            lock_file.remove()
        lock_file.write_bytes(
            json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode(), overwrite=False
        )
    except FileExistsError:
        raise Unavailable(
            f"another report is writing to {out}", hint=f"wait for it; if it was killed, remove {lock_file}"
        ) from None
    except ConnectionError:  # Java has ended
        raise
    except OSError as error:
        raise _not_writable(out, error) from None
    try:
        with interrupts.called_at_end(lock_file.remove):
            yield
    finally:
        with contextlib.suppress(OSError):
            lock_file.remove()


def _not_writable(out: Location, error: OSError) -> ConfigError:
    return ConfigError(f"cannot write to {out}: {error.strerror}", hint="name another directory with --out")
