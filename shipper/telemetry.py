"""Log set-up and metrics. The only importer of structlog."""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from types import ModuleType
from typing import Any, NamedTuple

from prometheus_client import (
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.metrics import MetricWrapperBase

from shipper.units import counted

_rich = sys.modules.get("rich")
sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402 - without rich, which it would take for traces; we log none, and it costs a tenth of a start

del sys.modules["rich"]
if _rich is not None:
    sys.modules["rich"] = _rich

__all__ = ["Counter", "Gauge", "Histogram", "log_names_as", "logger", "metrics_in", "print_summary", "set_up_logging"]

REPEAT_SECONDS = 10.0
LONGEST_REPEAT_SECONDS = 3600.0
"""Back-off of repeated warnings: logged once, then after 10 s, 20 s, ... at most every hour, with a count."""
LOSSES = frozenset({"archive_damaged", "bytes_lost", "gap_recorded", "messages_lost"})
"""Each of these is news, however soon it follows another: nothing is lost silently."""
MAX_REMEMBERED = 1024

disable_created_metrics()  # type: ignore[no-untyped-call] # a series more for each counter, and nothing reads them
logger = structlog.get_logger()


class _Repeat(NamedTuple):
    """When a warning was logged, for how long it is held back, and how many were since."""

    at: float
    hold: float
    held: int = 0


class _Repeats:
    """Holds back warnings that repeat, longer each time, and counts them; one that stayed away is news again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, _Repeat] = {}

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if method not in {"warning", "error"} or event.get("event") in LOSSES:
            return event
        key = "|".join(str(event.get(name)) for name in ("event", "host", "file", "partition", "error"))
        now = self._clock()
        repeat = self._seen.get(key)
        if repeat and now - repeat.at < repeat.hold:
            self._seen[key] = repeat._replace(held=repeat.held + 1)
            raise structlog.DropEvent
        if len(self._seen) >= MAX_REMEMBERED:
            self._seen.clear()
        lasts = repeat is not None and now - repeat.at < 2 * repeat.hold
        hold = min(2 * repeat.hold, LONGEST_REPEAT_SECONDS) if repeat and lasts else REPEAT_SECONDS
        self._seen[key] = _Repeat(now, hold)
        if repeat and repeat.held:
            event["repeated"] = repeat.held
        return event


class _FileNames:
    """Writes the names of files as `shown` has them: a producer that redacts logs no secret that is in a name."""

    def __init__(self) -> None:
        self.shown: Callable[[str], str] | None = None

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if self.shown is not None:
            for field in event.keys() & {"file", "path"}:
                event[field] = self.shown(str(event[field]))
        return event


_FILE_NAMES = _FileNames()


def log_names_as(shown: Callable[[str], str]) -> None:
    """Log the names of files as `shown` has them from now on."""
    _FILE_NAMES.shown = shown


class _Printable:
    """Escapes what a terminal might take for a command: names of hosts and files come from the network."""

    def __init__(self, renderer: structlog.typing.Processor) -> None:
        self._renderer = renderer

    def __call__(self, log: object, method: str, event: MutableMapping[str, Any]) -> Any:
        for name, value in event.items():
            if isinstance(value, str) and not value.isprintable():
                event[name] = value.encode("unicode_escape", "surrogatepass").decode("ascii")
        return self._renderer(log, method, event)


def set_up_logging(*, style: str, level: str) -> None:
    """Log to stderr as `text` or `json`, from `level` up, timestamps in UTC (RFC 3339)."""
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if style == "text":
        colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")  # no-color.org
        renderer = _Printable(structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=28))
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _FILE_NAMES,
            _Repeats(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # our sessions report what happened, once


def level_of_run(level: str, *, is_chosen: bool, style: str) -> str:
    """The level for work that has an end: a person at a terminal who chose no level sees warnings and the result."""
    return "warning" if not is_chosen and style == "text" and level == "info" and sys.stderr.isatty() else level


def print_summary(
    what: str, counts: Mapping[str, int], seconds: float, *, style: str, redacted: Mapping[str, int] | None = None
) -> None:
    """One line on stdout after work that has an end: what was done, exactly; as `json` for scripts.

    `counts`: by what is counted, in the singular: `{"file": 2, "line": 31402}`. `redacted`: how often each rule fired;
    as text it is a second line, only if one did.
    """
    if style == "json":
        fields = {"v": 1, "summary": what, **{f"{noun}s": count for noun, count in counts.items()}}
        rules = {"redacted": dict(sorted(redacted.items()))} if redacted else {}
        text = json.dumps(fields | rules | {"seconds": round(seconds, 3)})
    else:
        text = f"{what} {', '.join(counted(count, noun) for noun, count in counts.items())} in {seconds:.1f} s"
        if redacted:
            by_rule = ", ".join(f"{rule} {count}" for rule, count in sorted(redacted.items()))
            text += f"\nredacted {counted(sum(redacted.values()), 'place')}: {by_rule}"
    sys.stdout.write(text + "\n")


def metrics_in(module: ModuleType) -> frozenset[str]:
    """The names of the metrics that `module` defines, as the registry collects them."""
    defined = [each for each in vars(module).values() if isinstance(each, MetricWrapperBase)]
    return frozenset(family.name for each in defined for family in each.describe())
