"""The machine while it measures: who uses it besides us, and whether numbers mean anything then."""

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
NOISE_CORES = 0.25  # above it, what others do would be measured too
WAIT_SECONDS = 30
POLL_SECONDS = 1.0
KERNEL = 2  # the parent of all kernel threads: what they do is ours as a rule (writing back, sockets)
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
NOT_BUSY = (3, 4)  # idle and waiting for the disk; guests (8, 9) are in the user's time already


class TooNoisyError(Exception):
    """Others use the machine: a comparison would be of them."""


@dataclass(frozen=True)
class Share:
    """One process as the kernel counts it."""

    parent: int
    own_s: float  #: CPU seconds of itself
    reaped_s: float  #: and of all its children that ended


@dataclass(frozen=True)
class Moment:
    """The CPU time of all processes and of ours."""

    at: float
    busy_s: float  #: of all cores together, with what the hypervisor gave to others
    ours_s: float  #: of our processes, of those that ended, and of the kernel's threads


def ours(processes: Mapping[int, Share], root: int) -> float:
    """CPU seconds of `root`, of everything below it, and of the kernel's own threads."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    total = sum(processes[pid].own_s for pid in children.get(KERNEL, ()))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, ())
        if pid in processes:
            total += processes[pid].own_s + processes[pid].reaped_s
    return total


def others_cores(before: Moment, after: Moment) -> float:
    """What others used between two moments, in cores; never below 0, the two clocks differ by some ticks."""
    seconds = after.at - before.at
    if seconds <= 0:
        return 0.0
    return max(0.0, (after.busy_s - before.busy_s) - (after.ours_s - before.ours_s)) / seconds


def is_noisy(cores: float) -> bool:
    """Whether others use so much that nothing may be compared."""
    return cores > NOISE_CORES


def now() -> Moment:
    """Read the clocks."""
    counts = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    busy = sum(count for place, count in enumerate(counts) if place not in NOT_BUSY)
    return Moment(time.monotonic(), busy / TICKS, ours(_processes(), os.getpid()))


def _processes() -> dict[int, Share]:
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            own, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            found[int(entry)] = Share(int(fields[1]), own / TICKS, reaped / TICKS)
    return found


def _stat(pid: int) -> list[str]:
    """The fields after the name of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process that runs, without its children; 0 when it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def memory_mib(pid: int, field: str) -> float:
    """`VmHWM` (the most it ever had) or `VmRSS` (now) of a process, of itself alone; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    found = status.partition(f"{field}:")[2].split()
    return int(found[0]) / 1024 if found else 0.0


def peak_mib(pid: int) -> float:
    """The most memory that a process or one of its children ever had; a sum would count twice what a fork shares."""
    return max(memory_mib(pid, "VmHWM"), *map(peak_mib, _children(pid)), 0.0)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end at any step
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of a process, of its children, and of those that ended and were waited for."""
    fields = _stat(pid)
    own = sum(map(int, fields[11:15])) / TICKS if fields else 0.0
    return own + sum(map(tree_cpu_s, _children(pid)))


def adopt_orphans() -> None:
    """Orphans of a child become ours: a Java that outlives its report would count as a foreign process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def quiet(wait_seconds: float = WAIT_SECONDS, look: Callable[[], float] | None = None) -> float:
    """Wait for a quiet machine; the cores that others use then.

    Raises:
        TooNoisyError: it did not become quiet.
    """
    look = look or look_around
    deadline = time.monotonic() + wait_seconds
    while is_noisy(cores := look()):
        if time.monotonic() >= deadline:
            raise TooNoisyError(
                f"others use {cores:.2f} cores (at most {NOISE_CORES} are allowed): the numbers would be theirs too, "
                "so nothing is compared; wait until they are done, or say --anyway"
            )
    return cores


def look_around() -> float:
    """What others use for a second."""
    before = now()
    time.sleep(POLL_SECONDS)
    return others_cores(before, now())


def settled() -> None:
    """What earlier work left to write is written, so that the next does not pay for it."""
    os.sync()
