"""The unread bytes of a file may be in another one: a copy, or a compressed rotation. They are read once, in order."""

import gzip
import os
from pathlib import Path

import pytest
from packing import PACKERS, half_read, lines, pack, rotate_packed, settled
from producing import Host, append, copytruncate

from shipper.model import End


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_half_read_file_that_was_compressed_while_stopped_is_read_to_its_end_first(
    pattern: str, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"), pattern)

    def compress() -> None:
        append(path, b"written after the last look\n")
        rotate_packed(path, suffix)
        path.write_bytes(b"new\n")

    host.restart(while_down=compress)
    settled(host)
    assert host.archive.text(path) == lines(b"old") + b"written after the last look\nnew\n"
    assert set(host.archive.files.values()) == {str(path)}
    assert list(host.archive.ends.values()) == [End.ROTATED]
    assert host.archive.gaps == {}
    host.restart()
    settled(host)
    assert host.archive.dropped == 0
    assert len(host.archive.files) == 2


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@pytest.mark.parametrize("stopped", [False, True])
def test_what_copytruncate_left_unread_is_read_from_the_copy_before_the_new_content(
    stopped: bool, pattern: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"), pattern)

    def copy() -> None:
        append(path, b"written after the last look\n")
        copytruncate(path)
        append(path, b"new\n")

    if stopped:
        host.restart(while_down=copy)
    else:
        copy()
    settled(host)
    assert host.archive.text(path) == lines(b"old") + b"written after the last look\nnew\n"
    assert set(host.archive.files.values()) == {str(path)}
    assert list(host.archive.ends.values()) == [End.TRUNCATED]
    assert host.archive.gaps == {}
    host.restart()
    settled(host)
    assert host.archive.text(path).count(b"new\n") == 1
    assert len(host.archive.files) == 2


@pytest.mark.parametrize("stopped", [False, True])
def test_the_copy_may_be_compressed_immediately(stopped: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"), "app.log*")

    def copy() -> None:
        copytruncate(path)
        pack(tmp_path / "app.log.1")
        append(path, b"new\n")

    if stopped:
        host.restart(while_down=copy)
    else:
        copy()
    settled(host)
    assert host.archive.text(path) == lines(b"old") + b"new\n"
    assert host.archive.gaps == {}
    assert set(host.archive.files.values()) == {str(path)}


def test_a_copy_of_what_was_never_read_is_read_from_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(b"old"))
    host = Host(tmp_path, "app.log*")
    copytruncate(path)
    append(path, b"new\n")
    settled(host)
    assert host.archive.text(path) == lines(b"old") + b"new\n"
    assert host.archive.gaps == {}
    assert set(host.archive.files.values()) == {str(path)}


def test_lines_that_no_scan_saw_before_the_truncation_are_in_the_copy(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"shipped\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    append(path, b"never seen\n")
    copytruncate(path)
    append(path, b"new\n")
    settled(host)
    assert host.archive.text(path) == b"shipped\nnever seen\nnew\n"


def test_two_truncations_between_two_scans_are_read_from_their_copies_in_order(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"first\n")
    host = Host(tmp_path, "app.log*")
    host.ship()
    append(path, b"rest of first\n")
    copytruncate(path)
    append(path, b"second\n")
    copytruncate(path)
    append(path, b"third\n")
    settled(host)
    assert host.archive.text(path) == b"first\nrest of first\nsecond\nthird\n"
    assert set(host.archive.files.values()) == {str(path)}


def test_the_new_content_waits_until_the_rest_is_read_though_that_takes_many_reads(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"))
    copytruncate(path)
    append(path, b"new\n")
    host.sources.scan()
    while host.read(1500):
        host.deliver()
        host.acknowledge()
    assert host.archive.text(path) == lines(b"old") + b"new\n"


def test_an_unterminated_last_line_of_the_copy_is_shipped_before_the_new_content(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"whole\nhalf")
    host = Host(tmp_path, "app.log")
    host.ship()
    copytruncate(path)
    append(path, b"new\n")
    host.ship()
    host.ship()
    old, new = host.archive.sources_of(path)
    assert host.archive.bytes[old] == b"whole\nhalf"
    assert host.archive.bytes[new] == b"new\n"
    assert host.archive.order[-1] == (str(path), b"new\n")


@pytest.mark.parametrize("packed", [False, True])
def test_after_a_kill_within_the_rest_of_a_copied_file_reading_continues_there(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"))
    copytruncate(path)
    if packed:
        pack(tmp_path / "app.log.1")
    append(path, b"new\n")
    for _ in range(30):
        host.sources.scan()
        host.read(1)
        host.deliver()
        host.acknowledge()
        host.save()
        host.restart()
    settled(host)
    assert host.archive.text(path) == lines(b"old") + b"new\n"
    assert host.archive.gaps == {}
    assert len(host.archive.files) == 2


def test_once_reads_the_rest_and_the_new_content_in_one_go(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"))
    host.kill()
    rotate_packed(path)
    path.write_bytes(b"new\n")
    once = Host(tmp_path, "app.log", once=True, block=1024)
    once.archive = host.archive
    while not once.sources.idle:
        once.read()
        once.deliver()
        once.acknowledge()
    assert once.sources.unread == []
    assert once.archive.text(path) == lines(b"old") + b"new\n"


def test_bytes_that_were_seen_and_are_not_in_the_rest_are_the_gap(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    text = lines(b"old")
    host = half_read(tmp_path, text)
    copytruncate(path)
    os.truncate(tmp_path / "app.log.1", len(text) - 110)
    append(path, b"new\n")
    settled(host)
    assert host.archive.text(path) == text[:-110] + b"new\n"
    assert host.archive.lost(path) == 110


def test_a_rest_that_vanishes_while_it_is_read_is_found_again_where_it_was_compressed(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"))
    copytruncate(path)
    append(path, b"new\n")
    host.sources.scan()
    host.read(1500)
    copy = tmp_path / "app.log.1"
    content = copy.read_bytes()
    copy.write_bytes(b"the next rotation copies over it\n")
    (tmp_path / "app.log.2.gz").write_bytes(gzip.compress(content))
    settled(host)
    assert host.archive.text(path) == lines(b"old") + b"new\n"
    assert host.archive.gaps == {}


def test_a_file_that_was_compressed_while_its_descriptor_rested_is_read_on(tmp_path: Path) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    for path in (first, second):
        path.write_bytes(lines(path.name.encode()))
    host = Host(tmp_path, "*.log", open_files=1, block=1024)
    host.read(3000)
    for path in (first, second):
        rotate_packed(path)
        path.write_bytes(b"new\n")
    settled(host)
    for path in (first, second):
        assert host.archive.text(path) == lines(path.name.encode()) + b"new\n"
    assert host.archive.gaps == {}


def test_a_file_that_is_compressed_in_place_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "catalina.log"
    path.write_bytes(lines(b"old"))
    host = Host(tmp_path, "*.log", block=1024)
    host.read(3000)
    host.deliver()
    host.acknowledge()
    host.save()
    host.restart(while_down=lambda: pack(path))
    settled(host)
    assert host.archive.text(path) == lines(b"old")
    assert host.archive.gaps == {}
