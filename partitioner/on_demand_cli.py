"""`fshipper partition serve`: create streams when producers request them, until a signal."""

import asyncio
from typing import Annotated

import typer

from partitioner.cli_options import Config, NewMaxBytes, NewReplicas, Subject, TemplateFile, Url, settings_of, size_of
from partitioner.on_demand import MAX_STREAMS, StreamLimits, serve
from partitioner.template import read, shipped
from partitioner.topology import Sizing
from shipper.config import load
from shipper.lifecycle import Stop, stop_on_signals
from shipper.partition_map import MAX_PARTITIONS
from shipper.settings import Settings
from shipper.telemetry import set_up_logging
from shipper.watchdog import Pulse, supervised


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command(name="serve")(serve_streams)


def serve_streams(
    *,
    max_streams: Annotated[
        int, typer.Option(min=1, max=MAX_PARTITIONS, help="Make no more streams than these in all.")
    ] = MAX_STREAMS,
    partitions: Annotated[
        int | None, typer.Option(help="How many partitions there are, while there is no map (SHIPPER_PARTITIONS).")
    ] = None,
    template: TemplateFile = None,
    replicas: NewReplicas = None,
    max_bytes: NewMaxBytes = None,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
    log_format: Annotated[str | None, typer.Option(help="text or json")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Create streams from the template when producers request them: producers have no right to create any."""
    settings = settings_of(url, config, subject, partitions)
    log = load({"log.format": log_format, "log.level": log_level}, config=config).log
    set_up_logging(style=log.format, level=log.level)
    limits = StreamLimits(
        max_streams=max_streams,
        partitions=settings.logs.partitions,
        template=read(template) if template else shipped(),
        sizing=Sizing(replicas=replicas, max_bytes=size_of(max_bytes, "--max-bytes")),
    )
    asyncio.run(_until_stopped(settings, limits))


async def _until_stopped(settings: Settings, limits: StreamLimits) -> None:
    stop = Stop()
    pulse = Pulse("the requests")
    stop_on_signals(stop)
    async with supervised(lambda: [pulse], lambda: f"makes streams of {settings.logs.subject} on demand"):
        await serve(settings, limits, stop, pulse)
