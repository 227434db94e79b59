"""What `fshipper web` and `fshipper browse` do: serve their pages until a signal comes."""

import asyncio
import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import shipper
from consumer.archive.parts import is_archive, unreadable
from consumer.fleet.page import About, Readers, snapshot
from consumer.fleet.poller import FleetPoller, FleetWatcher
from consumer.read.options import BrowseOptions
from consumer.web import accounts
from consumer.web.access_control import AccessControl, ProxyUsers
from consumer.web.access_link import link_shown, opened_in_browser
from consumer.web.accounts import AccountFile
from consumer.web.options import WebOptions
from consumer.web.pages import OF_HOST, REPORT, SEARCH, SIGN_IN, BrowsePages, WebPages
from consumer.web.report_files import ReportFiles
from consumer.web.roles import Role
from consumer.web.searches import Searches
from consumer.web.server import Network, PageServer, is_in
from shipper.commands import settings_of
from shipper.errors import ConfigError
from shipper.lifecycle import Stop, notify, stop_on_signals
from shipper.settings import BrowseSettings, Settings, WebSettings
from shipper.telemetry import set_up_logging

LOOPBACK: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1"))


def browse(options: BrowseOptions) -> None:
    """Serve the search page. Raises ConfigError."""
    settings = settings_of(options)
    set_up_logging(style=settings.log.format, level=settings.log.level)
    found = settings.browse
    access = AccessControl(ProxyUsers(found.trust_user_header, others=Role.OPERATOR))
    searches = Searches(_checked_archive(settings, found.allowed_hosts, "browse"), options.config)
    server = PageServer(
        found.listen or BrowseSettings().listen,
        BrowsePages(access, searches).routes(),
        allowed_hosts=found.allowed_hosts,
        proxies=LOOPBACK,
    )
    asyncio.run(_serve(server, access, _Link("browse", "", options.open_page), searches.close))


def web(options: WebOptions) -> None:
    """Serve the pages. Raises ConfigError."""
    if options.context.invoked_subcommand is not None:
        return
    settings = settings_of(options)
    set_up_logging(style=settings.log.format, level=settings.log.level)
    found = settings.web
    archive = _checked_archive(settings, found.allowed_hosts, "web")
    proxies = _checked_proxies(found)
    users = ProxyUsers(found.user_header, frozenset(found.operators))
    access = AccessControl(users, _checked_accounts(found))
    searches = Searches(archive, options.config)
    watcher = FleetWatcher(FleetPoller(settings.nats, settings.logs.subject, name="web"), archive)
    about = About("", shipper.__version__, str(archive), time.time(), search=SEARCH, report=f"{REPORT}{OF_HOST}")
    readers = Readers(watcher, lambda view: snapshot(about, view, {}, None))
    pages = WebPages(access, searches, ReportFiles(found.report.absolute()), watcher, readers)
    server = PageServer(
        found.listen or WebSettings().listen,
        pages.routes(),
        allowed_hosts=found.allowed_hosts,
        proxies=proxies,
        only_proxies=not _is_loopback(found.listen or WebSettings().listen),
    )

    def end() -> None:
        searches.close()
        watcher.end()

    watcher.start()
    asyncio.run(_serve(server, access, _Link("web", SIGN_IN.lstrip("/"), options.open_page), end))


def check_browse(settings: Settings) -> Iterator[str]:
    """The checked settings as sentences, for `fshipper validate --role browse`. Raises ConfigError."""
    yield f"archive: {_checked_archive(settings, settings.browse.allowed_hosts, 'browse')}"
    yield f"page: {settings.browse.listen or BrowseSettings().listen}"


def check_web(settings: Settings) -> Iterator[str]:
    """The checked settings as sentences, for `fshipper validate --role web`. Raises ConfigError."""
    found = settings.web
    yield f"archive: {_checked_archive(settings, found.allowed_hosts, 'web')}"
    _checked_proxies(found)
    file = _checked_accounts(found)
    yield f"accounts: {file.path}" if file else "accounts: none"
    yield f"reports: {found.report}"
    yield f"pages: {found.listen or WebSettings().listen}"


def _checked_archive(settings: Settings, allowed_hosts: Iterable[str], section: str) -> Path:
    """The archive that is searched. Raises ConfigError: there is none, or every host name would be allowed."""
    directory = settings.collector.directory.absolute()
    if why := unreadable(directory):
        raise ConfigError(
            f"the archive {directory} cannot be read: {why}", hint="read it as the collector's user or group"
        )
    if not is_archive(directory):
        hint = "name the collector's directory, as a user who can read it: --archive DIR"
        raise ConfigError(f"there is no archive in {directory}", hint=hint)
    if "*" in allowed_hosts:
        raise ConfigError(f"{section}.allowed_hosts: `*` would allow every name", hint="name the hosts of the page")
    return directory


def _checked_proxies(settings: WebSettings) -> Sequence[Network]:
    """The networks of trusted proxies. Raises ConfigError: others could read passwords and lines on their way."""
    networks = [ipaddress.ip_network(each) for each in settings.proxies]
    if not _is_loopback(settings.listen or WebSettings().listen) and all(each.is_loopback for each in networks):
        raise ConfigError(
            f"web.listen: {settings.listen} is reached from other machines without encryption",
            hint="let a proxy with TLS forward to 127.0.0.1, or name the proxy's addresses in web.proxies",
        )
    return networks


def _is_loopback(listen: str) -> bool:
    host = listen.rpartition(":")[0].strip("[]")
    return host in {"", "localhost"} or is_in(host, LOOPBACK)


def _checked_accounts(settings: WebSettings) -> AccountFile | None:
    """The file of accounts. Raises ConfigError: it cannot be read, or by too many."""
    if settings.accounts is None:
        return None
    file = AccountFile(settings.accounts.absolute())
    if file.path.exists():
        try:
            file.load()
        except OSError as error:
            hint = "run fshipper web as the user who wrote it, or write it as the user of fshipper web"
            raise ConfigError(f"{file.path}: {error.strerror}", hint=hint) from None
    accounts.prepare()
    return file


class _Link(NamedTuple):
    """The link of a program."""

    program: str
    path: str  #: of the page that exchanges the token for a session
    is_opened: bool  #: in a browser of this machine


async def _serve(server: PageServer, access: AccessControl, link: _Link, end: Callable[[], None]) -> None:
    """Answer requests until a signal comes."""
    stop = Stop()
    with contextlib.ExitStack() as opened:
        show_link = opened.enter_context(link_shown(link.program))

        def new_link() -> str:
            return f"{server.address}{link.path}#token={access.new_token()}"

        stop_on_signals(stop, reload=lambda: show_link(new_link()))
        first = new_link()
        show_link(first)
        if link.is_opened:
            opened.enter_context(opened_in_browser(first))
        await server.serve(_until_stopped(stop), end)


async def _until_stopped(stop: Stop) -> None:
    notify("READY=1")
    await stop.wait()
