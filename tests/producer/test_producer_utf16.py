"""UTF-16 files -> UTF-8 in the archive; offsets go on counting bytes of the file."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from producing import Host, append

from producer.batcher import Encoder
from producer.charset import Charset, charset_of
from producer.transform.edits import GROWN_BYTES, Edits
from shipper import codec
from shipper.compression import Compressor, Decompressor
from shipper.edit_map import from_map
from shipper.model import MAX_BLOCK_BYTES, Encoding

TRAPS = "plain\nwith \u0a00 and \u0a0a, \u000d\u0a00\nemoji 😀😀 ✓ größe\r\n\n\u0d0a\u0100\n"
"""Characters whose bytes hold a newline's, at either place."""
ORDERS = ["utf-16-le", "utf-16-be"]


def shipped(host: Host, edits: Edits, encoding: Encoding = Encoding.ZSTD) -> bytes:
    """The text of everything that a host has to read."""
    unpack, encoder, text = Decompressor(), Encoder(Compressor(encoding), edits), b""
    while pieces := host.read(1):
        for entry in encoder.entries(pieces):
            text += unpack.decode(codec.from_headers(entry.headers), entry.payload)
    return text


def host_of(path: Path, charset: str = "utf-16", **options: object) -> tuple[Host, Edits]:
    edits = Edits.of(
        charset=charset, **{name: options.pop(name) for name in ("redact", "drop_lines") if name in options}
    )
    return Host(path.parent, path.name, edits=edits, **options), edits


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_a_file_with_a_byte_order_mark_becomes_utf_8_without_it(order: str, plain: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(("\ufeff" + TRAPS).encode(order))
    host, edits = host_of(path, plain=plain)
    assert shipped(host, edits, Encoding.PLAIN if plain else Encoding.GZIP) == TRAPS.encode()


@pytest.mark.parametrize("order", ORDERS)
def test_a_charset_that_is_named_needs_no_mark_and_takes_one_away(order: str, tmp_path: Path) -> None:
    for number, mark in enumerate(("", "\ufeff")):
        path = tmp_path / str(number) / "app.log"
        path.parent.mkdir()
        path.write_bytes((mark + TRAPS).encode(order))
        host, edits = host_of(path, order)
        assert shipped(host, edits) == TRAPS.encode()
        host.kill()


def test_files_without_the_mark_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    for content in (TRAPS.encode(), b"\xff", b"\xff\xfd\n", b"\xff\n\xfe\n", b"\n"):
        path.write_bytes(content)
        host, edits = host_of(path, once=True)
        assert shipped(host, edits) == content
        host.kill()
        (tmp_path / "checkpoint.sqlite").unlink()


def test_a_mark_that_comes_in_two_writes_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"\xff")
    host, edits = host_of(path)
    assert shipped(host, edits) == b""
    append(path, b"\xfe" + TRAPS.encode("utf-16-le"))
    host.sources.scan()
    assert shipped(host, edits) == TRAPS.encode()


def test_every_line_is_one_edit(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes("\ufeffaé\nlong one\n".encode("utf-16-le"))
    host, edits = host_of(path)
    (entry,) = Encoder(Compressor(Encoding.IDENTITY), edits).entries(host.read_all())
    assert entry.headers["Log-Edits"] == "13-0"
    assert from_map(entry.payload[13:]) == [(0, 8, 4), (0, 18, 9)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("restarts", [False, True])
def test_an_over_long_line_is_cut_at_whole_characters(order: str, restarts: bool, tmp_path: Path) -> None:
    for before in range(4):
        path = tmp_path / str(before) / "app.log"
        path.parent.mkdir()
        text = "x" * before + "😀é✓" * 4000 + "\nend\n"
        path.write_bytes(("\ufeff" + text).encode(order))
        host, edits = host_of(path)
        found = b""
        while pieces := host.read(1):
            for entry in Encoder(Compressor(Encoding.ZSTD), edits).entries(pieces):
                found += Decompressor().decode(codec.from_headers(entry.headers), entry.payload)
            host.acknowledge()
            host.save()
            host.restart() if restarts else None
        assert found.decode() == text
        host.kill()


def test_the_longest_text_fits_into_a_block(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"\xff\xfe" + "✓".encode("utf-16-le") * 600_000)
    host, edits = host_of(path, block=MAX_BLOCK_BYTES, once=True, redact=["✓✓✓✓✓✓"])
    pieces = host.read_all()
    assert max(len(piece.data) for piece in pieces) == GROWN_BYTES
    for entry in Encoder(Compressor(Encoding.ZSTD), edits).entries(pieces):
        block = codec.from_headers(entry.headers)
        assert len(Decompressor().decode(block, entry.payload)) <= MAX_BLOCK_BYTES


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_no_utf_16_becomes_the_replacement_character(order: str, tmp_path: Path) -> None:
    lone = b"\x00\xd8" if order == "utf-16-le" else b"\xd8\x00"
    path = tmp_path / "app.log"
    path.write_bytes("\ufeffa".encode(order) + lone + "\nb".encode(order) + b"x")
    host, edits = host_of(path, once=True)
    assert shipped(host, edits).decode() == "a\ufffd\nb\ufffd"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("plain", [False, True])
def test_lines_are_left_out_and_blacked_out_by_their_text(order: str, plain: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    text = "keep 1 me@example.org x\r\nDEBUG größe\r\n\r\nDEBUG\r\nkeep ✓\r\nDEBUG " + "y" * 9000 + "\r\nend\r\n"
    path.write_bytes(("\ufeff" + text).encode(order))
    host, edits = host_of(path, redact=["email", "✓"], drop_lines=["DEBUG$", "^DEBUG .*"], plain=plain)
    expected = "keep 1 [email] x\r\n\r\nkeep [redacted]\r\nend\r\n"
    assert shipped(host, edits, Encoding.PLAIN if plain else Encoding.ZSTD).decode() == expected


@given(st.binary(max_size=60), st.sampled_from([Charset.UTF_16_LE, Charset.UTF_16_BE]), st.integers(0, 3))
def test_newlines_are_found_at_even_offsets_only(data: bytes, charset: Charset, at: int) -> None:
    ends = [n + 2 for n in range(len(data) - 1) if data[n : n + 2] == charset.newline and (at + n) % 2 == 0]
    assert charset.last_end(data, at=at) == max(ends, default=0)
    for begin in range(len(data)):
        assert charset.first_end(data, begin, at=at) == min((end for end in ends if end >= begin + 2), default=0)


@pytest.mark.parametrize("order", ORDERS)
def test_any_writes_and_restarts_give_the_text(order: str, tmp_path: Path) -> None:
    rng = random.Random(5)
    path = tmp_path / "app.log"
    text = "".join(rng.choice(["a", "é", "😀", "\u0a00", "\n", "\u000a\u0a0a", "line\r\n"]) for _ in range(3000)) + "\n"
    data = ("\ufeff" + text).encode(order)
    path.write_bytes(b"")
    host, edits = host_of(path, block=256)
    found, at = b"", 0
    while at < len(data):
        size = rng.randrange(1, 700)
        append(path, data[at : at + size])
        at += size
        host.sources.scan()
        found += shipped(host, edits)
        host.acknowledge()
        host.save()
        if rng.random() < 0.3:
            host.restart()
    assert found + shipped(host, edits) == text.encode()


def test_the_head_of_a_file_shows_its_charset() -> None:
    assert charset_of("utf-16", b"\xff\xfe") is Charset.UTF_16_LE
    assert charset_of("utf-16", b"\xfe\xff") is Charset.UTF_16_BE
    assert charset_of("utf-16", b"ab") is Charset.BYTES
    assert charset_of("utf-16-be", b"\xff\xfe") is Charset.UTF_16_BE
    assert charset_of("", b"\xff\xfe") is Charset.BYTES
