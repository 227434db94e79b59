"""`fshipper audit`: its options.

It reads, and changes nothing; only `--repair-duplicates --yes` removes doubled bytes.
"""

from pathlib import Path
from typing import Annotated

import typer

from shipper.errors import UsageError
from shipper.interrupts import importing

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def audit(
    directory: Annotated[
        Path | None, typer.Argument(help="The archive (SHIPPER_DIRECTORY)", show_default=False)
    ] = None,
    archive: Annotated[Path | None, typer.Option("--archive", "--directory", help="The same as a flag")] = None,
    date: Annotated[str, typer.Option(help="One day (UTC): YYYY-MM-DD, today or yesterday")] = "",
    since: Annotated[str, typer.Option(help="This day and later ones")] = "",
    until: Annotated[str, typer.Option(help="This day and earlier ones")] = "",
    host: Annotated[str, typer.Option(help="Only hosts of this name, or pattern: 'web*'")] = "*",
    ask_hosts: Annotated[bool, typer.Option("--hosts", help="Also compare with the producers")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs")] = False,
    repair_duplicates: Annotated[
        bool,
        typer.Option("--repair-duplicates", help="Show which doubled bytes would be removed; with --yes remove them"),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --repair-duplicates: do it")] = False,
    reason: Annotated[str, typer.Option(help="With --repair-duplicates: why, for the record")] = "doubled",
    state: Annotated[Path | None, typer.Option(help="Directory of the journals (SHIPPER_STATE)")] = None,
    url: Annotated[str | None, typer.Option(help="NATS server, for --hosts (NATS_URL)")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
) -> None:
    """Verify every file of the archive against its manifest or journal, and list what is missing, damaged or doubled.

    Ends with 0 when the archive is complete, with 2 when there are gaps or damage, or when nothing is archived yet.

    --repair-duplicates verifies nothing else. It finds bytes of a source that are in the archive twice, compares both
    copies, and shows the later one, which --yes removes; the manifest keeps a record. It ends with 2 while something is
    left to remove.
    """
    if directory and archive:
        raise UsageError("the archive is named twice", hint="give it as an argument or with --archive")
    # `--help` needs none of it, and it takes three times as long.
    with importing():
        from consumer.audit.app import AuditOptions, run  # noqa: PLC0415
        from shipper.config import load  # noqa: PLC0415

    options = AuditOptions(
        date=date,
        since=since,
        until=until,
        host=host,
        ask_hosts=ask_hosts,
        as_json=as_json,
        repair_duplicates=repair_duplicates,
        yes=yes,
        reason=reason,
    )
    flags = {"collector.directory": directory or archive, "collector.state": state, "nats.url": url}
    if code := run(options, load(flags, config=config)):
        raise typer.Exit(code)
