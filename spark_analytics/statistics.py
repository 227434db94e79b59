"""What is usual: medians over the days before that have tables, and how sure a rate is. Values only.

Statistics that hold for logs: few numbers, long tails, and one wild day among seven. Pure functions of numbers.

Medians and median deviations, because one incident in the week before must not hide the next; intervals for rates,
because one error in three lines says little.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

WIDE_Z = 2.576
"""Of the 99 % interval: among thousands of log files 95 % would cry wolf every day."""


def median(values: Sequence[float], days: int) -> float | None:
    """The median of `values` over `days` days, of which those without a value count as 0; None without days."""
    return statistics.median([*values, *[0] * (days - len(values))]) if days else None


def rate(errors: int, lines: int) -> float | None:
    """Share of error lines; None without lines."""
    return errors / lines if lines else None


def median_rate(entries: Iterable[tuple[int, int]]) -> float | None:
    """The median of errors / lines over the days with lines."""
    rates = [errors / lines for errors, lines in entries if lines]
    return statistics.median(rates) if rates else None


def wilson(errors: int, lines: int, z: float = WIDE_Z) -> tuple[float, float] | tuple[None, None]:
    """The interval of errors / lines (Wilson): 1 error in 3 lines proves little. Nones without lines."""
    if not lines:
        return None, None
    share = errors / lines
    spread = z * math.sqrt(share * (1 - share) / lines + z * z / (4 * lines * lines))
    middle, whole = share + z * z / (2 * lines), 1 + z * z / lines
    return max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)


MEASURES_WIDE_Z = 2.576
"""Standard deviations of a 99 % interval: with thousands of hosts on a page, 95 % would cry wolf every day."""

NORMAL_CONSISTENT = 1.4826
"""The median absolute deviation times this is the standard deviation where numbers are normal."""

LEAST_SPREAD = 0.05
"""Of a logarithm, about 5 %: a host that wrote exactly the same for a week may still write 10 % more."""


class Interval(NamedTuple):
    """Where the true value lies with 99 %, if the model holds."""

    low: float
    high: float


def measures_median(values: Sequence[float]) -> float | None:
    """The middle of `values`, or None of nothing."""
    return float(statistics.median(values)) if values else None


def measures_wilson(hits: int, trials: int, z: float = MEASURES_WIDE_Z) -> Interval:
    """The interval of a share (0 to 1): `hits` of `trials`. Of no trials all is possible."""
    if trials <= 0:
        return Interval(0.0, 1.0)
    share, square = hits / trials, z * z
    middle = share + square / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    # The formula gives exactly 0 and 1 at the ends; floating point does not.
    low = 0.0 if hits <= 0 else max(0.0, (middle - half) / scale)
    return Interval(low, 1.0 if hits >= trials else min(1.0, (middle + half) / scale))


def poisson(times: int, z: float = MEASURES_WIDE_Z) -> Interval:
    """The interval of a count of rare things, by Byar's approximation: within 1 % of the exact one from 10 on."""
    low = 0.0 if times <= 0 else times * max(0.0, 1 - 1 / (9 * times) - z / (3 * math.sqrt(times))) ** 3
    more = times + 1
    return Interval(low, more * (1 - 1 / (9 * more) + z / (3 * math.sqrt(more))) ** 3)


def robust_z(value: float, history: Sequence[float]) -> float:
    """How many deviations a volume is from its history, on a logarithmic scale; 0 without history.

    Volumes are multiplied and divided, not added to: twice and half of the median are equally far.
    """
    if not history:
        return 0.0
    logs = [math.log1p(max(0.0, entry)) for entry in history]
    middle = statistics.median(logs)
    deviation = statistics.median(abs(entry - middle) for entry in logs) * NORMAL_CONSISTENT
    return (math.log1p(max(0.0, value)) - middle) / max(deviation, LEAST_SPREAD)


def gini(values: Iterable[float]) -> float:
    """0 when all are equal, towards 1 when one has everything."""
    ordered = sorted(values)
    whole, number = sum(ordered), len(ordered)
    if not whole:
        return 0.0
    weighted = sum(rank * value for rank, value in enumerate(ordered, start=1))
    return (2 * weighted) / (number * whole) - (number + 1) / number


def skew(values: Sequence[float]) -> float:
    """The largest share against the mean one: 1 is even, `len(values)` is one with everything."""
    whole = sum(values)
    return max(values) * len(values) / whole if whole else 1.0


def ratio(part: float, whole: float | None) -> float | None:
    """`part / whole`, or None where that says nothing."""
    return part / whole if whole else None
