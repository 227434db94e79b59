"""A path on any file system that Spark supports (`s3a://`, `hdfs://`, ...), with the methods of `pathlib.Path` in use.

It uses Hadoop's `FileSystem` in the driver's Java, with the jars and keys that Spark is configured with.
"""

import contextlib
import errno
import functools
import importlib.resources
import io
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from shipper.errors import ConfigError

THREADS = 32
"""Files whose first bytes are read in parallel: a store answers after some 50 ms, however small the file is."""

AT_ONCE = 200
"""Files whose first bytes one call into Java returns: some MiB."""

STREAM_BYTES = 1 << 20
"""Bytes that one call into Java reads of a stream."""

WHOLE_BYTES = 16 << 20
"""Bytes that one call reads of a file that is read completely: a call takes some 40 ms, whatever its size."""


RENAMING = frozenset({"file", "hdfs", "webhdfs", "swebhdfs"})
"""Schemes of stores that rename a directory in one step. Others, as s3a, copy each file: a kill leaves some of them."""

_NUMBERS = {
    "java.io.FileNotFoundException": errno.ENOENT,
    "java.nio.file.NoSuchFileException": errno.ENOENT,
    "org.apache.hadoop.security.AccessControlException": errno.EACCES,
    "java.nio.file.AccessDeniedException": errno.EACCES,
}
"""The number of the error that `pathlib` raises instead of an exception of Java."""


@dataclass(frozen=True, eq=False)
class Store:
    """A file system in the driver's Java."""

    java: Any = field(repr=False)  #: the gateway's view of Java
    files: Any = field(repr=False)  #: an `org.apache.hadoop.fs.FileSystem`
    settings: Any = field(repr=False)  #: a Hadoop `Configuration`
    bulk: Any = field(repr=False)  #: `templates/Bulk.java`
    renames: bool  #: whether it renames a directory in one step
    log: Path  #: log file of Spark

    def path(self, text: str) -> Any:
        """A Hadoop `Path`."""
        return self.java.org.apache.hadoop.fs.Path(text)


@dataclass(frozen=True, slots=True, order=True)
class RemotePath:
    """A file or directory on a store, with methods and errors of `pathlib.Path`."""

    text: str  #: qualified URI, not percent-encoded
    store: Store = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> Self:
        return type(self)(f"{self.text}/{name}", self.store)

    @property
    def name(self) -> str:
        """The last part."""
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The parent directory."""
        return type(self)(self.text.rpartition("/")[0], self.store)

    def with_name(self, name: str) -> Self:
        """The path `name` in the same directory."""
        return self.parent / name

    def exists(self) -> bool:
        """Whether there is a file or directory."""
        with _errors(self):
            return bool(self.store.files.exists(self._java))

    def is_dir(self) -> bool:
        """Whether it is a directory or, on a store without directories, whether there are files below it."""
        with _errors(self):
            status = self.store.files
            return bool(status.exists(self._java) and status.getFileStatus(self._java).isDirectory())

    def iterdir(self) -> Iterator[Self]:
        """The entries of the directory."""
        with _errors(self):
            for status in self.store.files.listStatus(self._java):
                yield self / str(status.getPath().getName())

    def glob(self, pattern: str) -> Iterator[Self]:
        """The paths below it that match the pattern, which may have `*` and `[0-9]`."""
        whole = self.store.path(re.sub(r"[{}\[\]*?\\]", r"\\\g<0>", self.text) + f"/{pattern}")
        with _errors(self):
            for status in self.store.files.globStatus(whole) or ():
                yield type(self)(str(status.getPath().toString()), self.store)

    def age_seconds(self, now: float) -> float:
        """Seconds from the time at which the store wrote the file to `now`, in seconds since 1970."""
        with _errors(self):
            return now - int(self.store.files.getFileStatus(self._java).getModificationTime()) / 1000

    # -- files ---------------------------------------------------------------------------------------------------------

    def open(self, _mode: Literal["rb"] = "rb") -> io.BufferedReader:
        """The file's bytes as a stream."""
        with _errors(self):
            return io.BufferedReader(_Stream(self, self.store.files.open(self._java)), STREAM_BYTES)

    def read_bytes(self) -> bytes:
        """The content of the file."""
        with self.open() as stream:
            return stream.read()

    def write_bytes(self, content: bytes, *, overwrite: bool = True) -> int:
        """Writes the file, or raises `FileExistsError` if it exists and `overwrite` is false."""
        with _errors(self):
            stream = self.store.files.create(self._java, overwrite)
            try:
                stream.write(content)
            finally:
                stream.close()
        return len(content)

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Makes the directory and its parents."""
        del parents, exist_ok  # Hadoop always does both
        with _errors(self):
            self.store.files.mkdirs(self._java)

    def remove(self) -> None:
        """Removes the file, or the directory with its content, if it exists."""
        with _errors(self):
            self.store.files.delete(self._java, True)

    def move_to(self, other: Self) -> None:
        """Renames it to `other`, which must not exist."""
        with _errors(self):
            if not self.store.files.rename(self._java, other._java):
                raise OSError(errno.EIO, "the store did not rename it", str(self))

    def copy_to(self, other: Self) -> None:
        """Copies the file over `other`."""
        files, copy = self.store.files, self.store.java.org.apache.hadoop.fs.FileUtil.copy
        with _errors(self):
            copy(files, self._java, files, other._java, False, True, self.store.settings)

    def write_atomically(self, content: bytes) -> None:
        """Writes the file so that a reader sees the old one, none, or the new one, never a part of one."""
        if not self.store.renames:  # such a store shows only complete files
            self.write_bytes(content)
            return
        scratch = self.with_name(f".{self.name}.new")
        scratch.write_bytes(content)
        self.remove()
        scratch.move_to(self)

    # -- many files ----------------------------------------------------------------------------------------------------

    def swap(self, target: Self) -> None:
        """Replaces the directory `target` by this: with two renames, or file by file where the store cannot rename.

        File by file, those whose names begin with `_` are removed first and copied last: while one exists, so do all
        others. Copied files stay in this directory, so that the replacement can be repeated after a kill.
        """
        if self.store.renames:
            if target.exists():
                target.move_to(self.with_name(f".old-{self.name}"))
            self.move_to(target)
            return
        for path, _ in sorted(target.sizes(), key=lambda file: not _is_marker(file[0])):
            (target / path).remove()
        for path, _ in sorted(self.sizes(), key=lambda file: _is_marker(file[0])):
            (self / path).copy_to(target / path)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Relative path and bytes of each file below, none if the directory does not exist."""
        with contextlib.suppress(FileNotFoundError), _errors(self):
            for line in self.store.bulk.listed(self.store.files, self._java).split("\0")[:-1]:
                size, _, path = line.partition(" ")
                yield path.removeprefix(f"{self.text}/"), int(size)

    def heads(self, paths: Sequence[str], most: int) -> Iterator[io.BytesIO]:
        """The first `most` bytes of each of `paths`, and no bytes of one that cannot be read."""
        for start in range(0, len(paths), AT_ONCE):
            wanted = "".join(f"{self.text}/{path}\0" for path in paths[start : start + AT_ONCE])
            with _errors(self):
                heads = bytes(self.store.bulk.heads(self.store.files, wanted, most, THREADS))
            place = 0
            while place < len(heads):
                (size,) = struct.unpack_from(">i", heads, place)
                yield io.BytesIO(heads[place + 4 : place + 4 + size])
                place += 4 + size

    @property
    def _java(self) -> Any:
        return self.store.path(self.text)


def _is_marker(path: str) -> bool:
    return path.rpartition("/")[2].startswith("_")


class _Stream(io.RawIOBase):
    """A stream of Java."""

    def __init__(self, path: RemotePath, java: Any) -> None:
        self._path, self._stream = path, java

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._next(len(buffer))
        buffer[: len(read)] = read
        return len(read)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._next(WHOLE_BYTES), b""))

    def _next(self, size: int) -> bytes:
        with _errors(self._path):
            return bytes(self._stream.readNBytes(size))

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def remote_path(spark: SparkSession, uri: str, log: Path) -> RemotePath:
    """The path that `uri` names.

    Raises:
        ConfigError: Spark has no such file system, or it denies access.
    """
    java: Any = spark._jvm  # noqa: SLF001 - Spark has no other way to its file systems
    settings = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    try:
        root = java.org.apache.hadoop.fs.Path(uri)
        files = root.getFileSystem(settings)
        root = files.makeQualified(root)
        known = root
        while known.getParent() is not None and not files.exists(known):
            known = known.getParent()
        scheme = str(files.resolvePath(known).toUri().getScheme())  # that of the store to which a link of viewfs leads
    except (Py4JJavaError, PySparkException) as error:
        reason = str(getattr(error, "java_exception", None) or error).strip().splitlines()
        raise ConfigError(
            f"Spark cannot reach {uri}: {reason[0][:300] if reason else error!r}",
            hint="give Spark the file system's jars and keys (spark-defaults.conf, or spark-submit --packages)",
        ) from None
    return RemotePath(
        str(root.toString()).rstrip("/"), Store(java, files, settings, _compiled(java), scheme in RENAMING, log)
    )


@functools.cache
def _compiled(java: Any) -> Any:
    """Compiles `Bulk.java` once: the gateway caches methods by the names of classes."""
    source = importlib.resources.files("spark_analytics").joinpath("templates", "Bulk.java").read_text(encoding="utf-8")
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(source)
    return compiler.getClassLoader().loadClass("Bulk").newInstance()


@contextlib.contextmanager
def _errors(path: RemotePath) -> Iterator[None]:
    """Translates errors of Java into those of `pathlib`."""
    try:
        yield
    except Py4JJavaError as error:
        java = error.java_exception
        kind, reason = str(java.getClass().getName()), str(java.getMessage())
        number = errno.EEXIST if kind.endswith("FileAlreadyExistsException") else _NUMBERS.get(kind, errno.EIO)
        raise OSError(number, f"{kind}: {reason}" if number == errno.EIO else reason, str(path)) from None
