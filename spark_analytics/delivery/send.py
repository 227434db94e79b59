"""Sends the reports of some days to the targets that are due, and notes it in the ledger, so that none is sent twice.

A record `started` is durable before the first byte of a message leaves; `sent` or `failed` follows. A `started` without
either is the trace of a kill, or of a server that did not answer: the message may have arrived. Such a message is *in
doubt*. It is not sent again, because most receivers would show it twice, and `fshipper report send` names it once.
"""

import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from shipper.errors import ShipperError, Unavailable
from spark_analytics.delivery import message, transport
from spark_analytics.delivery.message import Message
from spark_analytics.delivery.targets import Delivery, Target, WebhookTarget, When
from spark_analytics.report import json_export

# -- the ledger --------------------------------------------------------------------------------------------------------

LEDGER = ".sent.jsonl"
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
    """The records of one report directory, whose file is locked while this exists."""

    descriptor: int
    states: dict[Delivered, Event] = field(default_factory=dict)  #: the last event of each
    verdicts: dict[str, str] = field(default_factory=dict)  #: digest of the last verdict that a target was sent

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
        content = os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)
        if content and not content.endswith(b"\n"):
            os.write(self.descriptor, b"\n")
        for line in content.splitlines():
            try:
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue


@contextlib.contextmanager
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


# -- sending -----------------------------------------------------------------------------------------------------------


class Outcome(StrEnum):
    """What became of one report for one target."""

    SENT = "sent"
    ALREADY = "sent before"
    NOT_DUE = "not due"
    FAILED = "failed"
    DOUBT = "in doubt"


TROUBLE = {Outcome.FAILED, Outcome.DOUBT}


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome, and its reason if there is one."""

    date: str
    target: str
    outcome: Outcome
    why: str = ""


def send(
    reports: Sequence[Path], delivery: Delivery, records: Path, *, when: When | None, resend: bool
) -> Iterator[Sent]:
    """Sends each of `reports`, oldest first, to each target. `when` replaces that of the targets.

    Raises:
        ShipperError: a report cannot be read, or another process sends.
    """
    with opened(records) as book:
        for path in reports:
            facts = json_export.from_text(path.read_bytes(), str(path))
            for target in delivery.target:
                page = path.with_name("report.html").read_bytes() if target.lines else None
                made = message.made(facts, base=delivery.page, page=page)
                one = Delivered(facts.date, facts.run.input_fingerprint, target.name)
                outcome, why = _one(book, one, target, made, when=when or target.when, resend=resend)
                yield Sent(one.date, one.target, outcome, why)


def _one(
    book: Ledger, one: Delivered, target: Target, made: Message, *, when: When, resend: bool
) -> tuple[Outcome, str]:
    """Sends one report to one target if it is due. Returns the outcome, and its reason if there is one."""
    state = book.states.get(one)
    may_repeat = resend or (isinstance(target, WebhookTarget) and target.idempotent)
    is_new = made.verdict != book.verdicts.get(target.name, "")
    is_due = {"always": True, "attention": made.needs_attention, "changed": is_new}
    if state is Event.STARTED and not may_repeat:
        book.note(one, Event.DOUBT, made.verdict)
        why = "it was interrupted while it sent this; --resend sends it again, with the same identifier"
        return Outcome.DOUBT, why
    if state is Event.SENT or (state is Event.DOUBT and not resend):
        return Outcome.ALREADY, ""
    if state is None and not is_due[when]:
        return Outcome.NOT_DUE, ""
    try:
        transport.send(target, made, one.id, lambda: book.note(one, Event.STARTED, made.verdict))
    except transport.InDoubt as error:
        book.note(one, Event.DOUBT, made.verdict, why=str(error))
        return Outcome.DOUBT, str(error)
    except ShipperError as error:
        book.note(one, Event.FAILED, made.verdict, why=str(error))
        return Outcome.FAILED, f"{error}{f' ({error.hint})' if error.hint else ''}"
    book.note(one, Event.SENT, made.verdict)
    return Outcome.SENT, ""
