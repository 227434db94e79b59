"""Log set-up, the metric registry and the HTTP end points. The only importer of structlog and prometheus_client."""

import contextlib
import http.server
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

_seen = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
import structlog  # noqa: E402 - without rich, which it would take for traces; we log none, and it costs a tenth of a start

if _seen is None:
    del sys.modules["rich"]

__all__ = ["Counter", "Endpoints", "Gauge", "Histogram", "logger", "serving", "set_up_logging"]

REPEAT_SECONDS = 10.0
LONGEST_REPEAT_SECONDS = 3600.0
"""Trouble that lasts is said once, then after 10 s, 20 s, ... at most every hour, with how many were held back."""
LOSSES = frozenset({"archive_damaged", "bytes_lost", "gap_recorded", "messages_lost"})
"""Each of these is news, however soon it follows another: nothing is lost silently."""
MAX_REMEMBERED = 1024

logger = structlog.get_logger()


class _Said(NamedTuple):
    """When a warning was logged, for how long it is held back, and how many were since."""

    at: float
    hold: float
    held: int = 0


class _Repeats:
    """Holds back warnings that repeat, longer each time, and counts them; one that stayed away is news again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, _Said] = {}

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if method not in {"warning", "error"} or event.get("event") in LOSSES:
            return event
        key = "|".join(str(event.get(name)) for name in ("event", "host", "file", "partition", "error"))
        now = self._clock()
        said = self._seen.get(key)
        if said and now - said.at < said.hold:
            self._seen[key] = said._replace(held=said.held + 1)
            raise structlog.DropEvent
        if len(self._seen) >= MAX_REMEMBERED:
            self._seen.clear()
        lasts = said is not None and now - said.at < 2 * said.hold
        hold = min(2 * said.hold, LONGEST_REPEAT_SECONDS) if said and lasts else REPEAT_SECONDS
        self._seen[key] = _Said(now, hold)
        if said and said.held:
            event["repeated"] = said.held
        return event


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
        renderer = _Printable(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=28))
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _Repeats(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("nats").setLevel(logging.CRITICAL)  # our sessions report what happened, once


class Endpoints:
    """`/metrics`, `/healthz`, `/readyz` and `/status` on one small listener, in a thread of its own.

    `ready` returns "" when the program does its work, else the reason why not.
    """

    def __init__(self, listen: str, *, ready: Callable[[], str], status: Callable[[], Mapping[str, Any]]) -> None:
        host, _, port = listen.rpartition(":")
        self._server = http.server.ThreadingHTTPServer((host or "127.0.0.1", int(port)), _handler(ready, status))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="endpoints", daemon=True).start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def serving(
    listen: str, *, ready: Callable[[], str], status: Callable[[], Mapping[str, Any]]
) -> Iterator[Endpoints | None]:
    """Serve the end points on `listen` inside the block; "" serves nothing, a busy port costs only a warning."""
    try:
        endpoints = Endpoints(listen, ready=ready, status=status) if listen else None
    except (OSError, ValueError, OverflowError) as error:
        logger.warning("endpoints_failed", listen=listen, error=str(error))
        endpoints = None
    try:
        yield endpoints
    finally:
        if endpoints is not None:
            endpoints.close()


def _handler(
    ready: Callable[[], str], status: Callable[[], Mapping[str, Any]]
) -> type[http.server.BaseHTTPRequestHandler]:
    def answer(path: str) -> tuple[int, str, bytes]:
        match path:
            case "/metrics":
                return 200, "text/plain; version=0.0.4; charset=utf-8", generate_latest(REGISTRY)
            case "/healthz":
                return 200, "text/plain", b"ok\n"
            case "/readyz":
                reason = ready()
                return (503 if reason else 200), "text/plain", f"{reason or 'ready'}\n".encode()
            case "/status":
                return 200, "application/json", json.dumps(status()).encode() + b"\n"
            case _:
                return 404, "text/plain", b"try /metrics /healthz /readyz /status\n"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, kind, body = answer(self.path.partition("?")[0])
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Scrapes are not worth a log line."""

    return Handler
