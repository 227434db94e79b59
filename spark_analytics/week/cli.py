"""`fshipper report week`: the command line of the week. It reads the tables without Spark and Java."""

import datetime as dt
import re
from typing import Annotated

import typer

from shipper.errors import Permanent, Unavailable, UsageError
from spark_analytics import open_locations

_WEEK = re.compile(r"\d{4}-W\d\d")


def week(
    out: Annotated[
        str, typer.Option(envvar="SHIPPER_REPORT", help="Where the reports are: a path or a URI.")
    ] = "report",
    week: Annotated[str, typer.Option(help="Week (ISO 8601): 2026-W47, this or last.")] = "last",
    as_json: Annotated[bool, typer.Option("--json", help="Print the week as JSON.")] = False,
) -> None:
    """Write the report of a week from the tables of its days, without Spark: week-2026-W47.html, .txt and .json."""
    from spark_analytics.tables.store import Tables  # noqa: PLC0415 - need pyspark's types
    from spark_analytics.week import facts, publish  # noqa: PLC0415

    today = dt.datetime.now(dt.UTC).date()
    named = {"this": facts.week_of(today), "last": facts.week_of(today - dt.timedelta(days=7))}.get(week, week)
    try:
        days = facts.days_of(named) if _WEEK.fullmatch(named) else []
    except ValueError:
        days = []
    if not days:
        raise UsageError(f"{week!r} is not a week", hint="give --week 2026-W47, this or last; weeks begin on Monday")
    with open_locations.opened(out) as (location,):
        try:
            found = facts.week_facts(Tables(location), named)
        except ValueError as error:
            raise Permanent(str(error), hint="make the day again with `fshipper report --force`") from None
        if found is None:
            raise Unavailable(
                f"no day from {days[0]} to {days[-1]} is in the tables of {out}", hint="`fshipper report` makes them"
            )
        page = publish.publish(location, found)
    typer.echo(publish.as_json(found) if as_json else f"{publish.as_text(found)}\n\n  page      {page}", nl=not as_json)
