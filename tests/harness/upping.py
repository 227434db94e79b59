"""`fshipper up` of a test: a home directory of its own, ports of its own, and no process that outlives the test."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

from harness.forking import FSHIPPER
from harness.ports import free_port
from harness.waiting import ended, until

START_SECONDS = 120.0
PROGRAMS = ("server", "collector", "producer", "page")


class Up:
    """A data directory below `home`, and the `fshipper up` that runs in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.archive = self.data / "archive"
        self.ports = {name: free_port() for name in PROGRAMS}
        self.process: subprocess.Popen | None = None
        self._number = 0
        own = self.data / "up"
        own.mkdir(parents=True, mode=0o700)
        (own / "up.json").write_text(json.dumps({"v": 1, "paths": [], "ports": self.ports}))

    def __enter__(self) -> "Up":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "JAVA_HOME", "LANG") if name in os.environ}
        return kept | {"HOME": str(self.home), "HOSTNAME": "one.example.net"} | more

    def start(self, *paths: object, **more: str) -> dict:
        """Start it; the JSON object that it prints when everything runs."""
        self._number += 1
        self.output = self.home / f"up-{self._number}.json"
        with self.output.open("wb") as out, self.output.with_suffix(".txt").open("wb") as err:
            self.process = subprocess.Popen(
                [FSHIPPER, "up", "--json", "--data", str(self.data), *map(str, paths)],
                env=self.environment(**more), cwd=self.home, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip
        until(
            lambda: self.output.read_bytes().endswith(b"\n") or self.process.poll() is not None,
            within=START_SECONDS,
            what=self.text,
        )
        assert self.process.poll() is None, self.text()
        return json.loads(self.output.read_bytes())

    def text(self) -> str:
        """What it printed for people."""
        return self.output.with_suffix(".txt").read_text()

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return ended(self.process, within=60, what=self.text)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def run(self, *arguments: object, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [FSHIPPER, *map(str, arguments)],
            env=self.environment(**more), cwd=self.home, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=START_SECONDS, check=False,
        )  # fmt: skip

    def lines(self, word: str) -> list[str]:
        """The lines that search finds, as they are in the files."""
        done = self.run("search", word, "--json", "--archive", self.archive)
        return [each["line"] for each in map(json.loads, done.stdout.splitlines()) if each.get("type") == "hit"]

    def processes(self) -> list[int]:
        """Ids of the processes that have the data directory in their arguments or their environment."""
        wanted, found = str(self.data).encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if wanted in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found

    def pid(self, command: str) -> int:
        """The process of one of the programs; 0: none runs."""
        for pid in self.processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if command in (*words[1:3], os.path.basename(words[0])):
                    return pid
        return 0
