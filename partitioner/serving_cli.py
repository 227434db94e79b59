"""`fshipper partition serve`, and the same as a service inside a collector."""

import asyncio
import math
from pathlib import Path
from typing import Annotated

import typer

from partitioner.options import Config, Subject, Url, settings_of, size_of
from partitioner.serving import Limits, serve
from partitioner.template import read, shipped
from partitioner.topology import Sizing
from shipper.config import load
from shipper.lifecycle import Stop, stop_on_signals
from shipper.partitioning import MAX_PARTITIONS
from shipper.settings import Settings
from shipper.supervision import Pulse, supervised
from shipper.telemetry import set_up_logging

MAX_STREAMS = 64


def register(app: typer.Typer) -> None:
    """Put the verb among the others."""
    app.command(name="serve")(serve_streams)


def serve_streams(
    *,
    max_streams: Annotated[
        int, typer.Option(min=1, max=MAX_PARTITIONS, help="Make no more streams than these in all.")
    ] = MAX_STREAMS,
    partitions: Annotated[
        int | None, typer.Option(help="How many partitions there are, while there is no map (SHIPPER_PARTITIONS).")
    ] = None,
    template: Annotated[Path | None, typer.Option("--template", help="Template of the streams (JSON).")] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=5, help="Copies of each new stream; as the others have.")
    ] = None,
    max_bytes: Annotated[
        str | None, typer.Option(help="Room of each new partition, for example 50GB; as the others have.")
    ] = None,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
    log_format: Annotated[str | None, typer.Option(help="text or json")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Make streams from the template when producers ask for them: they have no right to make any."""
    settings = settings_of(url, config, subject, partitions)
    log = load({"log.format": log_format, "log.level": log_level}, config=config).log
    set_up_logging(style=log.format, level=log.level)
    limits = Limits(
        max_streams=max_streams,
        partitions=settings.logs.partitions,
        template=read(template) if template else shipped(),
        sizing=Sizing(replicas=replicas, max_bytes=size_of(max_bytes, "--max-bytes")),
    )
    asyncio.run(_until_stopped(settings, limits))


async def _until_stopped(settings: Settings, limits: Limits) -> None:
    stop = Stop()
    pulse = Pulse("the questions")
    stop_on_signals(stop)
    async with supervised(lambda: [pulse], lambda: f"makes streams of {settings.logs.subject} on demand"):
        await serve(settings, limits, stop, pulse)


async def beside_a_collector(settings: Settings, stop: Stop) -> None:
    """The same inside another program, by its settings; found by its entry point, so that nobody imports it."""
    limits = Limits(max_streams=MAX_STREAMS, partitions=settings.logs.partitions, template=shipped(), sizing=Sizing())
    await serve(settings, limits, stop, start_seconds=math.inf)  # the collector is not to run without it
