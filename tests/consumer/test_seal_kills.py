"""kill -9 at every step of sealing: the next start makes the same segments, each is listed once, nothing is left."""

import contextlib
import shutil
from pathlib import Path

import pytest
from dying import Places
from keeping import DAY, HOST, lines, seal_all, state, write_open

from consumer.archive.journal import Journal
from consumer.segments.sealer import Sealer

LINES = [b"%d a line of a log\n" % number * 3 for number in range(40)]


def work(place: Path) -> None:
    """A collector's start that seals everything and closes the day."""
    seal_all(place)
    Sealer(place / "archive", collector="here", codec="zstd").close_day(DAY)


@pytest.fixture
def some_files(places: Places) -> None:
    write_open(places.first, "/var/log/a.log", LINES, behind=b"not committed")
    write_open(places.first, "/var/log/b.log", LINES, frames="zstd", behind=b"(\xb5/\xfd")


@pytest.mark.usefixtures("some_files")
def test_a_kill_at_any_step_leaves_what_the_next_start_finishes(lives, places):
    expected = places.copy()
    work(expected)
    assert len(lines(expected)) == 2
    deaths = 0
    for place in lives.every_step(work, places.copy):
        deaths += 1
        work(place)
        assert state(place) == state(expected), f"killed at step {deaths}"
        with contextlib.closing(Journal(place / "journal.sqlite")) as journal:
            assert not journal.files
        shutil.rmtree(place)
    assert deaths > 40


@pytest.mark.usefixtures("some_files")
@pytest.mark.parametrize("seed", range(6))
def test_a_kill_in_every_life_leaves_what_the_last_one_finishes(lives, places, seed):
    expected = places.copy()
    work(expected)
    place = places.copy()
    lives.many(work, place, seed=seed, most=30)
    assert state(place) == state(expected)
    assert not [name for name in state(place) if f"host={HOST}/_" in name or name.endswith(".tmp")]
