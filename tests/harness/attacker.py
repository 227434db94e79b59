"""What a client with the key of one host can try: every subject, every API, every reply target; and what it changed.

The server's own list of subjects is read from its executable, so that an API of a newer server is tried, too.
"""

import asyncio
import contextlib
import itertools
import json
import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client

from harness.natsd import NatsServer, binary

ATTACKER, VICTIM = "a.example.net", "b.example.net"
STREAMS = ("LOGS_0", "LOGS_100", "LOGS_1", "LOGS_BEATS", "KV_fshipper", "DLQ")
SECRET = b"TOP-SECRET-OF-B"
MAP = b'{"v":1,"version":1,"partitions":2}'
OURS = (
    "logs.p0.{}",
    "logs.p1.{}",
    "logs.beat.{}",
    "ctl.up.{}",
    "ctl.down.{}",
    "ctl.ask.{}",
    "_INBOX_{}.x",
    "dlq.LOGS_0.{}",
)
NAMES = (VICTIM, "fshipper-partition", "collector", "partitioner", "reader", "monitor")
FIXED = (
    "$KV.fshipper.map.logs", "$KV.fshipper.lease.logs.0", "$KV.fshipper.member.logs.x.y", "$JS.S.x", "$JSC.R.x",
    "_R_.x.y", "_GR_.x.y", "out.logs.p0", "ctl.down.>", "logs.>", ">", "*", "$JS.edge1.API.STREAM.PURGE.LOGS_100",
    "$JS.ACK.LOGS_0.collector.1.1.1.1.0", "$JS.FC.LOGS_0.collector.x",
)  # fmt: skip
PAYLOADS = (
    b"a forged line\n",
    b"{}",
    MAP.replace(b'"version":1', b'"version":7'),
    json.dumps({"stream_name": "LOGS_0", "config": {"deliver_subject": f"_INBOX_{ATTACKER}.steal", "ack_policy": "none",
                "deliver_policy": "all"}}).encode(),
    json.dumps({"v": 1, "ask": "finish", "partition": 0, "receipts": [{"source": "0" * 16, "upto": 2**40}]}).encode(),
)  # fmt: skip
ANSWER_SECONDS = 60
"""How long an answer may take where servers and clients share a busy processor."""
_SUBJECT = re.compile(
    rb"\$(?:JS|SYS|KV|JSC|NRG|MQTT|GR|LDS|SRV|O|G)(?:\.(?:[A-Z]{2,}|API|ACK|FC|S|R|%s|\*|>))+"
)  # in the executable, words may touch: a last letter too many does no harm, and the pattern without it is tried, too


def subjects_of_server() -> list[str]:
    """Every subject of the server's own, its places filled with our streams and the collector's consumer."""
    found = {match[0].decode() for match in _SUBJECT.finditer(Path(binary()).read_bytes())}
    assert {"$JS.API.STREAM.DELETE.*", "$JS.API.CONSUMER.CREATE.*", "$JS.API.STREAM.PURGE.*"} <= found
    found |= {subject[:-1] for subject in found if subject[-1].isalpha()}
    filled = set()
    for subject, stream in itertools.product(found, STREAMS):
        places = itertools.chain([stream, "collector"], itertools.repeat("x"))
        filled.add(re.sub(r"%s|\*|>", lambda _: next(places), subject))  # noqa: B023
    return sorted(each for each in filled if not each.endswith("."))


def targets() -> list[str]:
    """Every subject that an attacker may want to reach."""
    return sorted({*subjects_of_server(), *FIXED, *(each.format(name) for each in OURS for name in NAMES)})


class Ears:
    """Clients of the others, which receive what the attacker sends them."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, bytes]] = []

    async def listen(self, client: Client, *subjects: str) -> None:
        async def on_message(message: Any) -> None:
            self.heard.append((message.subject, message.reply, message.data))
            if message.subject.startswith("ctl.up.") and message.reply:
                await message.respond(b'{"receipts":[]}')  # as a collector does

        for subject in subjects:
            await client.subscribe(subject, cb=on_message)
        await settle(client)

    def to_others(self) -> list[tuple[str, str, bytes]]:
        """What came on subjects that are not the attacker's own."""
        return [each for each in self.heard if not each[0].endswith(ATTACKER)]


async def connect(server: NatsServer, name: str, credentials: dict[str, Any], inbox: str = "") -> Client:
    async def quiet(_: Exception) -> None: ...

    client = await nats.connect(
        server.url.replace("nats://", "tls://") if "tls" in credentials else server.url, allow_reconnect=False,
        error_cb=quiet, inbox_prefix=f"_INBOX_{inbox or name}", pending_size=32 << 20, **credentials,
    )  # fmt: skip
    client.name = name
    return client


async def api(client: Client, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = await client.request(f"$JS.API.{verb}", json.dumps(body).encode() if body else b"", timeout=ANSWER_SECONDS)
    found: dict[str, Any] = json.loads(answer.data)
    assert "error" not in found, (verb, found)
    return found


async def settle(client: Client) -> None:
    """Until the server has processed all that `client` sent; a first PING of nats-py may overtake what it buffered."""
    for _ in range(2):
        await client.flush(ANSWER_SECONDS)


async def quiet(heard: Sequence[object]) -> None:
    """Until no answer arrives any more."""
    count = -1
    while count != len(heard):
        count = len(heard)
        await asyncio.sleep(0.3)


async def furnish(admin: Client, victim: Client) -> None:
    """Streams, a consumer, a map, and a line of the victim."""
    for name, subjects in (
        ("LOGS_0", "logs.p0.>"), ("LOGS_1", "logs.p1.>"), ("LOGS_BEATS", "logs.beat.>"),
        ("KV_fshipper", "$KV.fshipper.>"), ("DLQ", "dlq.>"),
    ):  # fmt: skip
        await api(admin, f"STREAM.CREATE.{name}", {"name": name, "subjects": [subjects], "allow_direct": True})
    for name in ("LOGS_0", "LOGS_1"):
        config = {"durable_name": "collector", "ack_policy": "all"}
        await api(admin, f"CONSUMER.DURABLE.CREATE.{name}.collector", {"stream_name": name, "config": config})
    for client, subject, payload in (
        (admin, "$KV.fshipper.map.logs", MAP),
        (admin, "$KV.fshipper.lease.logs.0", SECRET),
        (victim, f"logs.p0.{VICTIM}", SECRET),
        (victim, f"logs.p1.{VICTIM}", SECRET),
        (victim, f"logs.beat.{VICTIM}", SECRET),
    ):
        answer = await client.request(subject, payload, timeout=ANSWER_SECONDS)
        assert b'"seq"' in answer.data, answer.data


async def state(admin: Client) -> dict[str, Any]:
    """Everything in the account of the streams that is not the attacker's own."""
    found: dict[str, Any] = {}
    names = (await api(admin, "STREAM.NAMES"))["streams"] or []
    found["streams"] = sorted(names)
    for name in names:
        info = await api(admin, f"STREAM.INFO.{name}", {"subjects_filter": ">"})
        kept = {s: count for s, count in (info["state"].get("subjects") or {}).items() if not s.endswith(ATTACKER)}
        consumers = [
            {key: each[key] for key in ("name", "config", "delivered", "ack_floor", "num_waiting")}
            for each in (await api(admin, f"CONSUMER.LIST.{name}"))["consumers"] or []
        ]
        messages = {
            s: (await admin.request(f"$JS.API.DIRECT.GET.{name}.{s}", b"", timeout=ANSWER_SECONDS)).data for s in kept
        }
        found[name] = (info["config"], info["state"]["first_seq"], kept, messages, consumers)
    return found


async def ships(client: Client, host: str) -> bool:
    """Whether lines of a host are still stored and acknowledged."""
    return b'"seq"' in (await client.request(f"logs.p0.{host}", b"one more", timeout=ANSWER_SECONDS)).data


async def attack(client: Client, *, partition: int = 1) -> list[bytes]:
    """Everything that the attacker can try, with replies to every target; what it received in the end."""
    heard: list[bytes] = []

    async def on_message(message: Any) -> None:
        heard.append(message.data)

    for subject in (
        f"_INBOX_{ATTACKER}.>",
        f"ctl.down.{ATTACKER}",
        f"ctl.ask.{ATTACKER}",
        ">",
        "logs.>",
        "_R_.>",
        "$JS.>",
    ):
        await client.subscribe(subject, cb=on_message)
    own = f"logs.p{partition}.{ATTACKER}"
    direct = f"$JS.API.DIRECT.GET.LOGS_{partition}.{own}"
    everything = targets()
    triggers = (
        own, f"logs.p9.{ATTACKER}", f"logs.beat.{ATTACKER}", f"ctl.up.{ATTACKER}", "$SYS.REQ.USER.INFO",
        "$JS.API.DIRECT.GET.KV_fshipper.$KV.fshipper.map.logs",
    )  # fmt: skip
    await client.publish(own, b"mine")
    for target in everything:
        await client.publish(target, b"{}", reply=f"_INBOX_{ATTACKER}.direct")
        for trigger in triggers:
            if trigger != target:
                await client.publish(trigger, b'{"v":1,"ask":"receipts","partition":1}', reply=target)
    await settle(client)
    for payload in PAYLOADS:
        with contextlib.suppress(nats.errors.TimeoutError):  # with such replies a host may cut off itself
            headers = {"Log-Id": "1" * 16, "Log-Span": f"0-{len(payload)}"}
            await client.request(own, payload, headers=headers, timeout=0.5)
        for target in everything:
            await client.publish(direct, b"", reply=target)
        await settle(client)
    await quiet(heard)
    return heard


def tls_of(directory: Path, authority: Any, name: str) -> dict[str, Any]:
    """The options of a client whose certificate has `name`."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert(name).configure_cert(context)
    return {"tls": context, "tls_handshake_first": True}


async def attack_as_site(client: Client) -> list[tuple[str, bytes]]:
    """Everything that a client with the key of a site's server can try at the centre; what it received, and where."""
    heard: list[tuple[str, bytes]] = []

    async def on_message(message: Any) -> None:
        heard.append((message.subject, message.data))

    for subject in (
        "_R_.>",
        "ctl.down.>",
        "ctl.ask.>",
        "$JS.edge1.API.>",
        "$JS.FC.>",
        "*.>",
        ">",
        "logs.>",
        "ctl.up.>",
    ):
        await client.subscribe(subject, cb=on_message)
    await settle(client)
    for target in targets():
        for payload in PAYLOADS:
            await client.publish(target, payload)  # the server drops a client's message with a reply to _R_
            await client.publish(target, payload, reply=f"_INBOX_{ATTACKER}.direct")
        for question in (f"ctl.up.{ATTACKER}", f"logs.beat.{ATTACKER}"):
            if question != target:
                await client.publish(question, PAYLOADS[-1], reply=target)
    await settle(client)
    await quiet(heard)
    return heard


async def attack_as_monitor(client: Client) -> list[bytes]:
    """Everything that a client with read rights can try to change; what it received in the end."""
    heard: list[bytes] = []

    async def on_message(message: Any) -> None:
        heard.append(message.data)

    for subject in ("_INBOX_monitor.>", ">", "ctl.>", "_R_.>", f"ctl.ask.{VICTIM}", "_INBOX_collector.>"):
        await client.subscribe(subject, cb=on_message)
    questions: dict[str, bytes] = {
        "$JS.API.STREAM.NAMES": b"", "$JS.API.STREAM.INFO.LOGS_0": b"", "$JS.API.CONSUMER.INFO.LOGS_0.collector": b"",
        "$JS.API.DIRECT.GET.LOGS_0": b'{"seq":1}', "$JS.API.DIRECT.GET.KV_fshipper": b'{"seq":1,"batch":10}',
        f"ctl.ask.{ATTACKER}": b'{"ask":"marks"}',
    }  # fmt: skip
    for question, payload in questions.items():
        await client.publish(question, payload, reply="_INBOX_monitor.answer")
    for target in targets():
        if target != f"ctl.ask.{VICTIM}":  # that it may request
            for payload in PAYLOADS:
                await client.publish(target, payload, reply="_INBOX_monitor.direct")
            for question, payload in questions.items():
                if question != target:
                    await client.publish(question, payload, reply=target)
    await settle(client)
    await quiet(heard)
    return heard


@contextlib.asynccontextmanager
async def closing(*clients: Client):
    try:
        yield
    finally:
        for client in clients:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.close(), 2)
