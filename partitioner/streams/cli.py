"""`fshipper partition copy-config|edit|account`; the other commands are in `removal` and `server_events`."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from partitioner import display
from partitioner.apply import carry_out, check
from partitioner.cli_options import (
    AsJson,
    Config,
    Subject,
    Url,
    Yes,
    confirm,
    existing,
    full_name,
    settings_of,
    with_admin,
)
from partitioner.plan import Action, ActualStream, AllowedChanges, plan
from partitioner.streams import removal, server_events
from partitioner.streams.edit import assigned, copied, editable, rewritten
from partitioner.topology import DesiredStream
from shipper.errors import ConfigError, Fatal, Unavailable, UsageError
from shipper.jetstream.admin import Admin
from shipper.settings import Settings
from shipper.subjects import partition_of_stream
from shipper.units import format_bytes

Name = Annotated[str, typer.Argument(metavar="STREAM", help="A stream by its name, or a partition: p3.")]
DataLoss = Annotated[bool, typer.Option("--allow-data-loss", help="Also do what destroys messages.")]
Recreate = Annotated[bool, typer.Option("--recreate-consumers", help="Delete a consumer that cannot be changed.")]


def register(app: typer.Typer) -> None:
    """Add the verbs of this package."""
    app.command("copy-config")(copy_config)
    app.command("edit")(edit)
    removal.register(app)
    app.command("account")(account)
    server_events.register(app)


def copy_config(
    source: Annotated[str, typer.Argument(help="The stream that is as it should be.")],
    target: Annotated[str, typer.Argument(help="The stream to make, or to make like it.")],
    *,
    subjects: Annotated[str | None, typer.Option(help="What TARGET listens to, separated by commas.")] = None,
    consumers: Annotated[bool, typer.Option(help="Its durable consumers, too.")] = True,
    yes: Yes = False,
    allow_data_loss: DataLoss = False,
    recreate_consumers: Recreate = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Make a stream with another one's configuration, or change it to that; no messages are copied."""
    settings = settings_of(url, config, subject)
    prefix = settings.logs.subject
    from_name, name = full_name(source, prefix), full_name(target, prefix)

    async def work(admin: Admin) -> tuple[DesiredStream, ActualStream | None]:
        like = (await existing(admin, from_name))["config"]
        there = await admin.stream(name)
        listening = subjects.split(",") if subjects else there["config"].get("subjects") if there else None
        found = await admin.consumers(from_name) if consumers else []
        durable = tuple(editable(each["config"]) for each in found if each["config"].get("durable_name"))
        wanted = DesiredStream(
            stream=copied(like, name, listening, prefix),
            consumers=durable,
            partition=partition_of_stream(prefix, name),
        )
        return wanted, await _actual(admin, there, wanted)

    _change(settings, *with_admin(settings, work), yes, allow_data_loss, recreate_consumers)


def edit(
    stream: Name,
    *,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="For example max_bytes=50GB, metadata.team=web."),
    ] = None,
    removed: Annotated[
        list[str] | None, typer.Option("--unset", metavar="FIELD", help="Back to the server's default.")
    ] = None,
    consumer: Annotated[str | None, typer.Option(help="Edit this consumer of the stream instead.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; exit 2 when something would.")
    ] = False,
    yes: Yes = False,
    allow_data_loss: DataLoss = False,
    recreate_consumers: Recreate = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Change a stream's configuration: by --set, or in $EDITOR; shows the difference and prompts."""
    settings = settings_of(url, config, subject)
    name = full_name(stream, settings.logs.subject)

    async def look(admin: Admin) -> tuple[dict[str, Any], dict[str, Any] | None]:
        info = await existing(admin, name)
        found = await admin.consumer(name, consumer) if consumer else None
        if consumer and found is None:
            raise Unavailable(f"stream {name} has no consumer {consumer}")
        return info, found

    info, found = with_admin(settings, look)
    before = editable((found or info)["config"])
    if assignments or removed:
        changed = assigned(before, assignments or [], removed or [])
    else:
        changed = rewritten(before, _in_editor(before, name))
    for field in ("name", "durable_name"):
        if changed.get(field, before.get(field)) != before.get(field):
            raise UsageError(
                f"{field} cannot be changed", hint=f"fshipper partition copy-config {name} NEW makes another"
            )
    partition = partition_of_stream(settings.logs.subject, name)
    if found and consumer:
        wanted = DesiredStream(
            stream={"name": name}, consumers=(changed | {"durable_name": consumer},), partition=partition
        )
    else:
        wanted = DesiredStream(stream=changed | {"name": name}, partition=partition)
    actual = ActualStream(info, {consumer: found} if found and consumer else {})
    _change(settings, wanted, actual, yes, allow_data_loss, recreate_consumers, dry_run=dry_run)


def account(*, as_json: AsJson = False, url: Url = None, config: Config = None) -> None:
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


async def _actual(admin: Admin, there: dict[str, Any] | None, wanted: DesiredStream) -> ActualStream | None:
    if there is None:
        return None
    names = [str(each["durable_name"]) for each in wanted.consumers]
    asked = {name: await admin.consumer(wanted.name, name) for name in names}
    return ActualStream(there, {name: info for name, info in asked.items() if info is not None})


def _change(
    settings: Settings,
    wanted: DesiredStream,
    actual: ActualStream | None,
    yes: bool,
    data_loss: bool,
    recreate: bool,
    *,
    dry_run: bool = False,
) -> None:
    """Show the difference, prompt, and apply it."""
    allowed = AllowedChanges(data_loss=data_loss, recreate_consumers=recreate)
    found = {wanted.name: actual} if actual else {}
    actions = plan([wanted], found, subject=settings.logs.subject, allowed=allowed)
    display.print_plan(actions)
    changes = any(not action.keeps for action in actions)
    if dry_run:
        raise typer.Exit(2 if changes else 0)
    check(actions)
    if not changes:
        return
    confirm(yes=yes or all(action.only_adds for action in actions))

    async def work(admin: Admin) -> None:
        now = await admin.stream(wanted.name)
        if actual and now and editable(now["config"]) != editable(actual.stream["config"]):
            raise Fatal(f"stream {wanted.name} was changed meanwhile", hint="run the command again")
        await carry_out(admin, actions, _say)

    with_admin(settings, work, attempts=1)


def _say(action: Action) -> None:
    sys.stdout.write(display.done_line(action) + "\n")


def _in_editor(config: Mapping[str, Any], name: str) -> str:
    """The text that a person makes of `config`. Raises UsageError: there is no terminal, or no editor."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("vi" if sys.stdin.isatty() else "")
    if not editor:
        raise UsageError("there is nothing to change", hint="give --set FIELD=VALUE, or set $EDITOR")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"{name}.json"
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(path)], check=False)
        except OSError as error:
            raise ConfigError(f"cannot start the editor {editor!r}: {error.strerror}", hint="set $EDITOR") from None
        if done.returncode:
            raise Fatal(f"the editor ended with {done.returncode}", hint="nothing was changed")
        return path.read_text(encoding="utf-8")


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
