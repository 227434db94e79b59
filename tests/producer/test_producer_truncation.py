"""Truncation in all its kinds: the new content is a new generation, and bytes that could not be read are a gap."""

import os
from pathlib import Path

import pytest
from producing import Host, append, copytruncate

from shipper.model import End


def rewrite(path: Path, text: bytes) -> None:
    """Other content in the same inode, with a modification time that differs."""
    before = path.stat().st_mtime_ns
    with path.open("r+b") as stream:
        stream.truncate(0)
        stream.write(text)
    os.utime(path, ns=(before + 1_000_000_000, before + 1_000_000_000))


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("text", [b"", b"new\n", b"rewritten same\n", b"regrown beyond the old offset\n" * 100])
def test_truncated_and_written_again_is_read_from_its_first_byte(text: bytes, stopped: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old content 1\n\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    if stopped:
        host.restart(while_down=lambda: rewrite(path, text))
    else:
        rewrite(path, text)
    host.ship()
    assert host.archive.text(path) == b"old content 1\n\n" + text
    assert list(host.archive.ends.values()) == [End.TRUNCATED]
    assert host.archive.gaps == {}


def test_rewritten_between_the_scan_and_the_read_is_noticed_by_the_read(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old content\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    append(path, b"more\n")
    host.sources.scan()
    rewrite(path, b"new content that is longer than what was there\n")
    host.read()
    host.ship()
    host.ship()
    assert host.archive.text(path) == b"old content\nnew content that is longer than what was there\n"
    assert host.archive.lost(path) == len(b"more\n")


@pytest.mark.parametrize("stopped", [False, True])
def test_unread_bytes_before_a_truncation_are_a_gap_of_the_right_size(stopped: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"read\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    append(path, b"never read\n")
    host.sources.scan()
    host.save()
    if stopped:
        host.restart(while_down=lambda: rewrite(path, b"new\n"))
    else:
        rewrite(path, b"new\n")
    host.ship()
    assert host.archive.text(path) == b"read\nnew\n"
    assert host.archive.lost(path) == len(b"never read\n")


@pytest.mark.parametrize("stopped", [False, True])
def test_a_file_truncated_before_anything_of_it_was_read_is_a_gap_too(stopped: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"never read\n")
    host = Host(tmp_path, "app.log")
    if stopped:
        host.restart(while_down=lambda: rewrite(path, b"new\n"))
    else:
        rewrite(path, b"new\n")
    host.ship()
    assert host.archive.text(path) == b"new\n"
    assert host.archive.lost(path) == len(b"never read\n")


def test_a_program_that_cuts_off_its_own_torn_line_does_not_make_everything_come_again(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"whole\ntorn")
    host = Host(tmp_path, "app.log")
    host.ship()
    os.truncate(path, len(b"whole\n"))
    host.ship()
    append(path, b"next\n")
    host.ship()
    assert host.archive.text(path) == b"whole\nnext\n"
    assert len(host.archive.files) == 1


def test_half_a_line_and_then_a_truncation_are_not_glued(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"whole\nhalf")
    host = Host(tmp_path, "app.log")
    host.ship()
    rewrite(path, b"new\n")
    host.ship()
    assert host.archive.text(path) == b"whole\nnew\n"
    assert host.archive.lost(path) == len(b"half")


def test_two_truncations_before_an_acknowledgement_and_a_kill_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"first\n")
    host = Host(tmp_path, "app.log")
    for text in (b"second\n", b"the third\n"):  # the server is away: nothing is acknowledged
        rewrite(path, text)
        host.sources.scan()
        host.read()
    host.restart()
    host.ship()
    assert host.archive.text(path) == b"the third\n"
    assert host.archive.lost(path) == len(b"first\nsecond\n")


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_copytruncate_ships_every_line_once(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"begin\n")
    host = Host(tmp_path, pattern)
    wanted = b"begin\n"
    for number in range(3):
        text = b"".join(b"round %d line %d\n" % (number, line) for line in range(200))
        append(path, text)
        wanted += text
        host.ship()
        copytruncate(path)
        host.ship()
        host.let_go()
    assert b"".join(data for _, data in host.archive.order) == wanted
    host.restart()
    host.ship()
    assert b"".join(data for _, data in host.archive.order) == wanted
    assert host.archive.gaps == {}


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_copytruncate_while_stopped_ships_only_the_new_content(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n" * 100)
    host = Host(tmp_path, pattern)
    host.ship()

    def rotate_and_write() -> None:
        copytruncate(path)
        append(path, b"new\n")

    host.restart(while_down=rotate_and_write)
    host.ship()
    assert b"".join(data for _, data in host.archive.order) == b"old\n" * 100 + b"new\n"


def test_a_scan_between_copy_and_truncation_does_not_take_the_copy_for_a_file(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    text = b"".join(b"line %d\n" % number for number in range(1000))
    path.write_bytes(text)
    host = Host(tmp_path, "app.log*")
    host.ship()
    copy = tmp_path / "app.log.1"
    copy.write_bytes(text[:3000])
    host.ship()
    copy.write_bytes(text)
    host.ship()
    rewrite(path, b"new\n")
    host.ship()
    assert b"".join(data for _, data in host.archive.order) == text + b"new\n"


def test_a_truncation_at_two_gibibytes_is_an_ordinary_one(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    size = (2 << 30) + 5
    with path.open("wb") as stream:
        stream.seek(size - 1)  # a hole: no disk is used
        stream.write(b"\n")
    host = Host(tmp_path, "app.log", start_at_end=True)
    append(path, b"tail\n")
    host.ship()
    rewrite(path, b"new\n")
    host.ship()
    assert host.archive.text(path) == b"tail\nnew\n"
    assert host.archive.gaps == {}


def test_a_restart_right_after_a_truncation_sends_nothing_again(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    rewrite(path, b"new\n")
    host.ship()
    host.restart()
    host.ship()
    assert host.archive.text(path) == b"old\nnew\n"
    assert host.archive.dropped == 0


def test_a_touched_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    os.utime(path, ns=(1, 1))
    host.ship()
    os.utime(path)
    host.ship()
    assert host.archive.text(path) == b"line\n"
