"""A block's bytes <-> the payload that travels. Bounded: a payload cannot swell beyond one block and its map."""

import itertools
import zlib

import zstandard

from shipper import codec
from shipper.bytes_ops import crc32
from shipper.edit_map import MAX_MAP_BYTES, Rest, rest_of
from shipper.errors import Poison
from shipper.model import MAX_BLOCK_BYTES, Block, Encoding, LineMessages

ZSTD_FAST = zstandard.ZstdCompressionParameters(
    strategy=zstandard.STRATEGY_FAST,
    window_log=18,
    hash_log=13,
    chain_log=12,
    search_log=1,
    min_match=7,
    write_content_size=1,
)
"""Level 1 with tables that fit a core's own cache, for every size of block. Measured on real logs, 512 KiB a block:
level 1 itself takes 1.36 s a GiB and makes it 9.93 times smaller, this 1.19 s and 9.89; unpacking takes the same.
Higher levels cost more CPU than they save."""
GZIP_LEVEL = 1
MAX_WINDOW_BYTES = 8 * 1024 * 1024
"""Maximum memory that a frame may require of its reader (RFC 8878 requires decoders to support it)."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Compressor:
    """Encodes blocks; one for each thread, because a zstd context is not shared."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self._zstd = zstandard.ZstdCompressor(compression_params=ZSTD_FAST)

    def encode(self, data: bytes) -> bytes:
        """The payload for `data`; for PLAIN the one line without its newline."""
        match self.encoding:
            case Encoding.ZSTD:
                packed = memoryview(self._zstd.compress(data))
                return bytes(packed)  # a copy: the original keeps what was reserved for the worst case from reuse
            case Encoding.GZIP:
                packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
                return packer.compress(data) + packer.flush()
            case Encoding.PLAIN:
                return data.removesuffix(b"\n")
            case Encoding.IDENTITY:
                return data


def to_lines(block: Block, text: bytes, source_crc: int) -> LineMessages:
    """`block`, whose `text` is whole lines, as a message for each. `source_crc`: of the source before it."""
    lines = text[:-1].split(b"\n")
    with_ends = [line + b"\n" for line in lines]
    ends = list(itertools.accumulate(map(len, with_ends), initial=block.span.start))
    crcs = map(crc32, with_ends)
    source_crcs = itertools.accumulate(with_ends, lambda crc, line: crc32(line, crc), initial=source_crc)
    next(source_crcs)
    places = [
        b"Log-Span: %d-%d\r\nLog-Crc: %08x-%08x\r\n\r\n" % place
        for place in zip(ends[:-1], ends[1:], crcs, source_crcs, strict=True)
    ]
    headers = codec.to_headers(block) | {"Log-Lines": "1"}
    del headers["Log-Span"], headers["Log-Crc"]
    return LineMessages(headers, places, lines)


class Decompressor:
    """Decodes payloads; one for each thread."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor()

    def decode(self, block: Block, payload: bytes) -> bytes:
        """The block's text, as it goes into the archive. Raises Poison as `rest`."""
        return self.rest(block, payload, at=block.span.start).content

    def rest(self, block: Block, payload: bytes, *, at: int) -> Rest:
        """The part of a block's text after offset `at` of its source, checked against its span, map and CRC.

        Raises Poison: the payload does not decode, is longer or shorter than its headers state, or has another CRC; or
        the map of its edits does not lead from the span to the text.
        """
        data = self._decoded(block, payload)
        edited = block.edited
        content = data if edited is None else data[: edited.content]
        if len(content) != (block.span.length if edited is None else edited.content):
            stated = f"Log-Span {block.span} states {block.span.length}"
            if edited is not None:
                stated = f"Log-Edits states {edited.content} of text and a map"
            raise Poison(f"payload decodes to {len(data)} bytes, {stated}")
        if crc32(content) != block.block_crc:
            raise Poison(f"CRC of the payload is not {block.block_crc:08x}, the value of Log-Crc")
        if edited is None:
            return Rest(content[at - block.span.start :] if at > block.span.start else content, 0)
        return rest_of(content, data[edited.content :], block.span, edited, at=at)

    def _decoded(self, block: Block, payload: bytes) -> bytes:
        most = MAX_BLOCK_BYTES if block.edited is None else block.edited.content + MAX_MAP_BYTES
        match block.encoding:
            case Encoding.ZSTD:
                return self._from_zstd(payload, most)
            case Encoding.GZIP:
                return _from_gzip(payload, most)
            case Encoding.PLAIN:
                return payload + b"\n" if block.lines else payload
            case Encoding.IDENTITY:
                return payload

    def _from_zstd(self, payload: bytes, most: int) -> bytes:
        """Exactly one frame that every reader takes: a collector may keep it as it came."""
        try:
            frame = zstandard.get_frame_parameters(payload)
            is_sized = frame.content_size != zstandard.CONTENTSIZE_UNKNOWN
            if is_sized and frame.content_size > most:
                raise Poison(f"zstd frame claims {frame.content_size} bytes, a block has at most {most}")
            if frame.window_size > MAX_WINDOW_BYTES:
                raise Poison(f"zstd frame needs a window of {frame.window_size} bytes, at most {MAX_WINDOW_BYTES} may")
            data = self._zstd.decompress(payload, max_output_size=most, allow_extra_data=False)
            if not data or not is_sized:  # else the library has checked it; its output is bounded here
                unpacker = self._zstd.decompressobj()
                unpacker.decompress(payload)
                if not unpacker.eof or unpacker.unused_data:
                    raise Poison("payload is not one whole zstd frame")
        except zstandard.ZstdError as error:
            raise Poison(f"payload is no zstd frame: {error}") from None
        return data


def _from_gzip(payload: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        data = unpacker.decompress(payload, most + 1)
    except zlib.error as error:
        raise Poison(f"payload is no gzip member: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise Poison("payload is not one whole gzip member of at most one block")
    return data
