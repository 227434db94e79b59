"""Plan, confirm and apply the desired streams: for the centre and for edge sites."""

import sys
from collections.abc import Sequence

from partitioner import display
from partitioner.apply import carry_out, check, look
from partitioner.cli_options import confirm, with_admin
from partitioner.map_entry import agreement, map_action
from partitioner.plan import Action, AllowedChanges
from partitioner.plan import plan as planned
from partitioner.topology import DesiredStream
from shipper.errors import Fatal
from shipper.jetstream.admin import Admin
from shipper.settings import Settings


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
        await carry_out(admin, actions, _say)

    with_admin(settings, work)


def _say(action: Action) -> None:
    sys.stdout.write(display.done_line(action) + "\n")
    sys.stdout.flush()


def _confirm(actions: Sequence[Action], *, yes: bool) -> None:
    """Prompt before a change to anything that exists. Raises UsageError: there is no terminal, or the answer is no."""
    if yes or all(action.only_adds for action in actions):
        return
    display.print_plan(actions)
    confirm(yes=yes)
