"""Writes a day's report and the index of all days: each file is replaced in one step, the link `latest` is last.

CSV files follow RFC 4180: UTF-8, with a header, and all rows of the lists on the page. A cell that begins with `=`,
`+`, `-` or `@` would be a formula in a spreadsheet, and log text may be hostile: such text gets an apostrophe at its
start. Numbers are not changed.
"""

import contextlib
import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shipper.page_sheets import host_page_name
from spark_analytics.report import hosts, html, json_export, text
from spark_analytics.report.day_changes import day_changes
from spark_analytics.report.inputs import Evidence
from spark_analytics.report.model import Facts
from spark_analytics.report.number_format import clean
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location

_FORMULA = ("=", "+", "-", "@")
MAX_TEXT_CHARACTERS = 1000


def csv_sheets(facts: Facts, evidence: Evidence) -> Mapping[str, str]:
    """CSV texts by their file names."""
    sheets: dict[str, Sequence[Any]] = {
        "hosts": sorted(evidence.hosts, key=lambda row: (row.partition, row.host)),
        "completeness": evidence.account.hosts,
        "troubles": evidence.account.troubles,
        "errors": sorted(evidence.files, key=lambda row: (-row.errors, row.host, row.file)),
        "partitions": facts.volume.partitions,
        "hours": evidence.hours,
        "patterns": evidence.patterns,
        "auth": evidence.auth_tops,
        "web": evidence.web_tops,
        "untimed": evidence.untimed,
    }
    return {f"{name}.csv": _sheet(evidence.date, rows) for name, rows in sheets.items()}


def _sheet(date: str, rows: Sequence[Any]) -> str:
    """Writes values of one dataclass as a table, with the numbers of several days in one cell, separated by spaces."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [field.name for field in dataclasses.fields(rows[0])] if rows else []
    writer.writerow(["date", *names])
    writer.writerows([date, *(cell(getattr(row, name)) for name in names)] for row in rows)
    return text.getvalue()


def cell(value: object) -> object:
    """The value of a cell."""
    if value is None:
        return ""
    if isinstance(value, int | float):  # `bool` among them
        return +value
    if isinstance(value, str):
        shown = clean(value, MAX_TEXT_CHARACTERS)
        return "'" + shown if shown.startswith(_FORMULA) else shown
    if isinstance(value, Iterable):
        return " ".join(str(entry) for entry in value)
    return value


def publish(out: Location, facts: Facts, evidence: Evidence, rows: int = 20, browse: str = "") -> None:
    """Writes the pages, JSON, text and CSV of the day with lists of `rows`, then `index.html`, last `latest`.

    `browse` is the address of `fshipper browse` for links to lines.

    Raises:
        OSError: a file cannot be written; the old one is unchanged.
    """
    day = out / facts.date
    for name, content in csv_sheets(facts, evidence).items():
        write(out / "csv" / facts.date / name, content)
    earlier = list(briefs_of(out))
    known = {str(brief["date"]) for brief in earlier}
    pages = hosts.host_pages(facts, evidence)
    links = html.Links(
        browse=browse,
        previous=max((date for date in known if date < facts.date), default=""),
        next=min((date for date in known if date > facts.date), default=""),
        hosts={page.day.host: host_page_name(page.day.host) for page in pages},
        changes=day_changes(facts, earlier),
    )
    locations.remove(day / "host")  # pages of an earlier report of the day
    for page in pages:
        write(day / "host" / links.hosts[page.day.host], html.host_page(page, links, facts))
    write(day / "report.txt", text.as_text(facts) + "\n")
    write(day / "report.html", html.rendered(facts, rows, links))
    write(day / "report.json", json_export.to_text(facts))
    if links.previous:
        _link_next_day(out / links.previous / "report.html", facts.date)
    briefs = write_index(out)
    if isinstance(out, Path):  # stores have no links, nor have some file systems
        scratch = out / ".latest.new"
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
            scratch.symlink_to(briefs[0]["date"] if briefs else facts.date)
            scratch.replace(out / "latest")


def _link_next_day(page: Location, date: str) -> None:
    """Gives the page of the day before its link to the one of `date`."""
    with contextlib.suppress(OSError):  # the page is complete without it
        old = page.read_bytes().decode("utf-8", "surrogateescape")
        if html.NEXT_DAY in old:
            linked = old.replace(html.NEXT_DAY, f'<a href="../{date}/report.html">next day</a>', 1)
            locations.write(page, linked.encode("utf-8", "surrogateescape"))


def write_index(out: Location) -> list[dict[str, Any]]:
    """Writes `index.html`, the list of days and weeks, and returns the days, newest first."""
    briefs = list(briefs_of(out))
    weeks = sorted((path.name for path in out.glob("week-*.html")), reverse=True)
    write(out / "index.html", html.index(briefs, weeks))
    return briefs


def briefs_of(out: Location) -> Iterator[dict[str, Any]]:
    """Each reported day, newest first, without reports of other versions and incomplete ones."""
    found: list[Location] = [*out.glob("[0-9]*-[0-9]*-[0-9]*/report.json")]
    for path in sorted(found, key=str, reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            if shown := json_export.brief(json.loads(path.read_bytes())):
                yield shown


def write(path: Location, content: str) -> None:
    """Replaces the file `path` in one step."""
    locations.write(path, content.encode("utf-8", "backslashreplace"))
