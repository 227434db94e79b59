"""`fshipper partition move`: plans which hosts move, stores a new map, then waits for the hosts and the collectors.

    streams of the new partitions -> map (compare and set) -> hosts follow by themselves -> for each that is not needed:
    close its stream -> its collector archives and seals the rest -> delete it

The state is on the server, so a kill at any line loses nothing: a second run finds the state of the move and continues.
Hosts that are away move when they come back: the journal of a retired partition answers for what it archived of them.
"""

import asyncio
import dataclasses
import functools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import typer
from rich.text import Text

from partitioner.arguments import size_of
from partitioner.move.cluster_state import ClusterState, StoredMap, sizing_like
from partitioner.move.load import loads, skew
from partitioner.options import MoveOptions
from partitioner.topology import Sizing, template_in
from shipper.commands import settings_of
from shipper.control import PlaceReply
from shipper.errors import Transient, Unavailable, UsageError
from shipper.jetstream.connection import connect
from shipper.partition_map import MAX_PARTITIONS, PartitionMap, changed, static
from shipper.prompts import confirm
from shipper.settings import Settings
from shipper.subjects import checked_host
from shipper.table_printer import GOOD, REMOVED, fitted, print_lines, print_signed, standard_output, texts
from shipper.units import counted, format_bytes, seconds_of

EXIT_CHANGES = 2
MOST_LINES = 40
ROUND_SECONDS = 1.0
AGAIN_SECONDS = 0.5
AWAY_SECONDS = 10.0
"""A host that does not reply for so long, in seconds, is away: the move does not wait for it."""

_T = TypeVar("_T")
_MapChange = Callable[[PartitionMap], PartitionMap]
"""The existing map to the desired one; the same object: nothing changes."""


class HostMove(NamedTuple):
    """One host that changes its partition."""

    host: str
    before: int
    after: int
    bytes: int  #: that the streams hold of it


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """The effect of a new map on the known hosts."""

    before: PartitionMap
    after: PartitionMap
    weights: Mapping[str, int]  #: bytes in the streams, by host
    creates: tuple[int, ...]  #: partitions that need a stream
    retires: tuple[int, ...]  #: partitions whose streams are no longer needed

    @property
    def moves(self) -> list[HostMove]:
        """The hosts that move, the heaviest first."""
        found = [
            HostMove(host, self.before.partition_of(host), self.after.partition_of(host), weight)
            for host, weight in self.weights.items()
        ]
        return sorted((move for move in found if move.before != move.after), key=lambda move: (-move.bytes, move.host))

    @property
    def is_new(self) -> bool:
        """Whether the map has to be written: it differs from the desired one."""
        return self.after.version != self.before.version

    @property
    def changes(self) -> bool:
        """Whether anything is left to do, as far as the streams show."""
        return bool(self.is_new or self.creates or self.retires)


class MoveProgress(NamedTuple):
    """The progress of a move."""

    hosts: int
    moved: int
    away: tuple[str, ...]  #: hosts that do not answer


@dataclass(slots=True)
class HostTracker:
    """The known hosts of a move, their partitions, and when each last replied."""

    plan: MovePlan
    names: set[str]
    began: float = field(default_factory=time.monotonic)
    heard: dict[str, float] = field(default_factory=dict)
    at: dict[str, PlaceReply] = field(default_factory=dict)

    def note(self, places: Mapping[str, PlaceReply | None]) -> None:
        """Who answered now."""
        for host, place in places.items():
            if place is not None:
                self.heard[host], self.at[host] = time.monotonic(), place

    def is_away(self, host: str) -> bool:
        """Whether a host was silent for long enough."""
        return time.monotonic() - self.heard.get(host, self.began) >= AWAY_SECONDS

    def has_left(self, host: str, partition: int) -> bool:
        """Whether a host publishes in `partition` no more. One that is away finds it closed, and moves then."""
        if self.is_away(host):
            return True
        place = self.at.get(host)
        return place is not None and place.version >= self.plan.after.version and place.partition != partition

    def is_home(self, host: str) -> bool:
        """Whether a host publishes where the map, or a newer one, assigns it."""
        place, after = self.at.get(host), self.plan.after
        if place is None or place.leaving or place.version < after.version:
            return False
        return place.version > after.version or place.partition == after.partition_of(host)


def move(options: MoveOptions) -> None:
    """Move hosts to the partitions of a new map. An interrupted move continues when the command is run again."""
    settings = settings_of(options)
    change = functools.partial(
        changed,
        partitions=options.partitions,
        with_slots=options.slots,
        overrides=dict(map(_override, options.override or ())),
        without=[checked_host(host) for host in options.no_override or ()],
    )
    template = template_in(options.template)
    sizing = Sizing(replicas=options.replicas, max_bytes=size_of(options.max_bytes, "--max-bytes"))
    until = time.monotonic() + seconds_of(options.within, "--within")

    async def drive(cluster: ClusterState) -> MoveProgress:
        """Plan once more and do it: the server may have changed since then, and an attempt may have done a part."""
        fresh, stored = await _plan(cluster, settings, change)
        like_others = sizing_like(await cluster.streams(), sizing)
        await cluster.open_streams(sorted(fresh.after.used), template, like_others)
        if fresh.is_new:
            await cluster.store_map(fresh.after, expected=stored.revision)
        return await _follow(cluster, fresh, until=until)

    plan, _ = asyncio.run(_on_cluster(settings, lambda cluster: _plan(cluster, settings, change), until=until))
    if not options.as_json:
        _print_plan(plan)
    if options.dry_run:
        if options.as_json:
            sys.stdout.write(json.dumps(_plan_json(plan), indent=2) + "\n")
        raise typer.Exit(EXIT_CHANGES if plan.changes else 0)
    confirm(yes=options.yes or not plan.is_new)
    progress = asyncio.run(_on_cluster(settings, drive, until=until))
    if options.as_json:
        done = {"hosts": progress.hosts, "at_home": progress.moved, "away": progress.away, "retired": plan.retires}
        sys.stdout.write(json.dumps(_plan_json(plan) | done, indent=2) + "\n")
    elif progress.away:
        sys.stdout.write(f"away, and moving when they come back: {', '.join(progress.away)}\n")


async def _plan(cluster: ClusterState, settings: Settings, change: _MapChange) -> tuple[MovePlan, StoredMap]:
    streams = await cluster.streams()
    stored = await cluster.map()
    if not streams:
        raise Unavailable(
            f"the server at {settings.nats.shown_url} has no streams of {settings.logs.subject!r}",
            hint="create them first: fshipper partition apply --partitions N",
        )
    weights = await cluster.weights(streams)
    before = stored.map or static(settings.logs.partitions or max(streams) + 1)
    after = change(before)
    if after is not before or not before.version:
        newest = 0 if stored.map else await cluster.newest_version(weights)
        after = dataclasses.replace(after, version=max(before.version, newest) + 1)  # newer than any that a host uses
    creates = tuple(sorted(after.used - streams.keys()))
    retires = tuple(number for number in streams if number not in after.used)
    return MovePlan(before=before, after=after, weights=weights, creates=creates, retires=retires), stored


async def _follow(cluster: ClusterState, plan: MovePlan, *, until: float) -> MoveProgress:
    """Wait until every host that replies is in its partition of the map; retire streams without a host.

    `until`: monotonic time. Raises Unavailable: it takes longer.
    """
    hosts, said = HostTracker(plan, set(plan.weights)), set[str]()
    while True:
        streams = await cluster.streams()
        hosts.names |= await cluster.hosts(streams)
        hosts.note(await cluster.places(hosts.names))
        retiring = [number for number in streams if number not in plan.after.used]
        left = [number for number in retiring if not await _retired(cluster, hosts, number)]
        away = tuple(sorted(filter(hosts.is_away, hosts.names)))
        moved = sum(map(hosts.is_home, hosts.names - set(away)))
        waiting, numbers = len(hosts.names) - moved - len(away), ", ".join(map(str, left))
        parts = [f"{moved} of {len(hosts.names)} hosts are where they belong"]
        parts += [f"{len(away)} do not answer"] if away else []
        parts += [f"to be retired: partition {numbers}"] if left else []
        if (line := "; ".join(parts)) not in said:
            said.add(line)
            sys.stderr.write(line + "\n")
        if not left and not waiting:
            return MoveProgress(len(hosts.names), moved, away)
        if time.monotonic() >= until:
            late = [f"{waiting} of {len(hosts.names)} hosts have not moved yet"] if waiting else []
            late += [f"partition {numbers} is not archived to its end, or no collector reads it"] if left else []
            raise Unavailable("; ".join(late), hint="nothing is lost or half done: run the command again to go on")
        await asyncio.sleep(ROUND_SECONDS)


async def _retired(cluster: ClusterState, hosts: HostTracker, partition: int) -> bool:
    """One step towards a stream that is gone; whether it is."""
    if not all(hosts.has_left(host, partition) for host in hosts.names):
        return False
    last = await cluster.close_stream(partition)
    remains = await cluster.finish(partition)
    if remains is None or remains.through < last or remains.open:
        return False
    await cluster.delete_stream(partition)
    return True


async def _on_cluster(settings: Settings, work: Callable[[ClusterState], Awaitable[_T]], *, until: float) -> _T:
    """`work`'s result; all of it again on a new connection when the server was lost, until it is too late."""
    while True:
        connection = await connect(settings.nats, name="fshipper partition move", inbox="_INBOX_partitioner")
        try:
            return await work(ClusterState(connection, settings.logs.subject))
        except Transient:
            if time.monotonic() >= until:
                raise
        finally:
            await connection.close()
        await asyncio.sleep(AGAIN_SECONDS)


def _override(text: str) -> tuple[str, int]:
    host, _, number = text.partition("=")
    if not number.isdigit() or int(number) >= MAX_PARTITIONS:
        raise UsageError(f"--override {text}: write HOST=N, N a partition below {MAX_PARTITIONS}")
    return checked_host(host), int(number)


def _print_plan(plan: MovePlan) -> None:
    """The plan as a person reads it."""
    console, moves, partitions = standard_output(), plan.moves, counted(plan.after.partitions, "partition")
    head = f"the map (version {plan.after.version}) has {partitions} already"
    if plan.is_new:
        moving = f"{len(moves)} of {counted(len(plan.weights), 'host')} move"
        head = f"{plan.before.partitions} → {partitions} (version {plan.after.version} of the map): {moving}"
    console.print(Text(head, style="bold"), soft_wrap=True)
    for each in moves[:MOST_LINES]:
        line = f"  {each.host}: partition {each.before} → {each.after} ({format_bytes(each.bytes)} in the streams)"
        console.print(Text(line), soft_wrap=True)
    if len(moves) > MOST_LINES:
        console.print(f"  and {counted(len(moves) - MOST_LINES, 'more host')}")
    for number in plan.creates:
        print_signed(console, GOOD, f"create the stream of partition {number}")
    for number in plan.retires:
        print_signed(console, REMOVED, f"retire the stream of partition {number}, once all of it is archived")
    both = loads(plan.before, plan.weights), loads(plan.after, plan.weights)
    rows = [
        texts((str(number), *(format_bytes(sums[number]) if number in sums else "-" for sums in both)))
        for number in sorted(both[0].keys() | both[1].keys())
    ]
    rows.append(texts(("skew", *(f"{skew(sums.values()):.2f}" for sums in both))))
    columns = ("partition", "bytes before", "bytes after")
    print_lines(console, fitted(console, columns, rows, numbers=columns))


def _plan_json(plan: MovePlan) -> dict[str, Any]:
    """The plan for programs."""
    before, after = loads(plan.before, plan.weights), loads(plan.after, plan.weights)
    return {
        "v": 1,
        "changes": plan.changes,
        "version": plan.after.version,
        "before": plan.before.partitions,
        "after": plan.after.partitions,
        "overrides": dict(plan.after.overrides),
        "slots": bool(plan.after.slots),
        "moves": [each._asdict() for each in plan.moves],
        "creates": plan.creates,
        "retires": plan.retires,
        "skew": {"before": round(skew(before.values()), 3), "after": round(skew(after.values()), 3)},
        "bytes": {"before": before, "after": after},
    }
