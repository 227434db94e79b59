"""Headers of a message that becomes a dead letter, and requests for streams: what one host sends costs no other."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from nats.aio.client import _HEADER_KEY_RE
from prometheus_client import REGISTRY

from consumer.commit.batch import DeadLetter
from consumer.partition import dead_letters
from consumer.partition.session_loop import STUCK_SESSIONS, SessionLoop
from partitioner.on_demand import HOST_BURST, StreamProvisioner
from shipper import events
from shipper.control import StreamAnswer
from shipper.errors import SessionLost, UnreadableMessage
from shipper.events import sessions
from shipper.jetstream import direct_get
from shipper.jetstream.fast_client import Message, parse_headers
from shipper.lifecycle import Pulse, Stop
from shipper.model import Delivery
from shipper.retry import Patience
from shipper.subjects import host_of_any


def test_a_status_is_only_in_the_first_line_of_what_no_publisher_wrote() -> None:
    assert parse_headers(b"NATS/1.0 503\r\n\r\n").status == "503"
    found = parse_headers(b"NATS/1.0 404 No Messages\r\nStatus: 200\r\n\r\n")
    assert (found.status, found.description, found.fields) == ("404", "No Messages", {"Status": "200"})
    for block in (b"NATS/1.0\r\nStatus: 503\r\n\r\n", b"NATS/1.0\r\nStatus:503\r\nA: \xc3\xa4\r\n\r\n"):
        assert parse_headers(block).status == ""
        assert parse_headers(block).fields["Status"] == "503"
    stored = parse_headers(b"NATS/1.0 503\r\nNats-Sequence: 7\r\n\r\n")
    assert (stored.status, stored.fields) == ("", {"Nats-Sequence": "7"})


def test_headers_with_a_meaning_are_renamed_in_a_dead_letter_and_names_that_cannot_be_sent_left_out() -> None:
    sent: dict[str, str] = {}

    async def dead_letter(_: str, headers: Mapping[str, str], __: bytes) -> None:
        sent.update(headers)

    headers = {"Status": "204", "description": "x", "Nats-Rollup": "all", "Dlq-Cut": "9", "a(b)": "c", "A": "b"}
    delivery = Delivery(7, 1, 0, "logs.p0.web1", headers, b"line", "")
    dead = DeadLetter(delivery=delivery, host="web1", reason="why")
    asyncio.run(dead_letters.keep(SimpleNamespace(dead_letter=dead_letter), dead, stream="LOGS_0"))  # type: ignore[arg-type]
    assert not {"Status", "description", "Nats-Rollup", "Dlq-Cut"} & set(sent)
    assert {"Dlq-Status": "204", "Dlq-description": "x", "Dlq-Nats-Rollup": "all", "A": "b"}.items() <= sent.items()
    assert all(_HEADER_KEY_RE.fullmatch(name) for name in sent)


def test_a_host_that_requests_streams_too_often_is_not_answered_and_another_is() -> None:
    class Cluster:
        lists = 0

        async def streams(self) -> dict[int, Any]:
            self.lists += 1
            return {0: {}}

        async def map(self) -> Any:
            return SimpleNamespace(map=None)

        def is_closed(self, _: object) -> bool:
            return False

    async def within() -> None:
        cluster = Cluster()
        serving = StreamProvisioner(cluster, SimpleNamespace())  # type: ignore[arg-type]
        request = {"v": 1, "ask": "stream", "partition": 0}
        answers = [await serving.answer("ctl.up.web1", request) for _ in range(100)]
        assert sum(each is not None for each in answers) == cluster.lists <= HOST_BURST + 1
        other = await serving.answer("ctl.up.web2", request)
        assert other is not None
        assert other["stream"] == StreamAnswer.THERE.value

    asyncio.run(within())


def test_a_message_at_which_sessions_end_again_and_again_is_named_with_its_subject() -> None:
    troubles: list[str] = []

    async def open_inbox() -> Any:
        async def close() -> None: ...

        return SimpleNamespace(close=close)

    async def within() -> None:
        options, stop = SimpleNamespace(partition=0, stream="LOGS_0"), Stop()
        loop = SessionLoop(options, open_inbox, stop, Patience(at_start=60, later=60), Pulse("test"))  # type: ignore[arg-type]

        async def serve(_: Any) -> None:
            troubles.append(loop.trouble)
            if len(troubles) > STUCK_SESSIONS:
                return
            loop.committing(Delivery(7, 1, 0, "logs.p0.web1", {}, b"line", ""))
            raise SessionLost("why")

        await loop.run(serve)
        assert loop.is_stuck_at(7)

    asyncio.run(within())
    assert troubles[STUCK_SESSIONS - 1] == "why"
    assert troubles[STUCK_SESSIONS] == f"why; {STUCK_SESSIONS} sessions ended at message 7 of logs.p0.web1"


def test_a_stored_message_that_cannot_be_read_is_counted_for_its_host_and_its_sequence_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    headers = {"Nats-Sequence": "7", "Nats-Subject": "logs.beat.web1.example.net", "Nats-Time-Stamp": "yesterday"}
    with pytest.raises(UnreadableMessage) as refused:
        direct_get.stored(Message(_client=None, subject="_INBOX.x", headers=headers))  # type: ignore[arg-type]
    found = direct_get.of_message(refused.value)
    assert found == {"sequence": 7, "host": "web1.example.net"}
    name = "fshipper_unreadable_host_messages_total"
    before = REGISTRY.get_sample_value(name, {"host": "web1.example.net"}) or 0
    events.message_unreadable(stream="LOGS_BEATS", **found, error="x")
    assert REGISTRY.get_sample_value(name, {"host": "web1.example.net"}) == before + 1
    said = capsys.readouterr().err
    assert all(word in said for word in ("message_unreadable", "web1.example.net", "LOGS_BEATS"))


@pytest.mark.parametrize(
    ("subject", "host"),
    [
        ("logs.p0.web1", "web1"),
        ("other.p4095.web1.example.net", "web1.example.net"),
        ("ctl.down.web1", "web1"),
        ("dlq.LOGS_0.web1", "web1"),
        ("$KV.fshipper.map.logs", ""),
        ("logs.p0.", ""),
        ("", ""),
    ],
)
def test_the_host_of_any_subject_is_known_where_there_is_one(subject: str, host: str) -> None:
    assert host_of_any(subject) == host


def test_hosts_beyond_the_bound_have_no_count_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_UNREADABLE_HOSTS", set())
    monkeypatch.setattr(sessions, "MAX_UNREADABLE_HOSTS", 1)
    total = REGISTRY.get_sample_value("fshipper_unreadable_messages_total") or 0
    for host in ("bound1", "bound2"):
        events.message_unreadable(stream="LOGS_0", sequence=1, host=host, error="x")
    name = "fshipper_unreadable_host_messages_total"
    assert REGISTRY.get_sample_value(name, {"host": "bound1"}) == 1
    assert REGISTRY.get_sample_value(name, {"host": "bound2"}) is None
    assert REGISTRY.get_sample_value("fshipper_unreadable_messages_total") == total + 2
