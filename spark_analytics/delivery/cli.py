"""`fshipper report send`: the command line of delivery. It needs no Spark and no Java."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shipper.errors import EXIT_OTHER, ConfigError, UsageError
from spark_analytics.storage import locations

_DAYS = "[0-9]*-[0-9]*-[0-9]*/report.json"


class Condition(StrEnum):
    """When a report is sent."""

    CHANGED = "changed"
    ATTENTION = "attention"
    ALWAYS = "always"


def send(
    out: Annotated[str, typer.Option(envvar="SHIPPER_REPORT", help="Directory of the reports.")] = "report",
    date: Annotated[
        str, typer.Option(help="Day (UTC) to send: YYYY-MM-DD; by default the last ones.", show_default=False)
    ] = "",
    days: Annotated[int, typer.Option(min=1, max=366, help="Number of last reported days to send.")] = 1,
    settings: Annotated[
        Path, typer.Option("--settings", envvar="SHIPPER_SEND", help="TOML file with the targets.")
    ] = Path("/etc/fshipper/send.toml"),
    when: Annotated[
        Condition | None, typer.Option(help="Instead of the condition in the settings.", show_default=False)
    ] = None,
    resend: Annotated[
        bool, typer.Option("--resend", help="Send what is in doubt again, with the same identifier.")
    ] = False,
) -> None:
    """Send the report of a day by mail, webhook or Apprise to the targets in the settings; each report once."""
    if locations.is_remote(out):
        raise UsageError(f"{out} is not a local directory", hint="copy the reports, and name the copy with --out")
    from spark_analytics.delivery import ledger, targets  # noqa: PLC0415
    from spark_analytics.delivery import send as delivery  # noqa: PLC0415 - pydantic takes a moment

    known = targets.read(settings)
    directory = locations.local_path(out)
    found = sorted(directory.glob(_DAYS))
    chosen = [path for path in found if path.parent.name == date] if date else found[-days:]
    if not chosen:
        raise ConfigError(
            f"there is no report{f' of {date}' if date else ''} in {out}", hint="`fshipper report` makes it"
        )
    if not known.target:
        typer.echo(f"{settings} has no target: nothing to send", err=True)
        return
    trouble = False
    records = directory / ledger.NAME
    for one in delivery.send(chosen, known, records, when=when.value if when else None, resend=resend):
        is_bad = one.outcome in delivery.TROUBLE
        trouble = trouble or is_bad
        typer.echo(f"{one.date} {one.target}: {one.outcome}{f': {one.why}' if one.why else ''}", err=is_bad)
    if trouble:
        raise typer.Exit(EXIT_OTHER)
