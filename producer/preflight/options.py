"""The options of `fshipper validate`."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shipper.commands import ConfigFile, Key, Subject, Url


class Role(enum.StrEnum):
    """Whose settings are meant."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    REPORT = "report"
    BROWSE = "browse"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """Check settings, files and state directory without changing anything; exit 78 where something is wrong."""

    paths: Annotated[
        list[str] | None, typer.Argument(help="Files and globs (SHIPPER_FILE).", metavar="PATH"), Key("producer.files")
    ] = None
    connect: Annotated[
        bool, typer.Option("--connect", help="Also check the server, with the rights of the role; nothing is stored.")
    ] = False
    role: Annotated[Role, typer.Option(help="Check what a machine of this role needs.")] = Role.HOST
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False
    url: Url = None
    host: Annotated[
        str | None,
        typer.Option(help="Name of this host (HOSTNAME)."),
        Key("producer.host"),
    ] = None
    partitions: Annotated[
        int | None, typer.Option(help="Number of partitions (SHIPPER_PARTITIONS)."), Key("logs.partitions")
    ] = None
    subject: Subject = None
    exclude: Annotated[
        list[str] | None, typer.Option(help="Globs of files not to ship (SHIPPER_EXCLUDE)."), Key("producer.exclude")
    ] = None
    state: Annotated[
        Path | None, typer.Option(help="Directory of the checkpoint (SHIPPER_STATE)."), Key("producer.state")
    ] = None
    config: ConfigFile = None
