"""The server's replies to published messages. Our own window of them, because `js.publish_async` loses error acks."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from nats.aio.msg import Msg

from shipper.errors import SessionLost, ShipperError, StreamFull, StreamMissing
from shipper.jetstream.connection import NO_RESPONDERS, Connection

FULL = frozenset({10077, 10023, 10167, 10047})
"""Errors that end when storage is free again: stream full, server full, too many requests, no storage left."""

Ack = Mapping[str, Any]


class ReplyWindow:
    """Replies by token, and the first trouble that a reply reported. Owned by one event loop.

    `read` is called with the token and the content of each positive ack; what it raises is the trouble, too. `missing`
    is the trouble that is reported when no stream takes a message.
    """

    def __init__(self, connection: Connection, read: Callable[[int, Ack], None], missing: StreamMissing) -> None:
        self._connection = connection
        self._read = read
        self._missing = missing
        self._inbox = connection.client.new_inbox() + "."
        self._attempt = 0
        self._trouble: ShipperError | None = None
        self._wake: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Subscribe to the replies."""
        await self._connection.client.subscribe_direct(f"{self._inbox}*", self._on_reply)

    def subject(self, token: int) -> str:
        """Where the reply to the message with `token` arrives."""
        return f"{self._inbox}{self._attempt}-{token}"

    def on_news(self, wake: Callable[[], None]) -> None:
        """Call `wake` after every reply, and when the connection is lost."""
        self._wake = wake
        self._connection.on_lost(wake)

    def check(self) -> None:
        """Raises the trouble that a reply reported; SessionLost: the connection is gone."""
        if self._trouble:
            raise self._trouble
        self._connection.check()

    def start_over(self) -> None:
        """Ignore the replies to messages that were sent before, and forget that the stream was full."""
        if isinstance(self._trouble, StreamFull):
            self._trouble = None
        self._attempt += 1

    def _on_reply(self, message: Msg) -> None:
        attempt, token = map(int, message.subject.rpartition(".")[2].split("-"))
        if attempt != self._attempt:
            return
        if self._trouble is None:
            try:
                self._read(token, self._ack(message))
            except ShipperError as error:
                self._trouble = error
        self._wake()

    def _ack(self, message: Msg) -> Ack:
        if (message.headers or {}).get("Status") == NO_RESPONDERS:
            raise self._missing
        content: Ack = json.loads(message.data)
        if "error" in content:
            raise refusal(str(content.get("stream", "")), content["error"])
        return content


def refusal(stream: str, error: Mapping[str, Any]) -> ShipperError:
    """What the server's refusal of a message means for its publisher."""
    text = f"stream {stream} refuses a message: {error.get('description')} ({error.get('err_code')})"
    if error.get("err_code") in FULL:
        return StreamFull(text, hint="let the collector catch up, or raise max_bytes of the stream")
    return SessionLost(text)
