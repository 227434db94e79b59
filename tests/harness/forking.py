"""Starts of `fshipper` without its imports: a server that has imported everything forks a child for each start.

    process = popen(["status"], env=..., stdout=subprocess.PIPE)   # a subprocess.Popen

The child is a process of its own and a child of the test process: signals, exit codes, pipes and SIGKILL are as real as
after an exec. It is used where the start itself is not under test (see `rings.REAL_STARTS`), and not where the
environment changes what the interpreter does at its start.

The server refuses to start inside its own child, and it refuses to fork when MAX_CHILDREN of its children live.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

FSHIPPER = str(Path(sysconfig.get_path("scripts")) / "fshipper")
MARK = "FSHIPPER_FORKED"
"""Environment variable of the server and of its children, in which no server starts."""

EVENT = "forking.fork"
"""The audit event of a start by a fork, as `subprocess.Popen` is that of a start by an exec."""

MAX_CHILDREN = 80
MAX_REQUEST = 1 << 20
PR_SET_CHILD_SUBREAPER = 36
SPECIAL = ("LC_", "PYTHON", "LD_", "MALLOC_", "LANG")
"""Beginnings of names of variables that count when an interpreter starts."""

PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")

MODULES = (
    "producer.cli", "producer.main", "producer.preflight.validate", "producer.discovery.watcher", "consumer.cli",
    "consumer.main", "consumer.app", "consumer.audit.app", "consumer.fleet.app", "consumer.read.tail",
    "consumer.read.search", "consumer.web.app", "consumer.dlq.app", "consumer.audit.redact", "partitioner.cli",
    "partitioner.app", "partitioner.access.app", "partitioner.access.cli", "deploy.install.app", "shipper.main",
    "shipper.config", "spark_analytics.app", "spark_analytics.delivery.send", "typer", "typer._click.decorators",
    "pydantic.type_adapter", "nats.js", "rich.live", "rich.console", "structlog.dev", "tomli_w", "zstandard",
)  # fmt: skip


class _Choice:
    """How programs start now: by an exec, or by the server of this process."""

    real = False
    server: "_Server | None" = None
    lock = threading.Lock()  #: held for a fork, by one of the threads of a test


def use_exec(real: bool) -> None:
    """Choose real starts for the tests that follow."""
    _Choice.real = real


def popen(arguments: list[str], *, env: dict[str, str], **how: Any) -> "subprocess.Popen":
    """Start `fshipper` with some arguments, by a fork where that makes no difference to the test."""
    can = not _Choice.real and not any(how.get(name) for name in ("preexec_fn", "user", "group", "pass_fds", "umask"))
    if can and _same_start(env):
        return _Forked([FSHIPPER, *arguments], env=env, **how)
    return subprocess.Popen([FSHIPPER, *arguments], env=env, **how)


def run(
    arguments: list[str], *, env: dict[str, str], within: float, stdin: Any = subprocess.DEVNULL, **how: Any
) -> "subprocess.CompletedProcess[str]":
    """One command to its end; it is killed after `within` seconds, and the error holds its output."""
    from harness.waiting import Limit  # noqa: PLC0415 - the server, which runs this file, has no package `harness`

    with popen(
        arguments, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how
    ) as process:
        limit = Limit(within)
        while not limit.is_over():
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=limit.seconds_left())
                return subprocess.CompletedProcess(process.args, process.returncode, out, err)
        process.kill()
        out, err = process.communicate()
    raise AssertionError(f"{arguments} did not end in {within} s\n{out}\n{err}")


def close() -> None:
    """End the server of this process."""
    if _Choice.server is not None:
        _Choice.server.close()
        _Choice.server = None


def _special(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(SPECIAL)}


OWN_SPECIAL = _special(os.environ)
"""Those of the person who runs the tests; the server has them too."""


def _same_start(env: dict[str, str]) -> bool:
    return MARK not in os.environ and _special(env) in ({}, {"LANG": os.environ.get("LANG")}, OWN_SPECIAL)


class _Forked(subprocess.Popen):
    """A Popen whose child is made by the server; everything else is inherited."""

    def _execute_child(self, *given: Any, **named: Any) -> None:
        sys.audit(EVENT, FSHIPPER)
        bound = inspect.signature(subprocess.Popen._execute_child).bind(self, *given, **named).arguments
        ends = [bound["p2cread"], bound["c2pwrite"], bound["errwrite"]]
        files = [end if end >= 0 else number for number, end in enumerate(ends)]
        request = {
            "arguments": [os.fspath(each) for each in bound["args"]],
            "env": bound["env"],
            "cwd": str(bound["cwd"] or os.getcwd()),
            "session": bool(bound["start_new_session"]),
        }
        with _Choice.lock:  # answers would be exchanged between threads
            if _Choice.server is None or not _Choice.server.alive:
                _Choice.server = _Server()
            self.pid = _Choice.server.fork(request, files)
        self._child_created = True
        self._close_pipe_fds(*(bound[name] for name in PIPES))


class _Server:
    """The forking server, a child of the test process that ends with it."""

    def __init__(self) -> None:
        assert MARK not in os.environ, "a forking server does not start inside its own child"
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=_environment()
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, request: dict[str, Any], files: list[int]) -> int:
        """A new child of this process, which runs a command."""
        _prctl(PR_SET_CHILD_SUBREAPER, 1)  # the child's parent ends, so the child becomes ours
        try:
            socket.send_fds(self._link, [json.dumps(request).encode()], files)
            answer = json.loads(self._link.recv(4096) or b'{"error": "the forking server has ended"}')
        finally:
            _prctl(PR_SET_CHILD_SUBREAPER, 0)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return int(answer["pid"])

    def close(self) -> None:
        self._link.close()
        self._process.wait(10)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHIPPER_", "NATS_"))}
    return kept | {MARK: "1"}


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _serve(link: socket.socket) -> None:
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    children: list[int] = []
    while True:
        data, files, _, _ = socket.recv_fds(link, MAX_REQUEST, 3)
        if not data:
            return
        children = [pid for pid in children if Path(f"/proc/{pid}").exists()]
        if len(children) >= MAX_CHILDREN:
            link.send(json.dumps({"error": f"{MAX_CHILDREN} forked programs run already"}).encode())
        elif pid := _fork(link, files):
            children.append(pid)
            link.send(json.dumps({"pid": pid}).encode())
        else:
            request = json.loads(data)
            link.close()
            _become(request, files)
        for descriptor in files:
            os.close(descriptor)


def _fork(link: socket.socket, files: list[int]) -> int:
    """The id of a new process that is no child of this one; 0 in that process."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child:
            os.write(writing, b"%d" % child)
            os._exit(0)
        os.close(reading)
        os.close(writing)
        return 0
    os.close(writing)
    with open(reading, "rb") as stream:
        pid = int(stream.read())
    os.waitpid(between, 0)  # from here on it is a child of the test process
    return pid


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Run a command as a process that was started with it, to the end of the process."""
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
    for descriptor in files:
        os.close(descriptor)
    if request["session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["env"] | {MARK: "1"})
    time.tzset()
    os.chdir(request["cwd"])
    sys.argv = list(request["arguments"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", 1 if os.isatty(1) else -1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    for name in ("__file__", "__spec__"):
        vars(sys.modules["__main__"]).pop(name, None)
    try:
        sys.modules["shipper.main"].main(sys.argv[1:])
    except SystemExit as ended:
        _end(ended.code if isinstance(ended.code, int) else 1)


def _end(code: int) -> NoReturn:
    """What the interpreter does at its end, except freeing modules, which would copy every page of the server."""
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    if os.environ.get(MARK) != "1" or len(sys.argv) != 2:
        sys.exit("this is started by the tests")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), socket.socket(fileno=int(sys.argv[1])) as link_:
        _serve(link_)
