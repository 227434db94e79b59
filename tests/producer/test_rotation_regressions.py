"""Rotations, copies and links that were wrong once, and need more than the steps of `test_rotation_scenarios.py`."""

import errno
import gzip
import os
import shutil
from pathlib import Path

import pytest
from producing import Host, append, copytruncate, rotate
from staging import PACKERS, half_read, lines, pod, replace, rotate_packed, settled

from producer.checkpoint.store import Checkpoints
from producer.discovery import scanner
from producer.discovery.safe_open import Links

SHIPPED = lines(b"line", 1000)


def made(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_successor_begins_only_when_all_of_the_older_generation_is_acknowledged(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old 1\nold 2\n")
    host = Host(tmp_path, pattern)
    rotate(path)
    path.write_bytes(b"new\n")
    host.sources.scan()
    assert b"".join(piece.data for piece in host.read_all()) == b"old 1\nold 2\n"
    assert host.sources.idle  # nothing is to be done until the server speaks
    host.acknowledge()
    assert not host.sources.idle
    assert b"".join(piece.data for piece in host.read_all()) == b"new\n"


def test_generations_of_one_tick_of_the_clock_are_distinguished_by_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"0\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    for number in range(1, 13):
        rotate(path, keep=20)
        path.write_bytes(b"%d\n" % number)
    stamp = path.stat().st_mtime_ns + 10_000_000
    for other in tmp_path.glob("app.log*"):
        os.utime(other, ns=(stamp, stamp))
    host.ship()
    assert host.archive.text(path) == b"".join(b"%d\n" % number for number in range(13))


def test_a_rotation_between_the_scan_and_the_open_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"0\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    rotate(path)
    path.write_bytes(b"1\n")
    real, rotations = Links.open, []

    def rotating(links: Links, name: str) -> int:
        if name == str(path) and not rotations:
            rotations.append(name)
            rotate(path)
            path.write_bytes(b"2\n")
        return real(links, name)

    monkeypatch.setattr(Links, "open", rotating)
    host.ship()
    host.ship()
    host.ship()
    assert rotations
    assert host.archive.text(path) == b"0\n1\n2\n"


def test_an_inode_number_that_comes_back_with_another_file_is_another_source(tmp_path: Path) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    for text in (b"", b"same line\n"):
        first.write_bytes(text)
        host = Host(tmp_path, "*.log", state=made(tmp_path / f"state-{len(text)}"))
        host.ship()
        key = (first.stat().st_dev, first.stat().st_ino)
        first.unlink()
        host.let_go()
        second.write_bytes(b"same line\nanother\n")
        source = next(iter(host.sources.acks.known.values()))
        assert source.ended_at
        assert host.sources._table.ended_at(key) is None  # whatever file gets the number is new
        host.ship()
        assert host.archive.text(second) == b"same line\nanother\n"
        host.kill()
        second.unlink()


def test_a_truncation_at_two_gibibytes_is_an_ordinary_one(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    size = (2 << 30) + 5
    with path.open("wb") as stream:
        stream.seek(size - 1)  # a hole: no disk is used
        stream.write(b"\n")
    host = Host(tmp_path, "app.log", start_at_end=True)
    append(path, b"tail\n")
    host.ship()
    os.truncate(path, 0)
    append(path, b"new\n")
    host.ship()
    assert host.archive.text(path) == b"tail\nnew\n"
    assert host.archive.gaps == {}


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


def change_devices(host: Host) -> None:
    """Let the checkpoint have other device numbers than the files: a reboot may give a disk another one."""
    checkpoints = Checkpoints(host.state)
    checkpoints._database.execute("UPDATE sources SET device = device + 1")
    checkpoints._database.commit()
    checkpoints.close()


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
        change_devices(host)

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
        change_devices(host)

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


def test_a_target_in_a_directory_that_may_not_be_listed_is_followed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(b"old\n")
    host = Host(tmp_path, "links/*.log")
    host.ship()
    scandir = os.scandir

    def denied(path: str) -> object:
        if path == str(target.parent):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)  # root may list everything
    target.rename(tmp_path / "0.log.1")
    target.write_bytes(b"new\n")
    host.ship()
    host.let_go()
    assert host.archive.text(link) == b"old\nnew\n"


def test_a_file_that_is_not_open_is_read_on_while_the_link_to_its_directory_is_missing(tmp_path: Path) -> None:
    release, link = tmp_path / "release", tmp_path / "current"
    release.mkdir()
    link.symlink_to(release)
    (release / "x.log").write_bytes(b"one\n")
    (tmp_path / "other.log").write_bytes(b"other\n")
    host = Host(tmp_path, "current/x.log", "other.log", open_files=1)
    host.ship()
    append(tmp_path / "other.log", b"other\n")
    host.ship()
    assert [reader.fd for reader in host.sources.readers if reader.file == str(link / "x.log")] == [-1]
    link.unlink()
    append(release / "x.log", b"two\n")
    host.ship()
    assert host.archive.text(link / "x.log") == b"one\ntwo\n"
    assert host.archive.lost(link / "x.log") == 0


def test_lines_that_a_program_writes_to_the_replaced_file_are_shipped(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(SHIPPED)
    host = Host(tmp_path, "app.log")
    host.ship()
    with path.open("ab", buffering=0) as writer:
        replace(path, SHIPPED + b"edit\n")
        host.ship()
        writer.write(b"late\n")
        host.ship()
        append(path, b"appended\n")
        host.ship()
        host.let_go()
    assert sorted(host.archive.text(path).splitlines()) == sorted((SHIPPED + b"edit\nlate\nappended\n").splitlines())
    assert host.archive.text(path).startswith(SHIPPED)
    assert host.archive.gaps == {}


def test_nothing_is_read_of_a_replacement_before_it_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(SHIPPED)
    host = Host(tmp_path, "app.log")
    host.ship()
    replace(path, SHIPPED + b"edit\n")
    host.checkpoints._database.execute("PRAGMA query_only = ON")
    host.sources.scan()
    assert [piece for piece in host.read_all() if piece.data] == []
    host.checkpoints._database.execute("PRAGMA query_only = OFF")
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED + b"edit\n"


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_compressed_file_that_is_not_complete_yet_is_retried(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"))
    whole = PACKERS[suffix](lines(b"old"))
    packed = tmp_path / f"app.log.1{suffix}"

    def interrupt() -> None:
        path.unlink()
        packed.write_bytes(whole[: len(whole) // 2])
        path.write_bytes(b"new\n")

    host.restart(while_down=interrupt)
    settled(host)
    assert b"new\n" not in host.archive.text(path)
    assert host.archive.ends == {}
    packed.write_bytes(whole)
    settled(host)
    assert host.archive.text(path) == lines(b"old") + b"new\n"
    assert host.archive.gaps == {}


def test_a_compressed_file_that_stays_incomplete_for_a_minute_gives_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    text = b"".join(os.urandom(30).hex().encode() + b"\n" for _ in range(20_000))
    host = half_read(tmp_path, text)

    def interrupt() -> None:
        path.unlink()
        (tmp_path / "app.log.1.gz").write_bytes(gzip.compress(text)[:-5000])
        path.write_bytes(b"new\n")

    host.restart(while_down=interrupt)
    host.ship()
    assert host.archive.ends == {}
    host.now += 61
    settled(host)
    old, new = host.archive.sources_of(path)
    got = bytes(host.archive.bytes[old])
    assert text.startswith(got)
    assert len(text) - 20_000 < len(got) < len(text)
    assert host.archive.lost(path) == len(text) - len(got)
    assert host.archive.bytes[new] == b"new\n"


def test_a_damaged_compressed_file_is_no_rest_and_what_was_seen_is_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"))
    shipped = len(host.archive.text(path))

    def damage() -> None:
        packed = bytearray(gzip.compress(path.read_bytes()))
        packed[-6] ^= 1
        (tmp_path / "app.log.1.gz").write_bytes(packed)
        path.write_bytes(b"new\n")

    host.restart(while_down=damage)
    settled(host)
    assert host.archive.text(path) == lines(b"old")[:shipped] + b"new\n"
    assert host.archive.lost(path) == len(lines(b"old")) - shipped


@pytest.mark.parametrize("too_long", [False, True])
def test_a_rest_that_cannot_be_unpacked_now_is_unknown_and_tried_again(
    too_long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    host = half_read(tmp_path, lines(b"old"))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        host.restart(while_down=lambda: (rotate_packed(path), path.write_bytes(b"new\n")))
        host.ship()
        assert host.archive.ends == {}
        assert set(host.sources.unread) == {str(path)}
        if too_long:  # then the younger generation goes first, and the older one is tried on
            host.now += 61
            host.ship()
            host.ship()
            assert host.archive.text(path).endswith(b"new\n")
    settled(host)
    old, new = host.archive.sources_of(path)
    assert host.archive.bytes[old] == lines(b"old")
    assert host.archive.bytes[new] == b"new\n"
    assert host.archive.text(path).endswith(b"new\n") is not too_long
    assert host.archive.gaps == {}


def test_unpacking_keeps_only_what_is_needed_and_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("producer.tailer.lost_file.KEPT_BYTES", 4096)
    path = tmp_path / "app.log"
    text = lines(b"old", 300_000)
    path.write_bytes(text)
    host = Host(tmp_path, "app.log", block=1 << 18)
    while len(host.archive.text(path)) < len(text) - 600_000:
        host.read(1 << 18)
        host.deliver()
        host.acknowledge()
    host.save()
    names = {*os.listdir(tmp_path), "app.log.1.gz"}
    host.restart(while_down=lambda: (rotate_packed(path), path.write_bytes(b"new\n")))
    host.read(1)
    [tail] = [tail for tail in host.sources.readers if tail.ends_as]
    held = os.fstat(tail.descriptor)
    assert held.st_size == len(text)
    assert held.st_blocks * 512 < 1_000_000
    assert set(os.listdir(tmp_path)) <= names
    settled(host)
    assert host.archive.text(path) == text + b"new\n"


def test_a_large_copy_is_compared_once_and_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = os.pread

    def counted(descriptor: int, count: int, offset: int) -> bytes:
        data = real(descriptor, count, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr("producer.tailer.copytruncate.COMPARED_PER_SCAN", 1 << 20)
    path, text = tmp_path / "app.log", lines(b"unique", 150_000)
    path.write_bytes(text)
    host = Host(tmp_path, "*.log", block=1 << 20)
    host.ship()
    shutil.copyfile(path, tmp_path / "backup.log")
    monkeypatch.setattr(os, "pread", counted)
    for _ in range(8):
        read.clear()
        host.sources.scan()
        assert sum(read) <= 3 << 20
    os.truncate(path, 0)
    settled(host)
    host.restart()
    read.clear()
    settled(host)
    assert sum(read) < 1 << 20
    assert host.archive.text(path) == text
    assert set(host.archive.files.values()) == {str(path)}


def test_the_first_bytes_of_an_empty_file_need_no_full_scan(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.touch()
    host = Host(tmp_path, "app.log")
    append(path, b"one\n")
    host.sources.grown([str(path)])
    assert [piece.data for piece in host.read_all()] == [b"one\n"]


def test_a_rotation_between_finding_a_known_file_and_opening_it_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n" * 100)
    host = Host(tmp_path, "app.log")
    host.ship()
    host.kill()
    append(path, b"late\n")
    rotate(path)
    path.write_bytes(b"next\n")
    find = scanner.Listing.find_inode

    def found_and_rotated(listing: scanner.Listing, directory: str, key: tuple[int, int]) -> str | None:
        found = find(listing, directory, key)
        monkeypatch.setattr(scanner.Listing, "find_inode", find)
        rotate(path)
        path.write_bytes(b"newest\n")
        return found

    monkeypatch.setattr(scanner.Listing, "find_inode", found_and_rotated)
    host.start()
    for _ in range(3):
        host.ship()
    assert host.archive.text(path) == b"one\n" * 100 + b"late\n" + b"next\n" + b"newest\n"
    assert not host.archive.gaps
