"""How fast, and at what cost: each program beside a bare publish loop of the same blocks, in the same run.

    make bench                     512 MB, three runs of each, medians
    make bench BENCH="--mb 2048"   more

Every number stands beside its limit from the same run; only the ratios travel between machines.
"""

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fleet import FSHIPPER, Fleet, until
from natsd import NatsServer, running
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

BLOCK = 256 * 1024
GIB = 1 << 30
HOST = "bench1.example.net"
TICKS = os.sysconf("SC_CLK_TCK")
WAIT_SECONDS = 20
NOISE = 0.25  # of one core: above it, what others do would be measured too


@dataclass(frozen=True)
class Measured:
    """One program in one run."""

    name: str
    mb_s: float
    cpu_s_gib: float
    server_cpu_s_gib: float
    peak_mib: float


def main() -> None:
    arguments = parsed()
    screen = Console(stderr=True)
    others = quiet(screen)
    directory = Path(tempfile.mkdtemp(prefix="fshipper-bench-", dir=arguments.directory))
    try:
        source = directory / "bench.log"
        make_source(source, arguments.mb)
        results = run_all(directory, source, arguments.runs, screen)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report(results, arguments, others)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=512, help="size of the log file")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", default=None, help="where to work; a real disk, not tmpfs")
    return parser.parse_args()


def run_all(directory: Path, source: Path, runs: int, screen: Console) -> dict[str, list[Measured]]:
    cases: dict[str, Callable[[Path, Path], list[Measured]]] = {"bare": bare, "apart": apart, "together": together}
    results: dict[str, list[Measured]] = {}
    with Progress(console=screen, transient=True) as progress:
        task = progress.add_task("measuring", total=runs * len(cases))
        for number in range(runs):
            for name, case in cases.items():
                where = directory / f"{name}-{number}"
                for measured in case(where, source):
                    results.setdefault(measured.name, []).append(measured)
                shutil.rmtree(where, ignore_errors=True)
                progress.advance(task)
    return results


# -- cases --------------------------------------------------------------------------------------------------------


def bare(where: Path, source: Path) -> list[Measured]:
    """The limit: a loop that compresses the same blocks and publishes them with a window, no file kept, no rules."""
    with running(where / "natsd") as server:
        fleet = Fleet(where, server.url, partitions=1)
        fleet.apply()
        loop = [sys.executable, str(Path(__file__).with_name("bare_publish.py")), server.url, str(source), str(BLOCK)]
        return [measure("bare publish loop", source, server, lambda: [ended(start(loop, fleet))])]


def apart(where: Path, source: Path) -> list[Measured]:
    """The producer into an idle stream, then the collector out of a full one."""
    with running(where / "natsd") as server:
        fleet = Fleet(where, server.url, partitions=1)
        fleet.apply()
        produce, consume = [FSHIPPER, "produce", "--once", str(source)], [FSHIPPER, "consume", "--drain"]
        produced = measure("producer alone", source, server, lambda: [ended(start(produce, fleet))])
        consumed = measure("collector alone", source, server, lambda: [ended(start(consume, fleet))])
        same(fleet, source)
        return [produced, consumed]


def together(where: Path, source: Path) -> list[Measured]:
    """From the file to the file, both at once: what a user gets."""
    with running(where / "natsd") as server:
        fleet = Fleet(where, server.url, partitions=1)
        fleet.apply()
        collector = start([FSHIPPER, "consume"], fleet)

        def flow() -> list[Used]:
            used = ended(start([FSHIPPER, "produce", "--once", str(source)], fleet))
            until(lambda: archived_bytes(fleet) >= source.stat().st_size, within=600)
            os.kill(collector, signal.SIGTERM)
            return [used, ended(collector)]

        measured = measure("end to end", source, server, flow)
        same(fleet, source)
        return [measured]


def archived_bytes(fleet: Fleet) -> int:
    """Bytes in segments and open files: sizes only, so that watching costs little."""
    opened = sum(size_of(path) for path in fleet.archive.glob("date=*/partition=*/host=*/_*"))
    return opened + sum(segment.bytes_raw for segment in fleet.segments())


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # sealed meanwhile


def same(fleet: Fleet, source: Path) -> None:
    """A number of a wrong result is no number. In a process of its own: what it reads is not our programs' memory."""
    check = "import sys; from pathlib import Path; from fleet import Fleet; s = Path(sys.argv[2]); "
    check += "sys.exit(Fleet(Path(sys.argv[1]), '').archived(sys.argv[3], s) != s.read_bytes())"
    command = [sys.executable, "-c", check, str(fleet.directory), str(source), HOST]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    if subprocess.run(command, env=environment, check=False).returncode:
        raise SystemExit("the archive differs from the source")


# -- measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Used:
    """What one process took."""

    cpu_s: float
    peak_mib: float


def start(command: list[str], fleet: Fleet) -> int:
    fleet.directory.mkdir(exist_ok=True)
    log = os.open(fleet.directory / "programs.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        to = [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        return os.posix_spawn(command[0], command, fleet.environment(HOSTNAME=HOST), file_actions=to)
    finally:
        os.close(log)


def ended(pid: int) -> Used:
    """Wait for the process; a number of a failed run is no number."""
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        raise SystemExit(f"a measured program ended with {code}; its log is programs.log")
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure(name: str, source: Path, server: NatsServer, work: Callable[[], list[Used]]) -> Measured:
    size, server_before, began = source.stat().st_size, cpu_of(server.pid), time.monotonic()
    used = work()
    seconds = time.monotonic() - began
    return Measured(
        name,
        size / 1e6 / seconds,
        sum(process.cpu_s for process in used) / size * GIB,
        (cpu_of(server.pid) - server_before) / size * GIB,
        max(process.peak_mib for process in used),
    )


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def busy_cores(seconds: float) -> float:
    def busy() -> int:
        user, nice, system, _idle, _wait, *rest = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
        return user + nice + system + sum(rest[:2])

    began = busy()
    time.sleep(seconds)
    return (busy() - began) / TICKS / seconds


def quiet(screen: Console) -> float:
    """Wait a while for a quiet machine; the cores that others use then."""
    for _ in range(WAIT_SECONDS):
        if (others := busy_cores(1.0)) <= NOISE:
            return others
    screen.print(f"[red]others use {others:.2f} cores: the numbers are theirs too, so nothing is compared")
    return others


def make_source(path: Path, megabytes: int) -> None:
    """Log lines with the redundancy of real ones: real samples where they are at hand, else generated."""
    samples = Path(__file__).resolve().parents[3] / "shared" / "data" / "loghub"
    texts = [sample.read_bytes().rstrip(b"\n") + b"\n" for sample in sorted(samples.glob("*.log"))] or [generated()]
    written, number = 0, 0
    with path.open("wb") as out:
        while written < megabytes * 1_000_000:
            text = texts[number % len(texts)]
            number += 1
            out.write(text)
            written += len(text)
        out.flush()
        os.fsync(out.fileno())


def generated() -> bytes:
    words = ("accepted", "closed", "request", "served", "in", "from", "upstream", "timed out", "user", "session")
    lines = [
        f"2026-11-20T10:{n // 60 % 60:02d}:{n % 60:02d}.{n % 1000:03d}Z app[{n % 97}]: {words[n % 10]} "
        f"{words[n * 7 % 10]} 10.0.{n % 13}.{n % 251} id={n * 2654435761 % 2**32:08x} {n % 1500} ms\n"
        for n in range(20_000)
    ]
    return "".join(lines).encode()


# -- showing ------------------------------------------------------------------------------------------------------


def report(results: dict[str, list[Measured]], arguments: argparse.Namespace, others: float) -> None:
    medians = [median(runs) for runs in results.values()]
    limit = medians[0].mb_s if others <= NOISE else math.inf
    if arguments.json:
        rows = [asdict(row) | {"of_bare": round(row.mb_s / limit, 3)} for row in medians]
        facts = {
            "mb": arguments.mb,
            "runs": arguments.runs,
            "busy_cores_before": round(others, 2),
            "cores": os.cpu_count(),
        }
        print(json.dumps({"facts": facts, "results": rows}, indent=2))
        return
    table = Table(title=f"{arguments.mb} MB, median of {arguments.runs} runs, {os.cpu_count()} cores, zstd blocks")
    for title in ("", "MB/s", "of bare", "CPU s a GiB", "server CPU s a GiB", "peak MiB"):
        table.add_column(title, justify="left" if not title else "right")
    for row in medians:
        table.add_row(
            row.name,
            f"{row.mb_s:.0f}",
            f"{row.mb_s / limit:.0%}" if limit < math.inf else "-",
            f"{row.cpu_s_gib:.2f}",
            f"{row.server_cpu_s_gib:.2f}",
            f"{row.peak_mib:.0f}",
        )
    Console().print(table)
    Console().print("the start of each program is included; peak is of the largest of our processes", style="dim")


def median(runs: list[Measured]) -> Measured:
    def of(field: str) -> float:
        return round(statistics.median(getattr(run, field) for run in runs), 3)

    return Measured(runs[0].name, of("mb_s"), of("cpu_s_gib"), of("server_cpu_s_gib"), of("peak_mib"))


if __name__ == "__main__":
    main()
