"""Error rates compared with those of the days before: their lowest, median and highest."""

from collections.abc import Sequence

from spark_analytics.metrics.statistics import median
from spark_analytics.report.inputs import Evidence, FileSeries
from spark_analytics.report.model import Errors, RateChange, Totals

MIN_ERRORS, MIN_LINES = 5, 100
"""Minimum error lines and lines of a rise: 1 of 3 lines proves nothing."""

MIN_RISE = 1.5
"""Minimum factor of a rise: by chance some of many log files are above all days before, most of them by little."""

MIN_DAYS = 3
"""Minimum baseline days of a median rate."""


def errors(evidence: Evidence, totals: Totals, top: int, *, enough: bool) -> Errors:
    """The rate of the day, and the log files whose rate rose."""
    series = [rate_of(log) for log in evidence.files]
    risen = [rate for rate in series if enough and has_risen(rate)]
    before = rates_before(totals.errors_before, totals.lines_before)
    return Errors(
        lines=totals.lines,
        errors=totals.errors,
        rate=_share(totals.errors, totals.lines),
        median_rate=median(before) if enough else None,
        rates_before=before,
        warning_rate=_share(totals.warnings, totals.lines),
        risen=tuple(sorted(risen, key=_by_surplus)[:top]),
        risen_count=len(risen),
        chance=evidence.rate_chance,
        most=tuple(
            sorted((r for r in series if r.errors), key=lambda rate: (-rate.errors, rate.host, rate.file))[:top]
        ),
    )


def rate_of(log: FileSeries) -> RateChange:
    """A log file's rate today, and those of the days before."""
    rate = _share(log.errors, log.lines)
    usual = log.median_rate if log.baseline_days >= MIN_DAYS else None
    before = log.rates_before if usual is not None else ()
    return RateChange(
        partition=log.partition,
        host=log.host,
        file=log.file,
        lines=log.lines,
        errors=log.errors,
        rate=rate,
        lowest=min(before, default=None),
        highest=max(before, default=None),
        median_rate=usual,
        factor=rate / usual if usual else None,
    )


def has_risen(rate: RateChange) -> bool:
    """Whether the rate is above all days before, by a factor that matters, in enough lines."""
    usual = rate.median_rate
    if usual is None or rate.errors < MIN_ERRORS or rate.lines < MIN_LINES:
        return False
    return rate.rate >= MIN_RISE * usual and rate.rate > (usual if rate.highest is None else rate.highest)


def _by_surplus(rate: RateChange) -> tuple[float, str, str]:
    """Most error lines above the usual number first."""
    return (rate.median_rate or 0.0) * rate.lines - rate.errors, rate.host, rate.file


def rates_before(hits: Sequence[int], lines: Sequence[int]) -> tuple[float, ...]:
    """The rate of each day that has lines: a silent day has no rate."""
    return tuple(hit / line for hit, line in zip(hits, lines, strict=True) if line)


def _share(part: int, whole: int) -> float:
    """Share of `whole`, at most 1: a last line without a newline is an error but not a line."""
    return min(part, whole) / whole if whole else 0.0
