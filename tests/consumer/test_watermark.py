"""The decisions about one block, as pure functions."""

import zlib
from dataclasses import replace

import pytest

from consumer.commit.watermark import (
    REASON_ELSEWHERE,
    REASON_MISSING,
    GivenUp,
    SourceCrc,
    after_handoff,
    begin,
    missing_parts,
    skip_to,
    source_crc,
)
from consumer.model import ArchivedSource
from shipper.model import Block, Edited, Encoding, Handoff, Span

HERE = "00c0ffee00c0ffee"
DATA = b"one\ntwo\nthree\n"
ID = "00000000000000a1"


def block(start: int, end: int, *, handoff: Handoff | None = None, edited: Edited | None = None) -> Block:
    return Block(
        source=ID,
        file="/var/log/app.log",
        span=Span(start, end),
        origin=0,
        lines=DATA[start:end].count(b"\n"),
        block_crc=zlib.crc32(DATA[start:end]),
        source_crc=zlib.crc32(DATA[:end]),
        encoding=Encoding.IDENTITY,
        read_at="2026-11-20T10:00:00Z",
        handoff=handoff,
        edited=edited,
    )


def archived(watermark: int, *, proven: bool = True) -> ArchivedSource:
    known = begin(block(0, 4), "web1")
    return replace(known, watermark=watermark, crc=zlib.crc32(DATA[:watermark]), proven=proven)


# -- a source that was in another partition before ----------------------------------------------------------------


def test_the_crc_of_a_handoff_from_the_same_archive_stays_proven():
    handoff = Handoff(8, zlib.crc32(DATA[:8]), HERE)
    taken = after_handoff(block(8, 14, handoff=handoff), archived(0), HERE)
    assert (taken.watermark, taken.crc, taken.proven) == (8, zlib.crc32(DATA[:8]), True)


def test_the_crc_of_a_handoff_from_another_archive_is_used_but_not_proven():
    handoff = Handoff(8, zlib.crc32(DATA[:8]), "another0another0")
    taken = after_handoff(block(8, 14, handoff=handoff), archived(0), HERE)
    assert (taken.watermark, taken.crc, taken.proven) == (8, zlib.crc32(DATA[:8]), False)


@pytest.mark.parametrize(("crc", "proven"), [(None, True), (7, False)])
def test_a_handoff_proves_nothing_without_a_crc_or_after_bytes_that_are_not_proven(crc, proven):
    assert not after_handoff(block(8, 14, handoff=Handoff(8, crc, HERE)), archived(0, proven=proven), HERE).proven


def test_a_handoff_before_the_watermark_changes_nothing():
    known = archived(8)
    assert after_handoff(block(8, 14, handoff=Handoff(8, 7, HERE)), known, HERE) is known


# -- the CRC of a source ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("watermark", [4, 6])
def test_a_block_continues_the_crc_of_the_archived_bytes(watermark):
    found = source_crc(block(4, 8), archived(watermark), DATA[watermark:8])
    assert found == SourceCrc(zlib.crc32(DATA[:8]), is_proven=True)


def test_another_crc_shows_that_the_file_was_rewritten():
    found = source_crc(block(4, 8), replace(archived(4), crc=7), DATA[4:8])
    assert found == SourceCrc(zlib.crc32(DATA[:8]), is_proven=False, is_rewritten=True)


def test_the_crc_of_an_edited_block_is_not_checked():
    found = source_crc(block(4, 8, edited=Edited(2, 0)), replace(archived(4), crc=7), b"t\n")
    assert found == SourceCrc(zlib.crc32(DATA[:8]), is_proven=True)


def test_a_block_before_the_watermark_leaves_the_crc():
    assert source_crc(block(0, 4), archived(8), b"") == SourceCrc(zlib.crc32(DATA[:8]), is_proven=True)


def test_the_crc_is_unknown_and_not_proven_after_a_gap():
    after = skip_to(archived(4), 8)
    assert (after.watermark, after.crc, after.proven) == (8, None, False)
    assert source_crc(block(8, 14), after, DATA[8:14]) == SourceCrc(zlib.crc32(DATA), is_proven=False)


# -- gaps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [0, 4, 6, 8, 20])
def test_the_bytes_of_another_archive_are_the_first_part_of_a_gap(elsewhere):
    border = min(max(elsewhere, 4), 8)
    assert missing_parts(Span(4, 8), GivenUp(8, elsewhere)) == (
        (Span(4, border), REASON_ELSEWHERE),
        (Span(border, 8), REASON_MISSING),
    )
