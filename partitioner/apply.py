"""Reads what is on the server, and applies a plan there. Applying it again changes nothing."""

import functools
from collections.abc import Callable, Sequence

from partitioner.map_entry import write_first_map
from partitioner.plan import Action, ActualStream, Verb
from partitioner.topology import DesiredStream
from shipper.bucket import map_key
from shipper.errors import Fatal, NodeAway
from shipper.jetstream.admin import Admin
from shipper.lifecycle import Stop
from shipper.retry import PLACE, until_done
from shipper.subjects import COLLECTOR, partition_of_stream

ATTEMPTS = 10  # some 15 seconds: nodes of a new cluster count as away until each has announced itself


async def look(admin: Admin, wanted: Sequence[DesiredStream], *, subject: str) -> dict[str, ActualStream]:
    """Every stream by name, with those of its consumers that are wanted, the collector's among them."""
    named = {each.name: [str(config["durable_name"]) for config in each.consumers] for each in wanted}
    found: dict[str, ActualStream] = {}
    for info in await admin.streams():
        name = str(info["config"]["name"])
        consumers = set(named.get(name, ()))
        consumers |= {COLLECTOR} if partition_of_stream(subject, name) is not None else set()
        asked = {consumer: await admin.consumer(name, consumer) for consumer in sorted(consumers)}
        found[name] = ActualStream(info, {consumer: known for consumer, known in asked.items() if known is not None})
    return found


def check(actions: Sequence[Action]) -> None:
    """Carry out all of a plan or nothing.

    Raises:
        Fatal: the plan refuses something; the message names the change and the reason, the hint the flag for it.
    """
    refused = [action for action in actions if action.verb is Verb.REFUSE]
    if not refused:
        return
    flags = sorted({action.flag for action in refused if action.flag})
    reasons = [f"will not touch {title(action)}: {action.reason}" for action in refused]
    hint = f"nothing was changed; to do it all the same: {' '.join(flags)}" if flags else "nothing was changed"
    raise Fatal("\n".join(reasons), hint=hint)


async def carry_out(admin: Admin, actions: Sequence[Action], done: Callable[[Action], None]) -> None:
    """Carry out each action that changes something, in order, and call `done` with it.

    A cluster whose nodes are away is given some seconds. Raises `NodeAway` when they stay away.
    """
    stop = Stop()
    for action in actions:
        if action.changing:
            do = functools.partial(_do, admin, action)
            await until_done(do, policy=PLACE, stop=stop, attempts=ATTEMPTS, behind=NodeAway)
            done(action)


async def _do(admin: Admin, action: Action) -> None:
    if action.entry:
        await write_first_map(admin, action.entry.removeprefix(map_key("")), int(action.config["partitions"]))
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


def title(action: Action) -> str:
    """What the action is about: `stream LOGS_0`, `consumer collector on LOGS_0`, `partition map map.logs`."""
    if action.entry:
        return f"partition map {action.entry}"
    return f"consumer {action.consumer} on {action.stream}" if action.consumer else f"stream {action.stream}"
