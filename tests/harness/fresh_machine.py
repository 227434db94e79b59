"""An unused machine, for one document: its commands are typed one by one; the result of each is printed.

    unshare --mount --net --pid --fork --uts --mount-proc --map-root-user python fresh_machine.py DIRECTORY < commands

It runs as process 1 of namespaces of its own: what is started here listens, writes and ends here. `/etc`, `/var` and
the checkout are written over a layer that is thrown away; `/srv`, `/run` and `/var/log` are empty but for the logs of
some programs, which grow. Every command is a shell of its own with the directory and the variables that the one before
left. One that follows is interrupted (Ctrl-C) when it has shown something; one with `&` runs to the end, when it gets
SIGTERM. `fshipper up` runs to the end, too, in a terminal of its own.
"""

import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOST = "web1.example.net"
FOLLOWS = re.compile(
    r"^(?!.*(--once|--dry-run|--drain))"
    r".*(\btail (.* )?-[fF]\b| -f\b|--watch\b|fshipper (browse|web|produce|consume|server)\b)"
)
UP = re.compile(r"\bfshipper up\b(?!.*&)")
UP_SECONDS, UP_RUNS = 90.0, b"Ctrl-C ends it"
BEHIND = re.compile(r"&\s*(#.*)?$")
SECONDS = 240.0  # a report on a busy machine
STOP_SECONDS = 30.0
INTERRUPTED = 130
SHELL = """
. {state}; cd "$PWD"; set -o pipefail
trap : INT TERM
{text}
code=$?
export -p > {state}
if [ -n "$!" ]; then while kill -0 $!; do wait $!; done 2>/dev/null; wait $!; code=$?; fi
exit $code
"""
SHIMS = {
    "sudo": '#!/bin/sh\nexec "$@"\n',  # root is who types here
    "make": '#!/bin/sh\nexec {make} -n "$@"\n',  # it has the target; what that does takes minutes, and has tests
    "systemctl": f'#!/bin/sh\nexec {{python}} {HERE / "start_units.py"} "$@"\n',  # starts the program of the unit
}
LOGS = {
    "/var/log/syslog": "Nov 20 10:00:{0:02d} web1 app[17]: request {0} took {1} ms",
    "/var/log/nginx/access.log": '10.0.0.{1} - - [20/Nov/2026:10:00:{0:02d} +0000] "GET /a HTTP/1.1" 500 {0}',
    "/var/log/nginx/error.log": "2026/11/20 10:00:{0:02d} [error] upstream {1} timed out",
}


def layered(directory: Path) -> None:
    """Everything that commands write to is in memory; what was there is seen below it."""
    mount("tmpfs", directory)
    for number, place in enumerate(("/etc", "/var", str(ROOT))):
        upper, work = directory / f"upper{number}", directory / f"work{number}"
        upper.mkdir()
        work.mkdir()
        mount("overlay", Path(place), f"lowerdir={place},upperdir={upper},workdir={work}")
    for place in ("/srv", "/run", "/var/log"):
        mount("tmpfs", Path(place))


def mount(kind: str, place: Path, options: str = "") -> None:
    """mount(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(kind.encode(), bytes(place), kind.encode(), 0, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {kind} on {place}")


def loopback_up() -> None:
    """127.0.0.1 of this machine, and of no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def logging(over: threading.Event) -> None:
    """The programs of the machine write a line now and then, until it is over."""
    for number in itertools.count():
        for path, line in LOGS.items():
            Path(path).parent.mkdir(exist_ok=True)
            with Path(path).open("a", encoding="utf-8") as log:
                log.writelines(line.format((number + n) % 60, n % 250) + "\n" for n in range(1 if number else 200))
        if over.wait(0.3):
            return


class Machine:
    """Where commands are typed; the owner of everything that they start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._state = directory / "state"
        self._terminals: list[int] = []
        self._running: list[tuple[dict[str, Any], subprocess.Popen[bytes], Path]] = []
        shims = directory / "bin"
        shims.mkdir()
        for name, text in SHIMS.items():
            (shims / name).write_text(text.format(python=sys.executable, make=shutil.which("make")))
            (shims / name).chmod(0o755)
        (directory / "home").mkdir()
        self._environment = {
            "PATH": f"{shims}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(directory / "home"), "HOSTNAME": HOST, "LANG": "C.UTF-8", "USER": "root", "TERM": "dumb",
            **{name: os.environ[name] for name in ("JAVA_HOME", "SPARK_LOCAL_IP") if name in os.environ},
        }  # fmt: skip
        self._state.write_text(f"cd {ROOT}\n")

    def type(self, command: dict[str, Any]) -> dict[str, Any]:
        """What became of one command: `code` (None: it had to be killed), `output`, `seconds`."""
        output = self._directory / f"output{len(list(self._directory.glob('output*')))}"
        master, terminal = pty.openpty()
        os.write(master, b"y\n")  # to every client
        begun = time.monotonic()
        with output.open("wb") as stream:
            process = subprocess.Popen(
                ["bash", "-c", SHELL.format(state=self._state, text=command["text"])],
                env=self._environment, stdin=terminal, stdout=stream, stderr=stream, start_new_session=True,
            )  # fmt: skip
        os.close(terminal)
        self._terminals.append(master)  # closed, it would hang up
        code: int | None = None
        if UP.search(command["text"]):
            deadline = time.monotonic() + UP_SECONDS
            while process.poll() is None and UP_RUNS not in output.read_bytes() and time.monotonic() < deadline:
                time.sleep(0.05)
            self._running.append((command, process, output))
            code = process.poll() or 0
        elif BEHIND.search(command["text"]):
            shown(process, output)
            self._running.append((command, process, output))
            code = process.poll() or 0
        elif FOLLOWS.search(command["text"]):
            is_there = shown(process, output)
            code = ended(process, signal.SIGINT)
            code = 0 if is_there and code == INTERRUPTED else code
        else:
            code = waited(process, SECONDS)
        return command | {"code": code, "output": tail_of(output), "seconds": round(time.monotonic() - begun, 1)}

    def end(self) -> list[dict[str, Any]]:
        """SIGTERM to what still runs, the newest first; what became of each."""
        told = []
        for command, process, output in reversed(self._running):
            code = process.poll() if process.poll() is not None else ended(process, signal.SIGTERM)
            told.append(command | {"code": code, "output": tail_of(output), "seconds": 0.0})
        return told


def shown(process: "subprocess.Popen[bytes]", output: Path) -> bool:
    """Whether it printed something and runs; returns when it is quiet, as a person does who types the next command."""
    begun, size, changed = time.monotonic(), 0, 0.0
    while process.poll() is None and (now := time.monotonic()) < begun + 20.0:
        if output.stat().st_size != size:
            size, changed = output.stat().st_size, now
        if size and (now > changed + 0.6 or now > begun + 2.5):
            return True
        time.sleep(0.05)
    return False


def ended(process: "subprocess.Popen[bytes]", by: signal.Signals) -> int | None:
    """Its exit code after this signal to it and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, by)
    return waited(process, STOP_SECONDS)


def waited(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    """Its exit code, None if it had to be killed."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def tail_of(output: Path) -> str:
    """The last words."""
    return output.read_bytes()[-3000:].decode(errors="replace")


def main(directory: Path, given: BinaryIO) -> None:
    """Type what is given, print what became of it."""
    layered(directory)
    if not (ROOT / ".venv").exists():
        (ROOT / ".venv").symlink_to(sys.prefix)
    loopback_up()
    socket.sethostname(HOST)
    Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {HOST}\n")
    over = threading.Event()
    writer = threading.Thread(target=logging, args=(over,))
    writer.start()
    machine = Machine(directory)
    told = [machine.type(command) for command in json.load(given)]
    told += machine.end()
    over.set()
    writer.join()
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdin.buffer)
