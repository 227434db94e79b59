"""Sends the reports of some days to the targets that are due, each once, and notes it in the ledger."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from shipper.errors import ShipperError
from spark_analytics.delivery import ledger, message, transport
from spark_analytics.delivery.ledger import Delivered, Event, Ledger
from spark_analytics.delivery.message import Message
from spark_analytics.delivery.targets import Delivery, Target, WebhookTarget, When
from spark_analytics.report import json_export
from spark_analytics.report.model import Facts


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
    with ledger.opened(records) as book:
        for path in reports:
            facts = json_export.from_text(path.read_bytes(), str(path))
            for target in delivery.target:
                yield _one(book, facts, path, target, delivery.page, when=when or target.when, resend=resend)


def _one(book: Ledger, facts: Facts, path: Path, target: Target, base: str | None, *, when: When, resend: bool) -> Sent:
    page = path.with_name("report.html").read_bytes() if target.lines else None
    made = message.made(facts, base=base, page=page)
    one = Delivered(facts.date, facts.run.input_fingerprint, target.name)
    state = book.state(one)
    if state is Event.STARTED and not (isinstance(target, WebhookTarget) and target.idempotent) and not resend:
        book.note(one, Event.DOUBT, made.verdict)
        why = "it was interrupted while it sent this; --resend sends it again, with the same identifier"
        return Sent(one.date, one.target, Outcome.DOUBT, why)
    if state is Event.SENT or (state is Event.DOUBT and not resend):
        return Sent(one.date, one.target, Outcome.ALREADY)
    if state is None and not _is_due(book, made, target.name, when):
        return Sent(one.date, one.target, Outcome.NOT_DUE)
    return _sent(book, one, target, made)


def _is_due(book: Ledger, made: Message, target: str, when: When) -> bool:
    if when == "attention":
        return made.needs_attention
    return when == "always" or made.verdict != book.last_verdict(target)


def _sent(book: Ledger, one: Delivered, target: Target, made: Message) -> Sent:
    try:
        transport.send(target, made, one.id, lambda: book.note(one, Event.STARTED, made.verdict))
    except transport.InDoubt as error:
        book.note(one, Event.DOUBT, made.verdict, why=str(error))
        return Sent(one.date, one.target, Outcome.DOUBT, str(error))
    except ShipperError as error:
        book.note(one, Event.FAILED, made.verdict, why=str(error))
        return Sent(one.date, one.target, Outcome.FAILED, f"{error}{f' ({error.hint})' if error.hint else ''}")
    book.note(one, Event.SENT, made.verdict)
    return Sent(one.date, one.target, Outcome.SENT)
