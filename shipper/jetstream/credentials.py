"""Checks of the settings before a connection is made: nats-py would only say `invalid seed`, or less."""

import importlib.util
import re
from pathlib import Path

from shipper.errors import ConfigError
from shipper.settings import NatsSettings

_SEED = re.compile(rb"BEGIN USER NKEY SEED-+\s+(S[A-Z2-7]+)\s")


def check_urls(settings: NatsSettings) -> None:
    """Raise ConfigError where a URL can never give the connection that the settings ask for."""
    schemes = {url.partition("://")[0] for url in settings.url if "://" in url}
    if "ws" in schemes and settings.wants_tls:
        raise ConfigError(
            "NATS_URL has a ws:// URL, which is never encrypted, and the settings ask for TLS",
            hint="write wss:// for a WebSocket with TLS, or tls:// for the NATS port",
        )
    if schemes & {"ws", "wss"} and importlib.util.find_spec("aiohttp") is None:
        raise ConfigError(
            "a WebSocket URL (ws://, wss://) needs the Python package aiohttp, which is not installed",
            hint="install it beside fshipper: pip install 'fshipper[websocket]'; or use tls://HOST:4222 in NATS_URL",
        )


def check_readable(path: Path | None) -> None:
    """Raise ConfigError where `path` cannot be read."""
    try:
        if path is not None:
            with path.open("rb"):
                pass
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="correct the path or its permissions") from None


def check_secrets(settings: NatsSettings) -> None:
    """Raise ConfigError where a file does not hold what nats-py would look for in it; it only says `invalid seed`."""
    if settings.nkey_seed:
        first = next(iter(settings.nkey_seed.read_bytes().split()), b"")
        _check_seed(first, "NATS_NKEY", settings.nkey_seed)
    if settings.creds:
        found = _SEED.search(settings.creds.read_bytes())
        _check_seed(found[1] if found else b"", "NATS_CREDS", settings.creds)


def _check_seed(seed: bytes, setting: str, path: Path) -> None:
    import nkeys  # noqa: PLC0415 - with the whole of libsodium, for those who have a key only

    try:
        nkeys.from_seed(seed)
    except (nkeys.NkeysError, ValueError):
        what = "credentials with a user's seed" if setting == "NATS_CREDS" else "the seed of a user's key (SU...)"
        raise ConfigError(
            f"{setting}: {path} does not hold {what}", hint="`fshipper hosts add` writes such a file"
        ) from None
