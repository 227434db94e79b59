"""Serves pages to browsers with starlette and uvicorn: checks of each request, limits, and answers that are streamed.

A page is a function of a request that runs in a worker thread. What a request must pass before: a name of this program,
its own origin, a free slot. Producers and collectors have the small listener of `shipper/http_endpoints.py` instead.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from email.message import Message
from typing import Any, NamedTuple, TypeAlias

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from consumer.web.connections import Client, Connections, LimitedProtocol
from shipper.errors import Unavailable
from shipper.http_endpoints import (
    ALWAYS,
    HEALTH,
    LATER,
    MOST_CONNECTIONS,
    PATIENCE_SECONDS,
    Answer,
    Names,
    StreamedBody,
    failed_page,
    no_page,
    refusal_of,
)

LONGEST_HEAD = 32 * 1024
"""Bytes of a request without its body."""
LONGEST_BODY = 4 * 1024
"""Bytes of the body of a request: names and a password."""
PIECE_BYTES = 64 * 1024
"""Bytes that are sent at a time; the client has `PATIENCE_SECONDS` for each piece."""
END_SECONDS = 5
"""Time of answers that are being sent when the program ends."""

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class PageRequest(NamedTuple):
    """A request that passed the checks of its host, its origin and its size."""

    path: str  #: without the query
    headers: Message
    address: str  #: of the client, as a trusted proxy names it
    peer: Client = ("", 0)  #: the other end of the connection: the client, or the proxy
    server: Client = ("", 0)  #: this end of it
    body: bytes = b""
    is_trusted_proxy: bool = False  #: whether `peer` is one

    @property
    def is_secure(self) -> bool:
        """Whether the client's connection is encrypted, as far as the proxy states it."""
        return self.is_trusted_proxy and self.headers.get("X-Forwarded-Proto", "").lower() == "https"


class PageRoute(NamedTuple):
    """A page at a path; `{path:path}` at the end stands for any rest."""

    path: str
    respond: Callable[[PageRequest], Answer]
    method: str = "GET"


class PageServer:
    """Serves `routes` on `listen`. Raises Unavailable: the address cannot be used.

    `allowed_hosts` and `proxies`: other names of this program, and the networks of proxies that name clients and users;
    `only_proxies`: no other client is answered.
    """

    def __init__(
        self,
        listen: str,
        routes: Sequence[PageRoute],
        *,
        allowed_hosts: Iterable[str] = (),
        proxies: Sequence[Network] = (),
        only_proxies: bool = False,
    ) -> None:
        self._socket = _listening(listen)
        names, limits = Names(allowed_hosts), Connections()
        # The names of the machine may need DNS, once: not in the event loop, and not before the first page.
        threading.Thread(target=names.include, args=("",), name="names", daemon=True).start()
        pages = _Pages(routes, proxies, limits)
        config = uvicorn.Config(
            _Guard(pages.application, names, limits, proxies, only_proxies=only_proxies),
            http=type("PageProtocol", (LimitedProtocol,), {"limits": limits}),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=[("Server", "fshipper")],
            timeout_graceful_shutdown=END_SECONDS,
            h11_max_incomplete_event_size=LONGEST_HEAD,
        )
        self._server = _Server(config)

    @property
    def address(self) -> str:
        """The URL of its first page."""
        host, port = self._socket.getsockname()[:2]
        shown = "localhost" if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host  # noqa: S104 - no bind
        return f"http://{shown}:{port}/"

    async def serve(self, until: Awaitable[object], end: Callable[[], object]) -> None:
        """Answer requests until `until` returns; then call `end`, which ends the answers that have no end."""
        serving = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        stopping = asyncio.ensure_future(until)
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        self._server.should_exit = True
        await asyncio.to_thread(end)
        await serving


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the program."""
        yield


def _listening(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, int(port)))
        made.listen(MOST_CONNECTIONS)
    except (OSError, ValueError, OverflowError) as error:
        made.close()
        raise Unavailable(
            f"cannot listen on {listen}: {error}", hint="choose another one: --listen 127.0.0.1:PORT"
        ) from None
    return made


class _Guard:
    """Checks each request before a page is called, and limits the time of each piece of its answer."""

    def __init__(
        self, application: ASGIApp, names: Names, limits: Connections, proxies: Sequence[Network], *, only_proxies: bool
    ) -> None:
        self._application = application
        self._names = names
        self._limits = limits
        self._proxies = proxies
        self._only_proxies = only_proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client: Client = scope["client"]
        headers = message_of(scope["headers"])

        async def send_in_time(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_ALWAYS]
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await send(message)
            except TimeoutError:
                self._limits.abort(client)

        application = self._application
        if refusal := self._refusal(scope["path"], client, headers):
            application = _response(refusal)
        await application(scope, receive, send_in_time)

    def _refusal(self, path: str, client: Client, headers: Message) -> Answer | None:
        if self._only_proxies and path not in HEALTH and not is_in(client[0], self._proxies):
            return Answer("text/plain", b"only the proxies of this program are answered\n", 403)
        if refusal := refusal_of(headers, self._names):
            return refusal
        if path in HEALTH or self._limits.may_answer(client, address_of(client, headers, self._proxies)):
            return None
        return Answer("text/plain", b"too many requests at a time\n", 503, LATER)


_ALWAYS = [(name.lower().encode(), value.encode()) for name, value in {**ALWAYS, "Connection": "close"}.items()]


def message_of(raw: Iterable[tuple[bytes, bytes]]) -> Message:
    """Headers as the rest of the program reads them."""
    made = Message()
    for name, value in raw:
        made[name.decode("latin-1")] = value.decode("latin-1")
    return made


def is_in(address: str, networks: Sequence[Network]) -> bool:
    """Whether an address is in one of the networks."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in networks)


def address_of(client: Client, headers: Message, proxies: Sequence[Network]) -> str:
    """The client's address: of the connection, or the last one that a trusted proxy names."""
    named = headers.get_all("X-Forwarded-For") or []
    last = named[-1].rpartition(",")[2].strip() if named else ""
    return last if last and len(last) <= LONGEST_ADDRESS and is_in(client[0], proxies) else client[0]


LONGEST_ADDRESS = 64


class _Pages:
    """The pages as an application of starlette."""

    def __init__(self, routes: Sequence[PageRoute], proxies: Sequence[Network], limits: Connections) -> None:
        self._proxies = proxies
        self._limits = limits
        self._paths = sorted({each.path for each in routes if "{" not in each.path})
        self.application = Starlette(
            routes=[Route(each.path, self._endpoint(each), methods=[each.method]) for each in routes],
            exception_handlers={404: self._no_page},
        )

    async def _no_page(self, _request: HttpRequest, _error: Exception) -> Response:
        return _response(no_page(self._paths))

    def _endpoint(self, route: PageRoute) -> Callable[[HttpRequest], Awaitable[Response]]:
        async def respond(http: HttpRequest) -> Response:
            body = await _body(http)
            if body is None:
                return _response(Answer("text/plain", b"the body is too long\n", 413))
            try:
                answer = await anyio.to_thread.run_sync(route.respond, self._request(http, body))
            except Exception as error:  # noqa: BLE001 - a defect of one page is no reason to go silent
                answer = failed_page(route.path, error)
            if isinstance(answer.body, bytes):
                return _response(answer)
            if http.method == "HEAD" or not self._limits.may_stream(_client(http.scope)):
                await anyio.to_thread.run_sync(answer.body.close)
                busy = Answer("text/plain", b"too many connections of one address\n", 503, LATER)
                return _response(answer._replace(body=b"") if http.method == "HEAD" else busy)
            return StreamedAnswer(answer, answer.body)

        return respond

    def _request(self, http: HttpRequest, body: bytes) -> PageRequest:
        headers, peer = message_of(http.scope["headers"]), _client(http.scope)
        return PageRequest(
            path=http.scope["path"],
            headers=headers,
            address=address_of(peer, headers, self._proxies),
            peer=peer,
            server=http.scope["server"],
            body=body,
            is_trusted_proxy=is_in(peer[0], self._proxies),
        )


def _client(scope: Scope) -> Client:
    client: Client = scope["client"]
    return client


async def _body(http: HttpRequest) -> bytes | None:
    """The body of a request. None: it is too long."""
    found = b""
    with contextlib.suppress(ClientDisconnect):
        async for piece in http.stream():
            found += piece
            if len(found) > LONGEST_BODY:
                return None
    return found


class StreamedAnswer(StreamingResponse):
    """An answer without an end. Its body is closed however it ends, also before the first piece is sent."""

    def __init__(self, answer: Answer, body: StreamedBody) -> None:
        super().__init__(self._pieces(body), answer.code, dict(answer.headers), answer.kind)
        self._body = body
        self._thread = anyio.CapacityLimiter(1)  # of its own: connections limit how many there are

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces until the body ends or the client leaves."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._body.close, limiter=self._thread)

    async def _pieces(self, body: StreamedBody) -> AsyncGenerator[bytes, None]:
        """The pieces, each read in a thread."""
        pieces = iter(body)
        try:
            while (piece := await anyio.to_thread.run_sync(next, pieces, None, limiter=self._thread)) is not None:
                yield piece
        except Exception as error:  # noqa: BLE001 - the answer has begun: the client sees that it has no end
            failed_page("a streamed answer", error)


async def _slices(body: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]


def _response(answer: Answer) -> Response:
    """An answer that is known as a whole."""
    if not isinstance(answer.body, bytes):
        raise TypeError("this answer is streamed")
    headers = {**answer.headers, "Content-Length": str(len(answer.body))}
    return StreamingResponse(_slices(answer.body), answer.code, headers, answer.kind)
