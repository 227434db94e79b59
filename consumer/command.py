"""The options of `fshipper consume`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from shipper.commands import Archive, ConfigFile, Key, LogFormat, LogLevel, NatsContext, State, Subject, Url


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """Write the streams to the archive, one file per host and log file: exactly once and in order.

    You can start several collectors, on one or more machines: they share the partitions and take over from each other.
    """

    drain: Annotated[bool, typer.Option("--drain", help="Write everything that is in the streams, then end.")] = False
    seal: Annotated[bool, typer.Option("--seal", help="With --drain: seal what is open, so a report can run.")] = False
    directory: Archive = None
    read_partitions: Annotated[
        str | None,
        typer.Option("--partitions", help="Only these, as 0,2 or 0-3 (SHIPPER_READ_PARTITIONS)."),
        Key("collector.read_partitions"),
    ] = None
    output: Annotated[
        str | None,
        typer.Option(help="File of plain messages, or a template (SHIPPER_OUTPUT)."),
        Key("collector.output"),
    ] = None
    serve_partitions: Annotated[
        bool | None,
        typer.Option("--serve-partitions", help="Create streams when producers request them (small installations)."),
        Key("collector.serve_partitions"),
    ] = None
    url: Url = None
    nats_context: NatsContext = None
    subject: Subject = None
    name: Annotated[
        str | None,
        typer.Option(help="Name of this collector in manifests (SHIPPER_COLLECTOR)."),
        Key("collector.name"),
    ] = None
    state: State = None
    codec: Annotated[
        str | None,
        typer.Option(help="zstd, gzip or none for sealed segments (SHIPPER_CODEC)."),
        Key("collector.codec"),
    ] = None
    listen: Annotated[
        str | None,
        typer.Option(help="host:port of /metrics, /healthz, /readyz (SHIPPER_LISTEN)."),
        Key("collector.listen"),
    ] = None
    config: ConfigFile = None
    log_format: LogFormat = None
    log_level: LogLevel = None
