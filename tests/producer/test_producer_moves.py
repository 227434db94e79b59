"""A producer whose partition changes: it leaves in order, continues just after what is archived, and remembers that."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness.waiting import becomes
from producing import HOST, SUBJECT, Producer, archive_of

from producer.checkpoint.store import Checkpoints
from producer.fingerprint import Mark
from producer.model import Archived, Destination, Place, Point, Source
from producer.session.delivery_check import LATE_SECONDS, DeliveryCheck
from producer.session.migration import handed_off, sources_to_request
from shipper import codec
from shipper.compression import Decompressor
from shipper.control import Receipt, ReceiptsReply
from shipper.model import Entry, Handoff, Stored
from shipper.partition_map import PartitionMap, encode
from shipper.subjects import control_up, map_key
from shipper.testing import Bus, MemoryPublisher

ARCHIVE = "a1"


class Partition:
    """A partition's stream, and a collector that has archived all of it at any time, up to a marker."""

    def __init__(self, bus: Bus, number: int) -> None:
        self.bus = bus
        self.number = number
        self.stream = bus.add_stream(f"LOGS_{number}", f"logs.p{number}.>")
        self.is_away = False
        self.is_retired = False
        self.questions: list[Any] = []
        bus.listen(MemoryPublisher(bus, f"LOGS_{number}"), control_up(HOST), self._heard)

    @property
    def blocks(self) -> list[Stored]:
        """What counts: nothing that a host sent after its marker by an older map."""
        counted, left = [], 0
        for message in self.stream:
            version = codec.leaves(message.headers)
            left = max(left, version or 0)
            if version is None and codec.from_headers(message.headers).map_version >= left:
                counted.append(message)
        return counted

    @property
    def left(self) -> int:
        return max((codec.leaves(message.headers) or 0 for message in self.stream), default=0)

    async def _heard(self, _: str, question: Any) -> Any:
        if question.get("partition") != self.number or question["ask"] != "receipts" or self.is_away:
            return None
        self.questions.append(question)
        archive = archive_of(self.blocks)
        receipts = [
            {"source": id_, "file": archive.files[id_], "origin": 0, "watermark": end}
            | {"crc": zlib.crc32(archive.bytes[id_])}
            for id_, end in archive.watermarks.items()
        ]
        retired = {"retired": True} if self.is_retired else {"left": self.left}
        return {"v": 1, "archive": ARCHIVE, "through": 1 << 60, "receipts": receipts} | retired


class World:
    """A host, a map, and two partitions."""

    def __init__(self, tmp_path: Path, **options: Any) -> None:
        self.bus = Bus()
        self.partitions = [Partition(self.bus, 0), Partition(self.bus, 1)]
        self.path = tmp_path / "app.log"
        self.path.write_bytes(b"")
        self.producer = Producer(tmp_path, "app.log", bus=self.bus, **options)

    def belongs(self, partition: int, version: int) -> None:
        known = PartitionMap(version=version, partitions=2, overrides={HOST: partition})
        self.bus.entries[map_key("logs")] = Entry(version, encode(known))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        before = vars(self.producer).get("pipeline")
        async with self.producer.running():
            await becomes(lambda: vars(self.producer).get("pipeline") is not before)
            await becomes(lambda: not self.producer.pipeline.ready())
            yield

    def poll(self) -> None:
        """The request of a mover lets the host read the map immediately."""
        self.producer.pipeline.migration.answer()

    @property
    def place(self) -> Place:
        return self.producer.pipeline.migration.place

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as stream:
            stream.write(data)

    def archived(self) -> bytes:
        """What both partitions archive of the file: the second continues where, by each block, the first ended."""
        text = b""
        for partition in self.partitions:
            for message in partition.blocks:
                block = codec.from_headers(message.headers)
                known = max(len(text), block.handoff.offset if block.handoff else 0)
                assert known == len(text), "a handoff claims what nobody has"
                data = Decompressor().decode(block, message.payload)
                assert block.span.start <= len(text), "a hole"
                text += data[len(text) - block.span.start :]
        return text


async def test_a_host_that_is_moved_continues_after_its_marker_in_the_other_partition(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(b"one\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[0].stream) == 1)
        world.belongs(1, 1)
        world.poll()
        await becomes(lambda: world.place == Place(partition=1, version=1))
        world.append(b"two\n")
        await becomes(lambda: len(world.partitions[1].stream) == 1)
    first, marker = world.partitions[0].stream
    (second,) = world.partitions[1].stream
    assert codec.leaves(marker.headers) == 1
    block = codec.from_headers(second.headers)
    assert (block.span, block.map_version, block.origin) == ((4, 8), 1, 0)
    assert block.handoff == Handoff(4, zlib.crc32(b"one\n"), ARCHIVE)
    assert block.source == codec.from_headers(first.headers).source
    assert world.archived() == b"one\ntwo\n"
    assert any(question.get("leaving") == 1 for question in world.partitions[0].questions)


async def test_a_new_host_begins_where_the_map_has_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.belongs(1, 4)
    world.append(b"one\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[1].stream) == 1)
    assert not len(world.partitions[0].stream)
    assert codec.from_headers(next(iter(world.partitions[1].stream)).headers).map_version == 4


async def test_a_host_stays_as_long_as_its_collector_is_away(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.partitions[0].is_away = True
    async with world.running():
        world.belongs(1, 1)
        world.poll()
        world.append(b"one\n")
        await becomes(lambda: len(world.partitions[0].stream) == 1)
        world.poll()
        await asyncio.sleep(0.3)
        assert world.place == Place(partition=0)
        world.partitions[0].is_away = False
        world.poll()
        await becomes(lambda: world.place.partition == 1)


async def test_a_host_that_was_killed_while_it_left_publishes_nothing_more_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(b"one\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[0].stream) == 1)
        await becomes(lambda: world.producer.pipeline.status()["in_flight_blocks"] == 0)
    world.belongs(1, 1)
    with contextlib.closing(Checkpoints(tmp_path / "checkpoint.sqlite")) as checkpoints:
        checkpoints.stand_at(Place(partition=0, leaving=1))
    world.append(b"two\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[1].stream) == 1)
    assert len(world.partitions[0].blocks) == len(list(world.partitions[0].stream)) - 1
    assert world.archived() == b"one\ntwo\n"


async def test_a_host_whose_map_is_gone_while_it_leaves_stays_under_the_version_of_its_marker(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(b"one\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[0].stream) == 1)
        await becomes(lambda: world.producer.pipeline.status()["in_flight_blocks"] == 0)
    with contextlib.closing(Checkpoints(tmp_path / "checkpoint.sqlite")) as checkpoints:
        checkpoints.stand_at(Place(partition=0, leaving=7))
    world.append(b"two\n")
    async with world.running():
        await becomes(lambda: world.place == Place(partition=0, version=7))
        await becomes(lambda: len(world.partitions[0].stream) == 3)
    assert world.archived() == b"one\ntwo\n"


async def test_a_host_that_was_away_while_its_partition_was_retired_continues_all_the_same(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(b"one\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[0].stream) == 1)
        await becomes(lambda: world.producer.pipeline.status()["in_flight_blocks"] == 0)
    world.partitions[0].is_retired = True
    world.bus.remove_stream("LOGS_0")
    world.belongs(1, 1)
    world.append(b"two\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[1].stream) == 1)
    assert world.archived() == b"one\ntwo\n"


async def test_what_an_older_sender_got_into_the_old_partition_is_not_written_twice(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(b"one\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[0].stream) == 1)
        await becomes(lambda: world.producer.pipeline.status()["in_flight_blocks"] == 0)
    stored = next(iter(world.partitions[0].stream))
    world.append(b"two\n")
    text = b"one\ntwo\n"
    both = f"{zlib.crc32(text):08x}"
    headers = stored.headers | {"Log-Span": "0-8", "Log-Lines": "2", "Log-Crc": f"{both}-{both}"}
    del headers["Log-Encoding"]
    world.bus.store(SUBJECT, headers, text)  # acknowledged to a process that is gone
    world.belongs(1, 1)
    with contextlib.closing(Checkpoints(tmp_path / "checkpoint.sqlite")) as checkpoints:
        checkpoints.stand_at(Place(partition=0, leaving=1))
    world.append(b"three\n")
    async with world.running():
        await becomes(lambda: len(world.partitions[1].stream) >= 1)
    assert world.archived() == b"one\ntwo\nthree\n"


async def test_an_older_map_moves_no_host(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.belongs(1, 5)
    async with world.running():
        await becomes(lambda: world.place == Place(partition=1, version=5))
        world.belongs(0, 4)
        world.poll()
        await asyncio.sleep(0.2)
        assert world.place == Place(partition=1, version=5)


async def test_a_missing_stream_is_requested(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.bus.remove_stream("LOGS_0")
    world.append(b"one\n")

    async def make(_: str, question: Any) -> Any:
        if question["ask"] != "stream":
            return None
        world.bus.add_stream(f"LOGS_{question['partition']}", f"logs.p{question['partition']}.>")
        return {"v": 1, "stream": "created"}

    world.bus.listen(MemoryPublisher(world.bus, "LOGS_1"), control_up(HOST), make)
    async with world.running():
        await becomes(lambda: len(world.bus.stream("LOGS_0")) == 1)


# -- what is taken along ------------------------------------------------------------------------------------------


def source(offset: int, **more: Any) -> Source:
    plain: dict[str, Any] = {
        "id": "00000000000000a1",
        "file": "/f",
        "device": 1,
        "inode": 2,
        "origin": 0,
        "offset": offset,
        "crc": offset,
        "mark": Mark(),
        "size": offset,
        "mtime_ns": 0,
        "ring": (Point(3, 4, 4), Point(9, offset, offset)),
    }
    return Source(**(plain | more))


def told(watermark: int, crc: int, **more: Any) -> ReceiptsReply:
    return ReceiptsReply(ARCHIVE, 99, (Receipt("00000000000000a1", "/f", 0, watermark, crc),), **more)


def test_parts_of_a_partition_start_over_after_a_move_and_not_when_the_host_begins_to_leave() -> None:
    destination, moves = Destination("logs", "h", Place(partition=1)), 0

    def moved() -> None:
        nonlocal moves
        moves += 1

    destination.on_move(moved)
    destination.move(replace(destination.place, leaving=7))
    assert (moves, destination.subject) == (0, "logs.p1.h")
    destination.move(Place(partition=2, version=7))
    assert (moves, destination.partition, destination.subject) == (1, 2, "logs.p2.h")
    destination.move(Place(partition=2, version=8))
    assert moves == 2


async def test_messages_of_the_old_partition_mean_nothing_in_the_new_one() -> None:
    destination = Destination("logs", "h", Place(partition=1))
    delivery: Any = None  # no task runs here
    check = DeliveryCheck(destination, delivery, rouse=lambda: None, clock=lambda: 0.0)
    check.doubt({"source": 10}, ())
    assert check.next_at() == 0.0
    destination.move(Place(partition=2, version=7))
    assert check.next_at() == LATE_SECONDS


def test_stream_sequences_of_the_old_partition_mean_nothing_in_the_new_one() -> None:
    (after,) = handed_off([source(8)], told(8, 8), {"00000000000000a1"})
    assert (after.offset, after.crc, after.sequence) == (8, 8, 0)
    assert after.handoff == Handoff(8, 8, ARCHIVE)
    assert after.archived_in(ARCHIVE) == 8


def test_what_was_acknowledged_and_never_archived_is_sent_again() -> None:
    (after,) = handed_off([source(8)], told(6, 77), {"00000000000000a1"})
    assert (after.offset, after.crc) == (4, 4)
    assert after.handoff == Handoff(6, 77, ARCHIVE)


def test_a_source_that_the_archive_knows_nothing_of_is_sent_from_its_origin() -> None:
    nothing = ReceiptsReply(ARCHIVE, 99, ())
    (after,) = handed_off([source(8, archives=(Archived(ARCHIVE, 8),))], nothing, {"00000000000000a1"})
    assert (after.offset, after.handoff) == (0, None)


def test_a_source_without_a_request_is_trusted_to_be_where_it_was_archived() -> None:
    over = source(8, ended_at=1.0, archives=(Archived(ARCHIVE, 8),))
    assert sources_to_request([over]) == []
    (after,) = handed_off([over], ReceiptsReply(ARCHIVE, 99, ()), set())
    assert (after.offset, after.ended_at, after.handoff) == (8, 1.0, Handoff(8, 8, ARCHIVE))


def test_a_sum_that_the_archive_cannot_prove_is_left_open() -> None:
    (after,) = handed_off([source(8)], told(8, 55), {"00000000000000a1"})
    assert after.handoff == Handoff(8, None, ARCHIVE)
    (after,) = handed_off([source(8)], told(8, -1), {"00000000000000a1"})
    assert after.handoff == Handoff(8, None, ARCHIVE)


def test_a_second_move_keeps_what_the_first_one_took_along() -> None:
    silent = source(8, handoff=Handoff(8, 8, ARCHIVE))
    (after,) = handed_off([silent], ReceiptsReply(ARCHIVE, 99, ()), {"00000000000000a1"})
    assert (after.offset, after.handoff) == (8, Handoff(8, 8, ARCHIVE))


def test_where_the_host_is_survives_with_what_it_took_along(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.sqlite"
    with contextlib.closing(Checkpoints(path)) as checkpoints:
        assert checkpoints.place is None
        checkpoints.stand_at(Place(partition=3, version=2, leaving=4), [source(8, handoff=Handoff(6, None, ARCHIVE))])
    with contextlib.closing(Checkpoints(path)) as checkpoints:
        assert checkpoints.place == Place(partition=3, version=2, leaving=4)
        assert [each.handoff for each in checkpoints.load()] == [Handoff(6, None, ARCHIVE)]


@pytest.mark.parametrize(
    ("place", "version", "after"),
    [
        (Place(partition=0), 1, Place(partition=1, version=1)),
        (Place(partition=0, version=1), 1, Place(partition=0, version=1)),
        (Place(partition=0, version=1, leaving=2), 2, Place(partition=1, version=2)),
        (Place(partition=0, version=1, leaving=2), 1, Place(partition=0, version=1, leaving=2)),
    ],
)
def test_only_a_newer_map_decides_where_a_host_belongs(place: Place, version: int, after: Place) -> None:
    assert place.under(PartitionMap(version=version, partitions=2, overrides={HOST: 1}), HOST) == after
