"""The times of a day's report in the zone that its reader chose. The day itself is the archive's, which is UTC."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from shipper import zone_names

HOURS = 24


@dataclass(frozen=True, slots=True)
class Clock:
    """Shows the times of the UTC day `date` in the zone `timezone`."""

    date: str
    timezone: str = "UTC"

    def __call__(self, time: str | None) -> str:
        """`14:05` of an RFC 3339 time in UTC, or `11-25 21:05` where the zone has another date than UTC then."""
        if not time:
            return "\N{EN DASH}"
        if self.timezone == "UTC":
            return time[11:16]
        moment = dt.datetime.fromisoformat(time)
        there = self._there(moment)
        other_date = f"{there:%m-%d} " if there.date() != moment.astimezone(dt.UTC).date() else ""
        return f"{other_date}{there:%H:%M}{_which(there)}"

    def hours(self) -> tuple[str, ...]:
        """The time at which each hour of the day begins: `01:00`, or `05:30` in a zone of half hours."""
        midnight = dt.datetime.fromisoformat(self.date).replace(tzinfo=dt.UTC)
        starts = (self._there(midnight + dt.timedelta(hours=hour)) for hour in range(HOURS))
        return tuple(f"{start:%H:%M}{_which(start)}" for start in starts)

    @property
    def sentence(self) -> str:
        """Which zone the times are in, and what the day is in it."""
        if self.timezone == "UTC":
            return "times are UTC"
        midnight = dt.datetime.fromisoformat(self.date).replace(tzinfo=dt.UTC)
        first, end = (f"{self._there(midnight + dt.timedelta(days=days)):%m-%d %H:%M}" for days in (0, 1))
        return f"times are {self.timezone}; the day is that of UTC, {first} to {end} there"

    def _there(self, moment: dt.datetime) -> dt.datetime:
        return moment.astimezone(zone_names.load(self.timezone) or dt.UTC)


def _which(there: dt.datetime) -> str:
    """` CET` of a time that the clock shows twice, when summer time ends."""
    is_double = there.replace(fold=0).utcoffset() != there.replace(fold=1).utcoffset()
    return f" {there:%Z}" if is_double else ""


def sentence_of(timezones: Iterable[str]) -> str:
    """Which zones the times of several days' reports are in, or nothing if there is no report."""
    names = sorted(set(filter(None, timezones)))
    if len(names) > 1:
        return f"times are {', '.join(names[:-1])} or {names[-1]}, as on the page of each day"
    return f"times are {names[0]}" if names else ""
