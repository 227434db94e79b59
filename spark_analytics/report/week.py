"""The report of a week: its days, hosts, patterns and sign-ins, compared with the week before, without a clock.

It is a page, text and JSON next to the days, and the list of days links it. Its verdict is that of its worst day, in
the words of that day's report.
"""

import dataclasses
import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_analytics.metrics.sign_ins import attempts, failed_passwords
from spark_analytics.report import html as day_html
from spark_analytics.report import publish as day_publish
from spark_analytics.report import svg_charts
from spark_analytics.report.model import Severity, State
from spark_analytics.report.number_format import clean, count, size
from spark_analytics.report.zone_times import sentence_of
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, schemas
from spark_analytics.tables.store import SMALL, Tables

TOP = 20
"""Maximum entries of each list."""
SHOWN = 3
"""Maximum findings of a day in the text. The page has all."""
DAYS = 7
GONE_DAYS = 5
"""Days of the week before on which a pattern or a host must have had lines, so that none this week is worth a line."""
TOTALS = ("lines", "bytes", "errors", "failed_passwords", "missing_bytes")
_BAD = ("fatal", "error", "warn")

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class DayFinding:
    """A finding as the report of its day has it."""

    text: str
    state: str
    severity: str
    section: str  #: of the day's page
    key: str = ""  #: the same on each day of the same finding


@dataclass(frozen=True, slots=True)
class WeekDay:
    """One day of the week that was reported."""

    date: str
    state: str
    lines: int
    bytes: int
    errors: int
    hosts: int  #: that wrote a line
    new_patterns: int  #: of level warn and worse
    failed_passwords: int
    missing_bytes: int  #: recorded as lost, or missing between two spans
    word: str = ""  #: the state for people; empty: the day has no report of this version
    severity: str = Severity.NOTE.value  #: of the worst finding
    headline: str = ""
    findings: tuple[DayFinding, ...] = ()  #: worst first
    timezone: str = ""  #: of the times in the findings; empty: it has no report of this version


@dataclass(frozen=True, slots=True)
class Change:
    """A number of this week, and of the week before, None if the week before has fewer days."""

    name: str
    now: int
    before: int | None  #: on the weekdays that both weeks have; None: there is none
    days: tuple[int, ...]  #: by day, Monday first; 0 also for a day that was not reported
    compared: int | None = None  #: of this week, on the weekdays that `before` has
    days_before: tuple[int | None, ...] = ()  #: of the week before, by day; None: a day without a report


@dataclass(frozen=True, slots=True)
class WeekPattern:
    """A pattern of level warn and worse."""

    pattern_id: str
    template: str
    level: str
    lines: int
    days: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WeekFacts:
    """Everything of one week."""

    week: str  #: as 2026-W47 (ISO 8601)
    first: str
    last: str
    days: tuple[WeekDay, ...]
    days_before: int  #: reported days of the week before
    totals: tuple[Change, ...]
    hosts: tuple[Change, ...]  #: most lines first
    host_count: int
    gone_hosts: tuple[str, ...]
    frequent_patterns: tuple[WeekPattern, ...]
    new_patterns: tuple[WeekPattern, ...]
    new_count: int
    gone_patterns: tuple[WeekPattern, ...]  #: with the days of the week before
    remotes: tuple[Change, ...]  #: failed passwords by address
    worst: str = ""  #: the day whose verdict is that of the week
    state: str = State.COMPLETE.value
    word: str = State.COMPLETE.value
    severity: str = Severity.NOTE.value
    headline: str = ""
    same_weekdays: int = 0  #: that both weeks have; the comparison is on these


def week_of(day: dt.date) -> str:
    """The week of `day`, as 2026-W47."""
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"


def days_of(week: str) -> list[str]:
    """The dates of a week, Monday first. Raises ValueError: it is not a week."""
    year, _, number = week.partition("-W")
    monday = dt.date.fromisocalendar(int(year), int(number), 1)
    return [(monday + dt.timedelta(days=number)).isoformat() for number in range(DAYS)]


def week_before(week: str) -> str:
    """The week before `week`."""
    return week_of(dt.date.fromisoformat(days_of(week)[0]) - dt.timedelta(days=1))


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The tables of the reported days of one week."""

    dates: Sequence[str]
    tables: Mapping[str, Mapping[str, Rows]]  #: by table and date

    def rows(self, table: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row with the number of its day, Monday 0."""
        for date, rows in self.tables[table].items():
            for row in rows:
                yield self.dates.index(date), row

    @property
    def reported(self) -> frozenset[int]:
        """The weekdays that have a report, Monday 0."""
        return frozenset(map(self.dates.index, self.tables["runs"]))

    def by_day(self, table: str, key: str, value: str) -> dict[str, list[int]]:
        """Sums of `value` by `key` and day."""
        found: dict[str, list[int]] = defaultdict(lambda: [0] * DAYS)
        for day, row in self.rows(table):
            found[str(row[key])][day] += row[value] or 0
        return found

    def failed_by_address(self) -> dict[str, list[int]]:
        """Failed passwords by address and day."""
        found: dict[str, list[int]] = defaultdict(lambda: [0] * DAYS)
        for date, rows in self.tables["auth_daily"].items():
            for row in failed_passwords(rows):
                if row["remote"]:
                    found[row["remote"]][self.dates.index(date)] += attempts(row)
        return found


_READ = ("host_daily", "pattern_daily", "auth_daily", "audit")


def _loaded(tables: Tables, week: str) -> _Loaded:
    dates = days_of(week)
    runs = {date: rows for date in dates if tables.has("runs", date) and (rows := _read(tables, "runs", date))}
    return _Loaded(dates, {"runs": runs} | {name: {date: _read(tables, name, date) for date in runs} for name in _READ})


def _read(tables: Tables, name: str, date: str) -> Rows:
    try:
        return parquet.read(tables.day(name, date) / SMALL, schemas.TABLES[name])
    except FileNotFoundError:
        return []


def week_facts(tables: Tables, week: str) -> WeekFacts | None:
    """Makes the facts of `week`, None if no day of it was reported.

    Raises:
        ValueError: a table is damaged.
    """
    now, before = _loaded(tables, week), _loaded(tables, week_before(week))
    if not now.tables["runs"]:
        return None
    same = _same_weekdays(now, before)
    lines, lines_before = now.by_day("host_daily", "host", "lines"), before.by_day("host_daily", "host", "lines")
    remotes, remotes_before = now.failed_by_address(), before.failed_by_address()
    last_day = list(now.tables["runs"])[-1]
    registry = {row["pattern_id"]: row["template"] for row in _read(tables, "patterns", last_day)}
    patterns, patterns_before = _patterns(now, registry), _patterns(before, registry)
    new_rows = (row for _, row in now.rows("pattern_daily") if row["is_new"])
    new_keys = dict.fromkeys((row["pattern_id"], row["level"]) for row in new_rows)
    new = [patterns[key] for key in new_keys if key in patterns]
    briefs = {brief["date"]: brief for brief in day_publish.briefs_of(tables.out)}
    days = tuple(_day(now, date, briefs.get(date, {})) for date in now.tables["runs"])
    days_before = tuple(_day(before, date, briefs.get(date, {})) for date in before.tables["runs"])
    worst = min(days, key=_badness)
    active = {host for host, counts in lines.items() if any(counts)}
    return WeekFacts(
        week=week,
        first=now.dates[0],
        last=now.dates[-1],
        days=days,
        days_before=len(before.tables["runs"]),
        same_weekdays=len(same),
        totals=tuple(_total(name, now, days, before, days_before, same) for name in TOTALS),
        hosts=_top(lines, lines_before, before.reported, same),
        host_count=len(active),
        gone_hosts=tuple(sorted(h for h, c in lines_before.items() if _is_frequent(c) and h not in active)[:TOP]),
        frequent_patterns=_most(patterns.values()),
        new_patterns=_most(new),
        new_count=len(new),
        gone_patterns=_most(p for key, p in patterns_before.items() if _is_frequent(p.days) and key not in patterns),
        remotes=_top(remotes, remotes_before, before.reported, same),
        worst=worst.date,
        state=worst.state,
        word=worst.word or worst.state,
        severity=worst.severity,
        headline=worst.headline,
    )


def _is_frequent(counts: Sequence[int]) -> bool:
    return sum(1 for count in counts if count) >= GONE_DAYS


def _badness(day: WeekDay) -> tuple[int, int]:
    """The order of days, the worst first: of several equal ones the earliest."""
    return [state.value for state in State].index(day.state), [one.value for one in Severity].index(day.severity)


def _day(loaded: _Loaded, date: str, brief: Mapping[str, Any]) -> WeekDay:
    """Makes a day of its tables and of `brief`, its entry in the list of days, which may be empty."""
    run = loaded.tables["runs"][date][0]
    hosts, audit = loaded.tables["host_daily"][date], loaded.tables["audit"][date]
    new = {row["pattern_id"] for row in loaded.tables["pattern_daily"][date] if row["is_new"] and row["level"] in _BAD}
    return WeekDay(
        date=date,
        state=brief.get("state", run["status"]),
        lines=run["lines"],
        bytes=run["bytes"],
        errors=sum(row["err"] for row in hosts),
        hosts=sum(1 for row in hosts if row["lines"]),
        new_patterns=brief.get("new_bad_patterns", len(new)),
        failed_passwords=sum(map(attempts, failed_passwords(loaded.tables["auth_daily"][date]))),
        missing_bytes=sum(row["gap_bytes"] + row["offset_gap_bytes"] for row in audit),
        **{name: brief[name] for name in ("word", "severity", "headline", "timezone") if name in brief},
        findings=tuple(DayFinding(**one) for one in brief.get("found", ())),
    )


def _same_weekdays(now: _Loaded, before: _Loaded) -> tuple[int, ...]:
    """The weekdays that have a report in both weeks, Monday 0."""
    return tuple(sorted(now.reported & before.reported))


def _change(name: str, counts: Sequence[int], before: Sequence[int | None], same: Sequence[int]) -> Change:
    return Change(
        name=name,
        now=sum(counts),
        before=sum(before[day] or 0 for day in same) if same else None,
        days=tuple(counts),
        compared=sum(counts[day] for day in same) if same else None,
        days_before=tuple(before),
    )


def _total(
    name: str,
    now: _Loaded,
    days: Sequence[WeekDay],
    before: _Loaded,
    days_before: Sequence[WeekDay],
    same: Sequence[int],
) -> Change:
    ours, theirs = ({day.date: getattr(day, name) for day in each} for each in (days, days_before))
    return _change(name, [ours.get(date, 0) for date in now.dates], [theirs.get(date) for date in before.dates], same)


def _top(
    now: Mapping[str, Sequence[int]],
    before: Mapping[str, Sequence[int]],
    reported_before: frozenset[int],
    same: Sequence[int],
) -> tuple[Change, ...]:
    def then(name: str) -> list[int | None]:
        counts = before.get(name, (0,) * DAYS)
        return [count if day in reported_before else None for day, count in enumerate(counts)]

    most = sorted(now, key=lambda name: (-sum(now[name]), name))[:TOP]
    return tuple(_change(name, now[name], then(name), same) for name in most if any(now[name]))


def _patterns(loaded: _Loaded, registry: Mapping[str, str]) -> dict[tuple[str, str], WeekPattern]:
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * DAYS)
    for day, row in loaded.rows("pattern_daily"):
        if row["level"] in _BAD:
            counts[row["pattern_id"], row["level"]][day] += row["lines"]
    return {
        (name, level): WeekPattern(name, registry.get(name, name), level, sum(days), tuple(days))
        for (name, level), days in counts.items()
    }


def _most(found: Iterable[WeekPattern]) -> tuple[WeekPattern, ...]:
    return tuple(sorted(found, key=lambda pattern: (-pattern.lines, pattern.pattern_id))[:TOP])


# -- page, text and JSON -----------------------------------------------------------------------------------------------

VERSION = 1
"""Of `week-*.json`: increased when a name is removed or changes its meaning."""


def publish(out: Location, facts: WeekFacts) -> Location:
    """Writes `week-2026-W47.html`, `.txt` and `.json` under `out`, then the list of days, and returns the page."""
    page = out / f"week-{facts.week}.html"
    day_publish.write(page.with_name(f"week-{facts.week}.json"), as_json(facts))
    day_publish.write(page.with_name(f"week-{facts.week}.txt"), as_text(facts) + "\n")
    day_publish.write(page, as_html(facts))
    day_publish.write_index(out)
    return page


def as_json(facts: WeekFacts) -> str:
    """The facts under their own names."""
    return json.dumps({"v": VERSION, **dataclasses.asdict(facts)}, separators=(",", ":")) + "\n"


def change_of(change: Change) -> str:
    """`+12 %`, `new`, or empty without a week before."""
    now = change.now if change.compared is None else change.compared
    if change.before is None or change.before == now:
        return ""
    if not change.before:
        return "new"
    percent = round(100 * (now - change.before) / change.before)
    return f"{percent:+,} %" if percent else ""


def _number(change: Change) -> str:
    return _amount(change, change.now)


def _amount(change: Change, number: int) -> str:
    return size(number) if change.name.endswith("bytes") else f"{number:,}"


def verdict_of(facts: WeekFacts) -> str:
    """The verdict of the week as a sentence."""
    headline = f": {facts.headline}" if facts.headline else ""
    return f"The worst of {count(len(facts.days), 'day')} is {facts.worst}{headline}"


def as_text(facts: WeekFacts) -> str:
    """The summary without a final newline."""
    week = f"fshipper report for week {facts.week}, {facts.first} to {facts.last} (UTC)"
    lines = [
        f"{week}: {len(facts.days)} of 7 days, {facts.word}",
        *([f"  {verdict_of(facts)}"] * bool(facts.worst)),
        "",
    ]
    for change in facts.totals:
        compared = f", {change_of(change)} against the same weekdays" if change_of(change) else ""
        lines.append(f"  {change.name.replace('_', ' '):<18}{_number(change)}{compared}")
    lines.append("")
    for day in facts.days:
        counts = f"{day.lines:>14,} lines {day.errors:>10,} errors {day.hosts:>6,} hosts"
        lines.append(f"  {day.date}  {day.word or day.state:<9} {counts}")
        lines += [f"    - {finding.text}" for finding in day.findings[:SHOWN]]
        lines += [f"    - and {len(day.findings) - SHOWN} more, on its page"] if len(day.findings) > SHOWN else []
    lines += ["", f"  {sentence_of(day.timezone for day in facts.days)}"]
    for title, names in (
        ("hosts without a line", facts.gone_hosts),
        ("new patterns", [f"{p.level} {p.template} ({p.lines:,})" for p in facts.new_patterns[:5]]),
        ("patterns that are gone", [p.template for p in facts.gone_patterns[:5]]),
    ):
        lines += ["", f"  {title}:", *(f"    {name}" for name in names)] if names else []
    return "\n".join(clean(line, 160) for line in lines)


WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _column(date: str, day: WeekDay | None, lines: Change, place: int) -> svg_charts.DayColumn:
    """The column of a weekday, next to that of the week before."""
    before = lines.days_before[place] if lines.days_before else None
    then = "" if before is None else f"; {before:,} a week before"
    if day is None:
        return svg_charts.DayColumn(date, [], f"{date}  no report{then}", before=before or 0)
    kind, word = day_html.bar_class(dataclasses.asdict(day)), day.word or day.state
    tip = f"{date}  {word}, {day.lines:,} lines{then}"
    return svg_charts.DayColumn(date, [(kind, day.lines)], tip, f"{date}/report.html", before or 0)


def as_html(facts: WeekFacts) -> str:
    """The page, in the style of a day's."""
    days = {day.date: day for day in facts.days}
    columns = [_column(date, days.get(date), facts.totals[0], place) for place, date in enumerate(days_of(facts.week))]
    return day_html.page(
        "week.html",
        f=facts,
        style=facts.severity if facts.state == State.ATTENTION.value else facts.state,
        mark="!" if facts.severity == Severity.ACT.value else day_html.MARKS[State(facts.state)],
        verdict=verdict_of(facts),
        times=sentence_of(day.timezone for day in facts.days),
        bars=svg_charts.day_bars(columns, columns=DAYS),
        weekdays=WEEKDAYS,
        of_reported=lambda counts: [counts[place] for place, date in enumerate(days_of(facts.week)) if date in days],
        change_of=change_of,
        number_of=_number,
        amount_of=_amount,
        reported=[date in days for date in days_of(facts.week)],
    )
