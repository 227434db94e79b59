"""`fshipper search`: find lines of all hosts in the archive, and with -f in what arrives."""

from pathlib import Path
from typing import Annotated

import typer

from consumer.archive.event_times import TimeOf
from consumer.read.cli import Config, Files, Hosts, Late, Since, State, Subject, Timezone, Until
from consumer.read.search_options import MAX_CONTEXT, CountBy, ProgressForm, SearchOptions
from consumer.read.search_unit import Unit
from shipper.interrupts import importing

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def search(
    *,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help='Words, "a phrase", /regex/i, OR, NOT, ( )')
    ],
    hosts: Hosts = None,
    file: Files = None,
    since: Since = "",
    until: Until = "",
    by: Annotated[
        TimeOf | None,
        typer.Option(help="Time for --since, --until, --histogram and the order [default: event; stored with -f]"),
    ] = None,
    late: Late = "",
    timezone: Timezone = "UTC",
    after_context: Annotated[
        int, typer.Option("-A", "--after-context", min=0, max=MAX_CONTEXT, help="Lines after each hit")
    ] = 0,
    before_context: Annotated[
        int, typer.Option("-B", "--before-context", min=0, max=MAX_CONTEXT, help="Lines before each hit")
    ] = 0,
    context: Annotated[int, typer.Option("-C", "--context", min=0, max=MAX_CONTEXT, help="Lines before and after")] = 0,
    records: Annotated[
        bool, typer.Option("--records", help="Find records: a line with a time, and the lines without one after it")
    ] = False,
    count: Annotated[CountBy | None, typer.Option(help="Count the lines instead of showing them")] = None,
    histogram: Annotated[str, typer.Option(metavar="DURATION", help="Count the lines over time: 10m, 1h")] = "",
    newest_first: Annotated[bool, typer.Option("--newest-first", help="Start with the newest lines")] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, help="Maximum lines; 0: all [default: 1000]", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with lines that arrive")] = False,
    fixed: Annotated[bool, typer.Option("--fixed-strings", "-F", help="QUERY is text, not a query")] = False,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Ignore case [default: if QUERY has no capital letter]")
    ] = False,
    case_sensitive: Annotated[bool, typer.Option("--case-sensitive", "-s", help="Do not ignore case")] = False,
    whole_words: Annotated[
        bool, typer.Option("--word-regexp", "-w", help="Words and phrases match whole words only")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one object per line")] = False,
    progress: Annotated[ProgressForm, typer.Option(help="Show progress")] = ProgressForm.AUTO,
    explain: Annotated[bool, typer.Option("--explain", help="Show what would be read, and how; read nothing")] = False,
    jobs: Annotated[int, typer.Option(min=0, help="Worker processes; 0: one per core")] = 0,
    color: Annotated[
        bool | None, typer.Option("--color/--no-color", help="A color for each host [default: on terminals]")
    ] = None,
    archive: Annotated[
        Path | None, typer.Option("--archive", "--directory", help="The archive (SHIPPER_DIRECTORY)")
    ] = None,
    state: State = None,
    url: Annotated[str | None, typer.Option(help="NATS servers for -f, separated by commas (NATS_URL)")] = None,
    subject: Subject = None,
    config: Config = None,
) -> None:  # fmt: skip
    """Find lines of all hosts and days in the archive, without an index and without Spark.

    Lines are shown in the order of the times in them. Exit code: 0 lines found, 1 none, 3 something could not be
    read. Put `--` before a query that begins with `-`.
    """
    options = SearchOptions(
        query=query,
        hosts=tuple(hosts or ()),
        files=tuple(file or ()),
        since=since,
        until=until,
        by=by,
        late=late,
        timezone=timezone,
        after=max(context, after_context),
        before=max(context, before_context),
        count=count,
        histogram=histogram,
        newest_first=newest_first,
        limit=limit,
        follow=follow,
        fixed=fixed,
        ignore_case=ignore_case,
        case_sensitive=case_sensitive,
        whole_words=whole_words,
        unit=Unit.RECORD if records else Unit.LINE,
        as_json=as_json,
        progress=progress,
        explain=explain,
        jobs=jobs,
        color=color,
    )
    with importing():
        from consumer.read.search import run  # noqa: PLC0415 - `--help` needs none of it, and it takes twice as long
        from shipper.config import load  # noqa: PLC0415

    flags = {"nats.url": url, "logs.subject": subject, "collector.directory": archive, "collector.state": state}
    if code := run(options, load(flags, config=config)):
        raise typer.Exit(code)
