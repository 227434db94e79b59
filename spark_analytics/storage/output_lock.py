"""One report at a time writes under a directory."""

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
"""After which a claim on a store counts no more: a killed run cannot take it back, and the next one is at night."""

_CLAIM = ".lock"


@contextlib.contextmanager
def claimed(out: Location) -> Iterator[None]:
    """The right to write under `out`, which one report at a time has.

    Here a lock of the system holds it, which ends with the process. On a store a file does, and two runs that begin
    within the same moment may both have it where the store cannot make a file only if there is none (s3a).

    Raises:
        ConfigError: `out` cannot be made or written.
        Unavailable: another report is writing there.
    """
    with _claimed_here(out) if isinstance(out, Path) else _claimed_there(out):
        yield


@contextlib.contextmanager
def _claimed_here(out: Path) -> Iterator[None]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out / _CLAIM, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _refused(out, error) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Unavailable(f"another report is writing to {out}", hint="wait for it, or choose another --out") from None
    finally:
        os.close(handle)


@contextlib.contextmanager
def _claimed_there(out: RemotePath) -> Iterator[None]:
    claim = out / _CLAIM
    try:
        out.mkdir()
        if claim.exists() and claim.age_seconds(time.time()) > STALE_SECONDS:
            claim.remove()
        claim.write_bytes(json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode(), overwrite=False)
    except FileExistsError:
        raise Unavailable(
            f"another report is writing to {out}", hint=f"wait for it; if it was killed, remove {claim}"
        ) from None
    except ConnectionError:  # nobody is there to write it
        raise
    except OSError as error:
        raise _refused(out, error) from None
    try:
        with interrupts.called_at_end(claim.remove):
            yield
    finally:
        with contextlib.suppress(OSError):
            claim.remove()


def _refused(out: Location, error: OSError) -> ConfigError:
    return ConfigError(f"cannot write to {out}: {error.strerror}", hint="name another directory with --out")
