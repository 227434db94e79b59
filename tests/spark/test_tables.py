"""A day's tables become visible one by one, each in one step; a kill anywhere leaves whole ones. Without Spark."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_analytics.tables import schemas
from spark_analytics.tables.store import Tables

DATE = "2026-11-20"
ROOT = Path(__file__).resolve().parents[2]

COMMITTING = """
import os, signal, sys
from pathlib import Path
from spark_analytics.storage import locations
from spark_analytics.tables.store import Tables

left = int(sys.argv[2])

def counted(step):
    def taken(*arguments, **named):
        global left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return step(*arguments, **named)
    return taken

for name in ("write", "swap", "remove"):
    setattr(locations, name, counted(getattr(locations, name)))
Tables(Path(sys.argv[1])).commit("2026-11-20", {"run": "new"})
"""


def stage(tables, content):
    tables.begin(DATE)
    for name in schemas.TABLES:
        directory = tables.staging(DATE) / name
        directory.mkdir()
        for part in range(3):
            (directory / f"part-{part}").write_text(content)


def contents(tables):
    """Of each table what its parts hold; a table that mixes two runs, or lacks a part, has not one content."""
    found = {}
    for name in schemas.TABLES:
        parts = [path.read_text() for path in sorted(tables.day(name, DATE).glob("part-*"))]
        assert len(parts) == 3, name
        (found[name],) = set(parts)
    return found


STEPS = 2 * len(schemas.TABLES) + 2
"""A mark in each table, COMMIT, a swap of each, and the removal of what is left."""


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_a_kill_at_any_step_leaves_whole_tables_and_the_next_run_finishes_what_was_committed(tmp_path, steps):
    tables = Tables(tmp_path)
    stage(tables, "old")
    tables.commit(DATE, {"run": "old"})
    stage(tables, "new")

    ended = subprocess.run([sys.executable, "-c", COMMITTING, str(tmp_path), str(steps)], check=False, cwd=ROOT)

    assert ended.returncode == (0 if steps == STEPS else -signal.SIGKILL)
    left = contents(tables)
    assert left["runs"] == "old" or set(left.values()) == {"new"}
    tables.recover()
    committed = steps > len(schemas.TABLES)
    assert set(contents(tables).values()) == {"new" if committed else "old"}
    assert tables.run_of(DATE) == {"run": "new" if committed else "old"}
    assert not tables.staging(DATE).exists()


def test_a_file_system_that_cannot_exchange_two_names_takes_two_steps(monkeypatch, tmp_path):
    def refused(_one, _other):
        raise OSError(22, "invalid argument")

    monkeypatch.setattr("spark_analytics.storage.locations._exchange", refused)
    tables = Tables(tmp_path)
    for content in ("old", "new"):
        stage(tables, content)
        tables.commit(DATE, {"run": content})

    assert set(contents(tables).values()) == {"new"}


def test_days_are_found_by_table(tmp_path):
    tables = Tables(tmp_path)
    for date in ("2026-11-18", "2026-11-20", "2026-11-19"):
        tables.day("hourly", date).mkdir(parents=True)

    assert tables.days("hourly") == ["2026-11-18", "2026-11-19", "2026-11-20"]
    assert tables.between("hourly", "2026-11-19", "2026-11-25") == ["2026-11-19", "2026-11-20"]
    assert tables.between("hourly", "2026-11-17", "2026-11-19") == ["2026-11-18", "2026-11-19"]
    assert tables.has("hourly", "2026-11-18")
    assert not tables.has("audit", "2026-11-18")
    assert tables.run_of("2026-11-18") is None
