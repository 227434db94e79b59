"""`fshipper partition plan|apply|status|account|serve`."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import typer

from partitioner import display, on_demand
from partitioner.access.roster import checked_domain
from partitioner.apply import agreement, checked_partitions, plan_and_apply, plan_of
from partitioner.arguments import size_of, with_admin
from partitioner.desired import DesiredConfig, wanted_of
from partitioner.desired import read as read_desired
from partitioner.edge import edges_of
from partitioner.move.load import print_spread, spread, with_hosts
from partitioner.options import AccountOptions, ApplyOptions, PlanOptions, ServeOptions, StatusOptions
from partitioner.plan import AllowedChanges
from partitioner.topology import ACK_POLICIES, DesiredStream, Sizing, checked_target, template_in, with_push
from shipper.commands import settings_of
from shipper.errors import Unavailable, UsageError
from shipper.jetstream.admin import Admin, Json
from shipper.jetstream.stream_status import status as ask_status
from shipper.lifecycle import Pulse, Stop, stop_on_signals, supervised
from shipper.settings import Settings
from shipper.telemetry import set_up_logging
from shipper.units import format_bytes

EXIT_CHANGES = 2
SIZES = frozenset({"memory", "storage", "reserved_memory", "reserved_storage", "max_memory", "max_storage"})
"""Values of the account in bytes."""


def plan(options: PlanOptions) -> None:
    """Show the plan; exit 2 when it would change something."""
    actions = plan_of(*_desired(options))
    if options.as_json:
        sys.stdout.write(display.plan_json(actions) + "\n")
    else:
        display.print_plan(actions, options.color)
    if options.detailed_exitcode and any(not action.keeps for action in actions):
        raise typer.Exit(EXIT_CHANGES)


def apply(options: ApplyOptions) -> None:
    """Carry out the plan."""
    plan_and_apply(*_desired(options), yes=options.yes)


def _desired(options: PlanOptions | ApplyOptions) -> tuple[Settings, list[DesiredStream], AllowedChanges]:
    """The settings, the desired streams, and the changes that are allowed.

    Flags override the file, and the file overrides the settings.
    """
    desired = read_desired(options.file) if options.file else DesiredConfig()
    desired = replace(desired, edges=edges_of(options.edge)) if options.edge else desired
    settings = settings_of(
        replace(
            options,
            subject=desired.subject if options.subject is None else options.subject,
            partitions=desired.partitions if options.partitions is None else options.partitions,
        )
    )
    if desired.edges:
        centre = str(with_admin(settings, Admin.account).get("domain", ""))
        for domain in desired.edges:
            checked_domain(domain, centre=centre)
    size = size_of(options.max_bytes, "--max-bytes")
    sizing = Sizing(
        replicas=options.replicas if options.replicas is not None else desired.sizing.replicas,
        max_bytes=size if size is not None else desired.sizing.max_bytes,
    )
    template, prefix, number = template_in(options.template), settings.logs.subject, settings.logs.partitions
    if desired.has_partitions:
        asked = number if "partitions" in settings.logs.model_fields_set else None
        number = checked_partitions(asked, with_admin(settings, lambda admin: agreement(admin, prefix)))
    streams = wanted_of(desired, template, subject=prefix, partitions=number, sizing=sizing)
    if options.push is not None:
        if options.push_ack not in ACK_POLICIES:
            raise UsageError(f"--push-ack {options.push_ack}: write {' or '.join(ACK_POLICIES)}")
        streams = with_push(streams, checked_target(options.push, prefix=prefix), ack=options.push_ack)
    allowed = AllowedChanges(
        data_loss=options.allow_data_loss, recreate_consumers=options.recreate_consumers, prune=options.prune
    )
    return settings, streams, allowed


def status(options: StatusOptions) -> None:
    """Show the streams, and how the hosts are spread over them."""
    settings = settings_of(options)
    found = with_admin(settings, lambda admin: ask_status(admin, subject=settings.logs.subject))
    if not found.partitions:
        raise Unavailable(
            f"the server at {settings.nats.shown_url} has no streams of {settings.logs.subject!r}",
            hint="create them: fshipper partition apply --partitions N",
        )
    hosts = asyncio.run(spread(settings))
    if options.as_json:
        sys.stdout.write(with_hosts(found, hosts) + "\n")
    else:
        display.print_status(found)
        print_spread(hosts)


def account(options: AccountOptions) -> None:
    """Show limits and use of the account."""
    found = with_admin(settings_of(options), Admin.account)
    found.pop("type", None)
    if options.as_json:
        sys.stdout.write(json.dumps({"v": 1, **found}, indent=2) + "\n")
        return
    for name, value in _flat(found):
        is_size = value > 0 if isinstance(value, int) and name.rpartition(".")[2] in SIZES else False
        sys.stdout.write(f"{name:<28} {format_bytes(value) if is_size else value}\n")


def _flat(found: Json, within: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of nested tables with its dotted name."""
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def serve(options: ServeOptions) -> None:
    """Create streams when producers request them, until a signal."""
    settings = settings_of(options)
    set_up_logging(style=settings.log.format, level=settings.log.level)
    limits = on_demand.StreamLimits(
        max_streams=options.max_streams,
        partitions=settings.logs.partitions,
        template=template_in(options.template),
        sizing=Sizing(replicas=options.replicas, max_bytes=size_of(options.max_bytes, "--max-bytes")),
    )
    asyncio.run(_until_stopped(settings, limits))


async def _until_stopped(settings: Settings, limits: on_demand.StreamLimits) -> None:
    stop, pulse = Stop(), Pulse("the requests")
    stop_on_signals(stop)
    async with supervised(lambda: [pulse], lambda: f"makes streams of {settings.logs.subject} on demand"):
        await on_demand.serve(settings, limits, stop, pulse)
