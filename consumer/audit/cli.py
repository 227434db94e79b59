"""`fshipper audit`: checks whether everything that was shipped is in the archive, exactly once and unchanged.

It reads, and changes nothing; only `--repair-duplicates --yes` removes doubled bytes.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from consumer.archive import IDENTITY, JOURNALS, existing_identity
from consumer.audit import display, manifest_listing
from consumer.audit.auditor import Audit, AuditResult
from consumer.audit.auditor import Progress as Told
from consumer.audit.day_inventory import Scope, chosen_days, hosts
from consumer.audit.journal_snapshot import JournalSnapshots
from consumer.audit.producer_comparison import HostComparison, ProducerReports, ask, compare
from consumer.audit.repair_duplicates import Repair
from consumer.segments.manifest_store import removed_days
from shipper.config import load
from shipper.errors import ConfigError, Unavailable, UsageError
from shipper.settings import CollectorSettings, NatsSettings

EXIT_INCOMPLETE = 2
_NAME_IT = "name the collector's directory: fshipper audit DIRECTORY, or SHIPPER_DIRECTORY; by default it is ./archive"

_OWNER_HINT = "run it as the collector's user, for example: sudo -u fshipper fshipper audit --repair-duplicates --yes"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def audit(
    directory: Annotated[
        Path | None, typer.Argument(help="The archive (SHIPPER_DIRECTORY)", show_default=False)
    ] = None,
    archive: Annotated[Path | None, typer.Option("--archive", "--directory", help="The same as a flag")] = None,
    date: Annotated[str, typer.Option(help="One day (UTC): YYYY-MM-DD, today or yesterday")] = "",
    since: Annotated[str, typer.Option(help="This day and later ones")] = "",
    until: Annotated[str, typer.Option(help="This day and earlier ones")] = "",
    host: Annotated[str, typer.Option(help="Only hosts of this name, or pattern: 'web*'")] = "*",
    ask_hosts: Annotated[bool, typer.Option("--hosts", help="Also compare with the producers")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs")] = False,
    repair_duplicates: Annotated[
        bool,
        typer.Option("--repair-duplicates", help="Show which doubled bytes would be removed; with --yes remove them"),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --repair-duplicates: do it")] = False,
    reason: Annotated[str, typer.Option(help="With --repair-duplicates: why, for the record")] = "doubled",
    state: Annotated[Path | None, typer.Option(help="Directory of the journals (SHIPPER_STATE)")] = None,
    url: Annotated[str | None, typer.Option(help="NATS server, for --hosts (NATS_URL)")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
) -> None:
    """Verify every file of the archive against its manifest or journal, and list what is missing, damaged or doubled.

    Ends with 0 when the archive is complete, with 2 when there are gaps or damage, or when nothing is archived yet.

    --repair-duplicates verifies nothing else. It finds bytes of a source that are in the archive twice, compares both
    copies, and shows the later one, which --yes removes; the manifest keeps a record. It ends with 2 while something is
    left to remove.
    """
    if directory and archive:
        raise UsageError("the archive is named twice", hint="give it as an argument or with --archive")
    flags = {"collector.directory": directory or archive, "collector.state": state, "nats.url": url}
    settings = load(flags, config=config)
    scope = _scope(settings.collector, *chosen_days(date, since, until), host)
    if repair_duplicates:
        if ask_hosts:
            raise UsageError("--hosts goes without --repair-duplicates", hint="run the audit with --hosts afterwards")
        _repair(scope, reason, yes=yes, as_json=as_json)
        return
    if yes:
        raise UsageError("--yes is for --repair-duplicates: the audit itself changes nothing")
    said = _ask(settings.nats, scope) if ask_hosts else None
    result = _run(scope)
    told: list[HostComparison] = []
    if said is not None:
        with JournalSnapshots(scope.journals) as journals:
            told, findings = compare(said, journals)
        result = replace(result, findings=[*result.findings, *findings])
    if as_json:
        sys.stdout.write(display.result_json(result, told) + "\n")
    else:
        display.print_result(result, told)
    if not result.complete:
        raise typer.Exit(EXIT_INCOMPLETE)


def _repair(scope: Scope, reason: str, *, yes: bool, as_json: bool) -> None:
    """Show the later copies, or remove them. Exits with 2: something is left to remove."""
    repair = Repair(scope, reason=reason)
    try:
        if yes:
            _check_owner(scope.archive)
        with JournalSnapshots(scope.journals) as journals:
            waiting = list(journals.entries())
        found = repair.run(waiting) if yes else repair.find(waiting)
    except OSError as error:
        what = error.filename or scope.archive
        raise ConfigError(f"{what} cannot be used: {error.strerror}", hint=_OWNER_HINT) from None
    sys.stdout.write(display.repair_json(found, done=yes) if as_json else display.repair_text(found, done=yes))
    if found.open_files or (found.refused if yes else found.found):
        raise typer.Exit(EXIT_INCOMPLETE)


def _check_owner(archive: Path) -> None:
    """Raises ConfigError: the collector could not write files that this user creates."""
    identity = archive / IDENTITY  # the collector made it; the directory may be an operator's
    owner = identity.stat().st_uid if identity.exists() else os.geteuid()
    if owner != os.geteuid():
        raise ConfigError(f"the archive {archive} belongs to another user (user id {owner})", hint=_OWNER_HINT)


def _scope(chosen: CollectorSettings, since: str, until: str, host: str) -> Scope:
    """What is audited. Raises ConfigError: there is no archive; Unavailable: it has nothing of that day or host."""
    archive = chosen.directory
    identity = existing_identity(archive, hint=_NAME_IT)
    own = archive / JOURNALS
    journals = chosen.state / "collector" / identity if chosen.state else own
    if own.is_dir() and not journals.is_dir():
        journals = own
    scope = Scope(archive=archive, journals=journals, since=since, until=until, host=host)
    days = manifest_listing.days(archive) | manifest_listing.directory_days(archive) | removed_days(archive)
    if (since or until) and not any(map(scope.has_day, days)):
        listed = f"it has {min(days)} to {max(days)}" if days else "it has no day at all"
        raise Unavailable(f"the archive {archive} has nothing of these days; {listed}", hint="choose another --date")
    if host != "*" and not hosts(scope):
        raise Unavailable(f"the archive {archive} has nothing of {host}", hint="write --host 'web*' for every web host")
    return scope


def _ask(settings: NatsSettings, scope: Scope) -> ProducerReports:
    with JournalSnapshots(scope.journals) as journals:
        names = hosts(scope) | {key.host for _, key, _ in journals.watermarks() if scope.has_host(key.host)}
        places = list(journals.places)
    return asyncio.run(ask(settings, existing_identity(scope.archive, hint=_NAME_IT), names, places))


def _run(scope: Scope) -> AuditResult:
    try:
        with JournalSnapshots(scope.journals) as journals, _progress() as told:
            return Audit(scope, journals, told).run()
    except OSError as error:
        what = error.filename or scope.archive
        raise ConfigError(
            f"{what} cannot be read: {error.strerror}", hint="run the audit as the collector's user or group"
        ) from None


@contextlib.contextmanager
def _progress() -> Iterator[Told]:
    """A progress bar on stderr, if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Told()
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("audit", total=0)

        def expect(octets: int) -> None:
            bar.update(task, total=(bar.tasks[0].total or 0) + octets)

        yield Told(expect=expect, advance=lambda octets: bar.advance(task, octets))
