"""A fleet on real servers that sync always: is it kept up, how late are lines, and what does each process take?

    python bench/crowd.py                              1,000 hosts, drawn rates, one server, a minute
    python bench/crowd.py --seconds 600                the full form
    python bench/crowd.py --only cluster               10,000 hosts, a block a second each, three servers

With two cores the three servers and the driver of the cluster share them: check the lateness of the driver first.

The hosts are played by one process (`drive.py`), which also prints whether it was late itself. Each file of the
archive is compared with what its host sent.
"""

import argparse
import contextlib
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cases.latency import Watched, opened
from figures import percentile
from harness.cluster import cluster
from harness.fleet import Fleet
from hosts import FED, HERE, PARTITIONS, collecting, said, same
from machine import cpu_seconds, peak_mib
from programs import server_sync, serving, with_sync
from rich.console import Console
from rich.table import Table
from streams import Asking

MEDIAN_RATE, SIGMA = 1000.0, 1.0
"""Bytes a second of a host: log-normal."""
TIMED = 50
"""Hosts whose lines hold the time of their writing."""
WARM_SECONDS = 10.0
POLL_SECONDS = 0.01
LAG_SECONDS = 1.0
ONE, THREE = "drawn", "cluster"
CONNECTIONS = {ONE: 1000, THREE: 300}


@dataclass(frozen=True)
class Result:
    """What one fleet took. Shares are of one core, times are seconds."""

    case: str
    hosts: int
    servers: int
    seconds: float
    blocks_a_second: float
    megabytes_a_second: float  #: of text
    most_lag: int  #: messages that were stored and not archived
    lag_at_end: int  #: when the last block was sent
    behind: float  #: from the last ack to the last archived block
    p50: float  #: from write to readable
    p99: float
    slowest: float
    ack_p50: float
    ack_p99: float
    collector_cpu: float
    collector_mib: float
    server_cpu: tuple[float, ...]
    driver_cpu: float
    driver_late_p99: float  #: blocks that it sent later than they were due
    driver_late_max: float


def main() -> None:
    arguments = parsed()
    results = [measured(case, arguments) for case in arguments.only]
    if arguments.json:
        print(json.dumps({"server_sync": server_sync(), "results": list(map(asdict, results))}, indent=2))
        return
    table = Table(title=f"one collector, {PARTITIONS} partitions, server sync {server_sync()}")
    for title in ("", *(result.case for result in results)):
        table.add_column(title, justify="left" if not title else "right")
    for name in asdict(results[0]):
        table.add_row(name.replace("_", " "), *(_shown(getattr(result, name)) for result in results))
    Console().print(table)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=None, help="1,000 on one server, 10,000 on three")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", nargs="*", choices=[ONE, THREE], default=[ONE])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", default=None, help="where to work; a real disk, not tmpfs")
    return with_sync(parser).parse_args()


def measured(case: str, arguments: argparse.Namespace) -> Result:
    """One fleet for some seconds."""
    where = Path(tempfile.mkdtemp(prefix="fshipper-crowd-", dir=arguments.directory))
    hosts = arguments.hosts or (1000 if case == ONE else 10_000)
    try:
        with served(case, where) as (urls, pids):
            fleet = Fleet(where, ",".join(urls), partitions=PARTITIONS)
            replicas = ("--replicas", str(len(urls)), "--max-bytes", "2GB")
            fleet.must("partition", "apply", "--partitions", str(PARTITIONS), *replicas)
            with collecting(fleet) as collector:
                result = _driven(case, fleet, hosts, arguments.seconds, collector.pid, pids)
            same(fleet)
            return result
    finally:
        shutil.rmtree(where, ignore_errors=True)


@contextlib.contextmanager
def served(case: str, where: Path) -> Iterator[tuple[list[str], list[int]]]:
    """One server or three: addresses and processes."""
    if case == ONE:
        with serving(where / "natsd") as server:
            yield [server.url], [server.pid]
    else:
        with cluster(where / "servers") as nodes:
            yield [node.url for node in nodes.values()], [node.pid for node in nodes.values()]


def rates(case: str, hosts: int) -> list[float]:
    """Bytes a second of each host: drawn, or so that each sends a block a second of a few lines."""
    drawn = random.Random(34)
    if case == ONE:
        return [drawn.lognormvariate(math.log(MEDIAN_RATE), SIGMA) for _ in range(hosts)]
    return [drawn.uniform(300.0, 900.0) for _ in range(hosts)]


def _driven(case: str, fleet: Fleet, hosts: int, seconds: float, collector: int, servers: list[int]) -> Result:
    drawn = fleet.directory / "rates.json"
    drawn.write_text(json.dumps(rates(case, hosts)))
    command = [sys.executable, HERE / "drive.py", fleet.url, CONNECTIONS[case], PARTITIONS, drawn, seconds, TIMED]
    driver = subprocess.Popen([*map(str, command), str(fleet.directory / FED)], stdout=subprocess.PIPE)
    pids = [collector, *servers]
    with Asking(fleet.url.split(",")[0]) as asking:
        watched = Watching(asking, [opened(fleet, f"h{number:05d}.example.net") for number in timed(hosts)])
        before, began = list(map(cpu_seconds, pids)), time.monotonic()
        watched.until(lambda: driver.poll() is not None, pause=LAG_SECONDS)
        used, ended, lag_at_end = list(map(cpu_seconds, pids)), time.monotonic(), watched.lag
        watched.until(lambda: watched.lag == 0, pause=POLL_SECONDS)
        behind = time.monotonic() - ended
    fed: dict[str, Any] = said(driver)
    shares = [(after - earlier) / (ended - began) for earlier, after in zip(before, used, strict=True)]
    return Result(
        case, hosts, len(servers), fed["seconds"], fed["blocks"] / fed["seconds"],
        fed["octets"] / fed["seconds"] / 1e6, watched.most_lag, lag_at_end, behind, percentile(watched.delays, 50),
        percentile(watched.delays, 99), max(watched.delays), fed["ack_p50"], fed["ack_p99"], shares[0],
        peak_mib(collector), tuple(shares[1:]), fed["cpu"], fed["late_p99"], fed["late_max"],
    )  # fmt: skip


def timed(hosts: int) -> range:
    """The numbers of the hosts whose lines hold the time of their writing."""
    return range(0, hosts, max(1, hosts // TIMED))


class Watching:
    """The open files of some hosts, and the messages that are stored and not archived."""

    def __init__(self, asking: Asking, paths: list[Path]) -> None:
        self._asking = asking
        self._files = list(map(Watched, paths))
        self._warm_at = time.monotonic() + WARM_SECONDS
        self.delays: list[float] = []  # seconds from write to readable
        self.lag = self.most_lag = 0

    def until(self, is_over: Callable[[], bool], *, pause: float) -> None:
        """Read what comes; the lag once in `pause` seconds, and at last."""
        lag_at = 0.0
        while True:
            now = time.monotonic_ns()
            written = [at for file in self._files for at in file.news(1)]
            if time.monotonic() > self._warm_at:
                self.delays += [(now - at) / 1e9 for at in written]
            is_last = is_over()
            if is_last or time.monotonic() > lag_at:
                lag_at = time.monotonic() + pause
                self.lag = sum(
                    self._asking.last_sequence(each) - self._asking.acknowledged(each) for each in range(PARTITIONS)
                )
                self.most_lag = max(self.most_lag, self.lag)
            if is_last:
                return
            time.sleep(POLL_SECONDS)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{each:.2f}" for each in value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
