"""Control messages between a publisher and an inbox: `ask`, `tell` and `listen` of both ports."""

import asyncio
import time

from harness.waiting import slowdown
from publishing import publishing
from worlds import open_inbox, soon


async def test_asking_without_a_listener_is_answered_by_none_immediately(world):
    async with publishing(world) as session:
        began = time.monotonic()
        assert await session.ask("ctl.up.web1", {"v": 1}, 10.0) is None
        assert time.monotonic() - began < 5 * slowdown()


async def test_a_publisher_and_an_inbox_ask_each_other(world):
    heard = []

    async def answer(subject, message):
        heard.append((subject, message))
        return {"answer": message["number"] + 1}

    async with publishing(world) as session, open_inbox(world) as inbox:
        await inbox.listen("ctl.up.>", answer)
        await session.listen("ctl.down.web1", answer)
        assert await session.ask("ctl.up.web1", {"number": 1}, 5.0) == {"answer": 2}
        assert await inbox.ask("ctl.down.web1", {"number": 2}, 5.0) == {"answer": 3}
        assert await inbox.ask("ctl.down.web2", {"number": 3}, 5.0) is None
    assert heard == [("ctl.up.web1", {"number": 1}), ("ctl.down.web1", {"number": 2})]


async def test_a_listener_without_an_answer_leaves_the_asker_with_none_in_time(world):
    async def say_nothing(_subject, _message):
        return None

    async with publishing(world) as session, open_inbox(world) as inbox:
        await inbox.listen("ctl.up.>", say_nothing)
        began = time.monotonic()
        assert await session.ask("ctl.up.web1", {"v": 1}, 0.3) is None
        assert time.monotonic() - began < 3 * slowdown()


async def test_a_publisher_receives_what_a_collector_sends(world):
    told = asyncio.get_running_loop().create_future()

    async def hear(_subject, message):
        told.set_result(message)

    async with publishing(world) as session, open_inbox(world) as inbox:
        await session.listen("ctl.down.web1", hear)
        await inbox.tell("ctl.down.web1", {"v": 1, "receipts": []})
        assert await soon(told) == {"v": 1, "receipts": []}
