"""The end of a drain, wherever the work waits just then: a dead server may hold up anything."""

import asyncio
from collections.abc import Awaitable, Sequence

from shipper.errors import Fatal
from shipper.lifecycle import Stop

GRACE_SECONDS = 0.5
"""Behind the deadline: the work knows it too and ends by itself if it can."""


async def until_drained(work: Awaitable[None], stop: Stop, *, within: float) -> None:
    """Wait for `work`; cut it off `within` seconds after `stop` was asked."""
    working = asyncio.ensure_future(work)
    deadline = asyncio.ensure_future(_deadline(stop, within + GRACE_SECONDS))
    try:
        await asyncio.wait({working, deadline}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        deadline.cancel()
        working.cancel()
        await asyncio.wait({working}, timeout=2 * GRACE_SECONDS)  # not for ever: nats-py may swallow a cancellation
    if working.done() and not working.cancelled():
        working.result()


async def _deadline(stop: Stop, within: float) -> None:
    await stop.wait()
    await asyncio.sleep(max(0.0, within - stop.asked_for))


def check_all_read(unread: Sequence[str]) -> None:
    """Raises Fatal: some files could not be read, where to end well means that everything was shipped."""
    if unread:
        raise Fatal(f"not everything could be read: {', '.join(unread[:10])}", hint="see the errors above")
