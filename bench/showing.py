"""What was measured, for people and for programs."""

import datetime as dt
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from figures import Figure, Judged, Verdict, figures, judge
from programs import server_sync
from rich.console import Console
from rich.table import Table
from rich.text import Text
from suite import Outcome

SCHEMA = 1
"""Version of the JSON; it grows when a name changes its meaning or goes."""
COLOURS = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.NOISY: "yellow", Verdict.MISSING: "dim"}


@dataclass(frozen=True)
class Facts:
    """On what it was measured."""

    at: str
    cores: int
    cpu: str
    memory_mib: int
    system: str
    python: str
    source_mb: int
    source_kind: str
    runs: int
    others_cores_before: float
    server_sync: str  #: when the servers sync: always, or an interval


def facts(source_mb: int, source_kind: str, runs: int, others_cores: float) -> Facts:
    """Of this machine, now."""
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return Facts(
        dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), len(os.sched_getaffinity(0)),
        model[0].partition(":")[2].strip() if model else platform.machine(), memory, platform.release(),
        platform.python_version(), source_mb, source_kind, runs, round(others_cores, 3),
        server_sync(),
    )  # fmt: skip


def document(of: Facts, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Everything, as JSON has it."""
    return {"schema": SCHEMA, "facts": asdict(of), "cases": [_case(outcome) for outcome in outcomes]}


def _case(outcome: Outcome) -> dict[str, Any]:
    found = figures(outcome.runs)
    return {
        "name": outcome.case.name,
        "question": outcome.case.question,
        "missing": outcome.missing or None,
        "runs": [{"others_cores": round(run.others_cores, 3), "disturbed": run.disturbed} for run in outcome.runs],
        "figures": [_figure(figure) for figure in found],
        "lines": [_line(judged) for judged in judge(outcome.case.lines, found, noisy=outcome.is_noisy)],
        "notes": list(outcome.case.notes),
    }


def _figure(figure: Figure) -> dict[str, Any]:
    rounded = {name: round(getattr(figure, name), 4) for name in ("median", "least", "most")}
    return {"of": figure.of, "what": figure.what, "unit": figure.unit} | rounded | {
        "runs": [round(value, 4) for value in figure.runs]
    }  # fmt: skip


def _line(judged: Judged) -> dict[str, Any]:
    value = None if judged.value is None else round(judged.value, 4)
    return asdict(judged.line) | {"value": value, "verdict": judged.verdict.value}


def show(of: Facts, outcomes: Sequence[Outcome], console: Console) -> None:
    """A table a case, then the lines that must hold."""
    for outcome in outcomes:
        console.print(_table(outcome) if outcome.runs else Text(f"{outcome.case.name}: {outcome.missing}\n", "yellow"))
        for note in outcome.case.notes if outcome.runs else ():
            console.print(note, style="dim")
        console.print()
    console.print(_lines(outcomes))
    console.print(
        f"{of.at}, {of.cores} cores ({of.cpu}), {of.source_mb} MB of {of.source_kind}; server sync {of.server_sync}; "
        f"others used {of.others_cores_before:.2f} cores before",
        style="dim",
    )


def _table(outcome: Outcome) -> Table:
    count = len(outcome.runs)
    said = f"{outcome.case.name}: {outcome.case.question} ({count} run{'s' if count > 1 else ''})"
    table = Table(title=said + (" [yellow]disturbed by others[/]" if outcome.is_noisy else ""), title_justify="left")
    for title in ("", "", "median", "min", "max", "unit"):
        table.add_column(title, justify="right" if title in {"median", "min", "max"} else "left")
    last = ""
    for figure in figures(outcome.runs):
        values = [shown(value) for value in (figure.median, figure.least, figure.most)]
        table.add_row(figure.of if figure.of != last else "", figure.what, *values, figure.unit)
        last = figure.of
    return table


def _lines(outcomes: Sequence[Outcome]) -> Table:
    table = Table(title="what must hold", title_justify="left")
    for title in ("case", "line", "measured", ""):
        table.add_column(title, justify="right" if title == "measured" else "left")
    for outcome in outcomes:
        for judged in judge(outcome.case.lines, figures(outcome.runs), noisy=outcome.is_noisy):
            value = "-" if judged.value is None else shown(judged.value)
            verdict = Text(judged.verdict.value, COLOURS[judged.verdict])
            table.add_row(outcome.case.name, judged.line.text, value, verdict)
    return table


def shown(value: float) -> str:
    """Three figures that count."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
