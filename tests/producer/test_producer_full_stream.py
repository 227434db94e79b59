"""A full stream: its producer waits in the session, answers there, and sends little until it is taken."""

from collections.abc import Callable
from pathlib import Path

import pytest
from harness.waiting import becomes
from producing import HOST, Producer

from producer.session.delivery import Window
from shipper.control import ResendAnswer, ResendReply
from shipper.errors import StreamBusy, StreamFull
from shipper.model import Encoding
from shipper.subjects import control_down
from shipper.testing import MemoryPublisher

LINES = b"".join(b"%07d\n" % number for number in range(8000))
BLOCK = 4000


class Blocked:
    """A producer of one file whose stream has taken two blocks of it and has no space for another."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "app.log"
        self.path.write_bytes(LINES)
        self.producer = Producer(directory, "app.log", encoding=Encoding.IDENTITY, block=BLOCK)
        self.stream = self.producer.stream
        self.stream.max_bytes = 10_000

    @property
    def trouble(self) -> str:
        return self.producer.pipeline.ready()

    async def is_waiting(self) -> None:
        await becomes(lambda: len(self.stream) >= 2)  # or three: a small one may fit after a refused one
        await self.has_no_room()

    async def has_no_room(self) -> None:
        await becomes(lambda: "is full" in self.trouble)

    async def ask(self, start: int, source: str = "") -> object:
        source = source or next(iter(self.producer.archived().files))
        question = {"v": 1, "ask": "resend", "source": source, "from": start}
        return await self.producer.bus.ask(control_down(HOST), question, 1.0)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shipper.retry.FULL._wait", lambda _: 0.01)


async def test_a_full_stream_costs_no_session_and_nothing_is_left_out(tmp_path: Path, hasty: None) -> None:
    blocked = Blocked(tmp_path)
    async with blocked.producer.running():
        await blocked.is_waiting()
        for more in range(1, 4):
            blocked.stream.max_bytes = 20_000 * more
            await becomes(lambda: len(blocked.stream) >= 4 * more)  # noqa: B023
        await blocked.has_no_room()
        blocked.stream.max_bytes = -1
        await becomes(lambda: blocked.producer.archived().text(blocked.path) == LINES)
        await becomes(lambda: not blocked.trouble)
    assert blocked.producer.sessions == 1
    assert len(blocked.stream) == len(LINES) / BLOCK, "nothing came twice, for nothing was stored behind a refusal"


async def test_what_is_sent_into_a_full_stream_is_one_block_and_not_the_whole_window(
    tmp_path: Path, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    publish, start_over = MemoryPublisher.publish, MemoryPublisher.start_over

    async def counting(self: MemoryPublisher, *arguments: object) -> None:
        sent[-1] += 1
        await publish(self, *arguments)

    def starting_over(self: MemoryPublisher) -> None:
        sent.append(0)
        start_over(self)

    monkeypatch.setattr(MemoryPublisher, "publish", counting)
    monkeypatch.setattr(MemoryPublisher, "start_over", starting_over)
    sent.append(0)
    blocked = Blocked(tmp_path)
    async with blocked.producer.running():
        await becomes(lambda: len(sent) > 5)
        assert sent[0] == len(LINES) / BLOCK
        assert sent[1:5] == [1] * 4
        blocked.stream.max_bytes = -1
        await becomes(lambda: blocked.producer.archived().text(blocked.path) == LINES)


async def test_a_busy_stream_costs_no_session_and_halves_what_is_in_flight(
    tmp_path: Path, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    halved: list[int] = []
    monkeypatch.setattr(Window, "halve", lambda window: halved.append(len(window)))
    producer = Producer(tmp_path, "app.log", encoding=Encoding.IDENTITY, block=BLOCK)
    producer.bus.acks.refuse(3, StreamBusy("too many requests"))
    path = tmp_path / "app.log"
    path.write_bytes(LINES)
    async with producer.running():
        await becomes(lambda: producer.archived().text(path) == LINES)
        await becomes(lambda: not producer.pipeline.ready())
    assert producer.sessions == 1
    assert len(halved) == 1


async def test_a_collector_hears_from_a_waiting_producer_that_what_is_missing_comes_again(tmp_path: Path) -> None:
    blocked = Blocked(tmp_path)
    async with blocked.producer.running():
        await blocked.is_waiting()
        assert await blocked.ask(2 * BLOCK) == ResendReply(ResendAnswer.LASTING).to_json()
        blocked.stream.max_bytes = -1
        await becomes(lambda: blocked.producer.archived().text(blocked.path) == LINES)
    assert blocked.producer.sessions == 1, "what is under way is sent again without being read again"


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["removed", "cut"])
async def test_what_only_memory_has_is_not_given_up_and_no_lasting_promise(
    lose: Callable[[Path], object], tmp_path: Path
) -> None:
    blocked = Blocked(tmp_path)
    blocked.producer.bus.acks.hold()
    async with blocked.producer.running():
        await becomes(lambda: len(blocked.stream) >= 2)
        await becomes(lambda: len(blocked.producer.pipeline.delivery.window) == len(LINES) / BLOCK)
        lose(blocked.path)
        await becomes(lambda: len(blocked.producer.pipeline.delivery.window) > len(LINES) / BLOCK)  # the farewell
        blocked.producer.bus.acks.release()
        await blocked.is_waiting()
        assert await blocked.ask(2 * BLOCK) == ResendReply(ResendAnswer.RESENT).to_json()
        blocked.stream.max_bytes = -1
        await becomes(lambda: blocked.producer.archived().text(blocked.path) == LINES)


async def test_what_died_with_its_producer_and_its_file_is_gone(tmp_path: Path) -> None:
    blocked = Blocked(tmp_path)
    blocked.producer.options["drain_within"] = 0.1
    async with blocked.producer.running():
        await blocked.is_waiting()
    elsewhere = tmp_path / "elsewhere" / "deep"  # where no rotation puts it
    elsewhere.mkdir(parents=True)
    blocked.path.rename(elsewhere / "app.log")  # removed: but its inode is not given to another file
    blocked.stream.max_bytes = -1
    before = len(blocked.stream)
    async with blocked.producer.running():
        await becomes(lambda: len(blocked.stream) > before)
        assert "Log-Gap" in list(blocked.stream)[-1].headers
        assert await blocked.ask(2 * BLOCK) == ResendReply(ResendAnswer.GONE).to_json()


async def test_what_only_memory_has_is_sent_before_a_collector_gets_acknowledged_bytes_again(tmp_path: Path) -> None:
    blocked = Blocked(tmp_path)
    other = tmp_path / "other.log"
    other.write_bytes(LINES)
    blocked.producer.patterns.append(str(other))
    blocked.producer.bus.acks.hold()
    async with blocked.producer.running():
        await becomes(lambda: len(blocked.stream) >= 2)
        known = blocked.producer.pipeline.delivery.tailer.acks.known
        blocked.path.write_bytes(b"new\n")
        await becomes(lambda: len(known) == 3)
        blocked.producer.bus.acks.release()
        await blocked.is_waiting()
        files = {file: source for source, file in blocked.producer.archived().files.items()}
        assert await blocked.ask(BLOCK, files[str(blocked.path)]) == ResendReply(ResendAnswer.RESENT).to_json()
        assert await blocked.ask(0, files[str(other)]) == ResendReply(ResendAnswer.LASTING).to_json()
        blocked.stream.max_bytes = -1
        await becomes(lambda: blocked.producer.sessions == 2)
        await becomes(lambda: blocked.producer.archived().text(other) == LINES)
        await becomes(lambda: blocked.producer.archived().text(blocked.path) == LINES + b"new\n")
    assert not any("Log-Gap" in message.headers for message in blocked.stream)


async def test_acknowledged_bytes_that_are_requested_are_sent_again_before_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shipper.retry.FULL._wait", lambda _: 3600.0)
    blocked = Blocked(tmp_path)
    async with blocked.producer.running():
        await blocked.is_waiting()
        blocked.stream.purge(2)
        blocked.stream.max_bytes = -1
        assert await blocked.ask(0) == ResendReply(ResendAnswer.LASTING).to_json()
        await becomes(lambda: blocked.producer.archived().text(blocked.path) == LINES)
    spans = [message.headers["Log-Span"] for message in blocked.stream]
    assert spans[:3] == ["4000-8000", "0-4000", "4000-8000"]


async def test_a_producer_that_waits_for_room_ends_when_it_is_requested_to(tmp_path: Path) -> None:
    blocked = Blocked(tmp_path)
    blocked.producer.options["drain_within"] = 0.3
    async with blocked.producer.running():
        await blocked.is_waiting()
    blocked.stream.max_bytes = -1
    blocked.producer.options["once"] = True
    await blocked.producer.run()
    assert blocked.producer.archived().text(blocked.path) == LINES


async def test_a_session_that_is_lost_while_it_waits_is_followed_by_another(tmp_path: Path, hasty: None) -> None:
    blocked = Blocked(tmp_path)
    async with blocked.producer.running():
        await blocked.is_waiting()
        blocked.producer.bus.end_sessions()
        await becomes(lambda: blocked.producer.sessions == 2)
        await blocked.is_waiting()
        blocked.stream.max_bytes = -1
        await becomes(lambda: blocked.producer.archived().text(blocked.path) == LINES)


async def test_a_single_refusal_costs_no_session(tmp_path: Path, hasty: None) -> None:
    producer = Producer(tmp_path, "app.log")
    (tmp_path / "app.log").write_bytes(LINES)
    producer.bus.acks.refuse(1, StreamFull())
    async with producer.running():
        await becomes(lambda: producer.archived().text(tmp_path / "app.log") == LINES)
        assert producer.sessions == 1
