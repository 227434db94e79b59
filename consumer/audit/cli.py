"""`fshipper audit`: is everything that was shipped in the archive, once and as it was? Reads, and changes nothing."""

import asyncio
import contextlib
import datetime as dt
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from consumer.archive import IDENTITY, JOURNALS
from consumer.audit import listing, show
from consumer.audit.audit import Audit, Result
from consumer.audit.audit import Progress as Told
from consumer.audit.hosts import Host, Said, ask, compare
from consumer.audit.journals import Journals
from consumer.audit.look import Scope, hosts
from consumer.sealing.manifests import removed_days
from shipper.config import load
from shipper.errors import ConfigError, Unavailable, UsageError
from shipper.settings import CollectorSettings, NatsSettings

EXIT_INCOMPLETE = 2
_NAME_IT = "name the collector's directory: fshipper audit DIRECTORY, or SHIPPER_DIRECTORY"

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
    ask_hosts: Annotated[bool, typer.Option("--hosts", help="Ask the producers, too, how far they are")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs")] = False,
    state: Annotated[Path | None, typer.Option(help="Directory of the journals (SHIPPER_STATE)")] = None,
    url: Annotated[str | None, typer.Option(help="NATS server, for --hosts (NATS_URL)")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
) -> None:
    """Verify every file of the archive against its manifest or journal, and say what is missing, damaged or doubled.

    Ends with 0 when the archive is complete, with 2 when there are gaps or damage.
    """
    if directory and archive:
        raise UsageError("the archive is named twice", hint="give it as an argument or with --archive")
    flags = {"collector.directory": directory or archive, "collector.state": state, "nats.url": url}
    settings = load(flags, config=config)
    scope = _scope(settings.collector, *_days(date, since, until), host)
    said = _ask(settings.nats, scope) if ask_hosts else None
    result = _run(scope)
    told: list[Host] = []
    if said is not None:
        with Journals(scope.journals) as journals:
            told, findings = compare(said, journals)
        result = replace(result, findings=[*result.findings, *findings])
    if as_json:
        sys.stdout.write(show.result_json(result, told) + "\n")
    else:
        show.print_result(result, told)
    if not result.complete:
        raise typer.Exit(EXIT_INCOMPLETE)


def _scope(chosen: CollectorSettings, since: str, until: str, host: str) -> Scope:
    """What is audited. Raises ConfigError: there is no archive; Unavailable: it has nothing of that day or host."""
    archive = chosen.directory
    identity = _identity(archive)
    own = archive / JOURNALS
    journals = chosen.state / "collector" / identity if chosen.state else own
    if own.is_dir() and not journals.is_dir():
        journals = own
    scope = Scope(archive=archive, journals=journals, since=since, until=until, host=host)
    days = listing.days(archive) | listing.directory_days(archive) | removed_days(archive)
    if (since or until) and not any(map(scope.has_day, days)):
        listed = f"it has {min(days)} to {max(days)}" if days else "it has no day at all"
        raise Unavailable(f"the archive {archive} has nothing of these days; {listed}", hint="choose another --date")
    if host != "*" and not hosts(scope):
        raise Unavailable(f"the archive {archive} has nothing of {host}", hint="write --host 'web*' for every web host")
    return scope


def _identity(archive: Path) -> str:
    """The identity of an archive, which is not made if it has none. Raises ConfigError: there is no archive."""
    try:
        names = {path.name for path in archive.iterdir()}
        if IDENTITY in names:
            return str(json.loads((archive / IDENTITY).read_bytes())["id"])
    except FileNotFoundError:
        raise ConfigError(f"there is no archive at {archive}", hint=_NAME_IT) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"the archive {archive} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(text, hint="run the audit as the collector's user or group") from None
    if not any(name == "_manifest" or name.startswith("date=") for name in names):
        raise ConfigError(f"{archive} is no archive of a collector", hint=_NAME_IT)
    return ""


def _days(date: str, since: str, until: str) -> tuple[str, str]:
    """First and last day. Raises UsageError."""
    if date and (since or until):
        raise UsageError("--date goes without --since and --until", hint="give one day, or a first and a last one")
    return _day(date or since), _day(date or until)


def _day(text: str) -> str:
    today = dt.datetime.now(dt.UTC).date()
    named = {"": "", "today": str(today), "yesterday": str(today - dt.timedelta(days=1))}
    if text in named:
        return named[text]
    try:
        return str(dt.datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=dt.UTC).date())
    except ValueError:
        raise UsageError(f"{text!r} is no day", hint="write YYYY-MM-DD, today or yesterday; days are UTC") from None


def _ask(settings: NatsSettings, scope: Scope) -> Said:
    with Journals(scope.journals) as journals:
        names = hosts(scope) | {key.host for _, key, _ in journals.watermarks() if scope.has_host(key.host)}
        places = list(journals.places)
    return asyncio.run(ask(settings, _identity(scope.archive), names, places))


def _run(scope: Scope) -> Result:
    try:
        with Journals(scope.journals) as journals, _progress() as told:
            return Audit(scope, journals, told).run()
    except OSError as error:
        what = error.filename or scope.archive
        raise ConfigError(
            f"{what} cannot be read: {error.strerror}", hint="run the audit as the collector's user or group"
        ) from None


@contextlib.contextmanager
def _progress() -> Iterator[Told]:
    """A bar on stderr, where a person looks at it."""
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
