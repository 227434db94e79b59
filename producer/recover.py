"""A lost checkpoint: what the archive or the stream knows, proven by the CRC of the local bytes, is where to go on."""

import asyncio
import os
import zlib
from collections.abc import Iterable, Mapping

from producer.following.identity import Mark, read_ends
from producer.following.source import Point, Source
from producer.looking import discover
from producer.looking.discover import Seen
from producer.resume import Receipt, receipts
from shipper import codec, events
from shipper.errors import Poison
from shipper.model import Stored
from shipper.ports import Publisher

CHUNK_BYTES = 1024 * 1024
NO_SPOOLS: Mapping[str, str] = {}


async def recovered(
    publisher: Publisher, *, subject: str, host: str, partition: int, spools: Mapping[str, str] = NO_SPOOLS
) -> list[Source]:
    """The sources that a checkpoint held which does not exist any more; [] where it is simply new.

    `spools`: archive names of inputs without a file, by the path of their spool. The archive is asked also when the
    stream is empty: what is archived may be purged.
    """
    last = await publisher.last_stored(subject)
    newest = receipt_of(last) if last else None
    known = [*await receipts(publisher, host, partition), *([newest] if newest else [])]
    local = {name: path for path, name in spools.items()}
    known = [receipt._replace(file=local.get(receipt.file, receipt.file)) for receipt in known]
    return await asyncio.to_thread(prove, known, sequence=last.sequence if last else 0)


def receipt_of(last: Stored) -> Receipt | None:
    """The newest message of a host as a receipt for the one source that it belongs to."""
    if codec.is_plain(last.headers):
        return None
    try:
        block = codec.from_headers(last.headers)
    except Poison:
        return None
    return Receipt(block.source, block.file, block.origin, block.span.end, block.source_crc)


def prove(receipts: Iterable[Receipt], *, sequence: int) -> list[Source]:
    """The sources whose local file holds what a receipt says, ready to go on behind it, oldest file first.

    Blocks up to stream sequence `sequence` exist already; the longest proven prefix of a file wins.
    """
    proven: dict[tuple[int, int], Source] = {}
    for receipt in sorted(receipts, key=lambda receipt: -receipt.watermark):
        if any(source.id == receipt.source for source in proven.values()):
            continue
        for seen in _candidates(receipt.file):
            if seen.key in proven or seen.size < receipt.watermark:
                continue
            source = _proven(receipt, seen, sequence)
            if source is not None:
                proven[seen.key] = source
                events.source_recovered(file=source.file, source=source.id, offset=source.offset)
                break
    return sorted(proven.values(), key=lambda source: source.mtime_ns)


def _candidates(path: str) -> list[Seen]:
    """The file itself and what rotation made of it."""
    own = [seen for seen in discover.look(discover.Watched((path,))).files if seen.path == path]
    try:
        real = os.path.realpath(path)
        return own + discover.siblings(path) + (discover.siblings(real) if real != path else [])
    except OSError as error:
        events.file_unreadable(path=path, error=error.strerror or str(error))
        return own


def _proven(receipt: Receipt, seen: Seen, sequence: int) -> Source | None:
    try:
        descriptor = os.open(seen.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if crc_of(descriptor, receipt.origin, receipt.watermark) != receipt.crc:
            return None
        mark = Mark.of(receipt.watermark, *read_ends(descriptor, receipt.watermark))
    except OSError as error:
        events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        return None
    finally:
        os.close(descriptor)
    return Source(
        id=receipt.source,
        file=receipt.file,
        device=seen.device,
        inode=seen.inode,
        origin=receipt.origin,
        offset=receipt.watermark,
        crc=receipt.crc,
        mark=mark,
        size=seen.size,
        mtime_ns=seen.mtime_ns,
        ring=(Point(sequence, receipt.watermark, receipt.crc),) if sequence else (),
    )


def crc_of(descriptor: int, start: int, end: int) -> int | None:
    """CRC-32 of some bytes of an open file; None: it is shorter. Raises OSError."""
    crc, offset = 0, start
    while offset < end:
        data = os.pread(descriptor, min(CHUNK_BYTES, end - offset), offset)
        if not data:
            return None
        crc, offset = zlib.crc32(data, crc), offset + len(data)
    return crc
