"""What changed since the day before: since when each finding is there, and which of yesterday's are gone. Pure."""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_analytics.report.json_export import key_of
from spark_analytics.report.model import Facts, State


@dataclass(frozen=True, slots=True, kw_only=True)
class DayChanges:
    """The findings of a day against those of the reported days directly before it."""

    yesterday: str = ""  #: its date; empty: it has no report, and nothing is known
    since: Mapping[str, str] = field(default_factory=dict)  #: first day of each finding that was there yesterday
    gone: tuple[Mapping[str, Any], ...] = ()  #: findings of yesterday that are not there today
    new: int = 0


def day_changes(facts: Facts, briefs: Iterable[Mapping[str, Any]]) -> DayChanges:
    """The changes of the day of `facts`. `briefs`: entries of the list of days."""
    found = {brief["date"]: {one["key"]: one for one in brief["found"]} for brief in briefs}
    yesterday = _day_before(facts.date)
    if yesterday not in found:
        return DayChanges()
    findings = [one for one in facts.verdict.findings if one.state is not State.COMPLETE]
    keys = [key_of(dataclasses.asdict(one)) for one in findings]
    return DayChanges(
        yesterday=yesterday,
        since={key: _first_day(key, yesterday, found) for key in keys if key in found[yesterday]},
        gone=tuple(one for key, one in found[yesterday].items() if key not in keys),
        new=sum(key not in found[yesterday] for key in keys),
    )


def _first_day(key: str, last: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """The first of the days without a break up to `last` that have the finding `key`."""
    while key in found.get(before := _day_before(last), ()):
        last = before
    return last


def _day_before(date: str) -> str:
    return (dt.date.fromisoformat(date) - dt.timedelta(days=1)).isoformat()
