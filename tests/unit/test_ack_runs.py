"""Acks that are read in runs count as if they were read one by one, refusals in between too."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from shipper.errors import SessionLost, StreamBusy
from shipper.jetstream.fast_client import Message
from shipper.jetstream.publisher import TOO_MANY_REQUESTS, JetStreamPublisher
from shipper.model import LineMessages

INBOX, SID, STREAM = "_INBOX_web1.x", 2, "LOGS_0"


class Wire:
    """A connection on which the test is the server."""

    def __init__(self) -> None:
        self.client = self
        self.reason = ""
        self.read_run: Callable[[bytearray, int, int], int] = lambda *_: 0

    def new_inbox(self) -> str:
        return INBOX

    async def subscribe_direct(self, _subject: str, handler: Callable[[Message], None]) -> SimpleNamespace:
        self.handler = handler
        return SimpleNamespace(_id=SID)

    def read_runs_by(self, read_run: Callable[[bytearray, int, int], int]) -> None:
        self.read_run = read_run

    async def publish_lines(self, *_: object) -> None:
        pass

    def session_errors(self) -> nullcontext[None]:
        return nullcontext()

    def check(self) -> None:
        pass

    def acks(self, *numbers: int, attempt: int = 0, sequences: int = 10) -> int:
        """Acks of these messages arrive together. Returns how many bytes were read of them."""
        text = b"".join(
            b'MSG %s.%d-%d %d 30\r\n{"stream":"%s", "seq":%d}\r\n'
            % (INBOX.encode(), attempt, number, SID, STREAM.encode(), sequences + number)
            for number in numbers
        )
        return len(text) - self.read_run(bytearray(text + b"PING\r\n"), 0, len(text) + 6)

    def refuse(self, number: int) -> None:
        """One message is refused: the stream is busy."""
        error = b'{"error":{"code":503,"err_code":%d,"description":"too many"},"stream":"LOGS_0"}' % TOO_MANY_REQUESTS
        self.handler(Message(None, f"{INBOX}.0-{number}", "", error, None))  # type: ignore[arg-type]


def lines(count: int) -> LineMessages:
    return LineMessages({}, [b"\r\n"] * count, [b"x"] * count)


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def begun(wire: Wire) -> JetStreamPublisher:
    """A session that has sent ten lines, and ten lines."""
    session = JetStreamPublisher(wire, STREAM)  # type: ignore[arg-type]
    await session._replies.open()
    for token in (7, 8):
        await session.publish_lines(token, "logs.p0.web1", lines(10))
    return session


async def test_a_call_is_acknowledged_with_its_last_message(wire: Wire) -> None:
    session = await begun(wire)
    assert wire.acks(*range(1, 10)) == 0
    assert session.acknowledged() == []
    assert wire.acks(*range(10, 21)) == 0
    assert [(ack.token, ack.sequence) for ack in session.acknowledged()] == [(7, 20), (8, 30)]


async def test_a_refusal_counts_after_the_acks_before_it_and_before_those_after_it(wire: Wire) -> None:
    session = await begun(wire)
    wire.refuse(13)
    wire.acks(*range(1, 13), *range(14, 21))
    assert [ack.token for ack in session.acknowledged()] == [7]
    with pytest.raises(StreamBusy):
        session.acknowledged()
    session.start_over()
    wire.acks(13)  # of the attempt before
    await session.publish_lines(8, "logs.p0.web1", lines(3))
    wire.acks(21, 22, 23, attempt=1)
    assert [ack.token for ack in session.acknowledged()] == [8]


@pytest.mark.parametrize("numbers", [(1, 3), (2,), (1, 1)])
async def test_acks_out_of_order_end_the_session(numbers: tuple[int, ...], wire: Wire) -> None:
    session = await begun(wire)
    wire.acks(*numbers)
    with pytest.raises(SessionLost, match="out of order"):
        session.acknowledged()


async def test_a_sequence_that_goes_back_ends_the_session(wire: Wire) -> None:
    session = await begun(wire)
    wire.acks(1, 2)
    wire.acks(3, sequences=0)
    with pytest.raises(SessionLost, match="went back"):
        session.acknowledged()
