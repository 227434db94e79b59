"""How a session of reading ends, by the sentences of `shipper.ports.Inbox`: always soon, never silently."""

import asyncio
import time

import pytest
from harness.waiting import slowdown
from worlds import DLQ_SUBJECT, MIB, PATIENCE, STREAM, open_inbox, sequences, soon, taken

from shipper.errors import SessionLost
from shipper.jetstream import pull_consumer as inbox_module
from shipper.jetstream import pull_loop
from shipper.model import Delivery

SOME = Delivery(1, 1, 0, "logs.p0.web1", {}, b"", f"$JS.ACK.{STREAM}.collector.1.1.1.1.0")

CALLS = {
    "state": lambda inbox: inbox.state(),
    "time_of": lambda inbox: inbox.time_of(1),
    "begin": lambda inbox: inbox.begin(1),
    "take": lambda inbox: inbox.take(MIB, 0.1),
    "ack": lambda inbox: inbox.ack(SOME),
    "all_taken": lambda inbox: inbox.all_taken(),
    "dead_letter": lambda inbox: inbox.dead_letter(DLQ_SUBJECT, {}, b"x"),
    "purge": lambda inbox: inbox.purge(1),
    "tell": lambda inbox: inbox.tell("ctl.down.web1", {"v": 1}),
    "ask": lambda inbox: inbox.ask("ctl.down.web1", {"v": 1}, 1.0),
    "listen": lambda inbox: inbox.listen("ctl.up.>", None),
}


async def take_for_ever(inbox, within=1.0):
    found = []
    while True:
        batch = await inbox.take(MIB, within)
        found += batch
        if batch:
            assert [each.sequence for each in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_closed_session_is_lost_for_every_call(world, call):
    await world.put(b"1")
    inbox = await world.open_inbox()
    await inbox.begin(1)
    await soon(inbox.close())
    with pytest.raises(SessionLost):
        await soon(call(inbox))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_session_whose_server_died_is_lost_for_every_call(world, call):
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        world.die()
        with pytest.raises(SessionLost):
            await soon(take_for_ever(inbox))
        with pytest.raises(SessionLost):
            await soon(call(inbox))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_session_that_was_given_up_is_lost_for_every_call_although_the_server_lives(server, call):
    async with open_inbox(server) as inbox:
        await inbox.begin(1)
        await server.recreate_stream()
        with pytest.raises(SessionLost):
            await soon(take_for_ever(inbox))
        with pytest.raises(SessionLost):
            await soon(call(inbox))


async def test_a_killed_server_ends_a_long_take_immediately(world):
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        began = time.monotonic()
        waiting = asyncio.create_task(take_for_ever(inbox, within=60.0))
        await asyncio.sleep(0)
        world.die()
        with pytest.raises(SessionLost):
            await soon(waiting)
        assert time.monotonic() - began < 5 * slowdown()
        await soon(inbox.close())


async def test_what_had_arrived_before_a_kill_is_in_order_and_the_rest_is_lost_with_the_session(world):
    await world.put(*[b"%d" % number for number in range(1000)])
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        await soon(inbox.take(100, 5.0))
        world.die()
        with pytest.raises(SessionLost):
            await soon(take_for_ever_from(inbox))


async def take_for_ever_from(inbox):
    while True:
        await inbox.take(100, 1.0)


async def test_closing_twice_is_closing_once(world):
    inbox = await world.open_inbox()
    await soon(inbox.close())
    await soon(inbox.close())


async def test_a_stream_that_is_recreated_ends_the_session(world):
    await world.put(b"1", b"2")
    async with open_inbox(world) as inbox:
        await inbox.begin(1)
        await soon(inbox.take(MIB, 5.0))
        await world.recreate_stream()
        with pytest.raises(SessionLost):
            await soon(take_for_ever(inbox))


async def test_a_second_reader_is_noticed_by_one_of_both_and_neither_leaves_anything_out(world):
    await world.put(*[b"%d" % number for number in range(50)])
    async with open_inbox(world) as one, open_inbox(world) as other:
        await one.begin(1)
        await soon(one.take(10, 5.0))
        await other.begin(1)
        readers = [asyncio.create_task(take_from_start(one)), asyncio.create_task(take_for_ever(other))]
        await world.put(b"more", b"and more")
        done, left = await asyncio.wait(readers, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.wait(readers)
        assert done
        assert all(isinstance(task.exception(), SessionLost) for task in done)


async def take_from_start(inbox):
    """Reads on after what was taken; the order must not break."""
    last = 0
    while True:
        for each in await inbox.take(MIB, 1.0):
            assert each.sequence > last
            last = each.sequence


async def test_a_server_that_is_stopped_in_the_middle_ends_the_session_after_some_silence(server):
    async with open_inbox(server) as inbox:
        await inbox.begin(1)
        await inbox.take(MIB, 0.05)
        server.natsd.pause()
        began = time.monotonic()
        with pytest.raises(SessionLost, match="heartbeat"):
            await soon(take_for_ever(inbox))
        assert time.monotonic() - began < 6 * slowdown()
        began = time.monotonic()
        await soon(inbox.close())
        assert time.monotonic() - began < 3 * slowdown()


async def test_silence_ends_one_long_take_too(server):
    async with open_inbox(server) as inbox:
        await inbox.begin(1)
        server.natsd.pause()
        began = time.monotonic()
        with pytest.raises(SessionLost, match="heartbeat"):
            await soon(inbox.take(MIB, 60.0))
        assert time.monotonic() - began < 6 * slowdown()


async def test_a_quiet_stream_is_no_silent_server_and_reading_continues_when_pulls_expire(server, monkeypatch):
    monkeypatch.setattr(pull_loop, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(pull_loop, "SILENCE_SECONDS", 0.6)
    monkeypatch.setattr(inbox_module, "EXPIRES_SECONDS", 0.7)
    async with open_inbox(server) as inbox:
        await inbox.begin(1)
        assert await soon(inbox.take(MIB, 2.5)) == []
        await server.put(b"1", b"2", b"3")
        assert sequences(await taken(inbox, 3)) == [1, 2, 3]
