"""The status page of a collector: `/` is one HTML file, `/events` sends its content as server-sent events.

The content security policy allows the script and style of the page by their hashes, and no other origin.

The events are JSON of bounded size, with every name made printable.
"""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import shipper
from consumer.disk_space import Disk
from consumer.fleet.causes import CollectorSign, Severity, hindrance
from consumer.fleet.display import durability_json, host_json, partition_json, printable
from consumer.fleet.host_table import HostState, HostStatus, counts
from consumer.fleet.poller import FleetPoller, FleetView, FleetWatcher
from consumer.fleet.snapshot import Fleet, Partition, Problem, Verdict
from shipper.events.collecting import ReportedGap, recent_gaps
from shipper.http_endpoints import NO_PAGES, Answer, Page
from shipper.page_text import icon, page
from shipper.settings import Settings
from shipper.units import counted, format_bytes

MOST_HOSTS = 400
"""Maximum rows in an event, the worst first; `fshipper status` shows all."""
MOST_PARTITIONS = 256
MOST_TROUBLES = 50
NO_FILES = 3
"""Maximum files with a backlog that a row names."""


class About(NamedTuple):
    """The collector that serves the page."""

    name: str
    version: str
    archive: str
    began: float  #: seconds since 1970
    search: str = ""  #: path of the search page, to which hosts are linked; empty: there is none
    report: str = ""  #: path to which the name of a host is added for its newest report; empty: there is none


def snapshot(
    about: About, view: FleetView, collecting: Mapping[str, Any], gaps: Sequence[ReportedGap] | None
) -> dict[str, Any]:
    """Everything that the page draws: sizes in bytes, durations in seconds, times in seconds since 1970.

    `collecting`: the collector's own state (`/status`). `gaps`: those of this collector; None: this is no collector.
    """
    fleet = view.fleet or Fleet(at=view.at)
    troubles = _troubles(fleet, view.disk, collecting)
    rows = by_cause(troubles)
    content = {
        "about": about._asdict(),
        "at": view.at,
        "fleet_at": view.fleet_at,
        "trouble": view.trouble,
        "known": view.fleet is not None,
        "counts": {str(state): count for state, count in counts(fleet.hosts).items()},
        "rate_bytes": round(fleet.rate),
        "lag": fleet.lag,
        "verdict": _verdict(fleet, troubles),
        "backlog": _backlog(fleet),
        "troubles": [each._asdict() for each in rows[:MOST_TROUBLES]],
        "troubles_total": len(rows),
        "hosts": [host | {"behind": host["behind"][:NO_FILES]} for host in map(host_json, _most_telling(fleet.hosts))],
        "hosts_total": len(fleet.hosts),
        "partitions": [_partition(each, collecting) for each in fleet.partitions[:MOST_PARTITIONS]],
        "partitions_total": len(fleet.partitions),
        "dead_letters": fleet.dead_letters,
        "advisories": fleet.advisories,
        "durability": durability_json(fleet),
        "notes": [*fleet.notes, *fleet.warnings],
        "gaps": None if gaps is None else [each._asdict() for each in reversed(gaps)],
        "history": [list(each) for each in view.history],
        "disk": None if view.disk is None else {"size": view.disk.size, "free": view.disk.free},
        "collecting": {name: collecting.get(name) for name in ("collector", "stands_by", "others")},
    }
    printed: dict[str, Any] = printable(content)
    return printed


NOTE = str(Severity.NOTE)


def _troubles(fleet: Fleet, disk: Disk | None, collecting: Mapping[str, Any]) -> list[Problem]:
    """The problems, the most important first."""
    found = fleet.problems
    kinds = {each.kind for each in found}
    if not kinds & {"disk", "collector"}:  # the server has no entry of this collector, or not yet
        found = [*_own_troubles(disk, collecting), *found]
    if "disk" not in kinds and disk is not None and disk.is_nearly_full:
        found.append(Problem("disk", "archive disk", f"nearly full: {format_bytes(disk.free)} free", Severity.SLOWED))
    doubled = int(collecting.get("doubled_bytes") or 0)
    if doubled and "duplicates" not in kinds:
        why = f"{doubled:,} bytes are in it twice: fshipper audit --repair-duplicates"
        found.append(Problem("duplicates", "archive", why, Severity.SLOWED))
    # Notes: something requires a decision, and delays nothing.
    if fleet.durability and fleet.durability.is_at_risk:
        found.append(Problem("durability", "", fleet.durability.warning, NOTE))
    if fleet.dead_letters:
        waiting = counted(fleet.dead_letters, "waits", "wait")
        found.append(Problem("dead letters", "", f"{waiting}: fshipper dlq ls", NOTE))
    if fleet.advisories:
        messages = counted(fleet.advisories, "message")
        given_up = f"{messages} that the server gave up delivering: fshipper dlq ls"
        found.append(Problem("dead letters", "given up", given_up, NOTE))
    return found


_AMOUNT = re.compile(r"\d[\d.,]*(?: (?:[KMGTP]iB|B|s|min|h|d|ms)\b)?")
NAMED_HOSTS = 3


def by_cause(troubles: Sequence[Problem]) -> list[Problem]:
    """One row for each cause: hosts whose reasons differ in amounts only are in one, in the place of the first."""
    groups: dict[tuple[str, str, str], list[Problem]] = {}
    for each in troubles:
        cause = _AMOUNT.sub("#", each.why) if each.kind == "host" else f"{each.what} {each.why}"
        groups.setdefault((each.kind, each.state, cause), []).append(each)
    return [_row_of(group) for group in groups.values()]


def _row_of(group: Sequence[Problem]) -> Problem:
    first = group[0]
    if len(group) == 1:
        return first
    names = ", ".join(each.what for each in group[:NAMED_HOSTS])
    more = f" and {len(group) - NAMED_HOSTS} more" if len(group) > NAMED_HOSTS else ""
    return first._replace(what=f"{counted(len(group), 'host')}: {names}{more}", why=f"{first.what}: {first.why}")


def _own_troubles(disk: Disk | None, collecting: Mapping[str, Any]) -> Iterator[Problem]:
    """What hinders this collector, each cause once."""
    name = str(collecting.get("collector") or "")
    for trouble in dict.fromkeys(each["trouble"] for each in collecting.get("partitions", ()) if each.get("trouble")):
        cause = hindrance(CollectorSign(name=name, trouble=trouble, disk=disk))
        yield Problem(cause.kind, cause.what, cause.why, cause.severity)


def _verdict(fleet: Fleet, troubles: Sequence[Problem]) -> dict[str, Any]:
    """The first line of the page: its state, and its text or the number of hosts and other problems."""
    bad = [each for each in troubles if each.state != NOTE]
    if not bad:
        return {"state": str(fleet.verdict), "text": _quiet_text(fleet), "hosts": 0, "others": 0}
    halted = any(each.state in {HostState.DEAD, HostState.SHARED} for each in bad)
    hosts = sum(each.kind == "host" for each in bad)
    others = len(bad) - hosts
    text = ""  # the page counts them
    if others == 1 and not hosts:
        what, why = bad[0].what, bad[0].why.partition(";")[0]
        text = why if what in why else f"{what}: {why}"
    return {
        "state": str(Verdict.HALTED if halted else Verdict.SLOWED),
        "text": text[:1].upper() + text[1:],
        "hosts": hosts,
        "others": others,
    }


def _quiet_text(fleet: Fleet) -> str:
    total, ended = len(fleet.hosts), sum(host.state is HostState.ENDED for host in fleet.hosts)
    match fleet.verdict:
        case Verdict.UNKNOWN:
            return f"No problem is known; nothing is known of {fleet.unknown_hosts} of {counted(total, 'host')}"
        case Verdict.EMPTY if ended:
            return f"No producer runs; {counted(ended, 'host')} ended as requested"
        case Verdict.EMPTY:
            return "Nothing ships here yet"
    return "All is well"


def _backlog(fleet: Fleet) -> str:
    """What waits on the hosts, as far as their heartbeats show it."""
    waiting = sum(host.beat.backlog for host in fleet.hosts if host.beat)
    silent = sum(host.beat is None or host.state in {HostState.DEAD, HostState.UNKNOWN} for host in fleet.hosts)
    if not fleet.hosts:
        return "no host is known"
    if silent == len(fleet.hosts):
        return "what waits on the hosts is not known"
    known = f"{format_bytes(waiting)} wait on the hosts" if waiting else "nothing waits on the hosts"
    return f"{known}; of {silent} it is not known" if silent else known


def _partition(partition: Partition, collecting: Mapping[str, Any]) -> dict[str, Any]:
    mine = {each.get("partition"): each for each in collecting.get("partitions", ())}
    held = mine.get(partition.status.partition, {})
    return partition_json(partition) | {"mine": bool(held), "holes": held.get("holes", 0)}


def _most_telling(hosts: Sequence[HostStatus]) -> list[HostStatus]:
    """The hosts to show: the worst states first, then those that ship most."""
    shown = hosts[:MOST_HOSTS]
    if len(hosts) <= MOST_HOSTS:
        return list(shown)
    calm = {HostState.SHIPPING, HostState.QUIET, HostState.ENDED}
    worst = [host for host in hosts if host.state not in calm]
    well = sorted(hosts[len(worst) :], key=lambda host: -(host.beat.rate if host.beat else 0.0))
    return (worst + well)[:MOST_HOSTS]


MOST_READERS = 32
"""Maximum number of open pages; a further one gets 503 and retries. One client address may have 16."""
AGAIN_SECONDS = 5
STILL_SECONDS = 10.0
"""Seconds between two keep-alive comments while there is no event."""


@contextlib.contextmanager
def status_page(
    settings: Settings, listen: str, *, name: str, archive: Path, status: Callable[[], Mapping[str, Any]]
) -> Iterator[Mapping[str, Page]]:
    """The pages by their paths, while a thread polls the fleet. There are none without an HTTP listener."""
    if not listen:
        yield NO_PAGES
        return
    poller = FleetPoller(settings.nats, settings.logs.subject, name=f"consume {name} page", makes_stream=True)
    watching = FleetWatcher(poller, archive)
    about = About(name, shipper.__version__, str(archive.absolute()), time.time())
    watching.start()
    readers = Readers(watching, lambda view: snapshot(about, view, status(), recent_gaps()))
    try:
        yield {"/": lambda: page("consumer.fleet"), "/events": readers.answer, "/favicon.ico": icon}
    finally:
        watching.end()


class Readers:
    """The clients that have the page open. One snapshot is made for all of them."""

    def __init__(self, watching: FleetWatcher, content: Callable[[FleetView], dict[str, Any]]) -> None:
        self._watching = watching
        self._content = content
        self._room = threading.BoundedSemaphore(MOST_READERS)
        self._making = threading.Lock()
        self._made: tuple[int, bytes] = (-1, b"")

    def answer(self) -> Answer:
        """The events for a new client, or 503 if there are too many."""
        if not self._room.acquire(blocking=False):
            again = {"Retry-After": str(AGAIN_SECONDS)}
            return Answer("text/plain", b"too many have this page open\n", 503, again)
        return Answer("text/event-stream; charset=utf-8", Events(self._watching, self.event, self._room.release))

    def event(self, view: FleetView) -> bytes:
        """`view` as an event."""
        with self._making:
            if self._made[0] != view.number:
                text = json.dumps(self._content(view), separators=(",", ":"))
                self._made = view.number, f"data: {text}\n\n".encode()
            return self._made[1]


class Events:
    """The events of one client: a snapshot immediately, each later one, and keep-alive comments in between."""

    def __init__(self, watching: FleetWatcher, event: Callable[[FleetView], bytes], leave: Callable[[], None]) -> None:
        self._watching = watching
        self._event = event
        self._leave = leave

    def __iter__(self) -> Iterator[bytes]:
        yield f"retry: {1000 * AGAIN_SECONDS // 2}\n\n".encode()
        number = -1
        with self._watching.seen():
            while not self._watching.ended:
                view = self._watching.wait(number, STILL_SECONDS)
                yield self._event(view) if view.number != number else b": still here\n\n"
                number = view.number

    def close(self) -> None:
        """The client has disconnected."""
        self._leave()
