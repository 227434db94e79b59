"""The options of `fshipper validate`."""

import enum
from dataclasses import dataclass
from typing import Annotated

import typer

from producer.command import CheckpointDirectory, Exclude, HostName, Partitions, Paths
from shipper.commands import AsJson, ConfigFile, NatsContext, Subject, Url


class Role(enum.StrEnum):
    """Whose settings are meant."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    REPORT = "report"
    BROWSE = "browse"
    WEB = "web"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """Check settings, files and state directory without changing anything; exit 78 where something is wrong."""

    paths: Paths = None
    connect: Annotated[
        bool, typer.Option("--connect", help="Also check the server, with the rights of the role; nothing is stored.")
    ] = False
    role: Annotated[Role, typer.Option(help="Check what a machine of this role needs.")] = Role.HOST
    as_json: AsJson = False
    url: Url = None
    nats_context: NatsContext = None
    host: HostName = None
    partitions: Partitions = None
    subject: Subject = None
    exclude: Exclude = None
    state: CheckpointDirectory = None
    config: ConfigFile = None
