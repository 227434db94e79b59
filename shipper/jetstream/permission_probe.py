"""Tests which rights a user has by requests that store nothing."""

import asyncio
import contextlib
import enum
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import nats.errors
from nats.aio.msg import Msg

from shipper import control
from shipper.errors import SessionLost
from shipper.jetstream.connection import API, REFUSED, Connection, connect, describe
from shipper.jetstream.direct_get import subject_of
from shipper.jetstream.durability import ServerFacts, server_facts
from shipper.jetstream.fast_client import NO_RESPONDERS, Message
from shipper.settings import NatsSettings
from shipper.subjects import USER_INFO

ANSWER_SECONDS = 2.0
NEVER_SEQUENCE = 2**63 - 1
"""No stream comes so far, so a message that expects it is refused, by error 10071, and never stored."""


class ProbeOutcome(enum.Enum):
    """The outcome of a request."""

    ANSWERED = "answered"
    NO_SUBSCRIBER = "nobody"  #: the subject has no subscriber
    DENIED = "denied"  #: the user has no right to publish the request
    SILENT = "silent"  #: no answer came


class ProbeReply(NamedTuple):
    """The reply to a request; `denied` is the error text of the server."""

    outcome: ProbeOutcome
    payload: bytes = b""
    denied: str = ""

    @property
    def content(self) -> Mapping[str, Any]:
        """The payload as JSON; empty where it is none."""
        return control.decode(self.payload) or {}

    @property
    def error_code(self) -> int:
        """JetStream's `err_code`; 0 where it does not complain."""
        error = self.content.get("error")
        return int(error.get("err_code") or 0) if isinstance(error, dict) else 0


class Probe:
    """Sends one request at a time, so that a permissions violation belongs to the last one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox = connection.client.new_inbox()
        self._tokens = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Msg]] = {}

    @property
    def server(self) -> str:
        """Address and version of the server, and whether the connection is encrypted."""
        client = self._connection.client
        address = client.connected_url.netloc.rpartition("@")[2] if client.connected_url else "?"
        return f"{address}, nats-server {client.server_info.get('version')}{', TLS' if client.is_encrypted else ''}"

    async def facts(self, settings: NatsSettings) -> ServerFacts:
        """What the server reports of itself, and its monitoring port."""
        return await server_facts(self._connection, settings)

    @property
    def max_payload(self) -> int:
        """Bytes of headers and payload that the server takes in one message."""
        return self._connection.max_payload

    async def subscribe(self, subject: str = "") -> str:
        """Why this user may not subscribe to `subject` (empty: to its own inbox); "" where it may."""
        await self._connection.client.subscribe(subject or f"{self._inbox}.*", cb=self._on_message)
        return await self._violation()

    async def ask(self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None) -> ProbeReply:
        """Publish to `subject` and wait for the answer in the inbox. Raises SessionLost."""
        token = str(next(self._tokens))
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        try:
            await self._connection.client.publish(
                subject, payload, reply=f"{self._inbox}.{token}", headers=dict(headers) if headers else None
            )
            if denied := await self._violation():
                return ProbeReply(ProbeOutcome.DENIED, denied=denied)
            async with asyncio.timeout(ANSWER_SECONDS):
                message = await answer
        except TimeoutError:
            return ProbeReply(ProbeOutcome.SILENT)
        except (nats.errors.Error, OSError) as error:
            raise SessionLost(describe(error)) from None
        finally:
            del self._waiting[token]
        return ProbeReply(
            ProbeOutcome.NO_SUBSCRIBER
            if isinstance(message, Message) and message.status == NO_RESPONDERS
            else ProbeOutcome.ANSWERED,
            message.data,
        )

    async def account(self) -> ProbeReply:
        """The account of this user, as the server reports it; denied: no right to request it."""
        return await self.ask(USER_INFO)

    async def stream(self, name: str) -> ProbeReply:
        """The stream's configuration and state, which a producer need not have the right to see."""
        return await self.ask(f"{API}.STREAM.INFO.{name}")

    async def publish(self, subject: str, stream: str) -> ProbeReply:
        """The reply to a message for `stream` that the server does not store."""
        headers = {"Nats-Expected-Stream": stream, "Nats-Expected-Last-Sequence": str(NEVER_SEQUENCE)}
        return await self.ask(subject, b"", headers)

    async def last_stored(self, subject: str, stream: str) -> ProbeReply:
        """The reply to a direct get of the newest message on `subject`."""
        return await self.ask(subject_of(stream, subject))

    async def _violation(self) -> str:
        """The violation of permissions that the last command was; it comes before the answer to a later PING."""
        with self._connection.session_errors():
            await self._connection.flush()
        reason = self._connection.reason
        if not reason.startswith(REFUSED):
            self._connection.check()
            return ""
        self._connection.forgive()
        return reason

    async def _on_message(self, message: Msg) -> None:
        answer = self._waiting.get(message.subject.rpartition(".")[2])
        if answer is not None and not answer.done():
            answer.set_result(message)


@contextlib.asynccontextmanager
async def probing(settings: NatsSettings, *, host: str) -> AsyncIterator[Probe]:
    """A probe with the connection, the user and the inbox that a producer of `host` has.

    Raises Unavailable: no server answers. Fatal: it refuses us. ConfigError: a file of the settings cannot be used.
    """
    async with await connect(settings, name=f"fshipper validate {host}", inbox=f"_INBOX_{host}") as connection:
        yield Probe(connection)
