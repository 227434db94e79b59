"""Many hosts in one process, at their own rates: each publishes as a producer does, and waits for its acks.

python drive.py URLS CONNECTIONS PARTITIONS RATES SECONDS TIMED REPORT

RATES is a file with the bytes a second of each host. A host sends what it wrote in a second as one block, or waits for
its next line. While a block of it is not acknowledged, it sends the next one later, as a producer does, up to
`MAX_DELAY_SECONDS`. TIMED hosts write lines that hold the time of their writing. Prints what was sent, and how late the
process itself was. Writes to REPORT what each file must hold.
"""

import heapq
import json
import re
import selectors
import socket
import sys
import time
import zlib
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import zstandard
from feed import FILE
from figures import percentile

from shipper.control import USUAL_DELAY_SECONDS
from shipper.partition_map import partition_for

LINE_BYTES = 141
MAX_DELAY_SECONDS = 5.0
TICK_SECONDS = 0.005
PATIENCE_SECONDS = 120.0
COMPRESSOR = zstandard.ZstdCompressor(level=1)
ACK = re.compile(rb"MSG drive\.\d+\.(\d+) 1 \d+\r\n([^\r]*)\r\n")


@dataclass(slots=True)
class Host:
    """A host with one growing file."""

    subject: str
    id: str
    rate: float
    is_timed: bool
    began: float = 0.0  # writing
    written: int = 0  # lines
    offset: int = 0
    crc: int = 0
    sent_at: deque[float] = field(default_factory=deque)  # of blocks that are not acknowledged
    due_at: float = 0.0

    def next_due(self, now: float) -> float:
        """When the first line that is not sent has waited for the usual delay."""
        return max(now, self.began + (self.written + 1) * LINE_BYTES / self.rate + USUAL_DELAY_SECONDS)


def block(host: Host, now: float, reply: str) -> bytes:
    """What a host wrote since its last block, as it goes over the socket."""
    lines = max(1, int((now - host.began) * host.rate / LINE_BYTES) - host.written)
    if host.is_timed:
        first = host.began + (host.written + 1) * LINE_BYTES / host.rate
        text = b"".join(_line(int((first + n * LINE_BYTES / host.rate) * 1e9), n) for n in range(lines))
        payload, crc = COMPRESSOR.compress(text), zlib.crc32(text)
    else:
        text, payload, crc = _prepared(lines)
    host.written += lines
    start, host.offset, host.crc = host.offset, host.offset + len(text), zlib.crc32(text, host.crc)
    headers = (
        f"NATS/1.0\r\nLog-Id: {host.id}\r\nLog-File: {FILE}\r\nLog-Span: {start}-{host.offset}\r\nLog-Origin: 0\r\n"
        f"Log-Lines: {lines}\r\nLog-Crc: {crc:08x}-{host.crc:08x}\r\nLog-Time: 2026-11-20T10:00:00Z\r\n"
        "Log-Map: 0\r\nLog-Encoding: zstd\r\n\r\n"
    )
    size = len(headers) + len(payload)
    return f"HPUB {host.subject} {reply} {len(headers)} {size}\r\n{headers}".encode() + payload + b"\r\n"


def _line(written_ns: int, number: int) -> bytes:
    return (b"%d %d accepted request of user %x " % (written_ns, number, number * 2654435761)).ljust(
        LINE_BYTES - 1, b"."
    ) + b"\n"


_BLOCKS: dict[int, tuple[bytes, bytes, int]] = {}


def _prepared(lines: int) -> tuple[bytes, bytes, int]:
    if lines not in _BLOCKS:
        text = b"".join(_line(1_700_000_000_000_000_000 + n * n * 7_919_333, n) for n in range(lines))
        _BLOCKS[lines] = (text, COMPRESSOR.compress(text), zlib.crc32(text))
    return _BLOCKS[lines]


class Driver:
    """All hosts, over some connections."""

    def __init__(self, urls: list[str], connections: int, hosts: list[Host]) -> None:
        self._hosts = hosts
        self._queue: list[tuple[float, int]] = []  # when each host is due, and its number
        self._selector = selectors.DefaultSelector()
        self._sockets = [self._connected(urls[number % len(urls)], number) for number in range(connections)]
        self._received = dict.fromkeys(self._sockets, b"")
        self.blocks = 0
        self.late: list[float] = []  # seconds from the time at which a block was due
        self.acks: list[float] = []  # seconds from a block to its ack

    def _connected(self, url: str, number: int) -> socket.socket:
        where = urlsplit(url)
        one = socket.create_connection((where.hostname, where.port))
        one.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB drive.%d.* 1\r\n' % number)
        self._selector.register(one, selectors.EVENT_READ)
        return one

    def run(self, seconds: float) -> None:
        """Send for some seconds, then wait for the acks."""
        began = time.monotonic()
        for number, host in enumerate(self._hosts):  # they began evenly in the second before
            host.began = began - (number * 0.618034) % 1.0
            self._due(number, host.next_due(began))
        while (now := time.monotonic()) < began + seconds:
            self._send_due(now)
            for number in self._taken(TICK_SECONDS if self._queue[0][0] > now else 0.0):
                usual = self._hosts[number].next_due(now)
                if self._hosts[number].due_at > usual:  # it waited for the ack
                    self._due(number, usual)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(host.sent_at for host in self._hosts):
            if time.monotonic() > deadline:
                raise SystemExit("not all blocks were acknowledged")
            self._taken(0.1)

    def _due(self, number: int, at: float) -> None:
        self._hosts[number].due_at = at
        heapq.heappush(self._queue, (at, number))

    def _send_due(self, now: float) -> None:
        out: dict[socket.socket, list[bytes]] = {}
        while self._queue[0][0] <= now:
            due, number = heapq.heappop(self._queue)
            host = self._hosts[number]
            if host.due_at != due:
                continue  # it was sent when the ack came
            if host.sent_at and due < (at_most := host.sent_at[0] + MAX_DELAY_SECONDS):
                self._due(number, at_most)
            else:
                self._put(out, number, now, due)
        for one, messages in out.items():
            one.sendall(b"".join(messages))

    def _put(self, out: dict[socket.socket, list[bytes]], number: int, now: float, due: float) -> None:
        host, at = self._hosts[number], number % len(self._sockets)
        out.setdefault(self._sockets[at], []).append(block(host, now, f"drive.{at}.{number}"))
        host.sent_at.append(now)
        self._due(number, host.next_due(now))
        self.blocks += 1
        self.late.append(now - due)

    def _taken(self, within: float) -> list[int]:
        """The hosts of the acks that came."""
        found = []
        for key, _ in self._selector.select(within):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            more = one.recv(1 << 18)
            if not more:
                raise SystemExit("the server closed a connection of the driver")
            content, now, end = self._received[one] + more, time.monotonic(), 0
            if b"PING\r\n" in content:
                one.sendall(b"PONG\r\n")
                content = content.replace(b"PING\r\n", b"")
            for ack in ACK.finditer(content):
                if b'"error"' in ack[2]:
                    raise SystemExit(f"the server refused a block: {ack[2]!r}")
                host, end = self._hosts[int(ack[1])], ack.end()
                self.acks.append(now - host.sent_at.popleft())
                found.append(int(ack[1]))
            self._received[one] = content[end:]
        return found


def main() -> None:
    urls, connections, partitions, rates, seconds, timed, report = sys.argv[1:]
    drawn = json.loads(Path(rates).read_text())
    every = max(1, len(drawn) // int(timed))
    hosts = []
    for number, rate in enumerate(drawn):
        name = f"h{number:05d}.example.net"
        subject = f"logs.p{partition_for(name, int(partitions))}.{name}"
        hosts.append(Host(subject, f"{number:016x}", rate, number % every == 0))
    driver = Driver(urls.split(","), int(connections), hosts)
    began = time.monotonic()
    driver.run(float(seconds))
    facts = {
        "blocks": driver.blocks, "seconds": time.monotonic() - began, "octets": sum(host.offset for host in hosts),
        "late_p99": percentile(driver.late, 99), "late_max": max(driver.late),
        "ack_p50": percentile(driver.acks, 50), "ack_p99": percentile(driver.acks, 99),
        "cpu": time.process_time() / (time.monotonic() - began),
    }  # fmt: skip
    Path(report).write_text(json.dumps({host.subject: [host.offset, host.crc] for host in hosts}))
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
