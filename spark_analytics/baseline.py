"""What is usual: medians over the days before that have tables, and how sure a rate is. Values only."""

import math
import statistics
from collections.abc import Iterable, Sequence

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
