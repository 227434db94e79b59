"""Connections of browsers: how many may be open, and how long a request and a piece of an answer may take.

uvicorn has no such limits. A connection has one request, so that its end is that of the answer.
"""

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from uvicorn.protocols.http.h11_impl import H11Protocol

from shipper.http_endpoints import (
    MOST_ANSWERS,
    MOST_ANSWERS_AN_ADDRESS,
    MOST_CONNECTIONS,
    MOST_REQUESTS_AN_ADDRESS,
    MOST_STREAMS_AN_ADDRESS,
    PATIENCE_SECONDS,
    REQUEST_SECONDS,
)

Client: TypeAlias = tuple[str, int]
"""Address and port of the other end of a connection."""


@dataclass(eq=False)
class _Connection:
    """A client's connection, and the timer that ends it."""

    transport: asyncio.Transport
    deadline: asyncio.TimerHandle
    address: str  #: the client's; once the request is known, that which a trusted proxy names
    is_complete: bool = False  #: whether the request is
    is_answered: bool = False
    is_stream: bool = False


class Connections:
    """The open connections, oldest first. Owned by one event loop."""

    def __init__(self) -> None:
        self._open: dict[Client, _Connection] = {}

    def begin(self, client: Client, transport: asyncio.Transport) -> bool:
        """Whether the connection may send its request; another one that has not sent its own may end for it."""
        waiting = [each for each in self._open.values() if not each.is_answered]
        of_address = [each for each in waiting if each.address == client[0]]
        if len(of_address) >= MOST_REQUESTS_AN_ADDRESS:
            of_address[0].transport.abort()
        elif len(self._open) >= MOST_CONNECTIONS:
            if not waiting:
                return False
            waiting[0].transport.abort()
        deadline = asyncio.get_running_loop().call_later(REQUEST_SECONDS, transport.abort)
        self._open[client] = _Connection(transport, deadline, client[0])
        return True

    def request_is_complete(self, client: Client) -> None:
        """Stop the time of the request."""
        if (connection := self._open.get(client)) and not connection.is_complete:
            connection.is_complete = True
            connection.deadline.cancel()

    def answer_is_complete(self, client: Client) -> None:
        """Limit the time in which the client takes what is left of the answer."""
        if connection := self._open.get(client):
            connection.deadline = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, connection.transport.abort)

    def end(self, client: Client) -> None:
        """The connection is over."""
        if connection := self._open.pop(client, None):
            connection.deadline.cancel()

    def abort(self, client: Client) -> None:
        """End the connection without waiting for the client."""
        if connection := self._open.get(client):
            connection.transport.abort()

    def may_answer(self, client: Client, address: str) -> bool:
        """Whether a slot for a slow answer to `address` is free; if so, it is taken."""
        connection = self._open.get(client)
        answered = [each for each in self._open.values() if each.is_answered]
        of_address = sum(each.address == address for each in answered)
        if connection is None or len(answered) >= MOST_ANSWERS or of_address >= MOST_ANSWERS_AN_ADDRESS:
            return False
        connection.address, connection.is_answered = address, True
        return True

    def may_stream(self, client: Client) -> bool:
        """Whether the client's address may have one more answer without an end."""
        connection = self._open.get(client)
        if connection is None:
            return False
        streams = sum(each.is_stream and each.address == connection.address for each in self._open.values())
        connection.is_stream = streams < MOST_STREAMS_AN_ADDRESS
        return connection.is_stream


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn on a connection with limits."""

    limits: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin the connection, or refuse it."""
        super().connection_made(transport)
        if self.client is None or not self.limits.begin(self.client, transport):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the request."""
        super().data_received(data)
        if self.client is not None and self.cycle is not None and not self.cycle.more_body:
            self.limits.request_is_complete(self.client)

    def on_response_complete(self) -> None:
        """The answer is written."""
        super().on_response_complete()
        if self.client is not None:
            self.limits.answer_is_complete(self.client)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        if self.client is not None:
            self.limits.end(self.client)
        super().connection_lost(exc)
