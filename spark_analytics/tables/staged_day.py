"""The small tables of a day that is being made, and the same tables of the days before."""

import dataclasses
import datetime as dt

from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, schemas
from spark_analytics.tables.day_tables import Row
from spark_analytics.tables.store import SMALL, Tables

WEEKS = 4
"""Weeks before whose same weekday a day is compared with."""


@dataclasses.dataclass(frozen=True, slots=True)
class StagedDay:
    """Writes tables of `date` to their staging directory and keeps their rows in `rows`, by table name."""

    tables: Tables
    date: dt.date
    baseline_days: int  #: days before that are read
    rows: dict[str, list[Row]] = dataclasses.field(default_factory=dict)

    def write(self, name: str, rows: list[Row]) -> None:
        """Stages table `name`."""
        self.rows[name] = rows
        parquet.write(self._path(name), schemas.TABLES[name], parquet.as_rows(schemas.TABLES[name], rows))

    def write_empty(self, name: str) -> None:
        """Stages table `name` without rows; its rows are not kept."""
        parquet.write(self._path(name), schemas.TABLES[name], [])

    def before(self, name: str) -> dict[str, list[Row]]:
        """Table `name` of the baseline days that have it, by date."""
        return {date: self._read(name, date) for date in self.days_before(name)}

    def days_before(self, name: str) -> list[str]:
        """The baseline days that table `name` has, oldest first."""
        first, last = self.date - dt.timedelta(days=self.baseline_days), self.date - dt.timedelta(days=1)
        return self.tables.between(name, first.isoformat(), last.isoformat())

    def same_weekdays(self, name: str) -> dict[str, list[Row]]:
        """Table `name` of the same weekday of the `WEEKS` weeks before, by date; empty if one of them lacks it."""
        dates = [(self.date - dt.timedelta(weeks=week)).isoformat() for week in range(WEEKS, 0, -1)]
        if not all(self.tables.has(name, date) for date in dates):
            return {}
        return {date: self._read(name, date) for date in dates}

    def last_before(self, name: str) -> list[Row] | None:
        """Table `name` of the last day before, however long ago; None if there is none."""
        days = [date for date in self.tables.days(name) if date < self.date.isoformat()]
        return self._read(name, days[-1]) if days else None

    def _path(self, name: str) -> Location:
        return self.tables.staging(self.date.isoformat()) / name / SMALL

    def _read(self, name: str, date: str) -> list[Row]:
        path = self.tables.day(name, date) / SMALL
        return parquet.read(path, schemas.TABLES[name]) if path.exists() else []
