"""The publishing port on a real server, and lines that are published again.

The window of replies is our own, because `js.publish_async` loses error acks.
"""

import asyncio
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import nats.errors

from shipper import control, events
from shipper.errors import (
    BucketRefused,
    ConfigError,
    Fatal,
    RightMissing,
    SessionLost,
    ShipperError,
    StreamBusy,
    StreamFull,
    StreamMissing,
)
from shipper.jetstream.connection import SOCKET_BUFFER_BYTES, ConnectedSession, Connection, connect
from shipper.jetstream.direct_get import last_stored, stored, subject_of
from shipper.jetstream.fast_client import NO_RESPONDERS, Message
from shipper.jetstream.server_version import OLDEST
from shipper.model import Entry, LineMessages, Published, Stored
from shipper.settings import NatsSettings
from shipper.subjects import BUCKET_STREAM, bucket_subject, control_ask

Ack = Mapping[str, Any]
HEADER_RESERVE_BYTES = 16 * 1024
HANDSHAKE_SECONDS = 5.0
MAX_UNSENT_BYTES = SOCKET_BUFFER_BYTES // 2  # unsent bytes: above this, messages that may be lost are left out
BUCKET_SECONDS = 2.0
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
NEVER = 1 << 62
"""A sequence that no message has: the server stores no message that expects it, and names the newest one."""
WRONG_LAST_SEQUENCE = 10071
_NUMBER = re.compile(r"\d+$")
REFUSAL_SECONDS = 0.05  # between two checks whether the server refused a request


class JetStreamPublisher(ConnectedSession):
    """One session of publishing to `stream`; ends at the first trouble, but a full stream may be waited for in it."""

    may_read_mentions = True  #: until a server refused it once
    may_read_lines = True  #: the same for stored messages of its own: `fshipper hosts reads`
    may_see_streams = True  #: until a server refused it once, which costs a session: a host needs no right for it

    def __init__(self, connection: Connection, stream: str) -> None:
        super().__init__(connection)
        self._stream = stream
        missing = StreamMissing(f"no stream takes the messages of {stream}", hint="create it: fshipper partition apply")
        self._replies = ReplyWindow(connection, self._read, missing, self._read_stored, stream)
        self._in_flight: deque[_InFlight] = deque()
        self._next = 1  # number of the next message
        self._awaited = 1  # number of the message whose ack is next
        self._refused: dict[int, StreamFull] = {}  # by number
        self._acks: list[Published] = []
        self._last_sequence = 0

    @classmethod
    async def begin(cls, settings: NatsSettings, *, stream: str, host: str, block_bytes: int) -> "JetStreamPublisher":
        """A session with the first server that answers.

        Raises Unavailable: none answers. ConfigError: the server does not take messages of `block_bytes`.
        """
        connection = await connect(settings, name=f"fshipper produce {host}", inbox=f"_INBOX_{host}", oldest=OLDEST)
        if connection.max_payload < block_bytes + HEADER_RESERVE_BYTES:
            await connection.close()
            raise ConfigError(
                f"the server takes {connection.max_payload} bytes a message, a block needs {block_bytes} and headers",
                hint="raise max_payload in the server's configuration, or lower --block (SHIPPER_BLOCK)",
            )
        connection.dispensable.add(control_ask(host))  # rights of before version 2 of the roster do not have it
        session = cls(connection, stream)
        await session._replies.open()
        return session

    async def last_stored(self, subject: str) -> Stored | None:
        """The newest message on exactly `subject`."""
        self._replies.check()
        try:
            return await self._last(self._stream, subject)
        except nats.errors.NoRespondersError:
            raise await self._silence() from None

    async def last_stored_in(self, stream: str, subject: str) -> Stored | None:
        """The newest message on `subject` in another partition's stream."""
        try:
            return await self._last(stream, subject)
        except nats.errors.NoRespondersError:
            raise StreamMissing(f"stream {stream} does not exist") from None
        except RightMissing as error:
            self._connection.forgive()  # an operator may allow a host its own partition only
            raise StreamMissing(str(error)) from None

    async def _last(self, stream: str, subject: str) -> Stored | None:
        if JetStreamPublisher.may_read_lines:
            try:
                return await last_stored(self._connection, stream, subject, within=HANDSHAKE_SECONDS)
            except RightMissing:
                self._connection.forgive()  # the server only refused an answer
                JetStreamPublisher.may_read_lines = False
        return await self._last_unread(subject)

    async def _last_unread(self, subject: str) -> Stored | None:
        """The newest message by its sequence, from the refusal of an empty message that is never stored."""
        impossible = {EXPECTED: str(NEVER)}
        reply = await self._connection.request(subject, b"", within=HANDSHAKE_SECONDS, headers=impossible)
        error = (control.decode(reply.data) or {}).get("error") or {}
        found = _NUMBER.search(str(error.get("description")))
        if error.get("err_code") != WRONG_LAST_SEQUENCE or found is None:
            raise SessionLost(f"{subject}: the server does not name the newest message: {error or reply.data[:200]!r}")
        sequence = int(found[0])
        return Stored(sequence, 0, subject, {}, b"", is_unread=True) if sequence else None

    async def _silence(self) -> ShipperError:
        """Why no server answers for the stream. Raises the error of the server: no JetStream, or no such stream."""
        if not JetStreamPublisher.may_see_streams:
            return StreamMissing(f"stream {self._stream} does not answer", hint="create it: fshipper partition apply")
        try:
            await self._connection.api(f"STREAM.INFO.{self._stream}")
        except RightMissing:
            JetStreamPublisher.may_see_streams = False
            raise
        return SessionLost(f"stream {self._stream} does not answer direct reads yet")

    async def entry(self, key: str) -> Entry | None:
        """What the shared bucket holds under `key`; None: nothing, or there is no bucket."""
        self._replies.check()
        try:
            found = await last_stored(self._connection, BUCKET_STREAM, bucket_subject(key), within=BUCKET_SECONDS)
        except nats.errors.NoRespondersError:
            return None
        except RightMissing as error:
            if BUCKET_STREAM.lower() not in str(error).lower():
                raise
            self._connection.forgive()  # the server only refused an answer; a host that needs no map continues to ship
            raise BucketRefused(str(error)) from None
        except SessionLost:
            self._replies.check()
            return None  # for example the bucket has no leader: that stops no host
        return Entry(found.sequence, found.payload) if found else None

    async def publish(self, token: int, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Send without waiting for the server's ack."""
        number = self._number(token, 1)
        with self._connection.session_errors():
            await self._connection.client.publish_block(subject, self._replies.subject(number), headers, payload)

    async def publish_lines(self, token: int, subject: str, messages: LineMessages) -> None:
        """Send many messages without waiting for the server's acks."""
        first = self._number(token, len(messages.lines))
        with self._connection.session_errors():
            await self._connection.client.publish_lines(subject, self._replies.subject(), first, messages)

    def _number(self, token: int, messages: int) -> int:
        """The number of the first of so many messages, which are in flight from now on."""
        self._replies.check()
        first, self._next = self._next, self._next + messages
        self._in_flight.append(_InFlight(token, self._next - 1))
        return first

    async def mention(self, subject: str, payload: bytes) -> bool:
        """Send a message that may be lost, without a reply; False: the send buffer is full now."""
        self._replies.check()
        connection = self._connection
        if subject in connection.refused:
            if subject in connection.dispensable:
                connection.dispensable.discard(subject)
                events.heartbeats_refused(subject=subject)
            return True
        if connection.client.pending_data_size > MAX_UNSENT_BYTES:
            return False
        connection.dispensable.add(subject)
        with connection.session_errors():
            await connection.client.publish(subject, payload)
        return True

    async def mentioned(self, stream: str, subject: str) -> Stored | None:
        """The newest message on exactly `subject` that `stream` keeps of what was mentioned."""
        self._replies.check()
        connection, where = self._connection, subject_of(stream, subject)
        if where in connection.refused or not JetStreamPublisher.may_read_mentions:
            return None
        connection.dispensable.add(where)
        asking = asyncio.ensure_future(connection.request(where, b"", within=BUCKET_SECONDS))
        try:
            while not asking.done() and where not in connection.refused:  # a refusal is no answer
                await asyncio.wait({asking}, timeout=REFUSAL_SECONDS)
            if where in connection.refused:
                JetStreamPublisher.may_read_mentions = False
                return None
            return stored(asking.result())
        except (nats.errors.NoRespondersError, SessionLost):
            self._replies.check()
            return None  # no stream has it, or it cannot be read now
        finally:
            asking.cancel()

    def acknowledged(self) -> list[Published]:
        """The acks that came since the last call, in the order of the publishes; never waits."""
        if not self._acks:
            self._replies.check()
        acks, self._acks = self._acks, []
        return acks

    def start_over(self) -> None:
        """Go on after `StreamFull`; acks of what was sent before are ignored."""
        self._replies.start_over()
        self._in_flight.clear()
        self._awaited = self._next
        self._refused.clear()
        self._acks.clear()

    def on_news(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever `acknowledged` has something to return or to raise."""
        self._replies.on_news(wake)

    def _read(self, number: int, content: Ack) -> None:
        """A refusal counts after the acks of what was sent before it: the server sends it while those messages wait."""
        try:
            check_stored(content)
        except StreamFull as full:
            self._refused[number] = full
            self._check_refused()
            return
        if content.get("stream") != self._stream:
            raise ConfigError(
                f"stream {content.get('stream')!r} takes the subject of {self._stream}",
                hint="two streams must not share a subject, and SHIPPER_SUBJECT must be the same for all programs",
            )
        self._read_stored((number,), (int(content["seq"]),))

    def _read_stored(self, numbers: Sequence[int], sequences: Sequence[int]) -> None:
        """The server stored messages in this order."""
        for number, sequence in zip(numbers, sequences, strict=True):
            self._check_refused()
            if not self._in_flight or number != self._awaited:
                raise SessionLost(f"ack {number} came out of order")
            if sequence <= self._last_sequence:
                raise SessionLost(
                    f"stream sequence went back from {self._last_sequence} to {sequence}: the server lost data"
                )
            self._awaited, self._last_sequence = number + 1, sequence
            if number == self._in_flight[0].last:
                self._acks.append(Published(self._in_flight.popleft().token, sequence))
        self._check_refused()

    def _check_refused(self) -> None:
        """Raises the refusal of the message whose ack is next."""
        if self._refused and self._awaited in self._refused:
            raise self._refused[self._awaited]


class _InFlight(NamedTuple):
    """A call that sent messages, and the number of its last one."""

    token: int
    last: int


FULL = frozenset({10077, 10023, 10047})
"""Errors that end when storage is free again: stream full, server full, no storage left."""
TOO_MANY_REQUESTS = 10167
"""The messages that wait to be stored in the stream have reached `max_buffered_msgs` or `max_buffered_size`."""


# -- replies to published messages -------------------------------------------------------------------------------------


class ReplyWindow:
    """Replies by token, and the first trouble that a reply reported. Owned by one event loop.

    `read` is called with the token and the content of each reply; what it raises is the trouble. `missing` is the
    trouble that is reported when no stream takes a message. `read_stored`, if it is given, is called with the tokens
    and sequences of replies that `stream` stored their messages; what it raises is the trouble, too.
    """

    def __init__(
        self,
        connection: Connection,
        read: Callable[[int, Ack], None],
        missing: StreamMissing,
        read_stored: Callable[[Sequence[int], Sequence[int]], None] | None = None,
        stream: str = "",
    ) -> None:
        self._connection = connection
        self._read = read
        self._read_stored = read_stored
        self._missing = missing
        self._stream = stream
        self._stored = re.compile(rb"(?!)")  # the replies of this attempt that messages are stored
        self._sid = 0
        self._inbox = connection.client.new_inbox() + "."
        self._attempt = 0
        self._trouble: ShipperError | None = None
        self._wake: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Subscribe to the replies."""
        subscription = await self._connection.client.subscribe_direct(f"{self._inbox}*", self._on_reply)
        self._sid = subscription._id  # noqa: SLF001 - nats-py offers no other way
        if self._read_stored is not None:
            self._stored = self._stored_pattern()
            self._connection.client.read_runs_by(self._read_run)

    def subject(self, token: int | str = "") -> str:
        """Where the reply to the message with `token` arrives; without a token what such subjects begin with."""
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
        if self._read_stored is not None:
            self._stored = self._stored_pattern()

    def _stored_pattern(self) -> re.Pattern[bytes]:
        begin, stream = (re.escape(text.encode()) for text in (self.subject(), self._stream))
        content = rb'\{"stream":"%b",(?:"domain":"[^"\r\n]*",)? ?"seq":(\d{1,18})\}' % stream
        return re.compile(rb"MSG %b(\d{1,18}) %d \d+\r\n%b\r\n" % (begin, self._sid, content))

    def _read_run(self, buffer: bytearray, begin: int, end: int) -> int:
        """Read all replies from `begin` on that report a stored message. Returns where they end."""
        tokens: list[int] = []
        sequences: list[int] = []
        match = self._stored.match
        while found := match(buffer, begin, end):
            tokens.append(int(found[1]))
            sequences.append(int(found[2]))
            begin = found.end()
        if tokens and self._read_stored is not None:
            if self._trouble is None:
                try:
                    self._read_stored(tokens, sequences)
                except ShipperError as error:
                    self._trouble = error
            self._wake()
        return begin

    def _on_reply(self, message: Message) -> None:
        attempt, token = map(int, message.subject.rpartition(".")[2].split("-"))
        if attempt != self._attempt:
            return
        if self._trouble is None:
            try:
                if message.status == NO_RESPONDERS:
                    raise self._missing
                self._read(token, json.loads(message.data))
            except ShipperError as error:
                self._trouble = error
        self._wake()


def check_stored(reply: Ack) -> None:
    """Raises the server's refusal of a message."""
    if "error" in reply:
        raise refusal(str(reply.get("stream", "")), reply["error"])


def refusal(stream: str, error: Mapping[str, Any]) -> ShipperError:
    """What the server's refusal of a message means for its publisher."""
    text = f"stream {stream} refuses a message: {error.get('description')} ({error.get('err_code')})"
    if error.get("err_code") == TOO_MANY_REQUESTS:
        return StreamBusy(text, hint="many hosts catch up at the same time, or one host floods the stream")
    if error.get("err_code") in FULL:
        return StreamFull(text, hint="let the collector catch up, or raise max_bytes of the stream")
    return SessionLost(text)


# -- lines that are published again ------------------------------------------------------------------------------------

LINES_IN_FLIGHT = 1000
"""Maximum number of messages in flight."""
LINE_ACK_SECONDS = 10.0
LINE_HEADER_BYTES = 8 * 1024
MAX_SUBJECTS = 10_000


class Republisher(ConnectedSession):
    """A session of sending. Owned by one event loop."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._replies = ReplyWindow(
            connection, self._acknowledged, StreamMissing("no stream takes the subject any more")
        )
        self._numbers = itertools.count(1)
        self._in_flight: set[int] = set()
        self._streams: dict[str, str] = {}  # which stream takes a subject; empty: none does
        self._news = asyncio.Event()
        self._replies.on_news(self._news.set)

    @classmethod
    async def open(cls, settings: NatsSettings) -> "Republisher":
        """A session with the first server that answers. Raises Unavailable: none does."""
        connection = await connect(settings, name="fshipper replay", inbox="_INBOX_reader")
        republisher = cls(connection)
        await republisher._replies.open()
        return republisher

    async def send(self, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Send one message. Raises the server's error for it or an earlier one; Fatal: it is too long."""
        if len(payload) + LINE_HEADER_BYTES > self._connection.max_payload:
            most = self._connection.max_payload
            raise Fatal(f"a line of {len(payload)} bytes does not fit a message of {most}", hint="raise max_payload")
        await self._settle(LINES_IN_FLIGHT - 1)
        reply = ""
        if await self._stream_of(subject):
            number = next(self._numbers)
            self._in_flight.add(number)
            reply = self._replies.subject(number)
        with self._connection.session_errors():
            await self._connection.client.publish(subject, payload, reply=reply, headers=dict(headers))

    async def finish(self) -> None:
        """Return when the server has everything."""
        await self._settle(0)
        with self._connection.session_errors():
            await self._connection.client.flush(round(LINE_ACK_SECONDS))
        self._replies.check()

    async def _settle(self, most: int) -> None:
        """Wait until at most so many messages are not acknowledged."""
        self._replies.check()
        while len(self._in_flight) > most:
            self._news.clear()
            try:
                async with asyncio.timeout(LINE_ACK_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                raise SessionLost(f"no ack for {LINE_ACK_SECONDS:.0f} s") from None
            self._replies.check()

    async def _stream_of(self, subject: str) -> str:
        if subject not in self._streams:
            if len(self._streams) >= MAX_SUBJECTS:
                self._streams.clear()
            names = (await self._connection.api("STREAM.NAMES", {"subject": subject})).get("streams") or [""]
            self._streams[subject] = names[0]
        return self._streams[subject]

    def _acknowledged(self, number: int, reply: Ack) -> None:
        check_stored(reply)
        self._in_flight.discard(number)
