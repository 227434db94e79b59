"""What operators do to single streams, against a real nats-server."""

import asyncio
import datetime as dt
import json
import os
import subprocess
import sysconfig
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from administering import on_server, publish

from partitioner.streams import server_events
from partitioner.streams.edit import assigned
from partitioner.streams.server_events import line
from shipper import codec
from shipper.errors import SessionLost, UsageError
from shipper.jetstream.stream_status import newest_sizes
from shipper.model import Block, Encoding, Span
from shipper.subjects import bucket_subject, lease_key

FSHIPPER = str(Path(sysconfig.get_path("scripts")) / "fshipper")


def info(natsd, name):
    return on_server(natsd, lambda admin: admin.stream(name))


def archive(natsd, upto, stream="LOGS_0"):
    """Acknowledge everything to `upto`, as a collector does after its journal commit."""

    async def work(admin):
        client = admin.connection.client
        inbox = client.new_inbox()
        pulled = await client.subscribe(inbox)
        verb = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.collector"
        await client.publish(verb, json.dumps({"batch": upto}).encode(), reply=inbox)
        for _ in range(upto):
            message = await pulled.next_msg(timeout=10)
        await client.publish(message.reply, b"+ACK")
        while (await admin.consumer(stream, "collector"))["ack_floor"]["stream_seq"] < upto:
            await asyncio.sleep(0.01)

    on_server(natsd, work)


def block(data, start=0, source="00000000000000a1"):
    told = Block(
        source=source,
        file="/var/log/app.log",
        span=Span(start, start + len(data)),
        origin=0,
        lines=data.count(b"\n"),
        block_crc=zlib.crc32(data),
        source_crc=zlib.crc32(data),
        encoding=Encoding.IDENTITY,
        read_at="2026-11-20T10:00:00Z",
    )
    return codec.to_headers(told)


# -- edit ---------------------------------------------------------------------------------------------------------


def test_an_edited_field_is_shown_and_changed_and_nothing_else_is(natsd, partition):
    partition("apply", "--partitions", "4")
    before = info(natsd, "LOGS_3")["config"]
    code, out, _ = partition("edit", "p3", "--set", "max_bytes=2GiB", "--set", "metadata.team=web", "--yes")
    assert (code, out.splitlines()[:3]) == (
        0,
        ["~ update stream LOGS_3", "    max_bytes 1.0 GiB → 2.0 GiB", '    metadata.team null → "web"'],
    )
    metadata = {**before["metadata"], "team": "web"}
    assert info(natsd, "LOGS_3")["config"] == before | {"max_bytes": 2**31, "metadata": metadata}


def test_an_edit_needs_a_confirmation_and_without_a_terminal_changes_nothing(natsd, partition):
    partition("apply")
    code, out, err = partition("edit", "LOGS_0", "--set", "max_bytes=2GiB")
    assert (code, "max_bytes 1.0 GiB → 2.0 GiB" in out, "--yes" in err) == (64, True, True)
    assert info(natsd, "LOGS_0")["config"]["max_bytes"] == 2**30
    assert partition("edit", "LOGS_0", "--set", "max_bytes=2GiB", "--dry-run")[0] == 2
    assert partition("edit", "LOGS_0", "--set", "max_bytes=1GiB", "--dry-run")[0] == 0


def test_an_edit_in_an_editor_may_remove_a_field(natsd, partition, tmp_path, monkeypatch):
    partition("apply")
    partition("edit", "p0", "--set", "description=night shift", "--yes")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i -e '/description/d' -e 's/1073741824/2147483648/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    code, out, _ = partition("edit", "p0", "--yes")
    assert (code, "description" in out) == (0, True)
    config = info(natsd, "LOGS_0")["config"]
    assert (config.get("description"), config["max_bytes"]) == (None, 2**31)


@pytest.mark.parametrize(("script", "code"), [("echo x > $1", 78), ("exit 3", 1), ("true", 0)])
def test_an_editor_that_leaves_nothing_useful_changes_nothing(natsd, partition, tmp_path, monkeypatch, script, code):
    partition("apply")
    before = info(natsd, "LOGS_0")["config"]
    (tmp_path / "editor").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "editor").chmod(0o755)
    monkeypatch.setenv("EDITOR", str(tmp_path / "editor"))
    assert partition("edit", "p0", "--yes")[0] == code
    assert info(natsd, "LOGS_0")["config"] == before


def test_an_edit_that_would_lose_lines_or_that_the_server_refuses_is_not_done(natsd, partition):
    partition("apply")
    code, _, err = partition("edit", "p0", "--set", "discard=old", "--yes")
    assert (code, "--allow-data-loss" in err) == (1, True)
    assert partition("edit", "p0", "--set", "storage=memory", "--yes")[0] == 1
    assert partition("edit", "p0", "--set", "name=OTHER", "--yes")[0] == 64
    assert partition("edit", "p0", "--set", "max_bites=5", "--yes")[0] == 78


def test_a_consumer_is_edited_too(natsd, partition):
    partition("apply")
    code, out, _ = partition("edit", "p0", "--consumer", "collector", "--set", "ack_wait=2m", "--yes")
    assert (code, out.splitlines()[0]) == (0, "~ update consumer collector on LOGS_0")
    found = on_server(natsd, lambda admin: admin.consumer("LOGS_0", "collector"))["config"]
    assert (found["ack_wait"], found["max_ack_pending"]) == (120 * 10**9, 5000)


def test_values_are_json_or_text_and_lists_may_have_commas():
    config = {"subjects": ["a"], "description": "x"}
    given = ["subjects=a,b", "description=a,b", "no_ack=true", 'placement={"tags": ["x"]}', "max_age=1m"]
    assert assigned(config, given, ["metadata.a.b"]) == {
        "subjects": ["a", "b"],
        "description": "a,b",
        "no_ack": True,
        "placement": {"tags": ["x"]},
        "max_age": 60 * 10**9,
        "metadata": {"a.b": None},
    }
    with pytest.raises(UsageError):
        assigned(config, ["max_bytes"], [])


# -- copy-config --------------------------------------------------------------------------------------------------


def test_a_stream_is_made_like_another_one_with_its_consumers(natsd, partition):
    partition("apply", "--max-bytes", "77MB")
    partition("edit", "p0", "--set", "description=ours", "--yes")
    publish(natsd, "logs.p0.web1", b"stays where it is")
    assert partition("copy-config", "LOGS_0", "LOGS_7")[0] == 0
    made = info(natsd, "LOGS_7")
    assert made["state"]["messages"] == 0
    assert {key: made["config"][key] for key in ("max_bytes", "description", "subjects")} == {
        "max_bytes": 77_000_000,
        "description": "ours",
        "subjects": ["logs.p7.>"],
    }
    assert on_server(natsd, lambda admin: admin.consumer("LOGS_7", "collector"))["config"]["ack_policy"] == "all"


def test_a_stream_that_exists_becomes_like_another_one_but_listens_to_what_it_did(natsd, partition):
    partition("apply", "--partitions", "2")
    partition("edit", "p0", "--set", "max_bytes=2GiB", "--yes")
    code, out, _ = partition("copy-config", "p0", "p1", "--yes")
    assert (code, "    max_bytes 1.0 GiB → 2.0 GiB" in out) == (0, True)
    config = info(natsd, "LOGS_1")["config"]
    assert (config["max_bytes"], config["subjects"]) == (2**31, ["logs.p1.>"])
    assert partition("copy-config", "p0", "OTHER", "--subjects", "x.>,y")[0] == 0
    assert info(natsd, "OTHER")["config"]["subjects"] == ["x.>", "y"]
    assert partition("copy-config", "NOPE", "p1")[0] == 69


# -- purge --------------------------------------------------------------------------------------------------------


def test_a_purge_takes_what_was_stored_before_a_time_and_nothing_that_is_not_archived(natsd, partition):
    partition("apply")
    publish(natsd, "logs.p0.web1", b"1", b"2", b"3")
    time.sleep(0.3)
    between = dt.datetime.now(dt.UTC).isoformat()
    publish(natsd, "logs.p0.web1", b"4", b"5")
    archive(natsd, 2)
    code, out, err = partition("purge", "p0", "--before", between, "--yes")
    assert (code, out) == (0, "removed 2 messages from LOGS_0\n")
    assert "messages 3 to 3 stay: the collector has not archived what follows (--force removes them)" in err
    archive(natsd, 3)
    assert partition("purge", "p0", "--before", between, "--yes")[1] == "removed 1 message from LOGS_0\n"
    assert partition("purge", "p0", "--before", "1h", "--yes")[1] == "removed 0 messages from LOGS_0\n"
    code, out, _ = partition("purge", "p0", "--all", "--force", "--yes", "--json")
    assert json.loads(out) == {"v": 1, "stream": "LOGS_0", "purged": 2, "below": 6, "asked": 6}


def test_a_purge_ends_where_the_collector_waits_for_missing_bytes(natsd, partition):
    partition("apply")
    publish(natsd, "logs.p0.web1", b"1", b"2", b"3", b"4")
    archive(natsd, 4)
    claim = {"v": 1, "applied": 4, "resume": 3}
    publish(natsd, bucket_subject(lease_key("logs", 0)), json.dumps(claim).encode())
    code, out, err = partition("purge", "p0", "--below", "5", "--yes")
    assert (code, out, "messages 3 to 4 stay: the collector waits" in err) == (
        0,
        "removed 2 messages from LOGS_0\n",
        True,
    )


def test_a_stream_of_others_is_purged_as_requested_after_a_confirmation(natsd, partition):
    on_server(natsd, lambda admin: admin.create_stream({"name": "ORDERS", "subjects": ["orders.>"]}))
    publish(natsd, "orders.a", b"1", b"2")
    assert partition("purge", "ORDERS", "--before", "0s")[0] == 64
    assert partition("purge", "ORDERS", "--before", "0s", "--yes")[1] == "removed 2 messages from ORDERS\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("p0",), 64),
        (("p0", "--all", "--below", "3"), 64),
        (("p0", "--before", "soon"), 64),
        (("NOPE", "--all", "--yes"), 69),
    ],
)
def test_a_purge_without_a_valid_range_is_refused(partition, arguments, code):
    assert partition("purge", *arguments)[0] == code


# -- rm-message ---------------------------------------------------------------------------------------------------


def test_a_message_is_removed_and_what_the_archive_has_of_it_is_named(natsd, partition):
    partition("apply")
    publish(natsd, "logs.p0.web1.example.net", b"one\ntwo\n", headers=block(b"one\ntwo\n", 100))
    publish(natsd, "logs.p0.web1.example.net", b"behind it")
    archive(natsd, 2)
    code, out, _ = partition("rm-message", "p0", 1, "--yes")
    first, *rest = out.splitlines()
    assert code == 0
    assert first.startswith("message 1 of logs.p0.web1.example.net, stored 20")
    assert first.endswith("8 bytes: bytes 100-108 of /var/log/app.log")
    assert rest == [
        "removed message 1 from LOGS_0",
        "the archive has it, too: fshipper redact --host web1.example.net --source 00000000000000a1 --span 100-108",
    ]
    assert on_server(natsd, lambda admin: admin.message("LOGS_0", 1)) is None
    assert partition("rm-message", "p0", 1, "--yes")[0] == 69


@pytest.mark.parametrize(("archived", "why"), [(0, "it is not archived yet"), (2, "it is the newest of its host")])
def test_a_message_that_would_come_back_is_removed_by_force_only(natsd, partition, archived, why):
    partition("apply")
    publish(natsd, "logs.p0.web2", b"of another")
    publish(natsd, "logs.p0.web1", b"secret")
    if archived:
        archive(natsd, archived)
    code, _, err = partition("rm-message", "LOGS_0", 2, "--yes")
    assert (code, why in err) == (1, True)
    code, out, _ = partition("rm-message", "LOGS_0", 2, "--force", "--yes", "--json")
    assert (code, json.loads(out)["removed"], json.loads(out)["host"]) == (0, True, "web1")


# -- account, events ----------------------------------------------------------------------------------------------


def test_the_account_is_printed_for_people_and_programs(natsd, partition):
    partition("apply")
    code, out, _ = partition("account")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (code, lines["streams"], lines["consumers"], lines["limits.max_streams"]) == (0, "5", "1", "-1")
    assert lines["reserved_storage"].endswith("GiB")
    assert json.loads(partition("account", "--json")[1])["streams"] == 5


def test_what_happens_is_reported_as_it_happens(natsd, partition):
    arguments = [FSHIPPER, "partition", "events", "--count", "3", "--stream", "p0", "--url", natsd.url]
    watching = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert watching.stderr.readline() == "listening\n"
        partition("apply", "--partitions", "2")
        on_server(natsd, lambda admin: admin.delete_stream("LOGS_0"))
        out, _ = watching.communicate(timeout=20)
    finally:
        watching.kill()
    assert [text.partition(" ")[2] for text in out.splitlines()] == [
        "stream_action: stream LOGS_0, action create",
        "consumer_action: stream LOGS_0, consumer collector, action create",
        "consumer_action: stream LOGS_0, consumer collector, action delete",
    ]


def test_every_loss_of_a_server_that_came_back_is_a_first_one(natsd, partition, monkeypatch):
    attempts: list[int] = []
    listen = server_events._listen

    async def listen_and_lose(*arguments):
        lost = await listen(*arguments)
        if len(attempts) < 2:
            natsd.kill()
        return lost

    def restart(attempt: int) -> float:
        attempts.append(attempt)
        natsd.start()
        return 0.0

    monkeypatch.setattr(server_events, "_listen", listen_and_lose)
    monkeypatch.setattr(server_events, "SESSION", SimpleNamespace(delay=restart))
    code, _, err = partition("events", "--for", "3s")
    assert (code, attempts, err.count("listening")) == (0, [1, 1], 3)


def test_sizes_of_messages_are_not_partial_after_the_server_was_lost(natsd):
    async def work(admin):
        config = {"name": "SIZES", "subjects": ["sizes.>"], "storage": "memory", "num_replicas": 1}
        await admin.create_stream(config | {"allow_direct": True})
        lost = asyncio.Event()
        admin.connection.on_lost(lost.set)
        natsd.kill()
        await lost.wait()
        with pytest.raises(SessionLost):
            await newest_sizes(admin.connection, "SIZES", last=5, messages=5)

    on_server(natsd, work)


def test_events_end_after_a_time_and_without_a_server_immediately(natsd, partition):
    assert partition("events", "--for", "200ms") == (0, "", "listening\n")
    natsd.kill()
    assert partition("events", "--for", "10s")[0] == 69


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            {"type": "x.v1.max_deliver", "stream": "S", "consumer": "c", "stream_seq": 7, "deliveries": 5},
            "max_deliver: stream S, consumer c, stream_seq 7, deliveries 5",
        ),
        (
            {"type": "x.v1.api_audit", "subject": "$JS.API.STREAM.PURGE.S", "client": {"host": "::1", "id": 7}},
            "api_audit: subject $JS.API.STREAM.PURGE.S, client ::1",
        ),
        ({"type": "x.v1.api_audit", "request": "x" * 300}, f"api_audit: request {'x' * 192}"),
        ({}, "event: "),
    ],
)
def test_every_event_has_a_line(event, text):
    assert line({"timestamp": "2026-11-20T10:00:00.123456789Z"} | event) == f"2026-11-20T10:00:00Z {text}"
