"""An archive of a harness that `fshipper audit` finds its way in, and its findings.

archive = Audited(tmp_path)
archive.send(Log(LINES), 0, len(LINES))
await archive.drain(Until.SEALED)
archive.audit()                               # exit code and JSON
"""

import asyncio
import contextlib
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import zstandard
from collecting import PartitionHarness

from consumer.archive.directory import open_archive
from shipper.main import run

LINES = b"".join(b"%d a line of a log\n" % number for number in range(200))


class Result(NamedTuple):
    """What an audit ended with."""

    code: int
    found: dict[str, Any]  #: its JSON; {}: it complained
    errors: str

    @property
    def kinds(self) -> list[str]:
        """Kinds of what is wrong."""
        return [each["kind"] for each in self.found["findings"] if each["weight"] != "note"]

    @property
    def notes(self) -> list[str]:
        return [each["text"] for each in self.found["findings"] if each["weight"] == "note"]

    @property
    def texts(self) -> str:
        return "\n".join(f"{each['path']}: {each['text']}" for each in self.found["findings"])


class Audited(PartitionHarness):
    """A harness whose journal is in the archive, as a collector's does."""

    def __init__(self, directory: Path, **task: Any) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(directory, **task)
        open_archive(self.archive)
        (self.archive / "_journal").mkdir(exist_ok=True)
        self.journal_path = self.archive / "_journal/logs.p0.sqlite"

    def audit(self, *arguments: str) -> Result:
        """`fshipper audit --json` of the archive; it must not have changed a byte of it."""
        before = tree(self.archive)
        result = audit(str(self.archive), *arguments)
        assert tree(self.archive) == before
        return result

    def only(self, pattern: str) -> Path:
        """The one file of the archive below its days that fits."""
        (found,) = self.archive.glob(f"date=*/*/*/{pattern}")
        return found

    @property
    def opened(self) -> Path:
        return self.only("_open-*")

    @property
    def segment(self) -> Path:
        return self.only("[!_.]*")

    @property
    def manifest(self) -> Path:
        (found,) = self.archive.glob("_manifest/date=*/*.jsonl")
        return found


def audit(*arguments: str) -> Result:
    return in_process("audit", *arguments)


def in_process(verb: str, *arguments: str) -> Result:
    """A command with `--json` in this process."""
    code, out, errors = command(verb, "--json", *arguments)
    return Result(code, json.loads(out) if out else {}, errors)


def command(*arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a command in this process, which has an event loop of its own."""
    out, errors, outer = io.StringIO(), io.StringIO(), asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = run([str(argument) for argument in arguments])
    finally:
        asyncio._set_running_loop(outer)
    return code, out.getvalue(), errors.getvalue()


def tree(directory: Path) -> dict[str, tuple[int, int, int]]:
    """Everything below `directory` with size, inode and time of change."""
    found = {}
    for top, names, files in os.walk(directory):
        for name in (*names, *files):
            status = os.lstat(Path(top, name))
            found[str(Path(top, name))] = (status.st_size, status.st_ino, status.st_mtime_ns)
    return found


def packed(text: bytes, suffix: str) -> bytes:
    """`text` as a segment of the codec of `suffix` has it."""
    if suffix == ".zst":
        return zstandard.ZstdCompressor(level=3).compress(text)
    return gzip.compress(text, 6, mtime=0) if suffix == ".gz" else text


def doubled(text: bytes) -> bytes:
    """`text` with one of its lines twice."""
    lines = text.splitlines(keepends=True)
    middle = len(lines) // 2
    return b"".join([*lines[: middle + 1], *lines[middle:]])


def swapped(text: bytes) -> bytes:
    """As long as `text`, one line twice and another of its length gone."""
    lines = text.splitlines(keepends=True)
    lines[-1] = lines[-2]
    assert len(lines[-1]) == len(text.splitlines(keepends=True)[-1])
    return b"".join(lines)
