"""Heartbeats: stored where a stream keeps them, and never the end of a session."""

import asyncio

from harness.natsd import running
from publishing import publish, publishing, settled
from worlds import STREAM, last_sequence, soon, stored

from shipper.heartbeat import beats_config
from shipper.jetstream.admin import administration
from shipper.jetstream.connection import connect
from shipper.jetstream.heartbeat_stream import HeartbeatReader
from shipper.jetstream.publisher import JetStreamPublisher
from shipper.settings import NatsSettings

BEAT = "logs.beat.web1"
BEATS = "LOGS_BEATS"
HOST_RIGHTS = """
authorization { users: [ { user: "admin", password: "x" }, { user: "web1", password: "x", permissions: {
  publish: { allow: [%s"ctl.up.web1", "$JS.API.DIRECT.GET.*.logs.*.web1"] }
  subscribe: { allow: ["_INBOX_web1.>", "ctl.down.web1"] } } } ] }
"""


async def test_what_no_stream_keeps_is_sent_all_the_same(world):
    async with publishing(world) as session:
        assert await soon(session.mention("somewhere.else", b"{}"))
        await publish(session, 1)
        assert len(await settled(session, 1)) == 1


async def test_a_heartbeat_is_stored_without_an_ack_that_could_be_taken_for_that_of_a_block(server):
    async with publishing(server) as session:
        assert await soon(session.mention(BEAT, b"first"))
        assert await soon(session.mention(BEAT, b"second"))
        await publish(session, 1)
        assert [ack.token for ack in await settled(session, 1)] == [1]
    await stored(lambda: server.last_sequence(BEATS), 2)
    assert [beat.payload for beat in (await look(server.settings)).beats] == [b"second"]


async def test_a_poll_yields_what_is_new_and_everything_after_a_host_was_forgotten(server):
    connection = await connect(server.settings, name="test", inbox="_INBOX_test")
    beats = HeartbeatReader(connection, "logs")
    try:
        async with publishing(server) as session:
            await soon(session.mention(BEAT, b"1"))
            await soon(session.mention("logs.beat.web2", b"2"))
            await publish(session, 1)
            await settled(session, 1)
            await stored(lambda: server.last_sequence(BEATS), 2)
            first = await beats.poll()
            await soon(session.mention(BEAT, b"3"))
            await publish(session, 2)
            await settled(session, 1)
            await stored(lambda: server.last_sequence(BEATS), 3)
        second = await beats.poll(2)
        assert await beats.forget("web2")
        assert not await beats.forget("web3")
        third = await beats.poll(2)
    finally:
        await connection.close()
    told = [(found.complete, [beat.payload for beat in found.beats]) for found in (first, second, third)]
    assert told == [(True, [b"1", b"2"]), (False, [b"3"]), (True, [b"3"])]


async def look(settings):
    connection = await connect(settings, name="test", inbox="_INBOX_test")
    try:
        return await HeartbeatReader(connection, "logs").poll()
    finally:
        await connection.close()


def host_on(natsd, work):
    """`work(session, last_sequence)` with the rights of a host, and the newest heartbeats afterwards."""

    async def within():
        admin = NatsSettings(url=natsd.url, user="admin", password="x")
        async with administration(admin) as administrator:
            await administrator.create_stream(beats_config("logs"))
            await administrator.create_stream({"name": STREAM, "subjects": ["logs.p0.>"], "allow_direct": True})
        mine = NatsSettings(url=natsd.url, user="web1", password="x")
        session = await JetStreamPublisher.begin(mine, stream=STREAM, host="web1", block_bytes=4096)
        try:
            await work(session, lambda: last_sequence(admin, BEATS))
        finally:
            await session.close()
        return (await look(admin)).beats

    return asyncio.run(within())


async def say_and_be_heard(session, last_beat):
    await say_and_ship(session, last_beat)
    await stored(last_beat, 3)


async def say_and_ship(session, _):
    for number in range(3):
        assert await soon(session.mention(BEAT, b"%d" % number))
        await session.publish(number, "logs.p0.web1", {"Log-Id": "1"}, b"line\n")
        assert len(await settled_plainly(session)) == 1
    assert await session.last_stored("logs.p0.web1")


async def settled_plainly(session):
    async with asyncio.timeout(10):
        while not (acks := session.acknowledged()):
            await asyncio.sleep(0.01)
        return acks


def test_the_right_to_publish_lines_is_enough(tmp_path):
    with running(tmp_path / "natsd", extra=HOST_RIGHTS % '"logs.*.web1", ') as natsd:
        (beat,) = host_on(natsd, say_and_be_heard)
    assert (beat.subject, beat.payload) == (BEAT, b"2")


def test_a_host_without_the_right_to_heartbeats_still_ships_and_reports_it_once(tmp_path, capsys):
    with running(tmp_path / "natsd", extra=HOST_RIGHTS % '"logs.p0.web1", ') as natsd:
        assert host_on(natsd, say_and_ship) == []
    assert capsys.readouterr().err.count("heartbeats_refused") == 1


# -- reading it again -------------------------------------------------------------------------------------------------


async def test_the_newest_heartbeat_can_be_read_where_a_stream_keeps_it(world):
    async with publishing(world) as session:
        assert await soon(session.mentioned(BEATS, BEAT)) is None
        for payload in (b"first", b"second"):
            assert await soon(session.mention(BEAT, payload))
        await publish(session, 1)
        assert len(await settled(session, 1)) == 1
        await stored(lambda: world.last_sequence(BEATS), 2)
        found = await soon(session.mentioned(BEATS, BEAT))
        assert (found.subject, found.payload) == (BEAT, b"second")
        assert await soon(session.mentioned(BEATS, "logs.beat.nobody")) is None
        assert await soon(session.mentioned("NOBODYS_BEATS", BEAT)) is None  # no stream keeps it
        await publish(session, 2)
        assert len(await settled(session, 1)) == 1


async def read_and_ship(session, last_beat):
    assert await soon(session.mention(BEAT, b"mine"))
    await stored(last_beat, 1)
    await session.publish(1, "logs.p0.web1", {"Log-Id": "1"}, b"line\n")
    assert len(await settled_plainly(session)) == 1
    session.found = [await soon(session.mentioned(BEATS, BEAT)) for _ in range(3)]
    session.others = await soon(session.mentioned(BEATS, "logs.beat.web2"))
    await session.publish(2, "logs.p0.web1", {"Log-Id": "1"}, b"line\n")
    assert len(await settled_plainly(session)) == 1


READING = '"logs.*.web1", '


def test_the_rights_of_a_host_are_enough_to_read_its_own_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(JetStreamPublisher, "may_read_mentions", True)
    seen = []

    async def work(session, last_beat):
        await read_and_ship(session, last_beat)
        seen.append(([each.payload for each in session.found], session.others))

    with running(tmp_path / "natsd", extra=HOST_RIGHTS % READING) as natsd:
        host_on(natsd, work)
    assert seen == [([b"mine"] * 3, None)]


def test_a_host_that_may_not_read_it_ships_all_the_same_in_the_same_session(tmp_path, monkeypatch):
    monkeypatch.setattr(JetStreamPublisher, "may_read_mentions", True)
    seen = []

    async def work(session, last_beat):
        await read_and_ship(session, last_beat)
        seen.append(session.found)

    narrow = HOST_RIGHTS.replace("$JS.API.DIRECT.GET.*.logs.*.web1", "$JS.API.DIRECT.GET.LOGS_0.logs.p0.web1")
    with running(tmp_path / "natsd", extra=narrow % READING) as natsd:
        host_on(natsd, work)
    assert seen == [[None, None, None]]
    assert JetStreamPublisher.may_read_mentions is False
