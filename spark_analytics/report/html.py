"""The report as a page: self-contained HTML without script, for any browser, telephone and printer.

Text from log lines, file names and hosts may be hostile: it is escaped by the template, stripped of control
and direction characters, and cut. Nothing is loaded from anywhere (Content-Security-Policy).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from spark_analytics.report import svg_charts
from spark_analytics.report.model import Facts, PartitionDay, State
from spark_analytics.report.number_format import (
    MAX_TEXT,
    clean,
    clock,
    count,
    milliseconds,
    percent,
    rounded,
    size,
    times,
)

MAX_BYTES = 300 * 1024
"""Maximum bytes of a page: it must open on a telephone and fit into a mail."""

MAP_ROWS = 25
"""Maximum rows of a heat map: each cell is as large as a row of a table."""

MARKS = {
    State.COMPLETE: "✓",
    State.ATTENTION: "i",
    State.OPEN: "…",
    State.GAPS: "!",
    State.DOUBLED: "2",
    State.DAMAGED: "✕",
}
"""The sign of each state, for readers who do not see colours."""


def rendered(facts: Facts, rows: int = 20) -> str:
    """The day's page, its lists at most `rows` long; shorter ones, and shorter texts, where it would be too large."""
    page = ""
    for shown, characters in ((rows, MAX_TEXT), (min(rows, 20), 200), (min(rows, 10), 120), (5, 80), (3, 40)):
        page = _rendered(facts, shown, characters)
        if len(page.encode(errors="replace")) <= MAX_BYTES:
            break
    return page


def _rendered(facts: Facts, rows: int, characters: int) -> str:
    environment = _environment()
    environment.filters["clean"] = lambda text, limit=characters: clean(text, min(limit, characters))
    volume = facts.volume
    shown = partitions_shown(facts)
    return environment.get_template("day.html").render(
        f=facts,
        rows=rows,
        findings=[finding for finding in facts.verdict.findings if finding.state is not State.COMPLETE],
        notes=[finding for finding in facts.verdict.findings if finding.state is State.COMPLETE],
        state=facts.verdict.state.value,
        mark=MARKS[facts.verdict.state],
        host_map=svg_charts.host_map(facts.completeness.cells),
        hours=svg_charts.stacked_hours({level.level: level.hours for level in volume.levels} or {"none": [0] * 24}),
        partitions=shown,
        partition_heat=_heat([(f"partition {day.partition}", day.hours) for day in shown]),
        host_heat=_heat([(clean(row.host, 60), row.hours) for row in volume.host_hours[: min(rows, MAP_ROWS)]]),
        web_hours=_web_hours(facts),
        most_rate=max((rate.high for rate in facts.errors.risen[:rows]), default=0.0),
    )


def partitions_shown(facts: Facts) -> list[PartitionDay]:
    """The largest partitions, in the order of their numbers."""
    largest = sorted(facts.volume.partitions, key=lambda day: (-day.bytes, day.partition))[:MAP_ROWS]
    return sorted(largest, key=lambda day: day.partition)


def _heat(rows: Sequence[tuple[str, Sequence[int]]]) -> list[tuple[str, int, Markup]]:
    most = max((max(hours) for _, hours in rows), default=0)
    return [(name, sum(hours), svg_charts.heat_row(hours, most, name)) for name, hours in rows]


def _web_hours(facts: Facts) -> Markup:
    if facts.web is None:
        return Markup()
    worst_first = sorted(facts.web.statuses, key=lambda row: row.status_class, reverse=True)
    return svg_charts.stacked_hours({row.status_class: row.hours for row in worst_first}, "requests")


def index(days: Sequence[Mapping[str, Any]]) -> str:
    """The list of all days, from their briefs (`json_export.brief`), newest first."""
    marks = {state.value: mark for state, mark in MARKS.items()}
    recent = list(reversed(days))[-60:]
    bars = svg_charts.day_bars([(day["date"], day["lines"], f"s-{day['state']}") for day in recent])
    lines = {
        day["date"]: [other["lines"] for other in reversed(days[place : place + 8])] for place, day in enumerate(days)
    }
    return (
        _environment().get_template("days.html").render(days=days, bars=bars, marks=marks, recent=recent, lines=lines)
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spark_analytics"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "clean": clean,
        "size": size,
        "grouped": "{:,}".format,
        "percent": percent,
        "times": times,
        "rounded": rounded,
        "clock": clock,
        "ms": milliseconds,
        "words": lambda text: str(text).replace("_", " "),
    }
    environment.globals |= {
        "bar": svg_charts.bar,
        "count": count,
        "sparkline": svg_charts.sparkline,
        "interval": svg_charts.interval,
    }
    return environment
