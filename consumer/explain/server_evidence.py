"""What the server and the producer of a host report of a file."""

import asyncio
import contextlib
import time
from dataclasses import replace

from consumer.explain.ladder import Evidence, InStream
from consumer.fleet.host_files import HostAnswer, ask_hosts
from consumer.fleet.poller import FleetPoller
from shipper import codec
from shipper.compression import Decompressor
from shipper.control import FilesRequest
from shipper.errors import Poison, ShipperError
from shipper.jetstream.connection import Connection
from shipper.jetstream.direct_get import direct_batch
from shipper.model import Stored
from shipper.settings import Settings
from shipper.subjects import log_subject, stream_name

SERVER_SECONDS = 20.0
"""Maximum time for everything that is requested of the server and of the producer."""
FRESH_SECONDS = 2.0
"""Maximum wait for a scan of the producer after the request."""
AGAIN_SECONDS = 0.15
STREAM_BYTES = 64 * 1024 * 1024
"""Maximum bytes of the stream that are searched for a line."""
BATCH = {"batch": 256, "max_bytes": 2 * 1024 * 1024}
BATCH_SECONDS = 5.0


async def from_server(settings: Settings, known: Evidence, line: bytes) -> Evidence:
    """What the producer, the state of the fleet and the stream have."""
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
    return replace(known, status=status, partition=partition, other_hosts=tuple(each.name for each in fleet.hosts))


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
        return replace(known, reply=answer.reply, is_live=True, clock_error=answer.clock_error)
    if answer.is_too_old:
        return replace(known, no_reply="its producer is too old to report it")
    if known.status is None:
        return replace(known, no_reply="no producer answers, and the server knows no such host")
    why = f": {known.status.why_silent}" if known.status.why_silent else ""
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
