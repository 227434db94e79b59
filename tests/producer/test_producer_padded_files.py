"""A file that ends with NULs: they are waited for, filled in place, never content and never lost."""

import mmap
import os
from pathlib import Path

import pytest
from producing import Host, append, rotate

from producer.heartbeat import BacklogMeter

SIZE = 2 * 1024 * 1024


def padded(path: Path, *, allocated: bool) -> None:
    """Reserve space: real NULs, or a hole."""
    if allocated:
        path.write_bytes(bytes(SIZE))
    else:
        path.touch()
        os.truncate(path, SIZE)


def fill(path: Path, at: int, data: bytes) -> int:
    """Write in place; where the next bytes go."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
    return at + len(data)


def poll(host: Host) -> None:
    """What happens without a scan: a poll, and what it found is read."""
    host.sources.poll()
    while host.read():
        host.deliver()
        host.acknowledge()
    host.save()


@pytest.mark.parametrize("allocated", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_lines_that_are_written_in_place_arrive_while_the_file_has_its_size(
    restarts: bool, allocated: bool, tmp_path: Path
) -> None:
    path, at, wanted = tmp_path / "app.log", 0, b""
    padded(path, allocated=allocated)
    host = Host(tmp_path, "*.log", block=64 * 1024)
    for number in range(6):
        line = b"line %d of a mapped file\n" % number
        at, wanted = fill(path, at, line), wanted + line
        host.ship()
        assert host.archive.text(path) == wanted
        assert host.sources.idle
        assert BacklogMeter().measure(host.sources.readers, host.sources.acks.known, str, host.now).octets == 0
        if restarts:
            host.restart()
    host.restart(while_down=lambda: os.truncate(path, at))
    host.ship()
    append(path, b"after\n")
    host.let_go()
    assert host.archive.text(path) == wanted + b"after\n"
    assert len(host.archive.files) == 1
    assert host.archive.gaps == {}


def test_a_memory_map_is_read_although_neither_size_nor_time_changes(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    padded(path, allocated=False)
    os.utime(path, ns=(10**18, 10**18))
    host = Host(tmp_path, "*.log")
    wanted = b""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as mapped:
        for number in range(300):
            line = b"%d " % number * 5 + b"\n"
            mapped[len(wanted) : len(wanted) + len(line)] = line
            os.utime(path, ns=(10**18, 10**18))
            wanted += line
            poll(host)
            assert host.archive.text(path) == wanted


@pytest.mark.parametrize("gone", [os.unlink, lambda path: os.truncate(path, 0)])
def test_what_is_lost_of_a_padded_file_is_its_content_only(gone: object, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"read\n" + b"unread\n" + bytes(SIZE))
    host = Host(tmp_path, "app.log", block=4096)
    host.sources.scan()
    host.restart(while_down=lambda: gone(path))  # type: ignore[operator]
    host.let_go()
    assert host.archive.lost(path) in (0, len(b"read\nunread\n"))


def test_once_ends_at_the_nuls_with_nothing_unread(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\nhalf" + bytes(SIZE))
    host = Host(tmp_path, "*.log", once=True)
    host.ship()
    assert host.archive.text(path) == b"one\nhalf"
    assert host.sources.unread == []
    assert host.sources.idle


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_the_last_byte_of_utf_16_is_content_although_it_may_be_nul(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes("one\ntwo\n".encode(encoding))
    host = Host(tmp_path, "app.log")
    host.ship()
    rotate(path)
    host.let_go()
    assert host.archive.text(path) == "one\ntwo\n".encode(encoding)
    assert host.archive.gaps == {}


@pytest.mark.parametrize("nuls", [0, 1, 2, SIZE])
def test_nuls_that_are_not_shipped_are_told_once_when_the_file_ends(
    nuls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(
        "shipper.events.padding_not_shipped",
        lambda *, file, octets: told.append((file, octets)),
    )
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    os.truncate(path, 4 + nuls)
    host = Host(tmp_path, "app.log")
    host.ship()
    assert told == []
    rotate(path)
    path.write_bytes(b"two\n")
    for _ in range(4):
        host.now += host.following.rotate_wait + 0.1
        host.ship()
    assert told == ([(str(path), nuls)] if nuls > 1 else [])
    assert host.archive.text(path) == b"one\n" + b"\0" * (nuls == 1) + b"two\n"
