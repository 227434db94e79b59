"""Hosts that change their partition: who writes, who is killed, and what of a host is in which partition."""

import json
import random
import threading
from pathlib import Path

from harness.fleet import Fleet, unpack
from shipper import manifest


class Writer(threading.Thread):
    """A program that logs numbered lines, and renames its file now and then."""

    def __init__(self, path: Path, *, lines_a_second: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._pause = 1 / lines_a_second
        self._random = random.Random(seed)
        self._over = threading.Event()
        self.written = bytearray()

    def run(self) -> None:
        number, stream, rotated = 0, self.path.open("ab"), 0
        while not self._over.wait(self._random.uniform(0, 40 * self._pause)):
            lines = bytearray()
            for _ in range(self._random.choice((1, 10, 50))):
                number += 1
                lines += b"%08d %s\n" % (number, self._random.randbytes(self._random.randrange(100)).hex().encode())
            stream.write(lines)
            stream.flush()
            self.written += lines
            if self._random.random() < 0.01:
                stream.close()
                rotated += 1
                self.path.rename(self.path.with_name(f"{self.path.name}.{rotated}"))
                stream = self.path.open("ab")
        stream.close()

    def end(self) -> bytes:
        """Stop logging; all that was written."""
        self._over.set()
        self.join()
        return bytes(self.written)


def segments_of(fleet: Fleet, host: str) -> list[manifest.Segment]:
    """A host's segments over all partitions, in the order of their times."""
    found = [segment for segment in fleet.segments() if segment.host == host]
    return sorted(found, key=lambda segment: (_moment(segment.first_time), segment.first_seq))


def text_of(fleet: Fleet, host: str) -> bytes:
    """All that is sealed of a host, in the order of its segments' times."""
    return b"".join(unpack(fleet.archive / segment.path) for segment in segments_of(fleet, host))


def _moment(rfc3339: str) -> tuple[str, str]:
    seconds, _, fraction = rfc3339.rstrip("Z").partition(".")
    return seconds, fraction.ljust(9, "0")


def streams_of(fleet: Fleet) -> list[int]:
    return [row["partition"] for row in json.loads(fleet.must("partition", "status", "--json"))]
