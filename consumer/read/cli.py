"""`fshipper tail` and `fshipper replay`: their options.

What runs them is imported when they run: `--help` needs none of it, and it takes three times as long.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumer.archive.event_times import TimeOf
from consumer.read.options import Origin, ReplayOptions, TailOptions
from shipper.errors import UsageError
from shipper.interrupts import importing

if TYPE_CHECKING:
    from shipper.settings import Settings

Hosts = Annotated[
    list[str] | None, typer.Argument(metavar="HOST", help="Hosts, or patterns: 'web*'. None: all", show_default=False)
]
Files = Annotated[list[str] | None, typer.Option("--file", help="Only files of this path, or pattern: '*access*'")]
Since = Annotated[str, typer.Option(help="Then or later: 10m, 1w, yesterday, 09:30, 2026-11-20T10:00:00Z")]
Until = Annotated[str, typer.Option(help="Before then")]
By = Annotated[
    TimeOf | None,
    typer.Option(help="Time for --since, --until and the order [default: event with --from archive, else stored]"),
]
Late = Annotated[
    str, typer.Option(metavar="DURATION", help="By event: lines that were stored so long after their time [10m]")
]
Timezone = Annotated[str, typer.Option(help="Zone of times: Europe/Berlin, local, host (of each host)")]
Grep = Annotated[list[str] | None, typer.Option("--grep", "-g", help="Only lines that hold this regular expression")]
Invert = Annotated[bool, typer.Option("--invert-match", "-v", help="Only lines that hold none of --grep")]
IgnoreCase = Annotated[bool, typer.Option("--ignore-case", "-i", help="--grep in any case")]
Json = Annotated[bool, typer.Option("--json", help="For programs: an object a line")]
Colour = Annotated[
    bool | None, typer.Option("--color/--no-color", help="A colour for each host; by itself on terminals only")
]
Archive = Annotated[
    Path | None, typer.Option("--archive", "--directory", help="The archive, for what is older (SHIPPER_DIRECTORY)")
]
From = Annotated[Origin, typer.Option("--from", help="Read the streams, the archive, or both")]
State = Annotated[Path | None, typer.Option(help="Directory of the journals (SHIPPER_STATE)")]
Url = Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL)")]
Subject = Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT)")]
Config = Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")]

tail_app = typer.Typer(add_completion=False, rich_markup_mode=None)
replay_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@tail_app.command()
def tail(
    *,
    hosts: Hosts = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes")] = False,
    file: Files = None,
    since: Since = "",
    until: Until = "",
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", min=0, help="The last so many lines; with -f 10 unless --since")
    ] = None,
    grep: Grep = None,
    invert_match: Invert = False,
    ignore_case: IgnoreCase = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Lines as they were, without host and file; in a pipe byte for byte")
    ] = False,
    as_json: Json = False,
    timed: Annotated[bool, typer.Option("--time", "-t", help="The time of each line, before host and file")] = False,
    color: Colour = None,
    archive: Archive = None,
    origin: From = Origin.ALL,
    by: By = None,
    late: Late = "",
    timezone: Timezone = "UTC",
    state: State = None,
    url: Url = None,
    subject: Subject = None,
    config: Config = None,
) -> None:
    """Show the logs of all hosts as one: what the streams hold, further back the archive, and with -f what comes.

    Ordered by the time at which lines were stored. It disturbs no collector: it acknowledges and removes nothing.
    """
    if follow and (until or origin is Origin.ARCHIVE):
        raise UsageError("-f goes without --until and without --from archive", hint="what comes has no end yet")
    options = TailOptions(
        hosts=tuple(hosts or ()),
        files=tuple(file or ()),
        since=since,
        until=until,
        grep=tuple(grep or ()),
        invert_match=invert_match,
        ignore_case=ignore_case,
        archive=archive,
        origin=origin,
        by=by,
        late=late,
        timezone=timezone,
        follow=follow,
        lines=lines,
        raw=raw,
        as_json=as_json,
        timed=timed,
        color=color,
    )
    with importing():
        from consumer.read.tail import tail as run  # noqa: PLC0415

    if code := run(options, _settings(url, subject, archive, state, config)):
        raise typer.Exit(code)


@replay_app.command()
def replay(
    *,
    hosts: Hosts = None,
    file: Files = None,
    since: Since = "",
    until: Until = "",
    speed: Annotated[
        str, typer.Option(help="1x: as it was stored, 10x: ten times as fast, max: as fast as it goes")
    ] = "1x",
    to_subject: Annotated[
        str, typer.Option(help="Send each line to this subject; {host} stands for its host", show_default=False)
    ] = "",
    to_file: Annotated[Path | None, typer.Option(help="Write the lines to this file, which is replaced")] = None,
    grep: Grep = None,
    invert_match: Invert = False,
    ignore_case: IgnoreCase = False,
    named: Annotated[bool, typer.Option("--prefix", help="Host and file before each line")] = False,
    as_json: Json = False,
    color: Colour = None,
    archive: Archive = None,
    origin: From = Origin.ALL,
    by: By = None,
    late: Late = "",
    timezone: Timezone = "UTC",
    state: State = None,
    url: Url = None,
    subject: Subject = None,
    config: Config = None,
) -> None:
    """Send stored lines again, at the speed at which they were stored or another one: to a subject, a file or stdout.

    Lines are as they were, byte for byte, unless --prefix or --json is given.
    """
    options = ReplayOptions(
        hosts=tuple(hosts or ()),
        files=tuple(file or ()),
        since=since,
        until=until,
        grep=tuple(grep or ()),
        invert_match=invert_match,
        ignore_case=ignore_case,
        archive=archive,
        origin=origin,
        by=by,
        late=late,
        timezone=timezone,
        speed=speed,
        to_subject=to_subject,
        to_file=to_file,
        named=named,
        as_json=as_json,
        color=color,
    )
    with importing():
        from consumer.read.tail import replay as run  # noqa: PLC0415

    if code := run(options, _settings(url, subject, archive, state, config)):
        raise typer.Exit(code)


def _settings(
    url: str | None, subject: str | None, archive: Path | None, state: Path | None, config: Path | None
) -> "Settings":
    with importing():
        from shipper.config import load  # noqa: PLC0415

    flags = {"nats.url": url, "logs.subject": subject, "collector.directory": archive, "collector.state": state}
    return load(flags, config=config)
