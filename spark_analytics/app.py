"""`fshipper report` and its commands: options in, exit code out. Imports Spark only where it is needed."""

import contextlib
import datetime as dt
import gc
import glob
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from shipper import default_paths, layout, moments, units, zone_names
from shipper.errors import EXIT_OK, EXIT_OTHER, ConfigError, Permanent, Unavailable, UsageError
from spark_analytics.archive import inventory
from spark_analytics.archive.archives import Archives
from spark_analytics.archive.seal_request import seal_open_files
from spark_analytics.options import (
    CompactOptions,
    PrepareOptions,
    QueryOptions,
    ReportOptions,
    SendOptions,
    ShowOptions,
    WeekOptions,
)
from spark_analytics.runtime import interrupts, session
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location

if TYPE_CHECKING:
    from spark_analytics.pipeline import DayResult, Request

GARBAGE_THRESHOLD = 50_000
"""New objects before Python searches for cycles: a day with many log files is some 100,000 rows without one."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_WEEK = re.compile(r"\d{4}-W\d\d")
_DAYS = "[0-9]*-[0-9]*-[0-9]*/report.json"

EXIT_INCOMPLETE = 3
EXIT_UNCHANGED = 4


def report(options: ReportOptions) -> int:
    """Count the lines of days, and report what stands out. Returns the exit code.

    Reads what the manifests of the day list, once, compares it with their sums, and writes under --out: tables/
    (Parquet), csv/, <date>/report.html, <date>/report.json, index.html and latest. A day whose input did not change is
    left alone: exit 4.

    It is called before any other command, too, and then sets up the process only.
    """
    context, browse = options.context, options.browse
    context.with_resource(interrupts.ending())
    # Files are created 0640 and directories 0750 for the group, whatever the process inherited; Java inherits it.
    inherited = os.umask(0o077)
    os.umask(inherited | (0o027 if options.readable_by == "group" else 0o022))
    context.call_on_close(lambda: os.umask(inherited))
    if context.invoked_subcommand is not None:
        return EXIT_OK
    if browse and not browse.startswith(("http://", "https://")):
        raise UsageError(f"--browse {browse!r} is no web address", hint="give one that begins with http:// or https://")
    zone_names.chosen(options.timezone)
    try:
        seconds = units.parse_seconds(options.wait)
    except ValueError as error:
        raise UsageError(str(error), hint="see --wait") from None
    several = bool(options.since or options.until)
    with _opened(_out(options.out), *_named(options.archive), master=options.master) as (target, *places):
        source = Archives.of(places)
        dates = _dates(source, options.date, options.since, options.until)
        if not dates:
            typer.echo(f"no day of {source} is over yet: nothing to do", err=True)
            return EXIT_UNCHANGED
        session.require_runtime()
        from spark_analytics.pipeline import Request  # noqa: PLC0415 - needs pyspark

        if (today := dt.datetime.now(dt.UTC).date().isoformat()) in dates:
            seal_open_files([place for place, _ in source.places()], today, lambda text: typer.echo(text, err=True))
        if seconds:
            inventory.until_days_closed(source.read_day, dates, seconds, lambda text: typer.echo(text, err=True))
        gc.set_threshold(GARBAGE_THRESHOLD)
        request = Request(
            archive=source,
            out=target,
            top=options.top,
            master=options.master,
            baseline_days=options.baseline_days,
            browse=browse,
            timezone=options.timezone,
            force=options.force,
        )
        made = _shown(_run(request, dates), several=several, as_json=options.as_json)
    if options.fail_on_gaps and any(one.state in {"damaged", "gaps", "doubled"} for one in made):
        return EXIT_INCOMPLETE
    return EXIT_UNCHANGED if all(one.facts is None for one in made) else EXIT_OK


def prepare(options: PrepareOptions) -> None:
    """Write the class data archive of Java."""
    from spark_analytics.prepare import prepare as write  # noqa: PLC0415

    with Console(stderr=True).status("preparing the classes of Java, about a minute"):
        archive, is_new = write(force=options.force)
    size = archive.path.stat().st_size // 1_000_000
    typer.echo(f"{archive.path}: {size} MB{'' if is_new else ', written before; nothing to do'}")


def compact(options: CompactOptions) -> None:
    """Write the lines of a day as Parquet."""
    day = moments.day(options.date, dt.datetime.now(dt.UTC).date())
    with _opened(_out(options.out), *_named(options.archive), master=options.master) as (target, *places):
        session.require_runtime()
        from spark_analytics import pipeline  # noqa: PLC0415 - needs pyspark

        typer.echo(pipeline.compact(Archives.of(places), target, day.isoformat(), options.master))


def query(options: QueryOptions) -> None:
    """Run a statement, or a shell for statements. Raises UsageError."""
    out, form = _out(options.out), options.form
    if form not in {"table", "csv", "json"}:
        raise UsageError(f"{form!r} is no format", hint="give --format table, csv or json")
    wanted = bool(options.date or options.since or options.until)
    if not wanted and "://" not in out and not Path(out).is_dir():
        raise UsageError(f"there are no reports in {out}", hint="name their directory with --out, or SHIPPER_REPORT")
    texts = (out, *_named(options.archive)) if wanted else (out,)
    with _opened(*texts, master=options.master) as (target, *places):
        source = Archives.of(places) if places else None
        dates = _dates(source, options.date, options.since, options.until) if source else []
        session.require_runtime()
        from spark_analytics import pipeline  # noqa: PLC0415 - needs pyspark

        if options.sql:
            pipeline.query(options.sql, source, target, dates, form, options.master)
        else:
            pipeline.shell(source, target, dates, form, options.master)


def week(options: WeekOptions) -> None:
    """Write and print the report of a week. Raises UsageError, Permanent, Unavailable."""
    from spark_analytics.report import week as weeks  # noqa: PLC0415 - need pyspark's types
    from spark_analytics.tables.store import Tables  # noqa: PLC0415

    wanted, out, as_json = options.week, _out(options.out), options.as_json
    today = dt.datetime.now(dt.UTC).date()
    named = {"this": weeks.week_of(today), "last": weeks.week_of(today - dt.timedelta(days=7))}.get(wanted, wanted)
    try:
        days = weeks.days_of(named) if _WEEK.fullmatch(named) else []
    except ValueError:
        days = []
    if not days:
        raise UsageError(f"{wanted!r} is not a week", hint="give --week 2026-W47, this or last; weeks begin on Monday")
    with _opened(out) as (location,):
        try:
            found = weeks.week_facts(Tables(location), named)
        except ValueError as error:
            raise Permanent(str(error), hint="make the day again with `fshipper report --force`") from None
        if found is None:
            raise Unavailable(
                f"no day from {days[0]} to {days[-1]} is in the tables of {out}",
                hint="`fshipper report` makes them",
            )
        page = weeks.publish(location, found)
    typer.echo(
        weeks.as_json(found) if as_json else f"{weeks.as_text(found)}\n\n  page      {page}",
        nl=not as_json,
    )


def send(options: SendOptions) -> int:
    """Send reports to the targets of the settings. Returns the exit code. Raises UsageError, ConfigError."""
    out, date = _out(options.out), options.date
    if locations.is_remote(out):
        raise UsageError(f"{out} is not a local directory", hint="copy the reports, and name the copy with --out")
    from spark_analytics.delivery import send as delivery  # noqa: PLC0415 - pydantic takes a moment
    from spark_analytics.delivery import targets  # noqa: PLC0415

    known = targets.read(options.settings)
    directory = locations.local_path(out)
    found = sorted(directory.glob(_DAYS))
    chosen = [path for path in found if path.parent.name == date] if date else found[-options.days :]
    if not chosen:
        raise ConfigError(
            f"there is no report{f' of {date}' if date else ''} in {out}", hint="`fshipper report` makes it"
        )
    if not known.target:
        typer.echo(f"{options.settings} has no target: nothing to send", err=True)
        return EXIT_OK
    outcomes = set()
    for one in delivery.send(chosen, known, directory / delivery.LEDGER, when=options.when, resend=options.resend):
        outcomes.add(one.outcome)
        why = f": {one.why}" if one.why else ""
        typer.echo(f"{one.date} {one.target}: {one.outcome}{why}", err=one.outcome in delivery.TROUBLE)
    return EXIT_OTHER if outcomes & delivery.TROUBLE else EXIT_OK


def show(options: ShowOptions) -> None:
    """Print a report that was made. Raises UsageError, ConfigError, Unavailable."""
    directory, out = options.directory, options.out
    if directory and out not in {"", directory, os.environ.get("SHIPPER_REPORT")}:
        raise UsageError("the reports are named twice", hint="give their directory as an argument or with --out")
    with _opened(directory or _out(out)) as (location,):
        path = find_report(location, options.date)
        content = path.read_bytes()
    if options.as_json:
        typer.echo(content.decode(), nl=False)
        return
    from spark_analytics.report import json_export, text  # noqa: PLC0415 - pydantic takes a moment, --help needs none

    typer.echo(text.as_text(json_export.from_text(content, str(path))))


def find_report(out: Location, date: str) -> Location:
    """The `report.json` of a day.

    Raises:
        UsageError: `date` is not a day.
        ConfigError: there is no report under `out`.
        Unavailable: there is no report of that day; the message names the last ones.
    """
    if date != "latest" and not _DATE.fullmatch(date):
        raise UsageError(f"{date!r} is no day", hint="give --date as YYYY-MM-DD or latest; days are UTC")
    known = sorted(path.parent.name for path in out.glob(_DAYS))
    if not known:
        raise ConfigError(f"there is no report in {out}", hint="make one with `fshipper report`, or name its --out")
    day = known[-1] if date == "latest" else date
    if day not in known:
        raise Unavailable(
            f"{day} was not reported in {out}; the last ones are {', '.join(known[-7:])}",
            hint=f"make it with `fshipper report --date {day}`",
        )
    return out / day / "report.json"


@contextlib.contextmanager
def _opened(*texts: str, master: str | None = None) -> Iterator[Sequence[Location]]:
    """The locations that `texts` name: paths, `file:` and other URIs.

    If one is remote, one Spark session serves the whole run; output of Java goes to a local file, which is kept if the
    run fails.

    Raises:
        ConfigError: Spark has no such file system.
        Unavailable: pyspark or Java is not installed, or Spark does not start.
    """
    if not any(map(locations.is_remote, texts)):
        yield [locations.local_path(text) for text in texts]
        return
    session.require_runtime()
    kept = Path(tempfile.mkdtemp(prefix="fshipper-log-"))
    log = kept / "spark.log"
    with interrupts.removed_at_end(kept):
        from spark_analytics.storage import hadoop_fs  # noqa: PLC0415 - need pyspark
        from spark_analytics.tables import spark_io  # noqa: PLC0415

        with session.open_session(master=master, log=log) as spark, spark_io.translated_errors(log):
            yield [
                hadoop_fs.remote_path(spark, text, log) if locations.is_remote(text) else locations.local_path(text)
                for text in texts
            ]
    shutil.rmtree(kept, ignore_errors=True)


def _out(named: str) -> str:
    """The directory of the reports, also where none is named."""
    return named or str(default_paths.reports())


def _named(archives: Sequence[str] | None) -> list[str]:
    """The archives that `--archive` names; a glob names those of its directories that are archives.

    The variable names one or a glob: typer would split its value at spaces. Without both it is the default archive.
    """
    archives = archives or [os.environ.get("SHIPPER_DIRECTORY") or str(default_paths.archive())]
    if not all(archives):
        raise UsageError("--archive is empty", hint="give --archive DIR, the collector's directory, or leave it out")
    return [each for text in archives for each in _matches(text)]


def _matches(text: str) -> list[str]:
    if locations.is_remote(text) or not glob.has_magic(text) or locations.local_path(text).exists():
        return [text]
    found = [path for path in sorted(glob.glob(str(locations.local_path(text)))) if Path(path).is_dir()]
    return [path for path in found if layout.is_archive(locations.names(Path(path)))] or found[:1] or [text]


def _dates(archives: Archives, date: str, since: str, until: str) -> list[str]:
    """The days to report: the named one, or the days of a range that the archive has; none if no day is over."""
    archives.check()
    today = dt.datetime.now(dt.UTC).date()
    if not (since or until):
        return [moments.day(date, today).isoformat()]
    first = moments.day(since, today).isoformat() if since else ""
    last = moments.day(until or "yesterday", today).isoformat()
    if until and first > last:
        raise UsageError(f"--since {first} is after --until {last}", hint="exchange them: --since is the first day")
    known = archives.days()
    found = [day for day in known if first <= day <= last]
    if not found and (first or not known):
        raise Unavailable(
            f"{archives} has no day from {first or 'the beginning'} to {last}",
            hint="choose other days; `ls _manifest` in the archive lists them",
        )
    return found


def _run(request: "Request", dates: list[str]) -> "Iterator[DayResult]":
    from spark_analytics import pipeline  # noqa: PLC0415

    console = Console(stderr=True)
    made = pipeline.run(request, dates)
    if not console.is_terminal:
        yield from made
    elif len(dates) == 1:
        with console.status(f"counting {dates[0]} in {request.archive}"):
            first = list(itertools.islice(made, 1))
        yield from first  # before Spark is stopped
        yield from made
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("days", total=len(dates))
            for one in made:
                progress.update(bar, advance=1, description=one.date)
                yield one


def _shown(made: "Iterable[DayResult]", *, several: bool, as_json: bool) -> "list[DayResult]":
    from spark_analytics.report import json_export, text  # noqa: PLC0415

    kept = []
    for one in made:
        kept.append(one)
        if one.facts is None:
            typer.echo(f"{one.date}: nothing to do, its input did not change; --force makes it again", err=not several)
        elif as_json:
            typer.echo(json_export.to_text(one.facts), nl=False)
        else:
            typer.echo(text.in_a_line(one.facts) if several else text.as_text(one.facts))
    return kept
