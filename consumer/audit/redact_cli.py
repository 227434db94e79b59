"""`fshipper redact`: replace text in sealed segments of the archive, with a record in the manifest."""

from pathlib import Path
from typing import Annotated

import typer

from shipper.interrupts import importing

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def redact(
    directory: Annotated[
        Path | None, typer.Argument(help="The archive (SHIPPER_DIRECTORY)", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="Whose lines")] = "",
    file: Annotated[str, typer.Option(help="Only of this log file, by its path on the host")] = "",
    match: Annotated[str, typer.Option(help="What a regular expression finds")] = "",
    whole_lines: Annotated[bool, typer.Option("--whole-lines", help="All of each line with a match")] = False,
    source: Annotated[str, typer.Option(help="Bytes of this source: with --span")] = "",
    span: Annotated[str, typer.Option(help="START-END, END excluded; `partition rm-message` names it")] = "",
    date: Annotated[str, typer.Option(help="Only of this day (UTC): YYYY-MM-DD")] = "",
    since: Annotated[str, typer.Option(help="This day and later ones")] = "",
    until: Annotated[str, typer.Option(help="This day and earlier ones")] = "",
    reason: Annotated[str, typer.Option(help="Why, for the record")] = "privacy",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs")] = False,
    streams: Annotated[
        bool, typer.Option("--streams", help="Also remove archived messages and dead letters with the text")
    ] = False,
    url: Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL)")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
) -> None:
    """Black out text in sealed segments: lengths, lines and offsets stay; the manifest records it, the audit shows it.

    Copies of the text in streams, dead letters and reports are listed; --streams removes those that can be.

    The exit code is 2 when files of the host are still open, which are not checked: run it again once they are sealed.
    """
    with importing():
        from consumer.audit.redact import RedactOptions, run  # noqa: PLC0415 - `--help` needs none of it

    options = RedactOptions(
        directory=directory, host=host, file=file, match=match, whole_lines=whole_lines, source=source, span=span,
        date=date, since=since, until=until, reason=reason, dry_run=dry_run, yes=yes, as_json=as_json,
        streams=streams, url=url, config=config,
    )  # fmt: skip
    if code := run(options):
        raise typer.Exit(code)
