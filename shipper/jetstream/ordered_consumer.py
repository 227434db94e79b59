"""An ordered consumer: an ephemeral consumer without acks, recreated after the last message when it is lost.

It changes nothing for other readers: no durable consumer is touched, nothing is acknowledged or purged, and the server
forgets it `INACTIVE_SECONDS` after its reader died.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import nats.errors

from shipper import control
from shipper.control import FOLLOW_SECONDS, FollowRequest
from shipper.errors import ShipperError, StreamMissing
from shipper.jetstream.connection import Connection, connect, info_with_subjects, pages
from shipper.jetstream.direct_get import nanoseconds
from shipper.jetstream.pull_loop import HEARTBEAT_SECONDS, NANOSECONDS, TOO_LARGE, PullLoop
from shipper.model import Delivery
from shipper.settings import NatsSettings
from shipper.subjects import control_ask, is_host, partition_of_stream, partition_subjects

INACTIVE_SECONDS = 10
EXPIRES_SECONDS = 20
MESSAGES_A_PULL = 1000


class StartPosition(NamedTuple):
    """Where reading begins: the first message of at least this sequence, or stored at this time or later."""

    sequence: int = 1
    time_ns: int = 0  #: 0: start by the sequence


class TimedDelivery(NamedTuple):
    """A message, and when it came here."""

    delivery: Delivery
    at: float  #: of the monotonic clock, in seconds


class OrderedReader:
    """The messages of a stream whose subjects match one of `filters`, in order; at most about `budget` bytes wait here.

    Owned by one event loop, over a connection that it does not own. `trouble` is the error that ended it.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        filters: Sequence[str],
        start: StartPosition,
        *,
        budget: int,
        news: Callable[[], None],
    ) -> None:
        self.stream = stream
        self.trouble: ShipperError | None = None
        self.caught_up = False  #: the stream has no messages after the last one received, by the server's count
        self._connection = connection
        self._filters = list(filters)
        self._start = start
        self._budget = budget
        self._news = news
        self._arrived: deque[TimedDelivery] = deque()
        self._bytes = 0
        self._consumer = ""
        self._gone = self._doubtful = self._oversized = False
        self._pulls = PullLoop(
            connection,
            stream,
            overlap=1,
            expires_seconds=EXPIRES_SECONDS,
            delivered=self._on_delivery,
            ended=self._on_end,
            failed=lambda _: self._end_consumer(),  # deleted, its leader changed, no server: another one goes on
            idle=self._on_heartbeat,
        )
        self._turn = asyncio.Event()
        connection.on_lost(self._turn.set)
        self._task = asyncio.create_task(self._serve())

    @property
    def head(self) -> TimedDelivery | None:
        """The oldest message that was not taken; None: none is here."""
        return self._arrived[0] if self._arrived else None

    def take(self) -> TimedDelivery:
        """Take the head."""
        arrived = self._arrived.popleft()
        self._bytes -= len(arrived.delivery.payload)
        self._turn.set()
        return arrived

    async def close(self) -> None:
        """End, and remove the consumer from the server if it can be reached; never raises."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ShipperError):
            await self._task
        await self._forget()

    async def _serve(self) -> None:
        try:
            while True:
                await self._create()
                while not self._gone:
                    await self._go_on()
                await self._forget()
        except ShipperError as error:
            self.trouble = error
            self._news()

    async def _create(self) -> None:
        """Create a consumer that begins after the last message that arrived."""
        self._consumer = f"tail-{secrets.token_hex(8)}"
        self._gone = self._doubtful = False
        with self._connection.session_errors():
            await self._pulls.begin(self._consumer)
        body = {"stream_name": self.stream, "config": self._configuration(), "action": "create"}
        made = await self._connection.api(f"CONSUMER.CREATE.{self.stream}.{self._consumer}", body)
        self._note_pending(int(made["num_pending"]))

    def _configuration(self) -> dict[str, Any]:
        start: dict[str, Any] = {"deliver_policy": "by_start_sequence", "opt_start_seq": max(1, self._start.sequence)}
        if self._start.time_ns:
            start = {"deliver_policy": "by_start_time", "opt_start_time": _rfc3339(self._start.time_ns)}
        filters = self._filters
        return {
            "name": self._consumer,
            "description": "fshipper tail",
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": INACTIVE_SECONDS * NANOSECONDS,
            **start,
            **({"filter_subject": filters[0]} if len(filters) == 1 else {"filter_subjects": filters}),
        }

    async def _go_on(self) -> None:
        """Pull more messages while the window allows, then wait for messages."""
        self._connection.check()
        if self._pulls.is_silent:
            self._gone = True
            return
        if self._doubtful:
            # After a purge, no message carries the new number of pending messages.
            self._doubtful = False
            info = await self._connection.api(f"CONSUMER.INFO.{self.stream}.{self._consumer}")
            if int(info["delivered"]["consumer_seq"]) == self._pulls.consumer_sequence:
                self._note_pending(int(info["num_pending"]))
        self._turn.clear()
        if self._pulls.has_capacity and self._bytes < self._budget:
            is_alone, self._oversized = self._oversized, False  # the next message: request it alone, of any size
            await self._pulls.request(
                batch=1 if is_alone else MESSAGES_A_PULL, max_bytes=None if is_alone else self._budget
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._turn.wait()

    def _on_delivery(self, delivery: Delivery) -> None:
        self._start = StartPosition(delivery.sequence + 1)
        self._arrived.append(TimedDelivery(delivery, time.monotonic()))
        self._bytes += len(delivery.payload)
        if self._pulls.has_capacity:
            self._turn.set()
        self._note_pending(delivery.pending)

    def _on_heartbeat(self) -> None:
        self._doubtful = not self.caught_up
        if self._doubtful:
            self._turn.set()

    def _on_end(self, text: str, left: int) -> None:
        self._oversized = text.startswith(TOO_LARGE) and left == MESSAGES_A_PULL
        self._turn.set()

    def _end_consumer(self) -> None:
        self._gone = True
        self._turn.set()

    def _note_pending(self, messages: int) -> None:
        self.caught_up = messages == 0
        self._news()

    async def _forget(self) -> None:
        """Remove consumer and inbox; the server does it by itself, but later."""
        name, self._consumer = self._consumer, ""
        with contextlib.suppress(ShipperError, nats.errors.Error, OSError):
            await self._pulls.end()
            if name and self._connection.open:
                await self._connection.api(f"CONSUMER.DELETE.{self.stream}.{name}")


def _rfc3339(time_ns: int) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ns // NANOSECONDS))
    return f"{seconds}.{time_ns % NANOSECONDS:09d}Z"


# -- a read-only session: the streams, the hosts in them, and their messages -------------------------------------------

CLOSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSnapshot:
    """The current state of a stream."""

    name: str
    partition: int
    created: str  #: another value means another stream under the same name
    first_sequence: int  #: above 1: what was before is removed
    last_sequence: int
    first_ns: int | None  #: stored time of its first message; None: it is empty
    subjects: frozenset[str]  #: of the messages in it


class StreamWatcher:
    """A session that changes no stream and no durable consumer."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._requested_at = -math.inf  # early lines
        self._readers: list[OrderedReader] = []

    @classmethod
    async def open(cls, settings: NatsSettings, prefix: str, *, name: str) -> "StreamWatcher":
        """A session with the first server that answers. Raises Unavailable: none does."""
        return cls(await connect(settings, name=f"fshipper {name}", inbox="_INBOX_reader"), prefix)

    async def partitions(self) -> dict[str, int]:
        """The partition of each stream of ours, by the stream's name."""
        names = [name async for name in pages(self._connection.api, "STREAM.NAMES", "streams")]
        found = {name: partition_of_stream(self._prefix, name) for name in names}
        return {name: partition for name, partition in sorted(found.items()) if partition is not None}

    async def poll(self) -> list[StreamSnapshot]:
        """Every stream of ours. One that is deleted meanwhile is left out."""
        partitions = await self.partitions()
        seen = await asyncio.gather(*(self._see(*each) for each in partitions.items()))
        return [each for each in seen if each is not None]

    async def _see(self, name: str, partition: int) -> StreamSnapshot | None:
        pattern = partition_subjects(self._prefix, partition)
        try:
            info, subjects = await info_with_subjects(self._connection.api, name, pattern)
        except StreamMissing:
            return None
        state = info["state"]
        return StreamSnapshot(
            name=name,
            partition=partition,
            created=info["created"],
            first_sequence=state["first_seq"],
            last_sequence=state["last_seq"],
            first_ns=nanoseconds(state["first_ts"]) if state["messages"] else None,
            subjects=frozenset(subjects),
        )

    def read(
        self, stream: str, filters: Sequence[str], start: StartPosition, *, budget: int, news: Callable[[], None]
    ) -> OrderedReader:
        """Begin to read; `news` is called whenever a message came, or trouble."""
        reader = OrderedReader(self._connection, stream, filters, start, budget=budget, news=news)
        self._readers.append(reader)
        return reader

    async def request_early_lines(self, hosts: Iterable[str]) -> bool:
        """Request that the producers of `hosts` send lines early, again and again. False: the server refuses that."""
        connection, now = self._connection, time.monotonic()
        if now < self._requested_at + FOLLOW_SECONDS / 2:
            return True
        self._requested_at = now
        for number, host in enumerate(filter(is_host, hosts)):
            subject = control_ask(host)
            connection.dispensable.add(subject)
            with connection.session_errors():
                await connection.client.publish(subject, control.encode(FollowRequest().to_json()))
                if number == 0:
                    await connection.flush()  # a server that refuses one refuses all
            if subject in connection.refused:
                return False
        return True

    async def stop(self, readers: Sequence[OrderedReader]) -> None:
        """End some readers, and remove their consumers."""
        self._readers = [each for each in self._readers if each not in readers]
        if readers:
            await asyncio.wait({asyncio.create_task(each.close()) for each in readers}, timeout=CLOSE_SECONDS)

    def check(self) -> None:
        """Raise `SessionLost` with the reason if the session has ended."""
        self._connection.check()

    async def close(self) -> None:
        """End all readers and the session; idempotent, never raises, never hangs."""
        await self.stop(list(self._readers))
        await self._connection.close()
