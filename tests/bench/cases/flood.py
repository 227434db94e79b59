"""How long others wait for an acknowledgement, and what the server uses, while one key floods it."""

import asyncio
import multiprocessing
import time
from typing import Any

import trustme
from attacker import ATTACKER, VICTIM, connect
from edges import End
from figures import Line, Reading, percentile
from flooding import flood
from machine import peak_mib
from nats.aio.client import Client
from ports import free_ports
from programs import FailedError
from suite import Case, Place

from partitioner.access.roster import AuthMethod

OF = "another host"
SECONDS = 10.0
BLOCK_BYTES = 20_000
PAUSE_SECONDS = 0.005


def run(place: Place) -> list[Reading]:
    """A server with the shipped configuration; keys."""
    end = End(place.directory / "centre", "hub.conf", free_ports(3), AuthMethod.KEYS, trustme.CA())
    end.hosts("add", ATTACKER, VICTIM)
    end.configure(centre_port=1)
    end.start()
    try:
        end.wait_until_ready()
        with end.fleet:
            end.run("partition", "apply", "--partitions", "1")
            return asyncio.run(_measured(end))
    finally:
        end.kill()


async def _measured(end: End) -> list[Reading]:
    client = await connect(end, VICTIM, end.options(VICTIM))
    before = await _delays(client, asyncio.create_task(asyncio.sleep(SECONDS)))
    quiet_mib = _peak_mib(end)
    attacker = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(flood(end)))
    attacker.start()  # in a process of its own, so that its work is no delay of the other client
    during = await _delays(client, asyncio.create_task(asyncio.to_thread(attacker.join)))
    if attacker.exitcode:
        raise FailedError(f"the flood ended with {attacker.exitcode}")
    await client.close()
    at = [percentile(delays, 99) for delays in (before, during)]
    return [
        Reading(OF, "p99 before", 1000 * at[0], "ms"),
        Reading(OF, "p99 during", 1000 * at[1], "ms"),
        Reading(OF, "p99, during to before", at[1] / at[0], "times"),
        Reading("server", "most memory before", quiet_mib, "MiB"),
        Reading("server", "most memory", _peak_mib(end), "MiB"),
        Reading("server", "memory, most to before", _peak_mib(end) / quiet_mib, "times"),
    ]


def _peak_mib(end: End) -> float:
    assert end._process is not None
    return peak_mib(end._process.pid)


async def _delays(client: Client, until: asyncio.Task[Any]) -> list[float]:
    """Seconds from publish to acknowledgement of each message, until a task is done."""
    delays: list[float] = []
    while not until.done():
        began = time.perf_counter()
        await client.request(f"logs.p0.{VICTIM}", bytes(BLOCK_BYTES), timeout=60)
        delays.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    await until
    return delays


CASE = Case(
    "flood",
    "how long do others wait while one key takes all that the server gives it?",
    run,
    lines=(
        Line("p99 within twice its value", OF, "p99, during to before", at_most=2.0),
        Line("memory within twice its value", "server", "memory, most to before", at_most=2.0),
    ),
    notes=("connections, subscriptions, ids of 3.5 KB, dead letters, text, requests, and answers that are not read",),
)
