"""What a dry run and a validation found: for people on a terminal or in a file, and as JSON for scripts."""

import enum
import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from producer.preflight.dry_run import Read, Report
from producer.preflight.redacted_lines import Redacted
from shipper import table_printer
from shipper.jetstream.durability import Durability, Verdict
from shipper.table_printer import BAD, CHANGED, SAME, fitted, print_lines, print_signed, standard_output, texts
from shipper.units import counted, format_bytes

VERSION = 1
"""Version of the JSON. New fields keep the number; changed or removed fields change it."""


class Sign(enum.Enum):
    """How it stands."""

    GOOD = "ok"
    NOTE = "info"
    WARNING = "warning"
    WRONG = "wrong"


class Finding(NamedTuple):
    """What one check found."""

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


SIGNS = {Sign.GOOD: table_printer.GOOD, Sign.NOTE: SAME, Sign.WARNING: CHANGED, Sign.WRONG: BAD}


def print_report(report: Report, redacted: Redacted | None = None, *, as_json: bool) -> None:
    """Where it would go, what would be read, what not and why, and what would be redacted. For scripts one object."""
    if as_json:
        shown: dict[str, Any] = {"v": VERSION, **report._asdict()}
        shown["reads"] = [read._asdict() for read in report.reads]
        shown["skips"] = [skip._asdict() for skip in report.skips]
        if redacted:
            shown["redacted"] = redacted._asdict() | {"lines": [each._asdict() for each in redacted.lines]}
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
        return
    console = standard_output()
    total = sum(read.bytes for read in report.reads)
    what = f"{counted(len(report.reads), 'file')}, {format_bytes(total)} to read"
    console.print(Text(f"{what}, to {report.subject} in {report.stream}"))
    for name in report.inputs:
        print_signed(console, table_printer.Sign("+"), name)
    if report.reads:
        _print_table(console, ("file", "from byte", "bytes", "source"), list(map(_read_cells, report.reads)))
    if report.skips:
        verbs = "matches and is" if len(report.skips) == 1 else "match and are"
        console.print(Text(f"{counted(len(report.skips), 'name')} {verbs} not read"))
        _print_table(console, ("name", "why"), [[skip.path, skip.text] for skip in report.skips])
    for warning in report.warnings:
        print_signed(console, CHANGED, warning)
    if redacted:
        _print_redacted(console, redacted)


def _print_redacted(console: Console, redacted: Redacted) -> None:
    counts = ", ".join(f"{rule} {count}" for rule, count in sorted(redacted.rules.items())) or "no rule fired"
    console.print(Text(f"{counted(sum(redacted.rules.values()), 'place')} would be redacted: {counts}"))
    for each in redacted.lines:
        console.print(Text(f"{each.path}:{each.line}: {', '.join(each.rules)}"))
        console.print(Text(f"    {each.text}"))
    if redacted.lines_left_out:
        console.print(Text(f"{counted(redacted.lines_left_out, 'further line')} would be changed"))
    for path in redacted.unread:
        console.print(Text(f"{path}: only its first {format_bytes(redacted.bytes_read)} were read"))


def durability_finding(found: Durability) -> Finding:
    """What the server may lose. Only a server that fshipper cannot use is wrong: the others work as they are set."""
    sign = {Verdict.DURABLE: Sign.GOOD, Verdict.UNKNOWN: Sign.NOTE, Verdict.TOO_OLD: Sign.WRONG}
    return Finding("durability", sign.get(found.verdict, Sign.WARNING), found.text, found.hint)


class ServerFindings(NamedTuple):
    """What the checks of a server found."""

    findings: list[Finding]
    durability: Durability | None = None  #: None: not read


def print_validation(
    settings: list[tuple[str, str, str]],
    findings: list[Finding],
    *,
    as_json: bool,
    durability: Durability | None = None,
) -> None:
    """A table of `settings` (key, value, origin), then a line a check, with the next step below what is wrong."""
    if as_json:
        shown = {
            "v": VERSION,
            "ok": all(finding.sign is not Sign.WRONG for finding in findings),
            "settings": {key: {"value": value, "from": origin} for key, value, origin in settings},
            "durability": durability.to_json() if durability else None,
            "checks": [finding._asdict() | {"sign": finding.sign.value} for finding in findings],
        }
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
        return
    console = standard_output()
    if settings:
        _print_table(console, ("setting", "value", "from"), settings)
    for finding in findings:
        print_signed(console, SIGNS[finding.sign], f"{finding.check}: {finding.text}", hint=finding.hint)


def _print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    wrapped = "value" if "value" in columns else columns[0]
    numbers = [name for name in columns if "byte" in name]
    lines = fitted(
        console, columns, list(map(texts, rows)), numbers=numbers, wrapped=wrapped, boxed=console.is_terminal
    )
    print_lines(console, lines)


def _read_cells(read: Read) -> list[str]:
    name = read.path if read.path == read.file else f"{read.path} (as {read.file})"
    begins = f"new, leaving out {read.left_out} bytes" if read.left_out else "new"
    return [name, str(read.start), str(read.bytes), "known" if read.known else begins]
