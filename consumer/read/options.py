"""The options of `tail`, `replay`, `search` and `browse`: a class a command, whose docstring is its help."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from consumer.archive.event_times import TimeOf
from shipper.commands import (
    Archive,
    AsJsonLines,
    Color,
    ConfigFile,
    Follow,
    Key,
    LogFormat,
    LogLevel,
    NatsContext,
    OpenPage,
    State,
    Subject,
    Url,
    Values,
)

MAX_CONTEXT = 1000
"""Lines of context, before and after each."""


class Origin(enum.Enum):
    """Where stored lines are read."""

    ALL = "all"
    STREAMS = "streams"
    ARCHIVE = "archive"


class ProgressForm(enum.Enum):
    """How progress is shown."""

    AUTO = "auto"  #: on a terminal
    JSON = "json"
    NONE = "none"


Hosts = Annotated[
    list[str] | None, typer.Argument(metavar="HOST", help="Hosts, or patterns: 'web*'. None: all.", show_default=False)
]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", help="Only files of this path, or pattern: '*access*'."),
    Values.ARCHIVED,
]
Since = Annotated[str, typer.Option(help="Then or later: 10m, 1w, yesterday, 09:30, 2026-11-20T10:00:00Z.")]
Until = Annotated[str, typer.Option(help="Before then.")]
Late = Annotated[
    str, typer.Option(metavar="DURATION", help="By event: lines that were stored so long after their time. [10m]")
]
Timezone = Annotated[str, typer.Option(help="Zone of times: Europe/Berlin, local, host (of each host).")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """Which lines `tail` and `replay` take, where they are, and how they are shown."""

    hosts: Hosts = None
    files: Files = None
    since: Since = ""
    until: Until = ""
    grep: Annotated[
        list[str] | None, typer.Option("--grep", "-g", help="Only lines that hold this regular expression.")
    ] = None
    invert_match: Annotated[bool, typer.Option("--invert-match", "-v", help="Only lines that hold none of --grep.")] = (
        False
    )
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="--grep in any case.")] = False
    as_json: AsJsonLines = False
    color: Color = None
    archive: Archive = None
    origin: Annotated[Origin, typer.Option("--from", help="Read the streams, the archive, or both.")] = Origin.ALL
    by: Annotated[
        TimeOf | None,
        typer.Option(help="Time for --since, --until and the order. [default: event with --from archive, else stored]"),
    ] = None
    late: Late = ""
    timezone: Timezone = "UTC"
    state: State = None
    url: Url = None
    nats_context: NatsContext = None
    subject: Subject = None
    config: ConfigFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions(LineOptions):
    """Show the logs of all hosts as one: what the streams hold, further back the archive, and with -f what comes.

    Ordered by the time at which lines were stored. It disturbs no collector: it acknowledges and removes nothing.
    """

    follow: Follow = False
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="The last so many lines; with -f 10 unless --since.")
    ] = None
    raw: Annotated[
        bool, typer.Option("--raw", help="Lines as they were, without host and file; in a pipe byte for byte.")
    ] = False
    timed: Annotated[bool, typer.Option("--time", "-t", help="The time of each line, before host and file.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(LineOptions):
    """Send stored lines again, at the speed at which they were stored or another one: to a subject, a file or stdout.

    Lines are as they were, byte for byte, unless --prefix or --json is given.
    """

    speed: Annotated[
        str, typer.Option(help="1x: as it was stored, 10x: ten times as fast, max: as fast as it goes.")
    ] = "1x"
    to_subject: Annotated[
        str, typer.Option(help="Send each line to this subject; {host} stands for its host.", show_default=False)
    ] = ""
    to_file: Annotated[Path | None, typer.Option(help="Write the lines to this file, which is replaced.")] = None
    named: Annotated[bool, typer.Option("--prefix", help="Host and file before each line.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Find lines of all hosts and days in the archive, without an index and without Spark.

    Lines are shown in the order of the times in them. Exit code: 0 lines found, 1 none, 3 something could not be
    read. Put `--` before a query that begins with `-`.
    """

    query: Annotated[
        str, typer.Argument(metavar="QUERY", help='Words, "a phrase", /regex/i, field:value, OR, NOT, ( ).')
    ]
    hosts: Hosts = None
    files: Files = None
    since: Since = ""
    until: Until = ""
    by: Annotated[
        TimeOf | None,
        typer.Option(help="Time for --since, --until, --histogram and the order. [default: event; stored with -f]"),
    ] = None
    late: Late = ""
    timezone: Timezone = "UTC"
    after_context: Annotated[
        int, typer.Option("-A", "--after-context", min=0, max=MAX_CONTEXT, help="Lines after each hit.")
    ] = 0
    before_context: Annotated[
        int, typer.Option("-B", "--before-context", min=0, max=MAX_CONTEXT, help="Lines before each hit.")
    ] = 0
    context: Annotated[int, typer.Option("-C", "--context", min=0, max=MAX_CONTEXT, help="Lines before and after.")] = 0
    records: Annotated[
        bool, typer.Option("--records", help="Find records: a line with a time, and the lines without one after it.")
    ] = False
    count: Annotated[
        str | None,
        typer.Option(metavar="all|host|file|level|FIELD", help="Count the lines, by the values of a field: status."),
    ] = None
    top: Annotated[
        int | None, typer.Option(min=1, help="Most frequent values of --count. [default: 100 of a field, else all]")
    ] = None
    histogram: Annotated[str, typer.Option(metavar="DURATION", help="Count the lines over time: 10m, 1h.")] = ""
    newest_first: Annotated[bool, typer.Option("--newest-first", help="Start with the newest lines.")] = False
    limit: Annotated[
        int | None, typer.Option(min=0, help="Maximum lines; 0: all. [default: 1000]", show_default=False)
    ] = None
    follow: Follow = False
    fixed: Annotated[bool, typer.Option("--fixed-strings", "-F", help="QUERY is text, not a query.")] = False
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Ignore case. [default: if QUERY has no capital letter]")
    ] = False
    case_sensitive: Annotated[bool, typer.Option("--case-sensitive", "-s", help="Do not ignore case.")] = False
    whole_words: Annotated[
        bool, typer.Option("--word-regexp", "-w", help="Words and phrases match whole words only.")
    ] = False
    as_json: AsJsonLines = False
    fields: Annotated[bool, typer.Option("--fields", help="With --json: the fields of each line.")] = False
    progress: Annotated[ProgressForm, typer.Option(help="Show progress.")] = ProgressForm.AUTO
    explain: Annotated[bool, typer.Option("--explain", help="Show what would be read, and how; read nothing.")] = False
    jobs: Annotated[int, typer.Option(min=0, help="Worker processes; 0: one per core.")] = 0
    color: Color = None
    archive: Archive = None
    state: State = None
    url: Url = None
    nats_context: Annotated[
        str | None,
        typer.Option(
            "--nats-context", help="Connect as a context of the `nats` command: its name, or `selected` (NATS_CONTEXT)."
        ),
        Key("nats.context"),
    ] = None
    subject: Subject = None
    config: ConfigFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseOptions:
    """Serve a page that searches the archive and follows what arrives, for browsers of this machine.

    Prints a link that works once; SIGHUP prints another one. Each search is a process of its own, with limits, and ends
    with its connection.
    """

    archive: Archive = None
    listen: Annotated[
        str | None, typer.Option(help="host:port of the pages (SHIPPER_LISTEN)."), Key("browse.listen")
    ] = None
    host: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", "--host", help="Another host name of the pages, as a proxy has it; may repeat."),
        Key("browse.allowed_hosts"),
    ] = None
    trust_user_header: Annotated[
        str | None,
        typer.Option(help="Header in which a proxy on this machine sends its user: X-Forwarded-User."),
        Key("browse.trust_user_header"),
    ] = None
    open_page: OpenPage = False
    config: ConfigFile = None
    log_format: LogFormat = None
    log_level: LogLevel = None
