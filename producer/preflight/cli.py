"""`fshipper validate`: its options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from producer.preflight.options import Role
from shipper.errors import UsageError
from shipper.interrupts import importing

if TYPE_CHECKING:
    from shipper.config import Layer


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def validate(
    paths: Annotated[list[str] | None, typer.Argument(help="Files and globs (SHIPPER_FILE)", metavar="PATH")] = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also check the server, with the rights of the role; nothing is stored")
    ] = False,
    role: Annotated[Role, typer.Option(help="Check what a machine of this role needs")] = Role.HOST,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts")] = False,
    url: Annotated[str | None, typer.Option(help="NATS server, or several with commas (NATS_URL)")] = None,
    host: Annotated[str | None, typer.Option(help="Name of this host (HOSTNAME)")] = None,
    partitions: Annotated[int | None, typer.Option(help="Number of partitions (SHIPPER_PARTITIONS)")] = None,
    subject: Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT)")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Globs of files not to ship (SHIPPER_EXCLUDE)")] = None,
    state: Annotated[Path | None, typer.Option(help="Directory of the checkpoint (SHIPPER_STATE)")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
) -> None:
    """Check settings, files and state directory without changing anything; exit 78 where something is wrong."""
    if connect and role not in {Role.HOST, Role.COLLECTOR}:
        raise UsageError(f"--connect is for hosts and collectors, and the role is {role}", hint="leave out --connect")
    flags: Layer = {
        "producer.files": tuple(paths) if paths else None,
        "producer.host": host,
        "producer.exclude": tuple(exclude) if exclude else None,
        "producer.state": state,
        "logs.partitions": partitions,
        "logs.subject": subject,
        "nats.url": url,
    }
    with importing():
        from producer.preflight.validate import run  # noqa: PLC0415 - `--help` needs none of it, and it takes long

    raise typer.Exit(run(flags, config, role=role, connect=connect, as_json=as_json))
