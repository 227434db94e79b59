"""Whatever way the blocks of a source come, the archive holds its bytes once and in order."""

import itertools
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from collecting import FILE, HOST, Log, PartitionHarness, applier_of
from hypothesis import given
from hypothesis import strategies as st

from consumer.archive.journal import Journal
from consumer.commit.sink import Sink
from consumer.commit.watermark import BlockOutcome, judge, missing_after, missing_before
from consumer.model import ArchivedSource, SourceKey, Until
from shipper.model import Block, Delivery, Encoding, End, Span

SIZE = 60


def block(start: int, end: int, *, last: End | None = None, gap: int = 0, origin: int = 0) -> Block:
    return Block(
        source="00000000000000a1", file=FILE, span=Span(start, end), origin=origin, lines=0, block_crc=0, source_crc=0,
        encoding=Encoding.IDENTITY, read_at="", end=last, gap=gap,
    )  # fmt: skip


def known(watermark: int, *, ended: bool = False, origin: int = 0) -> ArchivedSource:
    return ArchivedSource(
        id="00000000000000a1", host=HOST, file=FILE, origin=origin, watermark=watermark, crc=0, ended=ended
    )


@pytest.mark.parametrize(
    ("start", "end", "verdict"),
    [
        (10, 20, BlockOutcome.WRITE),  # continues
        (0, 20, BlockOutcome.WRITE),  # reaches beyond
        (9, 11, BlockOutcome.WRITE),
        (0, 10, BlockOutcome.DUPLICATE),
        (2, 7, BlockOutcome.DUPLICATE),
        (10, 10, BlockOutcome.DUPLICATE),
        (11, 20, BlockOutcome.HOLE),
        (11, 11, BlockOutcome.HOLE),
    ],
)
def test_a_block_is_accepted_iff_it_begins_at_or_before_the_watermark_and_ends_after_it(start, end, verdict):
    assert judge(block(start, end), known(10)) is verdict


def test_the_end_of_a_source_is_news_once():
    farewell = block(10, 10, last=End.ROTATED)
    assert judge(farewell, known(10)) is BlockOutcome.WRITE
    assert judge(farewell, known(10, ended=True)) is BlockOutcome.DUPLICATE
    assert judge(farewell, known(9)) is BlockOutcome.HOLE


def test_what_is_given_up_is_passed_and_nothing_beyond_it():
    assert judge(block(11, 20), known(10), given_up_at=11) is BlockOutcome.GAP
    assert judge(block(12, 20), known(10), given_up_at=11) is BlockOutcome.HOLE
    assert missing_before(block(15, 20), known(10)) == Span(10, 15)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_a_lost_end_counts_only_bytes_that_the_archive_lacks(at, gap, watermark):
    lost = missing_after(block(at, at, last=End.TRUNCATED, gap=gap), known(watermark))
    assert set(range(*lost)) == set(range(at, at + gap)) - set(range(watermark))


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.booleans(), st.booleans())
def test_every_block_has_exactly_one_verdict_and_none_loses_bytes(start, length, watermark, ends, ended):
    verdict = judge(block(start, start + length, last=End.DELETED if ends else None), known(watermark, ended=ended))
    new = set(range(start, start + length)) - set(range(watermark))
    if verdict is BlockOutcome.DUPLICATE:
        assert not new
    if verdict is BlockOutcome.HOLE:
        assert start > watermark
    if new and start <= watermark:
        assert verdict is BlockOutcome.WRITE


@st.composite
def sessions(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Interleaved go-back-N sessions: each sends without holes from something that was archived when it began."""
    streams: list[list[tuple[int, int]]] = []
    for _ in range(draw(st.integers(1, 4))):
        begin_at = draw(st.integers(0, SIZE)) if streams else 0
        borders = sorted({begin_at, *draw(st.lists(st.integers(begin_at, SIZE), max_size=6)), SIZE})
        streams.append(list(itertools.pairwise(borders)))
    order: list[tuple[int, int]] = []
    while any(streams):
        chosen = draw(st.sampled_from([stream for stream in streams if stream]))
        order.append(chosen.pop(0))
    return order


@given(sessions(), st.integers(1, 5), st.binary(min_size=SIZE, max_size=SIZE))
def test_any_interleaving_of_resends_gives_the_source_exactly(order, at_once, data):
    """A session that began too late leaves a missing range; a last resend from the origin, as requested, fills it."""
    log = Log(data, encoding=Encoding.IDENTITY)
    with TemporaryDirectory() as directory:
        archive = Path(directory)
        journal, sink = Journal(archive / "journal"), Sink(archive, open_files=8, links=True)
        applier = applier_of(journal, sink)
        messages = [log.message(*span) for span in [*order, (0, SIZE)]]
        deliveries = [
            Delivery(number, number, 0, subject, headers, payload, "")
            for number, (subject, headers, payload) in enumerate(messages, 1)
        ]
        holes = {}
        for first in range(0, len(deliveries), at_once):
            staged = applier.stage(applier.begin(deliveries[first : first + at_once], holes, {}))
            sink.sync()
            journal.commit(staged)
            holes = staged.holes
            at = journal.source(SourceKey(HOST, log.id))
            length = next(iter(journal.files.values())).length if journal.files else 0
            assert length == (at.watermark if at else 0)
            assert at is None or at.crc == zlib.crc32(data[: at.watermark])
        assert not holes
        assert journal.position.resume == len(deliveries) + 1
        assert next(archive.rglob("_open-*")).read_bytes() == data
        assert [(span.start, span.end) for span in journal.spans(next(iter(journal.files)))] == [(0, SIZE)]
        sink.close()
        journal.close()


async def test_the_overlap_of_a_resent_block_is_trimmed(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(b"one\ntwo\nthree\n")
    for span in [(0, 8), (0, 4), (4, 14), (0, 14)]:
        harness.send(log, *span)
    await harness.drain()
    harness.send(log, 4, 8)  # alone in its batch
    await harness.drain(Until.SEALED)
    assert harness.text(log) == log.data
    assert harness.segments()[0].duplicates == 3


async def test_a_source_begins_at_its_origin(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(b"old\nnew\n", origin=4)
    harness.send(log, 4, 8)
    await harness.drain()
    assert harness.text(log) == b"new\n"


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_every_encoding_comes_out_as_it_went_in(tmp_path, encoding):
    harness, log = PartitionHarness(tmp_path), Log(b"one\r\n\ntw\0o\n", encoding=encoding)
    harness.send(log, 0, 5, 6, 11)
    await harness.drain()
    assert harness.text(log) == log.data


async def test_a_source_that_ended_without_a_newline_is_closed_by_one_before_the_next(tmp_path):
    harness, first, second = PartitionHarness(tmp_path), Log(b"no newline"), Log(b"another\n", id="00000000000000b2")
    harness.send(first, 0, 10)
    await harness.drain()  # the rest comes to another process
    harness.send(second, 0, 8)
    await harness.drain(Until.SEALED)
    assert harness.text(first) == b"no newline\nanother\n"
    segment = harness.segments()[0]
    assert (segment.joins, segment.lines, segment.bytes_raw) == (1, 2, 19)
    assert [(span.source, span.start, span.end) for span in segment.spans] == [(first.id, 0, 10), (second.id, 0, 8)]


async def test_the_rest_of_a_line_continues_it(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(b"no newline yet\n")
    harness.send(log, 0, 10, 15)
    await harness.drain()
    assert harness.text(log) == log.data


async def test_a_plain_message_after_an_open_line_is_a_line_of_its_own(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(b"open", file="/messages.log")
    harness.send(log, 0, 4)
    harness.say(b"plain")
    await harness.drain()
    assert harness.text(log) == b"open\nplain\n"


async def test_plain_messages_are_written_once_over_restarts(harness):
    for number in range(10):
        harness.say(b"%d" % number)
        if number % 3 == 0:
            await harness.drain()
    await harness.drain()
    assert harness.text(file="messages.log") == b"".join(b"%d\n" % number for number in range(10))


async def test_cloned_machines_with_the_same_source_ids_do_not_disturb_each_other(harness):
    logs = [Log(b"mine\n"), Log(b"yours\n", host="web2.example.net")]
    for log in logs:
        harness.send(log, 0, len(log.data))
    await harness.drain()
    assert [harness.text(log) for log in logs] == [b"mine\n", b"yours\n"]
    assert not len(harness.dead)


@pytest.mark.parametrize("gap", [0, 7])
async def test_a_farewell_is_noted_once_however_often_it_comes(tmp_path, gap):
    harness, log = PartitionHarness(tmp_path), Log(b"one\n")
    harness.send(log, 0, 4)
    for _ in range(3):
        harness.send(log, 4, 4, last=End.TRUNCATED, gap=gap)
        await harness.drain()
    await harness.drain(Until.SEALED)
    segment = harness.segments()[0]
    assert [(lost.start, lost.end, lost.reason) for lost in segment.gaps] == ([(4, 11, "truncated")] if gap else [])
    assert harness.text(log) == b"one\n"


async def test_the_loss_of_a_source_of_which_nothing_came_is_in_the_manifest(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(b"")
    harness.send(log, 0, 0, last=End.DELETED, gap=100)
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert (segment.bytes_raw, segment.gaps[0].end) == (0, 100)


async def test_a_farewell_from_before_what_is_here_moves_nothing_back(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(b"one\ntwo\nend\n")
    harness.send(log, 0, 8)
    subject, headers, payload = log.message(4, 4, last=End.ROTATED)
    harness.bus.store(subject, headers, payload)
    harness.bus.store(subject, headers | {"Log-Crc": "ffffffff-00000000"}, b"damaged")
    harness.send(log, 4, 12)
    await harness.drain()
    assert harness.text(log) == log.data


async def test_a_file_rewritten_in_place_is_written_and_reported(tmp_path, monkeypatch):
    harness, log = PartitionHarness(tmp_path), Log(b"one\ntwo\n")
    told = []
    monkeypatch.setattr("shipper.events.source_rewritten", lambda **what: told.append(what["offset"]))
    harness.send(log, 0, 4)
    log.data = b"ONE\ntwo\n"
    harness.send(log, 4, 8)
    await harness.drain()
    assert harness.text(log) == b"one\ntwo\n"
    assert told == [4]
