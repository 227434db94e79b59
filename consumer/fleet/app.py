"""`fshipper status`: polls the fleet and shows it as a table."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from consumer.fleet.display import fleet_json, host_json, printable, tables
from consumer.fleet.host_table import ALIASES, TROUBLED, HostState, HostStatus, Thresholds
from consumer.fleet.options import StatusOptions
from consumer.fleet.poller import FleetPoller
from consumer.fleet.snapshot import LEAST_SECONDS, Fleet
from shipper.commands import settings_of
from shipper.errors import EXIT_OK, InsecureConnection, Transient, Unavailable, UsageError
from shipper.lifecycle import Stop
from shipper.nearest import did_you_mean
from shipper.retry import SESSION, until_done
from shipper.subjects import checked_host
from shipper.table_printer import standard_output
from shipper.units import seconds_of

EXIT_TROUBLE = 2
ATTEMPTS = 4
NAMED_HOSTS = 5
TERMINAL_MARGIN = 12  # lines of a screen that are not rows of hosts
_T = TypeVar("_T")


def run(options: StatusOptions) -> int:
    """The exit code. Raises UsageError: an option is wrong. Unavailable: the server has no streams."""
    settings = settings_of(options)
    wanted = HostFilter(options.hosts or (), options.state or ())
    limits = Thresholds(
        dead=seconds_of(options.dead_after, "--dead-after"), stuck=seconds_of(options.stuck_after, "--stuck-after")
    )
    poller = FleetPoller(settings.nats, settings.logs.subject, name="status", limits=limits)
    if options.forget:
        asyncio.run(_closing(poller, _forget(poller, [checked_host(host) for host in options.forget])))
        return EXIT_OK
    showing = _DisplayOptions(wanted, options.limit, options.as_json)
    if options.watch:
        every = seconds_of(options.every, "--every")
        with suppress(KeyboardInterrupt):
            asyncio.run(_closing(poller, _watch(poller, showing, every)))
        return EXIT_OK
    fleet = asyncio.run(_closing(poller, _once(poller)))
    if not fleet.partitions and not fleet.hosts:
        raise Unavailable(
            f"the server at {settings.nats.shown_url} has no streams of {settings.logs.subject!r}",
            hint="create them: fshipper partition apply --partitions N",
        )
    showing.print(fleet)
    unknown = wanted.unknown(fleet)
    for glob in unknown:
        meant = did_you_mean(glob, [host.name for host in fleet.hosts])
        sys.stderr.write(f"error: no host is called {glob!r}: {meant}{_known(fleet)}\n")
    return EXIT_TROUBLE if unknown or wanted.troubled(fleet) else EXIT_OK


def _known(fleet: Fleet) -> str:
    if not fleet.hosts:
        return "no host has sent anything yet"
    names = [host.name for host in fleet.hosts[:NAMED_HOSTS]]
    more = f" and {len(fleet.hosts) - len(names)} more" if len(fleet.hosts) > len(names) else ""
    return f"there is {', '.join(map(printable, names))}{more}"


class HostFilter:
    """Which hosts to show. Raises UsageError: there is no such state."""

    def __init__(self, globs: Sequence[str], states: Sequence[str]) -> None:
        self._globs = [glob.lower() for glob in globs]
        self._states = frozenset(_state(word) for text in states for word in text.split(",") if word)

    def listed(self, fleet: Fleet) -> list[HostStatus]:
        """Those of a table: without a filter no hosts that ended, which would fill it."""
        hosts = self.hosts(fleet)
        chosen = bool(self._globs or self._states)
        return hosts if chosen else [host for host in hosts if host.state is not HostState.ENDED]

    def hosts(self, fleet: Fleet) -> list[HostStatus]:
        """Those to show, in the order of the fleet."""
        named = [
            host for host in fleet.hosts if not self._globs or any(fnmatchcase(host.name, glob) for glob in self._globs)
        ]
        return [host for host in named if not self._states or host.state in self._states]

    def unknown(self, fleet: Fleet) -> list[str]:
        """The names and patterns that match no host: nothing was checked for them."""
        return [glob for glob in self._globs if not any(fnmatchcase(host.name, glob) for host in fleet.hosts)]

    def troubled(self, fleet: Fleet) -> bool:
        """Whether there is a problem: with the named hosts, or with anything if no host is named."""
        everything = not (self._globs or self._states)
        hosts = any(host.state in TROUBLED for host in self.hosts(fleet))
        return hosts or (everything and bool(fleet.troubled_partitions or fleet.doubled))


@dataclass(frozen=True, slots=True)
class _DisplayOptions:
    """How to show the fleet."""

    wanted: HostFilter
    limit: int
    as_json: bool

    def print(self, fleet: Fleet, *, indent: int | None = 2) -> None:
        if self.as_json:
            chosen = {"hosts": [host_json(host) for host in self.wanted.hosts(fleet)]}
            sys.stdout.write(json.dumps(fleet_json(fleet) | chosen, indent=indent) + "\n")
            sys.stdout.flush()
            return
        out = standard_output()
        out.print(tables(out, fleet, self.wanted.listed(fleet), limit=self.limit), crop=False)

    def screen(self, fleet: Fleet, out: Console) -> RenderableType:
        room = max(3, out.height - TERMINAL_MARGIN - len(fleet.partitions))
        limit = min(self.limit, room) if self.limit else room
        return tables(out, fleet, self.wanted.listed(fleet), limit=limit)


async def _closing(poller: FleetPoller, work: Coroutine[Any, Any, _T]) -> _T:
    try:
        return await work
    finally:
        await poller.close()


async def _once(poller: FleetPoller) -> Fleet:
    """One snapshot, or a second one if the first may show only a temporary state."""

    async def attempt() -> Fleet:
        fleet = await poller.poll()
        if any(each.status.lag and not each.status.waiting for each in fleet.partitions):
            await asyncio.sleep(2 * LEAST_SECONDS)
            fleet = await poller.poll()
        return fleet

    return await until_done(attempt, policy=SESSION, stop=Stop(), attempts=ATTEMPTS)


async def _watch(poller: FleetPoller, showing: _DisplayOptions, every: float) -> None:
    out = standard_output()
    with contextlib.ExitStack() as stack:
        live = None
        if out.is_terminal and not showing.as_json:
            live = stack.enter_context(Live(Text("loading …"), console=out, screen=True, auto_refresh=False))
        while True:
            try:
                fleet = await poller.poll()
                if live:
                    live.update(showing.screen(fleet, out), refresh=True)
                else:
                    showing.print(fleet, indent=None)
            except InsecureConnection:
                raise  # a later attempt cannot make the connection more secure
            except (Transient, Unavailable) as error:
                if live:
                    live.update(Text(f"{error}\n{error.hint}\n\ntrying again …", style="red"), refresh=True)
                else:
                    sys.stderr.write(f"error: {error}\n")
            await asyncio.sleep(every)


async def _forget(poller: FleetPoller, hosts: Sequence[str]) -> None:
    for host in hosts:
        known = await poller.forget(host)
        sys.stdout.write(f"{host} is forgotten\n" if known else f"{host} never sent anything\n")


def _state(word: str) -> HostState:
    try:
        return ALIASES.get(word.lower()) or HostState(word.lower())
    except ValueError:
        raise UsageError(f"there is no state {word!r}", hint=f"states are {', '.join(HostState)}") from None
