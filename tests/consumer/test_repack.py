"""Segments of closed days are compressed again: the same text, frames and marks in fewer bytes."""

import asyncio
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from auditing import audit
from harness.fleet import Fleet
from keeping import DAY_NS, HOST, standing, state, tend, write_segments

from consumer import background
from consumer.archive import frame_index
from consumer.archive.directory import LOCKS, try_lock
from consumer.background import BackgroundTasks
from consumer.segments.repack import Pace, Repacker
from consumer.segments.rewrite_segment import replace_segment_text, rewriting
from shipper.layout import NANOSECONDS
from shipper.settings import CollectorSettings, Settings

FILE = "/var/log/app.log"
LEVEL = 12
OWN = [0]
GAPS = ["gap", "gap"]  # one in each file of `write_segments`


def lines(seed: int, count: int) -> bytes:
    """Unique lines of a made-up service, of which a higher level makes a tenth less."""
    dice = random.Random(seed)
    return b"".join(
        b"2026-11-20T10:%02d:%02dZ web-%d INFO request id=%08x user=%d path=/api/v1/items/%d took %d ms\n"
        % (
            n // 60 % 60,
            n % 60,
            dice.randrange(8),
            dice.getrandbits(32),
            dice.randrange(5000),
            n * 7919 % 99991,
            n % 900,
        )
        for n in range(count)
    )


PARTS = [lines(1, 16_000), lines(2, 6000)]


def closed(place: Path, **more: object) -> None:
    """A day with a segment that has an index and one that has none, closed."""
    for number, part in enumerate(PARTS):
        seconds = [(0, DAY_NS // NANOSECONDS), (part.find(b"\n", len(part) // 2) + 1, DAY_NS // NANOSECONDS + 60)]
        about = {"seconds": seconds, "stored_ns": (DAY_NS, DAY_NS + 60 * NANOSECONDS), "source": f"{number:016x}"}
        write_segments(place, f"{FILE}{number}", [part], **(about | more))  # type: ignore[arg-type]
    tend(place)


def repack(place: Path, level: int = LEVEL) -> None:
    """Compress again, and remove what was replaced."""
    repacker = Repacker(place / "archive", level, grace_seconds=0.0)
    for _ in range(2):
        repacker.run(OWN, lambda: True)


def texts(place: Path) -> list[bytes]:
    return [Fleet(place, "").archived(HOST, f"{FILE}{number}") for number in range(len(PARTS))]


def index(place: Path, path: str) -> frame_index.FrameIndex | None:
    with (place / "archive" / path).open("rb") as stream:
        return frame_index.read(stream)


def test_text_frames_and_marks_stay_and_bytes_are_saved(tmp_path: Path) -> None:
    closed(tmp_path)
    before, kept = standing(tmp_path), [(tmp_path / "archive" / each.path).open("rb") for each in standing(tmp_path)]
    old = {path: (tmp_path / "archive" / path).read_bytes() for path in (each.path for each in before)}
    indexes = [index(tmp_path, each.path) for each in before]
    found = audit(str(tmp_path / "archive")).kinds
    repack(tmp_path)
    after = standing(tmp_path)
    assert audit(str(tmp_path / "archive")).kinds == found == GAPS
    assert texts(tmp_path) == PARTS
    own = {"path": "", "bytes_stored": 0, "crc32_stored": "", "sealed_at": "", "replaces": ()}
    assert [replace(each, **own) for each in after] == [replace(each, **own) for each in before]
    assert [each.replaces for each in after] == [(each.path,) for each in before]
    for one, other in zip(before, after, strict=True):
        assert other.bytes_stored < 0.97 * one.bytes_stored
        assert not (tmp_path / "archive" / one.path).exists()
    for was, now in zip(indexes, (index(tmp_path, each.path) for each in after), strict=True):
        assert (was is None) == (now is None)
        if was and now:
            assert [each._replace(stored=0) for each in was.frames] == [each._replace(stored=0) for each in now.frames]
            assert (was.times, was.is_exact) == (now.times, now.is_exact)
    assert any(indexes)
    for stream, segment in zip(kept, before, strict=True):  # a reader that has the old file open goes on
        with stream:
            assert stream.read() == old[segment.path]
    done = state(tmp_path)
    repack(tmp_path)
    assert state(tmp_path) == done


def test_for_an_hour_the_old_segments_are_there_and_count_once(tmp_path: Path) -> None:
    closed(tmp_path)
    before = standing(tmp_path)
    for _ in range(2):
        Repacker(tmp_path / "archive", LEVEL).run(OWN, lambda: True)
        assert [each.replaces for each in standing(tmp_path)] == [(each.path,) for each in before]
        assert all((tmp_path / "archive" / each.path).exists() for each in before)
        assert texts(tmp_path) == PARTS
        assert audit(str(tmp_path / "archive")).kinds == GAPS
    (segment, _) = standing(tmp_path)
    replace_segment_text(tmp_path / "archive", segment, PARTS[0].replace(b"request", b"*******"))
    assert not (tmp_path / "archive" / before[0].path).exists(), "a redaction leaves no copy"


def not_closed(place: Path) -> None:
    for number, part in enumerate(PARTS):
        write_segments(place, f"{FILE}{number}", [part])


def small(place: Path) -> None:
    write_segments(place, FILE, [b"a line\n" * 1000])
    tend(place)


@pytest.mark.parametrize(
    ("make", "partitions"),
    [(not_closed, [0]), (small, [0]), (lambda place: closed(place, codec="gzip"), [0]), (closed, [1])],
    ids=["not closed", "small", "gzip", "another partition"],
)
def test_what_stays_as_it_is(make, partitions, tmp_path: Path) -> None:
    make(tmp_path)
    before = state(tmp_path)
    Repacker(tmp_path / "archive", LEVEL).run(partitions, lambda: True)
    assert state(tmp_path) == before


def test_a_level_that_saves_nothing_changes_nothing(tmp_path: Path) -> None:
    closed(tmp_path)
    before = standing(tmp_path)
    repack(tmp_path, level=3)  # as they were sealed
    assert standing(tmp_path) == before


@pytest.mark.parametrize("other", ["merge or redaction", "retention"])
def test_while_another_process_changes_the_day_it_waits_for_the_next_pass(other: str, tmp_path: Path) -> None:
    closed(tmp_path)
    archive, before = tmp_path / "archive", standing(tmp_path)
    repacker = Repacker(archive, LEVEL)
    lock = rewriting(archive, 0) if other != "retention" else try_lock(archive / LOCKS / "retention.lock", "a test")
    with lock or nullcontext():
        repacker.run(OWN, lambda: True)
        assert standing(tmp_path) == before
    repacker.run(OWN, lambda: True)
    assert [bool(each.replaces) for each in standing(tmp_path)] == [True, True]


def test_a_damaged_segment_stays_as_it_is(tmp_path: Path) -> None:
    closed(tmp_path)
    victim = tmp_path / "archive" / standing(tmp_path)[0].path
    content = bytearray(victim.read_bytes())
    content[5000] ^= 1
    victim.write_bytes(content)
    repack(tmp_path)
    assert victim.read_bytes() == bytes(content)
    assert [bool(each.replaces) for each in standing(tmp_path)] == [False, True]


def work(place: Path) -> None:
    """What is killed, and run again."""
    repack(place)


def test_a_kill_at_any_step_leaves_one_of_both_and_the_next_run_finishes(lives, places) -> None:
    closed(places.first)
    work_whole = places.copy()
    work(work_whole)
    wanted = {name for name in state(work_whole) if name.startswith("date=")}
    deaths = 0
    for place in lives.every_step(work, places.copy):
        deaths += 1
        assert texts(place) == PARTS, f"killed at step {deaths}"
        work(place)
        assert texts(place) == PARTS
        assert {name for name in state(place) if name.startswith("date=")} == wanted, f"killed at step {deaths}"
        assert audit(str(place / "archive")).kinds == GAPS, f"killed at step {deaths}"
        shutil.rmtree(place)
    assert deaths > 20


# -- the pace -----------------------------------------------------------------------------------------------------


class Machine(threading.Event):
    """A clock that waiting advances, and the CPU time of a thread."""

    def __init__(self, idle: Iterator[bool]) -> None:
        super().__init__()
        self.now = self.used = 0.0
        self._idle = idle

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return self.is_set()

    def pace(self, share: float) -> Pace:
        return Pace(share, lambda: next(self._idle, True), self, lambda: self.now, lambda: self.used)


def test_a_tenth_of_a_core_is_a_tenth_of_the_time() -> None:
    machine = Machine(iter(()))
    pace = machine.pace(0.1)
    for _ in range(100):
        machine.now, machine.used = machine.now + 0.02, machine.used + 0.02
        assert pace.may_go_on()
    assert machine.used == pytest.approx(0.1 * machine.now)


def test_it_waits_while_the_collector_has_work_and_ends_with_it() -> None:
    machine = Machine(iter([False] * 7))
    assert machine.pace(1.0).may_go_on()
    assert machine.now == 7.0
    machine.set()
    assert not machine.pace(1.0).may_go_on()


async def test_a_collector_repacks_in_a_thread_of_the_least_priority_while_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(tmp_path)
    monkeypatch.setattr(background, "REPACK_SECONDS", 0.01)
    priorities: set[int] = set()

    def run(self: Repacker, partitions: list[int], may_go_on: Callable[[], bool]) -> None:
        priorities.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        real(self, partitions, may_go_on)

    real = Repacker.run
    monkeypatch.setattr(Repacker, "run", run)
    owner = SimpleNamespace(partition=0, pending=1)
    collector = SimpleNamespace(is_sure=True, held=[owner])
    settings = Settings(collector=CollectorSettings(repack=12, repack_cpu=100))
    tasks = BackgroundTasks(settings, SimpleNamespace(directory=tmp_path / "archive"), "here", None, None, None)  # type: ignore[arg-type]
    task = asyncio.create_task(tasks._repack(collector))  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        while not priorities:
            await asyncio.sleep(0.01)
        assert [each.replaces for each in standing(tmp_path)] == [(), ()]
        owner.pending = 0
        while not all(each.replaces for each in standing(tmp_path)):
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.cancelled()
    assert priorities == {background.LEAST_PRIORITY}
