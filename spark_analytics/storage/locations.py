"""Locations of archive and report: a `pathlib.Path`, or a `RemotePath` on a file system that Spark supports.

Both have the methods of `pathlib.Path`; this module has the operations that `pathlib` lacks or that take several steps.
`tests/spark/test_locations.py` tests the same behaviour for both.
"""

import contextlib
import ctypes
import errno
import fcntl
import io
import json
import os
import re
import shutil
import socket
import time
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, Union
from urllib.parse import quote

from shipper.errors import ConfigError, Unavailable
from spark_analytics.runtime import interrupts

if TYPE_CHECKING:
    from spark_analytics.storage.hadoop_fs import RemotePath

Location: TypeAlias = Union[Path, "RemotePath"]

_REMOTE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+://")
_GLOB = re.compile(r"([{}\[\]*?\\])")
_JAVA_KEEPS = "/_-!.~'()*,;:$&+=@"
"""Characters other than letters and digits that Java does not encode in the path of a URI."""
_AT_FDCWD, _EXCHANGE = -100, 2
_HARMLESS = re.compile(r"[A-Za-z0-9/_\-!.~'()*,;:$&+=@]*")


def is_remote(text: str) -> bool:
    """Whether `text` is a URI that needs Spark, unlike plain paths and `file:` URIs."""
    return _REMOTE.match(text) is not None


def local_path(text: str) -> Path:
    """The absolute local path of a path or a `file:` URI, without `..`.

    Spark removes `..` from the paths that it reports, and these are compared with ours.
    """
    return Path(os.path.abspath(re.sub("^file:(//)?(?=/)", "", text)))


def names(directory: Location) -> list[str]:
    """Names in `directory`, sorted, none if it does not exist.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return sorted(path.name for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def sizes(directory: Location) -> Iterator[tuple[str, int]]:
    """Relative path and bytes of each file below `directory`, none if it does not exist.

    A file that is removed at the same time is left out.

    Raises:
        OSError: a directory cannot be read.
    """
    if not isinstance(directory, Path):
        yield from directory.sizes()
        return
    for parent, _, found in os.walk(directory, onerror=_refuse):
        relative = os.path.relpath(parent, directory)
        for name in found:
            with contextlib.suppress(FileNotFoundError):  # the collector sealed it in the meantime
                size = os.stat(os.path.join(parent, name)).st_size
                yield name if relative == "." else f"{relative}/{name}", size


def heads(directory: Location, paths: Sequence[str], most: int) -> Iterator[BinaryIO]:
    """A stream of at least the first `most` bytes of each of `paths`, to be read before the next one is requested.

    A file that cannot be read gives an empty stream.
    """
    if not isinstance(directory, Path):
        yield from directory.heads(paths, most)
        return
    for path in paths:
        with contextlib.ExitStack() as stack:
            try:
                yield stack.enter_context((directory / path).open("rb"))
            except OSError:
                yield io.BytesIO()


def write(path: Location, content: bytes) -> None:
    """Writes a file durably and makes its directory: a reader sees the old or the new content, never a part of it.

    On a store that needs two steps a reader may see no file in between.

    Raises:
        OSError: it cannot be written; the old file is unchanged.
    """
    if not isinstance(path, Path):
        path.write_atomically(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    with scratch.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def remove(location: Location) -> None:
    """Removes a directory with its content, if it exists."""
    if isinstance(location, Path):
        shutil.rmtree(location, ignore_errors=True)
    else:
        location.remove()


def swap(fresh: Location, target: Location) -> None:
    """Replaces the directory `target` by `fresh`, which may have the old content afterwards.

    This is one step if the file system can exchange two names; for others see `RemotePath.swap`.

    Raises:
        OSError: it failed; it can be repeated after a kill or an error.
    """
    if isinstance(fresh, Path) and isinstance(target, Path):
        _swap(fresh, target)
    elif not isinstance(fresh, Path) and not isinstance(target, Path):
        fresh.swap(target)


def _swap(fresh: Path, target: Path) -> None:
    try:
        _exchange(fresh, target)
    except FileNotFoundError:  # there is no old day
        fresh.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}:
            raise
        if target.exists():  # the file system cannot exchange: two steps
            target.rename(fresh.with_name(f".old-{fresh.name}"))
        fresh.rename(target)


def _exchange(one: Path, other: Path) -> None:
    """Exchanges two names in one step (renameat2, Linux 3.15), which is not in the standard library."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, "no renameat2")
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def log_of(out: Location) -> Path:
    """The log file of Spark: in the report's directory, or a local file if that is on a store."""
    return out / "spark.log" if isinstance(out, Path) else out.store.log


def for_spark(location: Location) -> str:
    """`location` for readers of Spark, escaped because they take each path for a pattern."""
    return _GLOB.sub(r"\\\1", target(location))


def target(location: Location) -> str:
    """`location` for writers of Spark."""
    return f"file:{location}" if isinstance(location, Path) else str(location)


def uri(location: Location, path: str) -> str:
    """The URI of a file below `location` as Spark's metadata has it: encoded as by `java.net.URI`, which keeps letters.

    Lines of a file whose name is encoded differently belong to no segment; the audit then reports it as `differs`.
    """
    scheme, _, rest = target(location).partition(":")
    return f"{scheme}:{_encoded(rest.rstrip('/'))}/{_encoded(path)}"


def _encoded(text: str) -> str:
    if _HARMLESS.fullmatch(text):
        return text
    kept = {char for char in text if not char.isascii() and unicodedata.category(char) not in {"Cc", "Zs", "Zl", "Zp"}}
    return "".join(char if char in kept else quote(char, safe=_JAVA_KEEPS) for char in text)


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


# -- the lock: one report at a time writes to a directory --------------------------------------------------------------

STALE_SECONDS = 6 * 3600.0
"""Age at which a lock file on a store is ignored: a killed run cannot remove it, and the next run is at night."""

_LOCK = ".lock"


def exclusive(out: Location) -> contextlib.AbstractContextManager[None]:
    """Holds the lock of `out`.

    A local directory is locked with flock, which ends with the process. On a store the lock is a file; two runs that
    start at the same moment may both get it if the store cannot create a file exclusively (s3a).

    Raises:
        ConfigError: `out` cannot be made or written.
        Unavailable: another report is writing there.
    """
    return _lock_local(out) if isinstance(out, Path) else _lock_remote(out)


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
def _lock_remote(out: "RemotePath") -> Iterator[None]:
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
