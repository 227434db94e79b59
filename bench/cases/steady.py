"""What hosts cost that write as real hosts do: CPU of all processes at steady rates, and when a line can be read."""

import time

import fluent_bit
from figures import Line, Reading, percentile, times
from programs import FailedError, Program, Stage, stage
from suite import Case, Place

from cases.latency import POLL_SECONDS, WARM_SECONDS, Watched, delays, opened, writer

RATES = {"0.1 MB/s": 100_000, "1 MB/s": 1_000_000, "10 MB/s": 10_000_000}
"""Bytes a second of one host."""
TEN_HOSTS, TEN_HOSTS_RATE = "ten hosts", 140_000
IDLE = "idle"
FLUENT_BIT = "Fluent Bit"
LINE_BYTES = 141
TICK_SECONDS = 0.01
SECONDS = 20.0
LINES_A_SECOND_TIMED = 1000
PEER_CPU = {"0.1 MB/s": 3.8, "1 MB/s": 5.6, "10 MB/s": 15.5}
"""CPU of Fluent Bit 5.1.1, both ends, with acknowledgements and buffers on disk, in per cent of a core."""


def run(place: Place) -> list[Reading]:
    """Each rate with a fresh server, with Fluent Bit in turn; then ten hosts, and a host that writes nothing."""
    readings: list[Reading] = []
    for name, rate in RATES.items():
        ours = _measured(name, place, hosts=1, rate=rate)
        peer = _fluent_bit(name, place, rate) if fluent_bit.BINARY else []
        readings += [*ours, *(times(ours[0], reading) for reading in peer[:1]), *peer]
    readings += _measured(TEN_HOSTS, place, hosts=10, rate=TEN_HOSTS_RATE)
    return [*readings, *_measured(IDLE, place, hosts=1, rate=0)]


def _measured(of: str, place: Place, *, hosts: int, rate: int) -> list[Reading]:
    """`rate`: bytes a second of all hosts together; 0: nothing is written."""
    with stage(place.directory / of.replace("/", "-").replace(" ", "-")) as on:
        logs = {f"h{number}.example.net": on.fleet.directory / f"h{number}.log" for number in range(hosts)}
        for path in logs.values():
            path.write_bytes(b"0 first\n")
        producers, collector = [on.produce(path, host=host) for host, path in logs.items()], on.consume()
        files = [Watched(opened(on.fleet, host)) for host in logs]
        lines = rate / LINE_BYTES
        writing = (
            writer(logs, on.fleet.directory, lines, LINE_BYTES, WARM_SECONDS + SECONDS, TICK_SECONDS) if rate else None
        )
        before, began, found = _cpu_s(on, producers, collector), time.monotonic(), []
        if writing:
            found = delays(files, writing, sample=max(1, round(lines / LINES_A_SECOND_TIMED)))
        else:
            time.sleep(SECONDS)
        seconds = time.monotonic() - began
        used = {
            name: 100 * (cpu_s - before[name]) / seconds for name, cpu_s in _cpu_s(on, producers, collector).items()
        }
        for file in files:
            file.close()
    return [
        Reading(of, "CPU of all processes", sum(used.values()), "% of a core"),
        *(Reading(of, f"CPU of the {name}", cpu, "% of a core") for name, cpu in used.items()),
        *(Reading(of, f"p{at}", 1000 * percentile(found, at), "ms") for at in (50, 99) if found),
    ]


def _fluent_bit(name: str, place: Place, rate: int) -> list[Reading]:
    """The same lines through two Fluent Bits."""
    of, directory = f"{name}: {FLUENT_BIT}", place.directory / f"fluent-bit-{name.replace('/', '-')}"
    directory.mkdir()
    log = directory / "h0.log"
    log.write_bytes(b"0 first\n")
    with fluent_bit.running(log, directory) as peer:
        deadline = time.monotonic() + WARM_SECONDS
        while not peer.target.exists() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        file, lines = Watched(peer.target), rate / LINE_BYTES
        writing = writer({"h0": log}, directory, lines, LINE_BYTES, WARM_SECONDS + SECONDS, TICK_SECONDS)
        before, began = peer.cpu_s, time.monotonic()
        found = delays([file], writing, sample=max(1, round(lines / LINES_A_SECOND_TIMED)))
        cpu = 100 * (peer.cpu_s - before) / (time.monotonic() - began)
        file.close()
    written = log.read_bytes().count(b"\n")
    if file.lines != written:
        raise FailedError(f"{written} lines were written, {FLUENT_BIT} has {file.lines}")
    return [
        Reading(of, "CPU of all processes", cpu, "% of a core"),
        *(Reading(of, f"p{at}", 1000 * percentile(found, at), "ms") for at in (50, 99)),
    ]


def _cpu_s(on: Stage, producers: list[Program], collector: Program) -> dict[str, float]:
    return {
        "producers": sum(each.cpu_s for each in producers),
        "collector": collector.cpu_s,
        "server": on.server_cpu_s(),
    }


CASE = Case(
    "steady",
    "what do hosts cost that write at the rate of real hosts?",
    run,
    lines=(
        *(Line(f"{of}: CPU at most {cpu} %", of, "CPU of all processes", at_most=cpu) for of, cpu in PEER_CPU.items()),
        *(Line(f"{of}: p99 under 1.2 s", of, "p99", at_most=1200.0) for of in RATES),
        Line("ten hosts at 0.014 MB/s each: CPU at most 10 %", TEN_HOSTS, "CPU of all processes", at_most=10.0),
    ),
    notes=(
        f"lines of {LINE_BYTES} bytes, written every {1000 * TICK_SECONDS:g} ms; settings as they are;",
        "the limits of CPU are what Fluent Bit 5.1.1 took on two cores; FSHIPPER_FLUENT_BIT names one to run in turn",
    ),
)
