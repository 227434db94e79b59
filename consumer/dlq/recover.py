"""A dead letter as blocks that a collector can apply: its bytes go to a `.recovered` file beside the original. Pure.

The blocks belong to a source of their own whose id follows from the letter, so that a second try, behind a kill at
any line, sends the same source again and the collector drops what it has.
"""

import hashlib
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import zstandard

from consumer.dlq.letter import Letter
from shipper import codec
from shipper.checksum import crc32
from shipper.errors import Poison, UsageError
from shipper.model import MAX_BLOCK_BYTES, Block, Encoding, End, Span
from shipper.subjects import log_subject, parse_log_subject, partition_of_stream

SUFFIX = ".recovered"
NOBODY = "unknown"
MAX_TEXT_BYTES = 16 * 1024 * 1024
"""What a payload may decode to; one that claims more is kept as it is."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_EDITS = re.compile(r"(\d{1,7})-\d{1,7}")


class Message(NamedTuple):
    """What is published for a letter."""

    subject: str
    headers: dict[str, str]
    payload: bytes


def messages(
    letter: Letter, payload: bytes, *, created: str, prefix: str, output: str, read_at: str
) -> Iterator[Message]:
    """The blocks of a letter in their order; none where it holds no bytes.

    `created`: when its stream was, which tells two streams of dead letters apart; `output`: the file of plain messages.

    Raises:
        UsageError: it came from no stream of `prefix`.
    """
    subject, text = address(letter, prefix), text_of(letter, payload)
    source, file = source_id(created, letter.sequence), file_of(letter, output)
    total = 0
    for start in range(0, len(text), MAX_BLOCK_BYTES):
        data = text[start : start + MAX_BLOCK_BYTES]
        end, total = start + len(data), crc32(data, total)
        block = Block(
            source=source,
            file=file,
            span=Span(start, end),
            origin=0,
            lines=data.count(b"\n"),
            block_crc=crc32(data),
            source_crc=total,
            encoding=Encoding.IDENTITY,
            read_at=read_at,
            end=End.ROTATED if end == len(text) else None,
        )
        yield Message(subject, codec.to_headers(block), data)


def address(letter: Letter, prefix: str) -> str:
    """Where the host of a letter publishes; `unknown` where its name is what nobody can apply."""
    partition = partition_of_stream(prefix, letter.stream)
    if partition is None:
        raise UsageError(
            f"dead letter {letter.sequence} came from {letter.stream or 'no stream'!r}, which is none of {prefix!r}",
            hint="--subject PREFIX says whose streams are meant",
        )
    subject = log_subject(prefix, partition, letter.host)
    try:
        parse_log_subject(subject)
    except Poison:
        return log_subject(prefix, partition, NOBODY)
    return subject


def source_id(created: str, sequence: int) -> str:
    """The id of the source that a letter becomes."""
    return hashlib.sha256(f"{created}:{sequence}".encode()).hexdigest()[:16]


def file_of(letter: Letter, output: str) -> str:
    """The file beside the one that the message was meant for."""
    path = codec.decode_path(letter.headers.get("Log-File", ""))
    if not path.startswith("/") or "\0" in path:
        path = f"/{output}"
    return path + SUFFIX


def text_of(letter: Letter, payload: bytes) -> bytes:
    """The text that a payload carries, as far as anybody can tell, else the payload; it ends with a newline."""
    text = _decoded(letter.headers.get("Log-Encoding", ""), payload)
    edits = _EDITS.fullmatch(letter.headers.get("Log-Edits", ""))
    if edits and len(text) >= int(edits[1]):
        text = text[: int(edits[1])]  # behind it lies the map, which is no text
    return text if text.endswith(b"\n") or not text else text + b"\n"


def _decoded(encoding: str, payload: bytes) -> bytes:
    try:
        match encoding:
            case Encoding.ZSTD.value:
                return _from_zstd(payload)
            case Encoding.GZIP.value:
                return _from_gzip(payload)
    except (zstandard.ZstdError, zlib.error):
        pass  # the reason why it is a dead letter, most likely
    return payload


def _from_zstd(payload: bytes) -> bytes:
    if zstandard.frame_content_size(payload) > MAX_TEXT_BYTES:
        return payload
    return zstandard.ZstdDecompressor().decompress(payload, max_output_size=MAX_TEXT_BYTES)


def _from_gzip(payload: bytes) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    text = unpacker.decompress(payload, MAX_TEXT_BYTES)
    return text if unpacker.eof and not unpacker.unused_data else payload
