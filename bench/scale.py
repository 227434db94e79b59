"""What many files cost: 10,000 that rest, in one directory and over a hundred, and 1,000 that grow once a second.

    make scale                              all cases, about two minutes
    make scale SCALE="--only flat"          one of them

Each number has its target. A real server, a real `fshipper produce`, and a subscriber that sees what arrives.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import nats
from harness.fleet import FSHIPPER, Fleet
from machine import cpu_seconds, peak_mib
from programs import OTHER_TREE, server_sync, serving, with_sync
from rich.console import Console
from rich.table import Table

HOST = "scale1.example.net"
LINE = b"2026-11-20T10:00:00.000Z app[4711]: request served in 12 ms, user=17 path=/index.html status=200\n"
POLL_SECONDS = 1.0
CASES = ("flat", "spread", "growing")


@dataclass(frozen=True)
class Measured:
    """One number and its target."""

    case: str
    what: str
    value: float
    unit: str
    target: float | None

    @property
    def verdict(self) -> str:
        """Whether the target is met; empty where there is none."""
        return "" if self.target is None else "ok" if self.value <= self.target else "MISSED"


def main() -> int:
    arguments = parsed()
    directory = Path(tempfile.mkdtemp(prefix="fshipper-scale-", dir=arguments.directory))
    try:
        results = asyncio.run(run_all(directory, arguments))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report(results, as_json=arguments.json)
    return int(any(measured.verdict == "MISSED" for measured in results))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000, help="files that rest")
    parser.add_argument("--growing", type=int, default=1_000, help="files that grow once a second")
    parser.add_argument("--directories", type=int, default=125, help="over which the resting files are spread")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the CPU of the resting files is taken")
    parser.add_argument("--lines", type=int, default=50, help="how many new lines are timed")
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", default=None, help="where to work; a real disk, not tmpfs")
    return with_sync(parser).parse_args()


async def run_all(directory: Path, arguments: argparse.Namespace) -> list[Measured]:
    results: list[Measured] = []
    for case in arguments.only or CASES:
        with serving(directory / case / "natsd") as server:
            fleet = Fleet(directory / case, server.url, partitions=1)
            await asyncio.to_thread(fleet.apply)
            async with arrivals(server.url) as seen:
                if case == "growing":
                    results += await growing(fleet, seen, arguments)
                else:
                    spread = arguments.directories if case == "spread" else 1
                    results += await resting(case, fleet, seen, arguments, spread)
    return results


# -- cases --------------------------------------------------------------------------------------------------------


async def resting(
    case: str, fleet: Fleet, seen: "Arrivals", arguments: argparse.Namespace, directories: int
) -> list[Measured]:
    """Files that rest: the first start, what they cost, a new line in any of them, the next start, without hints."""
    paths = make_files(fleet.directory / "logs", arguments.files, directories)
    pattern = str(fleet.directory / "logs" / "*" / "*.log")
    results: list[Measured] = []

    def note(what: str, value: float, unit: str, target: float | None = None) -> None:
        results.append(Measured(case, what, round(value, 3), unit, target))

    async with producer(fleet, pattern) as (process, ready_seconds):
        note("first start to READY", ready_seconds, "s", 15.0)
        note("first start to everything published", await seen.everything(paths, within=60.0) + ready_seconds, "s")
        await asyncio.sleep(2.0)  # the last checkpoint
        note("CPU of one core at rest", await cpu_percent(process, arguments.seconds), "%", 2.0)
        worst, middle = await latencies(seen, paths, arguments.lines)
        note("a new line, slowest", worst, "s", 1.0)
        note("a new line, median", middle, "s")
        note("peak memory", peak_mib(process), "MiB", 150.0)
    async with producer(fleet, pattern) as (process, ready_seconds):
        note("next start to READY", ready_seconds, "s", 5.0)
        note("peak memory of the next start", peak_mib(process), "MiB", 150.0)
    if case == "flat":
        async with producer(fleet, pattern, "--no-watch") as (process, _):
            await asyncio.sleep(1.0)
            note("CPU without hints", await cpu_percent(process, arguments.seconds / 3), "%")
            worst, _ = await latencies(seen, paths, arguments.lines // 5)
            note("a new line without hints, slowest", worst, "s", POLL_SECONDS + 0.5)
    return results


async def growing(fleet: Fleet, seen: "Arrivals", arguments: argparse.Namespace) -> list[Measured]:
    """Files that each get a line a second: what a second of it costs."""
    paths = make_files(fleet.directory / "logs", arguments.growing, 1)
    seconds = arguments.seconds / 2
    async with producer(fleet, str(fleet.directory / "logs" / "*" / "*.log")) as (process, _):
        await seen.everything(paths, within=60.0)
        writing = asyncio.create_task(asyncio.to_thread(write_steadily, paths, seconds + 2.0))
        await asyncio.sleep(1.0)
        cpu = await cpu_percent(process, seconds)
        await writing
        behind = await seen.everything(paths, within=30.0)
        lines = sum(path.stat().st_size for path in paths) // len(LINE)
        return [
            Measured("growing", "CPU of one core", round(cpu, 3), "%", 50.0),
            Measured("growing", "the last line published after", round(behind, 3), "s", 1.0),
            Measured("growing", "lines in all", float(lines), "", None),
            Measured("growing", "peak memory", round(peak_mib(process), 3), "MiB", 150.0),
        ]


def make_files(root: Path, count: int, directories: int) -> list[Path]:
    """`count` files of ten lines each, evenly over `directories`."""
    paths = [root / f"service-{n % directories:03d}" / f"app-{n:05d}.log" for n in range(count)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(LINE * 10)
    return paths


def write_steadily(paths: list[Path], seconds: float) -> None:
    """A line to each file once a second, evenly over the second."""
    descriptors = [os.open(path, os.O_WRONLY | os.O_APPEND) for path in paths]
    begun, written = time.monotonic(), 0
    try:
        while (now := time.monotonic() - begun) < seconds:
            due = int(now * len(paths))
            for number in range(written, due):
                os.write(descriptors[number % len(paths)], LINE)
            written = due
            time.sleep(0.01)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


async def latencies(seen: "Arrivals", paths: list[Path], count: int) -> tuple[float, float]:
    """A new line in random files, one after the other: the slowest and the median arrival, in seconds."""
    chosen = random.Random(17).choices(paths, k=count)
    times = sorted([await one_line(seen, path) for path in chosen])
    return times[-1], times[len(times) // 2]


async def one_line(seen: "Arrivals", path: Path) -> float:
    with path.open("ab") as stream:
        stream.write(LINE)
    return await seen.everything([path], within=30.0)


# -- the subscriber -----------------------------------------------------------------------------------------------


class Arrivals:
    """How far each file was seen to be published."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        self.news = asyncio.Event()

    async def take(self, message: "nats.aio.msg.Msg") -> None:
        headers = message.headers or {}
        if "Log-Span" in headers:
            file, end = unquote(headers["Log-File"]), int(headers["Log-Span"].partition("-")[2])
            self.ends[file] = max(end, self.ends.get(file, 0))
            self.news.set()

    async def everything(self, paths: list[Path], *, within: float) -> float:
        """Wait until all that the files hold was seen; the seconds that took."""
        begun = time.monotonic()
        sizes = {str(path): path.stat().st_size for path in paths}
        async with asyncio.timeout(within):
            while sizes := {file: size for file, size in sizes.items() if self.ends.get(file, 0) < size}:
                self.news.clear()
                await self.news.wait()
        return time.monotonic() - begun


@contextlib.asynccontextmanager
async def arrivals(url: str) -> AsyncIterator[Arrivals]:
    seen = Arrivals()
    connection = await nats.connect(url)
    await connection.subscribe("logs.>", cb=seen.take)
    await connection.flush()
    try:
        yield seen
    finally:
        await connection.close()


# -- the measured program -----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def producer(fleet: Fleet, *arguments: str) -> AsyncIterator[tuple[int, float]]:
    """A producer that reports READY; its process id and the seconds that took. Its own log is `produce.log`."""
    with told(fleet.directory / "notify") as link, (fleet.directory / "produce.log").open("ab") as log:
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            FSHIPPER, "produce", *arguments, "--poll", str(POLL_SECONDS), stdout=log, stderr=log,
            env=fleet.environment(HOSTNAME=HOST, NOTIFY_SOCKET=str(fleet.directory / "notify"), **OTHER_TREE),
        )  # fmt: skip
        try:
            async with asyncio.timeout(60.0):
                while b"READY=1" not in await asyncio.get_running_loop().sock_recv(link, 4096):
                    pass
            yield process.pid, time.monotonic() - begun
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await process.wait()


@contextlib.contextmanager
def told(path: Path) -> Iterator[socket.socket]:
    """The socket on which the producer notifies systemd."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(str(path))
        link.setblocking(False)
        yield link


async def cpu_percent(process: int, seconds: float) -> float:
    before, begun = cpu_seconds(process), time.monotonic()
    await asyncio.sleep(seconds)
    return 100 * (cpu_seconds(process) - before) / (time.monotonic() - begun)


# -- showing ------------------------------------------------------------------------------------------------------


def report(results: list[Measured], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(measured) | {"verdict": measured.verdict} for measured in results], indent=2))
        return
    table = Table(title=f"many files, {os.cpu_count()} cores, server sync {server_sync()}")
    for title in ("", "", "measured", "target", ""):
        table.add_column(title, justify="right" if title else "left")
    for row in results:
        target = "" if row.target is None else f"< {row.target:g} {row.unit}"
        table.add_row(row.case, row.what, f"{row.value:.3g} {row.unit}".rstrip(), target, row.verdict)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
