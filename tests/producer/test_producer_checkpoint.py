"""The checkpoint is a promise: durable before the first byte is read, never guessed, kept aside when damaged."""

import sqlite3
import stat
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from producing import Host, append

from producer.checkpoint.store import TOMBSTONE_SECONDS, Checkpoints
from producer.fingerprint import Mark
from producer.model import RING_FULL, Point, Source
from shipper.errors import ConfigError, Fatal


def test_a_generation_is_durable_before_its_first_byte_is_read(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    host = Host(tmp_path, "*.log")
    path.write_bytes(b"line\n")
    host.sources.scan()
    assert [source.file for source in Checkpoints(host.state).load()] == [str(path)]
    assert host.read()


def test_nothing_is_read_of_a_generation_that_cannot_be_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    host = Host(tmp_path, "*.log")
    path.write_bytes(b"line\n")

    def full(_: Iterable[Source]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(host.checkpoints, "save", full)
        host.sources.scan()
        assert host.read() == []
        assert host.open_files == 0
    host.ship()
    assert host.archive.text(path) == b"line\n"


def test_what_could_not_be_saved_is_saved_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.log").write_bytes(b"line\n")
    host = Host(tmp_path, "*.log")
    host.read()
    host.deliver()
    host.acknowledge(1)
    acks = host.sources.acks

    def full(_: Iterable[Source]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(host.checkpoints, "save", full)
        acks.save(acks.take_unsaved())
    assert host.checkpoints.load()[0].offset == 0
    assert acks.has_unsaved
    acks.save(acks.take_unsaved())
    assert host.checkpoints.load()[0].offset == len(b"line\n")


def test_what_is_acknowledged_and_saved_is_not_read_again_and_the_rest_is(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"%063d\n" % 1 * 1000)
    host = Host(tmp_path, "*.log")
    host.read()
    host.deliver()
    host.acknowledge(3)
    host.save()
    offset = host.checkpoints.load()[0].offset
    assert offset == 3 * 4096
    host.restart()
    assert host.read()[0].span.start == offset
    host.deliver()
    assert host.archive.text(path) == path.read_bytes()


def test_two_clean_cycles_leave_the_offset_at_the_last_byte(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    host = Host(tmp_path, "*.log")
    for _ in range(2):
        host.ship()
        assert host.checkpoints.load()[0].offset == path.stat().st_size
        append(path, b"more\n")
        host.restart()


@pytest.mark.parametrize("damage", [b"garbage " * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_checkpoint_is_kept_aside_and_a_new_one_begins(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.sqlite"
    path.write_bytes(damage)
    checkpoints = Checkpoints(path)
    assert checkpoints.load() == []
    assert checkpoints.fresh
    assert checkpoints.damaged
    kept = [name for name in tmp_path.iterdir() if "damaged" in name.name]
    assert [name.read_bytes() for name in kept] == [damage]


def test_a_checkpoint_that_was_cut_short_is_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.sqlite"
    checkpoints = Checkpoints(path)
    checkpoints.save([source(id=f"{number:016x}") for number in range(200)])
    checkpoints.begin_use()
    checkpoints.close()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // 4096 * 4096])
    again = Checkpoints(path)
    assert again.load() == []
    assert again.fresh


def test_a_checkpoint_emptied_to_nothing_is_fresh_so_that_others_are_queried(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.sqlite"
    checkpoints = Checkpoints(path)
    checkpoints.save([source()])
    checkpoints.begin_use()
    checkpoints.close()
    path.write_bytes(b"")
    assert Checkpoints(path).fresh


def test_a_damaged_row_is_a_damaged_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.sqlite"
    checkpoints = Checkpoints(path)
    checkpoints.save([source()])
    checkpoints.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE sources SET mark = '[1,'")
    database.close()
    assert Checkpoints(path).damaged


def test_a_disk_without_room_is_no_damage_and_the_checkpoint_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint.sqlite"
    Checkpoints(path).save([source()])

    def full(self: Checkpoints) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "_check_version", full)
        with pytest.raises(Fatal, match="disk is full"):
            Checkpoints(path)
    assert len(Checkpoints(path).load()) == 1


def test_a_checkpoint_of_a_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.sqlite"
    Checkpoints(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="version 99"):
        Checkpoints(path)
    assert path.read_bytes() == before


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    Checkpoints(tmp_path / "checkpoint.sqlite").save([source()])
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o600}


def test_every_field_of_a_source_comes_back(tmp_path: Path) -> None:
    wanted = source(
        file="/var/log/\udcff x",
        device=2**64 - 1,
        inode=2**63 + 5,
        mark=Mark.of(3, b"abc", b"c"),
        ring=(Point(1, 2, 3),),
        ended_at=5.5,
    )
    checkpoints = Checkpoints(tmp_path / "checkpoint.sqlite")
    checkpoints.save([wanted])
    assert checkpoints.load() == [wanted]


def test_sources_come_back_in_the_order_in_which_they_were_first_seen(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint.sqlite")
    ids = [f"{number * 7919 % 1000:016x}" for number in range(1, 50)]
    for id_ in ids:
        checkpoints.save([source(id=id_)])
    checkpoints.save([source(id=ids[0], offset=5)])
    assert [found.id for found in checkpoints.load()] == ids


def test_sources_that_ended_long_ago_are_forgotten(tmp_path: Path) -> None:
    host = Host(tmp_path, "*.log", started=False)
    checkpoints = Checkpoints(host.state)
    old = time.time() - TOMBSTONE_SECONDS - 1
    checkpoints.save([source(id="a" * 16, ended_at=old), source(id="b" * 16, ended_at=time.time())])
    checkpoints.close()
    host.start()
    host.now += 3601
    host.ship()
    assert set(host.sources.acks.known) == {"b" * 16}
    assert [found.id for found in host.checkpoints.load()] == ["b" * 16]


def test_sources_that_ended_keep_few_points(tmp_path: Path) -> None:
    many = source(ring=tuple(Point(number, number, 0) for number in range(1, RING_FULL)), offset=RING_FULL - 1)
    ended = many.ended(1.0, file_rests=True)
    assert len(ended.ring) <= RING_FULL // 8 + 1
    assert ended.ring[-1] == many.ring[-1]


def source(**fields: object) -> Source:
    plain = Source(
        id="0" * 16, file="/f", device=1, inode=2, origin=0, offset=0, crc=0, mark=Mark(), size=0, mtime_ns=0
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


@settings(deadline=None)
@given(
    count=st.integers(1, 400),
    chance=st.randoms(use_true_random=False),
    steps=st.integers(1, 5),
    survived=st.integers(0, 2500),
    archived=st.integers(0, 25_000),
    origin=st.integers(0, 100),
)
def test_going_back_never_skips_a_byte_that_neither_server_nor_archive_has(
    count: int, chance: Random, steps: int, survived: int, archived: int, origin: int
) -> None:
    """Blocks get growing sequences; the server keeps those up to `survived`, the archive the first `archived` bytes."""
    there = source(origin=origin, offset=origin)
    points = [Point(0, origin, 0)]
    for number in range(1, count + 1):
        points.append(Point(number * steps, points[-1].offset + chance.randrange(50), number))
        there = there.acknowledged(points[-1], Mark())
    assert len(there.ring) <= RING_FULL
    assert (there.ring[0], there.ring[-1]) == (points[1], points[-1])
    back = there.rewound(sequence=survived, archived=archived)
    stored = max(point.offset for point in points if point.sequence <= survived)
    assert origin <= back.offset <= max(stored, min(archived, there.offset), origin)
    assert (back.offset, back.crc) in [(point.offset, point.crc) for point in points]
    if survived >= there.sequence:
        assert back == there
    assert back.acknowledged(points[-1], Mark()).rewound(sequence=0, archived=0).offset == origin


@settings(deadline=None)
@given(count=st.integers(1, 300), wanted=st.integers(-5, 20_000))
def test_going_back_on_demand_is_never_past_the_requested_offset(count: int, wanted: int) -> None:
    there = source()
    for number in range(1, count + 1):
        there = there.acknowledged(Point(number, there.offset + 30, 0), Mark())
    assert there.back_to(wanted).offset <= max(0, wanted)


def test_of_two_generations_of_one_inode_only_the_younger_gets_the_file(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    found = path.stat()
    host = Host(tmp_path, "*.log", started=False)
    checkpoints = Checkpoints(host.state)
    both = [
        source(id=id_, file=str(path), device=found.st_dev, inode=found.st_ino, size=size)
        for id_, size in (("a" * 16, 7), ("b" * 16, 0))
    ]
    checkpoints.save(both)  # truncated, and the farewell of the first was not acknowledged when a kill came
    checkpoints.close()
    host.start()
    host.ship()
    assert host.archive.text(path) == b"line\n"
    assert host.archive.bytes.get("a" * 16, b"") == b""
    assert host.archive.lost(path) == 7


def test_what_an_empty_file_begins_with_is_durable_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.touch()
    host = Host(tmp_path, "*.log")
    append(path, b"old 1\n")
    assert host.read() == []  # no scan has run yet
    host.sources.scan()
    host.read()
    host.deliver()

    def rewrite() -> None:
        path.write_bytes(b"new 1\nnew 2\n")  # the same inode

    host.restart(while_down=rewrite)
    host.ship()
    assert host.archive.text(path) == b"old 1\nnew 1\nnew 2\n"
    assert len(host.archive.files) == 2
