"""`fshipper partition plan|apply|status`: the command line around the pure plan."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from partitioner import show
from partitioner.apply import carry_out, check, look
from partitioner.plan import Action, Allowed
from partitioner.plan import plan as planned
from partitioner.template import Template, read, shipped
from partitioner.topology import Sizing, Wanted, wanted
from shipper.config import load
from shipper.errors import Fatal, Unavailable, UsageError
from shipper.jetstream.admin import Admin, administration
from shipper.jetstream.lag import Status
from shipper.jetstream.lag import status as ask_status
from shipper.lifecycle import Stop
from shipper.retry import SESSION, until_done
from shipper.settings import Settings
from shipper.units import parse_size

EXIT_CHANGES = 2
ATTEMPTS = 6  # a cluster that elects a leader refuses, or does not answer, for some seconds

_T = TypeVar("_T")

app = typer.Typer(help="Plan, create and watch the streams.", add_completion=False, rich_markup_mode=None)

Url = Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL).")]
Config = Annotated[Path | None, typer.Option(help="Configuration file (SHIPPER_CONFIG).")]
Subject = Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT).")]
Partitions = Annotated[int | None, typer.Option(help="How many partitions; 0 means partition 0 (SHIPPER_PARTITIONS).")]
TemplateFile = Annotated[Path | None, typer.Option("--template", help="Template of the streams (JSON).")]
Replicas = Annotated[int | None, typer.Option(min=1, max=5, help="Copies of each stream in a cluster.")]
MaxBytes = Annotated[str | None, typer.Option(help="Room a partition, for example 50GB; the server reserves it.")]
DataLoss = Annotated[bool, typer.Option("--allow-data-loss", help="Also do what destroys messages.")]
Recreate = Annotated[bool, typer.Option("--recreate-consumers", help="Delete consumers that cannot be changed.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the streams of partitions that are too many.")]


@app.command()
def plan(
    *,
    partitions: Partitions = None,
    template: TemplateFile = None,
    replicas: Replicas = None,
    max_bytes: MaxBytes = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    detailed_exitcode: Annotated[bool, typer.Option(help="Exit 2 when something would change.")] = False,
    allow_data_loss: DataLoss = False,
    recreate_consumers: Recreate = False,
    prune: Prune = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Show what `apply` would do."""
    settings = _settings(url, config, subject, partitions)
    desired = _wanted(settings, template, replicas, max_bytes)
    allowed = Allowed(data_loss=allow_data_loss, recreate_consumers=recreate_consumers, prune=prune)
    actions = _plan(settings, desired, allowed)
    if as_json:
        sys.stdout.write(show.plan_json(actions) + "\n")
    else:
        show.print_plan(actions)
    if detailed_exitcode and any(not action.keeps for action in actions):
        raise typer.Exit(EXIT_CHANGES)


@app.command()
def apply(
    *,
    partitions: Partitions = None,
    template: TemplateFile = None,
    replicas: Replicas = None,
    max_bytes: MaxBytes = None,
    yes: Annotated[bool, typer.Option("--yes", help="Change and delete without asking; creating never asks.")] = False,
    allow_data_loss: DataLoss = False,
    recreate_consumers: Recreate = False,
    prune: Prune = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Create the streams of all partitions with the collector's consumer, and what they share: dead letters, leases."""
    settings = _settings(url, config, subject, partitions)
    desired = _wanted(settings, template, replicas, max_bytes)
    allowed = Allowed(data_loss=allow_data_loss, recreate_consumers=recreate_consumers, prune=prune)
    actions = _plan(settings, desired, allowed)
    check(actions)
    if not any(action.changing for action in actions):
        show.print_plan(actions)
        return
    _confirm(actions, yes=yes)
    _carry_out(settings, desired, allowed, agreed=actions)


@app.command()
def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Show how full the streams are, and how far the collector is behind."""
    settings = _settings(url, config, subject, None)

    async def work(admin: Admin) -> Status:
        return await ask_status(admin, subject=settings.logs.subject)

    found = _with_admin(settings, work)
    if not found.partitions:
        raise Unavailable(
            f"the server at {settings.nats.shown_url} has no streams of {settings.logs.subject!r}",
            hint="create them: fshipper partition apply --partitions N",
        )
    if as_json:
        sys.stdout.write(show.status_json(found) + "\n")
    else:
        show.print_status(found)


def _settings(url: str | None, config: Path | None, subject: str | None, partitions: int | None) -> Settings:
    return load({"nats.url": url, "logs.subject": subject, "logs.partitions": partitions}, config=config)


def _wanted(settings: Settings, file: Path | None, replicas: int | None, max_bytes: str | None) -> list[Wanted]:
    template: Template = read(file) if file else shipped()
    try:
        size = parse_size(max_bytes) if max_bytes is not None else None
    except ValueError as error:
        raise UsageError(f"--max-bytes: {error}") from None
    logs = settings.logs
    sizing = Sizing(replicas=replicas, max_bytes=size)
    return wanted(template, subject=logs.subject, partitions=logs.partitions, sizing=sizing)


def _plan(settings: Settings, desired: Sequence[Wanted], allowed: Allowed) -> list[Action]:
    async def work(admin: Admin) -> list[Action]:
        return await _fresh_plan(admin, settings, desired, allowed)

    return _with_admin(settings, work)


async def _fresh_plan(admin: Admin, settings: Settings, desired: Sequence[Wanted], allowed: Allowed) -> list[Action]:
    subject = settings.logs.subject
    return planned(desired, await look(admin, subject=subject), subject=subject, allowed=allowed)


def _carry_out(settings: Settings, desired: Sequence[Wanted], allowed: Allowed, agreed: Sequence[Action]) -> None:
    """Plan once more and do it: after a question the server may be another, and an attempt may have done a part."""

    async def work(admin: Admin) -> None:
        actions = await _fresh_plan(admin, settings, desired, allowed)
        if any(action.changing and action not in agreed for action in actions):
            raise Fatal("the streams changed meanwhile, so the plan is another now", hint="run the command again")
        await carry_out(admin, actions, _say)

    _with_admin(settings, work)


def _say(action: Action) -> None:
    sys.stdout.write(show.done_line(action) + "\n")
    sys.stdout.flush()


def _confirm(actions: Sequence[Action], *, yes: bool) -> None:
    """Ask before anything that exists is touched.

    Raises:
        UsageError: there is nobody to ask, or the answer is no.
    """
    if yes or all(action.only_adds for action in actions):
        return
    show.print_plan(actions)
    if not sys.stdin.isatty():
        raise UsageError("this changes what exists, and there is no terminal to ask", hint="look at it, then --yes")
    if not typer.confirm("Do it?"):
        raise UsageError("nothing was changed")


def _with_admin(settings: Settings, work: Callable[[Admin], Awaitable[_T]]) -> _T:
    """`work`'s result; all of it again, on a new connection, when the server was lost or busy."""

    async def attempt() -> _T:
        async with administration(settings.nats) as admin:
            return await work(admin)

    async def attempts() -> _T:
        return await until_done(attempt, policy=SESSION, stop=Stop(), attempts=ATTEMPTS)

    return asyncio.run(attempts())
