"""Lines that are read in runs leave the archive exactly as lines that are read one by one."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from collecting import Log, PartitionHarness, applier_of

from consumer.archive.journal import Journal
from consumer.commit.sink import Sink
from consumer.model import Changes, Position, Until
from producer.batcher import Encoder
from producer.fingerprint import Mark
from producer.model import Piece
from producer.transform.edits import Edits
from shipper import codec
from shipper.bytes_ops import crc32
from shipper.compression import Compressor, to_lines
from shipper.jetstream import line_runs
from shipper.jetstream.fast_client import Message, parse_headers
from shipper.jetstream.protocol_filter import ProtocolFilter, RawMessage
from shipper.jetstream.pull_loop import read_delivery
from shipper.manifest import Segment
from shipper.model import Delivery, Encoding, Run, Span
from shipper.testing import MemoryInbox

SID = 7


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_runs, "FEWEST_MESSAGES", 2)


def on_the_wire(delivery: Delivery) -> bytes:
    """A delivery as the server sends it."""
    subject = delivery.subject.encode("utf-8", "surrogateescape") + f" {SID} {delivery.reply}".encode()
    if not delivery.headers:
        return b"MSG %b %d\r\n%b\r\n" % (subject, len(delivery.payload), delivery.payload)
    head = b"NATS/1.0\r\n%s\r\n" % "".join(f"{name}: {value}\r\n" for name, value in delivery.headers.items()).encode()
    size = len(head) + len(delivery.payload)
    return b"HMSG %b %d %d\r\n%b%b\r\n" % (subject, len(head), size, head, delivery.payload)


def received(stream: bytes, dice: random.Random) -> list[Delivery]:
    """The deliveries of what arrives in parts of any size."""
    found: list[Delivery] = []

    def take(raw: RawMessage) -> None:
        fields = parse_headers(raw.headers).fields if raw.headers else None
        message = Message(None, raw.subject.decode("utf-8", "surrogateescape"), raw.reply.decode(), raw.payload, fields)  # type: ignore[arg-type]
        found.append(read_delivery(message)[0])

    def read(buffer: bytearray, begin: int, end: int) -> int:
        arrived, end = line_runs.read_runs(buffer, begin, end, SID)
        found.extend(each.delivery for each in arrived)
        return end

    way = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    sieve = ProtocolFilter(way, {SID}.__contains__, take)
    sieve.read_run = read
    while stream:
        size = dice.choice([1, 700, 5000, 60_000])
        sieve.put(stream[:size])
        stream = stream[size:]
    return found


class PartInbox(MemoryInbox):
    """Takes parts of any size, so that a session that reads again takes other ones."""

    sizes = random.Random()

    async def take(self, _: int, within: float) -> list[Delivery]:
        return await super().take(self.sizes.choice([500, 2000, 8000]), within)


class RunInbox(PartInbox):
    """The same; deliveries pass the parser of a socket."""

    runs = 0
    cuts = random.Random(1)

    async def take(self, at_most_bytes: int, within: float) -> list[Delivery]:
        taken = await super().take(at_most_bytes, within)
        found = received(b"".join(map(on_the_wire, taken)), self.cuts)
        assert sum(each.messages for each in found) == len(taken)
        assert [each.sequence for each in found] == sorted(each.sequence for each in found)
        RunInbox.runs += sum(each.run is not None for each in found)
        return found


Change = Callable[[dict[str, str], bytes], bytes]
"""Changes the headers of a line, and returns its payload."""


def shorter(_: dict[str, str], line: bytes) -> bytes:
    return line[:-1]


def other_text(_: dict[str, str], line: bytes) -> bytes:
    return line[:-1] + b"?"


def other_crc(headers: dict[str, str], line: bytes) -> bytes:
    headers["Log-Crc"] = f"{1:08x}" + headers["Log-Crc"][8:]
    return line


def other_place(headers: dict[str, str], line: bytes) -> bytes:
    start, end = map(int, headers["Log-Span"].split("-"))
    headers["Log-Span"] = f"{start + 1}-{end + 1}"
    return line


def send_lines(harness: PartitionHarness, log: Log, start: int, end: int, change: Change | None = None) -> None:
    """Whole lines of a source reach the stream as its producer sends them, a message each. `change`: one of them."""
    subject, headers, _ = log.message(start, end)
    before = crc32(log.data[:start])
    messages = to_lines(codec.from_headers(headers), log.data[start:end], before)
    for number, (place, line) in enumerate(zip(messages.places, messages.lines, strict=True)):
        own = messages.headers | dict(header.split(": ") for header in place.decode().split("\r\n") if header)
        payload = change(own, line) if change and number == len(messages.lines) // 2 else line
        harness.bus.store(subject, own, payload)


def fill(harness: PartitionHarness, seed: int) -> None:
    """A stream with lines that continue, repeat, leave out and damage others, and with plain messages between them."""
    dice = random.Random(seed)
    logs = [
        Log(
            b"".join(b"%d %s%s\n" % (n, b"x" * dice.randrange(60), dice.choice([b"", b"\r"])) for n in range(400)),
            id=f"00000000000000a{number}",
            file=f"/{number}.log",  # in one file the order of two sources depends on where batches end
            encoding=Encoding.PLAIN,
        )
        for number in range(3)
    ]
    borders = [[0, *(at + 1 for at, octet in enumerate(log.data) if octet == 10)] for log in logs]
    at, damaged = [0, 0, 0], set[str]()
    for _ in range(40):
        which = dice.randrange(3)
        log, ends = logs[which], borders[which]
        again = 0 if log.id in damaged else dice.choice([0, 0, 0, 5])  # lost lines that come again begin a fork
        begin = max(0, min(at[which] - again, len(ends) - 2))
        end = min(begin + dice.randrange(1, 40), len(ends) - 1)
        fault = dice.randrange(12)
        if fault == 0:
            for number in range(dice.randrange(1, 30)):
                harness.say(dice.choice([b"plain %d" % number, b"", b"two\nlines", b"\r"]))
            harness.bus.store("logs.p0.h\udcff", {}, b"no host")
        elif fault == 1:
            harness.clock.turn(dice.random() * 2)
        elif fault == 2:  # something of a line is damaged
            damaged.add(log.id)
            change = dice.choice([shorter, other_crc, other_place, other_text])
            send_lines(harness, log, ends[begin], ends[end], change)
            at[which] = max(at[which], end)
        else:
            send_lines(harness, log, ends[begin], ends[end])
            at[which] = max(at[which], end)
    for log, ends, done in zip(logs, borders, at, strict=True):
        if done < len(ends) - 1:
            send_lines(harness, log, ends[done], ends[-1])


def result(harness: PartitionHarness) -> object:
    """What the archive and the dead letters hold. Not when a segment was sealed, how often it was repeated, and the
    name of a fork, which is that of its first block."""
    own = {f"00000000000000a{number}" for number in range(3)}

    def comparable(segment: Segment) -> Segment:
        spans = tuple(each if each.source in own else replace(each, source="fork") for each in segment.spans)
        gaps = tuple(each if each.source in own else replace(each, source="fork") for each in segment.gaps)
        return replace(segment, sealed_at="", duplicates=0, spans=spans, gaps=gaps)

    segments = harness.segments()
    texts = {(each.host, each.file): harness.text(host=each.host, file=each.file) for each in segments}
    return list(map(comparable, segments)), texts, [(message.subject, message.payload) for message in harness.dead]


@pytest.mark.parametrize("seed", range(16))
async def test_runs_leave_what_single_lines_leave(seed, tmp_path):
    results = []
    for inbox in (PartInbox, RunInbox):
        PartInbox.sizes.seed(seed)
        directory = tmp_path / inbox.__name__
        directory.mkdir()
        harness = PartitionHarness(directory, hole_limit=0.0, hole_patience=0.0)
        harness.inbox = inbox
        fill(harness, seed)
        await harness.drain(Until.SEALED)
        results.append(result(harness))
    assert results[1] == results[0]
    assert RunInbox.runs > 20


async def test_the_lines_of_a_fork_that_a_run_began_are_known_in_an_edited_file(tmp_path):
    """The archive has no text to compare with, as it was edited; read again, the lines come in other runs."""
    harness = PartitionHarness(tmp_path)
    harness.inbox = RunInbox
    PartInbox.sizes.seed(1)
    own = Log(b"dropped\nown\n", encoding=Encoding.PLAIN)
    other = replace(own, data=b"dropped\n" + b"".join(b"other %d\n" % n for n in range(20)))
    piece = Piece(own.id, own.file, 0, Span(0, 8), own.data[:8], crc32(own.data[:8]), Mark())
    (entry,) = Encoder(Compressor(Encoding.PLAIN), Edits.of(drop_lines=["dropped"])).entries([piece])
    harness.bus.store(f"logs.p0.{own.host}", entry.headers, entry.payload)
    send_lines(harness, own, 8, len(own.data))
    send_lines(harness, other, 8, len(other.data))
    borders = [at + 1 for at, octet in enumerate(other.data) if octet == 10]
    for start, end in pairwise(borders):  # again, and single
        send_lines(harness, other, start, end)
        harness.say(b"plain")
    await harness.drain()
    assert harness.text(own) == own.data[8:] + other.data[8:]


@pytest.mark.parametrize(("applied", "plain_after_ns"), [(5, 0), (0, 1005)])
def test_of_a_run_of_plain_messages_only_those_are_written_that_are_not_applied(applied, plain_after_ns, tmp_path):
    """A stream is read again for a hole, or in a new history; the next session reads other runs."""
    archive = tmp_path / "archive"
    archive.mkdir()
    run = Run(tuple(range(3, 9)), tuple(range(1003, 1009)))
    text = b"\n".join(b"%d" % sequence for sequence in run.sequences)
    delivery = Delivery(8, 1008, 0, "logs.p0.web1", {}, text, "", run)
    with (
        contextlib.closing(Journal(tmp_path / "journal.sqlite")) as journal,
        contextlib.closing(Sink(archive, open_files=8, links=True)) as sink,
    ):
        journal.commit(Changes(position=Position(applied=applied, plain_after_ns=plain_after_ns)))
        applier = applier_of(journal, sink)
        batch = applier.stage(applier.begin([delivery], {}, {}))
    (written,) = archive.glob("date=*/*/*/_open*")
    assert written.read_bytes() == b"6\n7\n8\n"
    assert batch.outcomes == {"written": 3, "duplicate": 3}
