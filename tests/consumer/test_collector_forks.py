"""Two producers continue one source with other bytes: nothing of either is dropped, and one alone is never two."""

import asyncio
import zlib
from dataclasses import replace

import pytest
from collecting import HOST, Log, PartitionHarness, kill_at

from consumer.archive.journal import Journal
from consumer.commit import forks
from consumer.commit.sink import Sink
from consumer.model import SourceKey, Until
from shipper.codec import from_headers
from shipper.manifest import FORKED

SHARED = b"before 1\nbefore 2\n"
AT = len(SHARED)
ONE = Log(SHARED + b"".join(b"of the first %d\n" % number for number in range(40)))
OTHER = replace(ONE, data=SHARED + b"of the second 1\nof the second 2\n")


def fork_ids(harness: PartitionHarness) -> tuple[str, ...]:
    with harness.journal() as journal:
        return journal.forks.get(SourceKey(HOST, ONE.id), ())


async def begun(harness: PartitionHarness) -> None:
    harness.send(ONE, 0, AT, len(ONE.data))


@pytest.mark.parametrize("where", ["same batch", "same collector", "next collector", "sealed"])
@pytest.mark.parametrize("frames", ["none", "zstd", "gzip"])
async def test_other_bytes_inside_an_archived_block_are_a_source_of_their_own(tmp_path, where, frames):
    harness = PartitionHarness(tmp_path, frames=frames, codec="gzip" if frames == "gzip" else "zstd")
    await begun(harness)
    if where == "same collector":
        async with harness.running():
            while not harness.text(ONE).endswith(ONE.data[-20:]):
                await asyncio.sleep(0.01)
            harness.send(OTHER, AT, len(OTHER.data))
            while len(harness.text(ONE)) < len(ONE.data) + len(OTHER.data) - AT:
                await asyncio.sleep(0.01)
    else:
        if where != "same batch":
            await harness.drain(Until.SEALED if where == "sealed" else Until.DRAINED)
        harness.send(OTHER, AT, len(OTHER.data))
    await harness.drain()
    assert harness.text(ONE) == ONE.data + OTHER.data[AT:]
    (fork,) = fork_ids(harness)
    with harness.journal() as journal:
        known, main = journal.source(SourceKey(HOST, fork)), journal.source(SourceKey(HOST, ONE.id))
        assert (known.origin, known.watermark, known.crc) == (0, len(OTHER.data), zlib.crc32(OTHER.data))
        assert (main.watermark, main.crc) == (len(ONE.data), zlib.crc32(ONE.data))
        assert journal.forked == {HOST: known.seen_ns}
    await harness.drain(Until.SEALED)
    gaps = [(gap.source, gap.start, gap.end, gap.reason) for each in harness.segments() for gap in each.gaps]
    assert gaps == [(fork, 0, AT, FORKED)]


@pytest.mark.parametrize("frames", ["none", "zstd"])
@pytest.mark.parametrize("sealed", [False, True])
async def test_the_same_bytes_again_are_no_fork_however_they_are_cut(tmp_path, frames, sealed):
    harness = PartitionHarness(tmp_path, frames=frames)
    rotated = Log(b"of the rotated file\n" * 9, id="00000000000000a0")
    harness.send(rotated, 0, len(rotated.data))
    await begun(harness)
    await harness.drain(Until.SEALED if sealed else Until.DRAINED)
    for start in (0, 3, AT, AT + 20):
        for end in (AT + 25, AT + 100, len(ONE.data)):
            harness.send(ONE, start, end)
    await harness.drain()
    assert harness.text(ONE) == rotated.data + ONE.data
    assert fork_ids(harness) == ()


async def test_both_continue_from_both_forks_and_one_that_is_sent_again_is_dropped(harness):
    one, other = replace(ONE), replace(OTHER)
    await begun(harness)
    written = {True: ONE.data[AT:], False: OTHER.data[AT:]}
    harness.send(OTHER, AT, len(OTHER.data))
    for turn in range(12):
        log = (one, other)[turn % 2]
        more = b"%d\n" % turn * 40
        start = len(log.data)
        log.data += more
        written[log is one] += more
        harness.send(log, start, len(log.data))
        harness.send(log, start - 2, len(log.data) - 1)  # sent again, with other borders
        if turn % 3 == 0:
            await harness.drain()
    await harness.drain()
    assert len(fork_ids(harness)) == 1
    assert len(harness.text(ONE)) == AT + sum(map(len, written.values()))
    with harness.journal() as journal:
        ends = {journal.source(SourceKey(HOST, id_)).crc for id_ in (ONE.id, *fork_ids(harness))}
    assert ends == {zlib.crc32(one.data), zlib.crc32(other.data)}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "name"), [(Sink, "append"), (Sink, "sync"), (Journal, "commit")])
async def test_killed_while_a_fork_begins_it_is_archived_once(harness, monkeypatch, owner, name, after):
    await begun(harness)
    await harness.drain()
    harness.send(OTHER, AT, len(OTHER.data))
    kill_at(monkeypatch, owner, name, after=after)
    await harness.die()
    await harness.drain()
    harness.send(OTHER, AT, len(OTHER.data))
    await harness.drain()
    assert harness.text(ONE) == ONE.data + OTHER.data[AT:]
    assert len(fork_ids(harness)) == 1


async def test_a_stream_that_was_restored_forks_nothing_and_doubles_nothing(harness):
    await begun(harness)
    harness.send(OTHER, AT, len(OTHER.data))
    await harness.drain()
    for log in (ONE, OTHER):  # producers send again what a lost server had
        harness.send(log, 0, AT, len(log.data))
    await harness.drain()
    assert harness.text(ONE) == ONE.data + OTHER.data[AT:]
    assert len(fork_ids(harness)) == 1


async def test_more_forks_than_one_source_may_have_are_dead_letters(tmp_path, monkeypatch):
    monkeypatch.setattr(forks, "MAX_FORKS", 3)
    harness = PartitionHarness(tmp_path)
    await begun(harness)
    for number in range(5):
        log = replace(ONE, data=SHARED + b"invented %d\n" % number)
        harness.send(log, AT, len(log.data))
    await harness.drain()
    assert len(fork_ids(harness)) == 3
    assert [message.headers["Dlq-Reason"].partition(":")[0] for message in harness.dead] == [
        f"source {ONE.id} of {ONE.file} has 3 forks"
    ] * 2


async def test_what_cannot_be_compared_is_a_duplicate_until_what_follows_proves_that_it_was_none(tmp_path, monkeypatch):
    monkeypatch.setattr(forks, "MAX_SCANNED_BYTES", 0)
    harness = PartitionHarness(tmp_path)
    await begun(harness)
    await harness.drain()
    harness.send(OTHER, AT, len(OTHER.data))
    await harness.drain()
    assert (harness.text(ONE), fork_ids(harness)) == (ONE.data, ())
    longer = replace(OTHER, data=OTHER.data + ONE.data)
    harness.send(longer, len(OTHER.data), len(longer.data))
    await harness.drain()
    assert harness.text(ONE) == ONE.data + ONE.data
    assert len(fork_ids(harness)) == 1


async def test_a_damaged_block_that_was_sent_again_is_a_duplicate(harness):
    await begun(harness)
    await harness.drain()
    subject, headers, _ = OTHER.message(AT, len(OTHER.data))
    harness.bus.store(subject, headers, b"damaged")
    await harness.drain()
    assert (harness.text(ONE), fork_ids(harness), len(harness.dead)) == (ONE.data, (), 0)


@pytest.mark.parametrize("start", [0, 1, AT, len(ONE.data)])
def test_the_sum_before_a_block_is_computed_from_its_sums(start):
    block = from_headers(ONE.message(start, len(ONE.data))[1])
    assert forks.crc_before(block) == zlib.crc32(ONE.data[:start])


async def test_forks_of_sources_that_are_forgotten_are_forgotten(harness):
    await begun(harness)
    harness.send(OTHER, AT, len(OTHER.data))
    await harness.drain()
    with harness.journal() as journal:
        (fork,) = journal.forks[SourceKey(HOST, ONE.id)]
        with journal._transaction():
            journal._database.execute("UPDATE sources SET ended = 1 WHERE id = ?", (fork,))
        assert journal.forget_sources(1 << 62) == 1
        assert journal.forks == {}
