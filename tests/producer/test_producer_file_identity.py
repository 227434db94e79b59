"""Late lines, old tombstones, other device numbers, bad disks, links: each file is what it was."""

import errno
import os
from pathlib import Path

import pytest
from packing import lines, settled
from producing import Host, append, copytruncate, rotate

from producer.checkpoint.store import Checkpoints
from shipper.model import End


def test_late_lines_to_a_renamed_file_that_was_closed_are_shipped_within_the_hour(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    with path.open("ab", buffering=0) as writer:
        rotate(path)
        path.write_bytes(b"new\n")
        host.let_go()
        assert list(host.archive.ends.values()) == [End.ROTATED]
        writer.write(b"late\n")
        host.ship()
        rotate(tmp_path / "app.log.1")
        host.let_go()
        writer.write(b"later\n")
        host.restart()
        host.let_go()
    old, new = host.archive.sources_of(path)
    assert host.archive.bytes[old] == b"old\nlate\nlater\n"
    assert host.archive.bytes[new] == b"new\n"
    assert host.open_files == 1


def test_what_still_is_under_a_glob_is_remembered_for_as_long_as_it_does(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(b"a"))
    host = Host(tmp_path, "app.log*")
    host.wall = 1_800_000_000.0
    host.restart()
    host.ship()
    copytruncate(path)
    append(path, b"new\n")
    settled(host)
    host.wall += 31 * 86400.0
    host.now += 31 * 86400.0
    host.ship()
    host.restart()
    settled(host)
    assert b"".join(data for _, data in host.archive.order) == lines(b"a") + b"new\n"
    (tmp_path / "app.log.1").unlink()
    host.ship()
    host.now += 7200.0
    host.ship()
    assert [source.ended_at for source in host.checkpoints.load()] == [0.0]


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_another_device_number_is_the_same_file_if_its_content_agrees(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    host = Host(tmp_path, pattern)
    host.ship()
    rotate(path)
    path.write_bytes(b"begin\n")
    host.ship()

    def reboot() -> None:
        append(path, b"more\n")
        checkpoints = Checkpoints(host.state)
        checkpoints._database.execute("UPDATE sources SET device = device + 1")
        checkpoints._database.commit()
        checkpoints.close()

    host.restart(while_down=reboot)
    settled(host)
    assert host.archive.text(path) == b"old\nbegin\nmore\n"
    assert len(host.archive.files) == 2
    assert host.archive.gaps == {}
    assert {source.device for source in host.checkpoints.load() if source.inode} == {path.stat().st_dev}


def test_another_device_number_and_other_content_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"begin\n")
    host = Host(tmp_path, "app.log")
    host.ship()

    def mount_another() -> None:
        inode = path.stat().st_ino
        path.write_bytes(b"other\n")
        assert path.stat().st_ino == inode
        checkpoints = Checkpoints(host.state)
        checkpoints._database.execute("UPDATE sources SET device = device + 1")
        checkpoints._database.commit()
        checkpoints.close()

    host.restart(while_down=mount_another)
    settled(host)
    assert host.archive.text(path) == b"begin\nother\n"
    assert len(host.archive.files) == 2


def test_a_generation_that_can_never_be_read_holds_its_successor_for_a_minute_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []
    monkeypatch.setattr("shipper.events.file_passed_over", lambda *, path, **_: passed.append(path))
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    inode = path.stat().st_ino
    host = Host(tmp_path, "app.log")
    host.ship()
    append(path, b"on a bad block\n")
    rotate(path)
    path.write_bytes(b"new\n")
    real = os.pread

    def failing(descriptor: int, size: int, offset: int) -> bytes:
        if os.fstat(descriptor).st_ino == inode:
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, size, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", failing)
        for _ in range(11):
            host.now += host.following.rotate_wait
            host.ship()
        assert host.archive.text(path) == b"old\n"
        for _ in range(3):
            host.now += host.following.rotate_wait
            host.ship()
        assert host.archive.text(path) == b"old\nnew\n"
        assert passed == [str(path)]
    settled(host)
    assert host.archive.text(path) == b"old\nnew\non a bad block\n"


def test_a_link_that_is_swapped_to_another_file_leaves_no_line_unread(tmp_path: Path) -> None:
    link, first, second = tmp_path / "app.log", tmp_path / "app-1", tmp_path / "app-2"
    first.write_bytes(b"first\n")
    link.symlink_to(first)
    host = Host(tmp_path, "app.log")
    host.ship()
    append(first, b"last of first\n")
    second.write_bytes(b"second\n")
    link.unlink()
    link.symlink_to(second)
    settled(host)
    assert host.archive.text(link) == b"first\nlast of first\nsecond\n"
    assert host.archive.gaps == {}


def test_a_rotation_by_hard_link_is_no_copy_and_shipped_once(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(b"a"))
    host = Host(tmp_path, "app.log*")
    host.ship()
    os.link(path, tmp_path / "app.log.1")
    host.ship()
    path.unlink()
    path.write_bytes(b"new\n")
    settled(host)
    assert b"".join(data for _, data in host.archive.order) == lines(b"a") + b"new\n"
