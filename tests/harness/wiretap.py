"""A misconfigured or hostile NATS server on the loopback, and a proxy that removes TLS: they record what clients send.

with Wiretap(reply=plaintext) as tap:     # answers every connection by `reply`
    tap.url("tls")                        # tls://127.0.0.1:<port>
    tap.received                          # every byte that clients sent, over all connections
with Wiretap(reply=stripped(4222)) as tap:   # forwards to a server on port 4222 and hides its TLS
"""

import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable

from harness.ports import free_port

INFO = {
    "server_id": "N", "server_name": "n", "version": "2.15.1", "proto": 1, "host": "127.0.0.1", "port": 4222,
    "headers": True, "max_payload": 2 * 1024 * 1024, "jetstream": True, "client_id": 1, "auth_required": True,
    "nonce": "abcdefghijklmno",
}  # fmt: skip

Reply = Callable[["Wiretap", socket.socket], None]


class Wiretap:
    """Listens on a port that no server of another test had; one thread for each connection."""

    def __init__(self, reply: Reply) -> None:
        self.received = bytearray()
        self.connections = 0
        self.reply = reply
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()

    def url(self, scheme: str, user: str = "") -> str:
        return f"{scheme}://{user}127.0.0.1:{self.port}"

    def __enter__(self) -> "Wiretap":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def cut(self, reply: Reply) -> None:
        """End every connection; from now on clients get another `reply`, and what was received is forgotten."""
        with self._lock:
            self.reply = reply
            opened, self._open = self._open, []
            self.received.clear()
            self.connections = 0
        for each in opened:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    self.connections += 1
                    self._open.append(client)
                    reply = self.reply
                threading.Thread(target=self._serve, args=(client, reply), daemon=True).start()

    def _serve(self, client: socket.socket, reply: Reply) -> None:
        with client, contextlib.suppress(OSError):
            reply(self, client)
            self.read_all(client)

    def read(self, client: socket.socket) -> bytes:
        """The next bytes of a client; b"": it closed. They are recorded unless `cut` has ended this connection."""
        octets = client.recv(65536)
        with self._lock:
            if client in self._open:
                self.received += octets
        return octets

    def read_all(self, client: socket.socket) -> None:
        while self.read(client):
            pass


def info(**fields: object) -> bytes:
    return b"INFO " + json.dumps(INFO | fields).encode() + b"\r\n"


def plaintext(tap: Wiretap, client: socket.socket) -> None:
    """A NATS server without TLS that admits every client."""
    client.sendall(info())
    while octets := tap.read(client):
        if b"PING\r\n" in octets:
            client.sendall(b"PONG\r\n")


def says(*lines: bytes) -> Reply:
    """Sends `lines`, then only records."""

    def reply(tap: Wiretap, client: socket.socket) -> None:
        client.sendall(b"".join(lines))

    return reply


def answers_the_handshake(answer: bytes) -> Reply:
    """Demands TLS, and answers the client's first bytes in plaintext; b"": it resets the connection."""

    def reply(tap: Wiretap, client: socket.socket) -> None:
        client.sendall(info(tls_required=True))
        tap.read(client)
        if answer:
            client.sendall(answer)
        else:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()

    return reply


def stripped(port: int) -> Reply:
    """Forwards to the NATS server on `port`, and removes every word of TLS from the server's first message."""
    return _forwarding(port, lambda first: re.sub(rb'"tls_\w+":(true|false),?', b"", first))


def renamed(port: int, version: str) -> Reply:
    """Forwards to the NATS server on `port`, which seems to be of another version."""
    return _forwarding(port, lambda first: re.sub(rb'"version":"[^"]*"', b'"version":"%s"' % version.encode(), first))


def forwarded(port: int) -> Reply:
    """Forwards to the NATS server on `port`, and changes nothing."""
    return _forwarding(port, lambda first: first)


def _forwarding(port: int, changed: Callable[[bytes], bytes]) -> Reply:
    def reply(tap: Wiretap, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", port))

        def back() -> None:
            with contextlib.suppress(OSError):
                first = server.recv(65536)
                client.sendall(changed(first))
                while octets := server.recv(65536):
                    client.sendall(octets)
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=back, daemon=True).start()
        with contextlib.suppress(OSError), server:
            while octets := tap.read(client):
                server.sendall(octets)

    return reply
