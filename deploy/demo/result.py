"""The reports and the result of a demo, and its last page: the proof and the paths of everything that it left."""

import dataclasses
import importlib.util
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from deploy.demo.processes import Programs
from deploy.demo.proof import FileVerdict
from deploy.demo.show import size
from deploy.demo.workspace import Workspace

REPORT_SECONDS = 240.0
"""Maximum time of one report."""


@dataclass(frozen=True, slots=True)
class DayReport:
    """The report of one day."""

    date: str
    page: Path
    lines: int  #: as Spark counted


def report_lacks() -> str:
    """What the report lacks on this machine, and how to get it; empty if nothing."""
    for name in ("pyspark", "pyarrow", "duckdb"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed: pip install 'fshipper[spark]'"
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    if not java.is_file():
        return "there is no Java: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    return ""


def make_report(programs: Programs, place: Workspace, dates: Sequence[str]) -> list[DayReport]:
    """The reports of all days of the archive; two when midnight (UTC) passed on the way.

    Raises DemoError: the report fails, or takes too long.
    """
    archive, out = str(place.archive), str(place.report)
    reports = []
    for date in dates:
        arguments = ("report", "--archive", archive, "--out", out, "--date", date, "--json")
        summary = json.loads(programs.must(f"report-{date}", *arguments, within=REPORT_SECONDS))
        reports.append(DayReport(date, place.report / date / "report.html", int(summary["totals"]["lines"])))
    return reports


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The proof and what it is about."""

    out: Path
    archive: Path
    seconds: float
    verdicts: Sequence[FileVerdict]
    generations: dict[str, int]  #: by path of the live file
    kills: dict[str, int]  #: by program
    kills_survived: dict[str, int]  #: by host: of its producer, the server and the collector
    strangers: Sequence[str] = ()  #: log files in the archive that no writer of the demo wrote
    missing_bytes: int = 0  #: not in the archive when it had stopped growing for long, before anything was stopped
    reports: Sequence[DayReport] = ()
    report_skipped: str = ""

    @property
    def holds(self) -> bool:
        """Whether the proof holds."""
        return all(one.identical for one in self.verdicts) and not self.strangers and not self.missing_bytes

    @property
    def octets(self) -> int:
        """Bytes that were written."""
        return sum(one.expected.octets for one in self.verdicts)

    @property
    def lines(self) -> int:
        """Newlines that were written."""
        return sum(one.expected.lines for one in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "v": 1,
            "identical": self.holds,
            "out": str(self.out),
            "archive": str(self.archive),
            "seconds": round(self.seconds, 1),
            "bytes": self.octets,
            "lines": self.lines,
            "kills": self.kills,
            "missing_bytes": self.missing_bytes,
            "strangers": list(self.strangers),
            "files": [self._file(verdict) for verdict in self.verdicts],
            "reports": [{"date": made.date, "page": str(made.page), "lines": made.lines} for made in self.reports],
            "report_skipped": self.report_skipped,
        }

    def _file(self, verdict: FileVerdict) -> dict[str, Any]:
        expected, difference = verdict.expected, verdict.difference
        return {
            "host": expected.host,
            "file": expected.file,
            "identical": verdict.identical,
            "bytes": expected.octets,
            "bytes_archived": verdict.octets,
            "lines": expected.lines,
            "lines_archived": verdict.lines,
            "sha256": expected.sha256,
            "sha256_archived": verdict.sha256,
            "generations": self.generations[expected.file],
            "kills_survived": self.kills_survived[expected.host],
            "segments": verdict.segments,
            "damage": verdict.damage,
            "difference": None
            if difference is None
            else {
                name: repr(value) if isinstance(value, bytes) else value
                for name, value in dataclasses.asdict(difference).items()
            },
        }


def print_result(console: Console, result: DemoResult, hosts: Path) -> None:
    """The proof as a table, the first differences, and the paths of everything."""
    console.print()
    console.print(_table(result, hosts))
    if not result.holds:
        _print_trouble(console, result)
        return
    kills = sum(result.kills.values())
    console.print(
        f"\n[bold green]Proven:[/] {result.lines:,} lines, {size(result.octets)} of {len(result.verdicts)} log files "
        f"are in the archive, every byte once and in order, through {kills} kill -9 in {result.seconds:.0f} s.",
        highlight=False,
    )
    _print_where(console, result)


def _table(result: DemoResult, hosts: Path) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("host", overflow="fold")
    table.add_column("file", overflow="fold")
    for name in ("bytes", "lines", "files", "kills"):
        table.add_column(name, justify="right")
    table.add_column("identical", justify="center")
    before = ""
    for verdict in result.verdicts:
        expected = verdict.expected
        host, before = "" if expected.host == before else expected.host, expected.host
        table.add_row(
            host,
            escape(str(Path(expected.file).relative_to(hosts / expected.host))),
            f"{expected.octets:,}",
            f"{expected.lines:,}",
            str(result.generations[expected.file]),
            str(result.kills_survived[expected.host]),
            "[green]yes[/]" if verdict.identical else "[bold red]NO[/]",
        )
    return table


def _print_trouble(console: Console, result: DemoResult) -> None:
    """What differs: for each log file the first difference."""
    console.print("\n[bold red]The proof does not hold.[/]")
    if result.missing_bytes:
        console.print(f"{result.missing_bytes:,} bytes had not reached the archive when it had stopped growing")
    for stranger in result.strangers:
        console.print(f"the archive has {stranger}, which no writer of the demo wrote", markup=False)
    lines = []
    for verdict in result.verdicts:
        if verdict.identical:
            continue
        expected, difference = verdict.expected, verdict.difference
        lines += ["", f"{expected.host} {expected.file}"]
        lines.append(f"  written   {expected.octets:,} bytes, {expected.lines:,} lines, SHA-256 {expected.sha256}")
        lines.append(f"  archived  {verdict.octets:,} bytes, {verdict.lines:,} lines, SHA-256 {verdict.sha256}")
        if verdict.damage:
            lines.append(f"  damaged: {verdict.damage}")
        if difference is None:
            lines.append("  the files on disk are as in the archive, but not as they were written")
        else:
            lines.append(f"  first difference at byte {difference.offset:,}")
            lines += [f"    written   {difference.written!r}", f"    archived  {difference.archived!r}"]
    for line in [*lines, "", f"the sources, the archive and the programs' logs are kept in {result.out}"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _print_where(console: Console, result: DemoResult) -> None:
    largest = max(result.verdicts, key=lambda verdict: verdict.expected.octets).expected
    segment = f"{_shown(result.archive)}/date=*/partition=*/host={largest.host}/*.zst"
    table = Table.grid(padding=(0, 2))
    table.add_row("archive", f"[bold]{escape(_shown(result.archive))}[/]")
    table.add_row("", f"[dim]zstdcat {escape(segment)} | less[/]")
    table.add_row("", f"[dim]zstdgrep ' ERROR ' {escape(segment)}[/]")
    for made in result.reports:
        table.add_row("report", f"[bold]{escape(_shown(made.page))}[/]")
        table.add_row("", f"[dim]open it in a browser; Spark counted {made.lines:,} lines on {made.date} (UTC)[/]")
    if result.report_skipped:
        table.add_row("report", f"[yellow]skipped:[/] {escape(result.report_skipped)}")
    table.add_row("sources", escape(_shown(result.out / "hosts")))
    table.add_row("logs", escape(_shown(result.out / "logs")))
    if console.is_terminal:
        console.print(Panel(table, border_style="green", padding=(1, 2)))
    else:
        console.print(table, soft_wrap=True)


def _shown(path: Path) -> str:
    """Relative to the working directory, if it is below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
