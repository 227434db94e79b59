"""`fshipper partition plan|apply|status|account|serve`."""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from partitioner import display, on_demand
from partitioner.apply import agreement, checked_partitions, plan_and_apply, plan_of
from partitioner.arguments import settings_of, size_of, with_admin
from partitioner.desired import DesiredConfig, wanted_of
from partitioner.desired import read as read_desired
from partitioner.edge import edges_of
from partitioner.edge_domain import checked_domain
from partitioner.move.load import print_spread, spread, with_hosts
from partitioner.options import Color
from partitioner.plan import AllowedChanges
from partitioner.topology import ACK_POLICIES, DesiredStream, Sizing, checked_target, template_in, with_push
from shipper.config import load
from shipper.errors import Unavailable, UsageError
from shipper.jetstream.admin import Admin
from shipper.jetstream.stream_status import Status
from shipper.jetstream.stream_status import status as ask_status
from shipper.lifecycle import Pulse, Stop, stop_on_signals, supervised
from shipper.settings import Settings
from shipper.telemetry import set_up_logging
from shipper.units import format_bytes

EXIT_CHANGES = 2


def plan(
    *, file: Path | None, partitions: int | None, template: Path | None, replicas: int | None, max_bytes: str | None,
    edge: list[str] | None, push: str | None, push_ack: str, as_json: bool, detailed_exitcode: bool, color: Color,
    allow_data_loss: bool, recreate_consumers: bool, prune: bool,
    url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Show the plan; exit 2 when it would change something."""
    settings, desired = _desired(url, config, subject, partitions, file, template, replicas, max_bytes, edge)
    desired = _pushed(settings, desired, push, push_ack)
    allowed = AllowedChanges(data_loss=allow_data_loss, recreate_consumers=recreate_consumers, prune=prune)
    actions = plan_of(settings, desired, allowed)
    if as_json:
        sys.stdout.write(display.plan_json(actions) + "\n")
    else:
        display.print_plan(actions, color)
    if detailed_exitcode and any(not action.keeps for action in actions):
        raise typer.Exit(EXIT_CHANGES)


def apply(
    *, file: Path | None, partitions: int | None, template: Path | None, replicas: int | None, max_bytes: str | None,
    edge: list[str] | None, push: str | None, push_ack: str, yes: bool, allow_data_loss: bool, recreate_consumers: bool,
    prune: bool, url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Carry out the plan."""
    settings, desired = _desired(url, config, subject, partitions, file, template, replicas, max_bytes, edge)
    desired = _pushed(settings, desired, push, push_ack)
    allowed = AllowedChanges(data_loss=allow_data_loss, recreate_consumers=recreate_consumers, prune=prune)
    plan_and_apply(settings, desired, allowed, yes=yes)


def _desired(
    url: str | None, config: Path | None, subject: str | None, partitions: int | None, file: Path | None,
    template: Path | None, replicas: int | None, max_bytes: str | None, edge: list[str] | None,
) -> tuple[Settings, list[DesiredStream]]:  # fmt: skip
    """The settings and the desired streams. Flags override the file, and the file overrides the settings."""
    desired = read_desired(file) if file else DesiredConfig()
    desired = replace(desired, edges=edges_of(edge)) if edge else desired
    subject = subject if subject is not None else desired.subject
    settings = settings_of(url, config, subject, partitions if partitions is not None else desired.partitions)
    if desired.edges:
        centre = str(with_admin(settings, Admin.account).get("domain", ""))
        for domain in desired.edges:
            checked_domain(domain, centre=centre)
    sizing = Sizing(
        replicas=replicas if replicas is not None else desired.sizing.replicas,
        max_bytes=size_of(max_bytes, "--max-bytes") if max_bytes is not None else desired.sizing.max_bytes,
    )
    chosen = template_in(template)
    number = _number_of_partitions(settings) if desired.has_partitions else settings.logs.partitions
    return settings, wanted_of(desired, chosen, subject=settings.logs.subject, partitions=number, sizing=sizing)


def _number_of_partitions(settings: Settings) -> int:
    """The number of partitions of the server, else the requested one. Raises ConfigError: they differ."""
    asked = settings.logs.partitions if "partitions" in settings.logs.model_fields_set else None
    return checked_partitions(asked, with_admin(settings, lambda admin: agreement(admin, settings.logs.subject)))


def _pushed(settings: Settings, desired: list[DesiredStream], target: str | None, ack: str) -> list[DesiredStream]:
    """`desired`, with push consumers if there is a target for them. Raises UsageError."""
    if target is None:
        return desired
    if ack not in ACK_POLICIES:
        raise UsageError(f"--push-ack {ack}: write {' or '.join(ACK_POLICIES)}")
    return with_push(desired, checked_target(target, prefix=settings.logs.subject), ack=ack)


def status(*, as_json: bool, url: str | None, config: Path | None, subject: str | None) -> None:
    """Show the streams, and how the hosts are spread over them."""
    settings = settings_of(url, config, subject)

    async def work(admin: Admin) -> Status:
        return await ask_status(admin, subject=settings.logs.subject)

    found = with_admin(settings, work)
    if not found.partitions:
        raise Unavailable(
            f"the server at {settings.nats.shown_url} has no streams of {settings.logs.subject!r}",
            hint="create them: fshipper partition apply --partitions N",
        )
    hosts = asyncio.run(spread(settings))
    if as_json:
        sys.stdout.write(with_hosts(found, hosts) + "\n")
    else:
        display.print_status(found)
        print_spread(hosts)


def account(*, as_json: bool, url: str | None, config: Path | None) -> None:
    """Show limits and use of the account."""
    settings = settings_of(url, config, None)

    async def work(admin: Admin) -> dict[str, Any]:
        return await admin.account()

    found = with_admin(settings, work)
    found.pop("type", None)
    if as_json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return
    for name, text in _account_lines(found):
        sys.stdout.write(f"{name:<20} {text}\n")


def _account_lines(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    limits, api = found.get("limits", {}), found.get("api", {})

    def used(name: str, limit: str, *, sizes: bool = False) -> str:
        most = limits.get(limit, -1)
        shown = (format_bytes if sizes else str)(found.get(name, 0))
        return f"{shown} of {(format_bytes if sizes else str)(most)}" if most > 0 else f"{shown}, no limit"

    lines = [
        ("streams", used("streams", "max_streams")),
        ("consumers", used("consumers", "max_consumers")),
        ("storage", used("storage", "max_storage", sizes=True)),
        ("reserved storage", format_bytes(found.get("reserved_storage", 0))),
        ("memory", used("memory", "max_memory", sizes=True)),
        ("requests", f"{api.get('total', 0)}, {api.get('errors', 0)} refused"),
        ("API level", str(api.get("level", "?"))),
    ]
    lines += [("domain", str(found["domain"]))] if found.get("domain") else []
    return lines


def serve(
    *, max_streams: int, partitions: int | None, template: Path | None, replicas: int | None, max_bytes: str | None,
    url: str | None, config: Path | None, subject: str | None, log_format: str | None, log_level: str | None,
) -> None:  # fmt: skip
    """Create streams when producers request them, until a signal."""
    settings = settings_of(url, config, subject, partitions)
    log = load({"log.format": log_format, "log.level": log_level}, config=config).log
    set_up_logging(style=log.format, level=log.level)
    limits = on_demand.StreamLimits(
        max_streams=max_streams,
        partitions=settings.logs.partitions,
        template=template_in(template),
        sizing=Sizing(replicas=replicas, max_bytes=size_of(max_bytes, "--max-bytes")),
    )
    asyncio.run(_until_stopped(settings, limits))


async def _until_stopped(settings: Settings, limits: on_demand.StreamLimits) -> None:
    stop = Stop()
    pulse = Pulse("the requests")
    stop_on_signals(stop)
    async with supervised(lambda: [pulse], lambda: f"makes streams of {settings.logs.subject} on demand"):
        await on_demand.serve(settings, limits, stop, pulse)
