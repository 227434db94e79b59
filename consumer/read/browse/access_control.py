"""Who may search: a one-time token is exchanged for a session, or a proxy on this machine names the user.

The session is in a request header that the page adds, not in a cookie: browsers send cookies to every port of a host,
so a program of another user that listens on 127.0.0.1 would receive the session from a user who opens its page.
"""

import hashlib
import hmac
import ipaddress
import secrets
import threading
import time
from typing import NamedTuple

from shipper.http_endpoints import Request

SESSION_SECONDS = 12 * 3600.0
"""Lifetime of a session; after it a new link is needed."""
LINK_SECONDS = 600.0
"""Lifetime of a token that was not used."""
MOST_SESSIONS = 64
"""Sessions at a time; the oldest one ends for a new one."""
TOKEN_HEADER = "Fshipper-Token"  # noqa: S105 - a name
SESSION_HEADER = "Fshipper-Session"
LONGEST_USER = 64


class User(NamedTuple):
    """A user who may search."""

    name: str  #: as in the access log
    session: str  #: searches are counted by it


class AccessControl:
    """The one-time token, the sessions that it opened, and the users that a proxy names.

    `user_header`: the name of the header in which a reverse proxy on this machine sends its user; "": none is trusted.
    """

    def __init__(self, *, user_header: str = "") -> None:
        self._user_header = user_header
        self._lock = threading.Lock()
        self._token, self._token_ends = b"", 0.0
        self._sessions: dict[str, float] = {}  # when they end, oldest first

    def new_token(self) -> str:
        """A token that opens one session within `LINK_SECONDS`. The one before is not valid any more."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._token, self._token_ends = _digest(token), time.monotonic() + LINK_SECONDS
        return token

    def log_in(self, request: Request) -> str | None:
        """A new session for the request's token. None means that the token is wrong, too old, or was used."""
        given = _digest(request.headers.get(TOKEN_HEADER, ""))
        with self._lock:
            is_valid = self._token and time.monotonic() < self._token_ends
            if not is_valid or not hmac.compare_digest(given, self._token):
                return None
            self._token = b""
            session = secrets.token_urlsafe(32)
            while len(self._sessions) >= MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[session] = time.monotonic() + SESSION_SECONDS
        return session

    def user(self, request: Request) -> User | None:
        """The user who sent the request. None means that there is no session, and no user of a trusted proxy."""
        return self._user_of_proxy(request) or self._user_of_session(request)

    def _user_of_proxy(self, request: Request) -> User | None:
        names = request.headers.get_all(self._user_header) if self._user_header else None
        if not names or len(names) > 1 or not _is_loopback(request.address):
            return None
        name = names[0].strip()
        if not name or len(name) > LONGEST_USER or not name.isprintable():
            return None
        return User(name, f"proxy:{name}")

    def _user_of_session(self, request: Request) -> User | None:
        session = request.headers.get(SESSION_HEADER, "")
        with self._lock:
            if self._sessions.get(session, 0.0) < time.monotonic():
                self._sessions.pop(session, None)
                return None
        return User(f"session {_digest(session).hex()[:8]}", session)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
