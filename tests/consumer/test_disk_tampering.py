"""A process deletes, renames, replaces or cuts open files of the collector: no byte goes to a deleted file."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from collecting import Log, PartitionHarness
from harness.waiting import becomes

from consumer.archive.journal import Journal
from consumer.model import Changes, Position, Until
from consumer.partition import maintenance

LINES = b"one\ntwo\nthree\n"


def opened(harness: PartitionHarness, log: Log) -> Path:
    (path,) = harness.archive.glob(f"date=*/partition=0/host={log.host}/_open-*")
    return path


def rotate(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.touch()


def replace(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.write_bytes(b"foreign bytes, more of them than were there\n")


HARM: dict[str, tuple[Callable[[Path], object], bytes]] = {
    "deleted": (Path.unlink, b""),
    "renamed": (lambda path: path.rename(path.with_name("moved")), b""),
    "rotated": (rotate, b""),
    "cut in place": (lambda path: os.truncate(path, 0), b""),
    "cut to a part of it": (lambda path: os.truncate(path, 2), b"on"),
    "with its directory": (lambda path: shutil.rmtree(path.parent), b""),
    "with its day": (lambda path: shutil.rmtree(path.parents[2]), b""),
}


@pytest.mark.parametrize(("harm", "left"), HARM.values(), ids=HARM)
async def test_a_file_that_was_removed_from_outside_is_recorded_and_later_bytes_go_to_a_new_one(
    harness, log, harm, left
):
    harness.send(log, 0, 4)
    async with harness.running() as worker:
        await becomes(lambda: harness.text(log) == b"one\n" and worker.journal.position.applied == 1)
        harm(opened(harness, log))
        harness.send(log, 4, 8, 14)
        await becomes(lambda: worker.journal.position.applied == 3)
    await harness.drain(Until.SEALED)
    assert harness.text(log) == left + (b"\n" if left else b"") + b"two\nthree\n"
    (segment,) = harness.segments()
    assert [(gap.source, gap.start, gap.end, gap.reason) for gap in segment.gaps] == [
        ("", len(left), 4, "archive_changed")
    ]


@pytest.mark.parametrize("harm", ["deleted", "renamed", "cut in place"])
async def test_a_file_without_a_writer_is_missed_too(tmp_path, monkeypatch, harm):
    monkeypatch.setattr(maintenance, "POLL_SECONDS", 0.05)
    harness, log = PartitionHarness(tmp_path), Log(LINES)
    harness.send(log, 0, 4)
    async with harness.running() as worker:
        await becomes(lambda: worker.journal.position.applied == 1)
        path = opened(harness, log)
        HARM[harm][0](path)
        with harness.journal() as journal:
            await becomes(lambda: [gap.reason for gap in journal.gaps(str(path.relative_to(harness.archive)))])
        assert path.read_bytes() == b""


async def test_a_file_that_was_replaced_by_a_longer_one_gets_nothing_more_until_it_is_cut_back(harness, log):
    harness.send(log, 0, 4)
    async with harness.running() as worker:
        await becomes(lambda: worker.journal.position.applied == 1)
        replace(opened(harness, log))
        harness.send(log, 4, 8)
        await becomes(lambda: worker.journal.position.applied == 2)
    assert opened(harness, log).read_bytes() == b"foretwo\n"  # its sum shows it when it is sealed, and the audit before


async def test_what_is_in_a_link_under_live_is_never_written_through(harness, log, tmp_path):
    """A directory that another user replaced by a link to elsewhere: `live/` is a convenience, the archive is not."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (harness.archive / "live").mkdir()
    (harness.archive / "live" / log.host).symlink_to(elsewhere)
    harness.send(log, 0, 4)
    await harness.drain()
    assert harness.text(log) == b"one\n"
    assert not [path for path in elsewhere.rglob("*") if path.is_file() and not path.is_symlink()]


def test_a_journal_that_was_removed_or_replaced_is_not_written_on(tmp_path):
    path, aside = tmp_path / "journal.sqlite", tmp_path / "aside"
    journal = Journal(path)
    journal.commit(Changes(position=Position(applied=1)))
    path.rename(aside)
    with pytest.raises(OSError, match=r"journal\.sqlite"):
        journal.commit(Changes(position=Position(applied=2)))
    with pytest.raises(OSError, match=r"journal\.sqlite"):
        journal.reload()
    path.touch()
    with pytest.raises(OSError, match="another program"):
        journal.reload()
    with pytest.raises(OSError, match="another program"):
        journal.commit(Changes(position=Position(applied=2)))
    aside.rename(path)
    journal.reload()
    assert journal.position.applied == 1
    journal.commit(Changes(position=Position(applied=2)))
    journal.close()


async def test_short_writes_are_written_on_to_the_last_byte(tmp_path, monkeypatch):
    log = Log(b"".join(b"%d\n" % number for number in range(40_000)))
    harness, write, write_one = PartitionHarness(tmp_path), os.pwritev, os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: write(fd, [bytes(b"".join(buffers))[:7]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write_one(fd, bytes(data)[:50_000], at))
    harness.send(log, 0, 100_000)
    harness.send(log, 100_000, len(log.data))
    await harness.drain()
    assert harness.text(log) == log.data
