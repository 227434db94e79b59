"""Pieces of files -> the messages that carry them."""

import datetime as dt
import zlib

from producer.tail import Piece
from producer.window import Entry
from shipper import codec
from shipper.compression import Compressor
from shipper.model import Block


class Encoder:
    """Makes window entries of pieces. Used by the reading thread only: a compressor is not shared."""

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor

    def entries(self, pieces: list[Piece]) -> list[Entry]:
        """One entry a piece, in order; what was read is kept only as it travels."""
        read_at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return [self._entry(piece, read_at) for piece in pieces]

    def _entry(self, piece: Piece, read_at: str) -> Entry:
        lines = piece.data.count(b"\n")
        block = Block(
            source=piece.source,
            file=piece.file,
            span=piece.span,
            origin=piece.origin,
            lines=lines,
            block_crc=zlib.crc32(piece.data),
            source_crc=piece.source_crc,
            encoding=self._compressor.encoding,
            read_at=read_at,
            end=piece.end,
            gap=piece.gap,
        )
        payload = self._compressor.encode(piece.data)
        return Entry(piece._replace(data=b""), codec.to_headers(block), payload, lines)
