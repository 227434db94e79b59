"""Processes of `demo` and `up`: started through the `fshipper` command, ended by their ids, never outliving it.

Signals become an exception at the next nap, never inside a step: no child is started and then forgotten.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from types import FrameType
from typing import Any, Self

from shipper.errors import EXIT_OK, EXIT_UNAVAILABLE, ShipperError, Unavailable

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NAP_SECONDS = 0.05
"""How long a signal may wait to be noticed."""
SIGNALLED = 128
"""Added to a signal's number, as shells do."""


class Interrupted(Exception):  # noqa: N818 - no error: a signal requested it
    """A signal requested the end of the command."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.code = SIGNALLED + number


def environment(*foreign: str) -> dict[str, str]:
    """Our environment, without `foreign` and what changes the programs' settings or names a service manager."""
    others = {"NOTIFY_SOCKET", *foreign}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in others and not name.startswith(("SHIPPER_", "NATS_"))
    }


class Interrupts:
    """While entered, SIGINT, SIGTERM and SIGHUP are kept until `check` or `nap` raises Interrupted.

    A SIGHUP that is ignored, as after nohup, stays ignored.
    """

    def __init__(self) -> None:
        self._received = 0

    def __enter__(self) -> Self:
        self._before: dict[int, Any] = {
            number: signal.signal(number, self._on_signal)
            for number in STOP_SIGNALS
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interrupted if a signal arrived."""
        if self._received:
            raise Interrupted(self._received)

    def nap(self, seconds: float) -> None:
        """Sleep, or raise Interrupted."""
        until = time.monotonic() + seconds
        self.check()
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, NAP_SECONDS))
            self.check()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._received = self._received or number


POLL_SECONDS = 0.05
GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL when a demo ends early: a kill loses nothing, so a long wait is not needed."""
MAX_REVIVALS = 20
_SIGNAL_OF_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG in linux/prctl.h

_prctl = getattr(ctypes.CDLL(None), "prctl", None)  # None off Linux: a SIGKILL of the parent leaves its children there


class Program:
    """One program that runs until it is stopped; `ready` is in its log once it works."""

    def __init__(self, name: str, arguments: list[str], environment: dict[str, str], log: Path, ready: str) -> None:
        self.name = name
        self.arguments = arguments
        self.log = log
        self.kills = 0
        self.revivals = 0
        self.back_after: float | None = None  #: seconds from the last kill until it worked again
        self.stopping = False
        self._environment = environment
        self._ready = ready.encode()
        self.start()

    def start(self) -> None:
        """Start it, again where it ended."""
        self.up = False
        self._started = time.monotonic()
        self._read_from = self.log.stat().st_size if self.log.exists() else 0
        self.process = spawned(self.arguments, self._environment, self.log, self.log)

    def kill(self) -> int:
        """SIGKILL; the id of the process that died."""
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.back_after = None
        return self.process.pid

    def look(self) -> bool:
        """Whether it began to work since the last call."""
        if self.up or self._ready not in self._output():
            return False
        self.up = True
        self.back_after = time.monotonic() - self._started if self.kills else None
        return True

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    @property
    def last_words(self) -> str:
        """The end of its log."""
        return self._output().decode(errors="replace")[-1500:].strip()

    def found(self, pattern: str) -> str:
        """The first group of `pattern` in its log since its start; empty: no match yet."""
        match = re.search(pattern, self._output().decode(errors="replace"))
        return match[1] if match else ""

    def _output(self) -> bytes:
        with self.log.open("rb") as log:
            log.seek(self._read_from)
            return log.read(1 << 20)


class Programs:
    """All processes of a command; leaving the `with` block ends whatever still runs.

    Raises Unavailable: the `fshipper` next to this Python is missing.
    """

    def __init__(self, logs: Path, environment: dict[str, str], interrupts: Interrupts) -> None:
        self._logs = logs
        self._environment = environment
        self.interrupts = interrupts  #: whose signals end a wait
        command = Path(sys.executable).with_name("fshipper")
        if not command.exists():
            raise Unavailable(f"there is no {command}", hint="pip install fshipper")
        self._fshipper = str(command)
        self._commands: list[subprocess.Popen[bytes]] = []
        self.all: dict[str, Program] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end([program.process for program in self.all.values()] + self._commands)

    def start(self, name: str, *arguments: str, ready: str, **environment: str) -> Program:
        """Start `fshipper arguments...` as the program `name`."""
        log = self._logs / f"{name.replace(' ', '-')}.log"
        known = self._environment | environment
        self.all[name] = Program(name, [self._fshipper, *arguments], known, log, ready)
        return self.all[name]

    def tell(self, **environment: str) -> None:
        """Put more into the environment of what starts from now on."""
        self._environment |= environment

    def wait_until_up(self, *programs: Program, within: float) -> None:
        """Wait until `programs` work. Raises ShipperError: one ends before, or takes too long."""
        deadline = time.monotonic() + within
        for program in programs:
            while not (program.look() or program.up):
                if not program.running or time.monotonic() > deadline:
                    how = "is not ready" if program.running else f"ended with {program.process.returncode}"
                    raise ShipperError(f"{program.name} {how}\n{program.last_words}", hint=f"see {program.log}")
                self.interrupts.nap(POLL_SECONDS)

    def revive(self) -> list[Program]:
        """Restart programs that ended because the server was away for too long, as a service manager would.

        Raises ShipperError: a program ended without a kill of the demo, so that is a defect.
        """
        revived = []
        for program in self.all.values():
            if program.running or program.stopping:
                continue
            if program.process.returncode != EXIT_UNAVAILABLE or program.revivals >= MAX_REVIVALS:
                raise ShipperError(
                    f"{program.name} ended by itself with {program.process.returncode}\n{program.last_words}",
                    hint=f"see {program.log}",
                )
            program.revivals += 1
            program.start()
            revived.append(program)
        return revived

    def stop(self, *programs: Program, within: float) -> None:
        """SIGTERM, and wait for the ends. Raises ShipperError: one does not end, or not with 0."""
        for program in programs:
            program.stopping = True
            program.process.terminate()
        for program in programs:
            code = self._wait(program.process, within)
            if code != 0:
                how = "does not end" if code is None else f"ended with {code}"
                raise ShipperError(f"{program.name} {how} on SIGTERM\n{program.last_words}", hint=f"see {program.log}")

    def must(
        self, name: str, *arguments: str, within: float, codes: Collection[int] = (EXIT_OK,), **environment: str
    ) -> str:
        """The output of one command that runs to its end; its messages go to `<name>.log`.

        Raises ShipperError: its exit code is not one of `codes`, or it takes longer than `within` seconds. Unavailable:
        the command lacks a service or a program.
        """
        output, log = self._logs / f"{name}.out", self._logs / f"{name}.log"
        process = spawned([self._fshipper, *arguments], self._environment | environment, output, log)
        self._commands.append(process)
        code = self._wait(process, within)
        if code is None:
            end([process])
            raise ShipperError(f"fshipper {arguments[0]} did not end within {within:.0f} s", hint=f"see {log}")
        if code not in codes:
            words = log.read_text(errors="replace")[-1500:].strip()
            if code == EXIT_UNAVAILABLE:
                raise Unavailable(words, hint=f"see {log}")
            raise ShipperError(f"fshipper {arguments[0]} ended with {code}\n{words}", hint=f"see {log}")
        return output.read_text(errors="replace")

    def _wait(self, process: subprocess.Popen[bytes], within: float) -> int | None:
        deadline = time.monotonic() + within
        while (code := process.poll()) is None and time.monotonic() < deadline:
            self.interrupts.nap(POLL_SECONDS)
        return code


def spawned(arguments: list[str], environment: dict[str, str], output: Path, log: Path) -> "subprocess.Popen[bytes]":
    """A process in a group of its own: Ctrl-C reaches the parent alone, which then ends the others in order."""
    parent = os.getpid()

    def die_with_the_parent() -> None:  # pragma: no cover - runs in the child
        if _prctl is not None:
            _prctl(_SIGNAL_OF_PARENTS_DEATH, int(signal.SIGKILL))
        if os.getppid() != parent:
            os._exit(1)

    with output.open("ab") as out, log.open("ab") as err:
        return subprocess.Popen(
            arguments,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            process_group=0,
            preexec_fn=die_with_the_parent,  # noqa: PLW1509 - unsafe among threads; the parent has one
        )


def end(processes: list["subprocess.Popen[bytes]"], *, within: float = GRACE_SECONDS) -> None:
    """SIGTERM to the groups of all that run, SIGKILL to what is left of them after `within` seconds."""
    for process in processes:
        if process.poll() is None:
            _signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + within
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        if process.poll() is None:
            _signal_group(process, signal.SIGKILL)
            process.wait()


def _signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
