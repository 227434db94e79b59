"""What many hosts cost the collector: 10,000 that write a block a second, pinned to one core.

    make bench HOSTS="--hosts 10000 --seconds 60"
    python bench/hosts.py --only slow        the hosts as they write: does the collector keep up?
    python bench/hosts.py --only backlog     the most it takes, and that of a loop that only receives

Server and feeder have the other core. The archive is compared with what was sent, every byte.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from harness.fleet import FSHIPPER, Fleet, until
from programs import OTHER_TREE, server_sync, serving, with_sync
from rich.console import Console
from rich.table import Table
from watching import Watch

HERE = Path(__file__).resolve().parent
PARTITIONS = 4
CORES = sorted(os.sched_getaffinity(0))
PATIENCE_SECONDS = 600
FED = "fed.json"


@dataclass(frozen=True)
class Row:
    """One case: the load of the collector, and what that took."""

    case: str
    blocks: int
    offered: float  #: blocks a second
    taken: float  #: blocks a second, until the last one was archived
    cpu: float  #: of one core
    most_lag: int  #: blocks that were in the stream and not archived, the most of all samples
    behind: float  #: seconds from the last block sent to the last one archived
    peak_mib: float
    descriptors: int


def main() -> None:
    arguments = parsed()
    screen = Console(stderr=True)
    rows: list[Row] = []
    for case in arguments.only:
        screen.print(f"[dim]{case} ...")
        with place(arguments.directory) as fleet:
            rows += CASES[case](fleet, arguments)
    show(rows, arguments)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", default=None, help="where to work; a real disk, not tmpfs")
    return with_sync(parser).parse_args()


@contextmanager
def place(directory: str | None) -> Iterator[Fleet]:
    where = Path(tempfile.mkdtemp(prefix="fshipper-hosts-", dir=directory))
    try:
        with serving(where / "natsd") as server:
            os.sched_setaffinity(server.pid, CORES[-1:])
            fleet = Fleet(where, server.url, partitions=PARTITIONS)
            fleet.apply()
            yield fleet
    finally:
        shutil.rmtree(where, ignore_errors=True)


# -- cases --------------------------------------------------------------------------------------------------------


def slow(fleet: Fleet, arguments: argparse.Namespace) -> list[Row]:
    """Each host a block a second; the first second finds all the files to create."""
    with collecting(fleet) as collector:
        watch = Watch(collector.pid, fleet.url, PARTITIONS)
        feeder = feeding(fleet, arguments.hosts, rate=arguments.hosts, seconds=arguments.seconds)
        behind = watch.until_empty(feeder)
        fed = said(feeder)
        row = Row(
            f"{arguments.hosts} hosts x 1 block/s", fed["blocks"], fed["blocks"] / fed["seconds"],
            fed["blocks"] / (fed["seconds"] + behind), watch.cpu, watch.most_lag, behind, watch.peak_mib,
            watch.most_descriptors,
        )  # fmt: skip
    same(fleet)
    return [row]


def backlog(fleet: Fleet, arguments: argparse.Namespace) -> list[Row]:
    """All of it is in the stream before the collector starts."""
    blocks = said(feeding(fleet, arguments.hosts, rate=0, seconds=max(1, arguments.seconds // 3)))["blocks"]
    bare = [sys.executable, str(HERE / "bare_receive.py"), fleet.url, str(PARTITIONS)]
    rows = [
        ended("bare receive loop", started(bare, fleet), blocks),
        ended("backlog", started([FSHIPPER, "consume", "--drain"], fleet), blocks),
    ]
    same(fleet)
    return rows


# -- processes ----------------------------------------------------------------------------------------------------


def started(command: list[str], fleet: Fleet) -> "subprocess.Popen[bytes]":
    """A process on the core that is measured."""
    with (fleet.directory / "programs.log").open("ab") as log:
        process = subprocess.Popen(command, env=fleet.environment(**OTHER_TREE), stdout=log, stderr=log)
    os.sched_setaffinity(process.pid, CORES[:1])  # before it has threads
    return process


@contextmanager
def collecting(fleet: Fleet) -> Iterator["subprocess.Popen[bytes]"]:
    process = started([FSHIPPER, "consume"], fleet)
    try:
        until(lambda: (fleet.directory / "programs.log").read_text().count("session_begun") >= PARTITIONS)
        yield process
        process.terminate()
        if process.wait(60):
            raise SystemExit(f"the collector ended with {process.returncode}; its log is programs.log")
    finally:
        process.kill()
        process.wait()


def feeding(fleet: Fleet, hosts: int, *, rate: int, seconds: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, HERE / "feed.py", fleet.url, hosts, PARTITIONS, rate, seconds, fleet.directory / FED]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
    os.sched_setaffinity(process.pid, CORES[-1:])
    return process


def said(feeder: "subprocess.Popen[bytes]") -> dict[str, Any]:
    printed, _ = feeder.communicate(timeout=PATIENCE_SECONDS)
    if feeder.returncode:
        raise SystemExit(f"the feeder ended with {feeder.returncode}")
    return dict(json.loads(printed))


def ended(case: str, process: "subprocess.Popen[bytes]", blocks: int) -> Row:
    began = time.monotonic()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    if status:
        raise SystemExit(f"{case} ended with {os.waitstatus_to_exitcode(status)}; its log is programs.log")
    cpu = (used.ru_utime + used.ru_stime) / seconds
    return Row(case, blocks, 0, blocks / seconds, cpu, blocks, seconds, used.ru_maxrss / 1024, 0)


def same(fleet: Fleet) -> None:
    """A number of a wrong result is no number: length and CRC of every file are what its host sent."""
    for subject, (length, crc) in json.loads((fleet.directory / FED).read_text()).items():
        host = subject.split(".", 2)[2]
        files = sorted(fleet.archive.glob(f"date=*/partition=*/host={host}/_open*"))
        content = b"".join(path.read_bytes() for path in files)
        if (len(content), zlib.crc32(content)) != (length, crc):
            raise SystemExit(f"the archive of {host} differs from what was sent: {len(content)} of {length} bytes")


# -- showing ------------------------------------------------------------------------------------------------------


def show(rows: list[Row], arguments: argparse.Namespace) -> None:
    if arguments.json:
        facts = {"hosts": arguments.hosts, "seconds": arguments.seconds, "cores": len(CORES), "pinned_to": 1}
        facts["server_sync"] = server_sync()
        print(json.dumps({"facts": facts, "results": [asdict(row) for row in rows]}, indent=2))
        return
    where = f"the collector on one core of {len(CORES)}, server sync {server_sync()}"
    table = Table(title=f"{arguments.hosts} hosts, {PARTITIONS} partitions, {where}")
    titles = ("", "blocks", "offered/s", "archived/s", "CPU s a s", "most lag", "behind s", "peak MiB", "descriptors")
    for title in titles:
        table.add_column(title, justify="left" if not title else "right")
    for row in rows:
        table.add_row(
            row.case, f"{row.blocks}", f"{row.offered:.0f}" if row.offered else "-", f"{row.taken:.0f}",
            f"{row.cpu:.2f}", f"{row.most_lag}", f"{row.behind:.1f}", f"{row.peak_mib:.0f}",
            f"{row.descriptors or '-'}",
        )  # fmt: skip
    Console().print(table)
    Console().print("every file of the archive was compared with what its host sent", style="dim")


CASES: dict[str, Callable[[Fleet, argparse.Namespace], list[Row]]] = {"slow": slow, "backlog": backlog}

if __name__ == "__main__":
    main()
