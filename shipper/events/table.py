"""An event that only logs and counts: a row of two lines, its meaning and its arguments.

    @warning("A file cannot be read now.", _UNREADABLE, path="file")
    def file_unreadable(*, path: str, error: str) -> None: ...

The decorator is the level. Each argument is a field of the log line under its own name, `octets` as `bytes`. An event
that computes something is an ordinary function.
"""

import functools
import math
import time
from collections.abc import Callable
from typing import ParamSpec, cast

from shipper.telemetry import Counter, logger

P = ParamSpec("P")


def _row(
    level: str,
    meaning: str,
    counts: Counter | None = None,
    *,
    per: str = "",
    by: str = "",
    hint: str = "",
    **fields: str,
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Declare an event.

    `counts`: adds one, or the argument `by`, for the arguments `per` as labels. `fields`: other names of arguments in
    the log.
    """
    names = {"octets": "bytes"} | fields
    last = {"hint": hint} if hint else {}

    def event_of(declared: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(declared)
        def emit(*_: P.args, **arguments: P.kwargs) -> None:
            if counts is not None:
                counter = counts.labels(*(arguments[label] for label in per.split())) if per else counts
                counter.inc(cast("float", arguments[by]) if by else 1)
            shown = {names.get(name, name): value for name, value in arguments.items()}
            getattr(logger, level)(declared.__name__, **shown, **last)

        emit.__doc__ = meaning
        return emit

    return event_of


debug, info, warning, error = (functools.partial(_row, level) for level in ("debug", "info", "warning", "error"))

LOG_INTERVAL_SECONDS = 60.0
_LOGGED_AT: dict[tuple[str, str], float] = {}


def is_due(event: str, about: str) -> bool:
    """Whether an event that is logged at most once a minute is logged now: for each of its subjects, or reasons."""
    now = time.monotonic()
    is_logged = now - _LOGGED_AT.get((event, about), -math.inf) >= LOG_INTERVAL_SECONDS
    if is_logged:
        _LOGGED_AT[event, about] = now
    return is_logged
