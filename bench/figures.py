"""What is measured, as values: readings of a run, medians, ratios to a limit, lines that must hold. Pure."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

MB = 1_000_000
GIB = 1 << 30


@dataclass(frozen=True)
class Reading:
    """One figure of one run: whose it is, what of it, and how much."""

    of: str  #: "producer", "bare publish loop"
    what: str  #: "throughput"
    value: float
    unit: str  #: "MB/s", "CPU s/GiB", "MiB", "ms", "s", "%", "times"

    @property
    def key(self) -> tuple[str, str]:
        """What is the same figure in every run."""
        return self.of, self.what


@dataclass(frozen=True)
class Run:
    """All readings of one run, and what others did meanwhile."""

    readings: tuple[Reading, ...]
    others_cores: float  #: CPU of processes that are not ours, in cores, on average
    disturbed: bool


@dataclass(frozen=True)
class Figure:
    """A reading over all runs."""

    of: str
    what: str
    unit: str
    median: float
    least: float
    most: float
    runs: tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """A sentence that must be true of a figure's median; exactly one of the bounds is set."""

    text: str
    of: str
    what: str
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: float) -> bool:
        """Whether the bound is kept; what is no number keeps none."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


class Verdict(StrEnum):
    """What became of a line."""

    PASSED = "passed"
    FAILED = "failed"
    NOISY = "not judged: others used the machine"
    MISSING = "not measured"


@dataclass(frozen=True)
class Judged:
    """A limit and what was measured."""

    line: Line
    value: float | None
    verdict: Verdict


def throughput(of: str, size_bytes: int, seconds: float, what: str = "throughput") -> Reading:
    """Bytes of log text a second."""
    return Reading(of, what, size_bytes / MB / seconds if seconds > 0 else math.nan, "MB/s")


def cost(of: str, size_bytes: int, cpu_s: float, what: str = "CPU") -> Reading:
    """CPU seconds for each GiB of log text."""
    return Reading(of, what, cpu_s / size_bytes * GIB, "CPU s/GiB")


def memory(of: str, mib: float, what: str = "peak memory") -> Reading:
    """Resident memory."""
    return Reading(of, what, mib, "MiB")


def share(reading: Reading, limit: Reading) -> Reading:
    """A reading as per cent of its limit in the same run."""
    return Reading(reading.of, f"{reading.what} of {limit.of}", 100 * _over(reading.value, limit.value), "%")


def times(reading: Reading, other: Reading) -> Reading:
    """How many times `other` a reading of the same run is."""
    return Reading(reading.of, f"{reading.what} over {other.of}", _over(reading.value, other.value), "times")


def _over(value: float, other: float) -> float:
    return value / other if other else math.nan


def percentile(values: Sequence[float], per_cent: float) -> float:
    """The smallest value that at least `per_cent` of `values` do not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values, no percentile")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(per_cent / 100 * len(ordered)) - 1)]


def figures(runs: Sequence[Run]) -> list[Figure]:
    """Each figure over all runs, in the order in which a run first had it."""
    found: dict[tuple[str, str], list[Reading]] = {}
    for run in runs:
        for reading in run.readings:
            found.setdefault(reading.key, []).append(reading)
    return [_figure(readings) for readings in found.values()]


def _figure(readings: list[Reading]) -> Figure:
    first, values = readings[0], tuple(reading.value for reading in readings)
    return Figure(first.of, first.what, first.unit, statistics.median(values), min(values), max(values), values)


def judge(lines: Iterable[Line], found: Iterable[Figure], *, noisy: bool) -> list[Judged]:
    """Each limit with its figure; nothing is passed or failed by a machine that others use."""
    medians = {(figure.of, figure.what): figure.median for figure in found}
    return [_judged(line, medians.get((line.of, line.what)), noisy=noisy) for line in lines]


def _judged(line: Line, value: float | None, *, noisy: bool) -> Judged:
    if value is None:
        return Judged(line, None, Verdict.MISSING)
    if noisy:
        return Judged(line, value, Verdict.NOISY)
    return Judged(line, value, Verdict.PASSED if line.holds(value) else Verdict.FAILED)
