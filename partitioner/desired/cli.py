"""`fshipper partition export|import`: desired-state files from servers and from the output of other tools."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from partitioner.cli_options import AsJson, Config, Subject, Url, settings_of, with_admin
from partitioner.desired.document import as_text, entry, exported, is_ours, read
from partitioner.diff import Json as Document
from shipper.durable_files import replace_file
from shipper.errors import ConfigError, Unavailable
from shipper.jetstream.admin import Admin

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it; the terminal if left out.")]


def register(app: typer.Typer) -> None:
    """Add the verbs of this package."""
    app.command("export")(export)
    app.command("import")(import_)


def export(
    streams: Annotated[list[str] | None, typer.Argument(help="Only these streams.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every stream of the account, not only fshipper's.")] = False,
    output: Output = None,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Write what exists as a desired-state file for `plan --file` and `apply --file`."""
    settings = settings_of(url, config, subject)

    async def work(admin: Admin) -> Document:
        there = [str(info["config"]["name"]) for info in await admin.streams()]
        if missing := sorted(set(streams or ()) - set(there)):
            raise Unavailable(f"there is no stream {missing[0]}", hint="fshipper partition export --all shows them")
        names = streams or [name for name in there if every or is_ours(name, settings.logs.subject)]
        return await exported(admin, names)

    _write(as_text(with_admin(settings, work), as_json=_is_json(output, as_json)), output)


def import_(
    files: Annotated[list[Path], typer.Argument(help="JSON of `nats stream info --json`, or desired-state files.")],
    *,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Make one desired-state file of what `nats stream info --json` and `nats consumer info --json` print."""
    streams: dict[str, tuple[Document, list[Document]]] = {}
    for file in files:
        desired = read(file)
        if not desired.streams:
            raise ConfigError(f"{file} names no stream", hint="give it what `nats stream info NAME --json` prints")
        for config, consumers in desired.streams:
            known = streams.setdefault(str(config["name"]), ({}, []))
            known[0].update(config)
            known[1].extend(consumers)
    document = {"streams": [entry(config, consumers) for config, consumers in streams.values()]}
    _write(as_text(document, as_json=_is_json(output, as_json)), output)


def _is_json(output: Path | None, as_json: bool) -> bool:
    return as_json or (output is not None and output.suffix == ".json")


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        replace_file(output, text.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}", hint="correct --output") from None
    sys.stdout.write(f"wrote {output}\n")
