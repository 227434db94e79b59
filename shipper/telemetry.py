"""Log set-up, the metric registry and the HTTP end points. The only importer of structlog and prometheus_client."""

import contextlib
import http.server
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

_seen = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
import structlog  # noqa: E402 - without rich, which it would take for traces; we log none, and it costs a tenth of a start

if _seen is None:
    del sys.modules["rich"]

__all__ = ["Answer", "Counter", "Endpoints", "Gauge", "Histogram", "Page", "logger", "serving", "set_up_logging"]

REPEAT_SECONDS = 10.0
LONGEST_REPEAT_SECONDS = 3600.0
"""Trouble that lasts is said once, then after 10 s, 20 s, ... at most every hour, with how many were held back."""
LOSSES = frozenset({"archive_damaged", "bytes_lost", "gap_recorded", "messages_lost"})
"""Each of these is news, however soon it follows another: nothing is lost silently."""
MAX_REMEMBERED = 1024

MOST_CONNECTIONS = 64
PATIENCE_SECONDS = 20.0
"""For a request, and for somebody who does not read his answer."""
MOST_ATTEMPTS = 5
ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

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


class Pieces(Protocol):
    """A body that is sent piece by piece, until it ends or nobody reads."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """It is not read any more; called once, however it came to that."""


class Answer(NamedTuple):
    """What a page is answered with."""

    kind: str
    body: bytes | Pieces
    code: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


Page = Callable[[], Answer]
NO_PAGES: Mapping[str, Page] = MappingProxyType({})


class Endpoints:
    """`/metrics`, `/healthz`, `/readyz`, `/status` and `pages` by their paths on one small listener, in threads.

    `ready` returns "" when the program does its work, else the reason why not.
    """

    def __init__(
        self,
        listen: str,
        *,
        ready: Callable[[], str],
        status: Callable[[], Mapping[str, Any]],
        pages: Mapping[str, Page] = NO_PAGES,
    ) -> None:
        host, _, port = listen.rpartition(":")
        known = {**_every_programs(ready, status), **pages}
        self._server = _Server((host.strip("[]") or "127.0.0.1", int(port)), _handler(known))
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
    listen: str,
    *,
    ready: Callable[[], str],
    status: Callable[[], Mapping[str, Any]],
    pages: Mapping[str, Page] = NO_PAGES,
) -> Iterator[Endpoints | None]:
    """Serve the end points on `listen` inside the block; "" serves nothing, a busy port costs only a warning."""
    try:
        endpoints = Endpoints(listen, ready=ready, status=status, pages=pages) if listen else None
    except (OSError, ValueError, OverflowError) as error:
        logger.warning("endpoints_failed", listen=listen, error=str(error))
        endpoints = None
    try:
        yield endpoints
    finally:
        if endpoints is not None:
            endpoints.close()


def _every_programs(ready: Callable[[], str], status: Callable[[], Mapping[str, Any]]) -> dict[str, Page]:
    def readiness() -> Answer:
        reason = ready()
        return Answer("text/plain; charset=utf-8", f"{reason or 'ready'}\n".encode(), 503 if reason else 200)

    return {
        "/metrics": lambda: Answer("text/plain; version=0.0.4; charset=utf-8", generate_latest(REGISTRY)),
        "/healthz": lambda: Answer("text/plain", b"ok\n"),
        "/readyz": readiness,
        "/status": lambda: Answer("application/json", json.dumps(_steady(status)).encode() + b"\n"),
    }


def _steady(status: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the program says; asked again where it changed while it was asked, as this is another thread."""
    for _ in range(MOST_ATTEMPTS - 1):
        with contextlib.suppress(RuntimeError):
            return status()
    return status()


class _Server(http.server.ThreadingHTTPServer):
    """A thread a connection, and at most `MOST_CONNECTIONS` of them: who comes too many is sent away."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever went away, or sent no request in time, is worth no trace."""


def _answer(pages: Mapping[str, Page], path: str) -> Answer:
    page = pages.get(path)
    if page is None:
        return Answer("text/plain", f"try {' '.join(sorted(pages))}\n".encode(), 404)
    try:
        return page()
    except Exception as error:  # noqa: BLE001 - a defect of one page is no reason to go silent
        logger.error("endpoint_failed", path=path, error=f"{type(error).__name__}: {error}")
        return Answer("text/plain", b"this cannot be said now; the program's log says why\n", 500)


def _handler(pages: Mapping[str, Page]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        server_version, sys_version = "fshipper", ""
        timeout = PATIENCE_SECONDS

        def do_GET(self) -> None:
            body = self._head()
            if isinstance(body, bytes):
                self.wfile.write(body)
                return
            with contextlib.closing(body) as pieces:
                for piece in pieces:
                    self.wfile.write(piece)

        def do_HEAD(self) -> None:
            body = self._head()
            if not isinstance(body, bytes):
                body.close()

        def _head(self) -> "bytes | Pieces":
            found = _answer(pages, self.path.partition("?")[0])
            self.send_response(found.code)
            self.send_header("Content-Type", found.kind)
            if isinstance(found.body, bytes):
                self.send_header("Content-Length", str(len(found.body)))
            for name, value in {**ALWAYS, **found.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            return found.body

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Scrapes are not worth a log line."""

    return Handler
