"""`fshipper report`: the command line. Imports Spark only to run, so that `--help` is quick and needs no Java."""

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
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from shipper import layout, moments, units, zone_names
from shipper.errors import EXIT_OTHER, ConfigError, Permanent, Unavailable, UsageError
from spark_analytics.archive import inventory
from spark_analytics.archive.archives import Archives
from spark_analytics.patterns import cli as patterns
from spark_analytics.runtime import interrupts, session
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location

if TYPE_CHECKING:
    from spark_analytics.pipeline import DayResult, Request

MAX_TOP = 100
"""Maximum entries of a list on the page, so that it stays small; the tables have all entries."""

GARBAGE_THRESHOLD = 50_000
"""New objects before Python searches for cycles: a day with many log files is some 100,000 rows without one."""

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_WEEK = re.compile(r"\d{4}-W\d\d")
_DAYS = "[0-9]*-[0-9]*-[0-9]*/report.json"

EXIT_INCOMPLETE = 3
EXIT_UNCHANGED = 4


Archive = Annotated[
    list[str] | None,
    typer.Option(
        "--archive",
        help="The collector's directory, or its URI (s3a://, hdfs://). Several, or a quoted glob: one report of all."
        " [env var: SHIPPER_DIRECTORY]",
        show_default=False,
    ),
]
Out = Annotated[str, typer.Option(envvar="SHIPPER_REPORT", help="Where the report is written: a path or a URI.")]
Reports = Annotated[str, typer.Option(envvar="SHIPPER_REPORT", help="Where the reports are: a path or a URI.")]
Master = Annotated[
    str | None, typer.Option(help="Spark master; by default all cores of this machine, or the master of spark-submit.")
]

app = typer.Typer(
    help="Count days of the archive: tables, CSV and a page.", invoke_without_command=True, rich_markup_mode=None
)
app.command("patterns")(patterns.patterns)


@app.callback()
def report(
    context: typer.Context,
    archive: Archive = None,
    out: Out = "report",
    date: Annotated[str, typer.Option(help="Day (UTC) to report: YYYY-MM-DD, today or yesterday.")] = "yesterday",
    since: Annotated[str, typer.Option(help="Report all days of the archive from this one.", show_default=False)] = "",
    until: Annotated[str, typer.Option(help="The last of these days; by default yesterday.", show_default=False)] = "",
    top: Annotated[int, typer.Option(min=1, max=MAX_TOP, help="Entries of each list on the page.")] = 20,
    baseline_days: Annotated[int, typer.Option(min=1, max=60, help="Number of earlier days to compare with.")] = 7,
    force: Annotated[bool, typer.Option("--force", help="Make a day again although nothing changed.")] = False,
    fail_on_gaps: Annotated[
        bool, typer.Option("--fail-on-gaps", help="Exit 3 if the archive lacks anything, or holds it twice.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    browse: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="SHIPPER_BROWSE",
            help="Address of `fshipper browse`: rows of the page link to their lines there.",
            show_default=False,
        ),
    ] = "",
    timezone: Annotated[
        str,
        typer.Option(
            envvar="SHIPPER_REPORT_TIMEZONE",
            help="Zone of the times on pages and in findings: such as Europe/Berlin. Days stay those of UTC.",
        ),
    ] = "UTC",
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="Wait so long (30m) for collectors that have not closed the day.")
    ] = "0s",
    master: Master = None,
    readable_by: Annotated[
        Literal["group", "all"],
        typer.Option(envvar="SHIPPER_READABLE_BY", help="Who may read what is written: the group, or all."),
    ] = "group",
) -> None:
    """Count the lines of a day and report what stands out.

    Reads what the manifests of the day list, once, compares it with their sums, and writes under --out: tables/
    (Parquet), csv/, <date>/report.html, <date>/report.json, index.html and latest. A day whose input did not change is
    left alone: exit 4.
    """
    context.with_resource(interrupts.ending())
    # Files are created 0640 and directories 0750 for the group, whatever the process inherited; Java inherits it.
    inherited = os.umask(0o077)
    os.umask(inherited | (0o027 if readable_by == "group" else 0o022))
    context.call_on_close(lambda: os.umask(inherited))
    if context.invoked_subcommand is not None:
        return
    if browse and not browse.startswith(("http://", "https://")):
        raise UsageError(f"--browse {browse!r} is no web address", hint="give one that begins with http:// or https://")
    zone_names.chosen(timezone)
    try:
        seconds = units.parse_seconds(wait)
    except ValueError as error:
        raise UsageError(str(error), hint="see --wait") from None
    with _opened(out, *_named(archive), master=master) as (target, *places):
        source = Archives.of(places)
        dates = _dates(source, date, since, until)
        if not dates:
            typer.echo(f"no day of {source} is over yet: nothing to do", err=True)
            raise typer.Exit(EXIT_UNCHANGED)
        session.require_runtime()
        from spark_analytics.pipeline import Request  # noqa: PLC0415 - needs pyspark

        if seconds:
            inventory.until_days_closed(source.read_day, dates, seconds, lambda text: typer.echo(text, err=True))
        gc.set_threshold(GARBAGE_THRESHOLD)
        request = Request(
            archive=source,
            out=target,
            top=top,
            master=master,
            baseline_days=baseline_days,
            browse=browse,
            timezone=timezone,
            force=force,
        )
        made = _shown(_run(request, dates), several=bool(since or until), as_json=as_json)
    if fail_on_gaps and any(one.state in {"damaged", "gaps", "doubled"} for one in made):
        raise typer.Exit(EXIT_INCOMPLETE)
    raise typer.Exit(EXIT_UNCHANGED if all(one.facts is None for one in made) else 0)


@app.command()
def prepare(
    force: Annotated[bool, typer.Option("--force", help="Write it again although it is there.")] = False,
) -> None:
    """Make the first report start as fast as later ones: write the class data archive of Java, in about a minute."""
    from spark_analytics.prepare import prepare as write  # noqa: PLC0415

    archive, is_new = write(force=force)
    size = archive.path.stat().st_size // 1_000_000
    typer.echo(f"{archive.path}: {size} MB{'' if is_new else ', written before; nothing to do'}")


@app.command()
def compact(
    archive: Archive = None,
    out: Out = "report",
    date: Annotated[str, typer.Option(help="Day (UTC): YYYY-MM-DD, today or yesterday.")] = "yesterday",
    master: Master = None,
) -> None:
    """Write the lines of a day as Parquet under <out>/raw, for repeated queries."""
    day = moments.day(date, dt.datetime.now(dt.UTC).date())
    with _opened(out, *_named(archive), master=master) as (target, *places):
        session.require_runtime()
        from spark_analytics import pipeline  # noqa: PLC0415 - needs pyspark

        typer.echo(pipeline.compact(Archives.of(places), target, day.isoformat(), master))


@app.command()
def query(
    sql: Annotated[
        str, typer.Argument(help="A statement; without one, a shell. `lines`: of the days of --since or --date.")
    ] = "",
    archive: Archive = None,
    out: Out = "report",
    date: Annotated[str, typer.Option(help="A day whose lines the SQL may read.", show_default=False)] = "",
    since: Annotated[str, typer.Option(help="The first of several such days.", show_default=False)] = "",
    until: Annotated[str, typer.Option(help="The last of them; by default yesterday.", show_default=False)] = "",
    form: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    master: Master = None,
) -> None:
    """Query the tables, and the lines of some days, in SQL. Every table is a view with a column `date`.

    Without a statement, a shell runs the statements that you type on one session, so that each takes about a second.
    """
    if form not in {"table", "csv", "json"}:
        raise UsageError(f"{form!r} is no format", hint="give --format table, csv or json")
    wanted = bool(date or since or until)
    if not wanted and "://" not in out and not Path(out).is_dir():
        raise UsageError(f"there are no reports in {out}", hint="name their directory with --out, or SHIPPER_REPORT")
    texts = (out, *_named(archive)) if wanted else (out,)
    with _opened(*texts, master=master) as (target, *places):
        source = Archives.of(places) if places else None
        dates = _dates(source, date, since, until) if source else []
        session.require_runtime()
        from spark_analytics import pipeline  # noqa: PLC0415 - needs pyspark

        if sql:
            pipeline.query(sql, source, target, dates, form, master)
        else:
            pipeline.shell(source, target, dates, form, master)


@app.command()
def week(
    out: Reports = "report",
    week: Annotated[str, typer.Option(help="Week (ISO 8601): 2026-W47, this or last.")] = "last",
    as_json: Annotated[bool, typer.Option("--json", help="Print the week as JSON.")] = False,
) -> None:
    """Write the report of a week from the tables of its days, without Spark: week-2026-W47.html, .txt and .json."""
    from spark_analytics.report import week as weeks  # noqa: PLC0415 - need pyspark's types
    from spark_analytics.tables.store import Tables  # noqa: PLC0415

    today = dt.datetime.now(dt.UTC).date()
    named = {"this": weeks.week_of(today), "last": weeks.week_of(today - dt.timedelta(days=7))}.get(week, week)
    try:
        days = weeks.days_of(named) if _WEEK.fullmatch(named) else []
    except ValueError:
        days = []
    if not days:
        raise UsageError(f"{week!r} is not a week", hint="give --week 2026-W47, this or last; weeks begin on Monday")
    with _opened(out) as (location,):
        try:
            found = weeks.week_facts(Tables(location), named)
        except ValueError as error:
            raise Permanent(str(error), hint="make the day again with `fshipper report --force`") from None
        if found is None:
            raise Unavailable(
                f"no day from {days[0]} to {days[-1]} is in the tables of {out}", hint="`fshipper report` makes them"
            )
        page = weeks.publish(location, found)
    typer.echo(weeks.as_json(found) if as_json else f"{weeks.as_text(found)}\n\n  page      {page}", nl=not as_json)


@app.command()
def send(
    out: Annotated[str, typer.Option(envvar="SHIPPER_REPORT", help="Directory of the reports.")] = "report",
    date: Annotated[
        str, typer.Option(help="Day (UTC) to send: YYYY-MM-DD; by default the last ones.", show_default=False)
    ] = "",
    days: Annotated[int, typer.Option(min=1, max=366, help="Number of last reported days to send.")] = 1,
    settings: Annotated[
        Path, typer.Option("--settings", envvar="SHIPPER_SEND", help="TOML file with the targets.")
    ] = Path("/etc/fshipper/send.toml"),
    when: Annotated[
        Literal["changed", "attention", "always"] | None,
        typer.Option(help="Instead of the condition in the settings.", show_default=False),
    ] = None,
    resend: Annotated[
        bool, typer.Option("--resend", help="Send what is in doubt again, with the same identifier.")
    ] = False,
) -> None:
    """Send the report of a day by mail, webhook or Apprise to the targets in the settings; each report once."""
    if locations.is_remote(out):
        raise UsageError(f"{out} is not a local directory", hint="copy the reports, and name the copy with --out")
    from spark_analytics.delivery import send as delivery  # noqa: PLC0415 - pydantic takes a moment
    from spark_analytics.delivery import targets  # noqa: PLC0415

    known = targets.read(settings)
    directory = locations.local_path(out)
    found = sorted(directory.glob(_DAYS))
    chosen = [path for path in found if path.parent.name == date] if date else found[-days:]
    if not chosen:
        raise ConfigError(
            f"there is no report{f' of {date}' if date else ''} in {out}", hint="`fshipper report` makes it"
        )
    if not known.target:
        typer.echo(f"{settings} has no target: nothing to send", err=True)
        return
    outcomes = set()
    for one in delivery.send(chosen, known, directory / delivery.LEDGER, when=when, resend=resend):
        outcomes.add(one.outcome)
        why = f": {one.why}" if one.why else ""
        typer.echo(f"{one.date} {one.target}: {one.outcome}{why}", err=one.outcome in delivery.TROUBLE)
    if outcomes & delivery.TROUBLE:
        raise typer.Exit(EXIT_OTHER)


@app.command()
def show(
    out: Reports = "report",
    date: Annotated[str, typer.Option(help="Day (UTC): YYYY-MM-DD, or latest.")] = "latest",
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json as it is.")] = False,
    directory: Annotated[str, typer.Argument(help="The same as --out.", show_default=False)] = "",
) -> None:
    """Show a report that was made, without Spark."""
    if directory and out not in {directory, "report", os.environ.get("SHIPPER_REPORT")}:
        raise UsageError("the reports are named twice", hint="give their directory as an argument or with --out")
    with _opened(directory or out) as (location,):
        path = find_report(location, date)
        content = path.read_bytes()
    if as_json:
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


def _named(archives: Sequence[str] | None) -> list[str]:
    """The archives that `--archive` names; a glob names those of its directories that are archives.

    The variable names one or a glob: typer would split its value at spaces.
    """
    archives = archives or [os.environ.get("SHIPPER_DIRECTORY", "")]
    if not all(archives):
        raise UsageError(
            "no archive is named", hint="give --archive DIR, the collector's directory, or set SHIPPER_DIRECTORY"
        )
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
