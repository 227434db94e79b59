"""One search: the request of a page as the arguments of a command, and the process that runs it with limits.

No argument is a path of this machine: hosts and files are patterns for names in the archive. The process has a group of
its own, and ends when its client is gone.
"""

import collections
import contextlib
import datetime as dt
import glob
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from consumer.archive.selection import globs_of_hosts, zone_of
from consumer.read.display import shown_time
from consumer.read.query import parse
from consumer.read.severity import SEVERITY_WORDS
from shipper.errors import UsageError
from shipper.layout import NANOSECONDS
from shipper.moments import moment

MOST_LINES = 5_000
FOLLOW_SINCE = "1m"
"""A live view begins with the lines of this time before now."""
MOST_VALUES = 50
"""Values of a field that are counted for the page."""
CONTEXT_SECONDS = 120
"""Before and after the stored time of a line whose neighbours are requested, where that time is an estimate."""

Text = Annotated[str, Field(max_length=1024)]
Pattern = Annotated[str, Field(min_length=1, max_length=1024)]


class _SearchRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Around(_SearchRequest):
    """A line whose neighbours are requested. Its host and file are the request's."""

    time: Annotated[str, Field(max_length=40)]
    offset: Annotated[int, Field(ge=0)]
    lines: Annotated[int, Field(ge=1, le=200)] = 20
    until: Annotated[str, Field(max_length=40)] = ""  #: where the stored time is an estimate: its last moment


class SearchRequest(_SearchRequest):
    """One search of a page."""

    query: Text = ""
    hosts: Annotated[tuple[Pattern, ...], Field(max_length=16)] = ()
    files: Annotated[tuple[Pattern, ...], Field(max_length=16)] = ()
    severities: tuple[Literal["error", "warning", "info", "debug"], ...] = ()
    since: Annotated[str, Field(max_length=40)] = ""
    until: Annotated[str, Field(max_length=40)] = ""
    order: Literal["newest", "oldest"] = "newest"
    by: Literal["event", "stored"] = "event"
    timezone: Annotated[str, Field(max_length=64)] = "UTC"  #: of times without a zone in the request
    follow: bool = False
    case_sensitive: bool = False  #: also for a query without a capital letter
    around: Around | None = None
    records: bool = False  #: lines with a time, each with the lines without one after it
    buckets: Annotated[int, Field(ge=0, le=366 * 86400)] = 0  #: seconds; count all lines over time, and send none
    count: Annotated[str, Field(max_length=256)] = ""  #: name of a field; count all lines by its values, and send none
    only_hosts: bool = False  #: send the hosts that have text of that time, and read none
    limit: Annotated[int, Field(ge=1, le=MOST_LINES)] = 1_000
    longer: bool = False  #: with the higher limits of time and bytes


class SearchCommand(NamedTuple):
    """A checked request."""

    request: SearchRequest
    arguments: tuple[str, ...]  #: of `fshipper`
    details: tuple[str, ...]  #: more of them, for the page alone
    since: str  #: RFC 3339; empty: from the beginning
    until: str


def read_request(text: str) -> SearchRequest:
    """The request in the JSON that a page sent. Raises UsageError: it is none."""
    try:
        return SearchRequest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        raise UsageError(f"{where}: {first['msg']}", hint="reload the page") from None


def command(request: SearchRequest) -> SearchCommand:
    """The command for `request`. Raises UsageError with the correction as its hint."""
    now_ns = time.time_ns()
    zone = zone_of(request.timezone) or dt.UTC
    since_ns = max(0, moment(request.since, now_ns, zone)) if request.since else 0
    until_ns = moment(request.until, now_ns, zone, after_ns=since_ns) if request.until else None
    if request.around:
        at_ns = moment(request.around.time, now_ns)
        last_ns = moment(request.around.until, now_ns) if request.around.until else at_ns
        beyond_ns = (CONTEXT_SECONDS if request.around.until else 1) * NANOSECONDS
        since_ns, until_ns = max(0, at_ns - beyond_ns), last_ns + beyond_ns
    if until_ns is not None and until_ns <= since_ns:
        raise UsageError("the end of the time range is not after its beginning", hint="choose a later end")
    hosts = globs_of_hosts(request.hosts).patterns
    files = request.files
    if request.around:
        files = tuple(glob.escape(each) for each in files)
    for each in (*hosts, *files, request.count):
        if not each.isprintable():
            raise UsageError(f"{each!a} has control characters", hint="write the name as it is in the list")
    since, until = shown_time(since_ns) if since_ns else "", shown_time(until_ns) if until_ns else ""
    options = [f"--file={each}" for each in files]
    options += ["--case-sensitive"] if request.case_sensitive and not request.around else []
    if request.follow:
        options += ["--follow", f"--since={FOLLOW_SINCE}"]
    else:
        options += [f"--since={since}"] if since else []
        options += [f"--until={until}"] if until else []
    if not (request.follow or request.around):
        options += ["--by=stored"] if request.by == "stored" else []
        options += ["--records"] if request.records else []
    wanted, details = _wanted(request)
    query = "" if request.around else _query(request)
    return SearchCommand(request, ("search", *options, *wanted, "--", query, *hosts), tuple(details), since, until)


def _wanted(request: SearchRequest) -> tuple[list[str], list[str]]:
    """The options for what is sent: those of the command that the page shows, and those for the page alone."""
    if request.only_hosts:
        return [], ["--explain"]
    if request.count:
        return [f"--count=field:{request.count}"], [f"--top={MOST_VALUES}"]
    if request.buckets:
        return [f"--histogram={request.buckets}s"], ["--count=level"]
    if request.around:
        context = [] if request.around.until else [f"--context={request.around.lines}"]
        return ["--by=stored", "--limit=0", *context], []  # in the order of the file
    newest = ["--newest-first"] if request.order == "newest" and not request.follow else []
    return [*newest, f"--limit={request.limit}"], ["--fields"]


def _query(request: SearchRequest) -> str:
    """The query and the severities as one query. Raises UsageError with the position of an error."""
    query = request.query.strip()
    if _CONTROL.search(query):
        raise UsageError(f"query: {query!a} has control characters", hint="search for the text around them")
    parse(query)
    if not request.severities:
        return query
    words = "|".join(SEVERITY_WORDS[each] for each in request.severities)
    severity = rf"/\b(?:{words})\b/i"
    return f"({query}) {severity}" if query else severity


_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""All but the tab: an argument of a process holds no NUL, and a line no newline."""


NICE = 10
MEMORY_BYTES = 4 * 1024**3
"""Address space of each process of a search, in bytes."""
WAITING_LINES = 2_000
"""Lines that wait for a slow client. A search pauses when there are more; of a live tail further lines are dropped."""
WAITING_BYTES = 8 * 1024 * 1024
LONGEST_ERROR = 4_096
GRACE_SECONDS = 2.0
"""From SIGTERM to SIGKILL."""
LONGEST_LINE = 4 * 1024 * 1024
"""Bytes of one line of a process's output; the rest of a longer one is dropped."""


class ProcessLimits(NamedTuple):
    """What one search may use."""

    seconds: float | None  #: of wall time; None: it runs until the client leaves
    cpu_seconds: int
    read_bytes: int | None  #: of the archive, on disk; None: no limit
    output_bytes: int | None  #: of JSON that the client is sent; None: no limit


class SearchProcess:
    """A running `fshipper` command whose standard output is JSON lines. `is_live`: never wait for the reader."""

    def __init__(self, arguments: Sequence[str], limits: ProcessLimits, *, is_live: bool) -> None:
        self.dropped = 0  #: lines of a live tail that the client did not read in time
        self._is_live = is_live
        self._changed = threading.Condition()
        self._lines: collections.deque[bytes] = collections.deque()
        self._bytes = 0
        self._ended = self._closed = False
        self._ending = threading.Lock()
        self._error = b""
        self._process = subprocess.Popen(
            [str(Path(sys.executable).with_name("fshipper")), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            close_fds=True,
        )
        self.pid = self._process.pid  #: of its group, too
        self._limit(limits)
        self._threads = [
            threading.Thread(target=target, args=(stream,), daemon=True)
            for target, stream in ((self._read, self._process.stdout), (self._keep_error, self._process.stderr))
        ]
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            self._end_group()
            raise

    def next_line(self, timeout: float) -> bytes | None:
        """The next line.

        Empty means that the process has ended. None means that there was none in `timeout` seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ended, timeout)
            if not self._lines:
                return b"" if self._ended else None
            line = self._lines.popleft()
            self._bytes -= len(line)
            self._changed.notify_all()
            return line

    def end(self) -> int:
        """Its exit code, after the output was read. What still runs of its group is ended."""
        with self._changed:
            self._closed = True
            self._lines.clear()
            self._changed.notify_all()
        with self._ending:
            if self._process.returncode is None:
                self._end_group()
        for thread in self._threads:
            thread.join(GRACE_SECONDS)
        return self._process.returncode

    def _end_group(self) -> None:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        ends = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, self.pid, ends) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self._signal(signal.SIGKILL)  # before its id is free again; children that outlive it, too
        self._process.wait()

    @property
    def complaint(self) -> str:
        """What it wrote to standard error, at most the last 4 KiB."""
        return self._error.decode("utf-8", "replace")

    def _limit(self, limits: ProcessLimits) -> None:
        """From outside: code between fork and exec must not run in a program with threads."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.pid, NICE)
            for name, value in (
                (resource.RLIMIT_CPU, limits.cpu_seconds),
                (resource.RLIMIT_AS, MEMORY_BYTES),
                (resource.RLIMIT_CORE, 0),
            ):
                resource.prlimit(self.pid, name, (value, value))

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)

    def _read(self, stream: IO[bytes]) -> None:
        with stream, contextlib.suppress(OSError, ValueError):
            while line := stream.readline(LONGEST_LINE):
                if not self._put(line):
                    break
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _put(self, line: bytes) -> bool:
        """Whether further lines are wanted."""
        with self._changed:
            if self._is_live and self._is_full():
                self.dropped += 1
                return not self._closed
            self._changed.wait_for(lambda: self._closed or not self._is_full())
            if not self._closed:
                self._lines.append(line)
                self._bytes += len(line)
                self._changed.notify_all()
            return not self._closed

    def _is_full(self) -> bool:
        return len(self._lines) >= WAITING_LINES or self._bytes >= WAITING_BYTES

    def _keep_error(self, stream: IO[bytes]) -> None:
        with stream, contextlib.suppress(OSError, ValueError):
            while piece := stream.readline(LONGEST_LINE):
                self._error = (self._error + piece)[-LONGEST_ERROR:]


def json_lines(process: SearchProcess, *, beat_seconds: float, deadline: float) -> Iterator[dict[str, Any] | None]:
    """The objects that the process writes. None means `beat_seconds` without one. Ends at `deadline` (monotonic)."""
    while (left := deadline - time.monotonic()) > 0:
        line = process.next_line(min(beat_seconds, left))
        if line == b"":
            return
        if line is None:
            yield None
            continue
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found
