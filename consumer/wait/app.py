"""`fshipper wait`: queries the producers repeatedly until collectors have confirmed everything, and shows it."""

import asyncio
import contextlib
import datetime as dt
import json
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from rich.console import Console
from rich.text import Text

from consumer.fleet.host_files import HostAnswer, ask_hosts
from consumer.fleet.poller import FleetPoller
from consumer.fleet.snapshot import LEAST_SECONDS, Fleet
from consumer.wait.options import WaitOptions
from consumer.wait.progress import HostProgress, Known, Missing, clock_notes, missing_of, sentence
from shipper.commands import settings_of
from shipper.control import FilesRequest
from shipper.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_OTHER, InsecureConnection, Transient, Unavailable, UsageError
from shipper.interrupts import interrupt_on_termination
from shipper.moments import moment
from shipper.nearest import did_you_mean
from shipper.table_printer import BAD, CHANGED, GOOD, SAME, print_signed, standard_output
from shipper.units import counted, format_bytes, printable, seconds_of

VERSION = 1
"""Of the JSON; a field is added under the same number, and changed or removed under another."""
INTERVAL_SECONDS = 1.0
"""Seconds between two rounds of requests."""
FIRST_INTERVAL_SECONDS = 0.2
"""The same after the first round: the hosts scan their files because of it."""
POLL_SECONDS = 2 * LEAST_SECONDS
"""Minimum seconds between two snapshots of the fleet: those that are closer do not show whether a collector reads."""
ROUND_SECONDS = 10.0
"""Minimum time for a round, in seconds, also after the timeout: a silent host takes 4 s."""
NAMED_HOSTS = 3
MAX_FILES = 20
"""Files of one host that are shown to people."""


def run(options: WaitOptions) -> int:
    """The exit code. Raises UsageError: an option is wrong. Unavailable: no such host, or no server within the time."""
    settings = settings_of(options)
    now_ns, timeout = time.time_ns(), seconds_of(options.timeout, "--timeout")
    until = moment(options.until, now_ns) / 1e9
    if any(not pattern.strip() for pattern in options.host or ()):
        raise UsageError("--host is empty", hint="name a host or a pattern: --host 'web*'")
    interrupt_on_termination()
    poller = FleetPoller(settings.nats, settings.logs.subject, name="wait")
    patterns = [pattern.strip().lower().rstrip(".") for pattern in options.host or ()]
    waiting = Waiting(poller, patterns, until=until, timeout=timeout)
    code = EXIT_OTHER
    try:
        with _shown(waiting):
            asyncio.run(waiting.run())
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    waiting.check_known()
    if options.as_json:
        sys.stdout.write(json.dumps(_json(waiting), indent=1) + "\n")
    else:
        _print(waiting)
    return EXIT_OK if waiting.is_complete else code


class Waiting:
    """The hosts on the way to a time. Owned by one event loop."""

    def __init__(self, poller: FleetPoller, patterns: list[str], *, until: float, timeout: float) -> None:
        self._poller = poller
        self._patterns = patterns
        self.until = until  #: seconds since 1970, by this machine's clock
        self.until_at = time.monotonic() + until - time.time()  #: the same, monotonic
        self._timeout = timeout
        self.began = time.monotonic()
        self.hosts: dict[str, HostProgress] = {}
        self.known: Known | None = None  #: by the last snapshot
        self._polled_at = 0.0  # when that was made, monotonic
        self.trouble: Transient | Unavailable | None = None  #: why the last round found nothing

    @property
    def is_complete(self) -> bool:
        """Whether the archive has everything of all hosts."""
        return bool(self.hosts) and all(host.is_complete for host in self.hosts.values())

    @property
    def incomplete(self) -> list[HostProgress]:
        """The hosts of which something is missing, by name."""
        return [host for _, host in sorted(self.hosts.items()) if not host.is_complete]

    def missing(self, most: int | None = None) -> list[Missing]:
        """What is missing, by host; `most`: of so many hosts."""
        known, now = self.known or Known({}, {}), time.time()
        return [missing_of(host, known, self.until_at, now) for host in self.incomplete[:most]]

    @property
    def unknown(self) -> list[str]:
        """The names and patterns of hosts of which nothing is known."""
        answered = {name for name, host in self.hosts.items() if host.answer is not None and host.answer.reply}
        names = answered.union(self.known.hosts if self.known else ())
        return [pattern for pattern in self._patterns if not any(fnmatchcase(name, pattern) for name in names)]

    async def run(self) -> None:
        """Query until everything is there, or the timeout is over."""
        end = self.began + self._timeout if self._timeout else float("inf")
        interval = FIRST_INTERVAL_SECONDS
        try:
            while not self.is_complete:
                left = end - time.monotonic()
                if (pause := self.until_at - time.monotonic()) > 0:
                    await asyncio.sleep(min(pause, max(0.0, left)))
                else:
                    await self._round(left)
                    if self.known is not None and (self.unknown or not self.hosts):
                        return
                if time.monotonic() >= end:
                    return
                if not self.is_complete:
                    await asyncio.sleep(max(0.0, min(interval, end - time.monotonic())))
                    interval = min(INTERVAL_SECONDS, 2 * interval)
        finally:
            await self._poller.close()

    async def _round(self, left: float) -> None:
        """One request to each host that is not complete."""
        try:
            async with asyncio.timeout(None if left == float("inf") else max(ROUND_SECONDS, left)):
                answers = await self._answers()
        except InsecureConnection:
            raise  # a later attempt cannot make the connection more secure
        except TimeoutError:
            if self.known is None:
                self.trouble = Unavailable("the server did not answer in time", hint="check NATS_URL (--url)")
            await self._poller.close()
            return
        except (Transient, Unavailable) as error:
            self.trouble = error
            return
        self.trouble = None
        for name, answer in answers.items():
            self.hosts[name] = self.hosts[name].advanced(answer, self.until_at)

    async def _answers(self) -> dict[str, HostAnswer]:
        """What the hosts reply that are not complete. Those that have targets need no scan."""
        if self.known is None or time.monotonic() - self._polled_at >= POLL_SECONDS:
            fleet, self._polled_at = await self._poller.poll(), time.monotonic()
            partitions = {each.status.partition: each for each in fleet.partitions}
            self.known = Known({host.name: host for host in fleet.hosts}, partitions)
            for name in self._chosen(fleet):
                self.hosts.setdefault(name, HostProgress(name))
        connection, answers = await self._poller.connection(), dict[str, HostAnswer]()
        for scan in (True, False):
            names = [host.name for host in self.incomplete if (host.targets is None or not host.left) is scan]
            answers |= await ask_hosts(connection, names, FilesRequest(scan=scan))
        return answers

    def _chosen(self, fleet: Fleet) -> Iterator[str]:
        """The hosts that match, and those that are named: a producer without heartbeats answers, too."""
        known = [host.name for host in fleet.hosts]
        yield from (name for name in known if not self._patterns or any(fnmatchcase(name, p) for p in self._patterns))
        yield from (pattern for pattern in self._patterns if not set("*?[") & set(pattern))

    def check_known(self) -> None:
        """Raises Unavailable: nothing is known of a host, or of any."""
        if self.known is None:
            if self.trouble is not None:
                raise self.trouble
            return  # it ended before the time
        if self.unknown or not self.hosts:
            what = " and ".join(map(repr, self.unknown)) if self.unknown else "any host"
            meant = did_you_mean(self.unknown[0], self.known.hosts) if self.unknown else ""
            raise Unavailable(
                f"nothing is known of {what}",
                hint=f"{meant}fshipper status lists the hosts; a host is known by its heartbeats",
            )


@contextlib.contextmanager
def _shown(waiting: Waiting) -> Iterator[None]:
    """A line on stderr, if that is a terminal: what is waited for."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return

    class ProgressLine:
        """The line, computed whenever it is drawn."""

        def __rich__(self) -> Text:
            return Text(printable(_progress(waiting)))

    with console.status(ProgressLine()):
        yield


def _progress(waiting: Waiting) -> str:
    if waiting.trouble:
        return f"waiting for the server: {waiting.trouble}"
    if (pause := waiting.until_at - time.monotonic()) > 0:
        return f"waiting until {_time(waiting.until)}, {pause:.0f} s"
    left = len(waiting.incomplete)
    named = "; ".join(map(sentence, waiting.missing(NAMED_HOSTS)))
    more = f"; and {left - NAMED_HOSTS} more" if left > NAMED_HOSTS else ""
    return f"waiting for {left} of {counted(len(waiting.hosts), 'host')}: {named}{more}"


def _print(waiting: Waiting) -> None:
    console, missing = standard_output(), waiting.missing()
    for each in missing:
        since = f", since {_time(each.since)}" if each.since else ""
        print_signed(console, BAD, f"{sentence(each)}{since}", hint=each.next_step)
        for file in each.files[:MAX_FILES]:
            parts = [f"{format_bytes(file.unsent)} not sent"] if file.unsent else []
            parts += [f"{format_bytes(file.unarchived)} in the stream"] if file.unarchived else []
            print_signed(console, SAME, f"  {file.file}: {', '.join(parts)}")
        if len(each.files) > MAX_FILES:
            print_signed(console, SAME, f"  and {len(each.files) - MAX_FILES} more files; --json lists them")
    for note in clock_notes(iter(waiting.hosts.values())):
        print_signed(console, CHANGED, note)
    if waiting.trouble:
        print_signed(console, BAD, f"the server does not answer: {waiting.trouble}", hint=waiting.trouble.hint)
    hosts, when = counted(len(waiting.hosts), "host"), _time(waiting.until)
    if not waiting.hosts:
        print_signed(console, BAD, f"no host was requested: {when} is not over")
    elif waiting.is_complete:
        print_signed(console, GOOD, f"everything that {hosts} wrote up to {when} is in the archive")
    else:
        print_signed(console, BAD, f"not everything up to {when} is in the archive: {len(missing)} of {hosts} missing")


def _json(waiting: Waiting) -> dict[str, Any]:
    lacking = {each.host: each for each in waiting.missing()}
    return {
        "v": VERSION,
        "until": _time(waiting.until),
        "complete": waiting.is_complete,
        "seconds": round(time.monotonic() - waiting.began, 3),
        "hosts": [_host_json(host, lacking.get(name)) for name, host in sorted(waiting.hosts.items())],
        "notes": clock_notes(iter(waiting.hosts.values())),
        "trouble": str(waiting.trouble or ""),
    }


def _host_json(host: HostProgress, missing: Missing | None) -> dict[str, Any]:
    reply = host.answer.reply if host.answer is not None else None
    shown: dict[str, Any] = {
        "host": host.name,
        "complete": host.is_complete,
        "answers": reply is not None,
        "partition": reply.partition if reply else None,
        "clock_error_seconds": round(host.answer.clock_error, 3) if reply and host.answer else None,
    }
    if missing is None:
        return shown
    return shown | {
        "missing": missing.kind.value,
        "why": missing.why,
        "since": _time(missing.since) if missing.since else None,
        "next": missing.next_step,
        "unreadable": list(reply.named) if reply else [],
        "files": [
            {
                "file": each.file,
                "unsent_bytes": each.unsent,
                "unarchived_bytes": each.unarchived,
                "unterminated": each.is_unterminated,
                "since": _time(each.since) if each.since else None,
            }
            for each in missing.files
        ],
    }


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, tz=dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
