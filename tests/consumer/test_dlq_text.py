"""What becomes of a dead letter's bytes when they are requeued: decided without any server."""

import gzip
import zlib

import pytest
import zstandard

from consumer.dlq import store
from consumer.dlq.store import Letter, dump, printable, read_letter
from shipper import codec
from shipper.compression import Decompressor
from shipper.errors import UsageError
from shipper.model import MAX_BLOCK_BYTES, Delivery, End

TEXT = b"one\ntwo\nthree\n"


def letter(headers: dict[str, str], *, host: str = "web1", stream: str = "LOGS_3", sequence: int = 7) -> Letter:
    own = {"Dlq-Stream": stream, "Dlq-Reason": "why", "Dlq-Seq": "12"}
    return read_letter(Delivery(sequence, 0, 0, f"dlq.{stream}.{host}", headers | own, b"", ""))


def sent(each: Letter, payload: bytes, **more: str) -> list[store.RequeuedMessage]:
    options = {"created": "2026", "prefix": "logs", "output": "messages.log", "read_at": ""} | more
    return list(store.messages(each, payload, **options))


@pytest.mark.parametrize(
    ("headers", "payload", "text"),
    [
        ({}, b"a line", b"a line\n"),
        ({}, TEXT, TEXT),
        ({"Log-Encoding": "zstd"}, zstandard.compress(TEXT), TEXT),
        ({"Log-Encoding": "gzip"}, gzip.compress(TEXT, mtime=0), TEXT),
        ({"Log-Encoding": "plain"}, b"a line", b"a line\n"),
        ({"Log-Encoding": "lz4"}, b"as it is", b"as it is\n"),
        ({"Log-Encoding": "zstd"}, b"no frame", b"no frame\n"),
        ({"Log-Encoding": "zstd"}, zstandard.compress(TEXT)[:-3], zstandard.compress(TEXT)[:-3] + b"\n"),
        ({"Log-Encoding": "gzip"}, gzip.compress(TEXT, mtime=0)[:-3], gzip.compress(TEXT, mtime=0)[:-3] + b"\n"),
        (
            {"Log-Encoding": "gzip"},
            gzip.compress(TEXT, mtime=0) + b"behind",
            gzip.compress(TEXT, mtime=0) + b"behind\n",
        ),
        ({"Log-Edits": "5-1"}, b"text\nMAP", b"text\n"),
        ({"Log-Edits": "9999999-1"}, b"text\n", b"text\n"),
        ({}, b"", b""),
    ],
)
def test_text_is_what_decodes_else_the_payload_as_it_is(headers, payload, text):
    assert store.text_of(letter(headers), payload) == text


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("zstd", zstandard.compress),
        ("zstd", zstandard.ZstdCompressor(write_content_size=False).compress),
        ("gzip", gzip.compress),
    ],
    ids=["zstd", "zstd without size", "gzip"],
)
def test_a_bomb_is_kept_as_it_is(encoding, pack):
    bomb = pack(bytes(store.MAX_TEXT_BYTES + 1))
    assert store.text_of(letter({"Log-Encoding": encoding}), bomb) == bomb + b"\n"


def test_a_long_text_is_cut_into_blocks_that_any_collector_takes():
    text = b"".join(b"%d\n" % number for number in range(300_000))
    blocks = [(codec.from_headers(headers), payload) for _, headers, payload in sent(letter({}), text)]
    assert b"".join(Decompressor().decode(block, payload) for block, payload in blocks) == text
    assert all(block.span.length <= MAX_BLOCK_BYTES for block, _ in blocks)
    assert [block.end for block, _ in blocks] == [None] * (len(blocks) - 1) + [End.ROTATED]
    assert [block.source_crc for block, _ in blocks] == [zlib.crc32(text[: block.span.end]) for block, _ in blocks]
    assert [block.span.start for block, _ in blocks] == [0, *(block.span.end for block, _ in blocks[:-1])]


def test_a_letter_is_one_source_however_often_it_is_sent_and_no_other_letter_is_the_same():
    ids = {
        sent(letter({}, sequence=sequence), TEXT, created=created)[0].headers["Log-Id"]
        for sequence in (7, 8, 7)
        for created in ("2026", "2027")
    }
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("host", "stream", "subject"),
    [
        ("web1.example.net", "LOGS_3", "logs.p3.web1.example.net"),
        ("b\u00fccher", "LOGS_0", "logs.p0.b\u00fccher"),
        ("x" * 240, "LOGS_3", "logs.p3.unknown"),
        ("unknown", "LOGS_3", "logs.p3.unknown"),
    ],
)
def test_it_goes_to_the_host_that_it_came_from(host, stream, subject):
    assert sent(letter({}, host=host, stream=stream), TEXT)[0].subject == subject


@pytest.mark.parametrize("stream", ["", "AUDIT_0", "LOGS_x"])
def test_a_letter_of_no_stream_of_ours_is_refused(stream):
    with pytest.raises(UsageError, match="none of 'logs'"):
        sent(letter({}, stream=stream), TEXT)


@pytest.mark.parametrize(
    ("header", "file"),
    [
        ("/var/log/app.log", "/var/log/app.log.recovered"),
        ("/a%20b/%FF", "/a b/\udcff.recovered"),
        ("relative", "/messages.log.recovered"),
        ("/nul%00", "/messages.log.recovered"),
        ("", "/messages.log.recovered"),
    ],
)
def test_it_goes_next_to_the_file_that_it_was_meant_for(header, file):
    (message,) = sent(letter({"Log-File": header}), TEXT)
    assert codec.from_headers(message.headers).file == file


def test_shown_text_has_no_character_that_a_terminal_might_obey():
    every = "".join(map(chr, range(0x3000))) + "\ud800\udcff"
    assert printable(every).isprintable()
    assert printable("a\\x1b") != printable("a\x1b")


def test_a_payload_is_shown_as_far_as_its_limit():
    assert dump(b"\x1b[2J\xff~", 16) == [f"00000000  {'1b 5b 32 4a ff 7e':<47}  |.[2J.~|"]
    assert dump(bytes(40), 32)[-1] == "00000020  ... 8 bytes more (--raw writes all)"
