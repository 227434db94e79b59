"""Compressed generations that came and went between scans, copies, and files that only resemble one."""

import gzip
import os
from pathlib import Path

import pytest
from packing import BANNER, PACKERS, half_read, lines, pack, rotate_packed, settled
from producing import Host, append, rotate


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@pytest.mark.parametrize("keeps_time", [True, False])
def test_compressed_generations_that_were_missed_are_read_oldest_first(
    keeps_time: bool, pattern: str, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"a"), pattern)

    def rotate_often() -> None:
        for name in (b"b", b"c", b"d"):
            for number in (3, 2, 1):
                older = tmp_path / f"app.log.{number}{suffix}"
                if older.exists():
                    older.rename(tmp_path / f"app.log.{number + 1}{suffix}")
            path.rename(tmp_path / "app.log.1")
            pack(tmp_path / "app.log.1", suffix, keeps_time=keeps_time)
            path.write_bytes(lines(name))

    host.restart(while_down=rotate_often)
    settled(host)
    wanted = b"".join(map(lines, (b"a", b"b", b"c", b"d")))
    assert host.archive.text(path) == wanted
    assert set(host.archive.files.values()) == {str(path)}
    host.restart()
    settled(host)
    assert host.archive.text(path) == wanted
    assert len(host.archive.files) == 4
    assert host.archive.dropped == 0


@pytest.mark.parametrize("younger", ["app.log.2.gz", "app.log.2"])
def test_a_rest_is_found_in_a_younger_compressed_file_although_another_generation_has_its_inode(
    younger: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"a"))

    def rotate_twice() -> None:
        (tmp_path / "app.log.3.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.write_bytes(gzip.compress(lines(b"b")) if younger.endswith(".gz") else lines(b"b"))
        path.rename(tmp_path / younger)
        path.write_bytes(lines(b"c"))
        at = path.stat().st_mtime_ns
        for name, seconds in (("app.log.3.gz", 5), (younger, 6), ("app.log", 7)):
            os.utime(tmp_path / name, ns=(at, at + seconds * 10**9))

    host.restart(while_down=rotate_twice)
    settled(host)
    assert host.archive.text(path) == b"".join(map(lines, (b"a", b"b", b"c")))
    assert host.archive.dropped == 0


def test_what_came_into_an_empty_file_and_is_compressed_is_read_though_the_inode_number_is_the_same(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.log"
    path.touch()
    host = Host(tmp_path, "app.log")
    host.ship()

    def fill_and_rotate() -> None:
        path.write_bytes(b"old\n")
        (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.write_bytes(b"new\n")

    host.restart(while_down=fill_and_rotate)
    settled(host)
    assert host.archive.text(path) == b"old\nnew\n"


def test_a_dated_compressed_generation_is_read_and_one_of_another_log_is_not(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"a\n")
    host = Host(tmp_path, "app.log")
    host.ship()

    def rotate_twice() -> None:
        path.unlink()
        (tmp_path / "app.log-20261120.gz").write_bytes(gzip.compress(b"b\n"))
        (tmp_path / "app-2026.log.gz").write_bytes(gzip.compress(b"another log\n"))
        (tmp_path / "app.log.bak.gz").write_bytes(gzip.compress(b"somebody's copy\n"))
        path.write_bytes(b"c\n")

    host.restart(while_down=rotate_twice)
    settled(host)
    assert host.archive.text(path) == b"a\nb\nc\n"


def test_a_kill_in_the_middle_of_a_missed_compressed_generation_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"a\n")
    host = Host(tmp_path, "app.log", block=1024)
    host.ship()

    def rotate_twice() -> None:
        for name in (b"b", b"c"):
            rotate_packed(path)
            path.write_bytes(lines(name))

    host.restart(while_down=rotate_twice)
    for _ in range(30):
        host.read(1)
        host.deliver()
        host.acknowledge()
        host.save()
        host.restart()
    settled(host)
    assert host.archive.text(path) == b"a\n" + lines(b"b") + lines(b"c")
    assert len(host.archive.files) == 3


def test_compressed_rotations_from_before_the_first_scan_are_not_shipped(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"older\n")
    rotate_packed(path)
    path.write_bytes(b"now\n")
    host = Host(tmp_path, "app.log*")
    host.ship()
    rotate_packed(path)
    path.write_bytes(b"next\n")
    settled(host)
    assert host.archive.text(path) == b"now\nnext\n"
    assert set(host.archive.files.values()) == {str(path)}


def test_files_with_equal_heads_are_distinguished_by_the_bytes_before_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, BANNER + lines(b"a"))

    def rotate_thrice() -> None:
        for name in (b"b", b"c"):
            rotate_packed(path)
            path.write_bytes(BANNER + lines(name))

    host.restart(while_down=rotate_thrice)
    settled(host)
    wanted = b"".join(BANNER + lines(name) for name in (b"a", b"b", b"c"))
    assert host.archive.text(path) == wanted
    assert host.archive.gaps == {}
    assert len(host.archive.files) == 3


def test_two_identical_generations_are_both_shipped(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"started\n")
    host = Host(tmp_path, "app.log*")
    host.ship()
    os.link(path, tmp_path / "held")  # so that the inode number does not come back

    def rotate_twice() -> None:
        for _ in range(2):
            rotate_packed(path)
            path.write_bytes(b"started\n")

    host.restart(while_down=rotate_twice)
    settled(host)
    assert host.archive.text(path) == b"started\n" * 3


def test_a_file_that_only_begins_like_the_original_is_no_copy_of_it(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(BANNER + lines(b"a"))
    host = Host(tmp_path, "app.log*")
    host.ship()
    other = tmp_path / "app.log.1"
    other.write_bytes(BANNER + lines(b"b", 20))  # shorter than what was shipped of app.log
    host.ship()
    append(other, b"more\n")
    settled(host)
    assert host.archive.text(other) == BANNER + lines(b"b", 20) + b"more\n"
    assert host.archive.text(path) == BANNER + lines(b"a")


def test_a_copy_that_is_shorter_than_what_was_shipped_before_the_truncation_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(b"a"))
    host = Host(tmp_path, "app.log*", block=1024)
    host.ship()
    copy = path.read_bytes()
    append(path, b"written between copy and truncation, and shipped\n")
    host.ship()
    (tmp_path / "app.log.1").write_bytes(copy)
    os.truncate(path, 0)
    append(path, b"new\n")
    settled(host)
    wanted = lines(b"a") + b"written between copy and truncation, and shipped\nnew\n"
    assert b"".join(data for _, data in host.archive.order) == wanted
    host.restart()
    settled(host)
    assert b"".join(data for _, data in host.archive.order) == wanted


def test_a_glob_ships_no_compressed_file_and_logs_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("shipper.events.compressed_left_out", lambda *, path: said.append(path))
    state = tmp_path / "state"
    state.mkdir()
    logs = tmp_path / "log"
    logs.mkdir()
    for suffix, packer in PACKERS.items():
        (logs / f"dump{suffix}").write_bytes(packer(b"content\n"))
    (logs / "app.log").write_bytes(b"line\n")
    (logs / "app.log.2.gz").write_bytes(gzip.compress(b"older\n"))
    (logs / "plain.gz").write_bytes(b"not compressed, whatever its name says\n")
    (logs / "growing.gz").touch()
    host = Host(logs, "*", state=state)
    host.ship()
    (logs / "growing.gz").write_bytes(gzip.compress(b"content\n"))
    host.ship()
    host.ship()
    assert {Path(name).name for name in host.archive.files.values()} == {"app.log", "plain.gz"}
    assert sorted(said) == sorted([str(logs / f"dump{suffix}") for suffix in PACKERS] + [str(logs / "growing.gz")])


def test_a_compressed_file_that_is_named_by_its_path_is_shipped_as_it_is(tmp_path: Path) -> None:
    path, packed = tmp_path / "app.log", tmp_path / "app.log.1.gz"
    path.write_bytes(b"line\n")
    host = Host(tmp_path, "app.log*", "app.log.1.gz")
    host.ship()
    rotate_packed(path)
    path.write_bytes(b"next\n")
    append(packed, b"\n")
    settled(host)
    assert host.archive.text(path) == b"line\nnext\n"
    assert host.archive.text(packed) == packed.read_bytes()


def test_a_generation_that_came_and_was_renamed_between_two_scans_is_read_before_its_name_comes_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"a\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    rotate(path)
    path.write_bytes(b"b\n")
    rotate(path)
    settled(host)
    assert host.archive.text(path) == b"a\nb\n"
