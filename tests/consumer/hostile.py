"""Messages as they are on the wire, from a client that checks nothing: any subject, headers and payload."""

import socket
from collections.abc import Mapping

from harness.natsd import NatsServer

Wild = tuple[str | bytes, Mapping[str, str] | bytes, bytes]
"""Subject, headers (bytes: as they are behind the first line), payload."""


def send_raw(server: NatsServer, *commands: bytes) -> bytes:
    """Write commands of the protocol directly, and return the replies when the server has taken all."""
    replies = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as link:
        link.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
        for command in commands:
            link.sendall(command)
        link.sendall(b"PING\r\n")
        while b"PONG" not in replies:
            more = link.recv(65536)
            assert more, replies
            replies = replies[-4096:] + more
    return replies


def publish(server: NatsServer, *messages: Wild) -> None:
    """Send `messages` and return when the server has taken them."""
    replies = send_raw(server, *(_wire(*message) for message in messages))
    assert b"-ERR" not in replies, replies


def _wire(subject: str | bytes, headers: Mapping[str, str] | bytes, payload: bytes) -> bytes:
    name = subject if isinstance(subject, bytes) else subject.encode("utf-8", "surrogateescape")
    if not headers:
        return b"PUB %b %d\r\n%b\r\n" % (name, len(payload), payload)
    lines = (
        headers
        if isinstance(headers, bytes)
        else b"".join(f"{key}: {value}\r\n".encode("utf-8", "surrogateescape") for key, value in headers.items())
    )
    head = b"NATS/1.0\r\n" + lines + b"\r\n"
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (name, len(head), len(head) + len(payload), head, payload)
