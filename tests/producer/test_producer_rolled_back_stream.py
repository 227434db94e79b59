"""A server that comes back with less than it acknowledged: its newest message and the receipts prove what is gone."""

import asyncio
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from harness.waiting import becomes
from producing import HOST, SUBJECT, Archive, Collector, Producer, append, archive_of, take_all

from producer.checkpoint.store import Checkpoints
from producer.fingerprint import Mark
from producer.model import Point, Source
from producer.receipts import surviving
from producer.session import delivery_check
from producer.session.control import archived_elsewhere
from producer.tailer.retained_files import Bounds, RetainedFiles
from shipper.control import ResendAnswer, ResendReply, ResendRequest
from shipper.model import End, Stored
from shipper.subjects import control_down

LINES = b"".join(b"%d %s\n" % (number, b"x" * 60) for number in range(1000))


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shipper.retry.SESSION._wait", lambda _: 0.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector gets a request immediately for what is acknowledged and not archived."""
    monkeypatch.setattr(delivery_check, "LATE_SECONDS", 0.02)
    monkeypatch.setattr(delivery_check, "AT_MOST_SECONDS", 0.02)


class Shipped:
    """A producer whose file is shipped, and the archive of a collector that has read all of the stream."""

    def __init__(self, directory: Path, **options: object) -> None:
        self.path = directory / "app.log"
        self.path.write_bytes(LINES)
        self.producer = Producer(directory, "app.log", block=4096, **options)
        self.archive = Archive(holes=True)

    @property
    def stream(self) -> object:
        return self.producer.stream

    def collect(self) -> Archive:
        take_all(self.archive, list(self.producer.stream))
        return self.archive

    def in_stream(self) -> bytes:
        return archive_of(list(self.producer.stream)).text(self.path)

    async def shipped(self) -> None:
        await becomes(lambda: self.in_stream() == self.path.read_bytes())
        await becomes(lambda: not len(self.producer.pipeline.delivery.window))


async def test_a_rolled_back_stream_that_others_filled_further_than_before_gets_the_lost_blocks_again(
    tmp_path: Path,
) -> None:
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        shipped.stream.forget_last(5)
        for _ in range(50):
            shipped.producer.bus.store("logs.p0.web2.example.net", {}, b"another host")
        shipped.producer.bus.end_sessions("power failed")
        await becomes(lambda: archive_of([m for m in shipped.stream if m.headers]).text(shipped.path) == LINES)


async def test_a_message_of_another_client_on_the_own_subject_hides_no_loss(tmp_path: Path, impatient: None) -> None:
    """A plain line, or a requeued dead letter, is after the lost one: the receipts show that it is missing."""
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        shipped.stream.forget_last(5)
        for _ in range(50):
            shipped.producer.bus.store(SUBJECT, {}, b"plain")
        archive = archive_of([m for m in shipped.stream if m.headers])
        shipped.producer.bus.end_sessions("power failed")
        Collector(shipped.producer.bus, archive)
        await becomes(lambda: archive_of([m for m in shipped.stream if m.headers]).text(shipped.path) == LINES)


async def test_the_same_is_found_by_the_next_process(tmp_path: Path, impatient: None) -> None:
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
    shipped.stream.forget_last(1000)
    for _ in range(50):
        shipped.producer.bus.store(SUBJECT, {}, b"plain")
    Collector(shipped.producer.bus, Archive())
    async with shipped.producer.running():
        await becomes(lambda: archive_of([m for m in shipped.stream if m.headers]).text(shipped.path) == LINES)


async def test_a_stream_that_was_created_again_during_a_session_gets_everything(tmp_path: Path) -> None:
    """The blocks that were in flight just then take the first sequences, as the very first ones had."""
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        shipped.stream.recreate()
        append(shipped.path, LINES)
        await shipped.shipped()


async def test_a_stream_created_again_and_filled_by_others_is_noticed_by_the_receipts(
    tmp_path: Path, impatient: None
) -> None:
    """The session lives on, sequences grow: only the missing bytes in the archive show it."""
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        shipped.stream.recreate()
        for _ in range(100):
            shipped.producer.bus.store("logs.p0.web2.example.net", {}, b"another host")
        append(shipped.path, b"more\n")
        Collector(shipped.producer.bus, Archive())
        await becomes(
            lambda: archive_of([m for m in shipped.stream if m.headers]).text(shipped.path) == LINES + b"more\n"
        )


async def test_a_purged_stream_of_an_archived_host_sends_nothing_again(tmp_path: Path, impatient: None) -> None:
    shipped = Shipped(tmp_path)
    collector = Collector(shipped.producer.bus, shipped.archive)
    async with shipped.producer.running():
        await shipped.shipped()
        shipped.collect()
        shipped.stream.purge(1 << 40)
        await becomes(lambda: collector.questions)
        shipped.producer.bus.end_sessions("restarted")
        await becomes(lambda: shipped.producer.pipeline.status()["unarchived_bytes"] == 0)
        collector.questions.clear()
        append(shipped.path, b"more\n")
        await becomes(lambda: len(shipped.stream))
    assert [message.headers["Log-Span"] for message in shipped.stream] == [f"{len(LINES)}-{len(LINES) + 5}"]


async def test_without_a_collector_a_purged_stream_is_no_reason_to_send_what_its_marks_say_is_archived(
    tmp_path: Path,
) -> None:
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        collector = Collector(shipped.producer.bus, shipped.collect())
        collector.tell()
        await becomes(lambda: shipped.producer.pipeline.status()["unarchived_bytes"] == 0)
    await collector.session.close()
    shipped.stream.purge(1 << 40)
    await shipped.producer.ship_once()
    assert not len(shipped.stream)


@pytest.mark.parametrize("between", ["nothing", "a restart"])
async def test_server_and_archive_that_were_restored_together_get_what_both_lack(
    between: str, tmp_path: Path, impatient: None
) -> None:
    """The collector comes up after the producer: marks are trusted for a while, then its word counts."""
    shipped = Shipped(tmp_path)
    half = Archive(holes=True)
    async with shipped.producer.running():
        await shipped.shipped()
        take_all(half, list(shipped.stream)[: len(shipped.stream) // 2])
        collector = Collector(shipped.producer.bus, shipped.collect())
        collector.tell()
        await becomes(lambda: shipped.producer.pipeline.status()["unarchived_bytes"] == 0)
        await collector.session.close()
        shipped.stream.recreate()
        sessions = shipped.producer.sessions
        shipped.producer.bus.end_sessions("restored from a copy")
        await becomes(lambda: shipped.producer.sessions > sessions and not shipped.producer.pipeline.ready())
        assert not len(shipped.stream)
        if between == "nothing":
            Collector(shipped.producer.bus, half)
            await shipped_to(half, shipped)
    if between == "a restart":
        Collector(shipped.producer.bus, half)
        async with shipped.producer.running():
            await shipped_to(half, shipped)
    (source,) = Checkpoints(tmp_path / "checkpoint.sqlite").load()
    assert not source.trusted


async def shipped_to(archive: Archive, shipped: Shipped) -> None:
    def whole() -> bool:
        take_all(archive, list(shipped.stream))
        return archive.text(shipped.path) == LINES

    await becomes(whole)


async def test_a_mark_of_an_archive_that_went_back_with_the_server_is_not_believed(tmp_path: Path) -> None:
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        half = Archive(holes=True)
        take_all(half, list(shipped.stream)[: len(shipped.stream) // 2])
        collector = Collector(shipped.producer.bus, shipped.collect())
        collector.tell()
        await becomes(lambda: shipped.producer.pipeline.status()["unarchived_bytes"] == 0)
        collector.archive = half
        shipped.stream.recreate()
        shipped.producer.bus.end_sessions("restored from a copy")
        await becomes(lambda: len(shipped.stream))
        await shipped_to(half, shipped)


async def test_what_the_server_lost_and_no_file_has_any_more_is_a_gap_of_exactly_these_bytes(tmp_path: Path) -> None:
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        take_all(shipped.archive, list(shipped.stream)[:7])
        archived = len(shipped.archive.text(shipped.path))
        shipped.path.unlink()
        await becomes(lambda: End.DELETED in archive_of(list(shipped.stream)).ends.values())
        await becomes(lambda: not any(shipped.producer.pipeline.delivery.tailer.readers))
        shipped.stream.forget_last(10)
        shipped.producer.bus.end_sessions("power failed")
        await becomes(lambda: End.DELETED in archive_of(list(shipped.stream)).ends.values())
    shipped.collect()
    kept = len(shipped.archive.text(shipped.path))
    assert archived <= kept < len(LINES)
    assert shipped.archive.lost(shipped.path) == len(LINES) - kept


async def test_a_lost_end_that_reported_a_gap_is_reported_again(tmp_path: Path) -> None:
    """All bytes are archived, the last word of their source is not: that some of the file was never read."""
    shipped = Shipped(tmp_path)
    shipped.path.write_bytes(b"")
    async with shipped.producer.running():
        append(shipped.path, LINES)
        await shipped.shipped()
        shipped.path.write_bytes(b"x\n")
        await becomes(lambda: End.TRUNCATED in archive_of(list(shipped.stream)).ends.values())
        acks = shipped.producer.pipeline.delivery.tailer.acks
        await becomes(lambda: any(each.ended_at for each in acks.known.values()))
        (ended,) = [each for each in acks.known.values() if each.ended_at]
        acks.change(replace(ended, size=ended.offset + 100))  # as if more had been seen before it was cut
        await becomes(lambda: not acks.has_unsaved)
        before = [message for message in shipped.stream if "Log-End" not in message.headers]
        take_all(shipped.archive, before)
        Collector(shipped.producer.bus, shipped.archive)
        shipped.stream.recreate()
        shipped.producer.bus.end_sessions("restored")
        await becomes(lambda: any("Log-End" in message.headers for message in shipped.stream))
        shipped.collect()
    assert shipped.archive.lost(shipped.path) == 100


async def test_a_deleted_file_that_is_held_is_sent_again_from_its_descriptor(tmp_path: Path) -> None:
    held = RetainedFiles(Bounds(1 << 20, 3600.0))
    shipped = Shipped(tmp_path, retained=held)
    async with shipped.producer.running():
        await shipped.shipped()
        shipped.path.rename(tmp_path / "app.log.1")
        shipped.path.write_bytes(b"the next generation\n")
        await becomes(lambda: End.ROTATED in archive_of(list(shipped.stream)).ends.values())
        await becomes(lambda: len(held) == 1)
        (tmp_path / "app.log.1").unlink()
        shipped.stream.recreate()
        shipped.producer.bus.end_sessions("power failed")
        whole = LINES + b"the next generation\n"
        await becomes(lambda: shipped.in_stream() == whole)
        await becomes(lambda: len(archive_of(list(shipped.stream)).ends) == 1)
        assert not archive_of(list(shipped.stream)).gaps
        await becomes(lambda: len(list(shipped.producer.pipeline.delivery.tailer.readers)) == 1)
        assert len(held) == 1
        Collector(shipped.producer.bus, shipped.collect()).tell()
        await becomes(lambda: not len(held))
    held.close()


async def test_a_collector_that_requests_bytes_of_a_deleted_file_gets_them_as_long_as_it_is_held(
    tmp_path: Path,
) -> None:
    held = RetainedFiles(Bounds(1 << 20, 3600.0))
    shipped = Shipped(tmp_path, retained=held)
    async with shipped.producer.running():
        await shipped.shipped()
        (source,) = archive_of(list(shipped.stream)).files
        shipped.path.unlink()
        await becomes(lambda: len(held) == 1)
        asked = {"v": 1, "ask": "resend", "source": source, "from": 4096}
        shipped.stream.delete(2)
        assert await ask(shipped, asked) == {"v": 1, "answer": "resent"}
        await becomes(lambda: archive_of(list(shipped.stream)).text(shipped.path) == LINES)
        await becomes(lambda: not any(shipped.producer.pipeline.delivery.tailer.readers))
        held.bounds = Bounds()
        held.settle(shipped.producer.pipeline.delivery.tailer.acks.known)
        assert await ask(shipped, asked) == {"v": 1, "answer": "gone"}


async def test_a_collector_is_notified_of_what_another_archive_holds_and_gets_what_its_own_has_lost(
    tmp_path: Path,
) -> None:
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        (source,) = archive_of(list(shipped.stream)).files
        take_all(shipped.archive, list(shipped.stream)[:5])
        Collector(shipped.producer.bus, shipped.archive, name="one").tell()
        watermark = shipped.archive.watermarks[source]
        await becomes(lambda: shipped.producer.pipeline.delivery.tailer.acks.known[source].archived == watermark)
        asked = {"v": 1, "ask": "resend", "source": source, "from": 100}
        answer = await ask(shipped, asked | {"archive": "two"})
        assert answer == {"v": 1, "answer": "archived", "watermark": watermark}
        for question in (asked, asked | {"archive": "one"}, asked | {"archive": "two", "from": watermark}):
            assert await ask(shipped, question) == {"v": 1, "answer": "resent", "lasting": True}


@pytest.mark.parametrize(
    ("archives", "asks", "start", "watermark"),
    [
        ({"one": 100}, "two", 50, 100),
        ({"one": 100}, "two", 100, None),  # no archive has more
        ({"one": 100, "two": 200}, "one", 150, 200),  # it moved on to another archive
        ({"one": 100, "two": 200}, "one", 50, None),  # and the first one has lost what only it had
        ({"one": 100}, "", 50, None),
    ],
)
def test_what_another_archive_holds_counts_only_after_what_the_own_one_held(
    archives: dict[str, int], asks: str, start: int, watermark: int | None
) -> None:
    source = known(*RING)["a" * 16]
    for archive, offset in archives.items():
        source = source.in_archive(archive, offset)
    answer = archived_elsewhere(ResendRequest(source.id, start, asks), source)
    assert answer == (None if watermark is None else ResendReply(ResendAnswer.ARCHIVED, watermark))


async def ask(shipped: Shipped, question: dict[str, object]) -> object:
    """The reply to a request, which may have to be repeated while a session ends."""
    async with asyncio.timeout(15):
        while (answer := await shipped.producer.bus.ask(control_down(HOST), question, 1.0)) is None:
            await asyncio.sleep(0.005)
    return answer


async def test_marks_contain_every_source_and_survive_a_restart(tmp_path: Path) -> None:
    shipped = Shipped(tmp_path)
    async with shipped.producer.running():
        await shipped.shipped()
        take_all(shipped.archive, list(shipped.stream)[:5])
        (source,) = shipped.archive.files
        collector = Collector(shipped.producer.bus, shipped.archive)
        collector.tell()
        watermark = shipped.archive.watermarks[source]
        await becomes(lambda: shipped.producer.pipeline.delivery.tailer.acks.known[source].archived == watermark)
        assert shipped.producer.pipeline.status()["unarchived_bytes"] == len(LINES) - watermark
        mark = {"source": source, "file": str(shipped.path), "origin": 0, "offset": len(LINES), "size": len(LINES)}
        mark["crc"] = zlib.crc32(LINES)
        for more, archived, elsewhere in (
            ({}, watermark, 0),
            ({"archive": "a1"}, watermark, 0),
            ({"archive": "another"}, 0, watermark),
        ):
            told = await ask(shipped, {"v": 1, "ask": "marks"} | more)
            there = {"archived": archived, "elsewhere": elsewhere, "ended": False}
            assert told == {"v": 1, "marks": [mark | there]}
        take_all(shipped.archive, list(shipped.stream))
        collector.crc = 12345  # cannot be: the source has another sum there
        collector.tell()
        for _ in range(50):
            await asyncio.sleep(0)
        assert shipped.producer.pipeline.delivery.tailer.acks.known[source].archived == watermark
        shipped.archive.watermarks[source] = 10
        collector.tell()
    assert [each.archived for each in Checkpoints(tmp_path / "checkpoint.sqlite").load()] == [watermark]


# -- the newest message of a host ---------------------------------------------------------------------------------


def message(sequence: int, source: str = "a" * 16, *, end: int = 0, crc: int = 0, plain: bool = False) -> Stored:
    headers = {} if plain else {"Log-Id": source, "Log-File": "/f", "Log-Span": f"0-{end}", "Log-Origin": "0"}
    more = {} if plain else {"Log-Lines": "1", "Log-Crc": f"{0:08x}-{crc:08x}"}
    return Stored(sequence, 0, SUBJECT, headers | more, b"")


def known(*ring: Point) -> dict[str, Source]:
    last = ring[-1]
    source = Source(
        id="a" * 16,
        file="/f",
        device=1,
        inode=2,
        origin=0,
        offset=last.offset,
        crc=last.crc,
        mark=Mark(),
        size=0,
        mtime_ns=0,
        ring=ring,
    )
    return {source.id: source}


RING = (Point(10, 100, 1), Point(20, 200, 2), Point(30, 300, 3))


@pytest.mark.parametrize(
    ("newest", "survives"),
    [
        (None, 0),
        (message(30, end=300, crc=3), 30),  # all is there
        (message(35, end=400, crc=4), 35),  # and a block whose ack was lost
        (message(35, end=300, crc=3), 35),  # the same block once more
        (message(20, end=200, crc=2), 20),  # rolled back
        (message(15, end=150, crc=9), 15),  # to a point that is not remembered
        (message(30, end=250, crc=9), 0),  # another block at the place of one of ours
        (message(30, end=300, crc=9), 0),  # the same place, other bytes
        (message(35, end=250, crc=9), 0),  # after ours, and yet older
        (message(15, end=250, crc=9), 0),  # before ours, and yet younger: a stream that began anew
        (message(15, "b" * 16, end=10), 0),  # of an unknown source
        (message(15, plain=True), 0),
        (message(35, "b" * 16, end=10), 35),
        (message(35, plain=True), 35),
    ],
)
def test_the_newest_message_proves_how_much_of_the_stream_survived(newest: Stored | None, survives: int) -> None:
    assert surviving(newest, known(*RING)) == survives


def test_what_was_acknowledged_was_there_whatever_the_last_scan_found() -> None:
    there = replace(known(*RING)["a" * 16], size=50)
    assert there.rewound(sequence=20, archived=0).size == there.back_to(0).size == 300


def test_what_was_archived_when_the_stream_lost_it_needs_no_stream() -> None:
    there = known(Point(10, 100, 1), Point(0, 200, 2), Point(30, 300, 3))["a" * 16]
    assert surviving(message(35, end=400, crc=4), {there.id: there}) == 35
    assert there.rewound(sequence=20, archived=200).offset == 200
    assert there.rewound(sequence=20, archived=0).offset == 100
    back = there.rewound(sequence=5, archived=300)
    assert (back.offset, back.sequence, back.settled) == (300, 0, 300)
    assert back.rewound(sequence=0, archived=250).offset == 200
