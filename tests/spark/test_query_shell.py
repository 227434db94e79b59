"""The shell of `fshipper report query`: one session, errors that it survives, Ctrl-C on a real terminal."""

import contextlib
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from day_archives import Archive

from spark_analytics import prepare
from spark_analytics.query import shell

WAIT = 120.0
ENDLESS = "select sum(sqrt(id)) from range(4000000000000);"


@pytest.fixture(scope="module")
def report(spark, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("shell")
    prepare.write_days(place / "archive")
    Archive(place / "archive", prepare.DATES[0]).reported(spark, place / "out")
    return place / "out"


def test_statements_end_with_a_semicolon_and_may_have_several_lines():
    lines = ["select 1;", "", "select", "  2", ";", "\\d runs", "quit", "select 3"]
    assert list(shell.statements(lines)) == ["select 1", "select\n  2", "\\d runs", "quit", "select 3"]


def test_what_was_typed_before_ctrl_c_is_dropped():
    assert list(shell.statements(["select", shell.CLEARED, "select 2;"])) == ["select 2"]


def test_statements_of_a_pipe_run_on_one_session_and_an_error_ends_nothing(report):
    wrong = "select no_column from runs;\nselec 1;\n"
    text = wrong + "\\d runs\n\\format csv\nselect count(*) n from\n host_daily;\n\\q\nselect 7;\n"
    command = [sys.executable, "-m", "spark_analytics", "query", "--out", str(report)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error: ") == 2
    assert "Traceback" not in done.stderr
    assert "input_fingerprint" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["n", "5"]


class Terminal:
    """The shell on a terminal of its own."""

    def __init__(self, report: Path, home: Path) -> None:
        self._own, other = os.openpty()
        environment = dict(os.environ) | {"HOME": str(home), "TERM": "dumb"}
        environment.pop("XDG_STATE_HOME", None)
        self.process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, "-m", "spark_analytics", "query", "--out", str(report)],
            stdin=other,
            stdout=other,
            stderr=other,
            env=environment,
        )
        os.close(other)

    def expect(self, pattern: str) -> str:
        """The output up to `pattern`."""
        found, until = "", time.monotonic() + WAIT
        while not re.search(pattern, found):
            ready, _, _ = select.select([self._own], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"no {pattern!r} in {found!r}"
            try:
                found += os.read(self._own, 4096).decode("utf-8", "replace")
            except OSError:
                raise AssertionError(f"it ended with {found!r}") from None
        return found

    def type(self, text: str) -> None:
        """Keys as a user presses them."""
        os.write(self._own, text.encode())

    def close(self) -> int:
        """Waits for the end."""
        with contextlib.suppress(OSError):
            while os.read(self._own, 4096):
                pass
        os.close(self._own)
        return self.process.wait(WAIT)


def test_ctrl_c_cancels_the_statement_and_then_the_line_and_quits_nothing(report, tmp_path):
    terminal = Terminal(report, tmp_path)
    shown = terminal.expect("report> ")
    assert "host_daily" in shown
    terminal.type(ENDLESS + "\n")
    terminal.expect(re.escape("\n"))
    time.sleep(1)
    assert terminal.process.poll() is None
    terminal.type("\x03")
    terminal.expect("cancelled(?s:.*)report> ")
    terminal.type("select half a\n")
    terminal.expect(re.escape("   ...> "))
    terminal.type("\x03")
    terminal.expect("report> ")
    terminal.type("select 40 + 2 as answer;\n")
    terminal.expect("42(?s:.*)report> ")
    terminal.type("\\q\n")
    assert terminal.close() == 0

    history = tmp_path / ".local" / "state" / "fshipper" / "query_history"
    assert "select 40 + 2 as answer;" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600
    again = Terminal(report, tmp_path)
    again.expect("report> ")
    again.type("\x10\x10\n")  # up, up: the statement before \\q
    again.expect("42(?s:.*)report> ")
    again.type("\x04")
    assert again.close() == 0


INTERRUPTED_AT_A_PROMPT = """
import os, signal, threading, time
from spark_analytics.runtime import interrupts

running, met = threading.Event(), []
with interrupts.ending(), interrupts.on_interrupt(lambda: met.append(running.is_set())):
    for _ in range(20):
        try:
            with interrupts.interruptible():
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
        except KeyboardInterrupt:
            running.set()
            time.sleep(0.001)
            running.clear()
print(sum(met), len(met))
"""


def test_an_interrupt_at_the_prompt_does_not_reach_the_next_statement():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_A_PROMPT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0 20\n"
