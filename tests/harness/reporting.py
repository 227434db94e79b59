"""What a run of the tests shows: progress and time left, and at the end one screen about what failed."""

import os
import shlex
import sys
import time
from collections import Counter

import pytest

from harness import rings

INTERVAL = 30.0
"""Seconds between two lines of progress where standard output is not a terminal."""

CACHE = "fshipper/durations"
LISTED = 25
"""Number of failed tests that the last screen lists."""

CLEAR_LINE = "\r\x1b[K"

NO_TIME = "not run for lack of time"

ALLOWED_SKIPS = {
    NO_TIME: "the run has a limit (--minutes); the summary names the files",
    "the samples are not here": "the Loghub samples are not part of the repository",
    "the real logs are not here": "the Loghub samples are not part of the repository",
    "the Loghub samples are not here": "the Loghub samples are not part of the repository",
    "no file system can be mounted here": "a container has no right to mount, or no FUSE and no vfat in its kernel",
}
"""Reasons of skips that are no failure with FSHIPPER_ALL=1, and why."""


class Progress:
    """One line on the progress of the run, and what is left by the durations of the last run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._cache = getattr(config, "cache", None)
        self._known: dict[str, float] = self._cache.get(CACHE, {}) if self._cache else {}
        self._new: dict[str, float] = {}
        self._waiting: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._failed: list[pytest.TestReport] = []
        self._skipped: Counter[str] = Counter()
        self._started = self._shown = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._waiting = self._waiting or {plain(name) for name in ids}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._waiting = self._waiting or {plain(item.nodeid) for item in session.items}

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """No letter for each test: the line of progress replaces them, and a line names each failure."""
        if report.failed:
            return ("failed" if report.when == "call" else "error", "", "")
        shown = "passed" if report.passed else "skipped"
        return (shown if report.when == "call" or report.skipped else "", "", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = plain(report.nodeid)
        self._new[name] = self._new.get(name, 0.0) + report.duration
        if report.failed:
            self._counts["failed"] += 1
            self._failed.append(report)
            self._write(f"{CLEAR_LINE if sys.stdout.isatty() else ''}failed: {name}\n")
        elif report.skipped:
            self._counts["skipped"] += 1
            self._skipped[why(report)] += 1
        elif report.when == "call":
            self._counts["passed"] += 1
        if report.when == "teardown":
            self._waiting.discard(name)
            self._show()

    def _show(self) -> None:
        now, screen = time.monotonic(), sys.stdout.isatty()
        if now - self._shown < (0.2 if screen else INTERVAL):
            return
        self._shown = now
        done, left = len(self._new), len(self._waiting)
        counts = ", ".join(f"{number} {what}" for what, number in sorted(self._counts.items()))
        line = f"{done} of {done + left} tests, {counts}; {clock(now - self._started)}, {self._left(now)}"
        self._write(f"{CLEAR_LINE}{line}" if screen else f"{line}\n")

    def _write(self, text: str) -> None:
        self._config.pluginmanager.get_plugin("terminalreporter").write(text, flush=True)

    def _left(self, now: float) -> str:
        """Time left: by the durations of the last run, as far as it knows the tests; else by their number."""
        if all(name in self._known for name in self._waiting):
            spent = sum(self._new.values())
            pace = (now - self._started) / max(spent, 0.1)
            return f"about {clock(pace * sum(self._known[name] for name in self._waiting))} left"
        return f"{100 * len(self._new) // max(1, len(self._new) + len(self._waiting))} %"

    def pytest_sessionfinish(self) -> None:
        if sys.stdout.isatty():
            self._write(CLEAR_LINE)
        if self._cache and self._new:
            self._cache.set(CACHE, self._known | {name: round(each, 2) for name, each in self._new.items()})

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        ring = self._config.getoption("ring")
        for reason, number in self._skipped.most_common():
            terminalreporter.line(f"{number} skipped: {reason}")
        if ring != rings.ALL:
            terminalreporter.line(f"Not in ring {ring}: see docs/development/tests.md, or run `make test-all`")
        if not self._failed:
            return
        terminalreporter.section("what failed", sep="-")
        for report in self._failed[:LISTED]:
            terminalreporter.line(plain(report.nodeid) + ("" if report.when == "call" else f" ({report.when})"))
            terminalreporter.line(f"    {message(report)}")
            for name, value in report.user_properties:
                if name == "directory":
                    terminalreporter.line(f"    logs of its programs: {value}")
        if len(self._failed) > LISTED:
            terminalreporter.line(f"... and {len(self._failed) - LISTED} more")
        names = " ".join(shlex.quote(plain(report.nodeid)) for report in self._failed[:LISTED])
        terminalreporter.line(f"Run again: {sys.executable} -m pytest {names}")


def plain(name: str) -> str:
    """The id of a test without the group that pytest-xdist appends."""
    return name.rpartition("@")[0] if "@" in name and "]" not in name.rpartition("@")[2] else name


def clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes}:{seconds:02}"


def message(report: pytest.TestReport) -> str:
    """The first line of what a test failed with."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
    return lines[0][:200] if lines else ""


def why(report: pytest.TestReport) -> str:
    """The reason of a skip."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def fail_unlisted_skip(report: pytest.TestReport) -> None:
    """With FSHIPPER_ALL=1 a skip is a failure, unless its reason is listed."""
    if report.skipped and os.environ.get("FSHIPPER_ALL") and not hasattr(report, "wasxfail"):
        reason = why(report)
        if not any(allowed in reason for allowed in ALLOWED_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"skipped, which FSHIPPER_ALL=1 forbids: {reason}"
