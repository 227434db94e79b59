"""Plans of the streams of a server: made, confirmed and applied. Applying a plan again changes nothing."""

import asyncio
import contextlib
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from partitioner import display
from partitioner.arguments import with_admin
from partitioner.move.cluster_state import ClusterState
from partitioner.plan import Action, ActualStream, AllowedChanges, Verb
from partitioner.plan import plan as planned
from partitioner.topology import DesiredStream
from shipper.errors import ConfigError, Fatal, NodeAway, ShipperError
from shipper.jetstream.admin import Admin
from shipper.lifecycle import Stop
from shipper.partition_map import PartitionMap
from shipper.prompts import confirm
from shipper.retry import PLACE, until_done
from shipper.settings import Settings
from shipper.stream_source import origin_of
from shipper.subjects import BUCKET_STREAM, COLLECTOR, map_key, partition_of_stream
from shipper.units import counted


def plan_of(settings: Settings, desired: Sequence[DesiredStream], allowed: AllowedChanges) -> list[Action]:
    """What has to be done on the server so that it has what is `desired`."""
    return with_admin(settings, lambda admin: _fresh_plan(admin, settings, desired, allowed))


def plan_and_apply(settings: Settings, desired: Sequence[DesiredStream], allowed: AllowedChanges, *, yes: bool) -> None:
    """Apply the `desired` streams and print each step; prompt first, unless `yes` or all steps only add.

    Raises Fatal: the plan refuses something, or has changed before it is applied. UsageError: not confirmed.
    """
    actions = plan_of(settings, desired, allowed)
    check(actions)
    if not any(action.changing for action in actions):
        display.print_plan(actions)
        return
    if not (yes or all(action.only_adds for action in actions)):
        display.print_plan(actions)
        confirm(yes=yes)

    async def work(admin: Admin) -> None:
        """Plan once more and do it: the server may have changed since then, and an attempt may have done a part."""
        now = await _fresh_plan(admin, settings, desired, allowed)
        if any(action.changing and action not in actions for action in now):
            raise Fatal("the streams changed meanwhile, so the plan is another now", hint="run the command again")
        await carry_out(admin, now)

    with_admin(settings, work)


async def _fresh_plan(
    admin: Admin, settings: Settings, desired: Sequence[DesiredStream], allowed: AllowedChanges
) -> list[Action]:
    subject = settings.logs.subject
    actions = planned(desired, await read_state(admin, desired, subject=subject), subject=subject, allowed=allowed)
    found = await agreement(admin, subject)
    hosted = {each.partition for each in desired if each.partition is not None and origin_of(each.stream) is None}
    if found.map is None and hosted and hosted == set(range(len(hosted))):  # the first map: partitions 0 to N-1
        config, entry = {"partitions": len(hosted)}, map_key(subject)
        actions.append(Action(verb=Verb.CREATE, stream=BUCKET_STREAM, entry=entry, config=config))
    return actions


ATTEMPTS = 10  # some 15 seconds: nodes of a new cluster count as away until each has announced itself


async def read_state(admin: Admin, wanted: Sequence[DesiredStream], *, subject: str) -> dict[str, ActualStream]:
    """Every stream by name, with those of its consumers that are wanted, the collector's among them."""
    named = {each.name: [str(config["durable_name"]) for config in each.consumers] for each in wanted}
    found: dict[str, ActualStream] = {}
    for info in await admin.streams():
        name = str(info["config"]["name"])
        consumers = set(named.get(name, ()))
        consumers |= {COLLECTOR} if partition_of_stream(subject, name) is not None else set()
        received = {consumer: await admin.consumer(name, consumer) for consumer in sorted(consumers)}
        found[name] = ActualStream(info, {consumer: known for consumer, known in received.items() if known is not None})
    return found


def check(actions: Sequence[Action]) -> None:
    """Carry out all of a plan or nothing.

    Raises Fatal: the plan refuses something; the message names the change and the reason, the hint the flag for it.
    """
    refused = [action for action in actions if action.verb is Verb.REFUSE]
    if not refused:
        return
    flags = sorted({action.flag for action in refused if action.flag})
    reasons = [f"will not touch {action.title}: {action.reason}" for action in refused]
    hint = f"nothing was changed; to do it all the same: {' '.join(flags)}" if flags else "nothing was changed"
    raise Fatal("\n".join(reasons), hint=hint)


async def carry_out(admin: Admin, actions: Sequence[Action]) -> None:
    """Carry out each action that changes something, in order, and print a line about it.

    A cluster whose nodes are away is given some seconds. Raises `NodeAway` when they stay away.
    """
    stop = Stop()
    for action in actions:
        if action.changing:
            do = functools.partial(_do, admin, action)
            await until_done(do, policy=PLACE, stop=stop, attempts=ATTEMPTS, retry_on=NodeAway)
            sys.stdout.write(display.done_line(action) + "\n")
            sys.stdout.flush()


async def _do(admin: Admin, action: Action) -> None:
    if action.entry:
        await _write_first_map(admin, action.entry.removeprefix(map_key("")), int(action.config["partitions"]))
        return
    match action.verb, bool(action.consumer):
        case Verb.CREATE, False:
            await admin.create_stream(action.config)
        case Verb.CREATE, True:
            await admin.create_consumer(action.stream, action.config)
        case Verb.UPDATE, False:
            await admin.update_stream(action.config)
        case Verb.UPDATE, True:
            await admin.update_consumer(action.stream, action.config)
        case Verb.REPLACE, True:
            await admin.delete_consumer(action.stream, action.consumer)
            await admin.create_consumer(action.stream, action.config)
        case Verb.DELETE, False:
            await admin.delete_stream(action.stream)


# -- the entry of the partition map ---------------------------------------------------------------------------------
#
# It is written once. Only `partition move` and `partition edge` change a map that is there, because hosts have to
# follow a change in order.

ASK_HOSTS_SECONDS = 5.0
"""Maximum seconds to wait for running hosts to report the map version that they follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPartitions:
    """The partitions of one subject prefix, as the server has them."""

    map: PartitionMap | None
    revision: int  #: of the map's entry; 0: there is none
    streams: frozenset[int]  #: partitions with an open stream that hosts publish to; copies of edge sites not included
    is_used: bool  #: whether one of these streams ever stored a message

    @property
    def partitions(self) -> int | None:
        """How many partitions hosts hash over; None: neither a map nor a stream with a message decides it."""
        if self.map is not None:
            return self.map.partitions
        return max(self.streams) + 1 if self.is_used else None


async def agreement(admin: Admin, prefix: str) -> ServerPartitions:
    """Read the map and the streams. Raises Fatal: there is a map that this version cannot read."""
    cluster = ClusterState(admin.connection, prefix)
    stored = await cluster.map()
    streams = {number: info for number, info in (await cluster.streams()).items() if not cluster.is_closed(info)}
    return ServerPartitions(
        map=stored.map,
        revision=stored.revision,
        streams=frozenset(streams),
        is_used=any(info["state"]["last_seq"] for info in streams.values()),
    )


def checked_partitions(requested: int | None, found: ServerPartitions) -> int:
    """The number of partitions to apply: `requested`, or that of the server; 1 for None and an empty server.

    Raises ConfigError: the server has another number, so hosts would have to move; or it is an edge site.
    """
    known = found.map
    if known is not None and known.slots and set(known.slots) != set(range(min(known.partitions, len(known.slots)))):
        numbers = ",".join(map(str, sorted(set(known.slots))))
        raise ConfigError(
            f"this server is an edge site: its partition map sends hosts to the partitions {numbers}",
            hint=f"run: fshipper partition edge {numbers}; or set NATS_URL to the server of the centre",
        )
    there = found.partitions
    if requested is None:
        return there or max(found.streams, default=0) + 1
    if there is None or max(1, requested) == there:
        return max(1, requested)
    source = f"the partition map (version {known.version})" if known else "the server"
    wanted = counted(max(1, requested), "partition") + (" (0 means one)" if requested == 0 else "")
    raise ConfigError(
        f"{source} has {counted(there, 'partition')}, and --partitions or SHIPPER_PARTITIONS requires {wanted}",
        hint=f"to change the number: fshipper partition move --partitions {max(1, requested)}; to keep it, leave out"
        f" --partitions and SHIPPER_PARTITIONS, or set them to {there}",
    )


async def _write_first_map(admin: Admin, prefix: str, partitions: int) -> None:
    """Store the first map. Raises Fatal: another program stored one at the same time."""
    found, cluster = await agreement(admin, prefix), ClusterState(admin.connection, prefix)
    newest = 0
    if found.is_used:
        with contextlib.suppress(TimeoutError, ShipperError):
            async with asyncio.timeout(ASK_HOSTS_SECONDS):
                newest = await cluster.newest_version(await cluster.hosts(await cluster.streams()))
    if found.map is not None:
        raise Fatal("another program has written the partition map meanwhile", hint="run the command again")
    await cluster.store_map(PartitionMap(version=newest + 1, partitions=max(1, partitions)), expected=found.revision)
