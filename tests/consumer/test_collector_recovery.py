"""Killed anywhere, refused by the disk, robbed of files: what the archive holds is what was sent, or is reported."""

import contextlib
import errno
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from collecting import HOST, KilledError, Log, PartitionHarness, cuts, kill_at
from harness.waiting import becomes

from consumer.archive.directory import check_journal, journal_directory, note_journal, open_archive
from consumer.archive.journal import Journal
from consumer.commit.applier import Applier
from consumer.commit.sink import Sink
from consumer.model import Until
from consumer.partition import dead_letters
from shipper.errors import ConfigError, Fatal, Unavailable
from shipper.testing import MemoryInbox

LINES = b"".join(b"%d a line\n" % number for number in range(200))
POINTS = [
    (Applier, "stage"),
    (Journal, "register"),
    (Sink, "create"),
    (Sink, "append"),
    (dead_letters, "keep"),
    (Sink, "sync"),
    (Journal, "commit"),
    (MemoryInbox, "ack"),
]


def fill(harness: PartitionHarness) -> list[Log]:
    """Blocks of three sources, two of them in one file, plain lines and a damaged block."""
    logs = [
        Log(LINES),
        Log(LINES[:-1], id="00000000000000b2", file="/var/log/other.log"),
        Log(LINES, id="00000000000000c3", file="/var/log/other.log"),
    ]
    for log in logs:
        for span in cuts(log.data, 500):
            harness.send(log, *span)
            harness.say(b"plain %d" % span[0])
    harness.bus.store(f"logs.p0.{HOST}", {"Log-Id": "bad"}, b"poison")
    return logs


def is_whole(harness: PartitionHarness) -> None:
    assert harness.text(file="/var/log/app.log") == LINES
    assert harness.text(file="/var/log/other.log") == LINES + LINES  # the missing newline is the collector's
    plain = b"".join(b"plain %d\n" % start for start, _ in cuts(LINES, 500))
    assert harness.text(file="messages.log") == b"".join([plain] * 3)
    assert [dead.payload for dead in harness.dead] == [b"poison"]


@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(("owner", "name"), POINTS, ids=[name for _, name in POINTS])
async def test_a_kill_between_any_two_of_the_adjacent_statements_loses_and_doubles_nothing(
    owner, name, after, batch_bytes, tmp_path, monkeypatch
):
    harness = PartitionHarness(tmp_path, batch_bytes=batch_bytes)
    fill(harness)
    if name in {"keep", "ack"}:
        original = getattr(owner, name)

        async def killed(*arguments: Any, **named: Any) -> None:
            monkeypatch.setattr(owner, name, original)
            if after:
                await original(*arguments, **named)
            raise KilledError(name)

        monkeypatch.setattr(owner, name, killed)
    else:
        kill_at(monkeypatch, owner, name, after=after)
    await harness.die()
    await harness.drain()
    is_whole(harness)


async def test_a_kill_in_the_middle_of_a_write_leaves_nothing_of_it(harness, monkeypatch):
    fill(harness)

    def half(descriptor: int, buffers: list[bytes], offset: int) -> int:
        os.pwrite(descriptor, buffers[0][:100], offset)
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", half)
        await harness.die()
    await harness.drain()
    is_whole(harness)


async def test_a_short_write_is_completed(harness, monkeypatch):
    fill(harness)
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, offset: os.pwrite(fd, b"".join(buffers)[:7], offset))
    await harness.drain()
    is_whole(harness)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(Sink, "create"), (Sink, "append"), (Sink, "sync"), (Sink, "recover"), (Journal, "commit"), (Journal, "register")],
)
async def test_an_error_of_the_archive_is_tried_again_and_nothing_is_acknowledged_meanwhile(
    owner, name, number, harness, monkeypatch
):
    fill(harness)
    original, tries, floors = getattr(owner, name), [], []

    def refused(*arguments: Any, **named: Any) -> Any:
        tries.append(name)
        floors.append(harness.stream.ack_floor)
        if len(tries) <= 2:
            raise OSError(number, os.strerror(number))
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, refused)
    monkeypatch.setattr("consumer.partition.disk_pause.ARCHIVE.delay", lambda attempt: 0.001)
    await harness.drain()
    assert floors[:3] == [0, 0, 0]
    is_whole(harness)


async def test_a_journal_that_cannot_commit_is_read_again_before_anything_is_cut_off(harness, monkeypatch):
    """A failed commit may be on the disk all the same: the content of the journal is what counts."""
    fill(harness)
    original, tries = Journal.commit, []

    def failed(self: Journal, changes: Any) -> None:
        tries.append(1)
        if len(tries) == 1:
            with contextlib.closing(Journal(self.path)) as other:
                other.commit(changes)  # it is durable, but not acknowledged
            raise sqlite3.OperationalError("disk I/O error")
        original(self, changes)

    monkeypatch.setattr(Journal, "commit", failed)
    monkeypatch.setattr("consumer.partition.disk_pause.ARCHIVE.delay", lambda attempt: 0.001)
    await harness.drain()
    is_whole(harness)


async def test_a_drain_does_not_try_for_ever_where_the_disk_stays_full(harness, monkeypatch):
    fill(harness)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Sink, "append", full)
    harness.patience = 0.5
    with pytest.raises(Unavailable, match="No space left"):
        await harness.drain()
    assert harness.stream.ack_floor == 0


async def test_a_collector_that_runs_waits_for_the_disk_as_long_as_it_takes(harness, monkeypatch):
    fill(harness)
    original, tries = Sink.sync, []

    def full(self: Sink) -> None:
        tries.append(1)
        if len(tries) <= 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(self)

    monkeypatch.setattr(Sink, "sync", full)
    monkeypatch.setattr("consumer.partition.disk_pause.ARCHIVE.delay", lambda attempt: 0.001)
    async with harness.running() as worker:
        await becomes(lambda: harness.stream.ack_floor == harness.stream.last_sequence)
        await becomes(lambda: worker.trouble == "")  # not immediately: a nearly full disk takes a batch now and then
    is_whole(harness)


async def test_bytes_that_are_not_committed_are_cut_off(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(b"one\ntwo\n")
    harness.send(log, 0, 4)
    await harness.drain()
    path = next(harness.archive.rglob("_open-*"))
    path.write_bytes(b"one\ntwo\nthr")
    harness.send(log, 4, 8)
    await harness.drain()
    assert harness.text(log) == b"one\ntwo\n"


@pytest.mark.parametrize(("left", "missing"), [(b"one\ntw", 5), (b"one\n", 7), (None, 11)])
async def test_committed_bytes_that_were_removed_from_outside_are_reported_and_the_next_line_is_whole(
    left, missing, tmp_path, monkeypatch
):
    harness, log, told = PartitionHarness(tmp_path), Log(b"one\ntwoooo\nthree\n"), []
    monkeypatch.setattr("shipper.events.archive_damaged", lambda **what: told.append(what["missing"]))
    harness.send(log, 0, 11)
    await harness.drain()
    path = next(harness.archive.rglob("_open-*"))
    path.unlink() if left is None else path.write_bytes(left)
    harness.send(log, 11, 17)
    await harness.drain(Until.SEALED)
    assert told == [missing]
    closed = b"" if left in {None, b"one\n"} else b"\n"
    assert harness.text(log) == (left or b"") + closed + b"three\n"
    start = len(left or b"")
    assert [(gap.source, gap.start, gap.end, gap.reason) for gap in harness.segments()[0].gaps] == [
        ("", start, start + missing, "archive_changed")
    ]


async def test_a_torn_write_ahead_log_loses_the_last_batch_of_the_journal_only(harness, log, tmp_path):
    """What power loss leaves: the stream still has it, because it was not acknowledged before the commit."""
    middle = 1000
    harness.send(log, 0, middle)
    with harness.worker() as worker:
        await worker.run()
        harness.send(log, middle, len(LINES))
    with harness.worker() as worker:
        await worker.run()
        _copy(harness.journal_path, tmp_path / "torn")
    whole = (tmp_path / "torn.sqlite-wal").read_bytes()
    for length in range(len(whole), 0, -1500):
        shutil.copy(tmp_path / "torn.sqlite", harness.journal_path)
        Path(f"{harness.journal_path}-wal").write_bytes(whole[:length])
        with harness.journal() as journal:
            if journal.position.applied == 1:
                break
    await harness.drain()
    assert harness.text(log) == LINES


def _copy(path: Path, to: Path) -> None:
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{to}.sqlite{suffix}")


def test_a_journal_of_garbage_is_refused_with_a_next_step(tmp_path):
    path = tmp_path / "journal.sqlite"
    path.write_bytes(os.urandom(8192))
    with pytest.raises(Fatal, match="cannot be used") as caught:
        Journal(path)
    assert "restore" in caught.value.hint


def test_a_journal_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(ConfigError, match="version 99"):
        Journal(path)


@pytest.mark.parametrize("what", ["missing", "empty"])
@pytest.mark.parametrize("trace", ["files", "note"])
def test_a_new_journal_over_an_old_archive_is_refused(what, trace, tmp_path):
    journal = tmp_path / "p0.sqlite"
    check_journal(tmp_path, journal, 0)
    (tmp_path / "_lock").mkdir()
    if trace == "files":
        (tmp_path / "date=2026-11-20/partition=0").mkdir(parents=True)
    else:
        note_journal(tmp_path, 0)  # the files of a template do not name their host
    if what == "empty":
        journal.touch()
    with pytest.raises(Fatal, match="holds files of partition 0"):
        check_journal(tmp_path, journal, 0)
    check_journal(tmp_path, journal, 1)
    Journal(journal).close()
    check_journal(tmp_path, journal, 0)


def test_two_collectors_that_begin_an_archive_together_agree_on_its_identity(tmp_path, monkeypatch):
    first = open_archive(tmp_path)
    monkeypatch.setattr(Path, "exists", lambda self: False)  # the other one scanned before the first had written
    assert open_archive(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == ["_archive.json"]


def test_a_directory_that_cannot_be_an_archive_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot use the archive directory"):
        open_archive(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot use the state directory"):
        journal_directory(tmp_path, "id", tmp_path / "file")
