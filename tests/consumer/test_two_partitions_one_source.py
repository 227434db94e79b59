"""One source in two partitions without a move: an archive holds each byte once, however the blocks arrive."""

import asyncio
import random
from pathlib import Path

import pytest
from harness.fleet import Fleet, contents, until
from harness.natsd import NatsServer

from shipper import codec
from shipper.bytes_ops import crc32
from shipper.compression import Compressor
from shipper.jetstream.connection import connect
from shipper.model import Block, Encoding, Span
from shipper.settings import NatsSettings
from shipper.subjects import log_subject

HOST = "web1.example.net"
FILE = "/var/log/app.log"
SOURCE = "00c0ffee00c0ffee"
TEXT = b"".join(b"line %d of the only source\n" % number for number in range(4000))


def blocks(borders: list[int]) -> list[tuple[dict[str, str], bytes]]:
    """The source as messages, cut at `borders`."""
    messages, encoded = [], Compressor(Encoding.ZSTD)
    for start, end in zip([0, *borders], [*borders, len(TEXT)], strict=True):
        text = TEXT[start:end]
        block = Block(
            source=SOURCE, file=FILE, span=Span(start, end), origin=0, lines=text.count(b"\n"),
            block_crc=crc32(text), source_crc=crc32(TEXT[:end]), encoding=Encoding.ZSTD, read_at="2026-11-20T10:00:00Z",
        )  # fmt: skip
        messages.append((codec.to_headers(block), encoded.encode(text)))
    return messages


def publish(url: str, messages: list[tuple[int, tuple[dict[str, str], bytes]]]) -> None:
    """Store messages in their partitions, in this order."""

    async def work() -> None:
        connection = await connect(NatsSettings(url=url), name="older producer", inbox="_INBOX_older")
        for partition, (headers, payload) in messages:
            await connection.request(log_subject("logs", partition, HOST), payload, within=5.0, headers=headers)
        await connection.close()

    asyncio.run(work())


def borders(dice: random.Random, *, begin: int = 0) -> list[int]:
    lines = [number for number, byte in enumerate(TEXT) if byte == 10 and number > begin]
    return sorted(dice.sample([end + 1 for end in lines[:-1]], dice.randint(3, 12)))


def archived(fleet: Fleet) -> bytes:
    """All bytes of all partitions."""
    return b"".join(b"".join(lines for lines in contents(path)) for path in [fleet.archive])


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer) -> Fleet:
    with Fleet(tmp_path, natsd.url, partitions=3) as fleet:
        fleet.apply()
        yield fleet


@pytest.mark.parametrize("seed", range(6))
def test_each_byte_is_archived_once_however_the_blocks_arrive(fleet, natsd, seed):
    """Drawn cuts, partitions and order; some of it drained before, some read by a collector that is killed."""
    dice = random.Random(seed)
    queues = {number: blocks(borders(dice)) for number in range(3)}
    messages = []
    while any(queues.values()):
        number = dice.choice([number for number, queue in queues.items() if queue])
        messages.append((number, queues[number].pop(0)))
    middle = dice.randrange(len(messages))
    publish(natsd.url, messages[:middle])
    if seed % 2:
        fleet.run("consume", "--drain")
    collector = fleet.consume()
    publish(natsd.url, messages[middle:])
    if seed % 3 == 0:
        collector.restart()
    until(lambda: len(archived(fleet)) >= len(TEXT) and fleet.lag() == 0, what="all is archived")
    assert collector.stop() == 0
    assert sorted(archived(fleet).splitlines()) == sorted(TEXT.splitlines())
    assert "source_archived_before" in collector.log or seed % 2
    fleet.drain("--seal")
    assert sorted(archived(fleet).splitlines()) == sorted(TEXT.splitlines())
    assert fleet.run("audit").returncode == 0


def test_the_second_partition_waits_for_no_other_when_the_first_one_has_what_is_missing(fleet, natsd):
    whole = blocks([len(TEXT) // 2, len(TEXT) * 3 // 4])
    publish(natsd.url, [(1, whole[1]), (1, whole[2])])  # its beginning never comes here
    collector = fleet.consume()
    until(lambda: "hole_opened" in collector.log, what="a missing range")
    publish(natsd.url, [(0, whole[0])])
    until(lambda: len(archived(fleet)) == len(TEXT), what="all is archived")
    assert collector.stop() == 0
    assert archived(fleet) == TEXT


def test_a_producer_receives_what_any_partition_of_the_archive_has(fleet, natsd):
    publish(natsd.url, [(0, message) for message in blocks([])])
    collector = fleet.consume()
    until(lambda: len(archived(fleet)) == len(TEXT) and fleet.lag() == 0, what="all is archived and acknowledged")

    async def ask(question: dict) -> dict:
        connection = await connect(NatsSettings(url=natsd.url), name="test", inbox=f"_INBOX_{HOST}")
        said = await connection.ask(f"ctl.up.{HOST}", {"v": 1, "ask": "receipts", "partition": 2} | question, 5.0)
        await connection.close()
        return said

    for question in ({}, {"sources": [SOURCE]}):
        (receipt,) = asyncio.run(ask(question))["receipts"]
        assert (receipt["source"], receipt["watermark"]) == (SOURCE, len(TEXT))
    assert collector.stop() == 0
