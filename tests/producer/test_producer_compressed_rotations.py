"""A compressed rotation may be incomplete, damaged, too large: what can be read of it is, the rest is a gap."""

import errno
import gzip
import os
from pathlib import Path

import pytest
from packing import PACKERS, half_read, lines, rotate_packed, settled
from producing import Host


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
