"""Whatever headers a host sends with lines and heartbeats, they are data: they stop, hide and cost no other host."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.attacker import ANSWER_SECONDS, ATTACKER, VICTIM, closing, connect, settle
from harness.edges import End, site
from harness.fleet import Fleet, unpack, unsealed
from harness.natsd import NatsServer
from harness.waiting import until
from nats.aio.client import Client

from partitioner.access.roster import AuthMethod
from shipper.heartbeat import Heartbeat, beats_config, encode
from shipper.jetstream.connection import connect as connect_ours
from shipper.jetstream.direct_get import last_stored
from shipper.jetstream.fast_client import parse_headers
from shipper.jetstream.heartbeat_stream import HeartbeatReader
from shipper.settings import NatsSettings

AT_SITE = "thief.example.net"
NAMES = [
    "Status", "Description", "status", "KV-Operation", "Nats-Batch-Commit", "Nats-Batch-Id", "Nats-Batch-Sequence",
    "Nats-Consumer-Stalled", "Nats-Counter-Sources", "Nats-Expected-Last-Msg-Id", "Nats-Expected-Last-Sequence",
    "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject", "Nats-Expected-Stream",
    "Nats-Incr", "Nats-Last-Consumer", "Nats-Last-Sequence", "Nats-Last-Stream", "Nats-Marker-Reason", "Nats-Msg-Id",
    "Nats-Msg-Size", "Nats-No-Masking", "Nats-Num-Pending", "Nats-Pending-Bytes", "Nats-Pending-Messages",
    "Nats-Pin-Id", "Nats-Request-Info", "Nats-Required-Api-Level", "Nats-Response-Type", "Nats-Rollup",
    "Nats-Schedule", "Nats-Schedule-Next", "Nats-Schedule-Rollup", "Nats-Schedule-Source", "Nats-Schedule-TTL",
    "Nats-Schedule-Target", "Nats-Schedule-Time-Zone", "Nats-Scheduler", "Nats-Sequence", "Nats-Server-Xkey",
    "Nats-Service-Error", "Nats-Service-Error-Code", "Nats-Stream", "Nats-Stream-Identity", "Nats-Stream-Source",
    "Nats-Subject", "Nats-TTL", "Nats-Time-Stamp", "Nats-Trace-Hop", "Nats-Trace-Origin-Account",
    "Nats-UpTo-Sequence", "Dlq-Cut", "Dlq-Reason", "Log-Id", "Log-Color", "traceparent",
]  # fmt: skip
"""Every header that nats-server 2.15 and nats-py 2.16 know, and some of ours."""
STATUSES = ("100", "200", "204", "404", "408", "409", "412", "423", "429", "500", "503", "", "x" * 5000, "ä")
ODD = [
    b"X", b"NATS/1.0", b"NATS/1.0\r\n\r\n", b"garbage\r\n\r\n", b"NATS/1.0\n\nA: b\n\n", b"NATS/1.0\r\nA: bcd",
    b"NATS/1.0 503\r\n\r\n", b"NATS/1.0 404 No Messages\r\n\r\n", b"NATS/1.0 100 Idle Heartbeat\r\nA: b\r\n\r\n",
    b"NATS/1.0 \xff\r\n\r\n", b"NATS/1.0\r\n: \xff\r\n\r\n", b"NATS/1.0\r\n\xff: a\r\n\r\n", b"NATS/1.0\r\nA\r\n\r\n",
    b"NATS/1.0\r\nStatus: 204\r\nStatus: 500\r\nStatus:\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\nNats-Sequence: 5\r\n\r\n",
    b"NATS/1.0\r\nNats-Sequence: 5\r\nNats-Subject: logs.p0.x\r\n",
    b"NATS/1.0\r\nStatus: 204\r\nLog-Color: red\r\n\r\n",
    b"NATS/1.0\r\nLog-Color: red\r\na(b): c\r\n\"d\": e\r\n\r\n",
]  # fmt: skip


def block(name: str, value: str) -> bytes:
    return f"NATS/1.0\r\n{name}: {value}\r\n\r\n".encode()


def blocks() -> list[bytes]:
    """Header blocks; the last one is that of a mistake that a person makes."""
    draw = random.Random(31)
    drawn = [
        b"NATS/1.0" + draw.choice([b"", b" 503", b" 1"]) + b"\r\n"
        + b"\r\n".join(draw.choice(NAMES).encode() + draw.choice([b": ", b""]) + draw.randbytes(4) for _ in range(3))
        + draw.choice([b"\r\n\r\n", b""])
        for _ in range(30)
    ]  # fmt: skip
    named = [block(name, value) for name in NAMES for value in ("1", "sub")]
    return [*named, *ODD, *drawn, *(block("Status", status) for status in STATUSES), block("Status", "500")]


async def put(client: Client, subject: str, headers: bytes, payload: bytes, reply: str = "") -> None:
    """Publish with exactly this header block; nats-py would write another one."""
    sizes = f"{len(headers)} {len(headers) + len(payload)}"
    command = f"HPUB {subject} {reply} {sizes}\r\n".encode() + headers + payload + b"\r\n"
    await client._send_command(command)
    await client._flush_pending()


async def publish_all(end: End, host: str, partitions: tuple[int, ...]) -> list[bytes]:
    """A line with each block to each partition; those that the server stored."""
    stored: list[bytes] = []
    client = await connect(end, host, end.options(host))
    async with closing(client):
        for partition in partitions:
            for number, headers in enumerate(blocks()):
                payload = f"{partition}:{number}".encode()
                inbox = client.new_inbox()
                answers = await client.subscribe(inbox)
                await put(client, f"logs.p{partition}.{host}", headers, payload, reply=inbox)
                ack = json.loads((await answers.next_msg(timeout=ANSWER_SECONDS)).data or b"{}")
                stored += [payload] if ack.get("seq") and "error" not in ack and not ack.get("duplicate") else []
                await answers.unsubscribe()
            await put(client, f"logs.beat.{host}", block("Status", "204"), b"{}")
            await put(client, f"ctl.up.{host}", block("Status", "503"), b"{}")
        await settle(client)
    return stored


async def publish_plain(end: End, host: str, subject: str, payload: bytes) -> None:
    client = await connect(end, host, end.options(host))
    async with closing(client):
        assert b'"seq"' in (await client.request(subject, payload, timeout=ANSWER_SECONDS)).data


BEAT = encode(Heartbeat(version="1", partition=0, every=5.0, up=100.0, files=1, run="r"))


@pytest.fixture(params=AuthMethod)
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[End, End]]:
    with site(tmp_path, hosts=(AT_SITE,), central=(ATTACKER, VICTIM), trust=request.param) as (centre, edge, _):
        edge.run("partition", "edge", "100")
        centre.run("partition", "apply", "--partitions", "2", "--edge", "edge1=100")
        yield centre, edge


def test_headers_of_hosts_stop_hide_and_cost_no_other_host(ends: tuple[End, End], tmp_path: Path) -> None:
    centre, edge = ends
    collector, operator = centre.as_("collector"), centre.as_("partitioner")
    with Fleet(tmp_path, centre.url, partitions=2) as fleet:
        for partition in (0, 1):
            asyncio.run(publish_plain(centre, VICTIM, f"logs.p{partition}.{VICTIM}", b"before"))
        asyncio.run(publish_plain(centre, VICTIM, f"logs.beat.{VICTIM}", BEAT))
        sent = {
            ATTACKER: asyncio.run(publish_all(centre, ATTACKER, (0, 1))),
            AT_SITE: asyncio.run(publish_all(edge, AT_SITE, (100,))),
        }
        until(lambda: centre.messages("LOGS_100") == len(sent[AT_SITE]), within=60, what=lambda: centre.log[-2000:])
        first = fleet.run("consume", "--drain", **collector)
        assert first.returncode == 0, first.stderr
        assert "session_ended" not in first.stderr, first.stderr[-3000:]
        for partition in (0, 1):
            asyncio.run(publish_plain(centre, VICTIM, f"logs.p{partition}.{VICTIM}", b"after"))
        again = fleet.run("consume", "--drain", **collector)  # begins at a message with `Status: 500`
        assert again.returncode == 0, again.stderr
        assert "direct get" not in again.stderr, again.stderr[-3000:]
        archived = {host: lines_of(fleet, host) for host in (VICTIM, ATTACKER, AT_SITE)}
        assert archived[VICTIM] == sorted([b"before", b"after"] * 2)
        letters = [
            json.loads(row) for row in fleet.must("dlq", "ls", "--json", "--limit", "0", **operator).splitlines()
        ]
        for host, stored in sent.items():
            kept = sum(each["host"] == host for each in letters)
            assert len(archived[host]) + kept == len(stored), host
            assert set(archived[host]) <= set(stored)
            assert kept
        shown = [fleet.must("dlq", "show", str(each["number"]), **operator) for each in letters[:40:10]]
        assert all("reason" in text for text in shown)
        rows = json.loads(fleet.must("status", "--json", **collector))
        assert {VICTIM, ATTACKER, AT_SITE} <= {row["host"] for row in rows["hosts"]}, rows
        fleet.must("partition", "status", **operator)
        assert fleet.run("audit", **collector).returncode == 0
        assert b"panic" not in (centre.log + edge.log).encode()


def lines_of(fleet: Fleet, host: str) -> list[bytes]:
    paths = fleet.archive.glob(f"date=*/partition=*/host={host}/*")  # a file of a host that "left" is sealed
    found = [unsealed(path) if path.name.startswith("_") else unpack(path) for path in paths]
    # over an import between accounts, the server takes a block of one byte for payload
    return sorted(line.removeprefix(b"X") for line in b"".join(found).splitlines())


def test_a_heartbeat_with_any_headers_hides_no_other(natsd: NatsServer) -> None:
    async def within() -> None:
        connection = await connect_ours(NatsSettings(url=natsd.url), name="test", inbox="_INBOX")
        async with connection:
            await connection.api("STREAM.CREATE.LOGS_BEATS", beats_config("logs"))
            reader = HeartbeatReader(connection, "logs")
            await connection.client.request(f"logs.beat.{VICTIM}", BEAT, timeout=ANSWER_SECONDS)
            for headers in blocks():
                await put(connection.client, f"logs.beat.{ATTACKER}", headers, BEAT)
                await connection.flush()
                found = {each.subject.removeprefix("logs.beat.") for each in (await reader.poll(9)).beats}
                assert VICTIM in found, headers
            last = await last_stored(connection, "LOGS_BEATS", f"logs.beat.{ATTACKER}", within=ANSWER_SECONDS)
            assert last is not None
            assert last.headers == {"Status": "500"}

    asyncio.run(within())


@pytest.mark.parametrize("seed", range(3))
def test_any_bytes_are_headers_or_none_and_only_a_first_line_has_a_status(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(2000):
        raw = draw.choice(blocks()) if draw.random() < 0.5 else draw.randbytes(draw.randrange(40))
        cut = raw[: draw.randrange(len(raw) + 1)]
        found = parse_headers(cut)
        assert not found.status or cut.startswith(b"NATS/1.0 " + b"")
    assert parse_headers(block("Status", "503")).status == ""
    assert parse_headers(b"NATS/1.0 503\r\n\r\n").status == "503"
    stored = parse_headers(b"NATS/1.0 503\r\nNats-Sequence: 7\r\n\r\n")
    assert (stored.status, stored.fields) == ("", {"Nats-Sequence": "7"})
