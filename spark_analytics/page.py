"""The report as a page: self-contained HTML without script, for any browser, telephone and printer.

Whatever comes from a log file's name or a host is hostile: it is escaped by the template, stripped of control and
direction characters, and cut. Nothing is loaded from anywhere (Content-Security-Policy).
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from spark_analytics import schemas, svg
from spark_analytics.report import Report, State
from spark_analytics.wording import count, size

MAX_TEXT = 300
"""Characters of one text from outside that are shown."""

HOURS = 24
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}

MARKS = {State.COMPLETE: "✓", State.OPEN: "…", State.GAPS: "!", State.DAMAGED: "✕"}
"""The sign of each state: colour alone is not seen by everybody."""


def rendered(report: Report) -> str:
    """The day's page."""
    on_day = _mostly_on_day(report)
    return (
        _environment()
        .get_template("report.html")
        .render(
            r=report,
            state=report.verdict.state.value,
            mark=MARKS[report.verdict.state],
            on_day=on_day,
            hours=svg.stacked_hours(_hours(report, on_day=on_day), schemas.LEVELS),
            levels=[(level, report.levels[level]) for level in schemas.LEVELS if report.levels.get(level)],
            heat=_heat(report, on_day=on_day),
            most_in_partition=max((entry.bytes for entry in report.partitions), default=0),
            most_in_host=max((entry.bytes for entry in report.hosts), default=0),
            most_in_file=max((entry.bytes for entry in report.files), default=0),
            partitions=sorted(report.partitions, key=lambda entry: -entry.bytes)[: max(len(report.hosts), 1)],
        )
    )


def index(reports: Sequence[Mapping[str, Any]]) -> str:
    """The list of all days, from their `report.json`, newest first."""
    most = max((day["totals"]["bytes"] for day in reports), default=0)
    marks = {state.value: mark for state, mark in MARKS.items()}
    return _environment().get_template("index.html").render(days=reports, most=most, marks=marks)


def _mostly_on_day(report: Report) -> bool:
    """Whether the hours of the day itself are worth a chart; old files shipped today have theirs long ago."""
    return report.totals.other_day_lines * 2 <= report.totals.lines


def _hours(report: Report, *, on_day: bool) -> list[dict[str, int]]:
    hours: list[dict[str, int]] = [{} for _ in range(HOURS)]
    for entry in report.hours:
        if entry.on_day or not on_day:
            levels = hours[entry.hour]
            levels[entry.level] = levels.get(entry.level, 0) + entry.lines
    return hours


def _heat(report: Report, *, on_day: bool) -> list[tuple[str, int, Markup]]:
    """(host, lines, row of cells) for each of the largest hosts, in their order."""
    grid: dict[tuple[int, str], list[int]] = {}
    for entry in report.host_hours:
        row = grid.setdefault((entry.partition, entry.host), [0] * HOURS)
        if entry.on_day or not on_day:
            row[entry.hour] += entry.lines
    most = max((max(row) for row in grid.values()), default=0)
    ordered = [(entry.host, grid[key]) for entry in report.hosts if (key := (entry.partition, entry.host)) in grid]
    return [(host, sum(row), svg.heat_row(row, most, clean(host, 60))) for host, row in ordered]


def clean(text: object, limit: int = MAX_TEXT) -> str:
    """`text` without control and direction characters, at most `limit` characters long."""
    kept = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _UNSHOWN else c for c in str(text)[:limit])
    return kept if len(str(text)) <= limit else kept[: limit - 1] + "…"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spark_analytics"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"clean": clean, "size": size, "grouped": "{:,}".format, "percent": _percent}
    environment.globals |= {"bar": svg.bar, "count": count}
    return environment


def _percent(part: int, whole: int) -> str:
    if not part or not whole:
        return "0 %"
    share = 100 * part / whole
    if share < 0.1:  # noqa: PLR2004 - what is shown rounded must not read as nothing or all
        return "< 0.1 %"
    return "> 99.9 %" if part < whole and share > 99.9 else f"{share:.1f} %"  # noqa: PLR2004
