"""`fshipper audit`: checks whether everything that was shipped is in the archive, exactly once and unchanged."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from consumer.archive import manifests
from consumer.archive.directory import IDENTITY, existing_identity
from consumer.archive.finding import Finding, Weight
from consumer.archive.journal_snapshot import JournalSnapshots, journal_directory
from consumer.archive.manifests import removed_days
from consumer.audit.auditor import Audit, AuditResult
from consumer.audit.auditor import Progress as AuditProgress
from consumer.audit.coverage import open_hint
from consumer.audit.day_inventory import Scope, chosen_days, hosts
from consumer.audit.options import AuditOptions
from consumer.audit.producer_comparison import HostComparison, ProducerReports, ask, compare
from consumer.audit.repair_duplicates import Repair, RepairResult, SegmentRepair
from consumer.audit.source_sums import Marks
from consumer.audit.totals import Row, Sum
from shipper.commands import settings_of
from shipper.errors import EXIT_OK, ConfigError, Unavailable, UsageError
from shipper.interrupts import interrupt_on_termination
from shipper.nearest import did_you_mean
from shipper.settings import CollectorSettings, Settings
from shipper.table_printer import BAD, CHANGED, SAME, STACK, fitted, print_lines, print_signed, standard_output, texts
from shipper.units import counted, format_bytes, printable

EXIT_INCOMPLETE = 2
_NAME_IT = "name the collector's directory: fshipper audit DIRECTORY, or SHIPPER_DIRECTORY; `fshipper up` makes one"

_OWNER_HINT = "run it as the collector's user, for example: sudo -u fshipper fshipper audit --repair-duplicates --yes"


def run(options: AuditOptions) -> int:
    """The exit code. Raises ConfigError, Unavailable: there is no such archive or day. UsageError: of the options."""
    if options.directory and options.archive:
        raise UsageError("the archive is named twice", hint="give it as an argument or with --archive")
    interrupt_on_termination()
    settings = settings_of(replace(options, archive=options.directory or options.archive))
    scope = _scope(settings.collector, options)
    if options.repair_duplicates:
        if options.ask_hosts:
            raise UsageError("--hosts goes without --repair-duplicates", hint="run the audit with --hosts afterwards")
        return _repair(scope, options)
    if options.yes:
        raise UsageError("--yes is for --repair-duplicates: the audit itself changes nothing")
    reports = _ask(settings, scope) if options.ask_hosts else None
    result = _audited(scope, reports.marks if reports else {})
    producers: list[HostComparison] = []
    if reports is not None:
        with JournalSnapshots(scope.journals) as journals:
            producers, findings = compare(reports, journals)
        result = replace(result, findings=[*result.findings, *findings])
    if options.as_json:
        sys.stdout.write(result_json(result, producers) + "\n")
    else:
        print_result(result, producers)
    return EXIT_OK if result.complete else EXIT_INCOMPLETE


def _repair(scope: Scope, options: AuditOptions) -> int:
    """Show the later copies, or remove them, and return the exit code, which is 2 if something is left to remove."""
    yes = options.yes
    repair = Repair(scope, reason=options.reason)
    try:
        if yes:
            _check_owner(scope.archive)
        with JournalSnapshots(scope.journals) as journals:
            waiting = list(journals.entries())
        found = repair.run(waiting) if yes else repair.find(waiting)
    except OSError as error:
        what = error.filename or scope.archive
        raise ConfigError(f"{what} cannot be used: {error.strerror}", hint=_OWNER_HINT) from None
    sys.stdout.write(repair_json(found, done=yes) if options.as_json else repair_text(found, done=yes))
    is_left = found.open_files or (found.refused if yes else found.found)
    return EXIT_INCOMPLETE if is_left else EXIT_OK


def _check_owner(archive: Path) -> None:
    """Raises ConfigError: the collector could not write files that this user creates."""
    identity = archive / IDENTITY  # the collector made it; the directory may be an operator's
    owner = identity.stat().st_uid if identity.exists() else os.geteuid()
    if owner != os.geteuid():
        raise ConfigError(f"the archive {archive} belongs to another user (user id {owner})", hint=_OWNER_HINT)


def _scope(chosen: CollectorSettings, options: AuditOptions) -> Scope:
    """What is audited. Raises ConfigError: there is no archive. Unavailable: it has nothing of that day or host."""
    (since, until), host = chosen_days(options.date, options.since, options.until), options.host
    archive = chosen.directory
    identity = existing_identity(archive, hint=_NAME_IT)
    journals = journal_directory(archive, identity, chosen.state)
    scope = Scope(archive=archive, journals=journals, since=since, until=until, host=host)
    days = manifests.days(archive) | manifests.directory_days(archive) | removed_days(archive)
    if (since or until) and not any(map(scope.has_day, days)):
        listed = f"it has {min(days)} to {max(days)}" if days else "it has no day at all"
        raise Unavailable(f"the archive {archive} has nothing of these days; {listed}", hint="choose another --date")
    if host != "*" and not options.ask_hosts and not hosts(scope):  # with --hosts, its producer may know why
        meant = did_you_mean(host, hosts(replace(scope, host="*")))
        hint = f"{meant}write --host 'web*' for every web host"
        raise Unavailable(f"the archive {archive} has nothing of {host}", hint=hint)
    return scope


def _ask(settings: Settings, scope: Scope) -> ProducerReports:
    with JournalSnapshots(scope.journals) as journals:
        names = hosts(scope) | {key.host for _, key, _ in journals.watermarks() if scope.has_host(key.host)}
        places = list(journals.places)
    identity = existing_identity(scope.archive, hint=_NAME_IT)
    return asyncio.run(ask(settings.nats, identity, scope, names, places, settings.logs.subject))


def _audited(scope: Scope, marks: Marks) -> AuditResult:
    try:
        with JournalSnapshots(scope.journals) as journals, _progress() as progress:
            return Audit(scope, journals, progress, marks).run()
    except OSError as error:
        what = error.filename or scope.archive
        raise ConfigError(
            f"{what} cannot be read: {error.strerror}", hint="run the audit as the collector's user or group"
        ) from None


@contextlib.contextmanager
def _progress() -> Iterator[AuditProgress]:
    """A progress bar on stderr, if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield AuditProgress()
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("audit", total=0)

        def expect(octets: int) -> None:
            bar.update(task, total=(bar.tasks[0].total or 0) + octets)

        yield AuditProgress(expect=expect, advance=lambda octets: bar.advance(task, octets))


VERSION = 1
"""Of the JSON; a field is added under the same number, and changed or removed under another."""
SIGNS = {Weight.DAMAGE: BAD, Weight.GAP: CHANGED, Weight.NOTE: SAME}
MOST_FINDINGS = 50
MOST_ROWS = 200
_NUMBERS = ("files", "lines", "shipped", "archived", "damaged", "missing")
_COLUMNS = ("host", "file", "date", *_NUMBERS)


def print_result(result: AuditResult, hosts: Sequence[HostComparison]) -> None:
    """Findings first, then a row for each host, file and day, then the sum."""
    console = standard_output()
    ordered = sorted(result.findings, key=lambda finding: list(Weight).index(finding.weight))
    for finding in ordered[:MOST_FINDINGS]:
        where = " ".join(filter(None, (finding.host, finding.file, finding.date))) or "archive"
        path = f" [{finding.path}]" if finding.path else ""
        print_signed(console, SIGNS[finding.weight], f"{where}: {finding.text}{path}", hint=finding.hint)
    if len(ordered) > MOST_FINDINGS:
        console.print(Text(f"... and {len(ordered) - MOST_FINDINGS} more findings; --json lists them all"))
    rows = _chosen(result.rows)
    if rows:
        print_lines(
            console,
            fitted(
                console,
                _COLUMNS,
                [texts(_cells(row)) for row in rows],
                numbers=_NUMBERS,
                wrapped="file",
                above=("host", "file"),
                give_up=(STACK, "files", "shipped", "lines"),
            ),
        )
    if len(rows) < len(result.rows):
        console.print(Text(f"... and {len(result.rows) - len(rows)} more rows; --json lists them all"))
    if hosts:
        cells = [texts((host.name, host.text)) for host in hosts]
        print_lines(console, fitted(console, ("host", "producer"), cells, wrapped="producer"))
    console.print(Text(summary(result, hosts), style="green" if result.complete else "red"), soft_wrap=True)


def summary(result: AuditResult, hosts: Sequence[HostComparison] = ()) -> str:
    """One line for a person."""
    total = _total(result.rows)
    seconds = max(result.seconds, 1e-6)
    archived = total["archived"]
    parts = [
        _verdict(result, hosts),
        f"{counted(len({row.host for row in result.rows}), 'host')}, {counted(result.files, 'file')}",
        f"{counted(archived['lines'], 'line')} and {format_bytes(archived['bytes'])} match their manifests",
        _proofs(compared(result), has_producers=bool(hosts)),
        f"{format_bytes(total['damaged']['bytes'])} damaged, {format_bytes(total['missing']['bytes'])} missing",
        f"read {format_bytes(result.octets)} in {seconds:.1f} s",
    ]
    return "; ".join(parts)


def compared(result: AuditResult) -> dict[str, int]:
    """Bytes of text by what they were compared with. `differing`: in a source with another sum than was recorded."""
    rows = result.rows
    return {
        "manifest": sum(row.archived.bytes for row in rows),
        "journal": sum(row.journal_bytes for row in rows),
        "producers": sum(row.producer_bytes for row in rows),
        "differing": sum(row.differing_bytes for row in rows),
    }


def _proofs(octets: Mapping[str, int], *, has_producers: bool) -> str:
    """How much of it was compared with more than its manifest."""
    journal = f"{format_bytes(octets['journal'])} proven by journals"
    producers = f" and {format_bytes(octets['producers'])} by producers" if has_producers else ""
    differing = f", {format_bytes(octets['differing'])} DIFFERENT" if octets["differing"] else ""
    return journal + producers + differing


def _verdict(result: AuditResult, hosts: Sequence[HostComparison]) -> str:
    if not result.complete:
        return "NOT COMPLETE"
    if not (result.rows or result.files):  # retention removed all of it, with a record
        return "nothing left to verify"
    waiting, unshipped = sum(host.waiting for host in hosts), sum(host.unshipped for host in hosts)
    left = [f"{format_bytes(unshipped)} not shipped yet"] if unshipped else []
    left += [f"{format_bytes(waiting)} in the stream"] if waiting else []
    return "; ".join(["complete so far", *left]) if left else "complete"


def result_json(result: AuditResult, hosts: Sequence[HostComparison]) -> str:
    """The same, whole, as one object."""
    scope = result.scope
    shown: dict[str, Any] = {
        "v": VERSION,
        "archive": str(scope.archive),
        "since": scope.since or None,
        "until": scope.until or None,
        "host": scope.host,
        "complete": result.complete,
        "totals": _total(result.rows),
        "compared": compared(result),
        "read": {"files": result.files, "bytes": result.octets, "seconds": round(result.seconds, 3)},
        "findings": [_finding(finding) for finding in result.findings],
        "files": [asdict(row) | {"complete": row.complete} for row in result.rows],
        "hosts": [asdict(host) for host in hosts],
    }
    return json.dumps(shown, indent=1)


def repair_text(result: RepairResult, *, done: bool) -> str:
    """What `--repair-duplicates` found, for a person."""
    lines = []
    for each in result.repaired:
        what = "removed" if done else "would remove"
        lines.append(f"{what} {_copy(each)}; the first copy is in {', '.join(each.kept)}")
    for each in result.refused:
        lines += [f"! keeps {_copy(each)}: {each.refused}", f"    {each.hint}"]
    for path, octets in result.open_files:
        lines += [f"! keeps {octets:,} doubled bytes in {path}: the file is open", f"    {open_hint(path)}"]
    if not lines:
        lines.append("nothing is in the archive twice")
    elif result.repaired:
        octets, count = sum(each.bytes for each in result.repaired), sum(each.lines for each in result.repaired)
        segments = f"{len(result.repaired)} segment{'s' if len(result.repaired) > 1 else ''}"
        sum_of = f"{octets:,} bytes and {count:,} lines in {segments}"
        lines.append(f"removed {sum_of}" if done else f"{sum_of} would be removed; to do it, add --yes")
    return "".join(f"{printable(line)}\n" for line in lines)


def repair_json(result: RepairResult, *, done: bool) -> str:
    """The same as one object."""
    segments = [
        {
            "path": each.segment.path,
            "host": each.segment.host,
            "file": each.segment.file,
            "bytes": each.bytes,
            "lines": each.lines,
            "kept": list(each.kept),
            "new_path": each.path or None,
            "refused": each.refused or None,
            "hint": each.hint,
        }
        for each in result.found
    ]
    opened = [{"path": path, "bytes": octets, "hint": open_hint(path)} for path, octets in result.open_files]
    return json.dumps({"v": VERSION, "done": done, "segments": segments, "open_files": opened}, indent=1) + "\n"


def _copy(found: SegmentRepair) -> str:
    return f"{found.bytes:,} doubled bytes in {found.segment.path}" + (
        f" ({found.lines:,} lines)" if found.lines else ""
    )


def _finding(finding: Finding) -> dict[str, Any]:
    shown = asdict(finding) | {"kind": finding.kind.value, "weight": finding.weight.value}
    return shown | {"bytes": shown.pop("octets")}


def _total(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    total = {name: Sum() for name in ("shipped", "archived", "damaged", "missing")}
    for row in rows:
        for name, each in total.items():
            own: Sum = getattr(row, name)
            each.add(own.bytes, own.lines)
    return {name: asdict(each) for name, each in total.items()}


def _chosen(rows: Sequence[Row]) -> list[Row]:
    """All of them if they are few, else those that are not complete before the others."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    return sorted(
        sorted(rows, key=lambda row: row.complete)[:MOST_ROWS], key=lambda row: (row.host, row.file, row.date)
    )


def _cells(row: Row) -> list[str]:
    sums = (row.shipped, row.archived, row.damaged, row.missing)
    octets = [format_bytes(each.bytes) if each.bytes else "-" for each in sums]
    return [row.host, row.file, row.date or "-", str(row.files), f"{row.archived.lines:,}", *octets]
