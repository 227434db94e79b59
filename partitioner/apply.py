"""Plans of the streams of a server: made, confirmed and applied. Applying a plan again changes nothing."""

import functools
import sys
from collections.abc import Callable, Sequence

from partitioner import display
from partitioner.arguments import confirm, with_admin
from partitioner.map_entry import agreement, map_action, write_first_map
from partitioner.plan import Action, ActualStream, AllowedChanges, Verb
from partitioner.plan import plan as planned
from partitioner.topology import DesiredStream
from shipper.bucket import map_key
from shipper.errors import Fatal, NodeAway
from shipper.jetstream.admin import Admin
from shipper.lifecycle import Stop
from shipper.retry import PLACE, until_done
from shipper.settings import Settings
from shipper.subjects import COLLECTOR, partition_of_stream


def plan_of(settings: Settings, desired: Sequence[DesiredStream], allowed: AllowedChanges) -> list[Action]:
    """What has to be done on the server so that it has what is `desired`."""

    async def work(admin: Admin) -> list[Action]:
        return await _fresh_plan(admin, settings, desired, allowed)

    return with_admin(settings, work)


def plan_and_apply(settings: Settings, desired: Sequence[DesiredStream], allowed: AllowedChanges, *, yes: bool) -> None:
    """Apply the `desired` streams and print each step; prompt first, unless `yes` or all steps only add.

    Raises:
        Fatal: the plan refuses something, or has changed before it is applied. UsageError: not confirmed.
    """
    actions = plan_of(settings, desired, allowed)
    check(actions)
    if not any(action.changing for action in actions):
        display.print_plan(actions)
        return
    _confirm(actions, yes=yes)
    _carry_out(settings, desired, allowed, agreed=actions)


async def _fresh_plan(
    admin: Admin, settings: Settings, desired: Sequence[DesiredStream], allowed: AllowedChanges
) -> list[Action]:
    subject = settings.logs.subject
    actions = planned(desired, await look(admin, desired, subject=subject), subject=subject, allowed=allowed)
    first_map = map_action(desired, await agreement(admin, subject), subject)
    return [*actions, first_map] if first_map else actions


def _carry_out(
    settings: Settings, desired: Sequence[DesiredStream], allowed: AllowedChanges, agreed: Sequence[Action]
) -> None:
    """Plan once more and do it: the server may have changed since then, and an attempt may have done a part."""

    async def work(admin: Admin) -> None:
        actions = await _fresh_plan(admin, settings, desired, allowed)
        if any(action.changing and action not in agreed for action in actions):
            raise Fatal("the streams changed meanwhile, so the plan is another now", hint="run the command again")
        await carry_out(admin, actions, print_done)

    with_admin(settings, work)


def print_done(action: Action) -> None:
    """One line for a person about an action that was carried out."""
    sys.stdout.write(display.done_line(action) + "\n")
    sys.stdout.flush()


def _confirm(actions: Sequence[Action], *, yes: bool) -> None:
    """Prompt before a change to anything that exists. Raises UsageError: there is no terminal, or the answer is no."""
    if yes or all(action.only_adds for action in actions):
        return
    display.print_plan(actions)
    confirm(yes=yes)


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
    reasons = [f"will not touch {action.title}: {action.reason}" for action in refused]
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
