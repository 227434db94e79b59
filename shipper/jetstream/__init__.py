"""The only package that imports nats: connections, and the real implementations of the ports.

nats-py imports aiohttp where it is installed, which takes a third of the start of a command. Only WebSocket URLs need
it, so it is imported when a connection has one.
"""

import importlib
import sys
from collections.abc import Sequence

if "aiohttp" not in sys.modules:
    sys.modules["aiohttp"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("nats.aio.transport")
    finally:
        del sys.modules["aiohttp"]


def load_websockets(urls: Sequence[str]) -> None:
    """Give nats-py aiohttp if one of `urls` is a WebSocket URL."""
    if any(url.startswith(("ws://", "wss://")) for url in urls):
        sys.modules["nats.aio.transport"].aiohttp = importlib.import_module("aiohttp")  # type: ignore[attr-defined]
