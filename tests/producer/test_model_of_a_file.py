"""Random programs of writing, rotating, truncating, deleting, scanning, reading, killing and losing power.

5,000 of them (FSHIPPER_EXAMPLES: how many), most with at least one kill and one rotation, which is counted; the one
that fails is printed as short as it can be made. What must hold is in `world.py`.
"""

import itertools
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st
from world import World

from producer.options import UNBOUNDED

PROGRAMS = int(os.environ.get("FSHIPPER_EXAMPLES", "5000"))
MOST = 0.7
"""Of the programs kill the producer and rotate the file at least once each; how many are drawn depends on the code."""
Program = list[tuple[str, int]]
COMMON = ("write", "scan", "read", "acknowledge", "save", "collect", "lose_session", "wait", "work")
FAMILIES: dict[str, tuple[str, ...]] = {
    "renamed": ("rotate", "rotate", "write_late", "pause", "redate"),
    "renamed and the server loses power": ("rotate", "pause", "lose_power", "lose_power", "link"),
    "truncated, deleted, renamed and linked": ("truncate", "delete", "rotate", "link"),
    "renamed and compressed": ("rotate_gz", "rotate", "compress", "pause", "rotate"),
    "copied and truncated": ("copytruncate", "copytruncate", "lose_session"),
    "padded and written in place": ("rotate", "pad", "pad", "trim", "write_late"),
    "padded, truncated and compressed": ("truncate", "pad", "pad", "trim", "rotate_gz"),
    "copied to any name and truncated": ("copy_away", "copy_away", "move_copy", "compress_copy", "remove_copy"),
}
PATTERNS = ("app.log", "app.log*")
ALL = "app* old/*"
SHARES = 14
"""Each family with one of the patterns has the 14th part of the programs."""


def programs(*verbs: str) -> st.SearchStrategy[Program]:
    """Lists of steps; nine of ten have a kill and the family's first verb somewhere in them."""
    numbers = st.integers(1, 300)
    part = st.lists(st.tuples(st.sampled_from(COMMON + COMMON[:5] + ("kill",) + verbs), numbers), max_size=14)
    needed = st.sampled_from([(), *[("kill", verbs[0]), (verbs[0], "kill")] * 5])
    return st.builds(_joined, needed, st.tuples(part, part, part), numbers)


def _joined(needed: tuple[str, ...], parts: tuple[Program, Program, Program], number: int) -> Program:
    first, *rest = parts
    joined = list(first)
    for verb, part in zip(needed, rest, strict=False):
        joined += [("write", number), (verb, number), *part]
    return joined


def descriptors(*verbs: str) -> st.SearchStrategy[int]:
    """How many files may be open. What is deleted while it rests is lost, so there none rests."""
    return st.just(UNBOUNDED) if "delete" in verbs else st.sampled_from([UNBOUNDED, 1, 2])


@dataclass
class Tally:
    programs: int = 0
    killed_and_rotated: int = 0

    def add(self, world: World) -> None:
        self.programs += 1
        self.killed_and_rotated += bool(world.kills and world.rotations)


def run(program: Program, pattern: str, open_files: int) -> World:
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory(dir=MEMORY) as state:
        world = World(Path(directory), Path(state), pattern, open_files=open_files)
        try:
            for verb, number in program:
                getattr(world, verb)(number)
            world.settle()
            world.check()
        finally:
            world.close()
        return world


MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""The directory of the checkpoints: these programs kill processes, not machines."""
MANY = settings(
    max_examples=max(1, -(-PROGRAMS // SHARES)),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for event in ("file_followed", "file_left", "bytes_lost"):
        monkeypatch.setattr(f"shipper.events.{event}", lambda **_: None)
    monkeypatch.setattr("producer.checkpoint.store._SYNC", "OFF")


def hold(family: str, pattern: str, tally: Tally) -> Callable[[], None]:
    @seed(list(FAMILIES).index(family))
    @MANY
    @given(program=programs(*FAMILIES[family]), open_files=descriptors(*FAMILIES[family]))
    def holds(program: Program, open_files: int) -> None:
        note(f"a file that is {family}, watched as {pattern}")
        tally.add(run(program, pattern, open_files))

    return holds


def test_a_younger_file_with_the_inode_number_of_an_empty_closed_one_is_shipped_once() -> None:
    program = [("rotate", 1), ("write", 1), ("kill", 1), ("write", 5), ("rotate_gz", 1), ("compress", 1)]
    run([*program, ("write", 6), ("rotate", 1)], "app.log", open_files=1)


@pytest.mark.parametrize(
    ("family", "pattern"),
    [*itertools.product(FAMILIES, PATTERNS), ("copied to any name and truncated", ALL)],
)
def test_what_becomes_of_a_file_loses_and_doubles_nothing(family: str, pattern: str) -> None:
    tally = Tally()
    hold(family, pattern, tally)()
    assert tally.programs >= MANY.max_examples
    assert tally.killed_and_rotated >= MOST * tally.programs, tally
