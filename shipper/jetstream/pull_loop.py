"""Pull requests of one consumer, and the deliveries and statuses that arrive for them.

Requests overlap and carry heartbeats: with `fetch` of nats-py, messages are lost when the server restarts.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from nats.aio.subscription import Subscription

from shipper.jetstream.connection import API, Connection
from shipper.jetstream.fast_client import NO_RESPONDERS, Message
from shipper.jetstream.line_runs import read_runs
from shipper.model import Delivery

NANOSECONDS = 1_000_000_000
HEARTBEAT_SECONDS = 1.0
SILENCE_SECONDS = 3 * HEARTBEAT_SECONDS
"""After so long without a message or a heartbeat, the server does not serve the pull request any more."""
ACK_TOKENS_V1 = 9  # $JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<time>.<pending>
TOO_LARGE = "Message Size Exceeds MaxBytes"
NORMAL_ENDS = (TOO_LARGE, "Batch Completed")
"""How a pull request with `max_bytes` ends with status 409 although nothing is wrong."""
IDLE, ENDS = "100", frozenset({"408", "404"})


class PullLoop:
    """The pull requests of one consumer, at most `overlap` at a time. Owned by one event loop.

    `delivered` is called with each message, in the order of the consumer, `ended` when the server ends a request (with
    its text, and how many messages the request still allowed), `failed` when the consumer cannot be read on, and `idle`
    at a heartbeat. `takes_runs`: `delivered` may get runs of one-line messages.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        *,
        overlap: int,
        expires_seconds: float,
        delivered: Callable[[Delivery], None],
        ended: Callable[[str, int], None],
        failed: Callable[[str], None],
        idle: Callable[[], None] = lambda: None,
        takes_runs: bool = False,
    ) -> None:
        self.consumer_sequence = 0  #: of the newest delivery
        self._connection = connection
        self._stream = stream
        self._overlap = overlap
        self._expires = int(expires_seconds * NANOSECONDS)
        self._delivered = delivered
        self._ended = ended
        self._failed = failed
        self._idle = idle
        self._takes_runs = takes_runs
        self._consumer = ""
        self._inbox = ""  # where the deliveries since the newest `begin` arrive
        self._subscription: Subscription | None = None
        self._requests: dict[int, int] = {}  # number -> deliveries that it still allows, oldest first
        self._next_number = 0
        self._received_at = time.monotonic()

    @property
    def has_capacity(self) -> bool:
        """Whether another request may be sent."""
        return len(self._requests) < self._overlap

    @property
    def is_silent(self) -> bool:
        """Whether a request is pending, and neither a message nor a heartbeat arrived for `SILENCE_SECONDS`."""
        return bool(self._requests) and time.monotonic() - self._received_at > SILENCE_SECONDS

    async def begin(self, consumer: str) -> None:
        """Read by `consumer` from now on, in a new inbox: what earlier requests still bring is ignored.

        Raises nats.errors.Error, OSError.
        """
        await self.end()
        self._consumer, self.consumer_sequence = consumer, 0
        self._inbox = inbox = self._connection.client.new_inbox() + "."

        def on_message(message: Message) -> None:
            if inbox != self._inbox:
                return
            self._received_at = time.monotonic()
            if message.reply.startswith("$JS.ACK."):
                delivery, consumer_sequence = read_delivery(message)
                self._on_delivery(delivery, consumer_sequence, consumer_sequence)
            else:
                self._on_status(message)

        self._subscription = subscription = await self._connection.client.subscribe_direct(f"{inbox}*", on_message)
        if self._takes_runs:
            sid: int = subscription._id  # noqa: SLF001 - nats-py offers no other way

            def read(buffer: bytearray, begin: int, end: int) -> int:
                arrived, end = read_runs(buffer, begin, end, sid) if inbox == self._inbox else ([], begin)
                if arrived:
                    self._received_at = time.monotonic()
                for each in arrived:
                    self._on_delivery(*each)
                return end

            self._connection.client.read_runs_by(read)

    async def end(self) -> None:
        """Ignore what arrives from now on. Raises nats.errors.Error, OSError."""
        subscription, self._subscription, self._inbox = self._subscription, None, ""
        self._requests.clear()
        if subscription is not None:
            await subscription.unsubscribe()

    async def request(self, *, batch: int, max_bytes: int | None) -> None:
        """Request at most `batch` messages, of `max_bytes` together. Raises SessionLost."""
        number, self._next_number = self._next_number, self._next_number + 1
        self._requests[number] = batch
        if len(self._requests) == 1:
            self._received_at = time.monotonic()
        body: dict[str, Any] = {"batch": batch} | ({"max_bytes": max_bytes} if max_bytes is not None else {})
        body |= {"expires": self._expires, "idle_heartbeat": int(HEARTBEAT_SECONDS * NANOSECONDS)}
        verb = f"{API}.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        with self._connection.session_errors():
            await self._connection.client.publish(verb, json.dumps(body).encode(), reply=f"{self._inbox}{number}")

    def _on_delivery(self, delivery: Delivery, first: int, last: int) -> None:
        """A delivery arrived, whose messages have the consumer sequences `first` to `last`."""
        if first != self.consumer_sequence + 1:
            self._failed(f"delivery {first} follows {self.consumer_sequence}: the consumer has another reader")
            return
        self.consumer_sequence, count = last, delivery.messages
        while count and (oldest := next(iter(self._requests), None)) is not None:
            used = min(count, self._requests[oldest])
            self._requests[oldest] -= used
            count -= used
            if self._requests[oldest] == 0:
                del self._requests[oldest]
        self._delivered(delivery)

    def _on_status(self, message: Message) -> None:
        status, text = message.status, message.description
        if status == IDLE:
            self._idle()
        elif status in ENDS or (status == "409" and text.startswith(NORMAL_ENDS)):
            left = self._requests.pop(int(message.subject.rpartition(".")[2]), 0)
            self._ended(text, left)
        else:
            reason = "no responders" if status == NO_RESPONDERS else text
            self._failed(f"the server ended the pull: {status} {reason}".strip())


def read_delivery(message: Message) -> tuple[Delivery, int]:
    """The delivery and its consumer sequence, from the ack subject's tokens (v1, or v2 with domain and account)."""
    tokens = message.reply.split(".")
    shift = 5 if len(tokens) == ACK_TOKENS_V1 else 7
    sequence, consumer_sequence, time_ns, pending = map(int, tokens[shift : shift + 4])
    headers = message.headers if message.headers is not None else {}
    delivery = Delivery(sequence, time_ns, pending, message.subject, headers, message.data, message.reply)
    return delivery, consumer_sequence
