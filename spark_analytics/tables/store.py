"""The directories of the tables, and the commit of a day: all tables are staged, then each is renamed into place.

    OUT/tables/<name>/date=2026-11-20/*.parquet        with `_run`, the run that wrote it, as JSON
    OUT/tables/.new-2026-11-20/<name>/                 staged
    OUT/tables/.new-2026-11-20/COMMIT                  all tables are staged: the commit will be finished

A new day of a table replaces the old one in one step of the file system, so that a reader sees one or the other. A
kill before COMMIT leaves the old day; after a later kill the next run finishes the commit. Table `runs` comes last:
a day is complete if its `runs` has the current input.
"""

import contextlib
import json
from dataclasses import dataclass
from typing import Any

from spark_analytics.runtime import interrupts
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import schemas

SMALL = "part-0.zstd.parquet"
"""Name of the file of a table that the driver writes itself."""

_COMMIT = "COMMIT"
_RUN = "_run"


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables under a report's directory."""

    out: Location

    @property
    def root(self) -> Location:
        """The directory that holds a directory for each table."""
        return self.out / "tables"

    def day(self, name: str, date: str) -> Location:
        """The directory of a day of table `name`; it may not exist."""
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
        """The record of the run that made the tables of `date`; None without tables, or of older ones."""
        return _read(self.day("runs", date) / _RUN)

    # -- staging and commit --------------------------------------------------------------------------------------------

    def staging(self, date: str) -> Location:
        """The staging directory of `date`."""
        return self.root / f".new-{date}"

    def begin(self, date: str) -> None:
        """Makes an empty staging directory for `date`."""
        locations.remove(self.staging(date))
        self.staging(date).mkdir(parents=True)

    def dropped_if_interrupted(self, date: str) -> contextlib.AbstractContextManager[None]:
        """Removes staged tables if a signal ends the process before the commit; on a store the next run does it."""
        return interrupts.removed_at_end(self.staging(date), unless=(self.staging(date) / _COMMIT).exists)

    def commit(self, date: str, run: dict[str, Any]) -> None:
        """Makes the staged tables of `date` visible; `run` is written to each of them."""
        record = json.dumps(run).encode()
        for name in schemas.TABLES:
            locations.write(self.staging(date) / name / _RUN, record)
        locations.write(self.staging(date) / _COMMIT, record)
        self._finish(date)

    def recover(self) -> None:
        """Finishes commits of killed runs, and removes tables that were only staged."""
        for staging in self.root.glob(".new-*"):
            date = staging.name.removeprefix(".new-")
            if (staging / _COMMIT).exists():
                self._finish(date)
            else:
                locations.remove(staging)

    def _finish(self, date: str) -> None:
        staging = self.staging(date)
        run = _read(staging / _COMMIT)
        for name in sorted(schemas.TABLES, key=lambda name: name == "runs"):
            target = self.day(name, date)
            if _read(target / _RUN) != run and (staging / name).is_dir():  # an older version staged fewer tables
                target.parent.mkdir(parents=True, exist_ok=True)
                locations.swap(staging / name, target)
        locations.remove(staging)


def _read(path: Location) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
