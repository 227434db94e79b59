"""A session of publishing as the contract tests use it: with its news as an event, and ways to wait for acks."""

import asyncio
import contextlib
import math

from worlds import PATIENCE, WEB1, soon

from shipper.errors import Transient


@contextlib.asynccontextmanager
async def publishing(world):
    session = await world.open_publisher()
    session.news, session.woken = asyncio.Event(), 0

    def wake():
        session.woken += 1
        session.news.set()

    session.on_news(wake)
    try:
        yield session
    finally:
        await soon(session.close())


async def settled(session, count):
    """The next `count` acks, waiting for news."""
    found = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            session.news.clear()
            acks = session.acknowledged()
            found += acks
            if not acks:
                await session.news.wait()
    return found


async def ended(session):
    """The error that `acknowledged` raises at last, and the acks before it."""
    return await settled_or_ended(session, math.inf)


async def settled_or_ended(session, count):
    """The next `count` acks, and None; or fewer, and the error that `acknowledged` raises then."""
    found = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            session.news.clear()
            try:
                acks = session.acknowledged()
            except Transient as error:
                return found, error
            found += acks
            if not acks:
                await session.news.wait()
    return found, None


async def publish(session, *tokens, subject=WEB1):
    for token in tokens:
        await session.publish(token, subject, {"Log-Id": str(token)}, b"payload %d" % token)
