"""Writes a week as page, text and JSON next to the days, and links it from the list of days."""

import dataclasses
import json
from typing import Any

from spark_analytics.report import html as day_html
from spark_analytics.report import publish as day_publish
from spark_analytics.report import templates
from spark_analytics.report.number_format import clean, size
from spark_analytics.storage.locations import Location
from spark_analytics.week.facts import Change, WeekFacts

VERSION = 1
"""Of `week-*.json`: increased when a name is removed or changes its meaning."""

LABELS = {
    "lines": "lines",
    "bytes": "bytes",
    "errors": "errors",
    "failed_passwords": "failed passwords",
    "missing_bytes": "missing bytes",
}


def publish(out: Location, facts: WeekFacts) -> Location:
    """Writes `week-2026-W47.html`, `.txt` and `.json` under `out`, then the list of days; returns the page."""
    page = out / f"week-{facts.week}.html"
    day_publish.write(page.with_name(f"week-{facts.week}.json"), as_json(facts))
    day_publish.write(page.with_name(f"week-{facts.week}.txt"), as_text(facts) + "\n")
    day_publish.write(page, as_html(facts))
    day_publish.write_index(out)
    return page


def as_json(facts: WeekFacts) -> str:
    """The facts under their own names."""
    fields: dict[str, Any] = {"v": VERSION, **dataclasses.asdict(facts)}
    return json.dumps(fields, separators=(",", ":")) + "\n"


def change_of(change: Change) -> str:
    """`+12 %`, `new`, or empty without a week before."""
    if change.before is None or change.before == change.now:
        return ""
    if not change.before:
        return "new"
    return f"{100 * (change.now - change.before) / change.before:+.0f} %"


def _number(change: Change) -> str:
    return size(change.now) if change.name.endswith("bytes") else f"{change.now:,}"


def as_text(facts: WeekFacts) -> str:
    """The summary without a final newline."""
    lines = [f"fshipper report for week {facts.week}, {facts.first} to {facts.last}: {len(facts.days)} of 7 days", ""]
    for change in facts.totals:
        compared = f", {change_of(change)} against the week before" if change_of(change) else ""
        lines.append(f"  {LABELS[change.name]:<18}{_number(change)}{compared}")
    lines.append("")
    lines += [
        f"  {day.date}  {day.state:<9} {day.lines:>14,} lines {day.errors:>10,} errors {day.hosts:>6,} hosts"
        for day in facts.days
    ]
    for title, names in (
        ("hosts without a line", facts.gone_hosts),
        ("new patterns", [f"{p.level} {p.template} ({p.lines:,})" for p in facts.new_patterns[:5]]),
        ("patterns that are gone", [p.template for p in facts.gone_patterns[:5]]),
    ):
        lines += ["", f"  {title}:", *(f"    {name}" for name in names)] if names else []
    return "\n".join(clean(line, 160) for line in lines)


def as_html(facts: WeekFacts) -> str:
    """The page: without script, and nothing is loaded."""
    environment = templates.environment(
        {
            "clean": clean,
            "size": size,
            "grouped": "{:,}".format,
            "change": change_of,
            "number": _number,
        }
    )
    css, digest = day_html.text_and_hash("week.css")
    return environment.get_template("week.html").render(f=facts, labels=LABELS, css=css, csp=day_html.policy(digest))
