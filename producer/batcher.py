"""Batches: what is read from the files and encoded into messages, in order, while earlier batches are sent."""

import asyncio
import datetime as dt
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from producer.model import Destination, Entry, Piece
from producer.parallel_compression import SpareCores, in_order
from producer.rate_limit import RateLimit
from producer.transform.edits import MOST_NAMES, NO_EDITS, Edits, Text
from shipper import codec, events
from shipper.bytes_ops import count_lines, crc32
from shipper.compression import Compressor, to_lines
from shipper.edit_map import Edit, filtered_bytes, to_map
from shipper.model import MAX_BLOCK_BYTES, Block, Edited, Encoding, Span

BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of files in one batch: each batch wakes two threads, which costs as much as encoding some hundred KiB."""
BATCHES_AHEAD = 2
"""Batches that are read ahead: one is being read, one is ready or next."""

Batch = list[Entry]


class Batcher:
    """The batches that are being read or ready, oldest first. Owned by the pipeline.

    A thread of its own reads and encodes one batch at a time, within the rate limit. A second thread helps while there
    is much to compress and a core is free.
    """

    def __init__(self, pieces: Callable[[int], Iterable[Piece]], encoder: "Encoder", limit: RateLimit) -> None:
        self._pieces = pieces
        self._encoder = encoder
        self.limit = limit
        self._spare = SpareCores()
        self._begun: deque[asyncio.Future[Batch]] = deque()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._second = ThreadPoolExecutor(1, thread_name_prefix="packer")

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, *, is_busy: bool = False) -> None:
        """Read one more batch after those that are begun. `is_busy`: the last one was full."""
        second = self._second if is_busy and self._spare.is_there() else None
        self._begun.append(asyncio.get_running_loop().run_in_executor(self._reader, self._read, second))

    def _read(self, second: Executor | None) -> Batch:
        batch = self._encoder.entries(self._pieces(self.limit.budget(BATCH_BYTES)), second)
        self.limit.spend(sum(entry.piece.span.length for entry in batch))
        return batch

    async def next(self) -> Batch:
        """The oldest batch, as soon as it is ready. There must be one. Raises what reading it raised."""
        batch = await self._begun[0]
        self._begun.popleft()
        return batch

    def close(self) -> None:
        """Wait for the threads to end."""
        self._reader.shutdown(wait=True)
        self._second.shutdown(wait=True)


def is_full(batch: Batch) -> bool:
    """Whether there was so much to read that there may be as much again."""
    return sum(entry.piece.span.length for entry in batch) >= BATCH_BYTES // 2


class _EditedPiece(NamedTuple):
    """A piece, and its text if edits changed it."""

    piece: Piece
    text: Text | None


class Encoder:
    """Encodes pieces as messages. One caller at a time. Two threads may compress, each with its own compressor.

    `destination`: its version of the partition map is in each block. `labels`: are in each block.
    """

    def __init__(
        self,
        compressor: Compressor,
        edits: Edits = NO_EDITS,
        labels: tuple[tuple[str, str], ...] = (),
        destination: Destination | None = None,
    ) -> None:
        self._compressor = compressor
        self._second_compressor = Compressor(compressor.encoding)
        self._edits = edits
        self._labels = labels
        self._destination = destination
        self._reported: set[str] = set()  # names of files that were redacted

    def entries(self, pieces: Iterable[Piece], second: Executor | None = None) -> list[Entry]:
        """One entry per piece, in order. Each piece is encoded before the next is read, and its raw bytes are dropped.

        A piece of which edits leave nothing is joined to the next one of its source. `second`: a thread that may help,
        unless text is edited.
        """
        read_at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if not self._edits.change_text:
            mine = partial(self._entry, self._compressor, read_at)
            if second is None:
                return list(map(mine, pieces))
            return in_order(pieces, mine, partial(self._entry, self._second_compressor, read_at), second)
        loads = _together(self._edited(pieces))
        if edits := [edit for load in loads if load.text for edit in load.text.edits]:
            events.text_edited(filtered=filtered_bytes(edits), edits=sum(1 for edit in edits if edit.given))
            for load in loads:
                events.text_redacted(load.text.redacted if load.text else {})
        return [self._entry(self._compressor, read_at, load.piece, load.text) for load in loads]

    def _edited(self, pieces: Iterable[Piece]) -> Iterator[_EditedPiece]:
        for piece in pieces:
            yield _EditedPiece(piece, self._edits.of_piece(piece))

    def _name_of(self, piece: Piece) -> str:
        """The name of a piece's file in the archive. Reports one that is redacted, once."""
        name = self._edits.of_name(piece.file)
        if name != piece.file and name not in self._reported:
            if len(self._reported) >= MOST_NAMES:
                self._reported.clear()
            self._reported.add(name)
            events.file_name_holds_secret(name=name, source=piece.source)
        return name

    def _entry(self, compressor: Compressor, read_at: str, piece: Piece, text: Text | None = None) -> Entry:
        content = piece.data if text is None else text.content
        lines = count_lines(content)
        block = Block(
            source=piece.source,
            file=self._name_of(piece),
            span=piece.span,
            origin=piece.origin,
            lines=lines,
            block_crc=piece.crc if text is None and piece.crc is not None else crc32(content),
            source_crc=piece.source_crc,
            encoding=compressor.encoding,
            read_at=read_at,
            end=piece.end,
            gap=piece.gap,
            edited=None if text is None else Edited(len(content), filtered_bytes(text.edits)),
            labels=self._labels,
            zone=self._edits.zones.of_file(piece.file),
            redacted=tuple(text.redacted.items()) if text else (),
            map_version=self._destination.place.version if self._destination else 0,
            handoff=piece.handoff,
        )
        if compressor.encoding is Encoding.PLAIN and lines > 1 and text is None:
            by_line = to_lines(block, content, piece.crc_before)
            return Entry(_bare(piece), {}, b"", lines, by_line=by_line)
        payload = compressor.encode(content if text is None else content + self._map(text))
        return Entry(_bare(piece), codec.to_headers(block), payload, lines, text.redacted if text else {})

    def _map(self, text: Text) -> bytes:
        """The map that follows the text. Empty for plain lines, and if it would be too long."""
        octets = b"" if self._compressor.encoding is Encoding.PLAIN else to_map(text.edits)
        return octets if len(octets) <= self._edits.map_bytes else b""


def _bare(piece: Piece) -> Piece:
    """`piece` without its bytes."""
    return piece._replace(data=b"", lead=b"", context=b"")


def _together(loads: Iterable[_EditedPiece]) -> list[_EditedPiece]:
    """Joins each piece of which edits left nothing to the next piece of its source, up to the size of a block."""
    joined: list[_EditedPiece] = []
    for load in loads:
        if joined and _can_follow(joined[-1], load):
            load = _after(joined.pop(), load)  # noqa: PLW2901 - it is the same bytes and more
        joined.append(load)
    return joined


def _can_follow(before: _EditedPiece, load: _EditedPiece) -> bool:
    empty = before.text is not None and not before.text.content
    follows = load.piece.source == before.piece.source and load.piece.span.start == before.piece.span.end
    length = load.piece.span.end - before.piece.span.start
    return empty and follows and load.piece.span.length > 0 and length <= MAX_BLOCK_BYTES


def _after(before: _EditedPiece, load: _EditedPiece) -> _EditedPiece:
    """`load` with the bytes before it that edits dropped."""
    span = Span(before.piece.span.start, load.piece.span.end)
    text = Text(load.piece.data, []) if load.text is None else load.text
    edits = [Edit(0, before.piece.span.length, 0), *text.edits] if text.content else [Edit(0, span.length, 0)]
    return _EditedPiece(load.piece._replace(span=span, data=b""), Text(text.content, edits, text.redacted))
