"""Edited blocks, however they come: the archive holds the edited text once, and every byte is accounted for."""

import asyncio
import re
import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from collecting import FILE, HOST, Log, PartitionHarness, kill_at
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.archive.journal import MIGRATIONS, Journal
from consumer.commit.sink import Sink
from consumer.model import OpenFile, Until
from producer.batcher import Encoder
from producer.fingerprint import Mark
from producer.model import Piece
from producer.transform.edits import Edits
from shipper import codec
from shipper.compression import Compressor
from shipper.model import Block, Edited, Encoding, Span

ID = "00000000000000a1"
RULES = Edits.of(drop_lines=["DEBUG"], redact=["email", r"id=\d+"])
LABELS = {"env": "prod", "dc": "ams é&="}
LINES = [
    b"DEBUG noise\n", b"DEBUG\n", b"INFO a@example.org came\n", b"plain\n", b"\n", b"id=1 id=22 x@y.example\n",
    b"windows DEBUG\r\n", b"windows id=7\r\n", b"no line break at all: id=5 ", "größe ✓ id=3\n".encode(),
]  # fmt: skip


def edited(text: bytes) -> bytes:
    """What `RULES` make of a text, line by line."""
    out = []
    for line in text.splitlines(keepends=True):
        if b"DEBUG" not in line:
            without_mail = re.sub(rb"[\w.]+@[\w.]+", b"[email]", line)
            out.append(re.sub(rb"id=\d+", b"[redacted]", without_mail))
    return b"".join(out)


def piece(text: bytes, start: int, end: int, *, id_: str = ID) -> Piece:
    lead = text[text.rfind(b"\n", 0, start) + 1 : start]
    return Piece(
        id_, FILE, 0, Span(start, end), text[start:end], zlib.crc32(text[:end]), Mark(), lead=lead,
    )  # fmt: skip


def send(
    harness: PartitionHarness,
    pieces: list[Piece],
    *,
    rules: Edits = RULES,
    encoding: Encoding = Encoding.ZSTD,
    labels: Mapping[str, str] = LABELS,
) -> None:
    for entry in Encoder(Compressor(encoding), rules, tuple(labels.items())).entries(pieces):
        harness.bus.store(f"logs.p0.{HOST}", entry.headers, entry.payload)


def check_account(harness: PartitionHarness) -> OpenFile | None:
    """Every byte of every span is in the archive, left out, or edited."""
    for segment in harness.segments():
        spans = sum(span.end - span.start for span in segment.spans)
        assert spans == segment.bytes_raw - segment.joins + segment.filtered + segment.edited
    with harness.journal() as journal:
        for file in journal.files.values():
            spans = sum(span.end - span.start for span in journal.spans(file.path))
            assert spans == file.length - file.joins + file.filtered + file.edited
        return next(iter(journal.files.values()), None)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    return b"".join(draw(st.lists(st.sampled_from(LINES), max_size=30)))


@st.composite
def runs(draw: st.DrawFn, text: bytes) -> list[list[list[Piece]]]:
    """A few producers of one source: each begins at a border of the one before it, or earlier, with borders anew.

    Each run is a list of loads, as many pieces as are encoded together.
    """
    ends = [0, *(match.end() for match in re.finditer(rb"\n", text))]
    if ends[-1] != len(text):
        ends.append(len(text))
    reached, made = 0, []
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.sampled_from([end for end in ends if end <= reached]))
        later = [end for end in ends if end > start]
        borders = sorted({start, *draw(st.lists(st.sampled_from(later), max_size=8))}) if later else [start]
        reached = max(reached, borders[-1])
        made.append(_loads(draw, text, borders))
    made.append(_loads(draw, text, sorted({reached, len(text)})))
    return made


def _loads(draw: st.DrawFn, text: bytes, borders: list[int]) -> list[list[Piece]]:
    pieces = [piece(text, start, end) for start, end in pairwise(borders)]
    size = draw(st.integers(1, 4))
    return [pieces[at : at + size] for at in range(0, len(pieces), size)]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_whatever_borders_and_resends_the_archive_holds_the_edited_text_once(data):
    text = data.draw(texts())
    sent = data.draw(runs(text))
    encoding = data.draw(st.sampled_from(Encoding))
    with TemporaryDirectory() as directory:
        harness = PartitionHarness(Path(directory))
        for loads in sent:
            for load in loads:
                plain = encoding is Encoding.PLAIN
                lines = [line for whole in load for line in _lines(text, whole)] if plain else load
                send(harness, lines, encoding=encoding)
            if data.draw(st.booleans()):
                asyncio.run(harness.drain())
        asyncio.run(harness.drain())
        assert harness.text(file=FILE) == edited(text)
        file = check_account(harness)
        if file is not None:
            dropped = sum(len(line) for line in text.splitlines(keepends=True) if b"DEBUG" in line)
            assert file.filtered == dropped
            assert file.edited == len(text) - dropped - len(edited(text))
        asyncio.run(harness.drain(Until.SEALED))
        check_account(harness)
        assert harness.text(file=FILE) == edited(text)
        assert not any(segment.gaps for segment in harness.segments())


def _lines(text: bytes, whole: Piece) -> list[Piece]:
    ends = [whole.span.start, *(at + 1 for at in range(*whole.span) if text[at : at + 1] == b"\n"), whole.span.end]
    return [piece(text, start, end) for start, end in pairwise(sorted(set(ends)))]


@pytest.mark.parametrize("rules", [RULES, Edits.of(keep_lines=["never"]), Edits.of(redact=[r"[a-z]+"])])
@pytest.mark.parametrize("watermark", range(0, 47, 3))
async def test_a_block_that_overlaps_by_any_bytes_is_written_without_a_hole_in_the_account(watermark, rules, tmp_path):
    text = b"one a@b.example two\nDEBUG three\nfour id=12\nfive"
    harness = PartitionHarness(tmp_path)
    send(harness, [piece(text, 0, watermark)], rules=Edits()) if watermark else None
    send(harness, [piece(text, 0, len(text))], rules=rules)
    await harness.drain()
    file = check_account(harness)
    assert file is not None
    assert harness.text(file=FILE).startswith(text[:watermark])


async def test_a_left_out_run_across_the_watermark_gives_nothing_and_a_redaction_across_it_comes_once_more(tmp_path):
    text = b"one a@b.example two\nDEBUG three\nfour\n"
    harness = PartitionHarness(tmp_path)
    send(harness, [piece(text, 0, 6)], rules=Edits())
    send(harness, [piece(text, 0, len(text))])
    send(harness, [piece(text, 0, 25)], rules=Edits())
    await harness.drain()
    assert harness.text(file=FILE) == b"one a@" + b"[email] two\nfour\n"


@pytest.mark.parametrize("rest", [b"DEBUG\nnext\n", b"DEBUG\nDEBUG\nnext\n"])
@pytest.mark.parametrize("again_from", [0, 3])
async def test_where_the_rest_of_a_line_is_left_out_the_next_line_is_a_line_of_its_own(again_from, rest, tmp_path):
    """`--once` shipped its beginning; then it grew, and was judged anew: sent again whole, or by other rules."""
    harness, text = PartitionHarness(tmp_path), b"one" + rest
    send(harness, [piece(text, 0, 3)])
    (left,) = Encoder(Compressor(Encoding.ZSTD), RULES).entries(
        [piece(text, again_from, len(text))._replace(lead=b"DEBUG" if again_from else b"")]
    )
    harness.bus.store(f"logs.p0.{HOST}", left.headers, left.payload)
    await harness.drain()
    assert harness.text(file=FILE) == b"one\nnext\n"
    file = check_account(harness)
    assert file is not None
    assert file.joins == 1


async def test_a_file_of_which_every_line_is_left_out_is_an_empty_segment_that_reports_it(harness):
    text = b"DEBUG\n" * 1000
    send(harness, [piece(text, 0, 3000), piece(text, 3000, 6000)])
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert (segment.bytes_raw, segment.lines, segment.filtered, segment.edited, segment.gaps) == (0, 0, 6000, 0, ())
    assert [(span.start, span.end) for span in segment.spans] == [(0, 6000)]
    assert len(harness.stream) == 1


async def test_the_newest_labels_of_a_file_are_in_its_manifest_line_also_without_edits(harness):
    text = b"one\ntwo\n"
    send(harness, [piece(text, 0, 4)], rules=Edits(), labels={"env": "test"})
    await harness.drain()
    send(harness, [piece(text, 4, 8)], rules=Edits())
    await harness.drain()
    assert "Log-Edits" not in next(reversed(list(harness.stream))).headers
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert segment.labels == LABELS


async def test_after_an_edited_block_the_next_one_proves_the_source_again(tmp_path, monkeypatch):
    told: list[int] = []
    monkeypatch.setattr("shipper.events.source_rewritten", lambda **what: told.append(what["offset"]))
    text, other = b"DEBUG one\ntwo\nthree\nfour\n", b"other one\ntwo\nthree\nfour\n"
    harness = PartitionHarness(tmp_path)
    send(harness, [piece(text, 0, 14)])
    send(harness, [piece(text, 14, 20)])
    await harness.drain()
    assert told == []
    send(harness, [piece(other, 20, 25)])
    await harness.drain()
    assert len(told) == 1


@pytest.mark.parametrize(("owner", "name"), [(Sink, "append"), (Sink, "sync"), (Journal, "commit")])
async def test_killed_before_or_after_the_commit_the_account_holds(owner, name, tmp_path, monkeypatch):
    text = b"".join(LINES) * 20
    for after in (False, True):
        (tmp_path / str(after)).mkdir()
        harness = PartitionHarness(tmp_path / str(after))
        send(harness, [piece(text, 0, len(text))])
        kill_at(monkeypatch, owner, name, after=after)
        await harness.die()
        await harness.drain(Until.SEALED)
        assert harness.text(file=FILE) == edited(text)
        check_account(harness)


BAD = {
    "a map cut off": lambda block, data: (block, data[:-1]),
    "a map of other edits": lambda block, data: (block, data[:-1] + bytes([data[-1] + 1])),
    "more left out than the map says": lambda block, data: (with_edits(block, 11, 9), data),
    "longer than a block": lambda block, data: (with_edits(block, 600_000, 0), data),
    "more left out than there is": lambda block, data: (with_edits(block, 0, 100), data),
    "shorter content than it says": lambda block, data: (with_edits(block, len(data) + 1, 0), data),
}


def with_edits(block: Block, content: int, filtered: int) -> Block:
    return replace(block, edited=Edited(content, filtered))


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD)
@pytest.mark.parametrize("encoding", [Encoding.IDENTITY, Encoding.ZSTD, Encoding.GZIP])
async def test_a_block_whose_edits_do_not_fit_is_a_dead_letter_and_a_gap(spoil, encoding, harness):
    text = b"DEBUG x\nfour id=1\n"
    (entry,) = Encoder(Compressor(Encoding.IDENTITY), RULES).entries([piece(text, 0, len(text))])
    block, data = spoil(codec.from_headers(entry.headers), entry.payload)
    headers = codec.to_headers(block)
    if encoding is not Encoding.IDENTITY:
        headers["Log-Encoding"] = encoding.value
    harness.bus.store(f"logs.p0.{HOST}", headers, Compressor(encoding).encode(data))
    await harness.drain()
    assert len(harness.dead) == 1
    assert harness.text(file=FILE) == b""


OLD = """
CREATE TABLE stream (
    one INTEGER PRIMARY KEY CHECK (one = 1), applied INTEGER NOT NULL, applied_ns INTEGER NOT NULL,
    resume INTEGER NOT NULL, plain_after_ns INTEGER NOT NULL, created TEXT NOT NULL
);
CREATE TABLE sources (
    host TEXT NOT NULL, id TEXT NOT NULL, file BLOB NOT NULL, origin INTEGER NOT NULL, watermark INTEGER NOT NULL,
    crc INTEGER, ended INTEGER NOT NULL, seen_ns INTEGER NOT NULL, PRIMARY KEY (host, id)
) WITHOUT ROWID;
CREATE INDEX sources_by_age ON sources (host, seen_ns);
CREATE TABLE files (
    path TEXT PRIMARY KEY, date TEXT NOT NULL, partition INTEGER NOT NULL, host TEXT NOT NULL, file BLOB NOT NULL,
    length INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL, duplicates INTEGER NOT NULL, joins INTEGER NOT NULL, last_source TEXT NOT NULL,
    ends_open INTEGER NOT NULL, sealing TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE spans (path TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL);
CREATE INDEX spans_by_path ON spans (path, source, end);
CREATE TABLE gaps (
    path TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX gaps_by_path ON gaps (path);
CREATE TABLE marks (sequence INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL);
PRAGMA user_version = 1;
"""
"""The journal's tables as version 1 made them."""


async def as_version_1(harness: PartitionHarness) -> None:
    """Make the journal the one that the version before would have written: the same rows, in its tables."""
    rows = {}
    with sqlite3.connect(harness.journal_path) as new:
        for table, columns in (("stream", 6), ("sources", 8), ("files", 15), ("spans", 4), ("gaps", 5), ("marks", 2)):
            rows[table] = [row[:columns] for row in new.execute(f"SELECT * FROM {table}")]
    new.close()
    for path in harness.journal_path.parent.glob("journal.sqlite*"):
        path.unlink()
    with sqlite3.connect(harness.journal_path) as old:
        old.executescript(OLD)
        for table, found in rows.items():
            for row in found:
                old.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
    old.close()


async def test_a_journal_of_the_version_before_is_read_on_and_grows_the_account(harness):
    log = Log(b"one\ntwo\nDEBUG\nid=5\n")
    harness.send(log, 0, 8)
    await harness.drain()
    await as_version_1(harness)
    with harness.journal() as journal:
        (file,) = journal.files.values()
        assert (file.length, file.filtered, file.edited, file.labels) == (8, 0, 0, ())
        assert (file.raw, file.crc) == (8, None)
    send(harness, [piece(log.data, 8, len(log.data))])
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert harness.text(log) == b"one\ntwo\n[redacted]\n"
    assert (segment.filtered, segment.edited) == (6, -6)
    check_account(harness)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_kill_while_the_journal_is_migrated_leaves_the_version_before(harness, monkeypatch, version):
    harness.send(log := Log(b"one\n"), 0, 4)
    await harness.drain()
    await as_version_1(harness)
    first, *_ = MIGRATIONS[version]
    monkeypatch.setitem(MIGRATIONS, version, (first, "no SQL"))
    with pytest.raises(Exception, match="cannot be used"):
        Journal(harness.journal_path)
    monkeypatch.undo()
    await harness.drain(Until.SEALED)
    assert harness.text(log) == b"one\n"
