"""Where the archive and the report lie: a directory of this machine, or one on a file system that Spark reaches.

Both answer to the names that `pathlib.Path` has; what it has no name for, or takes more than one step for, is here.
`tests/spark/test_locations.py` holds each sentence for both.
"""

import contextlib
import ctypes
import errno
import io
import os
import re
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, Union
from urllib.parse import quote

if TYPE_CHECKING:
    from spark_analytics.storage.hadoop_fs import RemotePath

Location: TypeAlias = Union[Path, "RemotePath"]

_REMOTE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+://")
_GLOB = re.compile(r"([{}\[\]*?\\])")
_JAVA_KEEPS = "/_-!.~'()*,;:$&+=@"
"""What Java leaves as it is in the path of a URI, beside letters and digits."""
_AT_FDCWD, _EXCHANGE = -100, 2
_HARMLESS = re.compile(r"[A-Za-z0-9/_\-!.~'()*,;:$&+=@]*")


def is_remote(text: str) -> bool:
    """Whether `text` names a place that only Spark reaches; a plain path and `file:` are of this machine."""
    return _REMOTE.match(text) is not None


def here(text: str) -> Path:
    """The directory of this machine that a path or a `file:` URI names, whole and without `..`.

    Spark takes `..` out of the paths that it reports, and they are joined with ours.
    """
    return Path(os.path.abspath(re.sub("^file:(//)?(?=/)", "", text)))


def names(directory: Location) -> list[str]:
    """Names in `directory`, sorted; none where there is no such directory.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return sorted(path.name for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def sizes(directory: Location) -> Iterator[tuple[str, int]]:
    """Path from there and bytes of each file below `directory`; none where there is no such directory.

    A file that goes away meanwhile is left out.

    Raises:
        OSError: a directory cannot be read.
    """
    if not isinstance(directory, Path):
        yield from directory.sizes()
        return
    for parent, _, found in os.walk(directory, onerror=_refuse):
        relative = os.path.relpath(parent, directory)
        for name in found:
            size = _size(os.path.join(parent, name))
            if size is not None:
                yield name if relative == "." else f"{relative}/{name}", size


def beginnings(directory: Location, paths: Sequence[str], most: int) -> Iterator[BinaryIO]:
    """A stream of at least the first `most` bytes of each of `paths`, to be read before the next one is asked for.

    One that cannot be read is an empty stream.
    """
    if not isinstance(directory, Path):
        yield from directory.beginnings(paths, most)
        return
    for path in paths:
        with contextlib.ExitStack() as stack:
            try:
                yield stack.enter_context((directory / path).open("rb"))
            except OSError:
                yield io.BytesIO()


def opened(path: Location) -> BinaryIO:
    """The bytes of a file as a stream.

    Raises:
        OSError: it cannot be opened.
    """
    return path.open("rb") if isinstance(path, Path) else path.open()


def write(path: Location, content: bytes) -> None:
    """Writes a file for good, and its directory if need be; a reader sees the old one or the new one, never a part.

    Where a store can only do it in two steps, a reader may see none in between.

    Raises:
        OSError: it cannot be written; the old one is whole.
    """
    if not isinstance(path, Path):
        from spark_analytics.storage import hadoop_fs  # noqa: PLC0415 - needs pyspark

        hadoop_fs.put(path, content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    with scratch.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def remove(location: Location) -> None:
    """Removes a directory with all that is in it, or nothing where there is none."""
    if isinstance(location, Path):
        shutil.rmtree(location, ignore_errors=True)
    else:
        location.remove()


def swap(fresh: Location, target: Location) -> None:
    """The directory `fresh` takes the place of `target`, whose old content may take that of `fresh`.

    One step where the file system can exchange two names; `remote.swap` says what others do.

    Raises:
        OSError: it cannot be done; after a kill or an error it may be done again.
    """
    if isinstance(fresh, Path) and isinstance(target, Path):
        _swap(fresh, target)
    elif not isinstance(fresh, Path) and not isinstance(target, Path):
        from spark_analytics.storage import hadoop_fs  # noqa: PLC0415 - needs pyspark

        hadoop_fs.swap(fresh, target)


def _swap(fresh: Path, target: Path) -> None:
    try:
        _exchange(fresh, target)
    except FileNotFoundError:  # there is no old day
        fresh.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}:
            raise
        if target.exists():  # a file system that cannot exchange: two steps
            target.rename(fresh.with_name(f".old-{fresh.name}"))
        fresh.rename(target)


def _exchange(one: Path, other: Path) -> None:
    """Renames both in one step (Linux 3.15); the standard library has no name for it."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, "no renameat2")
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def log_of(out: Location) -> Path:
    """Where Spark's own words go: beside the report, or, where Java cannot write there, into a file of this machine."""
    return out / "spark.log" if isinstance(out, Path) else out.store.log


def for_spark(location: Location) -> str:
    """`location` as Spark's readers take it, which see a pattern in every path."""
    return _GLOB.sub(r"\\\1", target(location))


def target(location: Location) -> str:
    """`location` as Spark's writers take it."""
    return f"file:{location}" if isinstance(location, Path) else str(location)


def uri(location: Location, path: str) -> str:
    """A file below `location` as Spark's metadata names it: encoded as `java.net.URI` does, which leaves letters.

    A name that is encoded otherwise yields lines of no segment: the audit then shows it as differing.
    """
    scheme, _, rest = target(location).partition(":")
    return f"{scheme}:{_encoded(rest)}/{_encoded(path)}"


def _encoded(text: str) -> str:
    return text if _HARMLESS.fullmatch(text) else "".join(map(_encoded_character, text))


def _encoded_character(char: str) -> str:
    if char.isascii():
        return quote(char, safe=_JAVA_KEEPS)
    return quote(char) if unicodedata.category(char) in {"Cc", "Zs", "Zl", "Zp"} else char


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _size(path: str) -> int | None:
    """Bytes in the file, or None when the collector sealed it meanwhile."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None
