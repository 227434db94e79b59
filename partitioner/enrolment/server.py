"""The HTTPS end point where hosts join and leave, on uvicorn: small requests, few in parallel, failures limited."""

import asyncio
import binascii
import json
import signal
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from partitioner.enrolment.authority import Authority
from partitioner.enrolment.protocol import AUTHORITY_PATH, JOIN_PATH, LEAVE_PATH, MAX_BODY_BYTES, VERSION, JoinError
from partitioner.enrolment.site import Site
from shipper.errors import ShipperError
from shipper.telemetry import logger

FAILURES_A_MINUTE = 10
"""Refused requests of one address in a minute; more are answered with 429."""
MAX_ADDRESSES = 10_000
MAX_CONNECTIONS = 64
BODY_SECONDS = 5.0


class FailureLimit:
    """How often requests of each address were refused in the last minute. Owned by the event loop."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def is_over(self, address: str) -> bool:
        """Whether requests of this address are refused now."""
        recent = [at for at in self._failures.get(address, ()) if at > time.monotonic() - 60]
        return len(recent) >= FAILURES_A_MINUTE

    def failed(self, address: str) -> None:
        """Count a refused request."""
        recent = [at for at in self._failures.pop(address, ()) if at > time.monotonic() - 60]
        self._failures[address] = [*recent[-FAILURES_A_MINUTE:], time.monotonic()]
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)


class JoinServer:
    """The application: the authority's certificate, join, leave. One change at a time."""

    def __init__(self, site: Site, certificate: Path) -> None:
        self._site = site
        self._certificate = certificate
        self._limit = FailureLimit()
        self._changes = asyncio.Lock()
        routes = [
            Route(AUTHORITY_PATH, self._authority),
            Route(JOIN_PATH, self._join, methods=["POST"]),
            Route(LEAVE_PATH, self._leave, methods=["POST"]),
        ]
        self.app = Starlette(routes=routes)

    async def _authority(self, _: Request) -> Response:
        return PlainTextResponse(self._certificate.read_bytes(), media_type="application/x-pem-file")

    async def _join(self, request: Request) -> Response:
        return await self._answer(request, self._joined)

    async def _leave(self, request: Request) -> Response:
        return await self._answer(request, self._left)

    async def _answer(self, request: Request, work: Any) -> Response:
        address = request.client.host if request.client else ""
        if self._limit.is_over(address):
            return JSONResponse({"error": "too many refused requests", "hint": "wait a minute"}, 429)
        try:
            content = await _content(request)
            async with self._changes:
                return JSONResponse(await run_in_threadpool(work, content, address))
        except JoinError as error:
            self._limit.failed(address)
            logger.warning("join_refused", address=address, reason=str(error))
            return JSONResponse({"error": str(error), "hint": error.hint}, 403)
        except (ValueError, LookupError, TypeError, binascii.Error, TimeoutError, ClientDisconnect):
            self._limit.failed(address)
            return JSONResponse({"error": "this is no request of `fshipper join`", "hint": "update fshipper"}, 400)
        except (ShipperError, OSError) as error:
            logger.warning("join_failed", address=address, reason=str(error))
            return JSONResponse({"error": f"the site cannot do it now: {error}", "hint": "try again"}, 503)

    def _joined(self, content: dict[str, Any], address: str) -> dict[str, Any]:
        host, key = str(content["host"]), str(content["key"])
        secret = bytes.fromhex(content["secret"])
        answer = self._site.join(str(content["id"]), secret, host, key, str(content["signature"]), address)
        logger.info("host_joined", host=host, address=address, key=key)
        return {"version": VERSION, **answer._asdict()}

    def _left(self, content: dict[str, Any], address: str) -> dict[str, Any]:
        host, key = str(content["host"]), str(content["key"])
        self._site.leave(host, key, int(content["at"]), str(content["signature"]))
        logger.info("host_left", host=host, address=address, key=key)
        return {"version": VERSION}


async def _content(request: Request) -> dict[str, Any]:
    body = b""
    async with asyncio.timeout(BODY_SECONDS):
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise ValueError("too large")
    content = json.loads(body)
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise ValueError("another version")
    return content


def serve(site: Site, authority: Authority, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError: the port is taken."""
    config = uvicorn.Config(
        JoinServer(site, authority.certificate).app,
        host=host,
        port=port,
        ssl_certfile=str(authority.server_certificate),
        ssl_keyfile=str(authority.server_key),
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
    )
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again when it has drained
    uvicorn.Server(config).run()
