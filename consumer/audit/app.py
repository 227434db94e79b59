"""`fshipper audit`: checks whether everything that was shipped is in the archive, exactly once and unchanged."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

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
from shipper.errors import EXIT_OK, ConfigError, Unavailable, UsageError
from shipper.interrupts import interrupt_on_termination
from shipper.settings import CollectorSettings, NatsSettings, Settings

EXIT_INCOMPLETE = 2
_NAME_IT = "name the collector's directory: fshipper audit DIRECTORY, or SHIPPER_DIRECTORY; by default it is ./archive"

_OWNER_HINT = "run it as the collector's user, for example: sudo -u fshipper fshipper audit --repair-duplicates --yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """The options of `fshipper audit`; texts of days as they were given."""

    date: str
    since: str
    until: str
    host: str  #: a name or a pattern
    ask_hosts: bool
    as_json: bool
    repair_duplicates: bool
    yes: bool  #: remove what `repair_duplicates` finds
    reason: str  #: of the repair, for the record


def run(options: AuditOptions, settings: Settings) -> int:
    """The exit code. Raises ConfigError, Unavailable: there is no such archive or day; UsageError: of the options."""
    interrupt_on_termination()
    scope = _scope(settings.collector, *chosen_days(options.date, options.since, options.until), options.host)
    if options.repair_duplicates:
        if options.ask_hosts:
            raise UsageError("--hosts goes without --repair-duplicates", hint="run the audit with --hosts afterwards")
        return _repair(scope, options)
    if options.yes:
        raise UsageError("--yes is for --repair-duplicates: the audit itself changes nothing")
    said = _ask(settings.nats, scope) if options.ask_hosts else None
    result = _audited(scope)
    told: list[HostComparison] = []
    if said is not None:
        with JournalSnapshots(scope.journals) as journals:
            told, findings = compare(said, journals)
        result = replace(result, findings=[*result.findings, *findings])
    if options.as_json:
        sys.stdout.write(display.result_json(result, told) + "\n")
    else:
        display.print_result(result, told)
    return EXIT_OK if result.complete else EXIT_INCOMPLETE


def _repair(scope: Scope, options: AuditOptions) -> int:
    """Show the later copies, or remove them; the exit code, which is 2 if something is left to remove."""
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
    sys.stdout.write(display.repair_json(found, done=yes) if options.as_json else display.repair_text(found, done=yes))
    is_left = found.open_files or (found.refused if yes else found.found)
    return EXIT_INCOMPLETE if is_left else EXIT_OK


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


def _audited(scope: Scope) -> AuditResult:
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
