"""Hostile control messages and reply subjects on a real server: none ends a session or is answered elsewhere."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from hypothesis import example, given
from hypothesis import strategies as st

from consumer.cluster.membership import to_claim, to_member
from consumer.retired_partitions import RetiredPartitions
from partitioner.on_demand import StreamProvisioner
from shipper import control, heartbeat, partition_map
from shipper.jetstream.connection import CONTENT_ERRORS, Connection, connect
from shipper.settings import NatsSettings

HOST, OTHER = "web1.example.net", "web2.example.net"
HOSTILE = [
    b'{"a":' * 3000,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b'{"ask": "receipts", "partition": 0, "sources": ["\\ud800"]}',
    b'{"ask": "receipts", "partition": 0, "sources": [' + b"[" * 900 + b"]" * 900 + b"]}",
    b'{"ask": "receipts", "partition": 0, "sources": {"a": 1}}',
    b'{"ask": "receipts", "partition": 0, "leaving": 1e308}',
    b'{"ask": "receipts", "partition": 0, "leaving": ' + b"9" * 4000 + b"}",
    b'{"ask": "receipts", "partition": NaN}',
    b'{"ask": "receipts", "partition": Infinity}',
    b'{"ask": ["receipts"], "partition": [0]}',
    b'{"ask": null, "partition": {}}',
    b"\xff\xfe\x00",
    b"",
    b"[]",
    b"null",
    b'{"ask": "receipts", "partition": 0, "sources": "' + b"x" * 70_000 + b'"}',
    b'{"ask": "resend", "source": [], "from": {}}',
    b'{"ask": "resend", "source": "\\udfff", "from": -1}',
    b'{"ask": "resend", "source": "0123456789abcdef", "from": ' + b"9" * 4000 + b"}",
    b'{"ask": "marks", "archive": ["\\ud800"]}',
    b'{"ask": "place", "partition": 1e400}',
    b'{"ask": "files", "file": "/\\ud800"}',
    b'{"ask": "files", "file": "/var/log/\\u0000"}',
    b'{"ask": "files", "file": ["/etc/passwd"]}',
    b'{"ask": "files", "file": "' + b"/.." * 20_000 + b'"}',
    b'{"receipts": [{"source": "\\ud800", "file": 1, "origin": 0, "watermark": 1e308, "crc": []}], "archive": {}}',
    b'{"receipts": [' + b"[" * 900 + b"]" * 900 + b'], "through": "x", "left": -1}',
    b'{"receipts": {}}',
]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(min_value=10**30) | st.floats() | st.text()
    | st.sampled_from(["\ud800", "receipts", "resend", "marks", "place", "stream", "finish", "files"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
FIELDS = """
    v ask partition sources leaving source from archive receipts through left retired file origin watermark crc
    told answer lasting version partitions overrides slots owner name instance host pid lock epoch known refused
    worst every up files file run clock scanned pending marks unreadable named verdict reason
""".split()  # noqa: SIM905 - words read better than quotes
REPLIES = (
    control.ReceiptsReply.from_json,
    control.ResendReply.from_json,
    control.MarksReply.from_json,
    control.PlaceReply.from_json,
    control.StreamReply.from_json,
    control.FinishReply.from_json,
    control.FilesReply.from_json,
)
messages = st.dictionaries(st.sampled_from(FIELDS), values, max_size=14)


class Nothing:
    """A land without streams, and a place without an archive."""

    async def streams(self) -> dict[int, Any]:
        return {}

    async def map(self) -> Any:
        raise AssertionError("not asked")

    def newest_epoch(self, _: int) -> None:
        return None


@pytest.mark.parametrize("content", HOSTILE)
def test_no_hostile_content_of_an_entry_or_heartbeat_raises(content: bytes) -> None:
    for decode in (partition_map.decode, heartbeat.decode, to_claim, to_member, control.decode):
        decode(content)


async def ask_all(message: dict[str, Any]) -> None:
    retired = RetiredPartitions(Nothing(), lambda _: True)  # type: ignore[arg-type]
    with contextlib.suppress(CONTENT_ERRORS):
        await retired.answer(f"ctl.up.{HOST}", message)
    with contextlib.suppress(CONTENT_ERRORS):
        await StreamProvisioner(Nothing(), None).answer(f"ctl.up.{HOST}", {**message, "ask": "place"})  # type: ignore[arg-type]


@given(messages)
@example(
    {"v": 1, "instance": "i", "host": "h", "pid": 1, "archive": "a", "lock": "l", "name": "n", "known": [[0, 10**12]]}
)
@example({"v": 1, "instance": "i", "host": "h", "pid": 1, "archive": "a", "lock": "l", "name": ["n"]})
@example({"ask": "receipts", "partition": True, "sources": [["x"], "\ud800"], "leaving": 1e308})
@example({"ask": "resend", "source": {}, "from": -1, "archive": 7})
@example({"receipts": [[], {"source": "a", "file": "/f", "origin": 2, "watermark": 1, "crc": 0}], "through": 2**70})
@example({"marks": [{"source": "a", "file": 1}], "answer": ["gone"], "stream": {}, "open": "1", "through": -1})
def test_no_message_of_any_shape_raises_and_what_is_read_is_within_bounds(message: dict[str, Any]) -> None:
    for content in (json.dumps(message).encode(), json.dumps({**message, "v": 1}).encode()):
        for decode in (partition_map.decode, heartbeat.decode, to_claim, to_member, control.decode):
            decode(content)
    for read in (control.request_from_json, *REPLIES):
        found = read(message)
        assert found is None or read(found.to_json()) == found
    asyncio.run(ask_all(message))


async def listening(natsd: NatsServer, inbox: str, subject: str, heard: Any) -> Connection:
    connection = await connect(NatsSettings(url=natsd.url), name="test", inbox=inbox)
    await connection.listen(subject, heard)
    return connection


async def test_a_question_is_answered_only_in_the_inbox_of_an_authorized_program(natsd: NatsServer) -> None:
    questions: list[Any] = []

    async def heard(_: str, question: Any) -> Any:
        questions.append(question)
        return {"answer": 1}

    collector = await listening(natsd, "_INBOX_collector", "ctl.up.>", heard)
    attacker = await nats.connect(natsd.url)
    answers: list[str] = []

    async def answered(message: Any) -> None:
        answers.append(message.subject)

    await attacker.subscribe(">", cb=answered)
    targets = [f"logs.p0.{OTHER}", "$KV.fshipper.map.logs", f"_INBOX_{OTHER}.x", f"ctl.down.{OTHER}", "dlq.x", "a"]
    for target in targets:
        await attacker.publish(f"ctl.up.{HOST}", b'{"ask": "receipts"}', reply=target)
    headers = {"Nats-Stream": "LOGS_1", "Nats-Subject": f"logs.p1.{HOST}"}
    await attacker.publish(f"ctl.up.{HOST}", b"{}", reply=f"_INBOX_{HOST}.x", headers=headers)
    assert not questions
    own = [f"_INBOX_{HOST}.x", "_INBOX.x"]  # a client that names _R_.x is refused by the server itself
    for target in own:
        await attacker.publish(f"ctl.up.{HOST}", b'{"ask": "receipts"}', reply=target)
    async with asyncio.timeout(10):
        while sum(subject in own for subject in answers) < len(own):
            await asyncio.sleep(0.01)
    assert not set(answers) & set(targets)
    assert len(questions) == len(own)
    assert collector.open
    await attacker.close()
    await collector.close()


@pytest.mark.parametrize("error", CONTENT_ERRORS)
async def test_a_message_that_a_handler_cannot_use_ends_no_session(natsd: NatsServer, error: type[Exception]) -> None:
    async def heard(_: str, question: Any) -> Any:
        if "bad" in question:
            raise error("bad")
        return question

    collector = await listening(natsd, "_INBOX_collector", "ctl.up.>", heard)
    host = await connect(NatsSettings(url=natsd.url), name="test", inbox=f"_INBOX_{HOST}")
    assert await host.ask(f"ctl.up.{HOST}", {"bad": 1}, 0.2) is None
    assert await host.ask(f"ctl.up.{HOST}", {"good": 1}, 5.0) == {"good": 1}
    assert collector.open
    await host.close()
    await collector.close()


def test_hostile_messages_end_no_session_of_a_collector_or_a_producer(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\n")

    async def send_all() -> None:
        client = await nats.connect(natsd.url, inbox_prefix=f"_INBOX_{HOST}")
        for content in HOSTILE:
            for subject in (f"ctl.up.{HOST}", f"ctl.down.{HOST}", "ctl.up.fshipper-partition"):
                await client.publish(subject, content)
                await client.publish(subject, content, reply=f"_INBOX_{HOST}.x")
                await client.publish(subject, content, reply="_INBOX.x")
        await client.flush()
        await client.close()

    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        programs = [fleet.consume(), fleet.produce(HOST, log), fleet.start("partition", "serve")]
        until(lambda: fleet.archived(HOST, log) == b"one\n")
        until(lambda: "session_begun" in programs[2].log)
        asyncio.run(send_all())
        with log.open("ab") as file:
            file.write(b"two\n")
        until(lambda: fleet.archived(HOST, log) == b"one\ntwo\n")
        for program in programs:
            assert "session_ended" not in program.log
            assert "Traceback" not in program.log
            assert "control_ignored" in program.log
            assert program.process.poll() is None
