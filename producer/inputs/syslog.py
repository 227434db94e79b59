"""A syslog listener: what programs and machines send becomes lines of a spool.

Its address is `udp:HOST:PORT`, `tcp:HOST:PORT`, `unix:PATH` or `unix-stream:PATH`.

A message is one line, exactly the bytes that came: PRI and all; by option the sender's address stands before them. What
ends it on the way (LF, CRLF, NUL) is left off, a newline inside is written `#012`, as rsyslog does. Streams: octet
counting or a byte at the end (RFC 6587). A count is one only before a PRI, and only as long as the connection has sent
no message without a count.
"""

import contextlib
import enum
import errno
import ipaddress
import math
import os
import re
import selectors
import socket
import stat
import struct
import time
from typing import Any, NamedTuple

from producer.discovery.safe_open import check_directory
from producer.inputs.reader import Reader, unread_bytes
from producer.inputs.senders import Sender, Senders, address_of, with_address
from producer.inputs.spool import Progress, Spool
from shipper import events
from shipper.errors import ConfigError

# -- the address -------------------------------------------------------------------------------------------------------

EXAMPLES = "udp:127.0.0.1:514, tcp:127.0.0.1:601, unix:/dev/log or unix-stream:/run/app/log"
BUFFER_BYTES = 4 * 1024 * 1024
"""Requested receive buffer of datagram sockets, bytes. The kernel grants at most net.core.rmem_max."""
BACKLOG = 128
RXQ_OVFL = 40
"""SO_RXQ_OVFL of Linux, which the socket module does not name."""
_MAX_PORT = 65535


class Address(NamedTuple):
    """One address. `path` of a unix socket, else `host` and `port`."""

    kind: str  #: udp, tcp, unix, unix-stream
    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def name(self) -> str:
        """What it is called in the archive."""
        return self.path or f"/syslog/{self.kind}/{self.host}:{self.port}"

    @property
    def is_stream(self) -> bool:
        """Whether there are connections."""
        return self.kind in {"tcp", "unix-stream"}

    @property
    def is_open(self) -> bool:
        """Whether other machines may reach it."""
        if self.path or self.host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return True


def parse(text: str) -> Address:
    """One address. Raises ConfigError, with examples."""
    kind, _, rest = text.partition(":")
    if kind in {"unix", "unix-stream"} and rest:
        return Address(kind, path=os.path.abspath(rest))
    host, _, port = rest.rpartition(":")
    in_brackets = host.startswith("[") and host.endswith("]")
    known = kind in {"udp", "tcp"} and host and (":" not in host or in_brackets) and "/" not in host
    if not (known and port.isascii() and port.isdigit() and 0 < int(port) <= _MAX_PORT):
        raise ConfigError(f"--syslog {text!r} is no address to listen on", hint=f"for example {EXAMPLES}")
    return Address(kind, host=host, port=int(port))


def listen(address: Address) -> socket.socket:
    """A listening socket that never blocks. Raises ConfigError: in use, not allowed, or not there.

    A unix socket takes messages of every user of this host, as /dev/log does; one without a listener is replaced.
    """
    kind = socket.SOCK_STREAM if address.is_stream else socket.SOCK_DGRAM
    try:
        family, place = _place(address, kind)
        with contextlib.ExitStack() as opening:
            opened = opening.enter_context(socket.socket(family, kind))
            if address.kind == "tcp":
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(place)
            if address.path:
                _open_to_all(address.path)
            opened.setblocking(False)
            if address.is_stream:
                opened.listen(BACKLOG)
            else:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            if address.kind == "udp":
                opened.setsockopt(socket.SOL_SOCKET, RXQ_OVFL, 1)
            opening.pop_all()
            return opened
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address.kind}:{address.path or f'{address.host}:{address.port}'}:"
            f" {error.strerror or error}",
            hint="another program listens there: stop it, or choose another address"
            if error.errno == errno.EADDRINUSE
            else "correct the address, or the rights of this user",
        ) from None


def _place(address: Address, kind: socket.SocketKind) -> tuple[socket.AddressFamily, Any]:
    """Family and address to bind to. Raises OSError."""
    if address.path:
        check_directory(os.path.dirname(address.path))
        _remove_stale(address.path)
        return socket.AF_UNIX, address.path
    host = address.host.strip("[]")
    family, _, _, _, place = socket.getaddrinfo(host, address.port, type=kind, flags=socket.AI_PASSIVE)[0]
    return family, place


def _open_to_all(path: str) -> None:
    """Give every user the right to write to a socket. A link in its place would change another file. Raises OSError."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "the socket was exchanged for something else", path)
        os.chmod(f"/proc/self/fd/{descriptor}", 0o666)  # noqa: S103 - as /dev/log
    finally:
        os.close(descriptor)


def _remove_stale(path: str) -> None:
    """Remove a socket that has no listener. Raises OSError (EADDRINUSE): it has one, or it is no socket."""
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket or _is_served(path):
        raise OSError(errno.EADDRINUSE, "in use" if is_socket else "a file that is no socket is there")
    os.unlink(path)


def _is_served(path: str) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with contextlib.closing(socket.socket(socket.AF_UNIX, kind)) as probe:
            probe.setblocking(False)
            try:
                probe.connect(path)
            except OSError as error:
                if error.errno not in {errno.ECONNREFUSED, errno.EPROTOTYPE}:
                    return True  # full, or unknown: not ours to replace
            else:
                return True
    return False


# -- messages: bytes in, lines out -------------------------------------------------------------------------------------

MAX_MESSAGE_BYTES = 64 * 1024
"""Of one line. A longer message is split over lines, never cut short or dropped."""

_COUNT = re.compile(rb"([1-9][0-9]{0,8}) <(?:[0-9]|[1-9][0-9]|1[0-8][0-9]|19[01])>")
"""A count, and the PRI of the message: 0 to 191 (RFC 5424, section 6.2.1)."""
_PERHAPS_COUNT = re.compile(rb"[1-9][0-9]{0,8}(?: (?:<[0-9]{0,3})?)?")
_ENDS = re.compile(rb"[\n\0]")


class _Framing(enum.Enum):
    """How the messages of a connection are separated, decided by those that it has sent."""

    UNKNOWN = enum.auto()  #: none yet
    COUNTED = enum.auto()  #: the first one had a count
    ENDED = enum.auto()  #: the first one had none: no number is a count any more


def line_of(message: bytes) -> bytes:
    """A whole message as one line with its newline; b"" where nothing is in it."""
    body = message.rstrip(b"\0")
    if body.endswith(b"\n"):
        body = body[:-1].removesuffix(b"\r")
    body = body.rstrip(b"\0")
    return body.replace(b"\n", b"#012") + b"\n" if body else b""


class Frames:
    """The messages of one connection, as its bytes arrive."""

    def __init__(self) -> None:
        self._framing = _Framing.UNKNOWN
        self._held, self._at = b"", 0  # bytes before `_at` are done with
        self._left = 0  # bytes to come of a counted message, longer than a line may be

    def feed(self, data: bytes) -> bytes:
        """The lines that are complete now."""
        self._held, self._at = self._held[self._at :] + data, 0
        lines = []
        while self._at < len(self._held) and (taken := self._take()) is not None:
            lines.append(taken)
        return b"".join(lines)

    def close(self) -> bytes:
        """The line that the connection ended in, if it did."""
        held, self._held, self._at, self._left = self._held[self._at :], b"", 0, 0
        return line_of(held)

    def _take(self) -> bytes | None:
        """The next line. None: more must come first."""
        if self._left:
            return self._take_counted()
        if self._framing is not _Framing.ENDED:
            if counted := _COUNT.match(self._held, self._at):
                self._framing = _Framing.COUNTED
                self._at, self._left = counted.end(1) + 1, int(counted[1])
                return self._take_counted()
            if _PERHAPS_COUNT.fullmatch(self._held, self._at):
                return None
        end = _ENDS.search(self._held, self._at, self._at + MAX_MESSAGE_BYTES + 1)
        if end:
            return self._take_ended(self._next(end.end() - self._at)[:-1] + b"\n")
        if len(self._held) - self._at <= MAX_MESSAGE_BYTES:
            return None
        return self._take_ended(self._next(MAX_MESSAGE_BYTES) + b"\n")

    def _take_ended(self, message: bytes) -> bytes:
        line = line_of(message)
        if line and self._framing is _Framing.UNKNOWN:
            self._framing = _Framing.ENDED
        return line

    def _take_counted(self) -> bytes | None:
        size = min(self._left, MAX_MESSAGE_BYTES)
        if len(self._held) - self._at < size:
            return None
        self._left -= size
        return line_of(self._next(size))

    def _next(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        return self._held[start : self._at]


# -- the listener ------------------------------------------------------------------------------------------------------

MAX_CONNECTIONS = 512
MAX_CONNECTIONS_AN_ADDRESS = 256
"""For one client address, so that one machine cannot lock the others out."""
IDLE_SECONDS = 10.0
"""Seconds without a message after which a connection may be closed for a new one. Below the limit none is closed: a
sender of plain TCP does not notice it immediately, and loses what it writes next."""
_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
)
"""After 60 s of silence the kernel checks whether a sender still exists: one that lost its power never closes."""
MAX_DATAGRAM_BYTES = 256 * 1024
"""More than UDP can carry, and than a unix socket takes by default."""
BATCH_BYTES = 1024 * 1024
"""Datagrams that are written together."""
MESSAGE_COST_BYTES = 256
"""Bytes counted for each datagram in addition to its own."""
READ_BYTES = 64 * 1024
ACCEPT_SECONDS = 0.1
"""Between two attempts to take a connection, where one failed."""
LAST_SECONDS = 0.5
"""How long, at a stop, what the kernel holds is still read."""
LOG_SECONDS = 10.0
"""Minimum seconds between two events about datagrams that the kernel dropped."""
_COUNTER = struct.Struct("=I")
_SO_MEMINFO, _DROPS_AT = 55, 8
"""Of Linux: memory figures of a socket, nine counters. The last one: dropped datagrams, modulo 2**32."""
_WRAPS = 1 << 32


_From = tuple[str, bytes]
"""The address of a sender, empty for a unix socket, and lines of it."""
NOTHING: _From = ("", b"")


class _Connected(NamedTuple):
    """Who is connected."""

    frames: Frames
    address: str  #: empty for a unix socket
    last_message: float  #: monotonic time of its last whole message, or of its connection


class Syslog(Reader):
    """One address. It is read only while the spool has space: stream senders wait, dropped datagrams are counted."""

    def __init__(
        self,
        spool: Spool,
        address: Address,
        *,
        max_connections: int = MAX_CONNECTIONS,
        max_an_address: int = MAX_CONNECTIONS_AN_ADDRESS,
        idle_seconds: float = IDLE_SECONDS,
        sender: Sender = Sender.LEFT_OFF,
        senders: Senders | None = None,
    ) -> None:
        super().__init__(spool)
        self._senders = senders
        self._address = address
        self._sender = sender
        self._max_connections = max_connections
        self._max_an_address = max_an_address
        self._idle_seconds = idle_seconds
        self._connections: dict[socket.socket, _Connected] = {}  # the one whose last message is oldest first
        self._selector = selectors.DefaultSelector()
        self._dropped = 0  # by the kernel, as it counts: modulo 2**32
        self._unlogged, self._log_at = 0, 0.0  # dropped datagrams that are not logged yet, and when they are
        self._accepts = True

    def prepare(self) -> None:
        """Listen. Raises ConfigError."""
        self._socket = listen(self._address)
        if self._address.is_open:
            events.listening_openly(input=self.spool.name)

    def read(self) -> None:
        """Wait for space in the spool, wait for bytes, append what came as lines."""
        for spool in self.spools:
            if spool.is_torn:
                self.append(b"\n", spool)  # a kill cut a message short; its sender does not know
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._ending, selectors.EVENT_READ)
        while not self._stopping.is_set() and self.spool.wait_for_space():
            self._turn(self._wait_seconds())
            self._log_dropped(time.monotonic())
            if not self._accepts and self._longest_idle():
                self._accept_again()
        self._read_the_last()
        self._keep([(sender.address, sender.frames.close()) for sender in self._connections.values()])

    @property
    def spools(self) -> tuple[Spool, ...]:
        """Its own and those of the senders."""
        return (self.spool, *(self._senders.spools if self._senders else ()))

    def end_idle(self, progress: Progress) -> None:
        """End those of silent senders."""
        if self._senders:
            self._senders.end_idle(progress)

    def stop(self) -> None:
        """Request the end, also of what waits for a full disk."""
        super().stop()
        if self._senders:
            self._senders.stop()

    def _wait_seconds(self) -> float | None:
        """Until something is due. None: nothing is."""
        due = [max(0.0, self._log_at - time.monotonic())] if self._unlogged else []
        if not self._accepts:
            due.append(min(1.0, self._idle_seconds))  # then a connection may be idle
        return min(due, default=None)

    def _read_the_last(self) -> None:
        """What the kernel took before the stop, and how much of it is lost."""
        until = time.monotonic() + LAST_SECONDS
        while self._turn(0) and time.monotonic() < until:
            pass
        if unread := sum(unread_bytes(connection.fileno()) for connection in self._connections):
            events.bytes_lost(file=self.spool.name, lost=unread, reason="stop")
        if self._address.kind == "udp":
            with contextlib.suppress(OSError):  # an old kernel
                self._note_dropped(self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 64)[4 * _DROPS_AT :])
        self._log_dropped(math.inf)

    def release(self) -> None:
        """Close every socket. A unix socket's name goes, too."""
        for connection in (*self._connections, self._socket):
            connection.close()
        self._selector.close()
        if self._address.path:
            with contextlib.suppress(OSError):
                os.unlink(self._address.path)

    def _turn(self, wait_seconds: float | None) -> bool:
        """What is there now, appended in one go. Whether there was something."""
        came: list[_From] = []
        ready = [key for key, _ in self._selector.select(wait_seconds) if key.fileobj != self._ending]
        for key in ready:
            if key.fileobj is self._socket and self._address.is_stream:
                came.append(self._accept())
            elif key.fileobj is self._socket:
                came += self._datagrams()
            elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._connections:
                came.append(self._received(key.fileobj))
        self._keep(came)
        return bool(ready)

    def _keep(self, came: list[_From]) -> None:
        """Append lines, each where it belongs."""
        if self._sender is Sender.LEFT_OFF or self._address.path:
            self._append_all([lines for _, lines in came])
        elif self._senders is None:
            self._append_all([with_address(*each) for each in came])
        else:
            self._keep_apart(self._senders, came)

    def _keep_apart(self, senders: Senders, came: list[_From]) -> None:
        by_address: dict[str, list[bytes]] = {}
        for address, lines in came:
            if lines:
                by_address.setdefault(address, []).append(lines)
        for address, parts in by_address.items():
            with senders.writing(address) as spool:
                lines = b"".join(parts)
                if address and not spool:
                    count = lines.count(b"\n")
                    events.senders_full(input=self.spool.name, address=address, lines=count, limit=senders.limit)
                self.append(lines if spool else with_address(address, lines), spool)

    def _append_all(self, parts: list[bytes]) -> None:
        if any(parts):
            self.append(b"".join(parts))

    def _datagrams(self) -> list[_From]:
        came: list[_From] = []
        size = 0
        with contextlib.suppress(BlockingIOError):
            while size < BATCH_BYTES:
                message, more, _, peer = self._socket.recvmsg(MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(_COUNTER.size))
                if line := line_of(message):
                    came.append(("" if self._sender is Sender.LEFT_OFF else address_of(peer), line))
                size += len(message) + MESSAGE_COST_BYTES
                for level, kind, data in more:  # with each datagram the total number that the kernel has dropped
                    if (level, kind) == (socket.SOL_SOCKET, RXQ_OVFL):
                        self._note_dropped(data)
        return came

    def _note_dropped(self, counter: bytes) -> None:
        (dropped,) = _COUNTER.unpack(counter[: _COUNTER.size])
        self._unlogged += (dropped - self._dropped) % _WRAPS
        self._dropped = dropped

    def _log_dropped(self, now: float) -> None:
        """Log how many were dropped, each of them once, with a minimum interval."""
        if self._unlogged and now >= self._log_at:
            events.messages_lost(input=self.spool.name, lost=self._unlogged, reason="receive_buffer")
            self._unlogged, self._log_at = 0, time.monotonic() + LOG_SECONDS

    def _accept(self) -> _From:
        """Take a connection, if need be in place of an idle one. What that one had begun is a line."""
        idle = None
        if len(self._connections) >= self._max_connections and not (idle := self._longest_idle()):
            self._accepts = False
            self._selector.unregister(self._socket)  # more wait in the kernel until one ends or is idle
            events.connections_full(input=self.spool.name, limit=self._max_connections)
            return NOTHING
        try:
            connection, peer = self._socket.accept()
        except OSError:
            self._stopping.wait(ACCEPT_SECONDS)  # the peer is gone again, or there are no descriptors just now
            return NOTHING
        address = address_of(peer)
        held = sum(sender.address == address for sender in self._connections.values()) if address else 0
        if held >= self._max_an_address and not (idle := self._longest_idle(address)):
            connection.close()
            events.connection_refused(input=self.spool.name, address=address, limit=self._max_an_address)
            return NOTHING
        begun = self._close_idle(idle) if idle else NOTHING
        connection.setblocking(False)
        for option in _KEEP_ALIVE if address else ():
            connection.setsockopt(*option)
        self._connections[connection] = _Connected(Frames(), address, time.monotonic())
        self._selector.register(connection, selectors.EVENT_READ)
        return begun

    def _longest_idle(self, address: str | None = None) -> socket.socket | None:
        """The connection, of that address or of any, whose last message is oldest, if that is long ago."""
        latest = time.monotonic() - self._idle_seconds
        for connection, sender in self._connections.items():
            if sender.last_message > latest:
                return None  # as all that follow
            if address in {None, sender.address} and not unread_bytes(connection.fileno()):
                return connection
        return None

    def _close_idle(self, connection: socket.socket) -> _From:
        sender = self._connections[connection]
        seconds = time.monotonic() - sender.last_message
        events.connection_closed(input=self.spool.name, address=sender.address, idle_seconds=round(seconds, 1))
        return self._hang_up(connection)

    def _received(self, connection: socket.socket) -> _From:
        sender = self._connections[connection]
        try:
            data = connection.recv(READ_BYTES)
        except BlockingIOError:
            return NOTHING
        except OSError:
            data = b""  # reset by the peer
        if not data:
            return self._hang_up(connection)
        lines = sender.frames.feed(data)
        if lines:
            del self._connections[connection]  # to the end of the order
            self._connections[connection] = _Connected(sender.frames, sender.address, time.monotonic())
        return sender.address, lines

    def _hang_up(self, connection: socket.socket) -> _From:
        """The line that the connection ended in, if it did."""
        self._selector.unregister(connection)
        connection.close()
        sender = self._connections.pop(connection)
        if not self._accepts:
            self._accept_again()
        return sender.address, sender.frames.close()

    def _accept_again(self) -> None:
        self._accepts = True
        self._selector.register(self._socket, selectors.EVENT_READ)
