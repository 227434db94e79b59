"""`fshipper tail` and `fshipper replay`: the fleet as one log, on a terminal, in a pipe, a file or a subject."""

import asyncio
import enum
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from consumer.logview.display import Form, Screen, shown_time
from consumer.logview.file_index import is_archive, is_empty
from consumer.logview.log_reader import FleetLog, Places, tell
from consumer.logview.outputs import STDOUT, Pace, Printed, Sent, tell_coming, tell_last, tell_stored
from consumer.logview.query import Sieve, Wanted, sieve, wanted_of
from shipper.config import load
from shipper.errors import EXIT_OTHER, StreamMissing, Unavailable, UsageError
from shipper.settings import Settings

LINES_BEFORE_FOLLOWING = 10
PATIENCE_SECONDS = 60.0
"""So long a server may be away before following, or a replay, gives up."""
_SUBJECT = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_SPEED = re.compile(r"(\d+(?:\.\d+)?)x?", re.IGNORECASE)


class Origin(enum.Enum):
    """Where stored lines are read."""

    ALL = "all"
    STREAMS = "streams"
    ARCHIVE = "archive"


Hosts = Annotated[
    list[str] | None,
    typer.Argument(metavar="HOST", help="Hosts, or patterns: 'web*'. None: all", show_default=False),
]
Files = Annotated[list[str] | None, typer.Option("--file", help="Only files of this path, or pattern: '*access*'")]
Since = Annotated[str, typer.Option(help="Stored then or later: 10m, 1h30m, 2026-11-20T10:00:00Z")]
Until = Annotated[str, typer.Option(help="Stored before then")]
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
    timed: Annotated[
        bool, typer.Option("--time", "-t", help="When each line was stored, before host and file")
    ] = False,
    color: Colour = None,
    archive: Archive = None,
    origin: From = Origin.ALL,
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
    settings = _settings(url, subject, archive, state, config)
    wanted = wanted_of(hosts, file, since=since, until=until, now_ns=time.time_ns())
    chosen = _sieve(grep, ignore_case=ignore_case, invert=invert_match)
    form = _form(raw=raw, as_json=as_json, timed=timed)
    is_brief = follow and lines is None and not since
    places = _places(settings, archive, Origin.STREAMS if is_brief else origin)
    last = LINES_BEFORE_FOLLOWING if is_brief else lines

    async def work() -> int:
        async with (
            FleetLog(places, wanted, patience=PATIENCE_SECONDS if follow else 0.0, name="tail") as log,
            Printed.on_stdout(form, _screen(color, form)) as printed,
        ):
            found = _say_what_is_missing(log, wanted, waits=follow)
            if last is not None:
                await tell_last(log, wanted, chosen, printed, lines=last)
            else:
                await tell_stored(log, wanted, chosen, printed, pace=Pace())
            if follow:
                await tell_coming(log, chosen, printed)
        return EXIT_OTHER if log.troubled or not found else 0

    _run(work)


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
    state: State = None,
    url: Url = None,
    subject: Subject = None,
    config: Config = None,
) -> None:
    """Send stored lines again, at the speed at which they were stored or another one: to a subject, a file or stdout.

    Lines are as they were, byte for byte, unless --prefix or --json is given.
    """
    settings = _settings(url, subject, archive, state, config)
    wanted = wanted_of(hosts, file, since=since, until=until, now_ns=time.time_ns())
    chosen, pace = _sieve(grep, ignore_case=ignore_case, invert=invert_match), _pace(speed)
    form = _form(raw=not (named or as_json), as_json=as_json, timed=False)
    if to_subject and (to_file or named or as_json):
        raise UsageError(
            "--to-subject sends lines as they were, and goes without the options of output",
            hint="leave out --to-file, --prefix and --json",
        )
    target = _checked_target(to_subject, settings)
    places = _places(settings, archive, origin)

    def receiver() -> Sent | Printed:
        if target:
            return Sent(settings.nats, target)
        to_stdout = to_file is None or str(to_file) == "-"
        return (
            Printed.on_stdout(form, _screen(color, form))
            if to_stdout or to_file is None
            else Printed.in_file(to_file, form)
        )

    async def work() -> int:
        async with FleetLog(places, wanted, patience=PATIENCE_SECONDS, name="replay") as log, receiver() as takes:
            found = _say_what_is_missing(log, wanted, waits=False)
            await tell_stored(log, wanted, chosen, takes, pace=pace)
        return EXIT_OTHER if log.troubled or not found else 0

    _run(work)


def _run(work: Callable[[], Awaitable[int]]) -> None:
    """End with what `work` returns. SIGTERM and SIGHUP end it as Ctrl-C does: nothing is left on the server."""

    async def within() -> int:
        task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel if task else lambda: None)
        return await work()

    try:
        code = asyncio.run(within())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if code:
        raise typer.Exit(code)


def _say_what_is_missing(log: FleetLog, wanted: Wanted, *, waits: bool) -> bool:
    """Whether there is any of the hosts. Raises StreamMissing, Unavailable: there is nothing to read at all."""
    if log.is_blank:
        if not waits and not log.has_archive:
            raise StreamMissing("the server has no stream of logs", hint="fshipper partition apply --partitions N")
        tell("the server has no stream of logs so far")
    if (archive := log.only_archive) and is_empty(archive):
        raise Unavailable(
            f"nothing is archived yet in {archive.absolute()}",
            hint="is it the collector's directory? --archive DIR names another; without --from the streams are read",
        )
    unknown = log.unknown(wanted.hosts)
    for each in unknown:
        nearest = ", ".join(log.nearest(each))
        tell(f"no host is called {each!r} so far" + (f"; there is {nearest}" if nearest else ""))
    if (begins := log.missing_before(wanted.since_ns)) and wanted.since_ns:
        tell(f"the streams begin at {shown_time(begins)}; what is older is in the archive (--archive DIR)")
    return waits or len(unknown) < len(wanted.hosts.patterns) or not wanted.hosts.patterns


def _settings(
    url: str | None, subject: str | None, archive: Path | None, state: Path | None, config: Path | None
) -> Settings:
    flags = {"nats.url": url, "logs.subject": subject, "collector.directory": archive, "collector.state": state}
    return load(flags, config=config)


def _places(settings: Settings, archive: Path | None, origin: Origin) -> Places:
    """Without --archive: the directory where a collector of this machine would write, if it exists."""
    directory = settings.collector.directory
    at_hand = archive is not None or origin is Origin.ARCHIVE or is_archive(directory)
    return Places(
        settings=settings,
        archive=directory if at_hand and origin is not Origin.STREAMS else None,
        streams=origin is not Origin.ARCHIVE,
    )


def _sieve(patterns: list[str] | None, *, ignore_case: bool, invert: bool) -> Sieve:
    if not patterns and (ignore_case or invert):
        raise UsageError("-i and -v go with --grep", hint="name what lines hold: --grep PATTERN")
    return sieve(patterns or [], flags=re.IGNORECASE if ignore_case else 0, matching=not invert)


def _form(*, raw: bool, as_json: bool, timed: bool) -> Form:
    if raw + as_json + timed > 1:
        raise UsageError("--raw, --json and --time are three ways to show a line", hint="choose one of them")
    if as_json:
        return Form.JSON
    return Form.RAW if raw else Form.TIMED if timed else Form.NAMED


def _screen(color: bool | None, form: Form) -> Screen:
    """In a pipe, too, lines with names are for people: `| head` and `| less -R` pass escape sequences to a terminal."""
    is_terminal = os.isatty(STDOUT)
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    if color or (color is None and is_terminal and not plain):
        return Screen.COLOURED
    return Screen.TERMINAL if is_terminal or form is not Form.RAW else Screen.PROGRAM


def _pace(speed: str) -> Pace:
    if speed.lower() == "max":
        return Pace()
    found = _SPEED.fullmatch(speed.strip())
    if not found or not float(found[1]):
        raise UsageError(f"--speed {speed!r} is no speed", hint="write 1x, 10x, 0.5x or max")
    return Pace(float(found[1]))


def _checked_target(subject: str, settings: Settings) -> str:
    """A subject that no program of ours listens to: collectors would archive the lines as new ones."""
    if not subject:
        return ""
    literal = subject.replace("{host}", "host")
    if not _SUBJECT.fullmatch(literal) or not literal.isascii() or "{" in literal:
        raise UsageError(f"--to-subject {subject!r} is no subject", hint="write for example replay.{host}")
    first = literal.partition(".")[0]
    if first in {settings.logs.subject, "ctl", "dlq"} or first.startswith(("$", "_")):
        raise UsageError(f"--to-subject {subject!r} is one that programs listen to", hint="write replay.{host}")
    return subject
