"""Where a syslog listener listens: `udp:HOST:PORT`, `tcp:HOST:PORT`, `unix:PATH`, `unix-stream:PATH`."""

import contextlib
import errno
import ipaddress
import os
import socket
import stat
from typing import NamedTuple

from producer.discovery.safe_open import check_directory
from shipper.errors import ConfigError

EXAMPLES = "udp:127.0.0.1:514, tcp:127.0.0.1:601, unix:/dev/log or unix-stream:/run/app/log"
BUFFER_BYTES = 4 * 1024 * 1024
"""Requested receive buffer of datagram sockets, bytes; the kernel grants at most net.core.rmem_max."""
BACKLOG = 128
RXQ_OVFL = 40
"""SO_RXQ_OVFL of Linux, which the socket module does not name."""
_MAX_PORT = 65535


class Address(NamedTuple):
    """One address; `path` of a unix socket, else `host` and `port`."""

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
    """A listening socket that never blocks. Raises ConfigError: in use, not allowed, or not there."""
    try:
        return _unix(address) if address.path else _internet(address)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address.kind}:{address.path or f'{address.host}:{address.port}'}:"
            f" {error.strerror or error}",
            hint="another program listens there: stop it, or choose another address"
            if error.errno == errno.EADDRINUSE
            else "correct the address, or the rights of this user",
        ) from None


def _internet(address: Address) -> socket.socket:
    kind = socket.SOCK_STREAM if address.is_stream else socket.SOCK_DGRAM
    host = address.host.strip("[]")
    family, _, _, _, place = socket.getaddrinfo(host, address.port, type=kind, flags=socket.AI_PASSIVE)[0]
    opened = socket.socket(family, kind)
    try:
        if address.is_stream:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(place)
        return _ready(opened, address)
    except BaseException:
        opened.close()
        raise


def _unix(address: Address) -> socket.socket:
    """A unix socket that every user of this host may write to, as /dev/log; one without a listener is replaced."""
    kind = socket.SOCK_STREAM if address.is_stream else socket.SOCK_DGRAM
    check_directory(os.path.dirname(address.path))
    _remove_stale(address.path)
    opened = socket.socket(socket.AF_UNIX, kind)
    try:
        opened.bind(address.path)
        _open_to_all(address.path)
        return _ready(opened, address)
    except BaseException:
        opened.close()
        raise


def _open_to_all(path: str) -> None:
    """Give every user the right to write to a socket; a link in its place would change another file. Raises OSError."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "the socket was exchanged for something else", path)
        os.chmod(f"/proc/self/fd/{descriptor}", 0o666)  # noqa: S103 - as /dev/log
    finally:
        os.close(descriptor)


def _ready(opened: socket.socket, address: Address) -> socket.socket:
    opened.setblocking(False)
    if address.is_stream:
        opened.listen(BACKLOG)
        return opened
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    if address.kind == "udp":
        opened.setsockopt(socket.SOL_SOCKET, RXQ_OVFL, 1)
    return opened


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
