"""Heartbeats on a server in memory: bounded, in time, and never in the way of shipping."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from harness.waiting import becomes
from producing import HOST, Host, Producer, append

from producer.heartbeat import BacklogMeter
from shipper.errors import StreamFull
from shipper.heartbeat import MAX_FILES, Heartbeat, decode
from shipper.testing import MemoryPublisher

BEATS = "LOGS_BEATS"


def telling(directory: Path, *patterns: str, **options) -> Producer:
    producer = Producer(directory, *patterns, heartbeat=0.05, **options)
    producer.bus.add_stream("LOGS_0", "logs.p0.>")
    producer.bus.add_stream(BEATS, "logs.beat.>")
    return producer


def said(producer: Producer) -> list[Heartbeat]:
    return [decode(message.payload) for message in producer.bus.stream(BEATS)]


async def test_a_host_reports_what_it_ships_on_a_subject_of_its_own(tmp_path):
    append(tmp_path / "app.log", b"one\n" * 100)
    producer = telling(tmp_path, "*.log")
    async with producer.running():
        await becomes(lambda: said(producer) and said(producer)[-1].shipped == 400)
        await becomes(lambda: said(producer)[-1].backlog == 0)
    last = said(producer)[-1]
    assert {message.subject for message in producer.bus.stream(BEATS)} == {f"logs.beat.{HOST}"}
    assert (last.files, last.partition, last.every, last.unreadable) == (1, 0, 0.05, 0)
    assert producer.archived().text(tmp_path / "app.log") == b"one\n" * 100


async def test_its_last_word_is_that_it_leaves(tmp_path):
    append(tmp_path / "app.log", b"one\n")
    producer = telling(tmp_path, "*.log")
    async with producer.running():
        await becomes(lambda: len(said(producer)) > 1)
    assert [beat.leaves for beat in said(producer)][-2:] == [False, True]


async def test_without_an_interval_nothing_is_reported(tmp_path):
    append(tmp_path / "app.log", b"one\n")
    producer = telling(tmp_path, "*.log")
    producer.options["heartbeat"] = 0.0
    async with producer.running():
        await becomes(lambda: producer.stream.last_sequence)
    assert said(producer) == []


async def test_where_no_stream_keeps_heartbeats_everything_is_shipped(tmp_path):
    append(tmp_path / "app.log", b"one\n" * 100)
    producer = Producer(tmp_path, "*.log", heartbeat=0.01)
    async with producer.running():
        await becomes(lambda: producer.archived().text(tmp_path / "app.log") == b"one\n" * 100)


async def test_a_host_whose_stream_is_full_reports_it_and_why(tmp_path, monkeypatch):
    monkeypatch.setattr("shipper.retry.FULL._wait", lambda _: 0.0)
    append(tmp_path / "app.log", b"one\n" * 100)
    producer = telling(tmp_path, "*.log")
    refusal = StreamFull("stream LOGS_0 refuses a message: maximum bytes exceeded")
    for number in range(1, 10_000):
        producer.bus.acks.refuse(number, refusal)
    async with producer.running():
        await becomes(lambda: any(beat.trouble for beat in said(producer)))
        last = said(producer)[-1]
        producer.bus.acks._refusals.clear()
        await becomes(lambda: said(producer)[-1].shipped == 400)
    assert (last.backlog, last.backlog_files, last.worst[0].file) == (400, 1, str(tmp_path / "app.log"))
    assert "maximum bytes exceeded" in last.trouble
    assert said(producer)[-1].trouble == ""


async def test_a_socket_without_room_costs_a_heartbeat_and_no_block(tmp_path, monkeypatch):
    async def no_room(*_):
        return False

    monkeypatch.setattr(MemoryPublisher, "mention", no_room)
    append(tmp_path / "app.log", b"one\n" * 100)
    producer = telling(tmp_path, "*.log")
    async with producer.running():
        await becomes(lambda: producer.archived().text(tmp_path / "app.log") == b"one\n" * 100)
    assert said(producer) == []


async def test_a_busy_producer_speaks_all_the_same(tmp_path):
    append(tmp_path / "app.log", b"a line of many like it\n" * 4_000_000)
    producer = telling(tmp_path, "*.log", window_bytes=256 << 20, poll=5.0)
    async with producer.running():
        await becomes(lambda: said(producer) and said(producer)[-1].shipped == (tmp_path / "app.log").stat().st_size)
    behind = [beat.backlog for beat in said(producer)]
    assert [each for each in behind if 0 < each < behind[0]]  # from the midst of it
    assert behind[-1] == 0


async def test_the_status_holds_the_same(tmp_path):
    append(tmp_path / "app.log", b"one\n" * 100)
    producer = telling(tmp_path, "*.log")
    async with producer.running():
        await becomes(lambda: said(producer))
        await becomes(lambda: producer.pipeline.status()["acknowledged_bytes"] == 400)
        await becomes(lambda: producer.pipeline.status()["unacknowledged_bytes"] == 0)
        status = producer.pipeline.status()
    assert (status["host"], status["files"], status["behind"]) == (HOST, 1, [])


# -- what waits, and for how long --------------------------------------------------------------------------------


class Waiting:
    """Measures the backlog of a host, at times that the test chooses."""

    def __init__(self, host: Host) -> None:
        self.host, self.backlogs = host, BacklogMeter()

    def at(self, now: float):
        self.host.sources.scan()
        return self.backlogs.measure(self.host.sources.readers, self.host.sources.acks.known, str, now)


@pytest.fixture
def waiting(tmp_path):
    host = Host(tmp_path, "*.log")
    yield Waiting(host)
    host.kill()


def test_nothing_waits_where_all_is_acknowledged(waiting, tmp_path):
    append(tmp_path / "a.log", b"one\n")
    waiting.host.ship()
    found = waiting.at(5.0)
    assert (found.octets, found.age, found.files, found.worst) == (0, 0.0, 0, ())


def test_what_is_in_flight_waits_until_it_is_acknowledged(waiting, tmp_path):
    append(tmp_path / "a.log", b"one\n")
    waiting.host.sources.scan()
    waiting.host.read_all()
    assert waiting.at(5.0).octets == 4
    waiting.host.acknowledge()
    assert waiting.at(6.0).octets == 0


def test_the_age_is_that_of_the_oldest_byte_that_waits(waiting, tmp_path):
    append(tmp_path / "a.log", b"one\n")
    assert waiting.at(10.0).age == 0.0
    append(tmp_path / "a.log", b"two\n")
    assert waiting.at(20.0).age == 10.0
    waiting.host.read_all()
    waiting.host.acknowledge()  # both lines
    append(tmp_path / "a.log", b"three\n")
    assert waiting.at(25.0).age == 5.0  # it was written since 20, at the earliest


def test_a_file_that_grows_is_not_idle(waiting, tmp_path):
    append(tmp_path / "a.log", b"x" * 4095 + b"\n" + b"y" * 4095 + b"\n")
    waiting.at(10.0)
    waiting.host.read(4096)
    waiting.host.acknowledge()
    moved = waiting.at(20.0).worst[0]
    stays = waiting.at(30.0).worst[0]
    assert (moved.still, stays.still, stays.age, stays.behind) == (0.0, 10.0, 20.0, 4096)


def test_a_line_that_its_writer_has_yet_to_end_is_in_the_backlog(waiting, tmp_path):
    append(tmp_path / "a.log", b"one\nbegun")
    waiting.host.ship()
    assert waiting.at(100.0).octets == len(b"begun")
    append(tmp_path / "a.log", b" and ended\n")
    assert waiting.at(101.0).octets == len(b"begun and ended\n")


def test_of_many_files_the_worst_are_named(waiting, tmp_path):
    for number in range(30):
        append(tmp_path / f"{number:02}.log", b"x" * number + b"\n")
    found = waiting.at(1.0)
    assert (found.files, found.octets) == (30, sum(range(30)) + 30)
    assert [Path(each.file).name for each in found.worst] == [f"{29 - place}.log" for place in range(MAX_FILES)]


def test_ten_thousand_quiet_files_are_looked_over_in_a_moment():
    import time  # noqa: PLC0415

    tails = [SimpleNamespace(id=str(each), size=100, tip=None, offset=100, file="/f") for each in range(10_000)]
    known = {tail.id: SimpleNamespace(offset=100) for tail in tails}
    backlogs, began = BacklogMeter(), time.process_time()
    for _ in range(10):
        assert backlogs.measure(tails, known, str, 1.0).octets == 0
    assert (time.process_time() - began) / 10 < 0.02
