"""What the server knows of a stream and of its collector, requested over a plain connection that costs little."""

import json
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from programs import FailedError

from shipper.subjects import COLLECTOR, stream_name

POLL_SECONDS = 0.01
TIMEOUT_SECONDS = 10.0


class Asking:
    """A connection for the server's API, one request after the other."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._socket = socket.create_connection((where.hostname, where.port), timeout=TIMEOUT_SECONDS)
        self._received = b""
        self._socket.sendall(b'CONNECT {"verbose":false}\r\nSUB asking 1\r\n')

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def last_sequence(self, partition: int = 0) -> int:
        """The newest message of a partition's stream; 0: none yet."""
        return int(self._ask(f"STREAM.INFO.{stream_name('logs', partition)}")["state"]["last_seq"])

    def acknowledged(self, partition: int = 0) -> int:
        """The newest message that the collector acknowledged: it is written, synced and journaled."""
        found = self._ask(f"CONSUMER.INFO.{stream_name('logs', partition)}.{COLLECTOR}")
        return int(found["ack_floor"]["stream_seq"]) if "ack_floor" in found else 0

    def until_last_is(self, sequence: int, *, within: float = 60.0) -> float:
        """Wait for a message; when it was seen (monotonic)."""
        return _until(lambda: self.last_sequence() >= sequence, within, f"message {sequence}")

    def until_acknowledged(self, sequence: int, *, within: float = 60.0) -> float:
        """Wait until the collector acknowledged a message; when it was seen (monotonic)."""
        return _until(lambda: self.acknowledged() >= sequence, within, f"acknowledged message {sequence}")

    def until_archived(self, *, partitions: int = 1, within: float = 900.0) -> float:
        """Wait until the collector acknowledged all that is there; when it was seen (monotonic)."""

        def archived() -> bool:
            return all(self.acknowledged(number) >= self.last_sequence(number) for number in range(partitions))

        return _until(archived, within, "a lag of 0")

    def _ask(self, what: str) -> dict[str, Any]:
        self._socket.sendall(f"PUB $JS.API.{what} asking 0\r\n\r\n".encode())
        while True:
            line = self._line()
            if line.startswith(b"PING"):
                self._socket.sendall(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                return dict(json.loads(self._exactly(int(line.split()[-1]) + 2)))
            elif line.startswith(b"-ERR"):
                raise FailedError(f"the server refused: {line.decode()}")

    def _line(self) -> bytes:
        while b"\r\n" not in self._received:
            self._more()
        line, _, self._received = self._received.partition(b"\r\n")
        return line

    def _exactly(self, count: int) -> bytes:
        while len(self._received) < count:
            self._more()
        found, self._received = self._received[:count], self._received[count:]
        return found

    def _more(self) -> None:
        more = self._socket.recv(65536)
        if not more:
            raise FailedError("the server closed the connection that asks")
        self._received += more


def _until(true: Callable[[], bool], within: float, what: str) -> float:
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            raise FailedError(f"not within {within:.0f} s: {what}")
        time.sleep(POLL_SECONDS)
    return time.monotonic()
