"""The report as pages: self-contained HTML for any browser, telephone and printer, without need of a script.

The one script sorts, filters and copies. The Content-Security-Policy names it and the style sheet by their hashes, so
nothing else runs and nothing is loaded from anywhere. Text from log lines, file names and hosts may be hostile: the
template escapes it, control and direction characters are removed, and it is cut.
"""

import base64
import dataclasses
import datetime as dt
import functools
import glob
import hashlib
import itertools
import re
import shlex
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from shipper.page_sheets import with_sheets
from spark_analytics.metrics import events, statistics
from spark_analytics.metrics.sign_ins import FAILED
from spark_analytics.report import json_export, number_format, svg_charts
from spark_analytics.report.content import BAD_LEVELS
from spark_analytics.report.day_changes import DayChanges
from spark_analytics.report.hosts import HostDate, HostPage
from spark_analytics.report.model import Facts, Finding, Severity, State
from spark_analytics.report.number_format import MAX_TEXT, change, clean, visible
from spark_analytics.report.zone_times import Clock, sentence_of
from spark_analytics.tables.day_tables import ROW_EXAMPLES, RowKey

MAX_BYTES = 300 * 1024
"""Maximum bytes of a page: it must open on a telephone and fit into a mail."""

LINE_CHARACTERS = 200
"""Maximum characters of an example line on a page."""

MAP_ROWS = 25
"""Maximum rows of a heat map: each cell is as large as a row of a table."""

NEXT_DAY = '<span class="later">next day</span>'
"""Where a page has no next day yet. The report of that day replaces it by a link."""

MARKS = {
    State.COMPLETE: "✓",
    State.ATTENTION: "i",
    State.OPEN: "…",
    State.GAPS: "!",
    State.DOUBLED: "2",
    State.DAMAGED: "✕",
}
"""The sign of each state, for readers who do not see colours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What a page links to."""

    browse: str = ""  #: the address of `fshipper browse`; empty: no links to lines
    previous: str = ""  #: the reported days before and after; empty without one
    next: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)  #: the file of each host that has a page
    changes: DayChanges = field(default_factory=DayChanges)  #: against the findings of the day before


def rendered(facts: Facts, rows: int = 20, links: Links | None = None) -> str:
    """Renders the day's page with lists of at most `rows`, fewer rows and shorter texts if it would be too large."""
    made = ""
    for shown, characters, lines in (
        (rows, MAX_TEXT, 3),
        (rows, MAX_TEXT, 1),
        (min(rows, 20), 200, 1),
        (min(rows, 10), 120, 1),
        (5, 80, 1),
        (3, 40, 0),
    ):
        made = _rendered(facts, shown, characters, lines, links or Links())
        if len(made.encode(errors="replace")) <= MAX_BYTES:
            break
    return made


def _rendered(facts: Facts, rows: int, characters: int, lines: int, links: Links) -> str:
    """`lines` is the maximum number of example lines of a row."""
    volume = facts.volume
    largest = sorted(volume.partitions, key=lambda day: (-day.bytes, day.partition))[:MAP_ROWS]
    shown = sorted(largest, key=lambda day: day.partition)
    worst_first = sorted(facts.web.statuses if facts.web else (), key=lambda row: row.status_class, reverse=True)
    return page(
        "day.html",
        characters,
        f=facts,
        rows=rows,
        links=links,
        state=facts.verdict.state.value,
        judgements=_judgements(facts),
        findings=_finding_rows(facts, links),
        by_severity=Counter(one.severity.value for one in facts.verdict.findings).items(),
        changes=_changes(facts),
        host_map=svg_charts.host_map(facts.completeness.cells),
        hours=svg_charts.stacked_hours(
            {level.level: level.hours for level in volume.levels} or {"none": [0] * 24}, facts.clock
        ),
        bad_hours=_bad_hours(facts),
        partitions=shown,
        partition_heat=_heat([(f"partition {day.partition}", day.lines, day.hours) for day in shown], facts.clock),
        host_heat=_heat(
            [(row.host, row.lines, row.hours) for row in volume.host_hours[: min(rows, MAP_ROWS)]], facts.clock
        ),
        web_hours=svg_charts.stacked_hours(
            {row.status_class: row.hours for row in worst_first}, facts.clock, "requests"
        ),
        example_lines=_example_lines(facts, min(characters, LINE_CHARACTERS), lines),
    )


def _judgements(facts: Facts) -> list[dict[str, Any]]:
    """The two verdicts."""
    complete, attention = facts.verdict.complete, facts.verdict.attention
    return [
        {
            "question": question,
            "judgement": judgement,
            "mark": MARKS[judgement.state] if judgement.severity is not Severity.ACT else "!",
            "style": judgement.severity.value if judgement.state is State.ATTENTION else judgement.state.value,
        }
        for question, judgement in (("Complete?", complete), ("Worth checking?", attention))
        if judgement is not None
    ]


def _bad_hours(facts: Facts) -> Markup:
    """The chart of lines that are warnings or worse, which the chart of all lines hardly shows."""
    levels = {level.level: level.hours for level in facts.volume.levels if level.level in BAD_LEVELS}
    return svg_charts.stacked_hours(levels, facts.clock) if any(map(any, levels.values())) else Markup()


class FindingRow(NamedTuple):
    """A finding in the list of the day's page."""

    finding: Finding
    word: str  #: its severity, or the state of the archive that it causes
    since: str  #: the first day without a break; empty: it is new, or nothing is known
    is_new: bool
    trend: Markup
    usual: str
    today: str
    what: str  #: what is counted, for the number of today


def _finding_rows(facts: Facts, links: Links) -> list[FindingRow]:
    """The findings, most urgent first: then what is to be checked, then notes."""
    severities = list(Severity)
    made = []
    for finding in sorted(facts.verdict.findings, key=lambda one: severities.index(one.severity)):
        since = links.changes.since.get(json_export.key_of(dataclasses.asdict(finding)), "")
        is_judged = finding.state is not State.COMPLETE
        trend, usual, today = _trend(finding, facts)
        word = finding.severity.value if finding.state in _CALM_STATES else finding.state.value
        is_new = bool(links.changes.yesterday) and is_judged and not since
        what = finding.trend.what if finding.trend else ""
        what = what.removesuffix("s") if today == "1" else what
        made.append(FindingRow(finding, word, since, is_new, trend, usual, today, what))
    return made


_CALM_STATES = {State.COMPLETE, State.ATTENTION}


def _trend(finding: Finding, facts: Facts) -> tuple[Markup, str, str]:
    """The chart of a finding's trend, its usual number and that of the day, empty without a trend."""
    trend = finding.trend
    if trend is None or len(trend.values) != len(facts.history.days) + 1:
        return Markup(), "", ""
    show = number_format.percent if trend.is_share else number_format.rounded
    dates = (*facts.history.days, facts.date)
    tips = [f"{date[5:]}: {show(value)} {trend.what}" for date, value in zip(dates, trend.values, strict=True)]
    usual = statistics.median(trend.values[:-1]) if facts.history.enough else None
    return svg_charts.trend_bars(trend.values, tips), "" if usual is None else show(usual), show(trend.values[-1])


def _changes(facts: Facts) -> dict[str, str]:
    """The change of each total against yesterday and against the same weekday."""
    whole, made = facts.totals, {}
    for name in ("lines", "bytes", "hosts", "errors"):
        now, before = getattr(whole, name), getattr(whole, f"{name}_before")
        parts = []
        if whole.has_yesterday and (text := change(now, before[-1])):
            parts.append(f"{text} against the day before")
        if (usual := statistics.median(getattr(whole.weekdays, name))) and (text := change(now, usual)):
            parts.append(f"{text} against this weekday")
        made[name] = ", ".join(parts)
    return made


def _example_lines(facts: Facts, characters: int, most: int) -> Callable[..., list[str]]:
    """A function that gives the example lines of a row by its kind and names."""
    found = {RowKey(one.kind, one.names): one.lines for one in facts.examples}

    def lines(kind: str, *names: str) -> list[str]:
        return [visible(line, characters) for line in found.get(RowKey(kind, names), ())[:most]]

    return lines


def host_page(host: HostPage, links: Links, facts: Facts) -> str:
    """The page of one host of the day `facts`."""
    heat = _heat([(host.day.host, host.day.lines, host.hours)] if host.hours else [], facts.clock)
    lines = _example_lines(facts, LINE_CHARACTERS, ROW_EXAMPLES)
    bars = svg_charts.day_bars([_column_of_host(day) for day in host.week], columns=len(host.week))
    return page("host.html", f=facts, p=host, bars=bars, links=links, heat_rows=heat, example_lines=lines)


def _column_of_host(day: HostDate) -> svg_charts.DayColumn:
    """Errors and warnings at the bottom, where their columns can be compared."""
    parts = [("l-error", day.errors), ("l-warn", day.warnings), ("l-info", day.others)]
    return svg_charts.DayColumn(
        day.date, parts, f"{day.date}  {day.lines:,} lines: {day.errors:,} error, {day.warnings:,} warn"
    )


class HeatMap(NamedTuple):
    """Rows of (name, lines, cells), and the legend of the cells: (shade, text)."""

    rows: list[tuple[str, int, Markup]]
    legend: list[tuple[int, str]]


def _heat(rows: Sequence[tuple[str, int, Sequence[int]]], clock: Clock) -> HeatMap:
    most = max((max(hours) for _, _, hours in rows), default=0)
    named = ((clean(name, 60), lines, hours) for name, lines, hours in rows)
    made = [(name, lines, svg_charts.heat_row(hours, most, name, clock)) for name, lines, hours in named]
    return HeatMap(made, svg_charts.shade_legend(most))


def index(days: Sequence[Mapping[str, Any]], weeks: Sequence[str] = ()) -> str:
    """Renders the list of all days, newest first, from their briefs (`json_export.brief`), and of the pages `weeks`."""
    marks = {state.value: mark for state, mark in MARKS.items()}
    recent = list(reversed(days))[-60:]
    bars = svg_charts.day_bars(
        [
            svg_charts.DayColumn(
                name=day["date"],
                parts=[(bar_class(day), day["lines"])],
                tip=f"{day['date']}  {day['word']}, {day['lines']:,} lines",
                page=f"{day['date']}/report.html",
            )
            for day in recent
        ]
    )
    months = [(month, list(group)) for month, group in itertools.groupby(days, key=lambda day: day["date"][:7])]
    lines = {
        day["date"]: [other["lines"] for other in reversed(days[place : place + 8])] for place, day in enumerate(days)
    }
    times = sentence_of(day["timezone"] for day in days)
    return page(
        "days.html",
        days=days,
        months=months,
        bars=bars,
        bar_kinds={bar_class(day) for day in recent},
        marks=marks,
        recent=recent,
        lines=lines,
        weeks=weeks,
        times=times,
    )


def bar_class(day: Mapping[str, Any]) -> str:
    """The class of a day's bar: by its state, or by the severity of its worst finding."""
    is_judged = day["state"] == State.ATTENTION.value and day.get("severity") in {"act", "look"}
    return f"v-{day['severity']}" if is_judged else f"s-{day['state']}"


@functools.cache
def text_and_hash(name: str) -> tuple[Markup, str]:
    """A file of the templates, and its hash for the Content-Security-Policy."""
    text = resources.files("spark_analytics").joinpath("templates", name).read_text(encoding="utf-8")
    text = with_sheets(text)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"  # noqa: S704 - a file of this program


def policy(style: str, script: str = "") -> str:
    """The Content-Security-Policy of a page with a style sheet and a script of these hashes."""
    scripts = f" script-src '{script}';" if script else ""
    return f"default-src 'none'; style-src '{style}';{scripts} img-src data:; base-uri 'none'; form-action 'none'"


def page(template: str, characters: int = MAX_TEXT, **values: Any) -> str:
    """Renders a template of this package, with texts from outside cut to `characters`."""
    environment = _environment()
    environment.filters["clean"] = lambda text, limit=characters: clean(text, min(limit, characters))
    environment.filters["visible"] = lambda text: visible(text, characters)
    facts = values.get("f")
    archive = facts.run.archive if isinstance(facts, Facts) else ""
    return environment.get_template(template).render(**values, Search=functools.partial(Search, archive=archive))


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spark_analytics"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "size": number_format.size,
        "grouped": "{:,}".format,
        "percent": number_format.percent,
        "times": number_format.times,
        "rounded": number_format.rounded,
        "ms": number_format.milliseconds,
        "short": number_format.shortened,
        "words": lambda text: str(text).replace("_", " "),
    }
    css, css_hash = text_and_hash("day.css")
    script, script_hash = text_and_hash("page.js")
    environment.globals |= {
        "address_of_finding": address_of_finding,
        "bar": svg_charts.bar,
        "change": change,
        "count": number_format.count,
        "css": css,
        "csp": policy(css_hash, script_hash),
        "event_named": events.named,
        "hour_labels": svg_charts.hour_labels,
        "next_day": Markup(NEXT_DAY),  # noqa: S704 - a constant
        "of_template": of_template,
        "phrase": phrase,
        "query_of_finding": query_of_finding,
        "script": script,
        "sparkline": svg_charts.sparkline,
    }
    return environment


# -- searches: the `fshipper search` command, and the address in `fshipper browse`, for the lines of a row -------------

MAX_PHRASES = 3
"""Maximum phrases of a pattern that are searched, the longest ones."""

MIN_PHRASE = 3
"""Minimum characters of a phrase."""

MAX_NAME = 200
MAX_LINKED_HOSTS = 8
"""Maximum hosts of a finding that its search names."""
SERVED = "/logs/"
"""The search page of `fshipper web`. Links to it are shown only where that serves the report (`.served`)."""
_MASKED = re.compile(r"<[^<> ]{0,40}>|[\"\\\x00-\x1f\x7f]+|\N{REPLACEMENT CHARACTER}")


@dataclass(frozen=True, slots=True)
class Search:
    """A search for lines of one day."""

    date: str
    query: str = ""
    host: str = ""
    file: str = ""
    archive: str = ""  #: the directory of the archive; empty: the command names none

    def command(self) -> str:
        """The command, quoted for a shell."""
        since, until = self.window()
        is_local = self.archive and "://" not in self.archive and clean(self.archive, MAX_NAME) == self.archive
        archive = ["--archive", self.archive] if is_local else []
        words = ["fshipper", "search", *archive, "--since", since, "--until", until]
        if self.file:
            words += ["--file", _exact(self.file)]
        words += ["--", self.query, *([_exact(self.host)] if self.host else [])]
        return shlex.join(words)

    def address(self, browse: str) -> str:
        """The view of `fshipper browse` at that address, or of the search page of `fshipper web`."""
        since, until = self.window()
        pairs = [("q", self.query), ("host", _exact(self.host)), ("file", _exact(self.file))]
        given = [(name, text) for name, text in pairs if text]
        return (
            f"{(browse or SERVED).rstrip('/')}/#{urllib.parse.urlencode([*given, ('since', since), ('until', until)])}"
        )

    def window(self) -> tuple[str, str]:
        """The beginning and the end of the day."""
        day = dt.date.fromisoformat(self.date)
        return f"{day}T00:00:00Z", f"{day + dt.timedelta(days=1)}T00:00:00Z"


def query_of_finding(finding: Finding, facts: Facts) -> str:
    """The query for the lines of a finding: texts of its event or pattern, its address. Empty: all lines there."""
    patterns, name = facts.patterns, finding.names[0] if finding.names else ""
    if finding.kind == "event":
        return next((of_template(event.template) for event in patterns.events if event.kind == name), "")
    if finding.kind in {"new_pattern", "surging_pattern", "back_pattern"}:
        rows = (*patterns.new, *patterns.surging, *patterns.back)
        return next((of_template(row.template) for row in rows if row.pattern_id == name), "")
    if finding.kind == "sign_in" and facts.auth.after_failures_count == 1:
        return phrase(facts.auth.after_failures[0].remote)
    if finding.kind == "failed_passwords" or (finding.kind == "auth" and name == FAILED):
        return phrase("Failed password")
    return ""


def address_of_finding(finding: Finding, date: str, browse: str, query: str = "") -> str:
    """The search for the lines of a finding by query, hosts, file and time. Empty: these do not lead to lines."""
    if finding.kind == "silent" or not (finding.hosts or finding.file):
        return ""
    since, until = Search(date).window()
    if finding.first and finding.last:
        last = dt.datetime.fromisoformat(finding.last) + dt.timedelta(seconds=1)
        since, until = finding.first, last.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    places = [("q", query)] if query else []
    places += [("host", _exact(host)) for host in finding.hosts[:MAX_LINKED_HOSTS]]
    places += [("file", _exact(finding.file))] if finding.file else []
    return f"{(browse or SERVED).rstrip('/')}/#{urllib.parse.urlencode([*places, ('since', since), ('until', until)])}"


def _exact(name: str) -> str:
    """A glob that matches `name` alone."""
    return glob.escape(clean(name, MAX_NAME))


def phrase(text: str) -> str:
    """`text` as a phrase of the query language."""
    return '"' + re.sub(r'(["\\])', r"\\\1", clean(text, MAX_NAME)) + '"'


def of_template(template: str) -> str:
    """The query for lines of a pattern: its longest texts between the masks, as phrases that must all occur."""
    parts = [part.strip() for part in _MASKED.split(clean(template))]
    longest = sorted((part for part in parts if len(part) >= MIN_PHRASE), key=len, reverse=True)[:MAX_PHRASES]
    return " ".join(f'"{part}"' for part in parts if part in longest)
