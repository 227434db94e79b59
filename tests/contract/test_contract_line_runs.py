"""Lines are sent and read in runs over every kind of connection, and what follows a frame of any size is not lost."""

import asyncio
from collections.abc import Iterator

import pytest
import trustme
from harness.fleet import Fleet
from harness.natsd import running
from harness.ports import free_port
from worlds import PATIENCE

from shipper import codec
from shipper.bytes_ops import crc32
from shipper.compression import to_lines
from shipper.jetstream.publisher import JetStreamPublisher
from shipper.jetstream.pull_consumer import JetStreamInbox
from shipper.model import Block, Encoding, Span
from shipper.settings import NatsSettings
from shipper.subjects import COLLECTOR

HOST = "web1.example.net"
LINES = b"".join(b"line %d of an application that writes a lot\n" % number for number in range(2000))
LARGE = b"x" * 400_000


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, NatsSettings]]:
    """One server, by the kind of connection."""
    directory, authority = tmp_path_factory.mktemp("servers"), trustme.CA()
    ca, certificate, key = (directory / f"{name}.pem" for name in ("ca", "certificate", "key"))
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(ca))
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    web, tls = free_port(), f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}'
    extra = f'{tls}\nallow_non_tls: true\nwebsocket {{ listen: "127.0.0.1:{web}", no_tls: true }}'
    with running(directory / "natsd", extra=extra) as server:
        Fleet(directory, server.url, partitions=1).apply()
        yield {
            "tcp": NatsSettings(url=(server.url,)),
            "tls": NatsSettings(url=(f"tls://127.0.0.1:{server.port}",), ca=ca),
            "websocket": NatsSettings(url=(f"ws://127.0.0.1:{web}",)),
        }


def block(text: bytes, encoding: Encoding) -> Block:
    sums = {"block_crc": crc32(text), "source_crc": crc32(text)}
    span = Span(0, len(text))
    return Block(source="0" * 16, file="/a.log", span=span, origin=0, lines=1, encoding=encoding, read_at="", **sums)


@pytest.mark.filterwarnings("ignore:parameter 'timeout':DeprecationWarning")  # nats-py, of aiohttp
@pytest.mark.parametrize("kind", ["tcp", "tls", "websocket"])
async def test_lines_are_sent_and_read_in_runs_over_every_connection(
    addresses: dict[str, NatsSettings], kind: str
) -> None:
    settings, subject = addresses[kind], f"logs.p0.{kind}"
    publisher = await JetStreamPublisher.begin(settings, stream="LOGS_0", host=HOST, block_bytes=512 * 1024)
    inbox = await JetStreamInbox.open(settings, stream="LOGS_0", consumer=COLLECTOR, name="c", batch_bytes=1 << 24)
    news = asyncio.Event()
    publisher.on_news(news.set)
    try:
        await publisher.publish_lines(1, subject, to_lines(block(LINES, Encoding.PLAIN), LINES, 0))
        await publisher.publish(2, subject, codec.to_headers(block(LARGE, Encoding.IDENTITY)), LARGE)
        await publisher.publish_lines(3, subject, to_lines(block(LINES, Encoding.PLAIN), LINES, 0))
        acks = []
        async with asyncio.timeout(PATIENCE):
            while len(acks) < 3:
                await news.wait()
                news.clear()
                acks += publisher.acknowledged()
        assert [ack.token for ack in acks] == [1, 2, 3]
        assert acks[2].sequence - acks[0].sequence == 1 + LINES.count(b"\n")
        await inbox.begin(acks[0].sequence - LINES.count(b"\n") + 1)
        found = []
        async with asyncio.timeout(PATIENCE):
            while sum(each.messages for each in found) < 2 * LINES.count(b"\n") + 1:
                found += await inbox.take(1 << 24, 5.0)
    finally:
        await publisher.close()
        await inbox.close()
    texts = [each.payload if each.run or len(each.payload) == len(LARGE) else each.payload + b"\n" for each in found]
    assert b"".join(texts) == LINES + LARGE + LINES
    assert sum(each.messages for each in found if each.run) > 1.9 * LINES.count(b"\n")
