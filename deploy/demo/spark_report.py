"""The Spark report of the demo's archive: whether it can be made here, and its path."""

import importlib.util
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.demo.processes import Programs
from deploy.demo.workspace import Workspace

WITHIN_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class DayReport:
    """The report of one day."""

    date: str
    page: Path
    lines: int  #: as Spark counted


def missing() -> str:
    """What the report lacks on this machine, and how to get it; empty if nothing."""
    for name in ("pyspark", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed: pip install 'fshipper[spark]'"
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    if not java.is_file():
        return "there is no Java: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    return ""


def made(programs: Programs, place: Workspace, dates: Sequence[str]) -> list[DayReport]:
    """The reports of all days of the archive; two when midnight (UTC) passed on the way.

    Raises:
        DemoError: the report fails, or takes too long.
    """
    archive, out = str(place.archive), str(place.report)
    reports = []
    for date in dates:
        arguments = ("report", "--archive", archive, "--out", out, "--date", date, "--json")
        summary = json.loads(programs.must(f"report-{date}", *arguments, within=WITHIN_SECONDS))
        reports.append(DayReport(date, place.report / date / "report.html", int(summary["totals"]["lines"])))
    return reports
