"""What a check found: a sign, a sentence, and the next step where something is wrong.

What a dry run and a validation found: for people on a terminal or in a file, and as JSON for scripts.
"""

import enum
import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from producer.preflight.dry_run import Read, Report
from shipper.units import counted, format_bytes


class Sign(enum.Enum):
    """How it stands."""

    GOOD = "ok"
    NOTE = "info"
    WARNING = "warning"
    WRONG = "wrong"


class Finding(NamedTuple):
    """One check."""

    check: str  #: a stable name, for scripts
    sign: Sign
    text: str
    hint: str = ""


def good(check: str, text: str) -> Finding:
    """It is as it should be."""
    return Finding(check, Sign.GOOD, text)


def note(check: str, text: str, hint: str = "") -> Finding:
    """It is neither good nor bad."""
    return Finding(check, Sign.NOTE, text, hint)


def warning(check: str, text: str, hint: str) -> Finding:
    """It works, and may hurt one day."""
    return Finding(check, Sign.WARNING, text, hint)


def wrong(check: str, text: str, hint: str) -> Finding:
    """It does not work."""
    return Finding(check, Sign.WRONG, text, hint)


SIGNS = {
    Sign.GOOD: ("+", "green"),
    Sign.NOTE: ("=", "dim"),
    Sign.WARNING: ("~", "yellow"),
    Sign.WRONG: ("!", "bold red"),
}
WIDE = 8192  # columns where nobody looks: no cell is folded before them, and a path may have 4,096


def print_report(report: Report) -> None:
    """Where it would go, a table of what would be read, then what would not and why."""
    console = _console()
    total = sum(read.bytes for read in report.reads)
    what = f"{counted(len(report.reads), 'file')}, {format_bytes(total)} to read"
    console.print(Text(f"{what}, to {report.subject} in {report.stream}"))
    for name in report.inputs:
        console.print(Text(_printable(f"+ {name}")), soft_wrap=True)
    if report.reads:
        console.print(_table(("file", "from byte", "bytes", "source"), [_read_cells(read) for read in report.reads]))
    if report.skips:
        console.print(Text(f"{len(report.skips)} names match and are not read"))
        console.print(_table(("name", "why"), [[skip.path, skip.text] for skip in report.skips]))
    for warning in report.warnings:
        console.print(Text(_printable(f"~ {warning}"), style="yellow"), soft_wrap=True)


def report_json(report: Report) -> str:
    """The same for scripts: one object."""
    shown: dict[str, Any] = report._asdict()
    shown["reads"] = [read._asdict() for read in report.reads]
    shown["skips"] = [skip._asdict() for skip in report.skips]
    return json.dumps(shown, indent=2)


def print_findings(findings: Sequence[Finding]) -> None:
    """One line a check, and the next step below what is wrong."""
    console = _console()
    for finding in findings:
        sign, style = SIGNS[finding.sign]
        console.print(Text(_printable(f"{sign} {finding.check}: {finding.text}"), style=style), soft_wrap=True)
        if finding.hint:
            console.print(Text(_printable(f"    {finding.hint}")), soft_wrap=True)


def print_settings(shown: Sequence[tuple[str, str, str]]) -> None:
    """Key, value and origin of each setting that is no default."""
    if shown:
        _console().print(_table(("setting", "value", "from"), shown))


def findings_json(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """The checks for scripts."""
    return [finding._asdict() | {"sign": finding.sign.value} for finding in findings]


def _console() -> Console:
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDE)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None if not sys.stdout.isatty() else Table().box, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if "byte" in name else "left", overflow="fold")
    for cells in rows:
        table.add_row(*(Text(_printable(cell)) for cell in cells))
    return table


def _read_cells(read: Read) -> list[str]:
    name = read.path if read.path == read.file else f"{read.path} (as {read.file})"
    begins = f"new, leaving out {read.left_out} bytes" if read.left_out else "new"
    return [name, str(read.start), str(read.bytes), "known" if read.known else begins]


def _printable(text: str) -> str:
    """A file name may hold bytes that are no text, and control characters that would move the cursor."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
