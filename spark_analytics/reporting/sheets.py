"""The report for spreadsheets: CSV as RFC 4180 has it, UTF-8, a header, all rows that the page shows the first of.

A cell that begins with `=`, `+`, `-` or `@` would be a formula to a spreadsheet, and log text is written by strangers:
text of that kind gets an apostrophe before it. Numbers are left alone.
"""

import csv
import dataclasses
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_analytics.reporting.evidence import Evidence
from spark_analytics.reporting.facts import Facts
from spark_analytics.reporting.wording import clean

_FORMULA = ("=", "+", "-", "@")
MOST_TEXT = 1000


def sheets(facts: Facts, evidence: Evidence) -> Mapping[str, str]:
    """CSV texts by their file names."""
    return {
        "hosts.csv": _sheet(evidence.date, sorted(evidence.hosts, key=lambda row: (row.partition, row.host))),
        "completeness.csv": _sheet(evidence.date, evidence.account.hosts),
        "troubles.csv": _sheet(evidence.date, evidence.account.troubles),
        "errors.csv": _sheet(evidence.date, sorted(evidence.files, key=lambda row: (-row.errors, row.host, row.file))),
        "partitions.csv": _sheet(evidence.date, facts.volume.partitions),
        "hours.csv": _sheet(evidence.date, evidence.hours),
        "patterns.csv": _sheet(evidence.date, evidence.patterns),
        "auth.csv": _sheet(evidence.date, evidence.auth_tops),
        "web.csv": _sheet(evidence.date, evidence.web_tops),
    }


def _sheet(date: str, rows: Sequence[Any]) -> str:
    """Values of one dataclass as a table; numbers of several days go side by side, separated by spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if rows:
        names = [field.name for field in dataclasses.fields(rows[0])]
        writer.writerow(["date", *names])
        writer.writerows([date, *(cell(getattr(row, name)) for name in names)] for row in rows)
    else:
        writer.writerow(["date"])
    return text.getvalue()


def cell(value: object) -> object:
    """What stands in a cell."""
    if value is None:
        return ""
    if isinstance(value, int | float):  # `bool` among them
        return +value
    if isinstance(value, str):
        shown = clean(value, MOST_TEXT)
        return "'" + shown if shown.startswith(_FORMULA) else shown
    if isinstance(value, Iterable):
        return " ".join(str(entry) for entry in value)
    return value
