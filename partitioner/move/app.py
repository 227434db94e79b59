"""`fshipper partition move`: the command line of the move, and its output.

For people: which host moves where, the skew before and after, and the progress. For programs: JSON.
"""

import asyncio
import dataclasses
import functools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import typer
from rich.text import Text

from partitioner.arguments import confirm, seconds_of, settings_of, size_of
from partitioner.move.cluster_state import ClusterState, StoredMap, sizing_like
from partitioner.move.executor import MovePlan, MoveProgress, follow, outcome, prepare
from partitioner.move.load import loads, skew
from partitioner.options import MoveOptions
from partitioner.topology import Sizing, template_in
from shipper.errors import Transient, Unavailable, UsageError
from shipper.jetstream.connection import connect
from shipper.partition_map import MAX_PARTITIONS, PartitionMap, changed, static
from shipper.settings import Settings
from shipper.subjects import checked_host
from shipper.table_printer import GOOD, REMOVED, fitted, print_lines, print_signed, standard_output, texts
from shipper.units import counted, format_bytes

MOST_LINES = 40


def print_plan(plan: MovePlan) -> None:
    """The plan as a person reads it."""
    console = standard_output()
    moves = plan.moves
    console.print(Text(_head(plan, len(moves)), style="bold"), soft_wrap=True)
    for move in moves[:MOST_LINES]:
        line = f"  {move.host}: partition {move.before} → {move.after} ({format_bytes(move.bytes)} in the streams)"
        console.print(Text(line), soft_wrap=True)
    if len(moves) > MOST_LINES:
        console.print(f"  and {counted(len(moves) - MOST_LINES, 'more host')}")
    for number in plan.creates:
        print_signed(console, GOOD, f"create the stream of partition {number}")
    for number in plan.retires:
        print_signed(console, REMOVED, f"retire the stream of partition {number}, once all of it is archived")
    columns = ("partition", "bytes before", "bytes after")
    print_lines(console, fitted(console, columns, list(map(texts, _rows(plan))), numbers=columns))


def plan_json(plan: MovePlan) -> dict[str, Any]:
    """The plan for programs."""
    before, after = loads(plan.before, plan.weights), loads(plan.after, plan.weights)
    return {
        "changes": plan.changes,
        "version": plan.after.version,
        "before": plan.before.partitions,
        "after": plan.after.partitions,
        "overrides": dict(plan.after.overrides),
        "slots": bool(plan.after.slots),
        "moves": [dataclasses.asdict(move) for move in plan.moves],
        "creates": list(plan.creates),
        "retires": list(plan.retires),
        "skew": {"before": round(skew(before.values()), 3), "after": round(skew(after.values()), 3)},
        "bytes": {"before": before, "after": after},
    }


def progress_line(progress: MoveProgress) -> str:
    """The progress, in one line."""
    parts = [f"{progress.moved} of {progress.hosts} hosts are where they belong"]
    parts += [f"{len(progress.away)} do not answer"] if progress.away else []
    parts += [f"to be retired: partition {', '.join(map(str, progress.retiring))}"] if progress.retiring else []
    return "; ".join(parts)


def _head(plan: MovePlan, moving: int) -> str:
    if not plan.is_new:
        return f"the map (version {plan.after.version}) has {counted(plan.after.partitions, 'partition')} already"
    return (
        f"{plan.before.partitions} → {counted(plan.after.partitions, 'partition')}"
        f" (version {plan.after.version} of the map): {moving} of {counted(len(plan.weights), 'host')} move"
    )


def _rows(plan: MovePlan) -> Iterator[Sequence[str]]:
    before, after = loads(plan.before, plan.weights), loads(plan.after, plan.weights)
    for number in sorted(before.keys() | after.keys()):
        yield str(number), *(format_bytes(sums[number]) if number in sums else "-" for sums in (before, after))
    yield "skew", f"{skew(before.values()):.2f}", f"{skew(after.values()):.2f}"


EXIT_CHANGES = 2
AGAIN_SECONDS = 0.5

_T = TypeVar("_T")
_MapChange = Callable[[PartitionMap], PartitionMap]
"""The existing map to the desired one; the same object: nothing changes."""


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
        await prepare(cluster, fresh, template, like_others, revision=stored.revision)
        said: set[str] = set()

        def tell(progress: MoveProgress) -> None:
            line = progress_line(progress)
            if line not in said:
                said.add(line)
                sys.stderr.write(line + "\n")

        return await follow(cluster, fresh, until=until, tell=tell)

    plan, _ = asyncio.run(_on_cluster(settings, lambda cluster: _plan(cluster, settings, change), until=until))
    if not options.as_json:
        print_plan(plan)
    if options.dry_run:
        if options.as_json:
            _print_json(plan_json(plan))
        raise typer.Exit(EXIT_CHANGES if plan.changes else 0)
    confirm(yes=options.yes or not plan.is_new)
    progress = asyncio.run(_on_cluster(settings, drive, until=until))
    if options.as_json:
        _print_json(plan_json(plan) | outcome(plan, progress))
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


def _print_json(values: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(values, indent=2) + "\n")
