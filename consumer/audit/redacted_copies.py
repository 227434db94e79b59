"""Copies of redacted text outside the archive: in streams, dead letters and reports. Finds them, and removes some.

A message is removed only if its stream's collector wrote it to this archive, and it is not the newest of its host: the
producer compares that one with its checkpoint, and would send its bytes again.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from consumer.archive.directory import existing_identity
from consumer.cluster.membership import to_claim
from consumer.dlq.store import read_letter, text_of
from shipper import codec
from shipper.errors import Poison, ShipperError, StreamMissing, Unavailable
from shipper.jetstream.admin import Admin
from shipper.jetstream.connection import MONITOR_INBOX, Connection, connect_as
from shipper.jetstream.kv_bucket import JetStreamBucket
from shipper.jetstream.message_browser import browser_of
from shipper.jetstream.stream_status import status
from shipper.layout import day_of
from shipper.model import Delivery
from shipper.settings import Settings
from shipper.subjects import COLLECTOR, DEAD_LETTERS, dead_letter_subject, lease_key, log_subject
from shipper.units import counted

CONNECT_SECONDS = 15.0
"""Time limit for the connection, in seconds: the redaction of the archive does not need it."""
SHOWN_NUMBERS = 8
NOT_CHECKED = (
    "the file on the host, backups of streams and of the archive, other archives, streams of edge sites,"
    " and what tail, replay or delivery sent elsewhere"
)

Finds = Callable[[str, str, int, int, bytes], bool]
"""Whether a text of a file (path), source and span has something to black out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCopies:
    """Messages of one stream that hold the text."""

    stream: str
    sequences: tuple[int, ...]
    kept: tuple[int, ...] = ()  #: of these: those that may not be removed
    why_kept: str = ""
    removed: tuple[int, ...] = ()

    @property
    def removable(self) -> tuple[int, ...]:
        """Those that may be removed."""
        return tuple(each for each in self.sequences if each not in self.kept)

    @property
    def left(self) -> tuple[int, ...]:
        """Those that hold the text still."""
        return tuple(each for each in self.sequences if each not in self.removed)

    def described(self) -> str:
        """One line."""
        is_letters = self.stream == DEAD_LETTERS
        noun = "dead letter" if is_letters else "message"
        where = "dead letters" if is_letters else f"stream {self.stream}"
        text = f"{where}: {counted(len(self.sequences), noun)} ({_numbers(self.sequences)})"
        if self.removed:
            text += f", {len(self.removed)} removed"
        if self.kept:
            text += f", {counted(len(self.kept), 'stays', 'stay')} ({_numbers(self.kept)}): {self.why_kept}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The copies that are known."""

    streams: tuple[StreamCopies, ...] = ()
    reports: tuple[str, ...] = ()  #: sentences about reports and what they sent
    unchecked: str = ""  #: why streams and dead letters were not checked; empty: they were
    failure: ShipperError | None = None  #: what ended the removal of messages


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyScope:
    """What to search for: the host, its file (empty: any) and the days (UTC, empty: any) of the redaction."""

    host: str
    file: str
    since: str
    until: str
    finds: Finds

    def takes_day(self, time_ns: int) -> bool:
        """Whether a message of this time is of the days."""
        day = day_of(time_ns)
        return self.since <= day and (not self.until or day <= self.until)


async def find_copies(settings: Settings, scope: CopyScope, days: Collection[str]) -> Copies:
    """The copies in streams, dead letters and the reports of `days`. Nothing is changed."""
    reports = tuple(await asyncio.to_thread(lambda: list(_reports(days))))
    try:
        async with _connected(settings) as connection:
            found = [each async for each in _in_streams(connection, settings, scope)]
            letters = await _in_dead_letters(connection, scope)
    except (ShipperError, TimeoutError) as error:
        return Copies(reports=reports, unchecked=str(error).partition("\n")[0] or "the server does not answer")
    return Copies(streams=(*found, *letters), reports=reports)


async def remove_copies(settings: Settings, copies: Copies) -> Copies:
    """Remove the messages that may be removed, and overwrite them on the server's disk. `failure`: what ended it."""
    removed: dict[str, list[int]] = {each.stream: [] for each in copies.streams}
    failure = None
    try:
        async with _connected(settings) as connection:
            for each in copies.streams:
                for sequence in each.removable:
                    await Admin(connection).delete_message(each.stream, sequence, erase=True)
                    removed[each.stream].append(sequence)
    except (ShipperError, TimeoutError) as error:
        failure = error if isinstance(error, ShipperError) else Unavailable("the server does not answer")
    done = (replace(each, removed=tuple(removed[each.stream])) for each in copies.streams)
    return replace(copies, streams=tuple(done), failure=failure)


@contextlib.asynccontextmanager
async def _connected(settings: Settings) -> AsyncIterator[Connection]:
    async with asyncio.timeout(CONNECT_SECONDS):
        connection = await connect_as(
            settings.nats, name="fshipper redact", inboxes=("_INBOX_partitioner", MONITOR_INBOX)
        )
    async with connection:
        yield connection


async def _in_streams(connection: Connection, settings: Settings, scope: CopyScope) -> AsyncIterator[StreamCopies]:
    prefix, admin = settings.logs.subject, Admin(connection)
    identity = existing_identity(settings.collector.directory, hint="")
    for partition in (await status(admin, subject=prefix)).partitions:
        browser = browser_of(connection, partition.stream)
        subject, newest, found = log_subject(prefix, partition.partition, scope.host), 0, list[int]()
        async with contextlib.aclosing(
            browser.read(partition.first_seq, partition.last_seq, pattern=subject)
        ) as messages:
            async for message in messages:
                newest = message.sequence
                if scope.takes_day(message.time_ns) and _has_text(message, scope):
                    found.append(message.sequence)
        if not found:
            continue
        archived = await _archived_below(connection, admin, prefix, partition.partition, partition.stream, identity)
        fresh = tuple(each for each in found if each >= archived)
        last = tuple(each for each in found if each == newest and each < archived)
        reasons = ["not in this archive yet"] if fresh else []
        reasons += ["the newest of the host, which its producer needs until it sends more"] if last else []
        yield StreamCopies(
            stream=partition.stream, sequences=tuple(found), kept=(*last, *fresh), why_kept="; ".join(reasons)
        )


async def _archived_below(
    connection: Connection, admin: Admin, prefix: str, partition: int, stream: str, identity: str
) -> int:
    """Messages with a lower sequence are in this archive. 0 means that none is known."""
    consumer = await admin.consumer(stream, COLLECTOR)
    key = lease_key(prefix, partition)
    try:
        entry = (await JetStreamBucket(connection).entries([key])).get(key)
    except StreamMissing:
        entry = None
    claim = to_claim(entry.value) if entry else None
    if consumer is None or claim is None or (identity and claim.archive != identity):
        return 0
    return min(int(consumer["ack_floor"]["stream_seq"]) + 1, max(claim.resume, 1))


async def _in_dead_letters(connection: Connection, scope: CopyScope) -> list[StreamCopies]:
    browser = browser_of(connection, DEAD_LETTERS)
    try:
        state = await browser.state()
    except StreamMissing:
        return []
    pattern = dead_letter_subject("*", scope.host)
    async with contextlib.aclosing(browser.read(state.first_sequence, state.last_sequence, pattern=pattern)) as letters:
        found = [each.sequence async for each in letters if scope.takes_day(each.time_ns) and _has_text(each, scope)]
    return [StreamCopies(stream=DEAD_LETTERS, sequences=tuple(found))] if found else []


def _has_text(message: Delivery, scope: CopyScope) -> bool:
    letter = read_letter(message)
    file = codec.decode_path(letter.headers.get("Log-File", ""))
    if scope.file and file and file != scope.file:
        return False
    source, start, end = "", 0, 0
    with contextlib.suppress(Poison):
        block = codec.from_headers(letter.headers)
        source, start, end = block.source, block.span.start, block.span.end
    return scope.finds(file, source, start, end, text_of(letter, message.payload))


def _reports(days: Collection[str]) -> Iterator[str]:
    """The reports of redacted days, below SHIPPER_REPORT, and the messages that were sent about them."""
    place = os.environ.get("SHIPPER_REPORT", "")
    directory = Path(place) if place and "://" not in place else None
    if directory is None or not directory.is_dir():
        if days:
            yield f"reports of {_days(days)}, if there are any: tables, patterns and examples; make them again"
        return
    made = sorted(day for day in days if any(directory.glob(f"*{day}*")) or any(directory.glob(f"**/date={day}")))
    if made:
        command = f"fshipper report --date {made[0]}"
        yield f"report {directory}: {_days(made)}: tables, patterns and examples; make them again: {command}"
    sent = sum(_sent(directory / ".sent.jsonl", days))
    if sent:
        yield f"messages: {counted(sent, 'report')} of these days sent by mail or chat; they cannot be recalled"


def _sent(ledger: Path, days: Collection[str]) -> Iterator[int]:
    try:
        lines = ledger.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            record = json.loads(line)
            if record["event"] == "sent" and record["date"] in days:
                yield 1


def _days(days: Collection[str]) -> str:
    named = sorted(days)
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more days" if len(named) > 3 else "")  # noqa: PLR2004


def _numbers(sequences: Collection[int]) -> str:
    shown = ", ".join(map(str, sorted(sequences)[:SHOWN_NUMBERS]))
    return f"{shown}, ..." if len(sequences) > SHOWN_NUMBERS else shown
