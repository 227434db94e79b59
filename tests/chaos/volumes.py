"""The archive's disk, which can be full or read-only: a small file system of its own, where one may be mounted."""

import contextlib
import os
import resource
import subprocess
from pathlib import Path

ATTEMPTS = 50
ROOMY_BYTES = 256 * 1024 * 1024


class Volume:
    """A file system of its own at `path`, of the given size. Where it may not be mounted, `Limits` stand in for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOMY_BYTES}", "chaos", path], check=True)

    def fill(self, pid: int, room: int) -> None:
        """Leave about `room` bytes."""
        for _ in range(ATTEMPTS):  # refused if more was written meanwhile
            found = os.statvfs(self.path)
            with contextlib.suppress(subprocess.CalledProcessError):
                self._remount(f"size={(found.f_blocks - found.f_bfree) * found.f_frsize + room}")
                return
        raise AssertionError(f"{self.path} cannot be made smaller")

    def make_room(self, pid: int) -> None:
        self._remount(f"size={ROOMY_BYTES}")

    def protect(self) -> None:
        """Read-only; no process may have a file open for writing."""
        self._remount("ro")

    def release(self) -> None:
        self._remount("rw")

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self.path], check=True)

    def _remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", self.path], check=True, capture_output=True)


class Limits:
    """A limit on the size of every file that the collector writes, for a user who may not mount anything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)

    def fill(self, pid: int, room: int) -> None:
        """No file grows beyond the largest one of the archive and `room`."""
        sizes = [found.stat().st_size for found in self.path.rglob("*") if found.is_file()]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (max([0, *sizes]) + room, resource.RLIM_INFINITY))

    def make_room(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def protect(self) -> None:
        self.path.chmod(0o500)

    def release(self) -> None:
        self.path.chmod(0o755)

    def close(self) -> None:
        """Nothing is mounted."""


def volume_at(path: Path) -> "Volume | Limits":
    """What can be had at `path`."""
    try:
        return Volume(path)
    except (subprocess.CalledProcessError, FileNotFoundError, PermissionError) as error:
        print(f"no file system may be mounted here ({error}): files are limited instead")
        return Limits(path)
