"""Many hosts in one process: each publishes blocks as a producer does, encoded ahead as far as possible.

python feed.py URL HOSTS PARTITIONS RATE SECONDS REPORT     blocks a second of all hosts together; 0: as fast as it goes

Writes to REPORT, as JSON, what each file must hold in the end: its length and CRC. Prints how many blocks were offered,
and in how many seconds.
"""

import itertools
import json
import re
import socket
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import zstandard

from shipper.partition_map import partition_for

FILE = "/var/log/app.log"
VARIANTS = 512
TICK_SECONDS = 0.02
AT_ONCE = 500
MARK_EVERY = 1000  # blocks of a partition: the server's ack of one goes ahead of the next, so nothing piles up in it
WORDS = b"accepted closed request served in from upstream user session timed out retry cache miss hit".split()


@dataclass(slots=True)
class Host:
    """A host with one growing file."""

    subject: str
    partition: int
    id: str
    turn: int
    offset: int = 0
    crc: int = 0


class Texts:
    """The blocks' texts, 200 to 4,000 bytes of lines, and their payloads; made once."""

    def __init__(self) -> None:
        compressor = zstandard.ZstdCompressor(level=1)
        self.texts = [_text(number) for number in range(VARIANTS)]
        self.payloads = [compressor.compress(text) for text in self.texts]
        self.facts = [(text.count(b"\n"), zlib.crc32(text)) for text in self.texts]

    def message(self, host: Host, reply: str) -> bytes:
        """The next block of `host`, as it goes over the socket."""
        number = host.turn % VARIANTS
        text, payload, (lines, crc) = self.texts[number], self.payloads[number], self.facts[number]
        start, host.turn, host.offset = host.offset, host.turn + 1, host.offset + len(text)
        host.crc = zlib.crc32(text, host.crc)
        headers = (
            f"NATS/1.0\r\nLog-Id: {host.id}\r\nLog-File: {FILE}\r\nLog-Span: {start}-{host.offset}\r\nLog-Origin: 0\r\n"
            f"Log-Lines: {lines}\r\nLog-Crc: {crc:08x}-{host.crc:08x}\r\nLog-Time: 2026-11-20T10:00:00Z\r\n"
            "Log-Map: 0\r\nLog-Encoding: zstd\r\n\r\n"
        )
        size = len(headers) + len(payload)
        return f"HPUB {host.subject} {reply}{len(headers)} {size}\r\n{headers}".encode() + payload + b"\r\n"


def _text(number: int) -> bytes:
    size = 200 + number % 600 + (number * number * 7919 % 3800 if number % 7 == 0 else 0)
    lines: list[bytes] = []
    have = 0
    while have < size:
        n = number * 31 + len(lines)
        lines.append(
            b"2026-11-20T10:%02d:%02d.%03dZ app[%d]: %s %s 10.0.%d.%d id=%08x %d ms\n"
            % (n % 60, n // 60 % 60, n % 1000, n % 97, WORDS[n % 14], WORDS[n * 5 % 14], n % 13, n % 251,
               n * 2654435761 % 2**32, n % 1500)
        )  # fmt: skip
        have += len(lines[-1])
    return b"".join(lines)


class Wire:
    """A bare connection that publishes; the server's acks of marks bound what is on its way."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._socket = socket.create_connection((where.hostname, where.port))
        self._socket.sendall(
            b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB feed.acks.* 1\r\nPING\r\n'
        )
        self._received = b""
        self._marked: set[int] = set()
        self._read_until(lambda: b"PONG\r\n" in self._received)

    def send(self, octets: bytes) -> None:
        self._socket.sendall(octets)

    def mark(self, partition: int) -> str:
        """The reply subject of a mark, once the mark before it is acknowledged."""
        self._read_until(lambda: partition not in self._marked)
        self._marked.add(partition)
        return f"feed.acks.{partition} "

    def finish(self) -> None:
        self._socket.sendall(b"PING\r\n")
        self._read_until(lambda: not self._marked)

    def _read_until(self, true: Callable[[], bool]) -> None:
        while not true():
            more = self._socket.recv(65536)
            if not more:
                raise SystemExit("the server closed the feeder's connection")
            self._received += more
            if b"PING\r\n" in self._received:
                self._socket.sendall(b"PONG\r\n")
                self._received = self._received.replace(b"PING\r\n", b"")
            for found in re.finditer(rb"MSG feed\.acks\.(\d+) [^\r]*\r\n([^\r]*)\r\n", self._received):
                if b'"error"' in found[2]:
                    raise SystemExit(f"the server refused a block: {found[2]!r}")
                self._marked.discard(int(found[1]))
                self._received = self._received.replace(found[0], b"", 1)


def hosts_of(count: int, partitions: int) -> list[Host]:
    found = []
    for number in range(count):
        name = f"h{number:05d}.example.net"
        partition = partition_for(name, partitions)
        found.append(Host(f"logs.p{partition}.{name}", partition, f"{number:016x}", number))
    return found


def feed(url: str, hosts: list[Host], rate: float, blocks: int) -> int:
    """Publish `blocks` in turn, at `rate` a second; 0: as fast as the server takes them. Returns how many it were."""
    wire, texts, turn = Wire(url), Texts(), itertools.cycle(hosts)
    began, sent = time.monotonic(), 0
    counts = dict.fromkeys((host.partition for host in hosts), 0)
    while sent < blocks:
        due = blocks if not rate else min(blocks, int((time.monotonic() - began + TICK_SECONDS) * rate))
        out = []
        for host in itertools.islice(turn, min(due - sent, AT_ONCE)):
            counts[host.partition] += 1
            is_mark = counts[host.partition] % MARK_EVERY == 1
            out.append(texts.message(host, wire.mark(host.partition) if is_mark else ""))
        wire.send(b"".join(out))
        sent += len(out)
        if not out:
            time.sleep(TICK_SECONDS)
    for partition in counts:  # the ack of the last one is the ack of all
        last = next(host for host in hosts if host.partition == partition)
        wire.send(texts.message(last, wire.mark(partition)))
    wire.finish()
    return sent + len(counts)


def main() -> None:
    url, count, partitions, rate, seconds, report = sys.argv[1:]
    hosts = hosts_of(int(count), int(partitions))
    began = time.monotonic()
    sent = feed(url, hosts, float(rate), int(float(seconds) * (float(rate) or int(count))))
    print(json.dumps({"blocks": sent, "seconds": time.monotonic() - began}))
    Path(report).write_text(json.dumps({host.subject: [host.offset, host.crc] for host in hosts}))


if __name__ == "__main__":
    main()
