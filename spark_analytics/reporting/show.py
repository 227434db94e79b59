"""`fshipper report show`: a report that was made, in the terminal. Starts neither Spark nor Java."""

import os
import re
from typing import Annotated

import typer

from shipper.errors import ConfigError, Unavailable, UsageError
from spark_analytics import reaching
from spark_analytics.locations import Location

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def show(
    out: Annotated[
        str, typer.Option(envvar="SHIPPER_REPORT", help="Where the reports are: a path or a URI.")
    ] = "report",
    date: Annotated[str, typer.Option(help="Day (UTC): YYYY-MM-DD, or latest.")] = "latest",
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json as it is.")] = False,
    directory: Annotated[str, typer.Argument(help="The same as --out.", show_default=False)] = "",
) -> None:
    """Show a report that was made, without Spark."""
    if directory and out not in {directory, "report", os.environ.get("SHIPPER_REPORT")}:
        raise UsageError("the reports are named twice", hint="give their directory as an argument or with --out")
    with reaching.reached(directory or out) as (where,):
        path = found(where, date)
        content = path.read_bytes()
    if as_json:
        typer.echo(content.decode(), nl=False)
        return
    from spark_analytics.reporting import record, text  # noqa: PLC0415 - pydantic takes a moment, --help needs none

    typer.echo(text.as_text(record.from_text(content, str(path))))


def found(out: Location, date: str) -> Location:
    """The `report.json` of a day.

    Raises:
        UsageError: `date` is no day.
        ConfigError: nothing was ever reported under `out`.
        Unavailable: that day was not reported; says which were.
    """
    if date != "latest" and not _DATE.fullmatch(date):
        raise UsageError(f"{date!r} is no day", hint="give --date as YYYY-MM-DD or latest; days are UTC")
    known = sorted(path.parent.name for path in out.glob("[0-9]*-[0-9]*-[0-9]*/report.json"))
    if not known:
        raise ConfigError(f"there is no report in {out}", hint="make one with `fshipper report`, or name its --out")
    day = known[-1] if date == "latest" else date
    if day not in known:
        raise Unavailable(
            f"{day} was not reported in {out}; the last ones are {', '.join(known[-7:])}",
            hint=f"make it with `fshipper report --date {day}`",
        )
    return out / day / "report.json"
