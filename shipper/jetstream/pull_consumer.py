"""The reading port on a real server: a session that reads a stream by its durable consumer."""

import asyncio
import contextlib
import functools
import importlib.resources
import json
import math
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import nats.errors

from shipper import events
from shipper.errors import RightMissing, SessionLost, StreamMissing
from shipper.jetstream.connection import NOT_FOUND_CONSUMER, ApiError, ConnectedSession, Connection, connect, describe
from shipper.jetstream.direct_get import body_of, of_message, stored, subject_of
from shipper.jetstream.leaf_stream import LeafStream, stream_state
from shipper.jetstream.publisher import HEADER_RESERVE_BYTES
from shipper.jetstream.pull_loop import HEARTBEAT_SECONDS, SILENCE_SECONDS, PullLoop
from shipper.jetstream.server_version import OLDEST
from shipper.model import Delivery, StreamState
from shipper.settings import NatsSettings
from shipper.stream_source import origin_of
from shipper.subjects import DEAD_LETTERS

PULLS = 2  # overlapping, so that the server never waits for the next pull
PULL_BYTES = 3 * 512 * 1024
"""Maximum bytes of a pull: all pulls together are below `max_pending` of the shipped configurations (4 MB).

With more, the server disconnects a collector that does not read for a moment, or has a slow link.
"""
MESSAGES_A_PULL = 2000
EXPIRES_SECONDS = 4.0  # below the time of a lease: pulls of a paused collector have expired when another takes over
STRAY_SECONDS = 1.0
MISSING_SECONDS = 2.0
"""How long a consumer must be missing before it is created again: `partition apply` deletes and creates one, too."""
REFUSED_SECONDS = 60.0
"""Wait before a right that the server refused is tried again; each attempt costs a session and a line in its log."""
SERVER_METADATA = "_nats."


class ConsumerRecovery:
    """Recreates consumers that were deleted: their configurations, kept over all sessions of a process."""

    def __init__(self) -> None:
        self._configs: dict[str, Mapping[str, Any]] = {}
        self._missing_since: dict[str, float] = {}
        self._refused_at = -math.inf

    def found(self, stream: str, config: Mapping[str, Any]) -> None:
        """The consumer of `stream` exists, with this configuration."""
        self._configs[stream] = config
        self._missing_since.pop(stream, None)

    def is_due(self, stream: str) -> bool:
        """Whether the missing consumer of `stream` is to be created now."""
        now = time.monotonic()
        missing = now - self._missing_since.setdefault(stream, now)
        return missing >= MISSING_SECONDS and now - self._refused_at >= REFUSED_SECONDS

    def refused(self) -> None:
        """The server refuses this user the right to create it."""
        self._refused_at = time.monotonic()

    def config(self, stream: str, consumer: str) -> dict[str, Any]:
        """The configuration that the consumer had; if this process never saw it, that of the shipped template."""
        config = dict(self._configs.get(stream) or shipped_consumer())
        metadata = config.get("metadata") or {}
        config["metadata"] = {key: text for key, text in metadata.items() if not key.startswith(SERVER_METADATA)}
        return config | {"name": consumer, "durable_name": consumer}


@functools.cache
def shipped_consumer() -> Mapping[str, Any]:
    """The configuration of the collector's consumer that `fshipper partition apply` uses without --template."""
    template = importlib.resources.files("deploy") / "nats" / "stream.json"
    consumer: Mapping[str, Any] = json.loads(template.read_text(encoding="utf-8"))["consumer"]
    return consumer


class JetStreamInbox(ConnectedSession):
    """One session of reading `stream` through its durable `consumer`; ends at the first trouble."""

    def __init__(
        self, connection: Connection, stream: str, consumer: str, batch_bytes: int, lost: ConsumerRecovery
    ) -> None:
        super().__init__(connection)
        self._lost_consumers = lost
        self._stream = stream
        self._consumer = consumer
        self._batch_bytes = batch_bytes
        any_message = connection.max_payload + HEADER_RESERVE_BYTES
        self._pull_bytes = max(min(batch_bytes, PULL_BYTES), any_message)
        self._pulls = PullLoop(
            connection,
            stream,
            overlap=PULLS,
            expires_seconds=EXPIRES_SECONDS,
            delivered=self._on_delivery,
            ended=self._on_end,
            failed=connection.fail,
            takes_runs=True,
        )
        self._arrived: deque[Delivery] = deque()
        self._arrived_bytes = 0
        self._last_sequence = 0  # of the stream, delivered since `begin`
        self._strayed = ((0, 0), 0.0)  # what the server had delivered and what of it came, and since when
        self._news = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()
        self._site: LeafStream | None = None  # as `state` has seen it last
        connection.on_lost(self._news.set)

    @classmethod
    async def open(
        cls,
        settings: NatsSettings,
        *,
        stream: str,
        consumer: str,
        name: str,
        batch_bytes: int,
        lost: ConsumerRecovery | None = None,
    ) -> "JetStreamInbox":
        """A session with the first server that answers; `lost` outlives the sessions of a process.

        Raises Unavailable: none answers.
        """
        client = f"fshipper consume {name} {stream}"
        connection = await connect(settings, name=client, inbox="_INBOX_collector", oldest=OLDEST)
        return cls(connection, stream, consumer, batch_bytes, lost or ConsumerRecovery())

    async def state(self) -> StreamState:
        """What the stream holds now."""
        info = await self._connection.api(f"STREAM.INFO.{self._stream}")
        origin, state = origin_of(info["config"]), stream_state(info)
        if origin != (self._site.origin if self._site else None):
            self._site = LeafStream(self._connection, self._stream, origin) if origin else None
        return state

    async def time_of(self, sequence: int) -> int | None:
        """Stored time (ns) of the message with `sequence`; None: the stream does not hold it, or it cannot be read."""
        self._check()
        try:
            answer = await self._connection.request(subject_of(self._stream), body_of(sequence), within=5.0)
        except nats.errors.NoRespondersError:
            raise SessionLost(f"stream {self._stream} does not answer direct reads yet") from None
        try:
            found = stored(answer)
        except SessionLost as error:  # of this one message: the server answers, and the session can go on without it
            events.message_unreadable(stream=self._stream, **of_message(error, sequence), error=str(error))
            return None
        return found.time_ns if found and found.sequence == sequence else None

    async def begin(self, sequence: int) -> None:
        """Make the first message with at least `sequence` the next delivery."""
        await self._find_consumer()
        with self._connection.session_errors():
            await self._pulls.begin(self._consumer)
        self._arrived.clear()
        self._arrived_bytes = 0
        self._last_sequence = 0
        await self._connection.api(f"CONSUMER.RESET.{self._stream}.{self._consumer}", {"seq": max(1, sequence)})
        await self._pull()

    async def _find_consumer(self) -> None:
        """Raise `StreamMissing` if there is none: the server leaves the reset of a missing one unanswered.

        One that stays missing is created again, where this user has the right; its position does not matter, because
        `begin` resets it.
        """
        try:
            info = await self._connection.api(f"CONSUMER.INFO.{self._stream}.{self._consumer}")
            self._lost_consumers.found(self._stream, info["config"])
        except ApiError as error:
            if error.code != NOT_FOUND_CONSUMER:
                raise
            if not (self._lost_consumers.is_due(self._stream) and await self._create_consumer()):
                raise StreamMissing(
                    f"stream {self._stream} has no consumer {self._consumer!r}",
                    hint="create it: fshipper partition apply --partitions N",
                ) from None

    async def _create_consumer(self) -> bool:
        """Create the consumer as it was; False: this user has no right to, or the server refuses."""
        verb = f"CONSUMER.CREATE.{self._stream}.{self._consumer}"
        config = self._lost_consumers.config(self._stream, self._consumer)
        try:
            await self._connection.api(verb, {"stream_name": self._stream, "config": config, "action": "create"})
        except RightMissing:
            self._lost_consumers.refused()
            return False
        except ApiError as error:
            events.consumer_not_created(stream=self._stream, consumer=self._consumer, error=str(error))
            return False
        self._lost_consumers.found(self._stream, config)
        events.consumer_created(stream=self._stream, consumer=self._consumer)
        return True

    async def take(self, at_most_bytes: int, within: float) -> list[Delivery]:
        """The deliveries that are there, oldest first, at most about `at_most_bytes`; [] after `within` seconds."""
        until = time.monotonic() + within
        while not self._arrived and (left := until - time.monotonic()) > 0:
            self._check()
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, HEARTBEAT_SECONDS)):
                    await self._news.wait()
        self._check()
        taken, size = [], 0
        while self._arrived and size < at_most_bytes:
            delivery = self._arrived.popleft()
            size += len(delivery.payload)
            taken.append(delivery)
        self._arrived_bytes -= size
        await self._pull()
        return taken

    async def ack(self, last: Delivery) -> None:
        """Acknowledge `last` and everything before it."""
        self._check()
        with self._connection.session_errors():
            await self._connection.client.publish(last.reply, b"+ACK")

    async def all_taken(self) -> bool:
        """Whether every message of the stream was handed out by `take`."""
        if self._arrived:
            return False
        info = await self._connection.api(f"CONSUMER.INFO.{self._stream}.{self._consumer}")
        delivered = int(info["delivered"]["consumer_seq"])
        self._check_strays(delivered)
        return bool(info["num_pending"] == 0 and delivered == self._pulls.consumer_sequence and not self._arrived)

    def _check_strays(self, delivered: int) -> None:
        """End the session where deliveries went to an earlier pull of another: they come again after a minute only."""
        seen = (delivered, self._pulls.consumer_sequence)
        if delivered <= self._pulls.consumer_sequence or seen != self._strayed[0]:
            self._strayed = (seen, time.monotonic())
        elif time.monotonic() - self._strayed[1] > STRAY_SECONDS:
            self._connection.fail(f"delivery {delivered} went to another reader")
            self._connection.check()

    async def dead_letter(self, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Store a message in the dead letters and wait for the ack."""
        self._check()
        try:
            answer = await self._connection.request(subject, payload, within=5.0, headers=headers)
            content = json.loads(answer.data)
        except nats.errors.NoRespondersError:
            raise StreamMissing(
                f"no stream {DEAD_LETTERS} takes dead letters",
                hint="create it: fshipper partition apply --partitions N",
            ) from None
        except ValueError as error:
            raise SessionLost(f"dead letter: {describe(error)}") from None
        if "error" in content:
            raise SessionLost(f"dead letter: {content['error'].get('description')}")

    async def purge(self, below: int) -> int:
        """Remove the messages with a sequence below `below`; returns how many."""
        return int((await self._connection.api(f"STREAM.PURGE.{self._stream}", {"seq": below}))["purged"])

    async def at_origin(self, sequence: int) -> int | None:
        """The sequence in the ack that the producer got for the message with `sequence`; None: unknown."""
        self._check()
        return await self._site.at_origin(sequence) if self._site else sequence

    async def site_state(self) -> StreamState | None:
        """What the site's stream holds that this one is sourced from; None: it is not sourced."""
        self._check()
        return await self._site.state() if self._site else None

    async def purge_site(self, below: int) -> int | None:
        """Remove from the site what this stream has below `below`, but the last of it; returns how many."""
        self._check()
        return await self._site.purge(below) if self._site else 0

    def _check(self) -> None:
        self._connection.check()
        if self._pulls.is_silent:
            self._connection.fail(f"no message and no heartbeat for {SILENCE_SECONDS:.0f} s")
            self._connection.check()

    async def _pull(self) -> None:
        while self._pulls.has_capacity and self._arrived_bytes < self._batch_bytes:
            await self._pulls.request(batch=MESSAGES_A_PULL, max_bytes=self._pull_bytes)

    def _on_delivery(self, delivery: Delivery) -> None:
        if delivery.first_sequence <= self._last_sequence:
            # The server redelivers what it could not deliver to an inbox from before the reset, though it was
            # delivered to this one since (nats-server 2.15, didNotDeliver); and what waits for its ack for long.
            return
        self._last_sequence = delivery.sequence
        self._arrived.append(delivery)
        self._arrived_bytes += len(delivery.payload)
        self._news.set()

    def _on_end(self, _text: str, _left: int) -> None:
        asking = asyncio.create_task(self._ask_on())
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)

    async def _ask_on(self) -> None:
        with contextlib.suppress(SessionLost):
            await self._pull()
