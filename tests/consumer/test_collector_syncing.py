"""Many files are made durable by one call, where the file system reports what it could not write; else one by one."""

import ctypes
import errno
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from collecting import HOST, Log, cuts

from consumer.commit import disk_io
from consumer.commit import sink as sinks
from consumer.commit.disk_io import FileSystem
from consumer.commit.sink import Sink
from consumer.model import OpenFile
from consumer.segments import sealer
from shipper.layout import FileKey

LINES = b"".join(b"%d a line\n" % number for number in range(200))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of the kernel; the file system below the test counts as one that reports."""
    made: list[str] = []
    sync_all, sync_one, sync_directory = FileSystem.sync, os.fdatasync, disk_io.sync_directory

    def all_at_once(self: FileSystem) -> None:
        made.append("all")
        sync_all(self)

    def one(descriptor: int) -> None:
        made.append("one")
        sync_one(descriptor)

    def directory(path: Path) -> None:
        made.append("directory")
        sync_directory(path)

    monkeypatch.setattr(disk_io, "_reports", lambda _: True)
    monkeypatch.setattr(FileSystem, "sync", all_at_once)
    monkeypatch.setattr(os, "fdatasync", one)
    monkeypatch.setattr(disk_io, "sync_directory", directory)
    return made


def files(count: int) -> list[OpenFile]:
    keys = [FileKey("2026-11-20", 0, HOST, f"/var/log/{number}.log") for number in range(count)]
    return [OpenFile(path=f"date=2026-11-20/{key.file[9:]}", key=key) for key in keys]


def written(sink: Sink, count: int) -> None:
    for file in files(count):
        sink.append(file, [b"a line\n"], at=0)


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    sink = Sink(tmp_path, open_files=1000, links=False)
    yield sink
    sink.close()


# -- which way ----------------------------------------------------------------------------------------------------


def test_few_files_are_synced_one_by_one_and_many_by_one_call(sink, calls):
    for file in files(300):
        sink.create(file)
    sink.sync()
    calls.clear()
    written(sink, 3)
    sink.sync()
    assert calls == ["one"] * 3
    calls.clear()
    written(sink, 300)
    sink.sync()
    assert calls == ["all"]
    calls.clear()
    sink.sync()
    assert calls == []


def test_where_one_call_for_all_takes_longer_files_are_synced_one_by_one(sink, calls, monkeypatch):
    for file in files(300):
        sink.create(file)
    now = [0.0]
    monkeypatch.setattr(disk_io.time, "monotonic", lambda: now[0])

    def slowly(_: FileSystem) -> None:
        calls.append("all")
        now[0] += 60.0

    monkeypatch.setattr(FileSystem, "sync", slowly)
    for _ in range(3):
        written(sink, 300)
        sink.sync()
    assert calls.count("all") == 1
    assert calls.count("one") == 600


def test_a_file_system_that_does_not_report_what_failed_is_not_synced_as_a_whole(sink, calls, monkeypatch):
    monkeypatch.setattr(disk_io, "_reports", lambda _: False)
    for file in files(300):
        sink.create(file)
    written(sink, 300)
    sink.sync()
    assert calls.count("one") == 300
    assert "all" not in calls


@pytest.mark.parametrize(("can_sync_all", "expected"), [(True, ["all"]), (False, ["one"] * 50)])
def test_files_that_were_closed_to_make_room_are_synced_too(can_sync_all, expected, tmp_path, calls, monkeypatch):
    monkeypatch.setattr(disk_io, "_reports", lambda _: can_sync_all)
    sink = Sink(tmp_path, open_files=8, links=False)
    for file in files(50):
        sink.create(file)
    sink.sync()
    calls.clear()
    written(sink, 50)
    sink.sync()
    assert calls == expected
    sink.close()


# -- what is left in memory ---------------------------------------------------------------------------------------


def is_in_memory(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


def test_what_is_durable_of_a_file_that_grows_fast_makes_room_in_memory(sink, tmp_path):
    if not disk_io._reports(tmp_path):
        pytest.skip("here a file system may keep everything in memory")
    slow, fast = files(2)
    for file, size in ((slow, 100), (fast, sinks.START_BYTES)):
        sink.create(file)
        sink.append(file, [b"x" * size], at=0)
        sink.sync()
        sink.append(replace(file, length=size), [b"y" * size], at=size)
    assert [is_in_memory(tmp_path / file.path) for file in (slow, fast)] == [True, False]
    sink.sync()
    for file, size in ((slow, 100), (fast, sinks.START_BYTES)):
        assert (tmp_path / file.path).read_bytes() == b"x" * size + b"y" * size


@pytest.mark.parametrize(("size", "stays"), [(sealer.LARGE_BYTES - 1, True), (sealer.LARGE_BYTES, False)])
def test_a_large_segment_makes_room_in_memory(size, stays, tmp_path):
    if not disk_io._reports(tmp_path):
        pytest.skip("here a file system may keep everything in memory")
    paths = [tmp_path / f"segment-{number}" for number in range(5)]  # a busy kernel may keep one of them
    for path in paths:
        with sealer.new_segment_file(path) as fresh:
            fresh.stream.write(b"x" * size)
            assert fresh.publish()
    assert all(is_in_memory(path) for path in paths) == stays
    assert all(path.read_bytes() == b"x" * size for path in paths)


# -- names --------------------------------------------------------------------------------------------------------


def test_the_names_that_lead_to_a_new_file_are_durable_when_it_is(sink, calls, tmp_path):
    sink.create(files(1)[0])
    sink.sync()
    assert calls.count("directory") == 2  # the archive, and the day's
    calls.clear()
    written(sink, 1)
    sink.sync()
    assert calls == ["one"]


def test_names_whose_sync_failed_are_synced_with_the_next(sink, calls, monkeypatch):
    def failed(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    sink.create(files(1)[0])
    with monkeypatch.context() as patched:
        patched.setattr(disk_io, "sync_directory", failed)
        with pytest.raises(OSError, match="Input/output"):
            sink.sync()
    sink.recover(files(1), partition=0)
    sink.sync()
    assert calls.count("directory") == 2


def test_the_name_of_a_file_that_was_created_before_a_kill_is_synced_after_it(sink, calls, tmp_path):
    sink.create(files(1)[0])
    behind_the_kill = Sink(tmp_path, open_files=8, links=False)
    behind_the_kill.recover(files(1), partition=0)
    behind_the_kill.sync()
    assert calls.count("directory") == 2
    behind_the_kill.close()


# -- what fails ---------------------------------------------------------------------------------------------------


async def test_a_sync_of_all_that_fails_commits_nothing_and_is_done_again_from_the_stream(harness, calls, monkeypatch):
    logs = [Log(LINES, id=f"{number:016x}", file=f"/var/log/{number}.log") for number in range(60)]
    for span in cuts(LINES, 900):
        for log in logs:
            harness.send(log, *span)
    counting = FileSystem.sync
    left = [2]

    def failing(self: FileSystem) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "Input/output error")
        counting(self)

    monkeypatch.setattr(FileSystem, "sync", failing)
    await harness.drain()
    assert left == [0]
    for log in logs:
        assert harness.text(log) == LINES


def test_a_file_system_that_takes_no_change_any_more_is_noticed_though_syncfs_found_nothing_to_do(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(disk_io, "_reports", lambda _: True)
    system = FileSystem(tmp_path)
    system.sync()

    def refused(_descriptor: int, _length: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", refused)
        with pytest.raises(OSError, match="Read-only"):
            system.sync()
    system.sync()
    system.close()


def test_the_reason_of_a_failed_syncfs_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_io, "_reports", lambda _: True)
    system = FileSystem(tmp_path)

    class Failing:
        def syncfs(self, _: int) -> int:
            ctypes.set_errno(errno.EIO)
            return -1

    with monkeypatch.context() as patched:
        patched.setattr(disk_io, "_C", Failing())
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            system.sync()
    system.close()


@pytest.fixture
def shrinking(tmp_path: Path) -> Iterator[Path]:
    """An ext4 that believes in 200 MB, on a disk that has 24: what is written after them fails, long after `write`."""
    disk, mounted = tmp_path / "disk", tmp_path / "mounted"
    disk.mkdir()
    mounted.mkdir()
    steps = [
        ["mount", "-t", "tmpfs", "-o", "size=24m", "disk", disk],
        ["truncate", "--size=200M", disk / "image"],
        ["mkfs.ext4", "-q", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard", disk / "image"],
        ["mount", "-o", "loop", disk / "image", mounted],
    ]
    done = 0
    try:
        for step in steps:
            if subprocess.run(list(map(str, step)), check=False, capture_output=True).returncode:
                pytest.skip("no file system may be mounted here")
            done += 1
        yield mounted
    finally:
        for where, needs in ((mounted, 4), (disk, 1)):
            if done >= needs:
                subprocess.run(["umount", "--lazy", str(where)], check=True)


def test_a_failed_write_is_reported_to_every_caller_that_syncs_all(shrinking):
    mine, others = FileSystem(shrinking), FileSystem(shrinking)
    failed: list[OSError] = []
    for number in range(60):
        (shrinking / str(number)).write_bytes(
            os.urandom(1 << 20)
        )  # closed after the write: no process has a descriptor any more
        try:
            mine.sync()
        except OSError as error:
            failed.append(error)
            break
    assert failed
    with pytest.raises(OSError, match=os.strerror(failed[0].errno or 0)):
        others.sync()
    mine.close()
    others.close()


# -- descriptors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "chosen", "partitions", "expected", "raised"),
    [
        ((1024, 500_000), 0, 0, 16_384, 16_640),
        ((1024, 4096), 0, 0, 3840, 4096),
        ((1024, 4096), 100, 0, 100, None),
        ((1024, 500_000), 2000, 0, 2000, 2256),
        ((100_000, 100_000), 0, 0, 16_384, None),
        ((1024, 500_000), 0, 4, 16_384, 16_672),
        ((1024, 4096), 0, 4, 3808, 4096),
        ((1024, 1024), 0, 64, 384, 1024),
    ],
)
def test_as_many_files_are_open_as_the_system_allows_within_reason(
    limits, chosen, partitions, expected, raised, monkeypatch
):
    now, asked = [limits], []

    def raise_to(_: int, new: tuple[int, int]) -> None:
        asked.append(new[0])
        now[0] = new

    monkeypatch.setattr(sinks.resource, "getrlimit", lambda _: now[0])
    monkeypatch.setattr(sinks.resource, "setrlimit", raise_to)
    assert sinks.most_open(chosen, partitions=partitions) == expected
    assert asked == ([raised] if raised else [])
