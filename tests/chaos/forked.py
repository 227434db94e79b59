"""A producer that starts immediately: a process that has imported everything forks one child for each life.

A producer needs a third of a second for its imports; one that is killed every 200 ms would never get further. The
child is a process of its own in everything else: SIGKILL ends it wherever it is.

Run as a program: for each line on standard input, a JSON list of arguments, it forks a child that runs `fshipper` with
them, writes its process id, waits for its end, and writes the status.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

MODULES = ("producer.cli", "producer.app", "shipper.main", "shipper.jetstream.publisher", "nats.js", "structlog.dev")
PR_SET_PDEATHSIG = 1


class Forked:
    """One producer after the other, never two at a time."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self._arguments = json.dumps(arguments)
        self.log_file = log
        with log.open("ab") as stream:
            self._parent = subprocess.Popen(
                [sys.executable, __file__],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            )
        self.pid = 0

    def start(self) -> None:
        """Fork the next one; returns when it is alive."""
        self._parent.stdin.write(self._arguments + "\n")
        self._parent.stdin.flush()
        self.pid = int(self._parent.stdout.readline())

    def end(self, number: int) -> int:
        """Send a signal and wait; its exit code, negative if the signal ended it."""
        os.kill(self.pid, number)
        return int(self._parent.stdout.readline())

    def close(self) -> None:
        """End the parent, and with it the child that may be alive."""
        self._parent.kill()
        self._parent.wait()
        self._parent.stdin.close()
        self._parent.stdout.close()

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")


def peak_bytes(pid: int) -> int:
    """Most memory that a process ever had (VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def _serve() -> None:
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(0, 1)
            sys.modules["shipper.main"].main(json.loads(line))
        _say(child)
        _say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
