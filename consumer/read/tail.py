"""`fshipper tail` and `fshipper replay`: the fleet as one log, on a terminal, in a pipe, a file or a subject."""

import asyncio
import os
import re
import select
import signal
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from consumer.archive.event_times import TimeOf
from consumer.archive.parts import is_archive, is_empty
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Wanted, wanted_of, zone_of
from consumer.read.display import STDOUT, Form, Printer, Screen, Times, screen_for, shown_time
from consumer.read.follow import FleetLog, Places, tell
from consumer.read.options import LineOptions, Origin, ReplayOptions, TailOptions
from consumer.read.piece import Last, Piece
from consumer.read.query import Query, grep
from shipper.codec import encode_path
from shipper.commands import settings_of
from shipper.errors import EXIT_OTHER, ConfigError, StreamMissing, Unavailable, UsageError
from shipper.jetstream.publisher import Republisher
from shipper.layout import NANOSECONDS
from shipper.settings import NatsSettings, Settings

PIPE_BYTES = 4096
"""Bytes that a pipe with free space takes without waiting (PIPE_BUF)."""
FILE_BYTES = 1024 * 1024
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Outlet:
    """A descriptor to write to, which it does not own. Raises BrokenPipeError: the reader is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._most = FILE_BYTES if stat.S_ISREG(os.fstat(descriptor).st_mode) else PIPE_BYTES

    async def write(self, data: bytes) -> None:
        """Write all of `data`. Other tasks run while the pipe is full."""
        left = memoryview(data)
        while left:
            while not self.check() & select.POLLOUT:
                await self._writable()
            try:
                left = left[os.write(self._descriptor, left[: self._most]) :]
            except BlockingIOError:  # another process made it non-blocking, and was faster
                continue
            except BrokenPipeError:  # without its number: typer would end the program with 1 where it sees EPIPE
                raise BrokenPipeError from None

    def check(self) -> int:
        """Raise BrokenPipeError if the reader is gone, which else only the next line shows. POLLOUT: it takes more."""
        events = dict(self._poll.poll(0)).get(self._descriptor, 0)
        if events & _GONE:
            raise BrokenPipeError
        return events

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        writable = asyncio.Event()
        loop.add_writer(self._descriptor, writable.set)
        try:
            await writable.wait()
        finally:
            loop.remove_writer(self._descriptor)


class Printed(AbstractAsyncContextManager["Printed"]):
    """Standard output. With `path` a file, which is replaced. Raises ConfigError: it cannot be written."""

    def __init__(self, form: Form, screen: Screen, times: Times, path: Path | None = None) -> None:
        try:
            self._file = path.open("wb") if path else None
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}", hint="name another file") from None
        self._outlet = Outlet(self._file.fileno() if self._file else STDOUT)
        self._printer = Printer(form, screen, times)

    async def take(self, piece: Piece) -> None:
        """Write it. Raises BrokenPipeError: the reader is gone."""
        await self._outlet.write(self._printer.render(piece))

    def check(self) -> None:
        """Raise BrokenPipeError if the reader is gone."""
        self._outlet.check()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._outlet.write(self._printer.close())
        if self._file:
            self._file.close()


class Sent:
    """A subject, a message a line, without the newline. Headers name the origin of the line.

    `{host}` in the subject is the host of the line.
    """

    def __init__(self, republisher: Republisher, subject: str) -> None:
        self._republisher = republisher
        self._subject = subject

    @classmethod
    @asynccontextmanager
    async def to(cls, settings: NatsSettings, subject: str) -> AsyncIterator["Sent"]:
        """Send to `subject` inside the block. At its end everything is stored."""
        republisher = await Republisher.open(settings)
        try:
            yield cls(republisher, subject)
            await republisher.finish()
        finally:
            await republisher.close()

    async def take(self, piece: Piece) -> None:
        """Send its lines."""
        subject = self._subject.replace("{host}", piece.host)
        headers = {"Replay-Host": piece.host, "Replay-File": encode_path(piece.file)}
        for line in piece.lines():
            stored = {"Replay-Time": shown_time(line.stored_ns[0] if line.stored_ns else line.time_ns)}
            await self._republisher.send(subject, headers | stored, line.text.removesuffix(b"\n"))

    def check(self) -> None:
        """A subject has no reader that may go away."""


Receiver = Printed | Sent
FIRST_WINDOW_SECONDS = 10
WIDER = 8
WIDEST_SECONDS = 14 * 86400


async def send_stored(log: FleetLog, wanted: Wanted, query: Query, receiver: Receiver, *, pace: float = 0.0) -> None:
    """Everything that is stored and meant, oldest first.

    `pace`: how much faster it is written than it was stored. 0 means as fast as it goes.
    """
    first_ns, begun = None, time.monotonic()
    async for piece in _sifted(log.stored(wanted.since_ns, wanted.until_ns), query):
        if first_ns is None:
            first_ns, begun = piece.time_ns, time.monotonic()
        due = begun + (piece.time_ns - first_ns) / NANOSECONDS / pace if pace else 0.0
        while (left := due - time.monotonic()) > 0:
            receiver.check()  # the reader may be gone
            await asyncio.sleep(min(left, 1.0))
        await receiver.take(piece)


async def send_last(log: FleetLog, wanted: Wanted, query: Query, receiver: Receiver, *, lines: int) -> None:
    """The last lines that are stored and meant: goes back in growing steps until it has so many."""
    for since_ns in _windows(wanted):
        last = Last(lines)
        async for piece in _sifted(log.stored(since_ns, wanted.until_ns), query):
            last.add(piece)
        if last.full or since_ns == wanted.since_ns:
            for piece in last.pieces():
                await receiver.take(piece)
            return


async def _sifted(pieces: AsyncGenerator[Piece], query: Query) -> AsyncGenerator[Piece]:
    async for piece in pieces:
        for each in query.take(piece):
            yield each


def _windows(wanted: Wanted) -> Iterator[int]:
    """Times (ns) to read from, latest first. The last one is the requested time."""
    now_ns = wanted.until_ns or time.time_ns()
    seconds = FIRST_WINDOW_SECONDS
    while seconds < WIDEST_SECONDS and (since_ns := now_ns - seconds * NANOSECONDS) > wanted.since_ns:
        yield since_ns
        seconds *= WIDER
    yield wanted.since_ns


LINES_BEFORE_FOLLOWING = 10
PATIENCE_SECONDS = 60.0
"""So long a server may be away before following, or a replay, gives up."""
_SUBJECT = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_SPEED = re.compile(r"(\d+(?:\.\d+)?)x?", re.IGNORECASE)


def tail(options: TailOptions) -> int:
    """Show stored lines, and with `follow` those that come, and return the exit code."""
    if options.follow and (options.until or options.origin is Origin.ARCHIVE):
        raise UsageError("-f goes without --until and without --from archive", hint="what comes has no end yet")
    settings, (wanted, times, query) = settings_of(options), _chosen(options)
    follow = options.follow
    form = _form(raw=options.raw, as_json=options.as_json, timed=options.timed)
    is_brief = follow and options.lines is None and not options.since
    places = _places(settings, options.archive, Origin.STREAMS if is_brief else options.origin)
    last = LINES_BEFORE_FOLLOWING if is_brief else options.lines

    async def work() -> int:
        async with (
            FleetLog(places, wanted, patience=PATIENCE_SECONDS if follow else 0.0, name="tail") as log,
            Printed(form, _screen(options.color, form), times) as printed,
        ):
            found = _report_missing(log, wanted, waits=follow)
            if last is not None:
                await send_last(log, wanted, query, printed, lines=last)
            else:
                await send_stored(log, wanted, query, printed)
            if follow:  # until it is cancelled
                async for piece in _sifted(log.follow(printed.check), query):
                    await printed.take(piece)
        return EXIT_OTHER if log.troubled or not found else 0

    return _run(work)


def replay(options: ReplayOptions) -> int:
    """Send stored lines again, and return the exit code."""
    settings, (wanted, times, query) = settings_of(options), _chosen(options)
    to_file, pace = options.to_file, _pace(options.speed)
    is_raw = not (options.named or options.as_json)
    form = _form(raw=is_raw, as_json=options.as_json, timed=False)
    if options.to_subject and (to_file or not is_raw):
        raise UsageError(
            "--to-subject sends lines as they were, and goes without the options of output",
            hint="leave out --to-file, --prefix and --json",
        )
    target = _checked_target(options.to_subject, settings)
    places = _places(settings, options.archive, options.origin)

    def receiver() -> AbstractAsyncContextManager[Receiver]:
        if target:
            return Sent.to(settings.nats, target)
        if to_file is None or str(to_file) == "-":
            return Printed(form, _screen(options.color, form), times)
        return Printed(form, Screen.PROGRAM, times, to_file)

    async def work() -> int:
        async with FleetLog(places, wanted, patience=PATIENCE_SECONDS, name="replay") as log, receiver() as takes:
            found = _report_missing(log, wanted, waits=False)
            await send_stored(log, wanted, query, takes, pace=pace)
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


def _report_missing(log: FleetLog, wanted: Wanted, *, waits: bool) -> bool:
    """Whether there is any of the hosts. Raises StreamMissing, Unavailable: there is nothing to read at all."""
    archive = log.places.archive
    if log.is_blank:
        if not waits and archive is None:
            raise StreamMissing("the server has no stream of logs", hint="fshipper partition apply --partitions N")
        tell("the server has no stream of logs so far")
    if archive and not log.places.streams and is_empty(archive.directory):
        raise Unavailable(
            f"nothing is archived yet in {archive.directory.absolute()}",
            hint="is it the collector's directory? --archive DIR names another; without --from the streams are read",
        )
    unknown = log.unknown(wanted.hosts)
    for each, nearest in unknown.items():
        tell(f"no host is called {each!r} so far" + (f"; there is {', '.join(nearest)}" if nearest else ""))
    if (begins := log.missing_before(wanted.since_ns)) and wanted.since_ns:
        tell(f"the streams begin at {shown_time(begins)}; what is older is in the archive (--archive DIR)")
    return waits or len(unknown) < len(set(wanted.hosts.patterns)) or not wanted.hosts.patterns


def _places(settings: Settings, archive: Path | None, origin: Origin) -> Places:
    """Without --archive: the directory where a collector of this machine would write, if it exists."""
    directory = settings.collector.directory
    is_at_hand = archive is not None or origin is Origin.ARCHIVE or is_archive(directory)
    reads_archive = is_at_hand and origin is not Origin.STREAMS
    return Places(
        settings=settings,
        archive=ArchiveReader(directory, settings.collector.state) if reads_archive else None,
        streams=origin is not Origin.ARCHIVE,
    )


def _chosen(options: LineOptions) -> tuple[Wanted, Times, Query]:
    """Which lines are meant, and which of their times. Raises UsageError: an option is not valid."""
    is_archive_only = options.origin is Origin.ARCHIVE
    by = options.by or (TimeOf.EVENT if is_archive_only else TimeOf.STORED)
    if by is TimeOf.EVENT and not is_archive_only:
        raise UsageError(
            "--by event goes with --from archive: lines in streams are ordered by the time of storing",
            hint="add --from archive, or leave out --by",
        )
    zone = zone_of(options.timezone)
    wanted = wanted_of(
        options.hosts, options.files, since=options.since, until=options.until, by=by, late=options.late, zone=zone
    )
    if not options.grep and (options.ignore_case or options.invert_match):
        raise UsageError("-i and -v go with --grep", hint="name what lines hold: --grep PATTERN")
    query = grep(options.grep or (), ignores_case=options.ignore_case, inverted=options.invert_match)
    return wanted, Times(by, zone), query


def _form(*, raw: bool, as_json: bool, timed: bool) -> Form:
    if raw + as_json + timed > 1:
        raise UsageError("--raw, --json and --time are three ways to show a line", hint="choose one of them")
    if as_json:
        return Form.JSON
    return Form.RAW if raw else Form.TIMED if timed else Form.NAMED


def _screen(color: bool | None, form: Form) -> Screen:
    """In a pipe, too, lines with names are for people: `| head` and `| less -R` pass escape sequences to a terminal."""
    screen = screen_for(color)
    is_pipe = screen is Screen.TERMINAL and not os.isatty(STDOUT)
    return Screen.PROGRAM if is_pipe and form is Form.RAW else screen


def _pace(speed: str) -> float:
    if speed.lower() == "max":
        return 0.0
    found = _SPEED.fullmatch(speed.strip())
    if not found or not float(found[1]):
        raise UsageError(f"--speed {speed!r} is no speed", hint="write 1x, 10x, 0.5x or max")
    return float(found[1])


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
