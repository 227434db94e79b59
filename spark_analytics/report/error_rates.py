"""Error rates with intervals, compared with the median of the days before."""

from collections.abc import Sequence

from spark_analytics.metrics.statistics import median, wilson
from spark_analytics.report.inputs import Evidence, FileSeries
from spark_analytics.report.model import Errors, RateChange, Totals

MIN_ERRORS = 5
"""Minimum error lines of a rise: 1 of 3 lines proves nothing."""

MIN_RISE = 1.5
"""Minimum factor of a rise: with a million lines the smallest rise is significant but not important."""

MIN_DAYS = 3
"""Minimum baseline days of a median rate."""


def errors(evidence: Evidence, totals: Totals, top: int, *, enough: bool) -> Errors:
    """The rate of the day, and the log files whose rate rose."""
    series = [rate_of(log) for log in evidence.files]
    risen = [rate for rate in series if enough and has_risen(rate)]
    low, high = wilson(totals.errors, totals.lines)
    before = rates_before(totals.errors_before, totals.lines_before)
    return Errors(
        lines=totals.lines,
        errors=totals.errors,
        rate=_share(totals.errors, totals.lines),
        low=low if totals.lines else 0.0,
        high=high if totals.lines else 0.0,
        median_rate=median(before) if enough else None,
        rates_before=before,
        warning_rate=_share(totals.warnings, totals.lines),
        risen=tuple(sorted(risen, key=_by_surplus)[:top]),
        risen_count=len(risen),
        most=tuple(
            sorted((r for r in series if r.errors), key=lambda rate: (-rate.errors, rate.host, rate.file))[:top]
        ),
    )


def rate_of(log: FileSeries) -> RateChange:
    """A log file's rate today, its interval, and its median."""
    rate = _share(log.errors, log.lines)
    usual = log.median_rate if log.baseline_days >= MIN_DAYS else None
    low, high = wilson(log.errors, log.lines)
    return RateChange(
        partition=log.partition,
        host=log.host,
        file=log.file,
        lines=log.lines,
        errors=log.errors,
        rate=rate,
        low=low,
        high=high,
        median_rate=usual,
        factor=rate / usual if usual else None,
    )


def has_risen(rate: RateChange) -> bool:
    """Whether the rate is above its median beyond chance and by a factor that matters."""
    usual = rate.median_rate
    return usual is not None and rate.errors >= MIN_ERRORS and rate.low > usual and rate.rate >= MIN_RISE * usual


def _by_surplus(rate: RateChange) -> tuple[float, str, str]:
    """Most error lines above the usual number first."""
    return (rate.median_rate or 0.0) * rate.lines - rate.errors, rate.host, rate.file


def rates_before(hits: Sequence[int], lines: Sequence[int]) -> tuple[float, ...]:
    """The rate of each day that has lines: a silent day has no rate."""
    return tuple(hit / line for hit, line in zip(hits, lines, strict=True) if line)


def _share(part: int, whole: int) -> float:
    """Share of `whole`, at most 1: a last line without a newline is an error but not a line."""
    return min(part, whole) / whole if whole else 0.0
