"""`fshipper report`: the command line. Imports Spark only to run, so that `--help` is quick and needs no Java."""

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from shipper.errors import UsageError
from spark_analytics import session

if TYPE_CHECKING:
    from spark_analytics.pipeline import Request
    from spark_analytics.report import Report

MAX_TOP = 100
"""The most entries of a list on the page, so that it stays small; the tables hold them all."""

app = typer.Typer(help="Count a day of the archive: tables, CSV and a page.", invoke_without_command=True)


@app.callback()
def report(
    context: typer.Context,
    archive: Annotated[
        Path | None, typer.Option(envvar="SHIPPER_DIRECTORY", help="The collector's directory.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(envvar="SHIPPER_REPORT", help="Where the report is written.")] = Path("report"),
    date: Annotated[str, typer.Option(help="Day (UTC) to report: YYYY-MM-DD, today or yesterday.")] = "yesterday",
    top: Annotated[int, typer.Option(min=1, max=MAX_TOP, help="Entries of each list on the page.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    master: Annotated[
        str | None,
        typer.Option(help="Spark master; by default all cores of this machine, or what spark-submit says."),
    ] = None,
) -> None:
    """Count lines and bytes of one day by partition, host, log file, hour and level.

    Reads what the manifests of the day list, compares it with what they say, and writes under --out:
    tables/ (Parquet), csv/, <date>/report.html, <date>/report.json, index.html and latest.
    """
    if context.invoked_subcommand is not None:
        return
    if archive is None:
        raise UsageError(
            "no archive is named", hint="give --archive DIR, the collector's directory, or set SHIPPER_DIRECTORY"
        )
    day = chosen_day(date, dt.datetime.now(dt.UTC).date())
    session.require_runtime()
    from spark_analytics.pipeline import Request  # noqa: PLC0415 - needs pyspark

    _show(_run(Request(archive=archive, out=out, date=day, top=top, master=master)), as_json=as_json)


def chosen_day(text: str, today: dt.date) -> dt.date:
    """The day that `text` names.

    Raises:
        UsageError: it is neither a date nor `today` nor `yesterday`.
    """
    named = {"today": today, "yesterday": today - dt.timedelta(days=1)}
    if text in named:
        return named[text]
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=dt.UTC).date()
    except ValueError:
        raise UsageError(
            f"{text!r} is no day", hint="give --date as YYYY-MM-DD, today or yesterday; days are UTC"
        ) from None


def _run(request: "Request") -> "Report":
    from spark_analytics import pipeline  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        return pipeline.run(request)
    with console.status(f"counting {request.date} in {request.archive}"):
        return pipeline.run(request)


def _show(made: "Report", *, as_json: bool) -> None:
    from spark_analytics import summary  # noqa: PLC0415

    typer.echo(json.dumps(summary.as_json(made), indent=1) if as_json else summary.as_text(made))
