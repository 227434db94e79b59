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
from partitioner.arguments import existing, full_name, with_admin
from partitioner.desired import in_server_units
from partitioner.diff import Json, without_server_notes
from partitioner.options import CopyConfigOptions, EditOptions
from partitioner.plan import ActualStream, AllowedChanges, plan
from partitioner.topology import DesiredStream
from shipper.commands import settings_of
from shipper.errors import ConfigError, Fatal, Unavailable, UsageError
from shipper.jetstream.admin import Admin
from shipper.prompts import confirm
from shipper.settings import Settings
from shipper.subjects import partition_of_stream, partition_subjects


def copy_config(options: CopyConfigOptions) -> None:
    """Make a stream with another one's configuration, or change it to that; no messages are copied."""
    settings = settings_of(options)
    prefix = settings.logs.subject
    from_name, name = full_name(options.source, prefix), full_name(options.target, prefix)

    async def read_state(admin: Admin) -> tuple[DesiredStream, ActualStream | None]:
        like = (await existing(admin, from_name))["config"]
        there = await admin.stream(name)
        subjects = (
            options.subjects.split(",") if options.subjects else there["config"].get("subjects") if there else None
        )
        found = await admin.consumers(from_name) if options.consumers else []
        durable = tuple(without_server_notes(each["config"]) for each in found if each["config"].get("durable_name"))
        stream = copied(like, name, subjects, prefix)
        wanted = DesiredStream(stream=stream, consumers=durable, partition=partition_of_stream(prefix, name))
        if there is None:
            return wanted, None
        asked = {str(each["durable_name"]): await admin.consumer(name, str(each["durable_name"])) for each in durable}
        return wanted, ActualStream(there, {each: info for each, info in asked.items() if info is not None})

    _change(settings, *with_admin(settings, read_state), options)


def edit(options: EditOptions) -> None:
    """Change the configuration of a stream or of its consumer."""
    settings, consumer = settings_of(options), options.consumer
    name = full_name(options.stream, settings.logs.subject)

    async def read_state(admin: Admin) -> tuple[Json, Json | None]:
        info = await existing(admin, name)
        found = await admin.consumer(name, consumer) if consumer else None
        if consumer and found is None:
            raise Unavailable(f"stream {name} has no consumer {consumer}")
        return info, found

    info, found = with_admin(settings, read_state)
    before = without_server_notes((found or info)["config"])
    if options.assignments or options.removed:
        changed = assigned(before, options.assignments or [], options.removed or [])
    else:
        changed = rewritten(before, _in_editor(before, name))
    for field in ("name", "durable_name"):
        if changed.get(field, before.get(field)) != before.get(field):
            raise UsageError(
                f"{field} cannot be changed", hint=f"fshipper partition copy-config {name} NEW makes another"
            )
    partition = partition_of_stream(settings.logs.subject, name)
    if found and consumer:
        consumers = (changed | {"durable_name": consumer},)
        wanted = DesiredStream(stream={"name": name}, consumers=consumers, partition=partition)
    else:
        wanted = DesiredStream(stream=changed | {"name": name}, partition=partition)
    actual = ActualStream(info, {consumer: found} if found and consumer else {})
    _change(settings, wanted, actual, options, dry_run=options.dry_run)


def _change(
    settings: Settings,
    wanted: DesiredStream,
    actual: ActualStream | None,
    options: CopyConfigOptions | EditOptions,
    *,
    dry_run: bool = False,
) -> None:
    """Show the difference, prompt, and apply it."""
    allowed = AllowedChanges(data_loss=options.allow_data_loss, recreate_consumers=options.recreate_consumers)
    found = {wanted.name: actual} if actual else {}
    actions = plan([wanted], found, subject=settings.logs.subject, allowed=allowed)
    display.print_plan(actions)
    changes = any(not action.keeps for action in actions)
    if dry_run:
        raise typer.Exit(2 if changes else 0)
    check(actions)
    if not changes:
        return
    confirm(yes=options.yes or all(action.only_adds for action in actions))

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

    Raises UsageError: one is no assignment.
    """
    wanted: Json = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not _DOTTED.fullmatch(name.strip()):
            raise UsageError(f"{assignment!r} is no assignment", hint="write for example max_bytes=50GB")
        name, text = name.strip(), text.strip()
        try:
            value = json.loads(text)
        except ValueError:
            is_list = isinstance(config.get(name), list)
            value = [part.strip() for part in text.split(",")] if is_list else text
        _put(wanted, name, value)
    for name in removed:
        _put(wanted, name, None)
    return dict(in_server_units(wanted))


def _put(wanted: Json, name: str, value: Any) -> None:
    """`metadata.team` is a nested field; any further dot is part of the key."""
    outer, dot, inner = name.partition(".")
    if dot:
        wanted.setdefault(outer, {})[inner] = value
    else:
        wanted[outer] = value


def rewritten(config: Mapping[str, Any], text: str) -> Json:
    """The fields that differ after a person edited `config` as JSON; a field that is gone is None.

    Raises ConfigError: it is no JSON object any more.
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
