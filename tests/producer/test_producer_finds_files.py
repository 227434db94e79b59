"""Which files are shipped, under which name, and from where on."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from producing import Host, append, rotate

from producer.discovery.safe_open import Links


def test_start_at_end_holds_for_a_file_that_cannot_be_opened_at_first(tmp_path: Path, denied: "Denied") -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"before\n")
    denied.opening(path, errno.EACCES)
    host = Host(tmp_path, "*.log", start_at_end=True)
    append(path, b"after\n")
    denied.nothing()
    host.ship()
    assert host.archive.text(path) == b"after\n"


def test_names_with_spaces_brackets_and_foreign_bytes_are_exact(tmp_path: Path) -> None:
    names = [b"a b,c.log", b"app[1].log", "größe.log".encode(), b"\xff\xfe.log"]
    for name in names:
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_bytes(name + b"\n")
    host = Host(tmp_path, "*.log", "app[1].log")
    host.ship()
    for name in names:
        assert host.archive.text(os.fsdecode(bytes(tmp_path) + b"/" + name)) == name + b"\n"
    alone = Host(tmp_path, "app[1].log", state=_directory(tmp_path / "state"))
    alone.ship()  # a shell expands a glob to this name
    assert alone.archive.text(tmp_path / "app[1].log") == b"app[1].log\n"


def _directory(path: Path) -> Path:
    path.mkdir()
    return path


class Denied:
    """Makes system calls on chosen files fail, as a full table, a missing right or a bad disk do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real_open, self._real_pread, self._real_stat = Links.open, os.pread, os.stat
        self._open: dict[str, int] = {}
        self._read: dict[tuple[int, int], int] = {}
        opens = self._opens
        monkeypatch.setattr(Links, "open", lambda links, path: opens(links, path))  # noqa: PLW0108 - a method of `Links`
        monkeypatch.setattr(os, "pread", self._preads)

    def opening(self, path: Path, number: int) -> None:
        self._open[str(path)] = number

    def reading(self, path: Path, number: int) -> None:
        found = self._real_stat(path)
        self._read[found.st_dev, found.st_ino] = number

    def nothing(self) -> None:
        self._open, self._read = {}, {}

    def _opens(self, links: Links, path: str) -> int:
        if (number := self._open.get(path)) is not None:
            raise OSError(number, os.strerror(number), path)
        return self._real_open(links, path)

    def _preads(self, descriptor: int, size: int, offset: int) -> bytes:
        found = os.fstat(descriptor)
        if (number := self._read.get((found.st_dev, found.st_ino))) is not None:
            raise OSError(number, os.strerror(number))
        return self._real_pread(descriptor, size, offset)


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch) -> Denied:
    return Denied(monkeypatch)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.EIO, errno.ESTALE])
def test_a_file_that_cannot_be_opened_is_unknown_and_read_later_exactly_once(
    number: int, tmp_path: Path, denied: Denied
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    denied.opening(path, number)
    host = Host(tmp_path, "*.log")
    host.ship()
    assert host.archive.order == []
    assert host.sources.unread == [str(path)]
    denied.nothing()
    host.ship()
    denied.opening(path, number)
    host.restart(while_down=lambda: append(path, b"two\n"))  # now it is known and cannot be opened
    host.ship()
    denied.nothing()
    host.ship()
    assert host.archive.text(path) == b"one\ntwo\n"
    assert host.archive.gaps == {}
    assert len(host.archive.files) == 1


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_read_that_fails_is_tried_again_and_nothing_is_skipped(number: int, tmp_path: Path, denied: Denied) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    denied.reading(path, number)
    host = Host(tmp_path, "*.log")  # the first read of all is of the head
    host.ship()
    denied.nothing()
    host.ship()
    append(path, b"two\n")
    host.sources.scan()
    denied.reading(path, number)
    assert host.read() == []
    denied.nothing()
    host.ship()
    assert host.archive.text(path) == b"one\ntwo\n"
    assert len(host.archive.files) == 1


def test_a_file_that_is_renamed_while_it_cannot_be_opened_is_read_under_its_first_name(
    tmp_path: Path, denied: Denied
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    denied.opening(path, errno.EACCES)
    host = Host(tmp_path, "app.log")
    rotate(path)
    denied.nothing()
    path.write_bytes(b"new\n")
    host.ship()
    assert host.archive.text(path) == b"old\nnew\n"


def _nothing(directory: str, unlisted: Callable[[str, OSError], None]) -> list[os.DirEntry[str]]:
    """What a directory shows to a user who may not list it."""
    unlisted(directory.rstrip("/"), PermissionError(errno.EACCES, "Permission denied"))
    return []


def test_a_directory_without_the_right_to_list_leaves_its_files_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"held")
    host = Host(tmp_path, "*.log")
    host.ship()
    with monkeypatch.context() as patch:
        patch.setattr("producer.discovery.scanner.listed", _nothing)
        host.ship()
        assert host.sources.unreadable == [str(tmp_path)]
        host.let_go()
    host.ship()
    assert host.sources.unreadable == []
    append(path, b" back\n")
    host.ship()
    assert host.archive.text(path) == b"held back\n"
    assert host.archive.ends == {}


def test_a_thousand_idle_files_cost_no_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1000):
        (tmp_path / f"{number}.log").write_bytes(b"line\n")
    host = Host(tmp_path, "*.log")
    host.ship()
    reads = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda *arguments: reads.append(arguments) or real(*arguments))
    for _ in range(3):
        host.sources.scan()
        assert host.sources.idle
        assert host.read() == []
    assert reads == []
    append(tmp_path / "7.log", b"more\n")
    host.ship()
    # One byte for padding, the bytes before the offset at the scan, then block and guard of the line and of the end.
    assert len(reads) <= 6


def test_files_are_read_one_block_in_turn_so_that_a_large_one_starves_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"%063d\n" % 0 * 10_000)
    for name in ("b.log", "c.log"):
        (tmp_path / name).write_bytes(b"%063d\n" % 0 * 100)
    host = Host(tmp_path, "*.log")
    order = [Path(piece.file).name for piece in host.read(60_000)]
    assert order[:6] == ["a.log", "b.log", "c.log"] * 2


def test_reads_that_end_in_the_middle_of_a_turn_continue_with_the_next_file(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes(b"%063d\n" % 0 * 1000)
    host = Host(tmp_path, "*.log")
    order = [Path(piece.file).name for _ in range(6) for piece in host.read(100)]
    assert order == ["a.log", "b.log", "c.log"] * 2
