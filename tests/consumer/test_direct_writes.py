"""What is large is written past the page cache while the collector keeps up: the file is the same either way."""

import contextlib
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from collecting import HOST, Log, PartitionHarness, applier_of
from hypothesis import given
from hypothesis import strategies as st

from consumer.archive.journal import Journal
from consumer.commit import batch, direct_writer
from consumer.commit.direct_writer import UNIT
from consumer.commit.sink import Sink
from consumer.model import OpenFile
from shipper.layout import FileKey
from shipper.model import Delivery, Encoding

PIECE = 3 * UNIT
TEXT = b"".join(b"%d a line\n" % number for number in range(20_000))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_writer, "PIECE_BYTES", PIECE)


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    sink = Sink(tmp_path, open_files=1, links=False)
    yield sink
    sink.close()


def new(sink: Sink, name: str) -> OpenFile:
    file = OpenFile(path=name, key=FileKey("2026-11-20", 0, HOST, name))
    sink.create(file)
    return file


def is_in_memory(path: Path, offset: int) -> bool:
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], offset, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


# -- any way, any order -------------------------------------------------------------------------------------------

near_a_border = st.builds(
    lambda units, more: max(1, units * UNIT + more), st.integers(0, 7), st.integers(-2, 2)
) | st.integers(1, 3 * PIECE)
appended = st.tuples(
    st.sampled_from("ab"), st.lists(near_a_border, min_size=1, max_size=3), st.booleans(), st.booleans()
)


@pytest.mark.usefixtures("small_pieces")
@given(st.lists(appended, min_size=1, max_size=10))
def test_files_are_the_same_whichever_way_their_bytes_went(appends):
    with TemporaryDirectory() as directory:
        sink, expected = Sink(Path(directory), open_files=1, links=False), {"a": b"", "b": b""}
        files = {name: new(sink, name) for name in expected}
        for number, (name, sizes, goes_past, is_synced) in enumerate(appends):
            buffers = [bytes([number % 251, size % 256]) * (size // 2) + b"\n" * (size % 2) for size in sizes]
            append = sink.append_direct if goes_past else sink.append
            append(files[name], buffers, at=len(expected[name]))
            expected[name] += b"".join(buffers)
            if is_synced:
                sink.sync()
                assert {each: Path(directory, each).read_bytes() for each in files} == expected
                files = {each: replace(file, length=len(expected[each])) for each, file in files.items()}
        sink.sync()
        assert {each: Path(directory, each).read_bytes() for each in files} == expected
        sink.close()


def test_whole_units_are_not_in_memory_and_the_ends_are(sink, tmp_path):
    file = new(sink, "a")
    sink.append(file, [b"x" * 10], at=0)
    sink.append_direct(file, [TEXT], at=10)
    sink.sync()
    if sink._direct.is_refused or os.statvfs(tmp_path).f_bsize != UNIT or _is_memory(tmp_path):
        pytest.skip("the file system below the test has no other way")
    end = 10 + len(TEXT)
    assert [is_in_memory(tmp_path / "a", at) for at in (0, 20, UNIT, end - UNIT - 1, end - 1)] == [
        True, True, False, False, True,
    ]  # fmt: skip


def _is_memory(path: Path) -> bool:
    kind = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True).stdout
    return kind.strip() in {"tmpfs", "ramfs"}


async def test_while_much_waits_in_the_stream_the_page_cache_is_used(tmp_path, monkeypatch):
    past: list[int] = []
    append = Sink.append_direct

    def noted(self: Sink, file: OpenFile, buffers: list[bytes], *, at: int) -> None:
        past.append(at)
        append(self, file, buffers, at=at)

    monkeypatch.setattr(Sink, "append_direct", noted)
    block, count = batch.WRITE_BYTES, batch.MANY_PENDING + 3
    log, harness = (
        Log(os.urandom(block) * count, encoding=Encoding.IDENTITY),
        PartitionHarness(tmp_path, batch_bytes=block),
    )
    for at in range(0, len(log.data), block):
        harness.send(log, at, at + block)
    await harness.drain()
    assert harness.text(log) == log.data
    assert past
    assert past == [at for at in range(0, len(log.data), block) if at >= past[0]]
    assert past[0] >= 2 * block


# -- what is refused, fails or is changed -------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pieces")
def test_what_a_disk_does_not_take_past_the_page_cache_goes_through_it(sink, tmp_path, monkeypatch):
    monkeypatch.setattr(direct_writer, "UNIT", 256)  # disks require 512 at least
    file = new(sink, "a")
    sink.append_direct(file, [TEXT[:300]], at=0)
    sink.sync()
    sink.append_direct(replace(file, length=300), [TEXT[300:]], at=300)
    sink.sync()
    assert (tmp_path / "a").read_bytes() == TEXT


@pytest.mark.usefixtures("small_pieces")
def test_a_file_system_that_reports_only_its_page_cache_is_synced_as_a_whole_once(tmp_path):
    if subprocess.run(["mount", "-t", "ramfs", "here", tmp_path], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        sink = Sink(tmp_path, open_files=8, links=False)
        file = new(sink, "a")
        sink.append_direct(file, [TEXT[:100_001]], at=0)
        assert sink._direct.is_refused
        sink.append_direct(file, [TEXT[100_001:]], at=100_001)
        assert (tmp_path / "a").read_bytes() == TEXT  # none of it waits
        sink.sync()
        sink.close()
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


@contextlib.contextmanager
def no_file_longer_than(length: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("most", [50, UNIT + 50, 2 * UNIT, PIECE + UNIT + 50])
def test_a_disk_that_is_full_in_the_middle_is_reported_and_the_next_try_is_whole(most, sink, tmp_path):
    file = new(sink, "a")
    sink.append(file, [TEXT[:40]], at=0)
    sink.sync()
    file = replace(file, length=40)
    with no_file_longer_than(most), pytest.raises(OSError, match="large"):
        sink.append_direct(file, [TEXT[40:]], at=40)
    assert sink.recover([file], partition=0) == []
    assert (tmp_path / "a").read_bytes() == TEXT[:40]
    sink.append_direct(file, [TEXT[40:]], at=40)
    sink.sync()
    assert (tmp_path / "a").read_bytes() == TEXT


@pytest.mark.usefixtures("small_pieces")
def test_a_file_that_is_cut_meanwhile_gets_no_run_of_nuls(sink, tmp_path):
    file = new(sink, "a")
    sink.append_direct(file, [TEXT[:50_000]], at=0)
    os.truncate(tmp_path / "a", 10)
    with pytest.raises(OSError, match="removed, replaced or truncated") as caught:
        sink.append_direct(file, [TEXT[50_000:]], at=50_000)
    assert caught.value.errno == errno.ESTALE
    assert b"\0" not in (tmp_path / "a").read_bytes()


# -- kills --------------------------------------------------------------------------------------------------------

LOGS = [Log(TEXT[: 3 * PIECE + odd], id=f"{odd:016x}", file=f"/var/log/{odd}.log") for odd in (1, 77)]
BLOCK, A_BATCH = 2 * UNIT + 5, 4


def deliveries() -> list[Delivery]:
    messages = [
        log.message(at, min(at + BLOCK, len(log.data))) for at in range(0, 3 * PIECE, BLOCK) for log in LOGS
    ]  # fmt: skip
    return [Delivery(number, number, 0, *message, "") for number, message in enumerate(messages, 1)]


def work(place: Path) -> None:
    """A collector's start, and all that the stream still has for it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(direct_writer, "PIECE_BYTES", PIECE)
        patched.setattr(batch, "WRITE_BYTES", BLOCK)
        journal, sink = Journal(place / "journal.sqlite"), Sink(place / "archive", open_files=8, links=True)
        applying = applier_of(journal, sink)
        assert not sink.recover(journal.files.values(), partition=0)
        left = [delivery for delivery in deliveries() if delivery.sequence > journal.position.applied]
        for first in range(0, len(left), A_BATCH):
            staged = applying.stage(applying.begin(left[first : first + A_BATCH], {}, {}))
            sink.sync()
            journal.commit(staged)
        sink.close()
        journal.close()


def texts(place: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((place / "archive").rglob("_open-*"))]


def test_a_kill_at_any_step_loses_and_doubles_nothing(lives, places):
    (places.first / "archive").mkdir(parents=True)
    deaths = 0
    for place in lives.every_step(work, places.copy):
        deaths += 1
        work(place)
        assert texts(place) == [log.data for log in LOGS], f"killed at step {deaths}"
        shutil.rmtree(place)
    assert deaths > 30
