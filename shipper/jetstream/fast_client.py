"""nats-py's client, made to survive every message that a user may publish.

A subject that is no UTF-8, or a header block of one byte, raises inside nats-py's parser and ends the connection;
JetStream delivers the message again to the next session, without end. One such message must not stop a partition.

nats-py keeps the status of the server under the name `Status` among the headers, where a publisher may write one, too.
Here the status is apart from them, and only the first line of a block that no publisher wrote has one.

Messages of direct subscriptions do not pass nats-py's parser (`protocol_filter.py`).
"""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import nats.aio.client
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import WebSocketTransport
from nats.errors import ConnectionClosedError, Error, NoRespondersError
from nats.protocol.parser import AWAITING_CONTROL_LINE

from shipper.jetstream.protocol_filter import FrameFilter, ProtocolFilter, RawMessage, ReadRun
from shipper.model import LineMessages

_END = b"\r\n"
nats.aio.client.DEFAULT_BUFFER_SIZE = 256 * 1024  # type: ignore[attr-defined,unused-ignore]
"""What nats-py reads at a time, and asyncio keeps for it: with its own 32 KiB a block arrives in two parts, and the
socket is paused and resumed for each. asyncio itself receives 256 KiB at a time."""

NO_TLS = "the server offers no TLS"

_REGULAR = re.compile(rb"NATS/1\.0\r\n(?:[A-Za-z0-9-]+: [!-~]*\r\n)+\r\n")
"""Headers as our producers write them: they need none of nats-py's care, which takes twice as long."""

_FIRST_LINE_BYTES = len("NATS/1.0\r\n")
_LAST_LINES_BYTES = len("\r\n\r\n")

NO_RESPONDERS = "503"
"""Status of the message that nats-server sends in reply to a request without a subscriber."""
STORED = "Nats-Sequence"
"""nats-server adds it, after all others, to a stored message that it sends in reply to a direct get; to no status."""
_STATUS = re.compile(rb"NATS/1\.0 +([0-9]{3})(?: (.*))?", re.DOTALL)


class ParsedHeaders(NamedTuple):
    """A header block."""

    fields: dict[str, str]  #: the headers; the last one of a name counts
    status: str = ""  #: three digits, if the server wrote the block as a status
    description: str = ""


def parse_headers(block: bytes) -> ParsedHeaders:
    """The content of any header block, of the server or a publisher; never fails.

    Servers before 2.14 store and send the first line as its publisher wrote it, with a status of his choice: the header
    that the server adds to a stored message shows that it is data.
    """
    if _REGULAR.fullmatch(block):
        lines = block[_FIRST_LINE_BYTES:-_LAST_LINES_BYTES].decode("ascii").split("\r\n")
        return ParsedHeaders(dict([line.split(": ", 1) for line in lines]))
    first, _, rest = block.partition(_END)
    fields = Client._parse_header_lines(rest)  # noqa: SLF001 - the rules of nats-py for names and values
    found = _STATUS.fullmatch(first)
    if found is None or STORED in fields:
        return ParsedHeaders(fields)
    return ParsedHeaders(fields, found[1].decode(), (found[2] or b"").decode("utf-8", "replace").strip())


def _header_block(headers: Mapping[str, str]) -> bytes:
    """Well-formed headers, without the empty line that ends them."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return f"NATS/1.0\r\n{lines}".encode()


@dataclass
class Message(Msg):
    """A message. `headers` hold only what stands below the first line, so a header `Status` is of its publisher."""

    status: str = ""  #: of the server: three digits; empty: the message is none
    description: str = ""  #: of the status


async def _never(message: Msg) -> None:
    """Stands for the callback of a direct subscription, which is called ahead of nats-py's queue."""


class TolerantClient(Client):
    """Undecodable bytes of a subject arrive as surrogates, as `os.fsdecode` writes them."""

    def __init__(self) -> None:
        super().__init__()
        self._direct: dict[int, Callable[[Message], None]] = {}
        self._told: set[asyncio.Task[None]] = set()  # of errors
        self._needs_tls = False
        self._filter: ProtocolFilter | None = None

    def require_tls(self) -> None:
        """Send nothing but a TLS handshake, not even the user, until the connection is encrypted.

        nats-py upgrades a connection only if the server's INFO contains `tls_required`. INFO arrives unencrypted, so
        an attacker on the network path can remove that word.
        """
        self._needs_tls = True

    @property
    def has_access_control(self) -> bool:
        """Whether the server's INFO requires users, or certificates of clients."""
        return bool(self._server_info.get("auth_required") or self._server_info.get("tls_verify"))

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        transport = self._transport
        if getattr(transport, "_using_tls", False):  # of a WebSocket
            return True
        writer = getattr(transport, "_io_writer", None)
        return writer is not None and writer.get_extra_info("ssl_object") is not None

    @property
    def server_info(self) -> dict[str, Any]:
        """What the server reported of itself last (INFO)."""
        return dict(self._server_info)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if self._needs_tls and initial_connection and not self.is_encrypted:
            if not (info.get("tls_required") or info.get("tls_available")):
                raise Error(NO_TLS)
            info["tls_required"] = True  # the only field that makes nats-py start TLS
        await super()._process_info(info, initial_connection)

    def _connect_command(self) -> bytes:
        """The first command, which holds the user: the last place to check, whatever way led here."""
        if self._needs_tls and not self.is_encrypted:
            raise Error(NO_TLS)
        return bytes(super()._connect_command())

    def sift(self) -> None:
        """Take direct subscriptions' messages from the socket from now on; call it immediately after `connect`.

        Where that is not possible (a server that has closed the connection) they come through nats-py.
        """
        transport = self._transport
        if self._ps.buf:
            return
        if isinstance(transport, WebSocketTransport):
            frames = FrameFilter(transport.read, self._is_parsing, self._direct.__contains__, self._take)
            transport.read = frames.read  # type: ignore[method-assign,assignment]
            self._filter = frames.filter
            return
        reader = getattr(transport, "_io_reader", None)
        writer = getattr(transport, "_io_writer", None)
        if reader is None or writer is None or reader._eof:  # noqa: SLF001 - nothing follows its end
            return
        socket = writer.transport  # or that of TLS, which passes on what it decrypted
        way = socket.get_protocol()
        if isinstance(way, asyncio.StreamReaderProtocol):
            sieve = ProtocolFilter(way, self._direct.__contains__, self._take)
            socket.set_protocol(sieve)
            self._filter = sieve
            came = bytes(reader._buffer)  # noqa: SLF001 - whole lines were read of what came before
            reader._buffer.clear()  # noqa: SLF001
            sieve.put(came)

    def _is_parsing(self) -> bool:
        """Whether nats-py has a part of a message."""
        return bool(self._ps.buf) or self._ps.state != AWAITING_CONTROL_LINE

    def read_runs_by(self, read_run: ReadRun) -> None:
        """Let `read_run` take many small messages at a time, where messages are taken from the socket."""
        if self._filter is not None:
            self._filter.read_run = read_run

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,  # noqa: ASYNC109 - as in nats-py
        old_style: bool = False,
        headers: dict[str, Any] | None = None,
    ) -> Message:
        """The first reply. Raises NoRespondersError: the server reports that there is no subscriber."""
        assert not old_style  # noqa: S101 - no caller of ours wants it
        answer = cast(
            "Message", await self._request_new_style(subject, payload, timeout=timeout, headers=headers)
        )  # as `_build_message` makes them
        if answer.status == NO_RESPONDERS:
            raise NoRespondersError
        return answer

    async def subscribe_direct(self, subject: str, handler: Callable[[Message], None]) -> Subscription:
        """Call `handler` with each message as it is read from the socket.

        nats-py's own way, a queue and a task for each subscription, costs as much again as reading the message.
        """
        subscription = await self.subscribe(subject, cb=_never, pending_msgs_limit=0, pending_bytes_limit=0)
        self._direct[subscription._id] = handler  # noqa: SLF001 - nats-py offers no other way
        return subscription

    @contextlib.asynccontextmanager
    async def mailbox(self) -> AsyncIterator[tuple[str, "asyncio.Queue[Message]"]]:
        """A new inbox and what arrives there, as long as the block lasts."""
        inbox, arrived = self.new_inbox(), asyncio.Queue[Message]()
        subscription = await self.subscribe_direct(inbox, arrived.put_nowait)
        try:
            yield inbox, arrived
        finally:
            del self._direct[subscription._id]  # noqa: SLF001
            if self.is_connected:
                await subscription.unsubscribe()

    async def publish_block(self, subject: str, reply: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Send a message whose headers are well formed already.

        nats-py itself parses each header again and copies the payload twice: half of the cost of a block in the loop.
        Here its only copy is the one of all that waits for the socket.
        """
        if self.is_closed:
            raise ConnectionClosedError
        head = _header_block(headers) + _END
        command = f"HPUB {subject} {reply} {len(head)} {len(head) + len(payload)}\r\n".encode()
        await self._send(command + head, payload, b"\r\n")

    async def publish_lines(self, subject: str, reply: str, first: int, messages: LineMessages) -> None:
        """Send messages whose replies go to `reply` and the number of the message, from `first` on."""
        if self.is_closed:
            raise ConnectionClosedError
        head = _header_block(messages.headers)
        begin, size = f"HPUB {subject} {reply}".encode(), len(head)
        each = zip(itertools.count(first), messages.places, messages.lines, strict=False)
        commands = [
            b"%b%d %d %d\r\n%b%b%b\r\n"
            % (begin, number, size + len(place), size + len(place) + len(line), head, place, line)
            for number, place, line in each
        ]
        await self._send(b"".join(commands))

    async def _send(self, *parts: bytes) -> None:
        *first, last = parts
        self._pending += first  # nothing of others can come between: the next line waits after it has added the last
        self._pending_data_size += sum(map(len, first))
        await self._send_command(last)
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if sid in self._direct:
            self._take(RawMessage(sid, subject, reply, headers, data))
        else:
            await super()._process_msg(sid, subject, reply, data, headers)

    def _take(self, arrived: RawMessage) -> None:
        sid, subject, reply, headers, payload = arrived
        if sid in self._subs:  # else it is unsubscribed, and this was on its way
            try:
                parsed = parse_headers(headers) if headers else None
                self._direct[sid](self._build_message(sid, subject, reply, payload, parsed))
            except (ValueError, IndexError) as error:  # any user may publish to an inbox whose name it knows
                telling = asyncio.ensure_future(self._error_cb(error))
                self._told.add(telling)
                telling.add_done_callback(self._told.discard)

    def _build_message(  # type: ignore[override,unused-ignore]
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: ParsedHeaders | None
    ) -> Message:
        fields, status, description = headers or (None, "", "")
        return Message(
            subject=bytes(subject).decode("utf-8", "surrogateescape"),
            reply=bytes(reply).decode("utf-8", "surrogateescape"),
            data=data,
            headers=fields or None,
            _client=self,
            _sid=sid,
            status=status,
            description=description,
        )

    async def _process_headers(  # type: ignore[override,unused-ignore]
        self, headers: Any
    ) -> ParsedHeaders | None:
        """nats-py passes the result on to `_build_message`, and reads it only for its own JetStream contexts."""
        return parse_headers(bytes(headers)) if headers else None
