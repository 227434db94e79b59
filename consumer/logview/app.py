"""`fshipper tail` and `fshipper replay`: the fleet as one log, on a terminal, in a pipe, a file or a subject."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from consumer.logview.display import Form, Screen, shown_time
from consumer.logview.file_index import is_archive, is_empty
from consumer.logview.log_reader import FleetLog, Places, tell
from consumer.logview.options import LineChoice, Origin, ReplayOptions, TailOptions
from consumer.logview.outputs import STDOUT, Pace, Printed, Sent, tell_coming, tell_last, tell_stored
from consumer.logview.query import Sieve, Wanted, sieve, wanted_of
from shipper.errors import EXIT_OTHER, StreamMissing, Unavailable, UsageError
from shipper.settings import Settings

LINES_BEFORE_FOLLOWING = 10
PATIENCE_SECONDS = 60.0
"""So long a server may be away before following, or a replay, gives up."""
_SUBJECT = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_SPEED = re.compile(r"(\d+(?:\.\d+)?)x?", re.IGNORECASE)


def tail(options: TailOptions, settings: Settings) -> int:
    """Show stored lines, and with `follow` those that come; the exit code."""
    choice, follow = options.choice, options.follow
    wanted, chosen = _wanted(choice), _sieve(choice)
    form = _form(raw=options.raw, as_json=options.as_json, timed=options.timed)
    is_brief = follow and options.lines is None and not choice.since
    places = _places(settings, choice.archive, Origin.STREAMS if is_brief else choice.origin)
    last = LINES_BEFORE_FOLLOWING if is_brief else options.lines

    async def work() -> int:
        async with (
            FleetLog(places, wanted, patience=PATIENCE_SECONDS if follow else 0.0, name="tail") as log,
            Printed.on_stdout(form, _screen(options.color, form)) as printed,
        ):
            found = _say_what_is_missing(log, wanted, waits=follow)
            if last is not None:
                await tell_last(log, wanted, chosen, printed, lines=last)
            else:
                await tell_stored(log, wanted, chosen, printed, pace=Pace())
            if follow:
                await tell_coming(log, chosen, printed)
        return EXIT_OTHER if log.troubled or not found else 0

    return _run(work)


def replay(options: ReplayOptions, settings: Settings) -> int:
    """Send stored lines again; the exit code."""
    choice, to_file = options.choice, options.to_file
    wanted, chosen, pace = _wanted(choice), _sieve(choice), _pace(options.speed)
    is_raw = not (options.named or options.as_json)
    form = _form(raw=is_raw, as_json=options.as_json, timed=False)
    if options.to_subject and (to_file or not is_raw):
        raise UsageError(
            "--to-subject sends lines as they were, and goes without the options of output",
            hint="leave out --to-file, --prefix and --json",
        )
    target = _checked_target(options.to_subject, settings)
    places = _places(settings, choice.archive, choice.origin)

    def receiver() -> Sent | Printed:
        if target:
            return Sent(settings.nats, target)
        to_stdout = to_file is None or str(to_file) == "-"
        return (
            Printed.on_stdout(form, _screen(options.color, form))
            if to_stdout or to_file is None
            else Printed.in_file(to_file, form)
        )

    async def work() -> int:
        async with FleetLog(places, wanted, patience=PATIENCE_SECONDS, name="replay") as log, receiver() as takes:
            found = _say_what_is_missing(log, wanted, waits=False)
            await tell_stored(log, wanted, chosen, takes, pace=pace)
        return EXIT_OTHER if log.troubled or not found else 0

    return _run(work)


def _run(work: Callable[[], Awaitable[int]]) -> int:
    """What `work` returns. SIGTERM and SIGHUP end it as Ctrl-C does: nothing is left on the server."""

    async def within() -> int:
        task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_IGN:  # SIGHUP after nohup
                continue
            asyncio.get_running_loop().add_signal_handler(number, task.cancel if task else lambda: None)
        return await work()

    try:
        return asyncio.run(within())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


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


def _places(settings: Settings, archive: Path | None, origin: Origin) -> Places:
    """Without --archive: the directory where a collector of this machine would write, if it exists."""
    directory = settings.collector.directory
    at_hand = archive is not None or origin is Origin.ARCHIVE or is_archive(directory)
    return Places(
        settings=settings,
        archive=directory if at_hand and origin is not Origin.STREAMS else None,
        streams=origin is not Origin.ARCHIVE,
    )


def _wanted(choice: LineChoice) -> Wanted:
    return wanted_of(choice.hosts, choice.files, since=choice.since, until=choice.until, now_ns=time.time_ns())


def _sieve(choice: LineChoice) -> Sieve:
    if not choice.grep and (choice.ignore_case or choice.invert_match):
        raise UsageError("-i and -v go with --grep", hint="name what lines hold: --grep PATTERN")
    return sieve(choice.grep, flags=re.IGNORECASE if choice.ignore_case else 0, matching=not choice.invert_match)


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
