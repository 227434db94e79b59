"""The reports and the result of a demo, and its last lines: the proof and the paths of everything that it left."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.demo.proof import Verdict
from deploy.demo.show import size
from deploy.demo.workspace import Workspace
from deploy.processes import Programs

REPORT_SECONDS = 240.0
"""Maximum time of one report."""


def make_report(programs: Programs, place: Workspace, dates: Sequence[str]) -> list[dict[str, Any]]:
    """The reports of all days of the archive, with the lines that Spark counted; two when midnight (UTC) passed.

    Raises Unavailable: Java or pyspark is not installed. ShipperError: the report fails, or takes too long.
    """
    reports = []
    for date in dates:
        arguments = ("report", "--archive", str(place.archive), "--out", str(place.report), "--date", date, "--json")
        summary = json.loads(programs.must(f"report-{date}", *arguments, within=REPORT_SECONDS))
        page = place.report / date / "report.html"
        reports.append({"date": date, "page": str(page), "lines": int(summary["totals"]["lines"])})
    return reports


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The proof and what it is about."""

    place: Workspace
    seconds: float
    files: Sequence[Verdict]
    kills: dict[str, int]  #: by program
    strangers: Sequence[str] = ()  #: log files in the archive that no writer of the demo wrote
    missing_bytes: int = 0  #: not in the archive when it had stopped growing for long, before anything was stopped
    reports: Sequence[dict[str, Any]] = ()
    report_skipped: str = ""

    @property
    def holds(self) -> bool:
        """Whether the proof holds."""
        return all(file["identical"] for file in self.files) and not self.strangers and not self.missing_bytes

    def as_json(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "v": 1,
            "identical": self.holds,
            "out": str(self.place.out),
            "archive": str(self.place.archive),
            "seconds": round(self.seconds, 1),
            "bytes": sum(file["bytes"] for file in self.files),
            "lines": sum(file["lines"] for file in self.files),
            "kills": self.kills,
            "missing_bytes": self.missing_bytes,
            "strangers": list(self.strangers),
            "files": list(self.files),
            "reports": list(self.reports),
            "report_skipped": self.report_skipped,
        }

    def text(self) -> str:
        """The proof, or the first differences, and the paths of everything."""
        return "\n".join(self._proof() if self.holds else self._trouble())

    def _proof(self) -> Iterator[str]:
        lines, octets = (sum(file[name] for file in self.files) for name in ("lines", "bytes"))
        kills = sum(self.kills.values())
        yield (
            f"\nProven: {lines:,} lines, {size(octets)} of {len(self.files)} log files are in the archive, "
            f"every byte once and in order, through {kills} kill -9 in {self.seconds:.0f} s."
        )
        yield f"archive  zstdcat {_shown(self.place.archive)}/date=*/*/host=web1*/*.zst | less"
        for made in self.reports:
            counted = f"Spark counted {made['lines']:,} lines on {made['date']} (UTC)"
            yield f"report   {_shown(Path(made['page']))} ({counted})"
        if self.report_skipped:
            yield f"report   skipped: {self.report_skipped}"
        yield f"sources  {_shown(self.place.hosts)}"
        yield f"logs     {_shown(self.place.logs)}"

    def _trouble(self) -> Iterator[str]:
        yield "\nThe proof does not hold."
        if self.missing_bytes:
            yield f"{self.missing_bytes:,} bytes had not reached the archive when it had stopped growing"
        for stranger in self.strangers:
            yield f"the archive has {stranger}, which no writer of the demo wrote"
        for file in self.files:
            if not file["identical"]:
                yield "\n" + "\n".join(f"{name:<16} {value}" for name, value in file.items())
        yield f"\nthe sources, the archive and the programs' logs are kept in {self.place.out}"


def _shown(path: Path) -> str:
    """Relative to the working directory, if it is below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
