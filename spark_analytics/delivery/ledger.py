"""The ledger `.sent.jsonl`: which report was sent to which target, so that none is sent twice.

A record `started` is durable before the first byte of a message leaves; `sent` or `failed` follows. A `started` without
either is the trace of a kill, or of a server that did not answer: the message may have arrived. Such a message is *in
doubt*. It is not sent again, because most receivers would show it twice, and `fshipper report send` names it once.
"""

import datetime as dt
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from shipper.errors import Unavailable

NAME = ".sent.jsonl"
VERSION = 1


class Event(StrEnum):
    """What a record notes."""

    STARTED = "started"
    SENT = "sent"
    FAILED = "failed"  #: refused before it could arrive: it is sent again
    DOUBT = "doubt"  #: reported as in doubt


@dataclass(frozen=True, slots=True)
class Delivered:
    """One report for one target."""

    date: str
    fingerprint: str  #: of the input of the report
    target: str

    @property
    def id(self) -> str:
        """The same for each attempt: of `Message-ID` and `Idempotency-Key`."""
        return hashlib.sha256(json.dumps([self.date, self.fingerprint, self.target]).encode()).hexdigest()[:32]


@dataclass(slots=True)
class Ledger:
    """The records of one report directory; the file is locked while this exists."""

    descriptor: int
    states: dict[Delivered, Event] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)  #: digest of the last verdict that a target was sent

    def state(self, one: Delivered) -> Event | None:
        """The last event of `one`."""
        return self.states.get(one)

    def last_verdict(self, target: str) -> str:
        """The digest of the last verdict that `target` was sent; empty if there was none."""
        return self.verdicts.get(target, "")

    def note(self, one: Delivered, event: Event, verdict: str, **more: object) -> None:
        """Appends a record, durable when this returns."""
        record = {
            "v": VERSION,
            "time": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "date": one.date,
            "fingerprint": one.fingerprint,
            "target": one.target,
            "event": event.value,
            "id": one.id,
            "verdict": verdict,
            **more,
        }
        os.write(self.descriptor, json.dumps(record).encode() + b"\n")
        os.fsync(self.descriptor)
        self._apply(record)

    def _apply(self, record: dict[str, Any]) -> None:
        one, event = Delivered(record["date"], record["fingerprint"], record["target"]), Event(record["event"])
        self.states[one] = event
        if event in {Event.SENT, Event.DOUBT}:
            self.verdicts[one.target] = str(record["verdict"])

    def load(self) -> None:
        """Reads the records. A last line that a kill cut is ended, so that it damages no other."""
        with os.fdopen(os.dup(self.descriptor), "rb") as file:
            file.seek(0)
            content = file.read()
        if content and not content.endswith(b"\n"):
            os.write(self.descriptor, b"\n")
        for line in content.splitlines():
            try:
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue


@contextmanager
def opened(path: Path) -> Iterator[Ledger]:
    """The ledger in the file `path`, which is created.

    Raises:
        Unavailable: another process sends, or the file cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}", hint="run it as the user of the report") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable("another `fshipper report send` is running", hint="wait until it has ended") from None
        ledger = Ledger(descriptor)
        ledger.load()
        yield ledger
    finally:
        os.close(descriptor)
