"""How a session of publishing ends, by the sentences of `shipper.ports.Publisher`: always soon, never silently."""

import asyncio
import time

import pytest
from harness.waiting import slowdown
from publishing import ended, publish, publishing, settled
from worlds import PATIENCE, WEB1, soon

from shipper.errors import SessionLost


async def publish_for_ever(session):
    while True:
        await session.publish(2, WEB1, {}, bytes(100_000))
        await asyncio.sleep(0)


async def test_news_wakes_for_acks_and_for_the_end(world):
    async with publishing(world) as session:
        await publish(session, 1)
        await soon(session.news.wait())
        await settled(session, 1)
        session.news.clear()
        world.die()
        await soon(session.news.wait())
        with pytest.raises(SessionLost):
            session.acknowledged()


async def test_a_killed_server_ends_publishing_within_seconds(world):
    async with publishing(world) as session:
        await publish(session, 1)
        await settled(session, 1)
        world.die()
        began = time.monotonic()
        with pytest.raises(SessionLost):
            await soon(publish_for_ever(session))
        with pytest.raises(SessionLost):
            session.acknowledged()
        await soon(session.close())
        assert time.monotonic() - began < 5 * slowdown()


async def test_acks_that_came_before_a_kill_are_handed_out_before_the_session_is_lost(world):
    async with publishing(world) as session:
        for token in (1, 2, 3):
            await publish(session, token)
            async with asyncio.timeout(PATIENCE):
                while session.woken < token:
                    session.news.clear()
                    await session.news.wait()
        world.die()
        acks, error = await ended(session)
    assert ([ack.token for ack in acks], type(error)) == ([1, 2, 3], SessionLost)


async def test_a_session_that_waits_for_an_answer_of_a_killed_server_is_lost(world):
    async with publishing(world) as session:
        world.die()
        with pytest.raises(SessionLost):
            await soon(session.last_stored(WEB1))


CALLS = {
    "last_stored": lambda session: session.last_stored(WEB1),
    "publish": lambda session: session.publish(1, WEB1, {}, b"x"),
    "ask": lambda session: session.ask("ctl.up.web1", {"v": 1}, 1.0),
    "listen": lambda session: session.listen("ctl.down.web1", None),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_closed_session_is_lost_for_every_call(world, call):
    session = await world.open_publisher()
    await session.close()
    with pytest.raises(SessionLost):
        await soon(call(session))
    with pytest.raises(SessionLost):
        session.acknowledged()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_session_whose_server_died_is_lost_for_every_call(world, call):
    async with publishing(world) as session:
        world.die()
        await ended(session)
        with pytest.raises(SessionLost):
            await soon(call(session))


async def test_closing_twice_is_closing_once(world):
    session = await world.open_publisher()
    await soon(session.close())
    await soon(session.close())


async def test_closing_never_hangs_on_a_server_that_is_stopped_in_the_middle(server):
    session = await server.open_publisher()
    server.natsd.pause()
    for token in range(40):
        await session.publish(token, WEB1, {}, bytes(256 * 1024))
    began = time.monotonic()
    await soon(session.close())
    assert time.monotonic() - began < 3 * slowdown()


async def test_a_server_that_is_stopped_and_continues_acknowledges_everything(server):
    async with publishing(server) as session:
        server.natsd.pause()
        await publish(session, 1, 2, 3)
        assert session.acknowledged() == []
        server.natsd.resume()
        assert len(await settled(session, 3)) == 3
