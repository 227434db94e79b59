"""What the status page shows, as JSON: bounded, and with every name made printable. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from consumer.fleet.fleet import Fleet, Partition
from consumer.fleet.state import State
from consumer.fleet.table import Host, counts
from consumer.fleet.told import host_json, partition_json, printable
from consumer.fleet.watching import Disk, View
from shipper.events.collecting import Gap
from shipper.units import format_bytes

MOST_HOSTS = 400
"""Rows that a browser is sent, the worst first; `fshipper status` shows all."""
MOST_PARTITIONS = 256
MOST_TROUBLES = 50
LEAST_FREE = 0.05
"""Of the archive's disk; with less somebody should look."""
NO_FILES = 3
"""Files behind that a row names."""


class About(NamedTuple):
    """The collector that serves the page."""

    name: str
    version: str
    archive: str
    began: float  #: seconds since 1970


def snapshot(about: About, view: View, collecting: Mapping[str, Any], gaps: Sequence[Gap]) -> dict[str, Any]:
    """Everything that the page draws; sizes in bytes, durations in seconds, times in seconds since 1970.

    `collecting`: what the collector says of itself (`/status`).
    """
    fleet = view.fleet or Fleet(at=view.at)
    troubles = _troubles(fleet, view.disk, collecting)
    told = {
        "about": about._asdict(),
        "at": view.at,
        "fleet_at": view.fleet_at,
        "trouble": view.trouble,
        "known": view.fleet is not None,
        "counts": {str(state): count for state, count in counts(fleet.hosts).items()},
        "rate_bytes": round(fleet.rate),
        "lag": fleet.lag,
        "troubles": troubles[:MOST_TROUBLES],
        "troubles_total": len(troubles),
        "hosts": [_host(host) for host in _most_telling(fleet.hosts)],
        "hosts_total": len(fleet.hosts),
        "partitions": [_partition(each, collecting) for each in fleet.partitions[:MOST_PARTITIONS]],
        "partitions_total": len(fleet.partitions),
        "dead_letters": fleet.dead_letters,
        "advisories": fleet.advisories,
        "notes": list(fleet.notes),
        "gaps": [each._asdict() for each in reversed(gaps)],
        "history": [list(each) for each in view.history],
        "disk": None if view.disk is None else {"size": view.disk.size, "free": view.disk.free},
        "collecting": {name: collecting.get(name) for name in ("collector", "stands_by", "others")},
    }
    printed: dict[str, Any] = printable(told)
    return printed


def _troubles(fleet: Fleet, disk: Disk | None, collecting: Mapping[str, Any]) -> list[dict[str, str]]:
    """What somebody should look at, what concerns most first: where, how bad, and why."""
    found = []
    if disk is not None and disk.free < LEAST_FREE * disk.size:
        found.append(_trouble("disk", "archive disk", f"{format_bytes(disk.free)} free", State.STUCK))
    mine = [each for each in collecting.get("partitions", ()) if each.get("trouble")]
    found += [_trouble("collector", f"partition {each['partition']}", each["trouble"], State.STUCK) for each in mine]
    found += [
        _trouble("partition", f"partition {each.status.partition}", each.why, State.STUCK)
        for each in fleet.troubled_partitions
    ]
    if doubled := max(fleet.doubled, int(collecting.get("doubled_bytes") or 0)):
        why = f"{doubled:,} bytes are in it twice: fshipper audit --repair-duplicates"
        found.append(_trouble("duplicates", "archive", why, State.STUCK))
    found += [_trouble("host", host.name, host.why, host.state) for host in fleet.troubled_hosts]
    return found + _set_aside(fleet)


def _set_aside(fleet: Fleet) -> list[dict[str, str]]:
    """What waits for somebody, and holds nothing up."""
    found = []
    if fleet.dead_letters:
        found.append(_trouble("dead letters", "dead letters", f"{fleet.dead_letters} wait: fshipper dlq ls", "note"))
    if fleet.advisories:
        given_up = f"{fleet.advisories} messages that the server gave up delivering: fshipper dlq ls"
        found.append(_trouble("dead letters", "given up", given_up, "note"))
    return found


def _trouble(kind: str, what: str, why: str, state: str) -> dict[str, str]:
    return {"kind": kind, "what": what, "why": why, "state": str(state)}


def _host(host: Host) -> dict[str, Any]:
    told = host_json(host)
    told["behind"] = told["behind"][:NO_FILES]
    return told


def _partition(partition: Partition, collecting: Mapping[str, Any]) -> dict[str, Any]:
    mine = {each.get("partition"): each for each in collecting.get("partitions", ())}
    held = mine.get(partition.status.partition, {})
    return partition_json(partition) | {"mine": bool(held), "holes": held.get("holes", 0)}


def _most_telling(hosts: Sequence[Host]) -> list[Host]:
    """The worst, then those that ship most: of ten thousand quiet hosts nobody wants the first by name."""
    shown = hosts[:MOST_HOSTS]
    if len(hosts) <= MOST_HOSTS:
        return list(shown)
    worst = [host for host in hosts if host.state not in {State.SHIPPING, State.QUIET}]
    well = sorted(hosts[len(worst) :], key=lambda host: -(host.beat.rate if host.beat else 0.0))
    return (worst + well)[:MOST_HOSTS]
