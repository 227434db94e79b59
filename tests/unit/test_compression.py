import dataclasses
import gzip
import tracemalloc
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from shipper.compression import Compressor, Decompressor
from shipper.errors import Poison
from shipper.model import MAX_BLOCK_BYTES, Block, Edited, Encoding, Span

WHOLE = [Encoding.IDENTITY, Encoding.ZSTD, Encoding.GZIP]


def block_of(data, encoding):
    return Block(
        source="00c0ffee00c0ffee",
        file="/var/log/app.log",
        span=Span(1000, 1000 + len(data)),
        origin=0,
        lines=data.count(b"\n"),
        block_crc=zlib.crc32(data),
        source_crc=0,
        encoding=encoding,
        read_at="",
    )


@pytest.mark.parametrize("encoding", WHOLE)
@given(data=st.binary(max_size=5000))
def test_any_bytes_come_back_as_they_were(encoding, data):
    assert Decompressor().decode(block_of(data, encoding), Compressor(encoding).encode(data)) == data


@given(st.binary(max_size=500).map(lambda raw: raw.replace(b"\n", b"") + b"\n"))
def test_a_plain_line_travels_without_its_newline_and_gets_it_back(line):
    payload = Compressor(Encoding.PLAIN).encode(line)
    assert payload == line[:-1]
    assert Decompressor().decode(block_of(line, Encoding.PLAIN), payload) == line


def test_a_plain_piece_of_an_over_long_line_gets_no_newline():
    assert Decompressor().decode(block_of(b"half a line", Encoding.PLAIN), b"half a line") == b"half a line"


@pytest.mark.parametrize("encoding", WHOLE)
def test_the_largest_block_comes_back(encoding):
    data = b"x" * (MAX_BLOCK_BYTES - 1) + b"\n"
    assert Decompressor().decode(block_of(data, encoding), Compressor(encoding).encode(data)) == data


@pytest.mark.parametrize("encoding", [Encoding.ZSTD, Encoding.GZIP])
def test_one_compressor_and_one_decompressor_serve_many_blocks(encoding):
    compressor, decompressor = Compressor(encoding), Decompressor()
    for number in range(50):
        data = b"line %d\n" % number * number
        assert decompressor.decode(block_of(data, encoding), compressor.encode(data)) == data


@pytest.mark.parametrize("encoding", WHOLE)
def test_other_bytes_of_the_same_length_are_poison(encoding):
    with pytest.raises(Poison, match="CRC"):
        Decompressor().decode(block_of(b"one\n", encoding), Compressor(encoding).encode(b"two\n"))


@pytest.mark.parametrize("encoding", WHOLE)
@pytest.mark.parametrize("sent", [b"lines\nline", b"lines\nlines\n"])
def test_more_or_fewer_bytes_than_the_span_are_poison(encoding, sent):
    with pytest.raises(Poison, match="Log-Span"):
        Decompressor().decode(block_of(b"lines\nlines", encoding), Compressor(encoding).encode(sent))


@pytest.mark.parametrize("encoding", [Encoding.ZSTD, Encoding.GZIP])
@pytest.mark.parametrize("payload", [b"", b"plain text", bytes(100), b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08\x00"])
def test_a_payload_that_does_not_decode_is_poison(encoding, payload):
    with pytest.raises(Poison):
        Decompressor().decode(block_of(b"line\n", encoding), payload)


@pytest.mark.parametrize("encoding", [Encoding.ZSTD, Encoding.GZIP])
def test_a_payload_that_was_cut_off_is_poison(encoding):
    data = bytes(range(256)) * 40
    payload = Compressor(encoding).encode(data)
    for length in range(0, len(payload) - 1, 7):
        with pytest.raises(Poison):
            Decompressor().decode(block_of(data, encoding), payload[:length])


def without_content_size(data):
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        (Encoding.ZSTD, zstandard.compress),
        (Encoding.ZSTD, without_content_size),
        (Encoding.GZIP, gzip.compress),
    ],
    ids=["zstd", "zstd of unknown size", "gzip"],
)
def test_a_bomb_is_poison_and_takes_no_more_memory_than_a_few_blocks(encoding, pack):
    bomb = pack(bytes(200 * 1024 * 1024))
    honest = block_of(bytes(MAX_BLOCK_BYTES), encoding)
    tracemalloc.start()
    with pytest.raises(Poison):
        Decompressor().decode(honest, bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * MAX_BLOCK_BYTES


@pytest.mark.parametrize("encoding", [Encoding.ZSTD, Encoding.GZIP])
@pytest.mark.parametrize("content", [0, 1000, MAX_BLOCK_BYTES])
def test_a_bomb_after_the_text_of_an_edited_block_is_poison(encoding, content):
    text = bytes(content)
    honest = dataclasses.replace(block_of(text, encoding), edited=Edited(content, 0))
    bomb = Compressor(encoding).encode(text + bytes(50 * 1024 * 1024))
    tracemalloc.start()
    with pytest.raises(Poison):
        Decompressor().decode(honest, bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * MAX_BLOCK_BYTES


@pytest.mark.parametrize("behind", [b"x", gzip.compress(b"another member", mtime=0)])
def test_bytes_after_the_one_gzip_member_are_poison(behind):
    data = b"line\n"
    with pytest.raises(Poison, match="one whole gzip member"):
        Decompressor().decode(block_of(data, Encoding.GZIP), gzip.compress(data) + behind)


def test_the_encoding_of_the_headers_decides_and_no_guess():
    data = b"line\n" * 100
    block = dataclasses.replace(block_of(data, Encoding.GZIP))
    with pytest.raises(Poison):
        Decompressor().decode(block, Compressor(Encoding.ZSTD).encode(data))
