"""Reads runs of one-line messages out of what a socket received, and puts each run together as one delivery.

Line mode sends a message a line, and any client may publish plain messages. Parsing each of them alone takes five times
as long as writing it. A run is consecutive messages of one subject that differ only in their place and line, stored in
the same second. Its lines become one block with the same content: the spans follow each other, and every CRC-32 is
checked. Messages that do not fit together are delivered one by one.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from operator import lt
from typing import NamedTuple

from shipper.bytes_ops import crc32
from shipper.jetstream.fast_client import parse_headers
from shipper.model import MAX_BLOCK_BYTES, Delivery, Run

MOST_MESSAGES = 4096
"""Maximum messages of a run."""
FEWEST_MESSAGES = 16
"""Minimum messages of a run. Fewer are delivered one by one, which costs little."""
_FIRST_LINE = (
    rb" ([^ \r\n]+) (\d{1,18}) (\$JS\.ACK\.[^. \r\n]+\.[^. \r\n]+\.\d+"
    rb"\.(\d{1,18})\.(\d{1,18})\.(\d{1,18})(\d{9})\.(\d{1,18})) "
)
_LINE = rb"([^\n]*)\r\n"
_PLAIN = re.compile(rb"MSG" + _FIRST_LINE + rb"(\d{1,9})\r\n" + _LINE)
_BLOCK = re.compile(rb"HMSG" + _FIRST_LINE + rb"(\d{1,9}) (\d{1,9})\r\n")
_SHARED_BEGIN, _SHARED_END = b"NATS/1.0\r\nLog-Id: ", b"Log-Span: "
_IS_LINE = b"\r\nLog-Encoding: plain\r\n"
_PLACE = re.compile(rb"(Log-Span: (\d{1,18})-(\d{1,18})\r\nLog-Crc: ([0-9a-f]{8})-([0-9a-f]{8})\r\n\r\n)" + _LINE)
MOST_SHARED_BYTES = 2048
"""Maximum bytes in which shared headers are searched: blocks, which have none, pass in a microsecond."""
_ALLOWED = frozenset(
    {"Log-Id", "Log-File", "Log-Origin", "Log-Lines", "Log-Time", "Log-Map", "Log-Encoding", "Log-Labels"}
    | {"Log-Handoff", "Shipper-Zone"}
)
"""The headers that all lines of a run share. With others, such as edits or the end of a source, a message is alone."""


class Arrived(NamedTuple):
    """A delivery with the consumer sequences of its messages."""

    delivery: Delivery
    first: int
    last: int


class _LineMessage(NamedTuple):
    """One message as it is in the buffer."""

    subject: bytes
    reply: bytes
    sequence: bytes
    consumer_sequence: bytes
    second: bytes
    fraction: bytes  #: nine digits
    pending: bytes
    line: bytes
    shared: bytes = b""  #: headers that the messages of a run have in common; empty: a plain message
    place: bytes = b""  #: the other headers
    start: bytes = b""
    end: bytes = b""
    block_crc: bytes = b""
    source_crc: bytes = b""

    @property
    def time_ns(self) -> int:
        """When the server stored it."""
        return int(self.second + self.fraction)


_Read = Callable[[bytearray, int, int], Iterator[tuple[_LineMessage, bytes, int]]]


def read_runs(buffer: bytearray, begin: int, end: int, sid: int) -> tuple[list[Arrived], int]:
    """The deliveries of subscription `sid` that begin at `begin`, and where they end.

    None, and `begin`, where the next message is no one-line message, or not all of it is there.
    """
    is_plain = buffer.startswith(b"MSG ", begin)
    if not is_plain and buffer.find(_IS_LINE, begin, min(end, begin + MOST_SHARED_BYTES)) < 0:
        return [], begin
    messages, at = _messages(_plain_messages if is_plain else _block_messages, buffer, begin, end, b"%d" % sid)
    arrived: list[Arrived] = []
    for _, group in itertools.groupby(messages, key=lambda each: (each.subject, each.second, each.shared)):
        arrived += _deliveries(list(group))
    return arrived, at


def _messages(read: _Read, buffer: bytearray, begin: int, end: int, sid: bytes) -> tuple[list[_LineMessage], int]:
    """The messages of `sid` from `begin` on that may be a run, and where they end."""
    found: list[_LineMessage] = []
    size = 0
    for message, of, after in read(buffer, begin, end):
        size += len(message.line) + 1
        if of != sid or size > MAX_BLOCK_BYTES or len(found) >= MOST_MESSAGES:
            break
        found.append(message)
        begin = after
    return found, begin


def _plain_messages(buffer: bytearray, at: int, end: int) -> Iterator[tuple[_LineMessage, bytes, int]]:
    """Plain messages with their subscription, and where they end."""
    while found := _PLAIN.match(buffer, at, end):
        subject, sid, reply, sequence, number, second, fraction, pending, total, line = found.groups()
        if int(total) != len(line):
            return
        at = found.end()
        yield _LineMessage(subject, reply, sequence, number, second, fraction, pending, line), sid, at


def _block_messages(buffer: bytearray, at: int, end: int) -> Iterator[tuple[_LineMessage, bytes, int]]:
    """The same of messages in line mode that share all headers but the last two."""
    shared = b""
    while first := _BLOCK.match(buffer, at, end):
        subject, sid, reply, sequence, number, second, fraction, pending, head, total = first.groups()
        begin = first.end()
        if not shared:
            shared_end = buffer.find(_SHARED_END, begin, min(end, begin + MOST_SHARED_BYTES))
            shared = bytes(buffer[begin:shared_end]) if shared_end > 0 else b""
            if not shared.startswith(_SHARED_BEGIN):
                return
        found = _PLACE.match(buffer, begin + len(shared), end) if buffer.startswith(shared, begin) else None
        if found is None:
            return
        place, start, stop, block_crc, source_crc, line = found.groups()
        if int(head) != len(shared) + len(place) or int(total) != int(head) + len(line):
            return
        at = found.end()
        own = (line, shared, place, start, stop, block_crc, source_crc)
        yield _LineMessage(subject, reply, sequence, number, second, fraction, pending, *own), sid, at


def _deliveries(messages: list[_LineMessage]) -> Iterator[Arrived]:
    """One delivery of all messages, if they fit together; else one for each."""
    sequences = [int(each.sequence) for each in messages]
    numbers = [int(each.consumer_sequence) for each in messages]
    if len(messages) >= FEWEST_MESSAGES and _follow(sequences, numbers):
        run = Run(tuple(sequences), tuple(each.time_ns for each in messages))
        together = _block(messages, run) if messages[0].shared else _plain(messages, run)
        if together is not None:
            yield Arrived(together, numbers[0], numbers[-1])
            return
    for message, number in zip(messages, numbers, strict=True):
        headers = parse_headers(message.shared + message.place).fields if message.shared else {}
        yield Arrived(_delivery(message, headers, message.line), number, number)


def _follow(sequences: Sequence[int], numbers: Sequence[int]) -> bool:
    grows = all(map(lt, sequences, sequences[1:]))
    return grows and numbers[-1] - numbers[0] == len(numbers) - 1 and all(map(lt, numbers, numbers[1:]))


def _block(messages: Sequence[_LineMessage], run: Run) -> Delivery | None:
    """The lines of one source as one block. None: they do not follow each other, or a CRC-32 differs."""
    first, last = messages[0], messages[-1]
    shared = _shared(first.shared)
    if shared is None or any(map(_differ, messages, messages[1:])):
        return None
    lines = [each.line + b"\n" for each in messages]
    if any(len(line) != int(each.end) - int(each.start) for line, each in zip(lines, messages, strict=True)):
        return None
    if any(crc32(line) != int(each.block_crc, 16) for line, each in zip(lines, messages, strict=True)):
        return None
    sums = itertools.accumulate(lines[1:], lambda crc, line: crc32(line, crc), initial=int(first.source_crc, 16))
    if any(crc != int(each.source_crc, 16) for crc, each in zip(sums, messages, strict=True)):
        return None
    text = b"".join(lines)
    headers = shared | {
        "Log-Span": f"{int(first.start)}-{int(last.end)}",
        "Log-Lines": str(len(lines)),
        "Log-Crc": f"{crc32(text):08x}-{last.source_crc.decode()}",
    }
    return _delivery(last, headers, text, run)


def _differ(one: _LineMessage, following: _LineMessage) -> bool:
    return one.end != following.start


def _plain(messages: Sequence[_LineMessage], run: Run) -> Delivery:
    """Plain messages as one, whose payload is their lines without the last newline."""
    return _delivery(messages[-1], {}, b"\n".join([each.line for each in messages]), run)


def _delivery(message: _LineMessage, headers: dict[str, str], payload: bytes, run: Run | None = None) -> Delivery:
    return Delivery(
        sequence=int(message.sequence),
        time_ns=message.time_ns,
        pending=int(message.pending),
        subject=message.subject.decode("utf-8", "surrogateescape"),
        headers=headers,
        payload=payload,
        reply=message.reply.decode("utf-8", "surrogateescape"),
        run=run,
    )


@functools.lru_cache(maxsize=64)
def _shared(block: bytes) -> dict[str, str] | None:
    """The shared headers of lines as those of a block that is not encoded. None: no run has such headers."""
    headers = parse_headers(block + b"\r\n").fields
    is_line = headers.get("Log-Lines") == "1" and headers.get("Log-Encoding") == "plain"
    if not is_line or not headers.keys() <= _ALLOWED or block.count(b"\r\n") != len(headers) + 1:
        return None
    del headers["Log-Encoding"]
    return headers
