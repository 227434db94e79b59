"""What `fshipper browse` does: serves a page that searches and follows, until it is stopped.

The pages are `/` without any data, `/login`, and `/search` for those who have a session. A search is in a request
header, not in the address: no log of a proxy has it, and no page of another origin can send it.
"""

import asyncio
import contextlib
import hashlib
import html
import itertools
import json
import math
import os
import secrets
import shlex
import sys
import tempfile
import threading
import time
import webbrowser
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import shipper
from consumer.archive.parts import is_archive, unreadable
from consumer.fleet.page import ICON, page
from consumer.read.browse.access_control import AccessControl, User
from consumer.read.browse.search_process import (
    MOST_LINES,
    Around,
    ProcessLimits,
    SearchCommand,
    SearchProcess,
    SearchRequest,
    command,
    json_lines,
    read_request,
)
from consumer.read.options import BrowseOptions
from shipper import events
from shipper.commands import settings_of
from shipper.durable_files import replace_file
from shipper.errors import ConfigError, Unavailable, UsageError
from shipper.http_endpoints import Answer, Endpoints, Request
from shipper.lifecycle import Stop, notify, stop_on_signals
from shipper.settings import BrowseSettings, Settings
from shipper.telemetry import set_up_logging

SEARCH_HEADER = "Fshipper-Search"
LONGEST_HEADER = 16 * 1024
SEARCHES_A_SESSION = 2
SEARCHES = 4
"""Searches at a time, of all sessions."""
BEAT_SECONDS = 1.0
"""Interval of signs of life: a client that has left is noticed within two of them."""
USUAL = ProcessLimits(seconds=20.0, cpu_seconds=60, read_bytes=4 * 1024**3, output_bytes=32 * 1024**2)
LONGER = ProcessLimits(seconds=300.0, cpu_seconds=900, read_bytes=64 * 1024**3, output_bytes=256 * 1024**2)
LIVE = ProcessLimits(seconds=None, cpu_seconds=24 * 3600, read_bytes=4 * 1024**3, output_bytes=None)
FOR_PROGRAMS = ("--json", "--progress=json", f"--jobs={min(4, os.cpu_count() or 1)}")
"""The worker processes of a search are few: others search at the same time."""


MOST_NOTES = 5
HIT_FIELDS = ("time", "host", "file", "offset", "line")
TIME_FIELDS = ("event_time", "time_from", "stored_between", "zone")
"""Of a hit that has them."""


def limits_of(request: SearchRequest) -> ProcessLimits:
    """What the search may use."""
    return LIVE if request.follow else LONGER if request.longer else USUAL


class _Slots:
    """The searches that may run at a time: few for a session, and few in all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_session: Counter[str] = Counter()

    def take(self, session: str) -> contextlib.ExitStack | None:
        """A slot, which is free again when the stack closes. None means that all are taken."""
        with self._lock:
            if self._of_session.total() >= SEARCHES or self._of_session[session] >= SEARCHES_A_SESSION:
                return None
            self._of_session[session] += 1
        slot = contextlib.ExitStack()
        slot.callback(self._give_back, session)
        return slot

    def _give_back(self, session: str) -> None:
        with self._lock:
            self._of_session[session] -= 1
            self._of_session += Counter()  # forgets sessions without a search


class BrowseServer:
    """Answers the requests of the page. Few searches run at a time, for a session and in all."""

    def __init__(self, archive: Path, config: Path | None, access: AccessControl) -> None:
        self._archive = archive
        self._options = [f"--archive={archive}", *([f"--config={config}"] if config else [])]  # of every search
        self._access = access
        self._slots = _Slots()
        self._key = secrets.token_bytes(16)  # of the hashed patterns in the access log
        self._running: set[RunningSearch] = set()
        self._closed = False

    def respond(self, request: Request) -> Answer | None:
        """The answer to a request that passed the checks of host and origin."""
        match request.path:
            case "/":
                return page("read/browse")
            case "/favicon.ico":
                return Answer("image/svg+xml", ICON)
            case "/login":
                return self._log_in(request)
            case "/about" | "/search" as path:
                user = self._access.user(request)
                if user is None:
                    events.browse_refused(address=request.address, path=path)
                    return _refusal(401, "this page has no session", "open the link that `fshipper browse` printed")
                return self._about(user) if path == "/about" else self._search(user, request)
        return None

    def status(self) -> dict[str, Any]:
        """For `/status`."""
        return {"searches": len(self._running), "version": shipper.__version__}

    def close(self) -> None:
        """End all searches."""
        self._closed = True
        for each in list(self._running):
            each.close()

    def _log_in(self, request: Request) -> Answer:
        session = self._access.log_in(request)
        if session is None:
            events.browse_refused(address=request.address, path="/login")
            return _refusal(
                401,
                "this link was used before, is older than ten minutes, or is not complete",
                "make a new one: systemctl reload fshipper-browse, or SIGHUP",
            )
        events.browse_session_opened(address=request.address)
        return Answer("application/json", json.dumps({"session": session}).encode())

    def _about(self, user: User) -> Answer:
        about = {"user": user.name, "version": shipper.__version__, "archive": str(self._archive)}
        limits = {"most_lines": MOST_LINES, "seconds": USUAL.seconds, "longer_seconds": LONGER.seconds}
        return Answer("application/json", json.dumps(about | limits).encode())

    def _search(self, user: User, request: Request) -> Answer:
        text = request.headers.get(SEARCH_HEADER, "")
        try:
            if len(text) > LONGEST_HEADER:
                raise UsageError("the search is too long", hint="search for less")
            found = command(read_request(unquote(text)))
        except UsageError as error:
            return _refusal(400, str(error).partition("\n")[0], error.hint)  # a caret needs a fixed font
        slot = None if self._closed else self._slots.take(user.session)
        if slot is None:
            return _refusal(429, "other searches are still running", "stop one of them, or close another page", again=2)
        with slot:
            try:
                running = RunningSearch(self, found, user, slot)
            except OSError as error:
                return _refusal(503, f"no search can be started: {error.strerror}", "see the log of fshipper browse")
            self._running.add(running)
            return Answer("application/x-ndjson; charset=utf-8", running, headers={"X-Accel-Buffering": "no"})

    def start(self, found: SearchCommand) -> SearchProcess:
        """The process of a search. Raises OSError."""
        verb, *rest = found.arguments
        arguments = [verb, *FOR_PROGRAMS, *self._options, *rest]
        return SearchProcess(arguments, limits_of(found.request), is_live=found.request.follow)

    def shown(self, found: SearchCommand) -> str:
        """The command as a person types it."""
        verb, *rest = found.arguments
        return shlex.join(["fshipper", verb, *self._options, *rest])

    def ended(self, search: "RunningSearch", user: User, fields: Mapping[str, Any]) -> None:
        """A search has ended: write the access log."""
        self._running.discard(search)
        request = search.found.request
        query = hashlib.blake2b(request.query.encode(), key=self._key, digest_size=8).hexdigest()
        events.browse_searched(
            user=user.name,
            hosts=",".join(request.hosts) or "*",
            files=",".join(request.files) or "*",
            since=search.found.since,
            until=search.found.until,
            query_hash=query if request.query else "",
            follow=request.follow,
            **fields,
        )


class RunningSearch:
    """The lines of one search as the page is sent them: a JSON object a line, first `begin` and last `end`.

    It takes over what `slot` holds, once its process runs.
    """

    def __init__(self, server: BrowseServer, found: SearchCommand, user: User, slot: contextlib.ExitStack) -> None:
        self.found = found
        self._server = server
        self._user = user
        self._process = server.start(found)
        self._slot = slot.pop_all()
        self._began = time.monotonic()
        self._hits = self._sent = self._read = 0
        self._dropped = 0
        self._is_complete = self._is_truncated = False
        self._unreadable: list[str] = []
        self._stored_until = ""  # lines that were stored later were not searched
        self._notes: list[str] = []
        self._outcome = "left"  # the client closed the connection, unless the loop replaces this
        self._closing = threading.Lock()

    def __iter__(self) -> Iterator[bytes]:
        yield self._object("begin", command=self._server.shown(self.found), since=self.found.since)
        limits = limits_of(self.found.request)
        deadline = self._began + (limits.seconds or math.inf)
        lines = json_lines(self._process, beat_seconds=BEAT_SECONDS, deadline=deadline)
        around = self.found.request.around
        for line in _neighbours(lines, around) if around else lines:
            yield from self._shown(line)
            too_much = self._sent >= (limits.output_bytes or math.inf) or self._read >= (limits.read_bytes or math.inf)
            if too_much and not self._is_complete:
                self._outcome = "bytes"
                break
        else:
            request, ends_early = self.found.request, time.monotonic() >= deadline and not self._is_complete
            is_full = self._hits >= request.limit and not (request.follow or request.around)
            self._outcome = "time" if ends_early else "lines" if self._is_truncated or is_full else "done"
        code = self._process.end()
        yield self._object("end", outcome=self._outcome, hits=self._hits, **self._trouble(code))

    def close(self) -> None:
        """End the search: its client is gone, or the program ends."""
        if not self._closing.acquire(blocking=False):
            return
        with self._slot:
            self._end()

    def _end(self) -> None:
        self._process.end()
        seconds = round(time.monotonic() - self._began, 3)
        fields = {"outcome": self._outcome, "lines": self._hits, "seconds": seconds}
        fields |= {"sent_bytes": self._sent, "read_bytes": self._read}
        self._server.ended(self, self._user, fields)

    def _shown(self, line: dict[str, Any] | None) -> Iterator[bytes]:
        """What the page is sent for one object of the process. None is a sign of life."""
        if self._process.dropped > self._dropped:
            dropped, self._dropped = self._process.dropped - self._dropped, self._process.dropped
            yield self._object("dropped", lines=dropped)
        match line:
            case None:
                yield b"\n"
            case {"type": "hit"}:
                self._hits += 1
                times = {name: line[name] for name in TIME_FIELDS if name in line}
                yield self._object("hit", **{name: line.get(name) for name in HIT_FIELDS}, **times)
            case {"type": "bucket"}:
                yield self._object("bucket", start=line.get("start"), count=line.get("count"))
            case {"type": "progress", "bytes_read": int(read), "bytes_total": total}:
                self._read = read
                yield self._object("progress", bytes_read=read, bytes_total=total)
            case {"type": "unreadable", "path": path, "error": error}:
                self._unreadable.append(f"{path}: {error}")
            case {"type": "note", "note": str(note)}:
                self._notes.append(note)
            case {"type": "summary", "bytes_read": int(read), "truncated": truncated}:
                self._stored_until = str(line.get("stored_until", ""))
                self._read, self._is_truncated, self._is_complete = read, bool(truncated), True

    def _trouble(self, code: int) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "notes": self._notes[:MOST_NOTES],
            "seconds": round(time.monotonic() - self._began, 3),
            "bytes_read": self._read,
        }
        if self._stored_until:
            fields["stored_until"] = self._stored_until
        if self._unreadable:
            fields["trouble"] = f"error: could not read {'; '.join(self._unreadable[:5])}\nhint: see fshipper audit"
        elif self._outcome == "done" and code and not self._is_complete and not self.found.request.around:
            fields |= {"code": code, "trouble": self._process.complaint[-2_000:]}
        return fields

    def _object(self, kind: str, **fields: Any) -> bytes:
        line = json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode() + b"\n"
        self._sent += len(line)
        return line


def _neighbours(lines: Iterator[dict[str, Any] | None], around: Around) -> Iterator[dict[str, Any] | None]:
    """The lines before and after one line, and itself. Where its stored time is an estimate, other hits are these."""
    before: deque[dict[str, Any]] = deque(maxlen=around.lines)
    for line in lines:
        if line is None:
            yield None
        elif line.get("type") != "hit":
            yield line
        elif line.get("offset") != around.offset:
            before.append(line)
        elif around.until:
            yield from before
            yield line
            following = (each for each in lines if each is not None and each.get("type") == "hit")
            yield from itertools.islice(following, around.lines)
            return
        else:
            yield from ({**line, "offset": None, "line": each} for each in line["before"])
            yield line
            yield from ({**line, "offset": None, "line": each} for each in line["after"])
            return


def _refusal(code: int, what: str, hint: str, *, again: int = 0) -> Answer:
    headers = {"Retry-After": str(again)} if again else {}
    return Answer("application/json", json.dumps({"error": what, "hint": hint}).encode(), code, headers)


DEFAULT_LISTEN = BrowseSettings().listen


def run(options: BrowseOptions) -> None:
    """Serve the page until a signal comes. Raises ConfigError."""
    settings = settings_of(options)
    set_up_logging(style=settings.log.format, level=settings.log.level)
    access = AccessControl(user_header=settings.browse.trust_user_header)
    server = BrowseServer(_checked_archive(settings), options.config, access)
    asyncio.run(_serve(settings.browse, server, access, open_page=options.open_page))


def check(settings: Settings) -> Iterator[str]:
    """The checked settings as sentences, for `fshipper validate --role browse`. Raises ConfigError."""
    yield f"archive: {_checked_archive(settings)}"
    yield f"page: {settings.browse.listen or DEFAULT_LISTEN}"


def _checked_archive(settings: Settings) -> Path:
    """The archive that is searched. Raises ConfigError: there is none, or every host name would be allowed."""
    directory = settings.collector.directory.absolute()
    if why := unreadable(directory):
        raise ConfigError(
            f"the archive {directory} cannot be read: {why}", hint="read it as the collector's user or group"
        )
    if not is_archive(directory):
        hint = "name the collector's directory, as a user who can read it: --archive DIR"
        raise ConfigError(f"there is no archive in {directory}", hint=hint)
    if "*" in settings.browse.allowed_hosts:
        raise ConfigError("browse.allowed_hosts: `*` would allow every name", hint="name the hosts of the page")
    return directory


async def _serve(settings: BrowseSettings, server: BrowseServer, access: AccessControl, *, open_page: bool) -> None:
    try:
        endpoints = Endpoints(
            settings.listen or DEFAULT_LISTEN,
            ready=str,
            status=server.status,
            respond=server.respond,
            hidden_metrics=events.PRODUCER_METRICS | events.COLLECTOR_METRICS,
            allowed_hosts=settings.allowed_hosts,
        )
    except (OSError, ValueError, OverflowError) as error:
        raise Unavailable(
            f"cannot listen on {settings.listen}: {error}", hint="choose another one: --listen 127.0.0.1:PORT"
        ) from None
    host = settings.listen.rpartition(":")[0] or "127.0.0.1"
    address = f"http://{'localhost' if host in {'0.0.0.0', '[::]'} else host}:{endpoints.port}/"  # noqa: S104 - no bind

    stop = Stop()
    with contextlib.closing(endpoints), contextlib.closing(server), contextlib.ExitStack() as opened:
        show_link = opened.enter_context(_link_shown())

        def new_link() -> str:
            return f"{address}#token={access.new_token()}"

        stop_on_signals(stop, reload=lambda: show_link(new_link()))
        first = new_link()
        show_link(first)
        if open_page:
            webbrowser.open(opened.enter_context(_redirect(first)))
        notify("READY=1")
        await stop.wait()


@contextlib.contextmanager
def _link_shown() -> Iterator[Callable[[str], None]]:
    """A function that shows a link: on a terminal, else in a file that only this user can read.

    What is not a terminal may be the journal, which other users read, also weeks later. The file is `link` in
    RUNTIME_DIRECTORY (systemd), else in a directory of its own, and is removed at the end.
    """
    hint = "The link opens one session within ten minutes. SIGHUP makes another link."
    if sys.stdout.isatty():
        yield lambda link: print(f"fshipper browse: {link}\n{hint}", flush=True)
        return
    with contextlib.ExitStack() as made:
        directory = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
        path = Path(directory or made.enter_context(tempfile.TemporaryDirectory(prefix="fshipper-browse-"))) / "link"
        made.callback(path.unlink, missing_ok=True)

        def write(link: str) -> None:
            replace_file(path, f"{link}\n".encode(), mode=0o600)
            print(f"fshipper browse: the link is in {path}\n{hint}", flush=True)

        yield write


@contextlib.contextmanager
def _redirect(link: str) -> Iterator[str]:
    """The URL of a private file that leads to `link`: arguments of a browser can be read by every user."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="fshipper-browse-") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(link, quote=True)}">')
        file.flush()
        yield Path(file.name).as_uri()
