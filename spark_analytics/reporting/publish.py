"""Writes a day's report and the index of all days: each file is replaced in one step, and the link comes last."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_analytics import locations
from spark_analytics.locations import Location
from spark_analytics.reporting import page, record, sheets, text
from spark_analytics.reporting.evidence import Evidence
from spark_analytics.reporting.facts import Facts


def publish(out: Location, facts: Facts, evidence: Evidence, rows: int = 20) -> None:
    """Writes page, JSON, text and CSV of the day, then `index.html`, last `latest`; lists of `rows` on the page.

    Raises:
        OSError: the disk refuses; what was there before is whole.
    """
    day = out / facts.date
    for name, content in sheets.sheets(facts, evidence).items():
        write(out / "csv" / facts.date / name, content)
    write(day / "report.txt", text.as_text(facts) + "\n")
    write(day / "report.html", page.rendered(facts, rows))
    write(day / "report.json", record.to_text(facts))
    briefs = list(briefs_of(out))
    write(out / "index.html", page.index(briefs))
    if isinstance(out, Path):  # stores have no links
        point_to(out / "latest", briefs[0]["date"] if briefs else facts.date)


def briefs_of(out: Location) -> Iterator[dict[str, Any]]:
    """Each day that was reported, newest first; what another version wrote, or a kill left, is left out."""
    found: list[Location] = [*out.glob("[0-9]*-[0-9]*-[0-9]*/report.json")]
    for path in sorted(found, key=str, reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            if shown := record.brief(json.loads(path.read_bytes())):
                yield shown


def write(path: Location, content: str) -> None:
    """Replaces the file `path` in one step."""
    locations.write(path, content.encode("utf-8", "backslashreplace"))


def point_to(link: Path, target: str) -> None:
    """Makes `link` a symbolic link to `target`; a file system without such links goes without."""
    scratch = link.with_name(f".{link.name}.new")
    with contextlib.suppress(OSError):
        scratch.unlink(missing_ok=True)
        scratch.symlink_to(target)
        scratch.replace(link)
