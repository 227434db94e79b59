"""Waiting for something that may take long: the files are looked at beside it, so that none is renamed out of sight."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from shipper.errors import SessionLost
from shipper.lifecycle import Stop

_T = TypeVar("_T")


async def beside(
    work: Coroutine[Any, Any, _T], look: Callable[[], Awaitable[None]], *, every: float, stop: Stop, before: str
) -> _T:
    """The result of `work`, with `look` `every` so many seconds. Raises SessionLost: asked to stop `before` that."""
    working = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({working}, timeout=every))[0]:
            if stop.asked:
                raise SessionLost(f"asked to stop before {before}")
            await look()
    finally:
        working.cancel()
    return working.result()
