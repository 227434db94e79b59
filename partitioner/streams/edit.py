"""`fshipper partition copy-config|edit`: another configuration for a stream or a consumer, made of the one that is."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from partitioner import display
from partitioner.apply import carry_out, check
from partitioner.arguments import confirm, existing, full_name, settings_of, with_admin
from partitioner.desired import in_server_units
from partitioner.diff import Json, without_server_notes
from partitioner.plan import ActualStream, AllowedChanges, plan
from partitioner.topology import DesiredStream
from shipper.errors import ConfigError, Fatal, Unavailable, UsageError
from shipper.jetstream.admin import Admin
from shipper.settings import Settings
from shipper.subjects import partition_of_stream, partition_subjects


def copy_config(
    source: str, target: str, *, subjects: str | None, consumers: bool, yes: bool, allow_data_loss: bool,
    recreate_consumers: bool, url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Make a stream with another one's configuration, or change it to that; no messages are copied."""
    settings = settings_of(url, config, subject)
    prefix = settings.logs.subject
    from_name, name = full_name(source, prefix), full_name(target, prefix)

    async def work(admin: Admin) -> tuple[DesiredStream, ActualStream | None]:
        like = (await existing(admin, from_name))["config"]
        there = await admin.stream(name)
        listening = subjects.split(",") if subjects else there["config"].get("subjects") if there else None
        found = await admin.consumers(from_name) if consumers else []
        durable = tuple(without_server_notes(each["config"]) for each in found if each["config"].get("durable_name"))
        wanted = DesiredStream(
            stream=copied(like, name, listening, prefix), consumers=durable, partition=partition_of_stream(prefix, name)
        )
        return wanted, await _actual(admin, there, wanted)

    _change(settings, *with_admin(settings, work), yes, allow_data_loss, recreate_consumers)


def edit(
    stream: str, *, assignments: list[str] | None, removed: list[str] | None, consumer: str | None, dry_run: bool,
    yes: bool, allow_data_loss: bool, recreate_consumers: bool,
    url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Change the configuration of a stream or of its consumer."""
    settings = settings_of(url, config, subject)
    name = full_name(stream, settings.logs.subject)

    async def look(admin: Admin) -> tuple[dict[str, Any], dict[str, Any] | None]:
        info = await existing(admin, name)
        found = await admin.consumer(name, consumer) if consumer else None
        if consumer and found is None:
            raise Unavailable(f"stream {name} has no consumer {consumer}")
        return info, found

    info, found = with_admin(settings, look)
    before = without_server_notes((found or info)["config"])
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
        if actual and now and without_server_notes(now["config"]) != without_server_notes(actual.stream["config"]):
            raise Fatal(f"stream {wanted.name} was changed meanwhile", hint="run the command again")
        await carry_out(admin, actions)

    with_admin(settings, work, attempts=1)


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


_DOTTED = re.compile(r"[A-Za-z0-9_]+(\.[^=]+)?")
NOT_COPIED = frozenset({"name", "mirror", "sources", "first_seq", "sealed"})
"""Whose messages a stream holds, and from where, is not how it is configured."""


def assigned(config: Mapping[str, Any], assignments: Sequence[str], removed: Sequence[str]) -> Json:
    """The fields that `--set NAME=VALUE` and `--unset NAME` change; None: the server's default.

    Values are JSON, or plain text; sizes and times may be written as people do; lists may be parted by commas.

    Raises:
        UsageError: one is no assignment.
    """
    wanted: Json = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not _DOTTED.fullmatch(name.strip()):
            raise UsageError(f"{assignment!r} is no assignment", hint="write for example max_bytes=50GB")
        _put(wanted, name.strip(), _value(text.strip(), config.get(name.strip())))
    for name in removed:
        _put(wanted, name, None)
    return dict(in_server_units(wanted))


def rewritten(config: Mapping[str, Any], text: str) -> Json:
    """The fields that differ after a person edited `config` as JSON; a field that is gone is None.

    Raises:
        ConfigError: it is no JSON object any more.
    """
    try:
        edited = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"what was edited is no JSON: {error}", hint="nothing was changed") from None
    if not isinstance(edited, dict):
        raise ConfigError("what was edited is no JSON object", hint="nothing was changed")
    return dict(in_server_units(edited)) | dict.fromkeys(set(config) - set(edited))


def copied(config: Mapping[str, Any], name: str, subjects: Sequence[str] | None, subject: str) -> Json:
    """The configuration of a stream `name` that is like `config`, listening to `subjects`.

    Without them a partition listens to its own, and any other stream to its name.
    """
    like = {key: value for key, value in without_server_notes(config).items() if key not in NOT_COPIED}
    partition = partition_of_stream(subject, name)
    own = [name] if partition is None else [partition_subjects(subject, partition)]
    return like | {"name": name, "subjects": list(subjects) if subjects else own}


def _put(wanted: Json, name: str, value: Any) -> None:
    """`metadata.team` is a nested field; any further dot is part of the key."""
    outer, dot, inner = name.partition(".")
    if dot:
        wanted.setdefault(outer, {})[inner] = value
    else:
        wanted[outer] = value


def _value(text: str, before: Any) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [part.strip() for part in text.split(",")] if isinstance(before, list) else text
