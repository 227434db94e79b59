"""Loads: what is read from the files and encoded ahead of the sending, in order.

Pieces of files -> the messages that carry them.
"""

import asyncio
import datetime as dt
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from producer.batch.parallel import Spare, in_order
from producer.model import Piece
from producer.session.inflight import Entry
from producer.transform.edits import NO_EDITS, Edits, Text
from producer.transform.time_budget import OverBudget
from shipper import codec, events
from shipper.bytes_ops import count_lines, crc32
from shipper.compression import Compressor
from shipper.edit_map import Edit, filtered_bytes, to_map
from shipper.model import MAX_BLOCK_BYTES, Block, Edited, Encoding, Span

LOAD_BYTES = 4 * 1024 * 1024
"""Read and encoded in one go: each load wakes two threads, which costs as much as some hundred KiB of encoding."""
LOADS_AHEAD = 2
"""One is worked on, one is ready or next."""

Load = list[Entry]


class Loads:
    """The loads that are begun and not taken yet, oldest first. Owned by the pipeline.

    `fill` is called in a thread of its own, one call at a time; it is given a second thread while there is much to
    pack and a core to spare.
    """

    def __init__(self, fill: Callable[[Executor | None], Load], spare: Spare | None = None) -> None:
        self._fill = fill
        self._spare = spare or Spare()
        self._begun: deque[asyncio.Future[Load]] = deque()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._second = ThreadPoolExecutor(1, thread_name_prefix="packer")

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, *, is_busy: bool = False) -> None:
        """Fill one more load, behind those that are begun; `is_busy`: the last one was full."""
        second = self._second if is_busy and self._spare.is_there() else None
        self._begun.append(asyncio.get_running_loop().run_in_executor(self._reader, self._fill, second))

    async def next(self) -> Load:
        """The oldest load, as soon as it is full; there must be one. Raises what `fill` raised."""
        load = await self._begun[0]
        self._begun.popleft()
        return load

    def close(self) -> None:
        """Wait for the threads to end."""
        self._reader.shutdown(wait=True)
        self._second.shutdown(wait=True)


def is_full(load: Load) -> bool:
    """Whether there was so much to read that there may be as much again."""
    return sum(entry.piece.span.length for entry in load) >= LOAD_BYTES // 2


class _Load(NamedTuple):
    """A piece, and its text where that is another one."""

    piece: Piece
    text: Text | None


class Encoder:
    """Makes window entries of pieces. One caller at a time; two threads may pack, each with its own compressor."""

    def __init__(self, compressor: Compressor, edits: Edits = NO_EDITS) -> None:
        self._compressor = compressor
        self._second_compressor = Compressor(compressor.encoding)
        self._edits = edits
        self.map_version = 0  #: by which the host is where it publishes

    def entries(
        self,
        pieces: Iterable[Piece],
        second: Executor | None = None,
        put_back: Callable[[OverBudget], None] | None = None,
    ) -> list[Entry]:
        """One entry a piece, in order; what was read is kept only as it travels, and packed before the next is read.

        A piece of which nothing is left travels with the next one of its source. `second`: a thread that may help;
        it does not where text is edited. `put_back` is called where the piece that was read last cannot be edited: it
        is in no entry, so nothing of it travels.
        """
        read_at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if not self._edits.change_text:
            mine = partial(self._entry, self._compressor, read_at)
            if second is None:
                return list(map(mine, pieces))
            return in_order(pieces, mine, partial(self._entry, self._second_compressor, read_at), second)
        loads = _together(list(self._edited(pieces, put_back)))
        _count(loads)
        return [self._entry(self._compressor, read_at, load.piece, load.text) for load in loads]

    def _edited(self, pieces: Iterable[Piece], put_back: Callable[[OverBudget], None] | None) -> Iterator[_Load]:
        for piece in pieces:
            try:
                text = self._edits.of_piece(piece)
            except OverBudget as error:
                if put_back is None:
                    raise
                put_back(error)
            else:
                self._edits.budget.passed(piece.source)
                yield _Load(piece, text)

    def _entry(self, compressor: Compressor, read_at: str, piece: Piece, text: Text | None = None) -> Entry:
        content = piece.data if text is None else text.content
        lines = count_lines(content)
        block = Block(
            source=piece.source,
            file=piece.file,
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
            labels=self._edits.labels,
            map_version=self.map_version,
            handoff=piece.handoff,
        )
        payload = compressor.encode(content if text is None else content + self._map(text))
        return Entry(piece._replace(data=b"", lead=b""), codec.to_headers(block), payload, lines)

    def _map(self, text: Text) -> bytes:
        """The map behind the text; none beside a plain line, and none that is too long: the shortest stands for it."""
        octets = b"" if self._compressor.encoding is Encoding.PLAIN else to_map(text.edits)
        return octets if len(octets) <= self._edits.map_bytes else b""


def _together(loads: list[_Load]) -> list[_Load]:
    """Pieces of which nothing is left, each joined to what follows it in its source, up to a block."""
    joined: list[_Load] = []
    for load in loads:
        if joined and _can_follow(joined[-1], load):
            load = _after(joined.pop(), load)  # noqa: PLW2901 - it is the same bytes and more
        joined.append(load)
    return joined


def _can_follow(before: _Load, load: _Load) -> bool:
    empty = before.text is not None and not before.text.content
    follows = load.piece.source == before.piece.source and load.piece.span.start == before.piece.span.end
    length = load.piece.span.end - before.piece.span.start
    return empty and follows and load.piece.span.length > 0 and length <= MAX_BLOCK_BYTES


def _after(before: _Load, load: _Load) -> _Load:
    """`load` with the left-out bytes before it."""
    piece, text = load
    span = Span(before.piece.span.start, piece.span.end)
    first = Edit(0, before.piece.span.length, 0)
    if text is None:
        text = Text(piece.data, [])
    elif not text.content:
        return _Load(piece._replace(span=span, data=b""), Text(b"", [Edit(0, span.length, 0)]))
    return _Load(piece._replace(span=span, data=b""), Text(text.content, [first, *text.edits]))


def _count(loads: list[_Load]) -> None:
    edits = [edit for load in loads if load.text for edit in load.text.edits]
    if edits:
        filtered = filtered_bytes(edits)
        events.text_edited(filtered=filtered, edits=sum(1 for edit in edits if edit.given))
