import asyncio
import random

import pytest

from shipper.jetstream.protocol_filter import FIRST_BYTES, MOST_BYTES, ProtocolFilter, RawMessage

DIRECT, OTHER = 7, 8


class Way(asyncio.StreamReaderProtocol):
    """What nats-py would get."""

    def __init__(self) -> None:
        self.octets = b""

    def data_received(self, data: bytes) -> None:
        self.octets += data


@pytest.fixture
def way() -> Way:
    return Way()


@pytest.fixture
def taken() -> list[RawMessage]:
    return []


@pytest.fixture
def sieve(way: Way, taken: list[RawMessage]) -> ProtocolFilter:
    return ProtocolFilter(way, {DIRECT}.__contains__, taken.append)


def hmsg(
    payload: bytes, *, sid: int = DIRECT, reply: bytes = b"ack.1", headers: bytes = b"NATS/1.0\r\nA: b\r\n\r\n"
) -> bytes:
    words = [b"HMSG", b"a.b", b"%d" % sid, *filter(None, [reply]), b"%d" % len(headers)]
    return b" ".join([*words, b"%d\r\n" % (len(headers) + len(payload))]) + headers + payload + b"\r\n"


def msg(payload: bytes, *, sid: int = DIRECT, reply: bytes = b"") -> bytes:
    words = [b"MSG", b"a.b", b"%d" % sid, *filter(None, [reply])]
    return b" ".join([*words, b"%d\r\n" % len(payload)]) + payload + b"\r\n"


def test_messages_are_the_same_wherever_the_stream_is_cut(
    sieve: ProtocolFilter, way: Way, taken: list[RawMessage]
) -> None:
    others = [
        b"PING\r\n",
        msg(b"MSG a.b 7 3\r\nabc\r\n", sid=OTHER),
        b"-ERR 'x'\r\n",
        hmsg(b"y", sid=OTHER),
        b"PONG\r\n",
    ]
    wanted = [
        hmsg(b"one\r\n"),
        msg(b""),
        hmsg(b"", reply=b""),
        msg(b"HMSG a.b 7 1 1\r\n", reply=b"r"),
        hmsg(b"z" * 9000),
    ]
    stream = b"".join(wanted[i] + others[i] for i in range(5))
    dice = random.Random(5)
    for _ in range(200):
        at = 0
        while at < len(stream):
            step = dice.choice([1, 3, 40, 5000])
            sieve.put(stream[at : at + step])
            at += step
    assert way.octets == b"".join(others) * 200
    assert taken[:5] == [
        RawMessage(DIRECT, b"a.b", b"ack.1", b"NATS/1.0\r\nA: b\r\n\r\n", b"one\r\n"),
        RawMessage(DIRECT, b"a.b", b"", b"", b""),
        RawMessage(DIRECT, b"a.b", b"", b"NATS/1.0\r\nA: b\r\n\r\n", b""),
        RawMessage(DIRECT, b"a.b", b"r", b"", b"HMSG a.b 7 1 1\r\n"),
        RawMessage(DIRECT, b"a.b", b"ack.1", b"NATS/1.0\r\nA: b\r\n\r\n", b"z" * 9000),
    ]
    assert taken == taken[:5] * 200


@pytest.mark.parametrize("size", [FIRST_BYTES - 1, FIRST_BYTES, MOST_BYTES, 3 * MOST_BYTES + 1])
def test_a_message_may_be_larger_than_what_is_received_at_a_time(
    size: int, sieve: ProtocolFilter, way: Way, taken: list[RawMessage]
) -> None:
    payload = random.Random(size).randbytes(size)
    sieve.put(hmsg(payload) + msg(payload, sid=OTHER) + msg(b"x"))
    assert [arrived.payload for arrived in taken] == [payload, b"x"]
    assert way.octets == msg(payload, sid=OTHER)


@pytest.mark.parametrize(
    "line", [b"MSG a.b 7 many\r\n", b"MSG\r\n", b"HMSG a.b 7 x 3\r\nabc\r\n", b"\r\n", b"WHAT\r\n"]
)
def test_what_is_not_understood_is_left_to_nats_py(
    line: bytes, sieve: ProtocolFilter, way: Way, taken: list[RawMessage]
) -> None:
    sieve.put(line)
    assert (way.octets, taken) == (line, [])


def test_nats_py_detects_the_end_of_the_connection(
    sieve: ProtocolFilter, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []
    for name in ("eof_received", "pause_writing", "resume_writing"):
        monkeypatch.setattr(way, name, lambda name=name: heard.append(name))
    monkeypatch.setattr(way, "connection_lost", heard.append)
    error = ConnectionResetError()
    sieve.pause_writing()
    sieve.resume_writing()
    sieve.eof_received()
    sieve.connection_lost(error)
    assert heard == ["pause_writing", "resume_writing", "eof_received", error]
