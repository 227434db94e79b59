"""What `fshipper browse` does: serves a page that searches and follows, until it is stopped."""

import asyncio
import contextlib
import html
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from consumer.browse.access_control import AccessControl
from consumer.browse.server import BrowseServer, SearchSettings
from consumer.logview.file_index import is_archive
from shipper import events
from shipper.errors import ConfigError, Unavailable
from shipper.http_endpoints import Endpoints
from shipper.lifecycle import Stop, notify, stop_on_signals
from shipper.settings import BrowseSettings, Settings
from shipper.telemetry import set_up_logging

DEFAULT_LISTEN = BrowseSettings().listen


def run(settings: Settings, config: Path | None, *, open_page: bool) -> None:
    """Serve the page until a signal comes. `config`: the configuration file, for the searches. Raises ConfigError."""
    set_up_logging(style=settings.log.format, level=settings.log.level)
    searches = SearchSettings(_checked_archive(settings), config)
    asyncio.run(_serve(settings.browse, searches, open_page=open_page))


def check(settings: Settings) -> Iterator[str]:
    """The checked settings as sentences, for `fshipper validate --role browse`. Raises ConfigError."""
    yield f"archive: {_checked_archive(settings)}"
    yield f"page: {settings.browse.listen or DEFAULT_LISTEN}"


def _checked_archive(settings: Settings) -> Path:
    """The archive that is searched. Raises ConfigError: there is none, or every host name would be allowed."""
    directory = settings.collector.directory.absolute()
    if not is_archive(directory):
        hint = "name the collector's directory, as a user who can read it: --archive DIR"
        raise ConfigError(f"there is no archive in {directory}", hint=hint)
    if "*" in settings.browse.allowed_hosts:
        raise ConfigError("browse.allowed_hosts: `*` would allow every name", hint="name the hosts of the page")
    return directory


async def _serve(settings: BrowseSettings, searches: SearchSettings, *, open_page: bool) -> None:
    access = AccessControl(user_header=settings.trust_user_header)
    server = BrowseServer(searches, access)
    try:
        endpoints = Endpoints(
            settings.listen or DEFAULT_LISTEN,
            ready=str,
            status=server.status,
            respond=server.respond,
            hidden_metrics=events.PRODUCER_METRICS | events.COLLECTOR_METRICS,
            allowed_hosts=settings.allowed_hosts,
        )
    except (OSError, ValueError, OverflowError) as error:
        raise Unavailable(
            f"cannot listen on {settings.listen}: {error}", hint="choose another one: --listen 127.0.0.1:PORT"
        ) from None
    host = settings.listen.rpartition(":")[0] or "127.0.0.1"
    address = f"http://{'localhost' if host in {'0.0.0.0', '[::]'} else host}:{endpoints.port}/"  # noqa: S104 - no bind

    def link() -> str:
        return f"{address}#token={access.new_token()}"

    stop = Stop()
    stop_on_signals(stop, reload=lambda: _print_link(link()))
    with contextlib.closing(endpoints), contextlib.closing(server), contextlib.ExitStack() as opened:
        first = link()
        _print_link(first)
        if open_page:
            webbrowser.open(opened.enter_context(_redirect(first)))
        notify("READY=1")
        await stop.wait()


def _print_link(link: str) -> None:
    print(f"fshipper browse: {link}\nThe link opens one session. SIGHUP prints another link.", flush=True)


@contextlib.contextmanager
def _redirect(link: str) -> Iterator[str]:
    """The URL of a private file that leads to `link`: arguments of a browser can be read by every user."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="fshipper-browse-") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(link, quote=True)}">')
        file.flush()
        yield Path(file.name).as_uri()
