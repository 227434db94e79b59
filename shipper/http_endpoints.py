"""HTTP end points of a program: metrics, health, readiness, status, pages. Limits protect them from hostile clients."""

import contextlib
import errno
import functools
import http.server
import io
import ipaddress
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from email.message import Message
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from prometheus_client import REGISTRY, generate_latest
from prometheus_client.metrics_core import Metric

from shipper import events
from shipper.telemetry import logger

MOST_CONNECTIONS = 64
MOST_ANSWERS = 48
"""Connections whose request is being answered; the rest is reserved for requests that arrive and for health checks."""
MOST_ANSWERS_AN_ADDRESS = 24
MOST_STREAMS_AN_ADDRESS = 16
"""Answers without an end (server-sent events) for one client address."""
MOST_REQUESTS_AN_ADDRESS = 16
"""Connections of one client address that have not sent their request; the oldest is closed for a newer one."""
REQUEST_SECONDS = 5.0
"""Deadline for a whole request, however many pieces it comes in."""
PATIENCE_SECONDS = 20.0
"""Maximum time for a client to take an answer, or a piece of one."""
HEALTH = frozenset({"/healthz", "/readyz"})
LATER = MappingProxyType({"Retry-After": "5"})
MOST_ATTEMPTS = 5
ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OTHER_SITES = frozenset({"cross-site", "same-site"})
"""Values of `Sec-Fetch-Site` that a browser sends for a page of another origin."""


class StreamedBody(Protocol):
    """A body that is sent in chunks, until it ends or the client closes the connection."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """It is not read any more; called once, however it came to that."""


class Answer(NamedTuple):
    """The response of a page."""

    kind: str
    body: bytes | StreamedBody
    code: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


Page = Callable[[], Answer]
NO_PAGES: Mapping[str, Page] = MappingProxyType({})


class _Without:
    """The registry without the metrics of `hidden`: another program has them, and here they would be zeros for ever."""

    def __init__(self, hidden: Set[str]) -> None:
        self._hidden = hidden

    def collect(self) -> Iterator[Metric]:
        return (family for family in REGISTRY.collect() if family.name not in self._hidden)


class Endpoints:
    """`/metrics`, `/healthz`, `/readyz`, `/status` and `pages` by their paths on one small listener, in threads.

    `ready` returns "" when the program does its work, else the reason why not. A request whose `Host` is not this
    machine is refused with 421, so that no page of another site reads what is meant for this network (DNS rebinding):
    an IP address, localhost, the machine's names and `allowed_hosts` are this machine. A request that a page of another
    origin sends is refused with 403, except a link that a person follows.
    """

    def __init__(
        self,
        listen: str,
        *,
        ready: Callable[[], str],
        status: Callable[[], Mapping[str, Any]],
        pages: Mapping[str, Page] = NO_PAGES,
        allowed_hosts: Iterable[str] = (),
        hidden_metrics: Set[str] = frozenset(),
    ) -> None:
        host, _, port = listen.rpartition(":")
        known = {**standard_pages(ready, status, hidden_metrics), **pages}
        parts = {"pages": known, "names": Names(allowed_hosts), "connections": _Connections()}
        handler = type("Handler", (_Handler,), parts)
        self._server = _Server((host.strip("[]") or "127.0.0.1", int(port)), handler)
        threading.Thread(target=self._server.serve_forever, name="endpoints", daemon=True).start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening. Its thread checks for an end twice a second only, but wakes when its socket closes."""
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def serving(
    listen: str,
    *,
    ready: Callable[[], str],
    status: Callable[[], Mapping[str, Any]],
    pages: Mapping[str, Page] = NO_PAGES,
    allowed_hosts: Iterable[str] = (),
    hidden_metrics: Set[str] = frozenset(),
) -> Iterator[Endpoints | None]:
    """Serve the end points on `listen` inside the block; "" serves nothing, a busy port costs only a warning."""
    endpoints = None
    try:
        if listen:
            endpoints = Endpoints(
                listen,
                ready=ready,
                status=status,
                pages=pages,
                allowed_hosts=allowed_hosts,
                hidden_metrics=hidden_metrics,
            )
    except (OSError, ValueError, OverflowError) as error:
        logger.warning("endpoints_failed", listen=listen, error=str(error), hint=_hint_of(error))
    try:
        yield endpoints
    finally:
        if endpoints is not None:
            endpoints.close()


def _hint_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            "another program of this machine listens there, perhaps another fshipper; the work goes on without end "
            "points: give this one --listen 127.0.0.1:PORT (SHIPPER_LISTEN) with a free port"
        )
    return "the work goes on without end points: correct --listen (SHIPPER_LISTEN), host:port"


def standard_pages(
    ready: Callable[[], str], status: Callable[[], Mapping[str, Any]], hidden_metrics: Set[str]
) -> dict[str, Page]:
    """The pages of every program by their paths: `/metrics`, `/healthz`, `/readyz`, `/status`."""

    def readiness() -> Answer:
        reason = ready()
        return Answer("text/plain; charset=utf-8", f"{reason or 'ready'}\n".encode(), 503 if reason else 200)

    shown = _Without(hidden_metrics)
    return {
        "/metrics": lambda: Answer("text/plain; version=0.0.4; charset=utf-8", generate_latest(shown)),
        "/healthz": lambda: Answer("text/plain", b"ok\n"),
        "/readyz": readiness,
        "/status": lambda: Answer("application/json", json.dumps(_steady(status)).encode() + b"\n"),
    }


def _steady(status: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """The program's status; read again if it changed during the read, because this is another thread."""
    for _ in range(MOST_ATTEMPTS - 1):
        with contextlib.suppress(RuntimeError):
            return status()
    return status()


class Names:
    """The names by which clients may address this program, in the header `Host`."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = [name.lower().rstrip(".") for name in allowed]

    def include(self, host: str) -> bool:
        """Whether `host`, as it is in the header, with or without a port, is an address or a name of this program."""
        name = re.sub(r":\d*$", "", host.strip()).lower()
        if name.startswith("[") and name.endswith("]"):
            return _is_address(name[1:-1])
        name = name.rstrip(".")
        is_allowed = any(
            one in {name, "*"} or (one.startswith("*.") and len(name) >= len(one) and name.endswith(one[1:]))
            for one in self._allowed
        )
        return is_allowed or _is_address(name) or name == "localhost" or name in _names_of_machine()


def no_page(paths: Iterable[str]) -> Answer:
    """The answer for a path that is none of `paths`."""
    return Answer("text/plain", f"try {' '.join(sorted(paths))}\n".encode(), 404)


def failed_page(path: str, error: Exception) -> Answer:
    """The answer of a page that has a defect, which is logged."""
    logger.error("endpoint_failed", path=path, error=f"{type(error).__name__}: {error}")
    return Answer("text/plain", b"this cannot be said now; the program's log says why\n", 500)


def refusal_of(headers: Message, names: Names) -> Answer | None:
    """The refusal of a request by its headers: the name of this program, or the origin of the page that sent it."""
    hosts = headers.get_all("Host") or []
    if len(hosts) > 1:
        return Answer("text/plain", b"more than one Host\n", 400)
    if hosts and not names.include(hosts[0]):
        events.host_refused(name=hosts[0][:253])
        return Answer("text/plain", b"no name of this program; SHIPPER_ALLOWED_HOSTS allows one\n", 421)
    if _is_of_another_origin(headers):
        events.origin_refused(origin=(headers.get("Origin") or headers.get("Referer") or "")[:253])
        return Answer("text/plain", b"pages of other origins may not read this\n", 403)
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@functools.cache
def _names_of_machine() -> frozenset[str]:
    """Names of this machine. May query DNS, so it is called only for names that are not known otherwise."""
    name = socket.gethostname().lower().rstrip(".")
    return frozenset({name, name.partition(".")[0], socket.getfqdn().lower().rstrip(".")}) - {""}


@dataclass(eq=False)
class _Connection:
    """A client's connection: where it comes from, until when its request has to be complete, and whether it is."""

    request: socket.socket
    address: str
    deadline: float
    is_answered: bool = False
    is_stream: bool = False


class _Connections:
    """The connections that are open. Slow ones give way to new ones, so that a health check always gets its answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, _Connection] = {}  # oldest first

    def begin(self, request: socket.socket, address: str) -> bool:
        """Whether the connection may send its request; another one that has not sent its own may end for it."""
        with self._lock:
            waiting = [each for each in self._open.values() if not each.is_answered]
            of_address = [each for each in waiting if each.address == address]
            if len(of_address) >= MOST_REQUESTS_AN_ADDRESS:
                self._drop(of_address[0])
            elif len(self._open) >= MOST_CONNECTIONS:
                if not waiting:
                    return False
                self._drop(waiting[0])
            self._open[request] = _Connection(request, address, time.monotonic() + REQUEST_SECONDS)
            return True

    def _drop(self, connection: _Connection) -> None:
        del self._open[connection.request]
        with contextlib.suppress(OSError):
            connection.request.shutdown(socket.SHUT_RDWR)  # the thread that reads from it notices

    def end(self, request: socket.socket) -> None:
        """The connection is over."""
        with self._lock:
            self._open.pop(request, None)

    def of(self, request: socket.socket) -> _Connection | None:
        """What is known of the connection; None: it had to give way."""
        with self._lock:
            return self._open.get(request)

    def may_answer(self, connection: _Connection) -> bool:
        """Whether a slot for a slow answer is free; if so, it is taken."""
        with self._lock:
            answered = [each for each in self._open.values() if each.is_answered]
            of_address = sum(each.address == connection.address for each in answered)
            if len(answered) >= MOST_ANSWERS or of_address >= MOST_ANSWERS_AN_ADDRESS:
                return False
            connection.is_answered = True
            return True

    def may_stream(self, connection: _Connection) -> bool:
        """Whether the client's address may have one more answer without an end."""
        with self._lock:
            streams = sum(each.is_stream and each.address == connection.address for each in self._open.values())
            connection.is_stream = streams < MOST_STREAMS_AN_ADDRESS
            return connection.is_stream


class _Request(io.RawIOBase):
    """The bytes of one request, all of which have to come within its deadline."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._connection.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come in time")
        self._connection.request.settimeout(left)
        return self._connection.request.recv_into(buffer)


class _Server(http.server.ThreadingHTTPServer):
    """A thread a connection."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: "type[_Handler]") -> None:
        self._connections = handler.connections
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._connections.begin(request, str(client_address[0])):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.end(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnected, or sent no request in time, causes no traceback."""


def _is_of_another_origin(headers: Message) -> bool:
    """Whether a page of another origin sent the request; a link that a person follows to a page is none."""
    site = headers.get("Sec-Fetch-Site", "")
    follows_link = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    if site.lower() in OTHER_SITES and not follows_link:
        return True
    origin = headers.get("Origin")
    if origin is None:
        return False
    own = f"{headers.get('X-Forwarded-Proto', 'http')}://{headers.get('Host', '')}"
    try:
        return _parts_of_origin(origin) != _parts_of_origin(own)
    except ValueError:
        return True


def _parts_of_origin(origin: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port (RFC 6454, section 5). Raises ValueError: the port is none."""
    parts = urlsplit(origin.strip().lower())
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


class _Handler(http.server.BaseHTTPRequestHandler):
    """One request and its answer."""

    server_version, sys_version = "fshipper", ""
    pages: Mapping[str, Page]
    names: Names
    connections: _Connections

    def setup(self) -> None:
        super().setup()
        self._mine = self.connections.of(self.connection)
        if self._mine is None:
            raise ConnectionAbortedError("it gave way to another connection")
        self.rfile = io.BufferedReader(_Request(self._mine))

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

    def _head(self) -> "bytes | StreamedBody":
        self.connection.settimeout(PATIENCE_SECONDS)
        found = self._answered(self.path.partition("?")[0])
        self.send_response(found.code)
        self.send_header("Content-Type", found.kind)
        if isinstance(found.body, bytes):
            self.send_header("Content-Length", str(len(found.body)))
        for name, value in {**ALWAYS, **found.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        return found.body

    def _answered(self, path: str) -> Answer:
        if refusal := refusal_of(self.headers, self.names):
            return refusal
        if self._mine is None or (path not in HEALTH and not self.connections.may_answer(self._mine)):
            return Answer("text/plain", b"too many requests at a time\n", 503, LATER)
        found = self._page(path)
        if not isinstance(found.body, bytes) and not self.connections.may_stream(self._mine):
            found.body.close()
            return Answer("text/plain", b"too many connections of one address\n", 503, LATER)
        return found

    def _page(self, path: str) -> Answer:
        page = self.pages.get(path)
        if page is None:
            return no_page(self.pages)
        try:
            return page()
        except Exception as error:  # noqa: BLE001 - a defect of one page is no reason to go silent
            return failed_page(path, error)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Scrapes are not worth a log line."""
