"""The systemd journal: every entry once in a spool, through kills of this program and of journalctl.

Append, then bookmark. A kill between leaves entries in the spool that the bookmark does not know: they are read again,
prove to be the same bytes, and are passed over: the same entry always gives the same line.
"""

import contextlib
import datetime as dt
import io
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from producer.inputs.reader import Reader
from producer.inputs.spool import Spool, rotated
from shipper import events
from shipper.durable_files import replace_file
from shipper.errors import ConfigError, Fatal


class Bookmark(NamedTuple):
    """Everything up to the entry at `cursor` is before byte `length` of file `number` of the spool."""

    cursor: str
    number: int
    length: int


class Bookmarks:
    """The bookmark on disk, and the one before it in case the newest is damaged."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "cursor"
        self._before = directory / "cursor.before"

    def load(self) -> Bookmark | None:
        """The newest bookmark. None: there is none. A damaged one is kept aside, and the one before it is taken."""
        if not self._path.exists():
            return None
        found = _read(self._path)
        if found is None:
            found = _read(self._before)
            kept = self._path.with_name(f"cursor.damaged-{time.time_ns()}")
            self._path.rename(kept)
            goes_on = f"behind {found.cursor}" if found else "at the beginning of the journal: all of it is sent again"
            events.cursor_damaged(path=str(self._path), kept=str(kept), goes_on=goes_on)
            if found:
                self.save(found)
        return found

    def save(self, bookmark: Bookmark) -> None:
        """Make a bookmark durable. Raises OSError."""
        content = json.dumps({"v": 1, **bookmark._asdict()}).encode()
        temporary = self._before.with_name(".cursor.before.tmp")
        temporary.unlink(missing_ok=True)  # a kill left it, or a rename that had nothing to do
        with contextlib.suppress(FileNotFoundError):
            os.link(self._path, temporary)
            os.replace(temporary, self._before)
        replace_file(self._path, content, mode=0o600)


def _read(path: Path) -> Bookmark | None:
    try:
        fields = json.loads(path.read_bytes())
        if fields["v"] == 1 and isinstance(fields["cursor"], str) and fields["cursor"]:
            return Bookmark(fields["cursor"], int(fields["number"]), int(fields["length"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


_SEVERITIES = frozenset(b"%d" % number for number in range(8))
_USER, _MAX_FACILITY = 1, 23

Entry = Mapping[str, Any]
"""The fields of one entry: text, a list of numbers (bytes that are no text), a list of those, or null."""


def parse(line: bytes) -> Entry | None:
    """One line of `journalctl --output=json`. None: it is none."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("__CURSOR"), str) else None


def cursor_of(entry: Entry) -> str:
    """The position of the entry in the journal."""
    return str(entry["__CURSOR"])


def line_of(entry: Entry, style: str) -> bytes:
    """An entry as one line with its newline.

    JSON: every field as journalctl gave it, sorted by name: journalctl itself prints them in another order each time.
    Syslog: text with the priority in front, as `<30>`; without a priority it is text.
    """
    if style == "json":
        text = json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass") + b"\n"
    pid = _first(entry, "SYSLOG_PID", "_PID")
    who = _first(entry, "SYSLOG_IDENTIFIER", "_COMM") or b"unknown"
    tag = b"%b[%b]" % (who, pid) if pid else who
    priority = _priority(entry) if style == "syslog" else b""
    head = b"%b%b %b %b: " % (priority, _time(entry), _first(entry, "_HOSTNAME") or b"-", tag)
    return (head + _bytes(entry.get("MESSAGE"))).rstrip(b"\n").replace(b"\n", b"#012") + b"\n"


def lost_between(before: str, after: str) -> int:
    """How many entries are between two cursors, by their sequence numbers. At least 1 if these are unknown."""
    first, second = _fields(before), _fields(after)
    try:
        between = int(second["i"], 16) - int(first["i"], 16) - 1
        return between if first["s"] == second["s"] and between >= 0 else 1
    except (KeyError, ValueError):
        return 1


def _priority(entry: Entry) -> bytes:
    """The facility and the severity of an entry as syslog has them. Empty: it has no severity."""
    facility, severity = _first(entry, "SYSLOG_FACILITY"), _first(entry, "PRIORITY")
    if severity not in _SEVERITIES:
        return b""
    known = int(facility) if facility.isdigit() and len(facility) <= len("127") else _USER
    return b"<%d>" % ((known if known <= _MAX_FACILITY else _USER) * 8 + int(severity))


def _fields(cursor: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in cursor.split(";"))}


def _first(entry: Entry, *names: str) -> bytes:
    return next((found for name in names if (found := _bytes(entry.get(name)))), b"")


def _bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list) and all(isinstance(each, int) and 0 <= each < 256 for each in value):  # noqa: PLR2004
        return bytes(value)
    return b"\n".join(map(_bytes, value)) if isinstance(value, list) else b""


def _time(entry: Entry) -> bytes:
    """RFC 3339 with microseconds, UTC. 1970 where the entry has no time that is one."""
    try:
        seconds, micros = divmod(int(_first(entry, "__REALTIME_TIMESTAMP")), 1_000_000)
        when = dt.datetime.fromtimestamp(seconds, tz=dt.UTC)
    except (ValueError, OverflowError, OSError):
        return b"1970-01-01T00:00:00.000000Z"
    return f"{when:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z".encode()


class Step(NamedTuple):
    """What to do with bytes that were read."""

    again: bytes  #: in the spool, still to be read again
    new: bytes  #: to be appended
    differs: bool  #: what was read is not what the spool holds: its torn last line will not be completed


def step(again: bytes, data: bytes) -> Step:
    """`again`: what the spool holds and is expected to be read again. `data`: whole lines that were read now."""
    if again.startswith(data):
        return Step(again[len(data) :], b"", differs=False)
    if data.startswith(again):
        return Step(b"", data[len(again) :], differs=False)
    same = next(index for index, (old, new) in enumerate(zip(again, data, strict=False)) if old != new)
    return Step(b"", data[data.rfind(b"\n", 0, same) + 1 :], differs=True)


def reached(again: bytes, line: bytes) -> tuple[bytes, int]:
    """What of `again` begins with `line`, and how many whole lines are before it; b"" where it does not come."""
    at = whole = 0
    for held in io.BytesIO(again):
        if line.startswith(held):
            return again[at:], whole
        at, whole = at + len(held), whole + held.endswith(b"\n")
    return b"", whole


NAME = "/journal"
READ_BYTES = 256 * 1024
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 30.0
ASK_SECONDS = 30.0
_PROGRAM = "journalctl"


class Chosen(NamedTuple):
    """What of the journal is read, and how it is written."""

    style: str  #: text, syslog or json
    directory: Path | None = None  #: of journal files; None: the system's journal
    match: tuple[str, ...] = ()  #: FIELD=VALUE, see journalctl(1)
    start_at_end: bool = False  #: leave out what is there at the very first start
    once: bool = False  #: end at the present end


class Journald(Reader):
    """Reads the journal through journalctl, the only reader of its format that fits the running systemd."""

    def __init__(self, spool: Spool, chosen: Chosen) -> None:
        super().__init__(spool)
        self.ends = chosen.once
        self._chosen = chosen
        self._bookmarks = Bookmarks(spool.directory)
        self._mark: Bookmark | None = None
        self._again = b""  # in the spool, after the bookmark
        self._holding = ExitStack()

    def prepare(self) -> None:
        """Raises ConfigError: there is no journalctl, or no such directory."""
        if shutil.which(_PROGRAM) is None:
            raise ConfigError("there is no journalctl to read the journal with", hint="install systemd, or its package")
        directory = self._chosen.directory
        if directory is not None and not directory.is_dir():
            raise ConfigError(f"journald_directory {directory} is no directory", hint="for example /var/log/journal")

    def release(self) -> None:
        """Nothing stays open."""
        self._holding.close()

    def read(self) -> None:
        """Follow the journal, also when journalctl ends for reasons of its own."""
        self._holding.enter_context(self.spool.held())  # a torn last line goes on where it is
        self._mark = self._bookmarks.load()
        if self._mark is None and self._chosen.start_at_end and self.spool.position == (1, 0):
            newest = self._ask("--lines=1", *self._chosen.match)
            if newest is not None:
                self._bookmark(cursor_of(newest))
        retry = FIRST_RETRY_SECONDS
        while not self._stopping.is_set():
            try:
                got_some, error = self._follow()
            except (OSError, subprocess.TimeoutExpired) as trouble:  # systemd is being replaced, or hangs
                got_some, error = False, str(trouble)
            if self._stopping.is_set() or (self._chosen.once and not error):
                return
            if self._chosen.once:
                raise Fatal(f"journalctl ended: {error}", hint="see journalctl(1)")
            retry = FIRST_RETRY_SECONDS if got_some else min(2 * retry, MAX_RETRY_SECONDS)
            events.journal_ended(error=error or "it ended by itself", retry_in=retry)
            self._stopping.wait(retry)

    def _command(self, *more: str) -> list[str]:
        directory = [f"--directory={self._chosen.directory}"] if self._chosen.directory else []
        return [_PROGRAM, "--output=json", "--no-pager", "--quiet", "--all", *directory, *more]

    def _ask(self, *more: str) -> Entry | None:
        """The one entry that a short run prints, if it does."""
        done = subprocess.run(
            self._command(*more), stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_SECONDS, check=False
        )
        return parse(done.stdout)

    # -- one run of journalctl ----------------------------------------------------------------------------------

    def _follow(self) -> tuple[bool, str]:
        """One run of journalctl: whether anything came, and why it ended. "" where all is well."""
        number, length = (self._mark.number, self._mark.length) if self._mark else (0, 0)
        self._again = self.spool.unrecorded(number, length)
        if not self._again:
            self._holding.close()
        where = ["--no-tail", *([] if self._chosen.once else ["--follow"])]
        if self._mark:
            where.append(f"--cursor={self._mark.cursor}")
        command = self._command(*where, *self._chosen.match)
        with tempfile.TemporaryFile() as complaints:
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints
            ) as process:
                try:
                    got_some = self._take_all(process)
                finally:
                    process.kill()
            if process.returncode == 0:
                return got_some, ""
            complaints.seek(0)
            lines = complaints.read().decode("utf-8", "replace").strip().splitlines()
            return got_some, lines[-1] if lines else f"exit code {process.returncode}"

    def _take_all(self, process: "subprocess.Popen[bytes]") -> bool:
        """Entries into the spool until journalctl ends, or until the stop. Whether any came."""
        assert process.stdout is not None  # noqa: S101 - for the type checker
        pipe = process.stdout.fileno()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        poll.register(self._ending, select.POLLIN)
        held, expects_mark, got_some = b"", self._mark is not None, False
        while not self._stopping.is_set() and self.spool.wait_for_space():
            if pipe not in {descriptor for descriptor, _ in poll.poll()}:
                continue
            data = os.read(pipe, READ_BYTES)
            if not data:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(ASK_SECONDS)
                break
            whole, _, held = (held + data).rpartition(b"\n")
            found = self._parsed(whole)
            if found and expects_mark:
                expects_mark = False
                found = self._after_mark(found)
            if found:
                got_some = True
                self._append(found)
        return got_some

    def _parsed(self, whole: bytes) -> list[Entry]:
        """The entries of some lines. What is none is counted."""
        lines = [line for line in whole.split(b"\n") if line]
        found = [entry for line in lines if (entry := parse(line))]
        if len(found) < len(lines):
            events.messages_lost(input=self.spool.name, lost=len(lines) - len(found), reason="unreadable")
        return found

    def _append(self, found: Sequence[Entry]) -> None:
        """Append, make it durable, bookmark: a kill between leaves bytes that are known again."""
        data = b"".join(line_of(entry, self._chosen.style) for entry in found)
        self._again, new, differs = step(self._again, data)
        with self.spool.held():
            if differs and self.spool.is_torn:
                new = b"\n" + new
            if self.spool.append(new) or self._again:
                return  # stopped while the disk was full, or there is more to pass over
            self.spool.sync()
            self._bookmark(cursor_of(found[-1]))
        self._holding.close()

    def _bookmark(self, cursor: str) -> None:
        """Remember where to go on. Where that cannot be written nothing more is read."""
        mark = Bookmark(cursor, *self.spool.position)
        while not self._stopping.is_set():
            try:
                self._bookmarks.save(mark)
            except OSError as error:
                events.spool_failed(input=self.spool.name, error=error.strerror or str(error))
                self._stopping.wait(FIRST_RETRY_SECONDS)
            else:
                self._mark = mark
                return

    # -- what vanished ------------------------------------------------------------------------------------------

    def _after_mark(self, found: list[Entry]) -> list[Entry]:
        """The entries after the bookmark. The first that journalctl prints is the one at it, if it is still there."""
        assert self._mark is not None  # noqa: S101 - for the type checker
        cursor = self._mark.cursor
        if cursor_of(found[0]) == cursor:
            return found[1:]
        there = self._ask("--lines=1", f"--cursor={cursor}")  # other matches than at the last start may leave it out
        if there is None or cursor_of(there) != cursor:
            self._count_vanished(cursor, found[0])
        return found

    def _count_vanished(self, cursor: str, first: Entry) -> None:
        """The journal was vacuumed, or replaced: the entries between are lost, except those that the spool has."""
        lost = lost_between(cursor, cursor_of(first))
        self._again, spooled = reached(self._again, line_of(first, self._chosen.style))
        if self._again or lost <= spooled:
            return
        events.messages_lost(input=self.spool.name, lost=lost - spooled, reason="journal")
        if self.spool.is_torn:
            self.spool.append(b"\n")
        self._holding.close()
        number = self._mark.number if self._mark else 0
        if not any(each.lost and each.number >= number for each in rotated(self.spool.directory)):
            self.spool.cut(lost - spooled)
