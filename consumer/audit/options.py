"""The options of `fshipper audit` and `fshipper redact`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shipper.commands import Archive, AsJson, ConfigFile, DryRun, Key, NatsContext, State, Url, Values, Yes


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Verify every file of the archive against its manifest or journal, and list what is missing, damaged or doubled.

    Ends with 0 when the archive is complete, with 2 when there are gaps or damage, or when nothing is archived yet.

    --repair-duplicates verifies nothing else. It finds bytes of a source that are in the archive twice, compares both
    copies, and shows the later one, which --yes removes; the manifest keeps a record. It ends with 2 while something is
    left to remove.
    """

    directory: Annotated[Path | None, typer.Argument(help="The archive (SHIPPER_DIRECTORY).", show_default=False)] = (
        None
    )
    archive: Archive = None
    date: Annotated[str, typer.Option(help="One day (UTC): YYYY-MM-DD, today or yesterday.")] = ""
    since: Annotated[str, typer.Option(help="This day and later ones.")] = ""
    until: Annotated[str, typer.Option(help="This day and earlier ones.")] = ""
    host: Annotated[str, typer.Option(help="Only hosts of this name, or pattern: 'web*'.")] = "*"
    ask_hosts: Annotated[bool, typer.Option("--producers", "--hosts", help="Also compare with the producers.")] = False
    as_json: AsJson = False
    repair_duplicates: Annotated[
        bool,
        typer.Option("--repair-duplicates", help="Show which doubled bytes would be removed; with --yes remove them."),
    ] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --repair-duplicates: do it.")] = False
    reason: Annotated[str, typer.Option(help="With --repair-duplicates: why, for the record.")] = "doubled"
    state: State = None
    url: Url = None
    nats_context: NatsContext = None
    config: ConfigFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactOptions:
    """Black out text in sealed segments: lengths, lines and offsets stay; the manifest records it, the audit shows it.

    Copies of the text in streams, dead letters and reports are listed; --streams removes those that can be.

    The exit code is 2 when files of the host are still open, which are not checked: run it again once they are sealed.
    """

    directory: Annotated[
        Path | None,
        typer.Argument(help="The archive (SHIPPER_DIRECTORY).", show_default=False),
        Key("collector.directory"),
    ] = None
    host: Annotated[str, typer.Option(help="Whose lines.")] = ""
    file: Annotated[str, typer.Option(help="Only of this log file, by its path on the host."), Values.ARCHIVED] = ""
    match: Annotated[str, typer.Option(help="What a regular expression finds.")] = ""
    whole_lines: Annotated[bool, typer.Option("--whole-lines", help="All of each line with a match.")] = False
    source: Annotated[str, typer.Option(help="Bytes of this source: with --span.")] = ""
    span: Annotated[str, typer.Option(help="START-END, END excluded; `partition rm-message` names it.")] = ""
    date: Annotated[str, typer.Option(help="Only of this day (UTC): YYYY-MM-DD.")] = ""
    since: Annotated[str, typer.Option(help="This day and later ones.")] = ""
    until: Annotated[str, typer.Option(help="This day and earlier ones.")] = ""
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "privacy"
    dry_run: DryRun = False
    yes: Yes = False
    as_json: AsJson = False
    streams: Annotated[
        bool, typer.Option("--streams", help="Also remove archived messages and dead letters with the text.")
    ] = False
    url: Url = None
    nats_context: NatsContext = None
    config: ConfigFile = None
