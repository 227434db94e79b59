"""Where the tables lie, and how a day's tables become visible: all staged, then each swapped in by one rename.

    OUT/tables/<name>/date=2026-11-20/*.parquet        with `_run`, the run that made it, as JSON
    OUT/tables/.new-2026-11-20/<name>/                 being made
    OUT/tables/.new-2026-11-20/COMMIT                  all of them are made: from here on the run only goes forward

A table's new day takes the old one's place in one step of the file system, so that a reader sees the one or the other.
A kill before COMMIT leaves the old day; after it the next run swaps what is left. The table `runs` comes last: a day
whose `runs` is of this input is made.
"""

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_analytics import schemas

_COMMIT = "COMMIT"
_RUN = "_run"
_AT_FDCWD, _EXCHANGE = -100, 2


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables under a report's directory."""

    out: Path

    @property
    def root(self) -> Path:
        """The directory that holds a directory for each table."""
        return self.out / "tables"

    def day(self, name: str, date: str) -> Path:
        """A day of table `name`, whether it is there or not."""
        return self.root / name / f"date={date}"

    def has(self, name: str, date: str) -> bool:
        """Whether table `name` has the day `date`."""
        return self.day(name, date).is_dir()

    def days(self, name: str) -> list[str]:
        """The days that table `name` has, oldest first."""
        found = (self.root / name).glob("date=*")
        return sorted(path.name.removeprefix("date=") for path in found)

    def between(self, name: str, since: str, until: str) -> list[str]:
        """The days of table `name` from `since` to `until`, both included, oldest first."""
        return [day for day in self.days(name) if since <= day <= until]

    def run_of(self, date: str) -> dict[str, Any] | None:
        """What the run said of itself that made the tables of `date`; None: there are none, or older ones."""
        return _read(self.day("runs", date) / _RUN)

    # -- making a day -------------------------------------------------------------------------------------------------

    def staging(self, date: str) -> Path:
        """Where the tables of `date` are made."""
        return self.root / f".new-{date}"

    def begin(self, date: str) -> None:
        """An empty place to make the tables of `date` in."""
        shutil.rmtree(self.staging(date), ignore_errors=True)
        self.staging(date).mkdir(parents=True)

    def commit(self, date: str, run: dict[str, Any]) -> None:
        """Makes the staged tables of `date` the tables of that day; `run` is kept beside each."""
        staging = self.staging(date)
        for name in schemas.TABLES:
            _write(staging / name / _RUN, run)
        _write(staging / _COMMIT, run)
        self._finish(date)

    def recover(self) -> None:
        """Finishes the days that a killed run had committed, and removes what others had begun."""
        for staging in self.root.glob(".new-*"):
            date = staging.name.removeprefix(".new-")
            if (staging / _COMMIT).exists():
                self._finish(date)
            else:
                shutil.rmtree(staging, ignore_errors=True)

    def _finish(self, date: str) -> None:
        staging = self.staging(date)
        run = _read(staging / _COMMIT)
        for name in _runs_last(schemas.TABLES):
            target = self.day(name, date)
            if _read(target / _RUN) != run:
                target.parent.mkdir(parents=True, exist_ok=True)
                swap(staging / name, target)
        shutil.rmtree(staging, ignore_errors=True)


def _runs_last(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: name == "runs")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, content: dict[str, Any]) -> None:
    """Writes `content` for good, in one step."""
    scratch = path.with_name(f".{path.name}.new")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def swap(fresh: Path, target: Path) -> None:
    """`fresh` takes the place of `target`, whose old content takes that of `fresh`."""
    try:
        _exchange(fresh, target)
    except FileNotFoundError:  # there is no old day
        fresh.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}:
            raise
        if target.exists():  # a file system that cannot exchange: two steps
            target.rename(fresh.with_name(f".old-{fresh.name}"))
        fresh.rename(target)


def _exchange(one: Path, other: Path) -> None:
    """Renames both in one step (Linux 3.15); the standard library has no name for it."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, "no renameat2")
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))
