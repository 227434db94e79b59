"""`delete_archived`: a file goes only when the archive has all of it, and nothing is lost by it."""

import asyncio
import fcntl
import math
import mmap
import os
import threading
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from harness.waiting import becomes
from producing import HOST, STREAM, Host, Producer, append, rotate

from producer.discovery.scanner import Listing
from producer.fingerprint import Mark
from producer.model import Destination, Place, Source
from producer.pipeline import NO_INPUTS, Cleaning
from producer.tailer import ended_files
from producer.tailer.delete_archived import ArchivedFileDeletion, archived
from producer.tailer.ended_files import DeletableFile, hidden_name
from shipper.control import Receipt
from shipper.lifecycle import Stop
from shipper.model import End
from shipper.subjects import control_up
from shipper.testing import Bus, MemoryPublisher

GRACE = 60.0
DESTINATION = Destination("logs", HOST, Place(partition=0))


class Keeper:
    """A host with removal, and a collector that answers with receipts of the host's archive; stepped by the test."""

    def __init__(self, directory: Path, *patterns: str, **options: Any) -> None:
        self.host = Host(directory, *patterns, **options)
        self.asked_at: list[float] = []
        self.answers = True
        self.falsify: dict[str, int] = {}
        bus = Bus()
        bus.add_stream(STREAM, "logs.p0.>")
        self.publisher = MemoryPublisher(bus, STREAM)
        bus.listen(MemoryPublisher(bus, STREAM), control_up(HOST), self._heard)
        self.begin()

    def begin(self) -> None:
        self.removal = ArchivedFileDeletion(GRACE, DESTINATION, rouse=lambda: None, clock=lambda: self.host.now)

    async def _heard(self, _: str, question: dict[str, Any]) -> dict[str, Any] | None:
        assert (question["ask"], question["partition"]) == ("receipts", 0)
        self.asked_at.append(self.host.now)
        archive = self.host.archive
        fields = [
            {"source": id_, "file": archive.files[id_], "origin": archive.origins[id_], "watermark": watermark}
            | {"crc": zlib.crc32(archive.bytes[id_])}
            | self.falsify
            for id_, watermark in archive.watermarks.items()
            if id_ in question["sources"]
        ]
        return {"v": 1, "receipts": fields} if self.answers else None

    async def due(self, seconds: float = 0.0) -> list[DeletableFile]:
        """Let time pass and ship what there is; what is to be deleted then."""
        self.host.now += seconds
        self.host.ship()
        assert self.removal.due(self.publisher, self.host.sources.ended_files) == []
        for _ in range(20):
            await asyncio.sleep(0)
        return self.removal.due(self.publisher, self.host.sources.ended_files)

    async def step(self, seconds: float = 0.0) -> None:
        self.removal.delete(await self.due(seconds), self.host.sources.ended_files)
        self.host.ship()

    async def prove(self) -> None:
        """Time for the receipts of the collector: they are requested for files that are unchanged at two checks."""
        await self.step(10.1)
        await self.step(10.1)

    async def long(self) -> None:
        """More than enough time for everything that may be deleted."""
        for _ in range(20):
            await self.step(10.1)


def names(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if not name.startswith("checkpoint"))


def hidden_ones(directory: Path) -> list[str]:
    return [name for name in names(directory) if name.startswith(".fshipper")]


async def test_a_file_that_a_glob_found_is_deleted_so_long_after_the_archive_has_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\ntwo\n")
    keeper = Keeper(tmp_path, "*.log")
    await keeper.prove()
    await keeper.step(GRACE - 1)
    assert path.exists()
    keeper.removal.delete(await keeper.due(10.1), keeper.host.sources.ended_files)
    assert not path.exists()
    assert keeper.host.sources.ended_files.deletable_files() == []  # it ends, before the next scan
    keeper.host.let_go()
    assert keeper.host.archive.text(path) == b"one\ntwo\n"
    (source,) = keeper.host.archive.sources_of(path)
    assert keeper.host.archive.ends[source] is End.DELETED
    assert not keeper.host.archive.gaps
    assert keeper.host.sources.acks.known[source].inode == 0  # its number is free for any other file
    assert keeper.host.open_files == 0
    assert not hidden_ones(tmp_path)


async def test_nothing_is_deleted_and_nothing_requested_while_it_is_switched_off(tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "*.log")
    keeper.removal = ArchivedFileDeletion(None, DESTINATION, rouse=lambda: None, clock=lambda: keeper.host.now)
    await keeper.long()
    assert path.exists()
    assert not keeper.asked_at


@pytest.mark.parametrize("lack", ["no answer", "behind", "other sum", "no sum", "began later"])
async def test_a_file_stays_as_long_as_the_archive_does_not_prove_that_it_has_all_of_it(
    lack: str, tmp_path: Path
) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\ntwo\n")
    keeper = Keeper(tmp_path, "*.log")
    lacks = {"behind": {"watermark": 4}, "other sum": {"crc": 1}, "no sum": {"crc": -1}, "began later": {"origin": 4}}
    keeper.answers, keeper.falsify = lack != "no answer", lacks.get(lack, {})
    await keeper.long()
    assert path.exists()
    keeper.answers, keeper.falsify = True, {}
    await keeper.long()
    assert not path.exists()


async def test_new_data_in_the_grace_time_lets_it_start_again(tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "*.log")
    await keeper.prove()
    await keeper.step(GRACE - 1)
    append(path, b"two\n")
    await keeper.step(10.1)
    await keeper.step(GRACE - 10)
    assert path.exists()
    await keeper.long()
    assert not path.exists()
    assert keeper.host.archive.text(path) == b"one\ntwo\n"


async def test_a_restart_in_the_grace_time_keeps_the_file_and_lets_it_start_again(tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "*.log")
    await keeper.prove()
    await keeper.step(GRACE - 1)
    keeper.host.restart()
    keeper.begin()
    await keeper.prove()
    await keeper.step(GRACE - 1)
    assert path.exists()
    await keeper.step(10.1)
    assert not path.exists()


async def test_a_collector_that_loses_what_it_had_lets_the_time_start_again_and_one_that_is_away_does_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "*.log")
    await keeper.prove()
    keeper.answers = False
    await keeper.step(GRACE + 1)
    assert path.exists()
    keeper.answers, keeper.falsify = True, {"watermark": 0}
    await keeper.step(10.1)
    keeper.falsify = {}
    await keeper.step(10.1)
    assert path.exists()
    keeper.answers = False
    await keeper.step(GRACE + 1)
    keeper.answers = True
    await keeper.step(10.1)
    assert not path.exists()


@pytest.mark.parametrize("nuls", [2, 4096, 3 << 20])
async def test_a_preallocated_file_is_deleted_once_the_archive_has_its_content(nuls: int, tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\ntwo\n")
    os.truncate(path, 8 + nuls)
    keeper = Keeper(tmp_path, "*.log")
    await keeper.long()
    assert not path.exists()
    assert keeper.host.archive.text(path) == b"one\ntwo\n"
    assert not keeper.host.archive.gaps


async def test_a_preallocated_file_that_is_filled_without_a_new_size_or_time_is_shipped_before_it_is_deleted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\n" + bytes(4096))
    keeper = Keeper(tmp_path, "*.log")
    ripe: list[DeletableFile] = []
    while not ripe:
        ripe = await keeper.due(10.1)
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    keeper.removal.delete(ripe, keeper.host.sources.ended_files)
    assert path.exists()
    await keeper.long()
    assert not path.exists()
    assert keeper.host.archive.text(path) == b"one\ntwo\n"


async def test_a_preallocated_file_that_a_program_has_mapped_stays(tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\n" + bytes(4096))
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    keeper = Keeper(tmp_path, "*.log")
    await keeper.long()
    mapped[4:8] = b"two\n"
    await keeper.long()
    assert path.exists()
    mapped.close()
    await keeper.long()
    assert not path.exists()
    assert keeper.host.archive.text(path) == b"one\ntwo\n"


async def test_a_rotated_preallocated_file_stays_where_it_is_unknown_whether_a_program_has_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n" + bytes(4096))
    keeper = Keeper(tmp_path, "app.log*")
    await keeper.prove()
    rotate(path)
    monkeypatch.setattr(ended_files, "_lease", lambda _: ended_files.DeletionOutcome.UNKNOWN)
    await keeper.long()
    assert path.with_name("app.log.1").exists()
    os.truncate(path.with_name("app.log.1"), 4)
    await keeper.long()
    assert not path.with_name("app.log.1").exists()


async def test_a_file_that_a_program_has_open_stays_however_long_it_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    keeper = Keeper(tmp_path, "*.log")
    with path.open("ab", buffering=0) as service:
        service.write(b"one\n")
        await keeper.long()
        assert path.exists()
        assert len(keeper.asked_at) <= 6  # it has its time again, and is not tried at every check
        service.write(b"two\n")
        await keeper.long()
        assert path.exists()
    await keeper.long()
    assert not path.exists()
    assert keeper.host.archive.text(path) == b"one\ntwo\n"


async def test_a_path_that_was_named_is_never_deleted_and_what_it_was_rotated_to_is(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "app.log")
    await keeper.long()
    rotate(path)
    path.write_bytes(b"two\n")
    keeper.host.let_go()
    assert (tmp_path / "app.log.1").exists()
    await keeper.long()
    assert names(tmp_path) == ["app.log"]
    assert keeper.host.archive.text(path) == b"one\ntwo\n"
    assert all(not source.inode for source in keeper.host.sources.acks.known.values() if source.ended_at)


async def test_a_rotation_in_the_grace_time_deletes_each_generation_under_the_name_that_it_has_by_then(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.log"
    keeper = Keeper(tmp_path, "app.log*")
    for number in range(4):
        path.write_bytes(b"generation %d\n" % number)
        await keeper.step(GRACE / 2)
        rotate(path)
    path.write_bytes(b"live\n")
    with path.open("ab"):
        await keeper.long()
    assert path.exists()
    assert not Listing().siblings(str(path))
    assert keeper.host.archive.text(path) == b"".join(b"generation %d\n" % number for number in range(4)) + b"live\n"
    assert not keeper.host.archive.gaps


@pytest.mark.parametrize("stays", ["unterminated", "empty", "chosen name", "excluded", "link", "skipped"])
async def test_what_is_not_finished_or_not_ours_stays(stays: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes({"empty": b"", "unterminated": b"one\ntwo"}.get(stays, b"one\n"))
    kept = path
    if stays == "link":
        (tmp_path / "elsewhere").mkdir()
        path.rename(tmp_path / "elsewhere" / "app.log")
        path.symlink_to(tmp_path / "elsewhere" / "app.log")
    pattern = "app.log" if stays in {"chosen name", "excluded"} else "*.log"
    keeper = Keeper(tmp_path, pattern, exclude=("*.1",), start_at_end=stays == "skipped")
    if stays == "skipped":
        append(path, b"two\n")
    if stays in {"chosen name", "excluded"}:
        kept = path.rename(tmp_path / ("app.log.keep" if stays == "chosen name" else "app.log.1"))
        keeper.host.let_go()
    await keeper.long()
    assert kept.exists()
    assert not keeper.asked_at


async def test_what_cannot_be_deleted_is_reported_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "*.log")
    said: list[str] = []
    monkeypatch.setattr("shipper.events.file_not_deleted", lambda path, error: said.append(path))
    (source,) = keeper.host.sources.acks.known.values()
    obstacle = Path(hidden_name(str(path), source))
    obstacle.mkdir()
    await keeper.long()
    assert path.exists()
    assert said == [str(path)]
    obstacle.rmdir()
    await keeper.long()
    assert not path.exists()


async def test_the_collector_gets_requests_only_about_something_and_at_most_every_ten_seconds(tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    keeper = Keeper(tmp_path, "*.log")
    for _ in range(30):
        await keeper.step(1.0)
    assert not keeper.asked_at
    path.write_bytes(b"one\n")
    keeper.answers = False
    for _ in range(45):
        await keeper.step(1.0)
    assert 3 <= len(keeper.asked_at) <= 4
    keeper.answers = True
    await keeper.step(10.1)
    asked = len(keeper.asked_at)
    for _ in range(int(GRACE) - 2):
        await keeper.step(1.0)
    assert len(keeper.asked_at) == asked  # it is known, and not yet time


async def test_the_spool_of_an_input_is_left_to_the_input(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "log*")
    watched = replace(keeper.host.following.watched, own=frozenset([str(path)]))
    keeper.host.following = replace(keeper.host.following, watched=watched)
    keeper.host.restart()
    await keeper.step()
    rotate(path)
    await keeper.long()
    assert names(tmp_path) == ["log.1"]


async def test_no_request_is_sent_about_a_file_that_is_written_all_the_time(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    keeper = Keeper(tmp_path, "*.log")
    for number in range(60):
        append(path, b"%d\n" % number)
        await keeper.step(5.0)
    assert not keeper.asked_at


# -- races ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True])
async def test_another_file_under_the_name_is_never_taken_for_the_one_that_is_to_go(
    ended: bool, tmp_path: Path
) -> None:
    path, old = tmp_path / "app.log", tmp_path / "app.log.1"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "app.log" if ended else "app.log*")
    rotate(path)
    keeper.host.let_go()
    await keeper.prove()
    (file,) = await keeper.due(GRACE + 10.1)
    assert file.path == str(old)
    old.rename(tmp_path / "app.log.2")
    old.write_bytes(b"two\n")
    keeper.removal.delete([file], keeper.host.sources.ended_files)
    assert old.read_bytes() == b"two\n"
    assert (tmp_path / "app.log.2").read_bytes() == b"one\n"
    assert not hidden_ones(tmp_path)


@pytest.mark.parametrize("change", ["grown", "touched", "other content"])
async def test_a_file_that_changed_since_the_last_scan_stays(change: str, tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "*.log")
    await keeper.prove()
    (file,) = await keeper.due(GRACE + 10.1)
    before = path.stat()
    if change == "grown":
        append(path, b"two\n")
    elif change == "touched":
        os.utime(path, ns=(1, 1))
    else:
        path.write_bytes(b"six\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    keeper.removal.delete([file], keeper.host.sources.ended_files)
    assert path.exists()


@pytest.mark.parametrize("ended", [False, True])
async def test_what_is_written_in_the_moment_of_the_deletion_is_shipped(
    ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system does not report writers: nothing blocks a program that kept its rotated file open."""
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "app.log" if ended else "app.log*")
    rotate(path)
    keeper.host.let_go()
    monkeypatch.setattr(ended_files, "_lease", lambda _: ended_files.DeletionOutcome.UNKNOWN)
    service = (tmp_path / "app.log.1").open("ab", buffering=0)
    unlink = os.unlink

    def write_and_unlink(name: str, **place: int) -> None:
        service.write(b"late\n")
        unlink(name, **place)

    with service:
        monkeypatch.setattr(ended_files.os, "unlink", write_and_unlink)
        await keeper.prove()
        await keeper.step(GRACE + 10.1)
        monkeypatch.undo()
        assert not Listing().siblings(str(path))
        service.write(b"later\n")
        keeper.host.let_go()
    assert keeper.host.archive.text(path) == b"one\nlate\nlater\n"
    assert not keeper.host.archive.gaps
    assert keeper.host.open_files == 0


class Writer:
    """A program that opens a file for writing in the moment of its deletion: the lease holds it up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
        self._leased = -1
        self._thread: threading.Thread | None = None
        lease, really = ended_files._lease, getattr(os, moment)

        def leased(descriptor: int) -> ended_files.DeletionOutcome | None:
            self._leased = descriptor
            return lease(descriptor)

        def opened_just_before(name: str, *more: str, **place: int) -> None:
            if self._thread is None:
                directory = place.get("dir_fd", place.get("src_dir_fd"))
                self._open(os.path.join(os.readlink(f"/proc/self/fd/{directory}"), name))
            really(name, *more, **place)

        monkeypatch.setattr(ended_files, "_lease", leased)
        monkeypatch.setattr(ended_files.os, moment, opened_just_before)

    def _open(self, name: str) -> None:
        self._thread = threading.Thread(target=lambda: append(Path(name), b"late\n"))
        self._thread.start()
        until(lambda: fcntl.fcntl(self._leased, fcntl.F_GETLEASE) != fcntl.F_RDLCK, what="the lease is broken")

    def has_written(self) -> None:
        assert self._thread is not None
        self._thread.join()


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("moment", ["rename", "unlink"])
async def test_a_program_that_opens_the_file_in_the_moment_of_its_deletion_loses_no_line(
    moment: str, ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "app.log" if ended else "app.log*")
    if ended:
        rotate(path)
        keeper.host.let_go()
    await keeper.prove()
    files = await keeper.due(GRACE + 10.1)
    with monkeypatch.context() as patch:
        writer = Writer(patch, moment)
        keeper.removal.delete(files, keeper.host.sources.ended_files)
        writer.has_written()
    (file,) = files
    assert Path(file.path).exists() is (moment == "rename")
    if ended and moment == "rename":
        assert Path(file.path).read_bytes() == b"one\nlate\n"  # kept; a file that ended is not read again
        return
    keeper.host.let_go()
    assert keeper.host.archive.text(path) == b"one\nlate\n"
    assert not keeper.host.archive.gaps
    assert not hidden_ones(tmp_path)


@pytest.mark.parametrize("rotated", [False, True])
async def test_without_the_right_to_see_writers_only_a_rotated_file_goes(
    rotated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "app.log*")
    monkeypatch.setattr(ended_files, "_lease", lambda _: ended_files.DeletionOutcome.UNKNOWN)
    if rotated:
        rotate(path)
    await keeper.long()
    assert not Listing().siblings(str(path))
    assert path.exists() is not rotated


@pytest.mark.parametrize("ended", [False, True])
async def test_a_kill_in_the_midst_of_a_deletion_is_finished_after_the_restart(ended: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    keeper = Keeper(tmp_path, "app.log" if ended else "app.log*")
    rotate(path)
    if ended:
        keeper.host.let_go()
    keeper.host.ship()
    (source,) = keeper.host.sources.acks.known.values()
    hidden = hidden_name(str(path), source)
    keeper.host.restart(while_down=lambda: os.rename(tmp_path / "app.log.1", hidden))
    keeper.begin()
    keeper.host.let_go()
    await keeper.long()
    assert names(tmp_path) == []
    assert keeper.host.archive.text(path) == b"one\n"
    assert not keeper.host.archive.gaps


# -- what proves ------------------------------------------------------------------------------------------------------


def source_of(**fields: Any) -> Source:
    usual = {"id": "a" * 16, "file": "/app.log", "device": 1, "inode": 2, "origin": 0, "offset": 9, "crc": 7, "size": 9}
    return Source(**(usual | {"mark": Mark(), "mtime_ns": 0} | fields))


@pytest.mark.parametrize(
    ("fields", "receipt", "proven"),
    [
        ({}, ("a" * 16, "/app.log", 0, 9, 7), True),
        ({}, ("b" * 16, "/app.log", 0, 9, 7), False),
        ({}, ("a" * 16, "/app.log", 0, 8, 7), False),
        ({}, ("a" * 16, "/app.log", 0, 10, 7), False),
        ({}, ("a" * 16, "/app.log", 0, 9, 8), False),
        ({"size": 10}, ("a" * 16, "/app.log", 0, 9, 7), False),
        ({"origin": 3}, ("a" * 16, "/app.log", 3, 9, 7), False),
        ({"offset": 0, "size": 0, "crc": 0}, ("a" * 16, "/app.log", 0, 0, 0), False),
    ],
)
def test_the_archive_has_all_of_a_source_when_sum_and_length_from_its_first_byte_agree(
    fields: dict[str, Any], receipt: tuple[Any, ...], proven: bool
) -> None:
    assert archived(source_of(**fields), [Receipt(*receipt)]) is proven


# -- the whole way ----------------------------------------------------------------------------------------------------


async def test_a_running_producer_deletes_and_ends_the_source_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "drop.log"
    path.write_bytes(b"one\ntwo\n")
    producer = Producer(tmp_path, "*.log", delete_archived=0.0, poll=600.0)
    asked = asyncio.Event()

    async def heard(_: str, question: dict[str, Any]) -> dict[str, Any]:
        archive = producer.archived()
        asked.set()
        return {
            "v": 1,
            "receipts": [
                {"source": id_, "file": str(path), "origin": 0, "watermark": at, "crc": zlib.crc32(archive.bytes[id_])}
                for id_, at in archive.watermarks.items()
                if question["ask"] == "receipts"
            ],
        }

    async with producer.running():
        await becomes(lambda: producer.archived().text(path) == b"one\ntwo\n")
        await asyncio.sleep(0)
        assert path.exists()
        producer.bus.listen(MemoryPublisher(producer.bus, STREAM), control_up(HOST), heard)
        await becomes(lambda: End.DELETED in producer.archived().ends.values())
    assert asked.is_set()
    assert not path.exists()
    assert not producer.archived().gaps


def test_real_programs_delete_what_the_collector_has_and_a_kill_in_between_loses_nothing(
    tmp_path: Path, natsd: NatsServer
) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    texts: dict[Path, bytes] = {}

    def fill(wave: int) -> None:
        for number in range(4):
            path = drop / f"{wave}-{number}.log"
            texts[path] = b"".join(b"%d %d %d\n" % (wave, number, line) for line in range(10_000))
            path.write_bytes(texts[path])

    config = tmp_path / "fshipper.toml"
    config.write_text('[producer]\ndelete_archived = "1s"\npoll = "50ms"\nrotate_wait = "100ms"\n')
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        fill(0)
        producer = fleet.produce(HOST, drop / "*.log", options=("--config", str(config)))
        until(lambda: fleet.messages() >= 4, what=lambda: producer.log)
        producer.restart()
        until(lambda: producer.log.count("session_begun") == 2, what=lambda: producer.log)
        assert len(list(drop.iterdir())) == 4  # shipped, but no collector has it
        collector = fleet.consume()
        for wave in (1, 2):
            until(lambda: len(list(drop.iterdir())) < 4, what=lambda: producer.log)
            producer.restart()
            fill(wave)
        until(lambda: not list(drop.iterdir()) and producer.log.count("session_begun") == 4, what=lambda: producer.log)
        assert producer.stop() == 0, producer.log
        assert collector.stop() == 0, collector.log
        fleet.drain()
        for path, text in texts.items():
            assert fleet.archived(HOST, path) == text
        assert "bytes_lost" not in producer.log


def test_a_deletion_that_is_due_wakes_no_loop_that_ends(tmp_path: Path) -> None:
    keeper, stop = Keeper(tmp_path, "*.log"), Stop()
    cleaning = Cleaning(cast("Any", None), keeper.removal, NO_INPUTS, stop)
    assert cleaning.next_deletion_at() == -math.inf
    stop.request()
    assert cleaning.next_deletion_at() == math.inf
