"""The searches of the pages: each is a process with limits, whose lines are an answer. Few of them run at a time.

A search is in a request header, not in the address: no log of a proxy has it, and no page of another origin sends it.
"""

import contextlib
import hashlib
import itertools
import json
import math
import os
import secrets
import shlex
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import shipper
from consumer.web.access_control import User
from consumer.web.roles import Role
from consumer.web.search_process import (
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
from consumer.web.server import PageRequest
from shipper import events
from shipper.errors import UsageError
from shipper.http_endpoints import Answer

SEARCH_HEADER = "Fshipper-Search"
LONGEST_HEADER = 16 * 1024
SEARCHES_A_SESSION = 2
SEARCHES = 4
"""Searches at a time, of all sessions."""
SLOT_SECONDS = 3.0
"""Maximum time for which a search waits for a slot: longer than a process that is left takes to end."""
BEAT_SECONDS = 1.0
"""Interval of signs of life: a client that has left is noticed within two of them."""
USUAL = ProcessLimits(seconds=20.0, cpu_seconds=60, read_bytes=4 * 1024**3, output_bytes=32 * 1024**2)
LONGER = ProcessLimits(seconds=300.0, cpu_seconds=900, read_bytes=64 * 1024**3, output_bytes=256 * 1024**2)
LIVE = ProcessLimits(seconds=None, cpu_seconds=24 * 3600, read_bytes=4 * 1024**3, output_bytes=None)
FOR_PROGRAMS = ("--json", "--progress=json", f"--jobs={min(4, os.cpu_count() or 1)}")
"""The worker processes of a search are few: others search at the same time."""


MOST_NOTES = 5
MOST_HOSTS = 2_000
"""Hosts that the page is sent, those with the most text."""
HIT_FIELDS = ("time", "host", "file", "offset", "line")
KNOWN_FIELDS = ("event_time", "time_from", "stored_between", "zone", "fields", "cut")
"""Of a hit that has them."""


def limits_of(request: SearchRequest) -> ProcessLimits:
    """What the search may use."""
    return LIVE if request.follow else LONGER if request.longer else USUAL


class _Slots:
    """The searches that may run at a time: few for a session, and few in all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._of_session: Counter[str] = Counter()

    def take(self, session: str) -> contextlib.ExitStack | None:
        """A slot, which is free again when the stack closes. None means that all are taken.

        A page that begins another search has left the one before, whose process may still be ending: it is waited for.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_free(session), SLOT_SECONDS):
                return None
            self._of_session[session] += 1
        slot = contextlib.ExitStack()
        slot.callback(self._give_back, session)
        return slot

    def _is_free(self, session: str) -> bool:
        return self._of_session.total() < SEARCHES and self._of_session[session] < SEARCHES_A_SESSION

    def _give_back(self, session: str) -> None:
        with self._changed:
            self._of_session[session] -= 1
            self._of_session += Counter()  # forgets sessions without a search
            self._changed.notify_all()


class Searches:
    """Answers searches in one archive. Few run at a time, for a session and in all."""

    def __init__(self, archive: Path, config: Path | None) -> None:
        self._archive = archive
        self._options = [f"--archive={archive}", *([f"--config={config}"] if config else [])]  # of every search
        self._slots = _Slots()
        self._key = secrets.token_bytes(16)  # of the hashed patterns in the access log
        self._running: set[RunningSearch] = set()
        self._closed = False

    def status(self) -> dict[str, Any]:
        """For `/status`."""
        return {"searches": len(self._running), "version": shipper.__version__}

    def close(self) -> None:
        """End all searches."""
        self._closed = True
        for each in list(self._running):
            each.close()

    def about(self, user: User) -> Answer:
        """What the page knows of the user, the archive and its limits."""
        about = {
            "user": user.name,
            "role": user.role,
            "by_proxy": user.is_of_proxy,
            "version": shipper.__version__,
            "archive": str(self._archive),
        }
        limits = {"most_lines": MOST_LINES, "seconds": USUAL.seconds, "longer_seconds": LONGER.seconds}
        return Answer("application/json", json.dumps(about | limits).encode())

    def search(self, user: User, request: PageRequest) -> Answer:
        """The lines that the request's search finds, as they come."""
        text = request.headers.get(SEARCH_HEADER, "")
        try:
            if len(text) > LONGEST_HEADER:
                raise UsageError("the search is too long", hint="search for less")
            found = command(read_request(unquote(text)))
        except UsageError as error:
            return refusal(400, str(error).partition("\n")[0], error.hint)  # a caret needs a fixed font
        if found.request.longer and user.role is not Role.OPERATOR:
            return refusal(403, "a reader may not search longer", "choose a shorter time range, or fewer hosts")
        slot = None if self._closed else self._slots.take(user.session)
        if slot is None:
            return refusal(429, "other searches are still running", "stop one of them, or close another page", again=2)
        with slot:
            try:
                running = RunningSearch(self, found, user, slot)
            except OSError as error:
                return refusal(503, f"no search can be started: {error.strerror}", "see the log of this program")
            self._running.add(running)
            return Answer("application/x-ndjson; charset=utf-8", running, headers={"X-Accel-Buffering": "no"})

    def start(self, found: SearchCommand) -> SearchProcess:
        """The process of a search. Raises OSError."""
        verb, *rest = found.arguments
        arguments = [verb, *FOR_PROGRAMS, *found.details, *self._options, *rest]
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

    def __init__(self, server: Searches, found: SearchCommand, user: User, slot: contextlib.ExitStack) -> None:
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
                known = {name: line[name] for name in KNOWN_FIELDS if name in line}
                yield self._object("hit", **{name: line.get(name) for name in HIT_FIELDS}, **known)
            case {"type": "bucket" | "count" | "explain"}:
                yield from self._counted(line)
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
                if self.found.request.count:
                    beyond = {"without": line.get("without_field"), "other": line.get("other_values")}
                    yield self._object("counted", lines=line.get("hits"), **beyond)

    def _counted(self, line: dict[str, Any]) -> Iterator[bytes]:
        """What the page is sent for an object with counts."""
        match line:
            case {"type": "bucket"}:
                levels = line.get("levels", {})
                yield self._object("bucket", start=line.get("start"), count=line.get("count"), levels=levels)
            case {"type": "count", "name": name, "count": count} if self.found.request.count:
                yield self._object("count", name=name, count=count)
            case {"type": "explain", "by_host": dict(by_host)}:
                most = sorted(by_host.items(), key=lambda each: (-each[1], each[0]))[:MOST_HOSTS]
                yield self._object("hosts", hosts=most, total=len(by_host))

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


def refusal(code: int, what: str, hint: str, *, again: int = 0) -> Answer:
    """An answer with what is wrong and the next step; `again`: seconds after which the same may succeed."""
    headers = {"Retry-After": str(again)} if again else {}
    return Answer("application/json", json.dumps({"error": what, "hint": hint}).encode(), code, headers)
