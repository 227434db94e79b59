"""How long others wait for an acknowledgement, and what the server uses, while one key floods it."""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from figures import Line, Reading, percentile
from harness.attacker import ATTACKER, VICTIM, closing, connect
from harness.edges import End
from harness.flooding import attacked, publish_large, publish_much, read_nothing
from machine import peak_mib
from nats.aio.client import Client
from programs import FailedError
from suite import Case, Place

from partitioner.access.roster import AuthMethod

SECONDS = 10.0
BLOCK_BYTES = 20_000
PAUSE_SECONDS = 0.005
NICE = 19
"""Of the flood: it stands for another machine, and must not take this one's processor from the server."""


async def _publish_small(end: End) -> None:
    client = await connect(end, ATTACKER, end.options(ATTACKER))
    async with closing(client):
        await publish_much(client)


FLOODS: dict[str, Callable[[End], Awaitable[None]]] = {
    "unread answers": read_nothing, "small messages": _publish_small, "large messages": publish_large,
}  # fmt: skip


def run(place: Place) -> list[Reading]:
    """A new server with the shipped configuration for each flood; keys."""
    readings = []
    for name, flood in FLOODS.items():
        with attacked(place.directory / name.replace(" ", "-"), AuthMethod.KEYS) as end:
            readings += asyncio.run(_measured(end, name, flood))
    return readings


async def _measured(end: End, name: str, flood: Callable[[End], Awaitable[None]]) -> list[Reading]:
    client = await connect(end, VICTIM, end.options(VICTIM))
    before = await _delays(client, asyncio.create_task(asyncio.sleep(SECONDS)))
    quiet_mib = _peak_mib(end)
    attacker = multiprocessing.get_context("fork").Process(target=_flood, args=(flood, end))
    attacker.start()
    during = await _delays(client, asyncio.create_task(asyncio.to_thread(attacker.join)))
    if attacker.exitcode:
        raise FailedError(f"the flood ended with {attacker.exitcode}")
    await client.close()
    at = [percentile(delays, 99) for delays in (before, during)]
    return [
        Reading(name, "p99 before", 1000 * at[0], "ms"),
        Reading(name, "p99 during", 1000 * at[1], "ms"),
        Reading(name, "p99, during to before", at[1] / at[0], "times"),
        Reading(name, "most memory before", quiet_mib, "MiB"),
        Reading(name, "most memory", _peak_mib(end), "MiB"),
        Reading(name, "memory, most to before", _peak_mib(end) / quiet_mib, "times"),
    ]


def _flood(flood: Callable[[End], Awaitable[None]], end: End) -> None:
    os.nice(NICE)
    asyncio.run(flood(end))


def _peak_mib(end: End) -> float:
    assert end._process is not None
    return peak_mib(end._process.pid)


async def _delays(client: Client, until: asyncio.Task[Any]) -> list[float]:
    """Seconds from publish to acknowledgement of each message, until a task is done."""
    delays: list[float] = []
    while not until.done():
        began = time.perf_counter()
        while b'"error"' in (await client.request(f"logs.p0.{VICTIM}", bytes(BLOCK_BYTES), timeout=60)).data:
            await asyncio.sleep(PAUSE_SECONDS)  # the stream is busy: as a producer does
        delays.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    await until
    return delays


CASE = Case(
    "flood",
    "how long do others wait while one key takes all that the server gives it?",
    run,
    lines=(
        *(Line(f"p99 within twice its value: {name}", name, "p99, during to before", at_most=2.0) for name in FLOODS),
        *(
            Line(f"memory within twice its value: {name}", name, "memory, most to before", at_most=2.0)
            for name in FLOODS
        ),
    ),
    notes=("a message of another host in the same partition, which is sent again where the server refuses it",),
)
