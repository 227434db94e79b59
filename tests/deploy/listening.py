"""A service manager's end of the notify protocol, and a disk that hangs."""

import contextlib
import itertools
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

BESIDE = ("WATCHDOG=", "STATUS=", "MONOTONIC_USEC=")  # what comes while a phase lasts, or with its change


class Manager:
    """Listens as systemd does; every assignment is kept with the monotonic time at which it came."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "notify"
        self.heard: list[tuple[float, str]] = []
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._link.bind(str(self.path))
        self._link.settimeout(0.1)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> "Manager":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._link.close()

    def environment(self, watchdog: float = 0.0) -> dict[str, str]:
        """What systemd sets, with a watchdog of so many seconds."""
        usec = {"WATCHDOG_USEC": str(int(watchdog * 1e6))} if watchdog else {}
        return {"NOTIFY_SOCKET": str(self.path)} | usec

    def count(self, assignment: str, since: float = 0.0) -> int:
        """How often it came since a monotonic time."""
        return sum(text == assignment and at >= since for at, text in list(self.heard))

    def longest_silence(self, begin: float, end: float) -> float:
        """The longest time without a ping of the watchdog between two monotonic times."""
        pings = [at for at, text in list(self.heard) if text == "WATCHDOG=1" and begin < at < end]
        marks = [begin, *pings, end]
        return max(after - before for before, after in itertools.pairwise(marks))

    @property
    def status(self) -> str:
        """The newest status."""
        return next((text[7:] for _, text in reversed(self.heard) if text.startswith("STATUS=")), "")

    @property
    def newest_at(self) -> float:
        """The monotonic time of what came last."""
        return self.heard[-1][0] if self.heard else 0.0

    @property
    def phases(self) -> list[str]:
        """What came besides pings and statuses, by name, without repeats in a row."""
        names = [text.partition("=")[0] for _, text in self.heard if not text.startswith(BESIDE)]
        return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]

    def _listen(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                text = self._link.recv(4096).decode()
                self.heard += [(time.monotonic(), line) for line in text.splitlines()]


class HangingDisk:
    """A small file system at `path`. While it is frozen, every writer waits, as on a disk that hangs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        image = path.with_suffix(".img")
        image.touch()
        os.truncate(image, 64 * 1024 * 1024)
        _run("mkfs.ext4", "-q", "-m", "0", image)
        _run("mount", "-o", "loop", image, path)

    def hang(self) -> None:
        _run("fsfreeze", "--freeze", self.path)

    def go_on(self) -> None:
        _run("fsfreeze", "--unfreeze", self.path)

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.go_on()
        _run("umount", "--lazy", self.path)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def hanging_disk(path: Path):
    """A disk that can be made to hang; skips where nothing may be mounted."""
    try:
        disk = HangingDisk(path)
    except (FileNotFoundError, PermissionError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be made and mounted here (root, e2fsprogs, loop devices): {error}")
    try:
        yield disk
    finally:
        disk.close()
