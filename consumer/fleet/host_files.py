"""Requests of producers how far their files are, in parallel and with bounds."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from shipper.control import FilesReply, FilesRequest, MarksReply, MarksRequest
from shipper.jetstream.connection import Connection
from shipper.subjects import control_ask, control_down

ANSWER_SECONDS = 2.0
"""Maximum wait for the answer of one host, in seconds."""
MAX_PARALLEL_REQUESTS = 64


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """What the producer of a host replied."""

    asked_at: float  #: monotonic time of the request, by this machine
    reply: FilesReply | None = None  #: None: it did not answer
    is_too_old: bool = False  #: a producer answers, of a version that does not know this request
    clock_error: float = 0.0  #: seconds by which the clock of the host is ahead of ours

    @property
    def scanned_at(self) -> float:
        """Monotonic time of this machine, at or before which the scan began that the reply is about."""
        return self.asked_at - (self.reply.scanned / 1000 if self.reply else 0.0)


async def ask_hosts(connection: Connection, hosts: Iterable[str], request: FilesRequest) -> dict[str, HostAnswer]:
    """The answer of each host. Raises SessionLost: the session with the server ended."""
    slots, names = asyncio.Semaphore(MAX_PARALLEL_REQUESTS), list(hosts)
    answers = await asyncio.gather(*(_ask(connection, host, request, slots) for host in names))
    return dict(zip(names, answers, strict=True))


async def _ask(connection: Connection, host: str, request: FilesRequest, slots: asyncio.Semaphore) -> HostAnswer:
    subject = control_ask(host) if connection.is_monitor else control_down(host)
    async with slots:
        asked_at, clock = time.monotonic(), time.time()
        reply = FilesReply.from_json(await connection.ask(subject, request.to_json(), ANSWER_SECONDS))
        if reply is not None:
            clock = (clock + time.time()) / 2
            return HostAnswer(asked_at, reply, clock_error=reply.clock / 1000 - clock)
        if time.monotonic() - asked_at < ANSWER_SECONDS:  # the server reports that no producer listens
            return HostAnswer(asked_at)
        older = MarksReply.from_json(await connection.ask(subject, MarksRequest().to_json(), ANSWER_SECONDS))
        return HostAnswer(asked_at, is_too_old=older is not None)
