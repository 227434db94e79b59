"""The systemd journal: every entry once in a spool, through kills of this program and of journalctl.

Append, then bookmark. A kill between leaves entries in the spool that the bookmark does not know: they are read again,
prove to be the same bytes, and are passed over.
"""

import contextlib
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

from producer.inputs import entries, segments
from producer.inputs.bookmark import Bookmark, Bookmarks
from producer.inputs.entries import Entry
from producer.inputs.overlap import reached, step
from producer.inputs.reader import Reader
from producer.inputs.spool import Spool
from shipper import events
from shipper.errors import ConfigError, Fatal

NAME = "/journal"
READ_BYTES = 256 * 1024
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 30.0
ASK_SECONDS = 30.0
_PROGRAM = "journalctl"


class Chosen(NamedTuple):
    """What of the journal is read, and how it is written."""

    style: str  #: text or json
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
        self._again = b""  # in the spool, behind the bookmark
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
        self._mark = self._first_mark()
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

    def _first_mark(self) -> Bookmark | None:
        mark = self._bookmarks.load()
        if mark is None and self._chosen.start_at_end and self.spool.position == (1, 0):
            newest = self._ask("--lines=1", *self._chosen.match)
            if newest is not None:
                self._bookmark(entries.cursor_of(newest))
                return self._mark
        return mark

    def _command(self, *more: str) -> list[str]:
        directory = [f"--directory={self._chosen.directory}"] if self._chosen.directory else []
        return [_PROGRAM, "--output=json", "--no-pager", "--quiet", "--all", *directory, *more]

    def _ask(self, *more: str) -> Entry | None:
        """The one entry that a short run prints, if it does."""
        done = subprocess.run(
            self._command(*more), stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_SECONDS, check=False
        )
        return entries.parse(done.stdout)

    # -- one run of journalctl ----------------------------------------------------------------------------------

    def _follow(self) -> tuple[bool, str]:
        """One run of journalctl: whether anything came, and why it ended; "" where all is well."""
        self._again = self.spool.unrecorded(self._mark.number, self._mark.length) if self._mark else self._unmarked()
        if not self._again:
            self._holding.close()
        where = ["--no-tail", *([] if self._chosen.once else ["--follow"])]
        if self._mark:
            where.append(f"--cursor={self._mark.cursor}")
        with tempfile.TemporaryFile() as complaints:
            process = subprocess.Popen(
                self._command(*where, *self._chosen.match),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
            try:
                got_some = self._take_all(process)
            finally:
                process.kill()
                code = process.wait()
                if process.stdout:
                    process.stdout.close()
            return got_some, _complaint(complaints, code)

    def _unmarked(self) -> bytes:
        """What is in the spool before the first bookmark."""
        return self.spool.unrecorded(0, 0)

    def _take_all(self, process: "subprocess.Popen[bytes]") -> bool:
        """Entries into the spool until journalctl ends, or until the stop; whether any came."""
        assert process.stdout is not None  # noqa: S101 - for the type checker
        pipe = process.stdout.fileno()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        poll.register(self._told, select.POLLIN)
        held, expects_mark, got_some = b"", self._mark is not None, False
        while not self._stopping.is_set() and self.spool.wait_for_room():
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
                found = self._behind_mark(found)
            if found:
                got_some = True
                self._append(found)
        return got_some

    def _parsed(self, whole: bytes) -> list[Entry]:
        """The entries of some lines; what is none is counted."""
        lines = [line for line in whole.split(b"\n") if line]
        found = [entry for line in lines if (entry := entries.parse(line))]
        if len(found) < len(lines):
            events.messages_lost(input=self.spool.name, lost=len(lines) - len(found), reason="unreadable")
        return found

    def _append(self, found: Sequence[Entry]) -> None:
        """Append, make it durable, bookmark: a kill between leaves bytes that are known again."""
        data = b"".join(entries.line_of(entry, self._chosen.style) for entry in found)
        self._again, new, differs = step(self._again, data)
        with self.spool.held():
            if differs and self.spool.is_torn:
                new = b"\n" + new
            if self.spool.append(new) or self._again:
                return  # stopped while the disk was full, or there is more to pass over
            self.spool.sync()
            self._bookmark(entries.cursor_of(found[-1]))
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

    def _behind_mark(self, found: list[Entry]) -> list[Entry]:
        """The entries behind the bookmark; the first that journalctl prints is the one at it, if it is still there."""
        assert self._mark is not None  # noqa: S101 - for the type checker
        cursor = self._mark.cursor
        if entries.cursor_of(found[0]) == cursor:
            return found[1:]
        there = self._ask("--lines=1", f"--cursor={cursor}")  # other matches than at the last start may leave it out
        if there is None or entries.cursor_of(there) != cursor:
            self._count_vanished(cursor, found[0])
        return found

    def _count_vanished(self, cursor: str, first: Entry) -> None:
        """The journal was vacuumed, or replaced: what lay between is lost, less what the spool has of it."""
        lost = entries.lost_between(cursor, entries.cursor_of(first))
        self._again, spooled = reached(self._again, entries.line_of(first, self._chosen.style))
        if self._again or lost <= spooled:
            return
        events.messages_lost(input=self.spool.name, lost=lost - spooled, reason="journal")
        if self.spool.is_torn:
            self.spool.append(b"\n")
        self._holding.close()
        number = self._mark.number if self._mark else 0
        if not any(each.lost and each.number >= number for each in segments.rotated(self.spool.directory)):
            self.spool.cut(lost - spooled)


def _complaint(complaints: IO[bytes], code: int) -> str:
    """Why journalctl ended with `code`; "" where it did not fail."""
    if code == 0:
        return ""
    complaints.seek(0)
    lines = complaints.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {code}"
