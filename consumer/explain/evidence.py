"""Collects what is known of a file: from its producer, the streams, the archive, the reports, and this host itself."""

import asyncio
import contextlib
import glob
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from consumer.archive.parts import Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Globs, Wanted
from consumer.explain.ladder import Evidence, InArchive, InStream, LocalLine, Report, moment
from consumer.fleet.host_files import HostAnswer, ask_hosts
from consumer.fleet.poller import FleetPoller
from shipper import codec
from shipper.compression import Decompressor
from shipper.control import FilesReply, FilesRequest
from shipper.errors import ConfigError, Poison, ShipperError
from shipper.jetstream.connection import Connection
from shipper.jetstream.direct_get import direct_batch
from shipper.model import Stored
from shipper.settings import Settings
from shipper.subjects import log_subject, stream_name
from shipper.units import counted, format_bytes, format_duration

GROUP = "fshipper.explain"
"""Entry points of the checks that another program makes on this host."""
SERVER_SECONDS = 20.0
"""Maximum time for everything that is requested of the server and of the producer."""
FRESH_SECONDS = 2.0
"""Maximum wait for a scan of the producer after the request."""
AGAIN_SECONDS = 0.15
STREAM_BYTES = 64 * 1024 * 1024
"""Maximum bytes of the stream that are searched for a line."""
BATCH = {"batch": 256, "max_bytes": 2 * 1024 * 1024}
BATCH_SECONDS = 5.0
ARCHIVE_BYTES = 2 * 1024 * 1024 * 1024
"""Maximum bytes of text of the archive that are searched for a line, the newest first."""

Local = Callable[[Settings, str, str, bytes], tuple[FilesReply, tuple[int, int, str] | None] | None]


def collected(settings: Settings, host: str, file: str, line: str, reports: str) -> Evidence:
    """What is known. Nothing that cannot be reached is an error: the evidence has the reason."""
    known = Evidence(host=host, file=file, has_line=bool(line))
    known = asyncio.run(_from_server(settings, known, line.encode()))
    known = _from_archive(settings, known, line.encode())
    if known.archive is None or not line:
        known = _from_here(settings, known, line.encode())
    return replace(known, report=_report(known, reports)) if known.archive is not None else known


# -- the server and the producer -----------------------------------------------------------------------------------


async def _from_server(settings: Settings, known: Evidence, line: bytes) -> Evidence:
    poller = FleetPoller(settings.nats, settings.logs.subject, name="explain")
    try:
        async with asyncio.timeout(SERVER_SECONDS):
            known = await _status(poller, known)
            connection = await poller.connection()
            known = _answered(known, await _fresh_answer(connection, known.host, known.file))
            return await _from_stream(connection, settings.logs.subject, known, line)
    except TimeoutError:
        return replace(known, no_reply=known.no_reply or "the server did not answer in time")
    except ShipperError as error:
        return replace(known, no_reply=known.no_reply or str(error), no_stream=known.no_stream or str(error))
    finally:
        await poller.close()


async def _status(poller: FleetPoller, known: Evidence) -> Evidence:
    """The state of the host and of its partition. A second snapshot shows whether a collector reads."""
    fleet = await poller.poll()
    if any(each.status.lag and not each.status.waiting for each in fleet.partitions):
        await asyncio.sleep(1.0)
        fleet = await poller.poll()
    status = next((each for each in fleet.hosts if each.name == known.host), None)
    partition = next(
        (p for p in fleet.partitions if status is not None and p.status.partition == status.partition), None
    )
    return replace(known, status=status, partition=partition)


async def _fresh_answer(connection: Connection, host: str, file: str) -> HostAnswer:
    """The answer of the producer after a scan that the request has caused, or the last one."""
    began = time.monotonic()
    while True:
        answer = (await ask_hosts(connection, [host], FilesRequest(file)))[host]
        is_late = time.monotonic() - began >= FRESH_SECONDS
        if answer.reply is None or answer.scanned_at >= began or is_late:
            return answer
        await asyncio.sleep(AGAIN_SECONDS)


def _answered(known: Evidence, answer: HostAnswer) -> Evidence:
    if answer.reply is not None:
        return replace(known, reply=answer.reply, is_live=True)
    if answer.is_too_old:
        return replace(known, no_reply="its producer is too old to say")
    if known.status is None:
        return replace(known, no_reply="no producer answers, and the server knows no such host")
    why = f": {known.status.why}" if known.status.why else ""
    return replace(known, no_reply=f"no producer answers{why}")


async def _from_stream(connection: Connection, prefix: str, known: Evidence, line: bytes) -> Evidence:
    """Where the line is among what is not archived, or when the newest block of the file was stored."""
    partition = known.partition
    number = known.reply.partition if known.reply is not None else partition.status.partition if partition else None
    if number is None:
        return replace(known, no_stream="the partition of the host is not known")
    stream, subject = stream_name(prefix, number), log_subject(prefix, number, known.host)
    if line:
        after = partition.status.ack_floor if partition is not None and partition.status.partition == number else 0
        found = await _search_stream(connection, stream, subject, (after or 0) + 1, known.file, line)
        return replace(known, stream=found and InStream(number, found.sequence, found.time_ns))
    sequence = max((mark.sequence for mark in known.reply.marks if mark.unarchived), default=0) if known.reply else 0
    if not sequence:
        return known
    stored = await direct_batch(connection, stream, {"seq": sequence, "batch": 1}, within=BATCH_SECONDS)
    time_ns = next((each.time_ns for each in stored if each.sequence == sequence), 0)
    return replace(known, stream=InStream(number, sequence, time_ns))


async def _search_stream(
    connection: Connection, stream: str, subject: str, start: int, file: str, line: bytes
) -> Stored | None:
    """The newest message from `start` on that has the line."""
    found, read, decompressor = None, 0, Decompressor()
    while read < STREAM_BYTES:
        what = {"seq": start, "next_by_subj": subject, **BATCH}
        batch = await direct_batch(connection, stream, what, within=BATCH_SECONDS)
        if not batch:
            break
        for stored in batch:
            read += len(stored.payload)
            if line in _text(stored, file, decompressor):
                found = stored
        start = batch[-1].sequence + 1
    return found


def _text(stored: Stored, file: str, decompressor: Decompressor) -> bytes:
    """The text of a message, if it is of the file."""
    with contextlib.suppress(Poison):
        block = codec.from_headers(stored.headers)
        return decompressor.decode(block, stored.payload) if block.file == file else b""
    return b""


# -- the archive and the reports -----------------------------------------------------------------------------------


def _from_archive(settings: Settings, known: Evidence, line: bytes) -> Evidence:
    """The newest file of the archive that has the line, or that has text of the file."""
    directory = settings.collector.directory
    reader = ArchiveReader(directory, settings.collector.state)
    try:
        parts = reader.find(Wanted(hosts=Globs((known.host,)), files=Globs((glob.escape(known.file),))))
    except ConfigError as error:
        return replace(known, no_archive=str(error))
    if not parts:
        return replace(known, no_archive=f"the archive {directory} has nothing of this file")
    newest_first = sorted(parts, key=lambda part: (part.last_ns, part.last_seq), reverse=True)
    if not line:
        part = newest_first[0]
        return replace(known, archive=InArchive(part, -1, part.last_ns, part.last_ns))
    read = 0
    for part in newest_first:
        if read >= ARCHIVE_BYTES:
            return replace(known, no_archive=f"only the newest {format_bytes(read)} of the archive were searched")
        with contextlib.suppress(OSError):
            if (offset := _last_offset(reader, part, line)) >= 0:
                return replace(known, archive=InArchive(part, offset, *part.stored_times().bounds(offset)))
        read += part.raw
    return replace(known, no_archive=f"{counted(len(parts), 'file')} of the archive, none has the line")


def _last_offset(reader: ArchiveReader, part: Part, line: bytes) -> int:
    """Where the last line with the text is in a part; -1: nowhere."""
    at, found, rest = 0, -1, b""
    with reader.open_text(part, 0, part.raw) as chunks:
        for chunk in chunks:
            text = rest + chunk
            if (place := text.rfind(line)) >= 0:
                found = at - len(rest) + place
            at += len(chunk)
            rest = text[-(len(line) - 1) :] if len(line) > 1 else b""
    return found


def _report(known: Evidence, reports: str) -> Report | None:
    """The report of the day; None: reports are not known here."""
    directory = Path(reports)
    if known.archive is None or "://" in reports or not directory.is_dir():
        return None
    path = directory / known.archive.part.key.date / "report.json"
    try:
        return Report(str(path), path.stat().st_mtime)
    except FileNotFoundError:
        return Report(str(path), 0.0)
    except OSError:
        return None


# -- this host -----------------------------------------------------------------------------------------------------


def _from_here(settings: Settings, known: Evidence, line: bytes) -> Evidence:
    """What this machine has, if it is the host: its checkpoint, and where the line is in the file."""
    if known.reply is not None and not line:
        return known
    for entry in entry_points(group=GROUP):
        explain: Local = entry.load()
        try:
            found = explain(settings, known.host, known.file, line)
        except ShipperError as error:
            why = f"{known.no_reply}; here: {error}" if known.no_reply else str(error)
            return replace(known, no_reply=why)
        if found is None:
            continue
        reply, place = found
        if known.reply is None:
            known = replace(known, reply=reply, is_live=False)
        if line:
            known = replace(known, local_line=LocalLine(*place) if place is not None else None)
    return known


def as_json(known: Evidence) -> Iterator[tuple[str, object]]:
    """What was found, for scripts."""
    reply, archive, stream = known.reply, known.archive, known.stream
    yield (
        "producer",
        {
            "answers": known.is_live,
            "why": known.no_reply,
            "state": known.status.state.value if known.status else None,
            "verdict": reply.verdict.value if reply else None,
            "reason": reply.reason if reply else "",
            "files": [json.loads(json.dumps(mark._asdict())) for mark in reply.marks] if reply else [],
        },
    )
    yield (
        "stream",
        stream
        and {
            "partition": stream.partition,
            "sequence": stream.sequence,
            "stored": moment(stream.time_ns / 1e9) if stream.time_ns else None,
        },
    )
    yield (
        "archive",
        archive
        and {
            "path": archive.part.path,
            "date": archive.part.key.date,
            "partition": archive.part.partition,
            "offset": archive.offset if archive.offset >= 0 else None,
            "state": archive.part.state.value,
            "stored_since": moment(archive.since_ns / 1e9),
            "stored_until": moment(archive.until_ns / 1e9),
        },
    )
    yield (
        "report",
        known.report
        and {
            "path": known.report.path,
            "made": moment(known.report.made) if known.report.made else None,
        },
    )


def age_of(seconds: float) -> str:
    """How long ago a time is, for people."""
    return f"{moment(seconds)}, {format_duration(max(0.0, time.time() - seconds))} ago"
