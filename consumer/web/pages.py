"""The pages of `fshipper web` and `fshipper browse`: which request needs which role, and which function answers it."""

import functools
import html
import importlib.resources
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from consumer.fleet.page import Readers
from consumer.fleet.poller import FleetWatcher
from consumer.web.access_control import AccessControl, LoginError, Refused, User, session_cookie
from consumer.web.accounts import LONGEST_PASSWORD
from consumer.web.report_files import ReportFiles, UnreadableFile
from consumer.web.roles import Role
from consumer.web.searches import Searches, refusal
from consumer.web.server import PageRequest, PageRoute
from shipper import events
from shipper.errors import ConfigError, ShipperError
from shipper.http_endpoints import Answer, standard_pages
from shipper.page_text import icon, page
from shipper.subjects import checked_host
from shipper.units import printable

SEARCH, REPORT, SIGN_IN = "/logs/", "/report/", "/sign-in"
OF_HOST = "host/"
"""Below the reports: the newest page about a host."""


def common_routes(status: Callable[[], Mapping[str, Any]]) -> Iterable[PageRoute]:
    """The paths that every program has."""
    hidden = events.PRODUCER_METRICS | events.COLLECTOR_METRICS
    for path, respond in {**standard_pages(str, status, hidden), "/favicon.ico": icon}.items():
        yield PageRoute(path, lambda _, respond=respond: respond())  # type: ignore[misc]


class BrowsePages:
    """The search page alone. Its session is in a header; it sets no cookie."""

    def __init__(self, access: AccessControl, searches: Searches) -> None:
        self._access = access
        self._searches = searches

    def routes(self) -> list[PageRoute]:
        """Every path of `fshipper browse`."""
        return [
            *common_routes(self._searches.status),
            PageRoute("/", lambda _: page("consumer.web", "search.html")),
            PageRoute("/login", self._log_in),
            PageRoute("/about", self._of_user(lambda user, _: self._searches.about(user))),
            PageRoute("/search", self._of_user(self._searches.search)),
        ]

    def _log_in(self, request: PageRequest) -> Answer:
        session = self._access.log_in(request)
        if session is None:
            return _wrong_token(request, "fshipper-browse")
        events.browse_session_opened(address=request.address)
        return Answer("application/json", json.dumps({"session": session}).encode())

    def _of_user(self, respond: Callable[[User, PageRequest], Answer]) -> Callable[[PageRequest], Answer]:
        def answer(request: PageRequest) -> Answer:
            user = self._access.user(request)
            if user is None:
                events.browse_refused(address=request.address, path=request.path)
                return refusal(401, "this page has no session", "open the link that `fshipper browse` printed")
            return respond(user, request)

        return answer


def _wrong_token(request: PageRequest, unit: str) -> Answer:
    events.browse_refused(address=request.address, path=request.path)
    return refusal(
        401,
        "this link was used before, is older than ten minutes, or is not complete",
        f"make a new one: systemctl reload {unit}, or SIGHUP",
    )


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Login(_Body):
    """The body of a login."""

    name: str = Field(max_length=64)
    password: str = Field(max_length=LONGEST_PASSWORD)


class ForgottenHost(_Body):
    """The body of a request to forget a host."""

    host: str = Field(max_length=255)


@functools.cache
def _navigation() -> str:
    return (importlib.resources.files("consumer.web") / "navigation.html").read_text(encoding="utf-8")


class WebPages:
    """Status, search and reports for users with a role."""

    def __init__(
        self, access: AccessControl, searches: Searches, reports: ReportFiles, fleet: FleetWatcher, readers: Readers
    ) -> None:
        self._access = access
        self._searches = searches
        self._reports = reports
        self._fleet = fleet
        self._readers = readers

    def routes(self) -> list[PageRoute]:
        """Every path of `fshipper web`."""
        return [
            *common_routes(self._searches.status),
            PageRoute("/", self._shown("consumer.fleet", "page.html")),
            PageRoute(SEARCH, self._shown("consumer.web", "search.html")),
            PageRoute("/logs", lambda _: _moved(SEARCH)),
            PageRoute("/report", lambda _: _moved(REPORT)),
            PageRoute("/report/{path:path}", self._report),
            PageRoute("/parts", self._shown("consumer.web", "parts.html")),
            PageRoute(SIGN_IN, lambda _: page("consumer.web", "sign_in.html")),
            PageRoute("/ways", self._ways),
            PageRoute("/login", self._log_in_by_token),
            PageRoute("/login", self._log_in, "POST"),
            PageRoute("/sign-out", self._log_out, "POST"),
            PageRoute("/about", self._of(Role.READER, self._about)),
            PageRoute("/search", self._of(Role.READER, self._searches.search)),
            PageRoute("/events", self._of(Role.READER, lambda *_: self._readers.answer())),
            PageRoute("/forget", self._of(Role.OPERATOR, self._forget), "POST"),
        ]

    def _shown(self, package: str, name: str) -> Callable[[PageRequest], Answer]:
        """A page without data, which needs a user."""

        def answer(request: PageRequest) -> Answer:
            if self._access.user_of_pages(request) is None:
                return _moved(f"{SIGN_IN}?next={quote(request.path)}")
            return page(package, name, _navigation())

        return answer

    def _of(self, role: Role, respond: Callable[[User, PageRequest], Answer]) -> Callable[[PageRequest], Answer]:
        """A function that answers users with the rights of `role`."""

        def answer(request: PageRequest) -> Answer:
            user = self._access.user_of_pages(request)
            if user is None:
                events.browse_refused(address=request.address, path=request.path)
                return refusal(401, "you are not signed in", f"sign in at {SIGN_IN}, or open a new link")
            if role is Role.OPERATOR and user.role is not Role.OPERATOR:
                return refusal(403, "only an operator may do this", "sign in as an operator")
            return respond(user, request)

        return answer

    def _about(self, user: User, _request: PageRequest) -> Answer:
        return self._searches.about(user)

    def _ways(self, _request: PageRequest) -> Answer:
        """How users sign in here."""
        return Answer("application/json", json.dumps({"password": self._access.has_accounts}).encode())

    def _log_in_by_token(self, request: PageRequest) -> Answer:
        session = self._access.log_in(request)
        if session is None:
            return _wrong_token(request, "fshipper-web")
        return _opened(session, request)

    def _log_in(self, request: PageRequest) -> Answer:
        try:
            login = Login.model_validate_json(request.body)
            session = self._access.log_in_as(request, login.name, login.password)
        except ValidationError:
            return refusal(400, "a name and a password are needed", "reload the page")
        except LoginError as refused:
            events.browse_refused(address=request.address, path=request.path)
            if refused.why is Refused.WRONG:
                return refusal(
                    401, "the name or the password is wrong", "an operator sets a new one: fshipper web user"
                )
            what = "too many logins failed" if refused.why is Refused.LATER else "others sign in at this moment"
            seconds = math.ceil(refused.seconds)
            return refusal(429, what, f"try again in {seconds} s", again=seconds)
        return _opened(session, request)

    def _log_out(self, request: PageRequest) -> Answer:
        self._access.log_out(request)
        return Answer("application/json", b"{}", headers=_cookie("", request))

    def _report(self, request: PageRequest) -> Answer:
        if self._access.user_of_pages(request) is None:
            return _moved(f"{SIGN_IN}?next={quote(request.path)}")
        name = request.path.removeprefix(REPORT)
        if name.startswith(OF_HOST):
            return _moved(REPORT + quote(self._reports.newest_of_host(name.removeprefix(OF_HOST)), safe="/#"))
        match self._reports.answer(name):
            case Answer() as found:
                return found
            case UnreadableFile(path, why, is_missing=False):
                return _message("The report cannot be read", f"{path}: {why}. {READABLE}", 503)
            case UnreadableFile(path) if not name:
                return _message("There is no report yet", f"None in {path.parent}. {FIRST_REPORT}", 404)
        return _message("There is no such page", "The list of days has links to all reports.", 404)

    def _forget(self, user: User, request: PageRequest) -> Answer:
        try:
            host = checked_host(ForgottenHost.model_validate_json(request.body).host)
        except (ValidationError, ConfigError):
            return refusal(400, "that is no name of a host", "reload the page")
        try:
            is_known = self._fleet.forget(host)
        except (ShipperError, TimeoutError) as error:
            hint = "give the key of fshipper web the right, or run fshipper status --forget"
            return refusal(503, f"the host is not forgotten: {error}", hint)
        events.host_forgotten(user=user.name, host=host, known=is_known)
        return Answer("application/json", json.dumps({"known": is_known}).encode())


READABLE = "The user of fshipper web needs the right to read it: its group, or report --readable-by all."
FIRST_REPORT = (
    "Make the first one: sudo systemctl start fshipper-report, or fshipper report --date yesterday --out DIR."
)


def _moved(path: str) -> Answer:
    return Answer("text/plain", b"", 303, {"Location": path})


def _cookie(secret: str, request: PageRequest) -> dict[str, str]:
    return {"Set-Cookie": session_cookie(secret, is_secure=request.is_secure)}


def _opened(session: str, request: PageRequest) -> Answer:
    events.browse_session_opened(address=request.address)
    return Answer("application/json", b"{}", headers=_cookie(session, request))


def _message(title: str, text: str, code: int) -> Answer:
    """A page with a sentence and the next step."""
    made = page("consumer.web", "message.html", _navigation())
    body = made.body if isinstance(made.body, bytes) else b""
    body = body.replace(b"<!--title-->", html.escape(title).encode())
    return made._replace(body=body.replace(b"<!--text-->", html.escape(printable(text)).encode()), code=code)
