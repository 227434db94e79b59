"""Judges hostile messages with a real journal and a real archive, thousands a second: no server, no fsync.

applier = HostileApplier(tmp_path)
applier.judge([message, ...])        # what becomes of each; good lines between them are archived exactly
applier.close()                      # raises if a file is outside of the allowed places
"""

import base64
import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collecting import applier_of

from consumer.archive.journal import Journal
from consumer.commit.sink import Sink
from consumer.partition import dead_letters
from shipper.model import Delivery

CORPUS = Path(__file__).parent / "hostile_messages" / "corpus.json"
GOOD_HOST = "good.example.net"
BEGIN_NS = 1_795_000_000_000_000_000
_PLACES = re.compile(
    r"date=\d{4}-\d\d-\d\d(/partition=0(/host=[^/]+(/_open-[^/]+)?)?)?"
    r"|live(/[^/]+)*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What any client published."""

    subject: str
    headers: Mapping[str, str] = field(default_factory=dict)
    payload: bytes = b""
    name: str = ""
    becomes: str = ""


class HostileApplier:
    """One partition whose host `good.example.net` ships a line between any two of the others' messages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.archive = directory / "archive"
        self.archive.mkdir()
        self.journal = Journal(directory / "journal.sqlite")
        self.journal._database.execute("PRAGMA synchronous = OFF")
        self.sink = Sink(self.archive, open_files=64, links=True)
        self.applier = applier_of(self.journal, self.sink)
        self.holes: dict = {}
        self.good = b""
        self._sequence = 0

    def judge(self, messages: list[Message]) -> list[str]:
        """What became of each message, each judged in a batch with the good line before it."""
        outcomes = []
        for message in messages:
            batch = [self._good(), self._delivery(message.subject, dict(message.headers), message.payload)]
            staged = self.applier.stage(self.applier.begin(batch, self.holes, {}))
            staged.outcomes["written"] -= 1
            (outcome,) = [name for name, count in (+staged.outcomes).items()]
            for dead in staged.dead_letters:
                _keep(dead)
            self.journal.commit(staged)
            self.holes = staged.holes
            outcomes.append(outcome)
        return outcomes

    def check(self) -> None:
        """The good lines are there, exactly, and no file is in a forbidden place."""
        (good,) = self.archive.glob(f"date=*/partition=0/host={GOOD_HOST}/_open-var~log~good.log")
        assert good.read_bytes() == self.good
        assert {path.name for path in self.directory.iterdir()} - {"journal.sqlite-wal", "journal.sqlite-shm"} == {
            "archive", "journal.sqlite",
        }  # fmt: skip
        root = self.archive.resolve()
        for parent, directories, files in os.walk(self.archive):
            for name in (*directories, *files):
                path = Path(parent, name)
                place = path.relative_to(self.archive).as_posix()
                assert _PLACES.fullmatch(place), place
                assert path.resolve().is_relative_to(root), place
                assert not path.is_symlink() or place.startswith("live/"), place
                assert path.is_symlink() or not place.startswith("live/") or path.is_dir(), place

    def close(self) -> None:
        self.check()
        self.sink.close()
        self.journal.close()

    def _good(self) -> Delivery:
        line = b"line %d\n" % self._sequence
        start, self.good = len(self.good), self.good + line
        headers = {
            "Log-Id": "00c0ffee00c0ffee", "Log-File": "/var/log/good.log",
            "Log-Span": f"{start}-{len(self.good)}", "Log-Origin": "0", "Log-Lines": "1",
            "Log-Crc": f"{zlib.crc32(line):08x}-{zlib.crc32(self.good):08x}",
        }  # fmt: skip
        return self._delivery(f"logs.p0.{GOOD_HOST}", headers, line)

    def _delivery(self, subject: str, headers: dict[str, str], payload: bytes) -> Delivery:
        self._sequence += 1
        return Delivery(self._sequence, BEGIN_NS + self._sequence, 0, subject, headers, payload, "")


class DeadLetterLimits:
    """Where dead letters go: it checks them as a server does."""

    def __init__(self) -> None:
        self.subject, self.size = "", 0

    async def dead_letter(self, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Refuse what a server would refuse for ever."""
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("utf-8", "strict")
        assert len(head) + 12 <= 64 * 1024
        assert len(head) + 12 + len(payload) <= 1024 * 1024
        assert re.fullmatch(r"dlq\.[A-Z0-9_]+(\.[^\s.*>]+)+", subject), subject
        assert all(name.isprintable() and name.isascii() and ":" not in name for name in headers)
        assert not any(set(value) & set("\r\n\0") for value in headers.values())


def _keep(dead: object) -> None:
    """Run `deadletter.keep`, which waits for nothing but the grave."""
    keeping = dead_letters.keep(DeadLetterLimits(), dead, stream="LOGS_0")
    try:
        keeping.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


def corpus() -> list[Message]:
    """The messages that are kept, and what becomes of each."""
    return [
        Message(
            name=each["name"],
            subject=each["subject"],
            headers=each["headers"],
            payload=base64.b64decode(each["payload"]),
            becomes=each["becomes"],
        )
        for each in json.loads(CORPUS.read_text())
    ]
