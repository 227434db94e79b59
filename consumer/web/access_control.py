"""Who may use the pages, and as what: a proxy names the user, or a one-time token or a password opens a session.

The session of a token is returned in the body of an answer, and the search page sends it in a header. The pages of
`fshipper web` are also opened by their addresses, so they have it in a cookie. Browsers send cookies to every port of a
host, so a program of another user that listens on 127.0.0.1 may receive it: a cookie opens nothing for connections of
another user of this machine than the one who signed in.
"""

import enum
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from consumer.web.accounts import AccountFile, LocalAccount, is_password_of
from consumer.web.failed_logins import FailedLogins
from consumer.web.roles import Role
from consumer.web.server import PageRequest
from consumer.web.socket_owner import owner_of_client

SESSION_SECONDS = 12 * 3600.0
"""Lifetime of a session; after it a new link or the password is needed."""
LINK_SECONDS = 600.0
"""Lifetime of a token that was not used."""
MOST_SESSIONS = 512
"""Sessions at a time; the oldest one ends for a new one."""
MOST_SESSIONS_A_USER = 64
TOKEN_HEADER = "Fshipper-Token"  # noqa: S105 - a name
SESSION_HEADER = "Fshipper-Session"
COOKIE = "fshipper_session"
LONGEST_USER = 64
PROXY = "proxy:"
"""How the session of a user whom a proxy names begins."""
OWNER = "session"
"""Name of a user whom the one-time token let in."""
HASHES_AT_A_TIME = 2
"""Passwords that are verified at a time: each takes 64 MiB of memory and a processor."""


class User(NamedTuple):
    """A user of the pages."""

    name: str  #: as in the access log
    session: str  #: searches are counted by it
    role: Role = Role.OPERATOR

    @property
    def is_of_proxy(self) -> bool:
        """Whether a proxy names the user: there is no session that ends here."""
        return self.session.startswith(PROXY)


class Refused(enum.Enum):
    """Why a login is refused."""

    WRONG = "wrong"
    BUSY = "busy"
    LATER = "later"


class LoginError(Exception):
    """A login that is refused, and after how many seconds another one may succeed."""

    def __init__(self, why: Refused, seconds: float = 0.0) -> None:
        super().__init__(why.value)
        self.why = why
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Session:
    """What a session is bound to."""

    user: str
    role: Role
    ends: float  #: by the monotonic clock
    owner: int | None  #: user id of the local client that opened it; None: not known, as of another machine
    account: LocalAccount | None  #: as it was when the session began; another password or role ends the session


@dataclass(frozen=True, slots=True)
class ProxyUsers:
    """What is believed of a proxy: the header with the user, and who of them is an operator."""

    header: str = ""  #: empty: none
    operators: frozenset[str] = frozenset()
    others: Role = Role.READER

    def user(self, request: PageRequest) -> User | None:
        """The user whom a trusted proxy names."""
        names = request.headers.get_all(self.header) if self.header else None
        if not names or len(names) > 1 or not request.is_trusted_proxy:
            return None
        name = names[0].strip()
        if not name or len(name) > LONGEST_USER or not name.isprintable():
            return None
        return User(name, f"{PROXY}{name}", Role.OPERATOR if name in self.operators else self.others)


class AccessControl:
    """The one-time token, the accounts, the sessions that they opened, and the users that a proxy names."""

    def __init__(self, proxy: ProxyUsers | None = None, accounts: AccountFile | None = None) -> None:
        self._proxy = proxy or ProxyUsers()
        self._accounts = accounts
        self._failures = FailedLogins()
        self._hashing = threading.BoundedSemaphore(HASHES_AT_A_TIME)
        self._lock = threading.Lock()
        self._token, self._token_ends = b"", 0.0
        self._sessions: dict[bytes, _Session] = {}  # by the digest of their secret, oldest first

    @property
    def has_accounts(self) -> bool:
        """Whether a password may open a session."""
        return self._accounts is not None

    def new_token(self) -> str:
        """A token that opens one session within `LINK_SECONDS`. The one before is not valid any more."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._token, self._token_ends = _digest(token), time.monotonic() + LINK_SECONDS
        return token

    def log_in(self, request: PageRequest) -> str | None:
        """A new session for the request's token. None means that the token is wrong, too old, or was used."""
        given = _digest(request.headers.get(TOKEN_HEADER, ""))
        with self._lock:
            is_valid = self._token and time.monotonic() < self._token_ends
            if not is_valid or not hmac.compare_digest(given, self._token):
                return None
            self._token = b""
        return self._opened(request, OWNER, Role.OPERATOR, None)

    def log_in_as(self, request: PageRequest, name: str, password: str) -> str:
        """A new session for a name and a password. Raises LoginError."""
        keys = (f"address {request.address}", f"name {name}")
        if seconds := self._failures.seconds_left(keys):
            raise LoginError(Refused.LATER, seconds)
        if not self._hashing.acquire(blocking=False):
            raise LoginError(Refused.BUSY, 1.0)
        try:
            account = self._accounts.account(name) if self._accounts else None
            is_right = is_password_of(account, password)  # as long for a name that does not exist
        finally:
            self._hashing.release()
        if not is_right or account is None:
            self._failures.add(keys)
            raise LoginError(Refused.WRONG)
        self._failures.forget(keys)
        return self._opened(request, name, account.role, account)

    def log_out(self, request: PageRequest) -> None:
        """End the sessions of the request."""
        with self._lock:
            for secret in _secrets_of(request):
                self._sessions.pop(_digest(secret), None)

    def user(self, request: PageRequest) -> User | None:
        """The user who sent the request. None means that there is no session, and no user of a trusted proxy."""
        return self._proxy.user(request) or self._user_of_header(request)

    def user_of_pages(self, request: PageRequest) -> User | None:
        """As `user`, also by the cookie of a session."""
        found = self.user(request)
        if found is None:
            known = (self._user_of(secret, request, is_cookie=True) for secret in _cookies(request))
            found = next((each for each in known if each is not None), None)
        return found

    def _user_of_header(self, request: PageRequest) -> User | None:
        secret = request.headers.get(SESSION_HEADER, "")
        return self._user_of(secret, request, is_cookie=False) if secret else None

    def _user_of(self, secret: str, request: PageRequest, *, is_cookie: bool) -> User | None:
        key = _digest(secret)
        with self._lock:
            found = self._sessions.get(key)
        if found is None:
            return None
        current = self._accounts.account(found.user) if self._accounts and found.account else found.account
        if found.ends < time.monotonic() or current != found.account:
            with self._lock:
                self._sessions.pop(key, None)
            return None
        if is_cookie and owner_of_client(request.peer, request.server) != found.owner:
            return None
        name = found.user if found.account else f"{OWNER} {key.hex()[:8]}"
        return User(name, key.hex(), found.role)

    def _opened(self, request: PageRequest, user: str, role: Role, account: LocalAccount | None) -> str:
        owner = owner_of_client(request.peer, request.server)
        secret = secrets.token_urlsafe(32)
        made = _Session(user, role, time.monotonic() + SESSION_SECONDS, owner, account)
        with self._lock:
            of_user = [key for key, each in self._sessions.items() if each.user == user]
            while len(of_user) >= MOST_SESSIONS_A_USER:
                del self._sessions[of_user.pop(0)]
            while len(self._sessions) >= MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[_digest(secret)] = made
        return secret


def session_cookie(secret: str, *, is_secure: bool) -> str:
    """The header that gives a session to a browser; an empty secret ends it. Only an encrypted connection names it."""
    name, more = (f"__Host-{COOKIE}", "; Secure") if is_secure else (COOKIE, "")
    age = int(SESSION_SECONDS) if secret else 0
    return f"{name}={secret}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{more}"


def _secrets_of(request: PageRequest) -> Iterator[str]:
    yield request.headers.get(SESSION_HEADER, "")
    yield from _cookies(request)


MOST_COOKIES = 8
"""Cookies of our name that are tried: other programs of the host may set some."""


def _cookies(request: PageRequest) -> list[str]:
    """The values of our cookie, whatever the cookies of other programs are."""
    wanted = f"__Host-{COOKIE}" if request.is_secure else COOKIE
    parts = [
        part.strip().partition("=") for line in request.headers.get_all("Cookie") or [] for part in line.split(";")
    ]
    return [value for name, _, value in parts if name == wanted][:MOST_COOKIES]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
