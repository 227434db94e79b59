"""Statistics for counts of log lines: robust medians and deviations, confidence intervals, inequality. Pure functions.

Medians and median absolute deviations are used because one incident in the baseline must not hide the next one.
Rates come with intervals because one error in three lines proves little.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")
K = TypeVar("K")

WIDE_Z = 2.576
"""Standard deviations of a 99 % interval. With thousands of hosts, 95 % intervals would raise an alarm every day."""

NORMAL_CONSISTENT = 1.4826
"""Factor from the median absolute deviation to the standard deviation of a normal distribution."""

MIN_DEVIATION = 0.05
"""Minimum deviation of a logarithm, about 5 %: a host with a constant volume for a week may still vary that much."""


class Interval(NamedTuple):
    """A 99 % confidence interval, unless the caller gives another `z`."""

    low: float
    high: float


def grouped(values: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """`values` by their `key`, in their order."""
    groups: dict[K, list[T]] = defaultdict(list)
    for value in values:
        groups[key(value)].append(value)
    return groups


def median(values: Sequence[float]) -> float | None:
    """The median of `values`; None if there are none."""
    return float(statistics.median(values)) if values else None


def median_over_days(values: Sequence[float], days: int) -> float | None:
    """The median of `values` over `days` days, where a day without a value counts as 0; None if `days` is 0."""
    return median([*values, *[0] * (days - len(values))])


def median_rate(entries: Iterable[tuple[int, int]]) -> float | None:
    """The median of hits / trials over (hits, trials) entries that have trials; None if none has."""
    return median([hits / trials for hits, trials in entries if trials])


def wilson(hits: int, trials: int, z: float = WIDE_Z) -> Interval:
    """The Wilson score interval of a rate (0 to 1): `hits` of `trials`.

    Without trials the interval is (0, 1): nothing is known. More hits than trials count as `trials`: a last line
    without a newline is an error but not a line.
    """
    if trials <= 0:
        return Interval(0.0, 1.0)
    hits = min(max(hits, 0), trials)
    share, square = hits / trials, z * z
    middle = share + square / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    # The formula gives exactly 0 and 1 at the ends; floating point does not.
    low = 0.0 if hits == 0 else max(0.0, (middle - half) / scale)
    return Interval(low, 1.0 if hits == trials else min(1.0, (middle + half) / scale))


def robust_z(value: float, history: Sequence[float]) -> float:
    """How many deviations a volume is from its history, on a logarithmic scale; 0 without history.

    The scale is logarithmic because volumes change by factors: twice and half of the median are equally far.
    """
    if not history:
        return 0.0
    logs = [math.log1p(max(0.0, entry)) for entry in history]
    middle = statistics.median(logs)
    deviation = statistics.median(abs(entry - middle) for entry in logs) * NORMAL_CONSISTENT
    return (math.log1p(max(0.0, value)) - middle) / max(deviation, MIN_DEVIATION)


def gini(values: Iterable[float]) -> float:
    """The Gini coefficient: 0 if all values are equal, towards 1 if one value is everything; 0 for no values."""
    ordered = sorted(values)
    total, count = sum(ordered), len(ordered)
    if not total:
        return 0.0
    return sum((2 * rank - count - 1) * value for rank, value in enumerate(ordered, start=1)) / (count * total)


def skew(values: Sequence[float]) -> float:
    """The largest value divided by the mean: 1 is even, `len(values)` means that one value is everything."""
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0


def ratio(part: float, whole: float | None) -> float | None:
    """`part / whole`; None if `whole` is 0 or None."""
    return part / whole if whole else None
