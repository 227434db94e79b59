"""The options of `fshipper report` and its commands: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from shipper.commands import AsJson

MAX_TOP = 100
"""Maximum entries of a list on the page, so that it stays small; the tables have all entries."""

Archive = Annotated[
    list[str] | None,
    typer.Option(
        "--archive",
        help="The collector's directory, or its URI (s3a://, hdfs://). Several, or a quoted glob: one report of all."
        " [env var: SHIPPER_DIRECTORY]",
        show_default=False,
    ),
]
Out = Annotated[
    str,
    typer.Option(envvar="SHIPPER_REPORT", help="Directory of the reports: a path or a URI.", show_default=False),
]
Day = Annotated[str, typer.Option(help="Day (UTC): YYYY-MM-DD, today or yesterday.")]
Master = Annotated[
    str | None, typer.Option(help="Spark master; by default all cores of this machine, or the master of spark-submit.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The days to count, and what is made of them."""

    context: typer.Context  #: names the command that is called
    archive: Archive = None
    out: Out = ""
    date: Day = "yesterday"
    since: Annotated[str, typer.Option(help="Report all days of the archive from this one.", show_default=False)] = ""
    until: Annotated[str, typer.Option(help="The last of these days; by default yesterday.", show_default=False)] = ""
    top: Annotated[int, typer.Option(min=1, max=MAX_TOP, help="Entries of each list on the page.")] = 20
    baseline_days: Annotated[int, typer.Option(min=1, max=60, help="Number of earlier days to compare with.")] = 7
    force: Annotated[bool, typer.Option("--again", "--force", help="Make a day again although nothing changed.")] = (
        False
    )
    fail_on_gaps: Annotated[
        bool, typer.Option("--fail-on-gaps", help="Exit 3 if the archive lacks anything, or holds it twice.")
    ] = False
    as_json: AsJson = False
    browse: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="SHIPPER_BROWSE",
            help="Address of `fshipper browse`: rows of the page link to their lines there.",
            show_default=False,
        ),
    ] = ""
    timezone: Annotated[
        str,
        typer.Option(
            envvar="SHIPPER_REPORT_TIMEZONE",
            help="Zone of the times on pages and in findings: such as Europe/Berlin. Days stay those of UTC.",
        ),
    ] = "UTC"
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="Wait so long (30m) for collectors that have not closed the day.")
    ] = "0s"
    master: Master = None
    readable_by: Annotated[
        Literal["group", "all"],
        typer.Option(envvar="SHIPPER_READABLE_BY", help="Who may read what is written: the group, or all."),
    ] = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternsOptions:
    """Print the pattern of each line of FILE: its id, a tab, its template.

    The patterns are those that a report without known patterns finds in the same lines.
    """

    file: Annotated[Path, typer.Argument(help="A log file, in any encoding; - for standard input.", show_default=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    """Make the first report start as fast as later ones: write the class data archive of Java, in about a minute."""

    force: Annotated[bool, typer.Option("--again", "--force", help="Write it again although it is there.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    """Write the lines of a day as Parquet under <out>/raw, for repeated queries."""

    archive: Archive = None
    out: Out = ""
    date: Day = "yesterday"
    master: Master = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """Query the tables, and the lines of some days, in SQL. Every table is a view with a column `date`.

    Without a statement, a shell runs the statements that you type on one session, so that each takes about a second.
    """

    sql: Annotated[
        str, typer.Argument(help="A statement; without one, a shell. `lines`: of the days of --since or --date.")
    ] = ""
    archive: Archive = None
    out: Out = ""
    date: Annotated[str, typer.Option(help="A day whose lines the SQL may read.", show_default=False)] = ""
    since: Annotated[str, typer.Option(help="The first of several such days.", show_default=False)] = ""
    until: Annotated[str, typer.Option(help="The last of them; by default yesterday.", show_default=False)] = ""
    form: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table"
    master: Master = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekOptions:
    """Write the report of a week from the tables of its days, without Spark: week-2026-W47.html, .txt and .json."""

    out: Out = ""
    week: Annotated[str, typer.Option(help="Week (ISO 8601): 2026-W47, this or last.")] = "last"
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Send the report of a day by mail, webhook or Apprise to the targets in the settings; each report once."""

    out: Out = ""
    date: Annotated[
        str, typer.Option(help="Day (UTC) to send: YYYY-MM-DD; by default the last ones.", show_default=False)
    ] = ""
    days: Annotated[int, typer.Option(min=1, max=366, help="Number of last reported days to send.")] = 1
    settings: Annotated[Path, typer.Option("--settings", envvar="SHIPPER_SEND", help="TOML file with the targets.")] = (
        Path("/etc/fshipper/send.toml")
    )
    when: Annotated[
        Literal["changed", "attention", "always"] | None,
        typer.Option(help="Instead of the condition in the settings.", show_default=False),
    ] = None
    resend: Annotated[bool, typer.Option("--resend", help="Send what is in doubt again, with the same identifier.")] = (
        False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """Show a report that was made, without Spark."""

    out: Out = ""
    date: Annotated[str, typer.Option(help="Day (UTC): YYYY-MM-DD, or latest.")] = "latest"
    as_json: AsJson = False
    directory: Annotated[str, typer.Argument(help="The same as --out.", show_default=False)] = ""
