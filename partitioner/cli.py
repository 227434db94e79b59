"""`fshipper partition plan|apply|status` and the commands of the other packages: the command line of the plan."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from partitioner import display
from partitioner import edge as edge_verbs
from partitioner import leaders as leader_verbs
from partitioner.backup import cli as backup_verbs
from partitioner.cli_options import (
    AsJson,
    Config,
    Replicas,
    Subject,
    TemplateFile,
    Url,
    settings_of,
    size_of,
    with_admin,
)
from partitioner.desired import cli as desired_verbs
from partitioner.desired.document import DesiredConfig, wanted_of
from partitioner.desired.document import read as read_desired
from partitioner.edge import edges_of
from partitioner.edge_domain import checked_domain
from partitioner.map_entry import agreement, checked_partitions
from partitioner.move import cli as move_verbs
from partitioner.move.load import print_spread, spread, with_hosts
from partitioner.on_demand_cli import register as register_serving
from partitioner.plan import AllowedChanges
from partitioner.plan_and_apply import plan_and_apply, plan_of
from partitioner.push_consumers import ACK_POLICIES, TAIL, checked_target, with_push
from partitioner.streams import cli as stream_verbs
from partitioner.template import read, shipped
from partitioner.topology import DesiredStream, Sizing
from shipper.errors import Unavailable, UsageError
from shipper.jetstream.admin import Admin
from shipper.jetstream.stream_status import Status
from shipper.jetstream.stream_status import status as ask_status
from shipper.settings import Settings

EXIT_CHANGES = 2

app = typer.Typer(help="Plan, create, watch, save and mend the streams.", add_completion=False, rich_markup_mode=None)

Partitions = Annotated[int | None, typer.Option(help="How many partitions; 0 means partition 0 (SHIPPER_PARTITIONS).")]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        help="Desired state, TOML or JSON: what `export` writes, or what `nats stream info --json` prints.",
    ),
]
MaxBytes = Annotated[
    str | None, typer.Option(help="Maximum size of a partition's stream, for example 50GB; the server reserves it.")
]
Push = Annotated[
    str | None,
    typer.Option(help=f"Add push consumers {TAIL}, to SUBJECT.p<N>, for plain subscribers.", metavar="SUBJECT"),
]
PushAck = Annotated[str, typer.Option(help="What their subscribers answer: none, or explicit.")]
Edge = Annotated[
    list[str] | None,
    typer.Option(help="An edge site that is sourced here: its domain and partitions.", metavar="DOMAIN=NUMBERS"),
]
DataLoss = Annotated[bool, typer.Option("--allow-data-loss", help="Also do what destroys messages.")]
Recreate = Annotated[bool, typer.Option("--recreate-consumers", help="Delete consumers that cannot be changed.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the streams of partitions that are too many.")]


@app.command()
def plan(
    *,
    file: File = None,
    partitions: Partitions = None,
    template: TemplateFile = None,
    replicas: Replicas = None,
    max_bytes: MaxBytes = None,
    edge: Edge = None,
    push: Push = None,
    push_ack: PushAck = "none",
    as_json: AsJson = False,
    detailed_exitcode: Annotated[bool, typer.Option(help="Exit 2 when something would change.")] = True,
    color: Annotated[display.Color, typer.Option(help="Colours: on terminals, always, or never.")] = display.Color.AUTO,
    allow_data_loss: DataLoss = False,
    recreate_consumers: Recreate = False,
    prune: Prune = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Show what `apply` would do; exit 2 when it would change something."""
    settings, desired = _asked(url, config, subject, partitions, file, template, replicas, max_bytes, edge)
    desired = _pushed(settings, desired, push, push_ack)
    allowed = AllowedChanges(data_loss=allow_data_loss, recreate_consumers=recreate_consumers, prune=prune)
    actions = plan_of(settings, desired, allowed)
    if as_json:
        sys.stdout.write(display.plan_json(actions) + "\n")
    else:
        display.print_plan(actions, color)
    if detailed_exitcode and any(not action.keeps for action in actions):
        raise typer.Exit(EXIT_CHANGES)


@app.command()
def apply(
    *,
    file: File = None,
    partitions: Partitions = None,
    template: TemplateFile = None,
    replicas: Replicas = None,
    max_bytes: MaxBytes = None,
    edge: Edge = None,
    push: Push = None,
    push_ack: PushAck = "none",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Change and delete without a prompt; creating never prompts.")
    ] = False,
    allow_data_loss: DataLoss = False,
    recreate_consumers: Recreate = False,
    prune: Prune = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Create the streams of all partitions with the collector's consumer, and what they share: dead letters, leases."""
    settings, desired = _asked(url, config, subject, partitions, file, template, replicas, max_bytes, edge)
    desired = _pushed(settings, desired, push, push_ack)
    allowed = AllowedChanges(data_loss=allow_data_loss, recreate_consumers=recreate_consumers, prune=prune)
    plan_and_apply(settings, desired, allowed, yes=yes)


@app.command()
def status(*, as_json: AsJson = False, url: Url = None, config: Config = None, subject: Subject = None) -> None:
    """Show how full the streams are, the collector's lag, and which hosts are too big for a partition."""
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
        sys.stdout.write(with_hosts(display.status_json(found), hosts) + "\n")
    else:
        display.print_status(found)
        print_spread(hosts)


for verbs in (desired_verbs, backup_verbs, stream_verbs, move_verbs, leader_verbs, edge_verbs):
    verbs.register(app)
register_serving(app)


def _pushed(settings: Settings, desired: list[DesiredStream], target: str | None, ack: str) -> list[DesiredStream]:
    """`desired`, with push consumers if there is a target for them. Raises UsageError."""
    if target is None:
        return desired
    if ack not in ACK_POLICIES:
        raise UsageError(f"--push-ack {ack}: write {' or '.join(ACK_POLICIES)}")
    return with_push(desired, checked_target(target, prefix=settings.logs.subject), ack=ack)


def _asked(
    url: str | None,
    config: Path | None,
    subject: str | None,
    partitions: int | None,
    file: Path | None,
    template: Path | None,
    replicas: int | None,
    max_bytes: str | None,
    edge: list[str] | None,
) -> tuple[Settings, list[DesiredStream]]:
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
    chosen = read(template) if template else shipped()
    number = _number_of_partitions(settings) if desired.has_partitions else settings.logs.partitions
    return settings, wanted_of(desired, chosen, subject=settings.logs.subject, partitions=number, sizing=sizing)


def _number_of_partitions(settings: Settings) -> int:
    """The number of partitions of the server, else the requested one. Raises ConfigError: they differ."""
    asked = settings.logs.partitions if "partitions" in settings.logs.model_fields_set else None
    return checked_partitions(asked, with_admin(settings, lambda admin: agreement(admin, settings.logs.subject)))
