"""The whole loop on a server in memory: sessions end at any moment, and everything read is sent, in order."""

import asyncio
import random
import sqlite3
from pathlib import Path

import pytest
from harness.waiting import becomes
from producing import HOST, STREAM, SUBJECT, Collector, Producer, append, take_all

from producer import batcher
from producer.batcher import BATCH_BYTES, BATCHES_AHEAD
from producer.checkpoint.store import Checkpoints
from shipper.errors import Fatal, StreamFull, Unavailable
from shipper.model import Encoding, End
from shipper.retry import Patience
from shipper.subjects import control_down
from shipper.testing import Bus, MemoryPublisher


def lines(count: int, seed: int = 0) -> bytes:
    chance = random.Random(seed)
    return b"".join(b"%d %s\r\n" % (number, chance.randbytes(30).hex().encode()) for number in range(count))


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_every_encoding_ships_a_file_byte_for_byte(encoding: Encoding, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"\n" + lines(500) + b"\0 \xff\n\nlast, unterminated")
    producer = Producer(tmp_path, "app.log", encoding=encoding)
    await producer.ship_once()
    assert producer.archived().text(path) == path.read_bytes()
    assert {message.subject for message in producer.stream} == {SUBJECT}


async def test_plain_is_a_line_a_message_without_its_newline_and_with_headers(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n\nthree\r\n")
    producer = Producer(tmp_path, "app.log", encoding=Encoding.PLAIN)
    await producer.ship_once()
    messages = list(producer.stream)
    assert [message.payload for message in messages] == [b"one", b"", b"three\r"]
    assert [message.headers["Log-Span"] for message in messages] == ["0-4", "4-5", "5-12"]
    assert {message.headers["Log-Lines"] for message in messages} == {"1"}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait between two sessions."""
    for policy in ("SESSION", "FULL"):
        monkeypatch.setattr(f"shipper.retry.{policy}._wait", lambda _: 0.0)


@pytest.mark.parametrize("seed", range(5))
async def test_sessions_that_end_at_any_moment_leave_nothing_out(seed: int, tmp_path: Path, hasty: None) -> None:
    chance = random.Random(seed)
    path = tmp_path / "app.log"
    path.touch()
    producer = Producer(tmp_path, "app.log", window_bytes=256 * 1024, block=16 * 1024, ack_timeout=0.5)
    wanted = b""
    async with producer.running():
        for round_ in range(30):
            text = lines(chance.randrange(3000), seed * 100 + round_)
            append(path, text)
            wanted += text
            for _ in range(chance.randrange(20)):
                await asyncio.sleep(0)
            sessions = producer.sessions
            match chance.randrange(3):
                case 0:
                    producer.bus.acks.refuse(chance.randrange(1, 5), StreamFull())
                    continue
                case 1:
                    producer.bus.acks.drop(1)
            producer.bus.end_sessions()
            await becomes(lambda: producer.sessions > sessions)  # noqa: B023
        await becomes(lambda: len(producer.archived().text(path)) >= len(wanted))
    assert producer.archived().text(path) == wanted
    assert producer.sessions > 10


async def test_a_load_that_was_read_while_its_session_ended_is_in_flight_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hasty: None
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(20_000))
    monkeypatch.setattr(batcher, "BATCH_BYTES", 64 * 1024)  # many batches, so that some are always read ahead
    producer = Producer(tmp_path, "app.log", block=16 * 1024)
    published = 0
    real = MemoryPublisher.publish

    async def breaking(self: MemoryPublisher, *arguments: object) -> None:
        nonlocal published
        published += 1
        if published % 7 == 0:
            self.fail("the connection broke")
        await real(self, *arguments)
        await asyncio.sleep(0)  # acks arrive meanwhile

    monkeypatch.setattr(MemoryPublisher, "publish", breaking)
    await producer.ship_once()
    assert producer.sessions > 5
    assert producer.archived().text(path) == path.read_bytes()


async def test_no_more_is_in_flight_than_the_window_and_the_loads_ahead(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(random.Random(1).randbytes(20 << 20))
    producer = Producer(tmp_path, "app.log", encoding=Encoding.IDENTITY)
    producer.bus.acks.hold()
    async with producer.running():
        await becomes(lambda: producer.sessions and not producer.pipeline.delivery.window.has_capacity)
        for _ in range(200):
            await asyncio.sleep(0)
        assert producer.pipeline.delivery.window.bytes < (1 << 20) + BATCHES_AHEAD * BATCH_BYTES + (1 << 20)
        producer.bus.acks.release()


async def test_an_ack_that_is_late_ends_the_session_however_long_the_poll_is(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    producer = Producer(tmp_path, "app.log", ack_timeout=0.1, poll=3600.0)
    producer.bus.acks.drop(1)
    async with producer.running():
        await becomes(lambda: producer.sessions >= 2)
        await becomes(lambda: not len(producer.pipeline.delivery.window))
    assert producer.archived().text(path) == b"line\n"
    assert producer.archived().dropped == 5


async def test_the_checkpoint_never_passes_an_acknowledgement(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(100))
    producer = Producer(tmp_path, "app.log", drain_within=0.0)
    producer.bus.acks.hold()
    async with producer.running():
        await becomes(lambda: len(producer.stream) > 0)
    assert Checkpoints(tmp_path / "checkpoint.sqlite").load()[0].offset == 0


async def test_a_generation_that_comes_and_is_deleted_while_the_server_is_away_is_shipped(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"0\n")
    producer = Producer(tmp_path, "app.log", rotate_wait=60.0)
    async with producer.running():
        await becomes(lambda: len(producer.stream) > 0)
        producer.bus.go_down()
        for number in range(1, 4):
            path.unlink()
            path.write_bytes(b"%d\n" % number)
            known = number + 1
            await becomes(lambda: len(producer.pipeline.delivery.tailer.acks.known) >= known)  # noqa: B023
        producer.bus.come_up()
        await becomes(lambda: producer.archived().text(path) == b"0\n1\n2\n3\n")


async def test_a_full_stream_ends_once_when_patience_is_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(1000))
    bus = Bus()
    bus.add_stream(STREAM, "logs.p0.>", max_bytes=1000)
    producer = Producer(tmp_path, "app.log", bus=bus, patience=Patience(at_start=0.2, later=0.2))
    with pytest.raises(Unavailable, match="full"):
        await asyncio.wait_for(producer.ship_once(), 10)


async def test_once_fails_when_a_file_could_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.log").write_bytes(b"line\n")
    producer = Producer(tmp_path, "*.log")
    monkeypatch.setattr(
        "producer.tailer.resolver.Resolver.reader", lambda *_: (_ for _ in ()).throw(OSError(5, "broken disk"))
    )
    with pytest.raises(Fatal, match=r"app\.log"):
        await producer.ship_once()


@pytest.mark.parametrize("hung", [False, True])
async def test_a_stop_ends_in_time_also_when_no_server_answers(hung: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    producer = Producer(tmp_path, "app.log", drain_within=0.2)
    producer.bus.acks.hold()

    async def never(_: int) -> MemoryPublisher:
        producer.sessions += 1
        return await asyncio.get_running_loop().create_future()

    async with producer.running():
        await becomes(lambda: len(producer.stream) > 0)
        producer.bus.go_down()
        if hung:
            producer.connect = never
            sessions = producer.sessions
            await becomes(lambda: producer.sessions > sessions)
        began = asyncio.get_running_loop().time()
        producer.stop.request()
    assert asyncio.get_running_loop().time() - began < 3.0
    assert Checkpoints(tmp_path / "checkpoint.sqlite").load()[0].offset == 0


async def test_what_the_server_lost_is_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    producer = Producer(tmp_path, "app.log", block=4096)
    path.write_bytes(lines(1000))
    async with producer.running():
        await becomes(lambda: producer.archived().text(path) == path.read_bytes())
        await becomes(lambda: not len(producer.pipeline.delivery.window))
        producer.stream.forget_last(5)
        producer.bus.end_sessions("power failed")
        append(path, b"more\n")
        await becomes(lambda: producer.archived().text(path) == path.read_bytes())


async def test_a_recreated_stream_gets_everything_that_the_archive_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    producer = Producer(tmp_path, "app.log", block=4096)
    path.write_bytes(lines(1000))
    await producer.ship_once()
    producer.stream.recreate()
    await producer.ship_once()
    assert producer.archived().text(path) == path.read_bytes()


async def test_what_is_archived_is_not_sent_again_when_the_stream_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(1000))
    producer = Producer(tmp_path, "app.log")
    await producer.ship_once()
    archive = producer.archived()
    producer.stream.purge(1 << 40)
    Collector(producer.bus, archive)
    await producer.ship_once()
    assert len(producer.stream) == 0


@pytest.mark.parametrize("damage", ["gone", "garbage"])
@pytest.mark.parametrize("witness", ["receipts", "last message", "receipts of an empty stream"])
async def test_a_lost_checkpoint_is_recovered_and_nothing_comes_twice(
    damage: str, witness: str, tmp_path: Path
) -> None:
    path, rotated = tmp_path / "app.log", tmp_path / "app.log.1"
    path.write_bytes(lines(500, 1))
    producer = Producer(tmp_path, "app.log")
    await producer.ship_once()
    archive = producer.archived()
    if witness != "last message":
        Collector(producer.bus, archive)
    if witness == "receipts of an empty stream":
        producer.stream.purge(1 << 40)
    for name in list(tmp_path.glob("checkpoint.sqlite*")):
        name.unlink()
    if damage == "garbage":
        (tmp_path / "checkpoint.sqlite").write_bytes(b"garbage" * 1000)
    append(path, b"while lost\n")
    path.rename(rotated)
    path.write_bytes(b"new\n")
    await producer.ship_once()
    if witness == "receipts of an empty stream":
        take_all(archive, list(producer.stream))
    else:
        archive = producer.archived()
    assert archive.text(path) == lines(500, 1) + b"while lost\nnew\n"


async def test_a_collector_that_asks_gets_the_bytes_again_and_gone_for_those_that_no_file_has(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(1000))
    producer = Producer(tmp_path, "app.log", block=4096)
    async with producer.running():
        await becomes(lambda: producer.archived().text(path) == path.read_bytes())
        await becomes(lambda: not len(producer.pipeline.delivery.window))
        source = next(iter(producer.archived().files))
        producer.stream.delete(3)
        start = 2 * 4096 - 50
        asked = {"v": 1, "ask": "resend", "source": source, "from": start}
        answer = await producer.bus.ask(control_down(HOST), asked, 1.0)
        assert answer == {"v": 1, "answer": "resent", "lasting": True}
        await becomes(lambda: _covered(producer, source) == set(range(path.stat().st_size)))
        for unknown in ({"source": "f" * 16, "from": 0}, {"source": source, "from": "garbage"}):
            answer = await producer.bus.ask(control_down(HOST), {"v": 1, "ask": "resend", **unknown}, 1.0)
            assert answer == {"v": 1, "answer": "gone"}


def _covered(producer: Producer, source: str) -> set[int]:
    found: set[int] = set()
    for message in producer.stream:
        start, end = map(int, message.headers["Log-Span"].split("-"))
        if message.headers["Log-Id"] == source:
            found.update(range(start, end))
    return found


async def test_a_rotated_file_ends_with_its_reason_on_the_wire(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\ntorn")
    producer = Producer(tmp_path, "app.log")
    async with producer.running():
        await becomes(lambda: len(producer.stream) > 0)
        path.rename(tmp_path / "app.log.1")
        path.write_bytes(b"new\n")
        await becomes(lambda: End.ROTATED in producer.archived().ends.values())
        await becomes(lambda: producer.archived().text(path) == b"old\ntornnew\n")


async def test_a_checkpoint_that_cannot_be_written_stops_nothing_and_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    producer = Producer(tmp_path, "app.log")
    full = True
    real = Checkpoints.save

    def save(self: Checkpoints, sources: object) -> None:
        if full:
            raise sqlite3.OperationalError("database or disk is full")
        real(self, sources)

    async with producer.running():
        await becomes(lambda: producer.archived().text(path) == b"one\n")
        monkeypatch.setattr(Checkpoints, "save", save)
        append(path, b"two\n")
        await becomes(lambda: producer.archived().text(path) == b"one\ntwo\n")
        await becomes(lambda: not len(producer.pipeline.delivery.window))
        producer.stream.forget_last(1)
        producer.bus.end_sessions("power failed")  # now the handshake needs the checkpoint
        sessions = producer.sessions
        await becomes(lambda: producer.sessions > sessions + 1)
        full = False
        await becomes(lambda: producer.archived().text(path) == b"one\ntwo\n")
    assert Checkpoints(tmp_path / "checkpoint.sqlite").load()[0].offset == 8
