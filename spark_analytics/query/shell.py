"""The shell of `fshipper report query` without SQL: statements on one session, with history, until the user quits.

SIGINT cancels the running statement, or clears the line that is being typed. An error is printed and the shell goes on.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import TextIO

from pyspark.sql import SparkSession

from shipper.errors import ShipperError
from spark_analytics.query import sql
from spark_analytics.query.sql import Format
from spark_analytics.runtime import interrupts, jvm
from spark_analytics.tables import dictionary, schemas, spark_io
from spark_analytics.tables.store import Tables

PROMPT, CONTINUED = "report> ", "   ...> "
HISTORY_LINES = 2000
CANCEL_SECONDS = 0.2
"""Interval at which the jobs of a statement are cancelled."""
CLEARED = "\x03"
"""A line that drops what was typed of a statement: Ctrl-C."""

HELP = r"""A statement ends with ; and may have several lines.
\d          list the tables, their first and last day
\d NAME     columns of a table, with units and meaning
\format F   print rows as table, csv or json
\refresh    read the list of days again, after a new report
\q          quit (also: exit, quit, Ctrl-D)
Ctrl-C      cancel the running statement, or clear the line
"""


class _CancelledError(ShipperError):
    """The user cancelled the statement."""


def statements(lines: Iterable[str]) -> Iterator[str]:
    """Complete statements and commands in `lines`. A `;` at the end of a line ends a statement."""
    kept: list[str] = []
    for line in lines:
        if line == CLEARED:
            kept.clear()
            continue
        text = line.rstrip()
        if not kept and (text.startswith("\\") or text in {"exit", "quit"}):
            yield text
        elif text or kept:
            kept.append(text)
            if text.endswith(";"):
                yield "\n".join(kept).rstrip("; \n")
                kept.clear()
    if any(kept):
        yield "\n".join(kept)


def _history_path() -> Path | None:
    """The file of earlier statements; None if this user has no home."""
    home = os.environ.get("HOME")
    state = os.environ.get("XDG_STATE_HOME") or (home and f"{home}/.local/state")
    return Path(state, "fshipper", "query_history") if state else None


@dataclass(slots=True)
class Shell:
    """One shell on one session. `register` makes the views anew."""

    spark: SparkSession
    tables: Tables
    register: Callable[[], None]
    log: Path
    form: Format
    out: TextIO = field(default_factory=lambda: sys.stdout)
    _running: threading.Event = field(default_factory=threading.Event)
    _cancelled: threading.Event = field(default_factory=threading.Event)

    def run(self, source: TextIO) -> None:
        """Runs the statements of `source`, a terminal or a pipe, to its end.

        Raises:
            JavaEnded: Java has ended.
        """
        is_terminal = source.isatty()
        lines = _typed() if is_terminal else (line.rstrip("\n") for line in source)
        if is_terminal:
            self._print(f"{', '.join(self._names())}; \\? for help, \\q to quit")
        with interrupts.on_interrupt(self._interrupt):
            for statement in statements(lines):
                if statement in {"\\q", "exit", "quit"}:
                    return
                self._one(statement, is_terminal=is_terminal)

    def _interrupt(self) -> bool:
        """Cancels the running statement; False if none is running."""
        if not self._running.is_set():
            return False
        if not self._cancelled.is_set():
            self._cancelled.set()
            threading.Thread(target=self._cancel, name="cancel", daemon=True).start()
        return True

    def _cancel(self) -> None:
        """Cancels jobs until the statement has ended: Spark may only be planning it when the user presses Ctrl-C."""
        while self._running.is_set() and self._cancelled.is_set():
            with contextlib.suppress(Exception):
                self.spark.sparkContext.cancelAllJobs()
            sleep(CANCEL_SECONDS)

    def _one(self, statement: str, *, is_terminal: bool) -> None:
        began = monotonic()
        self._cancelled.clear()
        self._running.set()
        try:
            with spark_io.translated_errors(self.log):
                self._execute(statement)
        except jvm.JavaEnded:
            raise
        except ShipperError as error:
            text = "cancelled" if self._cancelled.is_set() else f"error: {error}"
            sys.stderr.write(f"{text}\n")
        finally:
            self._running.clear()
        if is_terminal:
            self._print(f"{monotonic() - began:.1f} s")

    def _execute(self, statement: str) -> None:
        command, _, rest = statement.partition(" ")
        rest = rest.strip().rstrip(";")
        if command == "\\d":
            self._print("\n".join(self._described(rest) if rest else self._listed()))
        elif command == "\\format":
            try:
                self.form = Format(rest)
            except ValueError:
                raise ShipperError(f"{rest!r} is no format; give table, csv or json") from None
        elif command == "\\refresh":
            self.register()
        elif command.startswith("\\"):
            self._print(HELP)
        else:
            sql.show(self.spark.sql(statement), self.form, self.out, cancelled=self._raise_if_cancelled)
            self.out.flush()

    def _raise_if_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise _CancelledError

    def _names(self) -> list[str]:
        return sorted(row.viewName for row in self.spark.sql("show views").collect())

    def _listed(self) -> list[str]:
        found = []
        for name in self._names():
            days = self.tables.days(name) if name in schemas.TABLES else []
            found.append(f"{name:<18}{f'{days[0]} to {days[-1]}' if days else 'the named days'}")
        return found

    def _described(self, name: str) -> list[str]:
        found = []
        for one in self.spark.table(name).schema.fields:
            about = f"{one.name:<20}{one.dataType.simpleString():<11}"
            with contextlib.suppress(KeyError):
                unit, meaning, _ = dictionary.column(name, one.name)
                about += f"{unit:<17}{meaning}"
            found.append(about.rstrip())
        return found

    def _print(self, text: str) -> None:
        self.out.write(text + "\n")
        self.out.flush()


def _typed() -> Iterator[str]:
    """Lines that the user types, with editing and history. Ctrl-C clears the line, Ctrl-D ends."""
    import readline  # noqa: PLC0415 - changes the terminal

    path = _history_path()
    if path:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES)
    continued = False
    try:
        while True:
            try:
                with interrupts.interruptible():
                    line = input(CONTINUED if continued else PROMPT)
            except EOFError:
                sys.stdout.write("\n")
                return
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                continued = False
                yield CLEARED
                continue
            continued = bool(line.strip()) and not line.startswith("\\") and not line.rstrip().endswith(";")
            yield line
    finally:
        if path:
            with contextlib.suppress(OSError):
                readline.write_history_file(path)
                path.chmod(0o600)
