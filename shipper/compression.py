"""A block's bytes <-> the payload that travels. Bounded: a payload cannot swell beyond one block."""

import zlib

import zstandard

from shipper.errors import Poison
from shipper.model import MAX_BLOCK_BYTES, Block, Encoding

ZSTD_LEVEL = 1  # measured on real logs: 12 times smaller at over 1 GB/s; higher levels cost more CPU than they save
GZIP_LEVEL = 1
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Compressor:
    """Encodes blocks; one for each thread, because a zstd context is not shared."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self._zstd = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=False)

    def encode(self, data: bytes) -> bytes:
        """The payload for `data`; for PLAIN the one line without its newline."""
        match self.encoding:
            case Encoding.ZSTD:
                return self._zstd.compress(data)
            case Encoding.GZIP:
                packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
                return packer.compress(data) + packer.flush()
            case Encoding.PLAIN:
                return data.removesuffix(b"\n")
            case Encoding.IDENTITY:
                return data


class Decompressor:
    """Decodes payloads; one for each thread."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor()

    def decode(self, block: Block, payload: bytes) -> bytes:
        """The block's bytes, checked against its span and its CRC.

        Raises:
            Poison: the payload does not decode, is longer or shorter than the span, or has another CRC.
        """
        data = self._decoded(block, payload)
        if len(data) != block.span.length:
            raise Poison(f"payload decodes to {len(data)} bytes, Log-Span {block.span} says {block.span.length}")
        if zlib.crc32(data) != block.block_crc:
            raise Poison(f"CRC of the payload is not {block.block_crc:08x}, as Log-Crc says")
        return data

    def _decoded(self, block: Block, payload: bytes) -> bytes:
        match block.encoding:
            case Encoding.ZSTD:
                return self._from_zstd(payload)
            case Encoding.GZIP:
                return _from_gzip(payload)
            case Encoding.PLAIN:
                return payload + b"\n" if block.lines else payload
            case Encoding.IDENTITY:
                return payload

    def _from_zstd(self, payload: bytes) -> bytes:
        try:
            size = zstandard.frame_content_size(payload)
            if size > MAX_BLOCK_BYTES:
                raise Poison(f"zstd frame claims {size} bytes, a block has at most {MAX_BLOCK_BYTES}")
            return self._zstd.decompress(payload, max_output_size=MAX_BLOCK_BYTES)
        except zstandard.ZstdError as error:
            raise Poison(f"payload is no zstd frame: {error}") from None


def _from_gzip(payload: bytes) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        data = unpacker.decompress(payload, MAX_BLOCK_BYTES + 1)
    except zlib.error as error:
        raise Poison(f"payload is no gzip member: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise Poison("payload is not one whole gzip member of at most one block")
    return data
