"""Streams on demand: who meets a partition without one asks, and gets it from the template, within limits.

`fshipper partition serve`, and the same as a service inside a collector.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from partitioner.cli_options import Config, Subject, Url, settings_of, size_of
from partitioner.move.cluster_state import Land, sizing_like
from partitioner.template import Template, read, shipped
from partitioner.topology import Sizing
from shipper import events
from shipper.config import load
from shipper.control import StreamAnswer, StreamReply, StreamRequest, request_from_json
from shipper.errors import ShipperError
from shipper.jetstream.connection import connect
from shipper.lifecycle import Stop, notify, stop_on_signals
from shipper.partition_map import MAX_PARTITIONS, PartitionMap
from shipper.retry import Patience
from shipper.session_retry import SessionRetry
from shipper.settings import Settings
from shipper.subjects import control_up
from shipper.telemetry import set_up_logging
from shipper.watchdog import Pulse, supervised

START_SECONDS = 10.0
"""How long to wait for the first session; later ones are waited for without a limit."""
TURN_SECONDS = 10.0
"""Between two signs of life while nobody asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Which streams are made, and like what."""

    max_streams: int  #: that there may be in all
    partitions: int  #: where there is no map: how many there are; 0: `max_streams` alone counts
    template: Template
    sizing: Sizing


def refusal(partition: int, known: PartitionMap | None, there: int, limits: Limits) -> str:
    """Why a partition gets no stream; empty: it does. `there`: how many have one. Pure."""
    if partition < 0:
        return "it is no partition"
    if known is not None and partition not in known.used:
        return f"version {known.version} of the map sends nobody to partition {partition}"
    if known is None and limits.partitions and partition >= limits.partitions:
        return f"there are {limits.partitions} partitions"
    if there >= limits.max_streams:
        return f"there are {there} streams, and no more are made (--max-streams)"
    return ""


class Serving:
    """Answers one question after the other, in one session."""

    def __init__(self, land: Land, limits: Limits) -> None:
        self._land = land
        self._limits = limits
        self._one_at_a_time = asyncio.Lock()

    async def heard(self, subject: str, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Handle the request of a host for the stream of its partition; None: the message is another request."""
        request = request_from_json(question)
        if not isinstance(request, StreamRequest):
            return None
        async with self._one_at_a_time:
            host = subject.removeprefix(control_up(""))
            try:
                reply = await self._reply(host, request.partition)
            except ShipperError as error:
                reply = _refused(request.partition, host, str(error))
            return reply.to_json()

    async def _reply(self, host: str, partition: int) -> StreamReply:
        streams, stored = await self._land.streams(), await self._land.map()
        if partition in streams and not self._land.is_closed(streams[partition]):
            return StreamReply(StreamAnswer.THERE)
        if reason := refusal(partition, stored.map, len(streams), self._limits):
            return _refused(partition, host, reason)
        limits = self._limits
        await self._land.open_streams([partition], limits.template, sizing_like(streams, limits.sizing))
        events.stream_served(partition=partition, host=host)
        return StreamReply(StreamAnswer.CREATED)


def _refused(partition: int, host: str, reason: str) -> StreamReply:
    events.stream_refused(partition=partition, host=host, reason=reason)
    return StreamReply(StreamAnswer.REFUSED, reason)


async def serve(
    settings: Settings, limits: Limits, stop: Stop, pulse: Pulse | None = None, *, start_seconds: float = START_SECONDS
) -> None:
    """Serve in one session after the other until `stop`. Only before the first session works, trouble ends it.

    Raises:
        Unavailable: no server answers for `start_seconds`. InsecureConnection, Fatal: the server cannot be used.
    """
    pulse = pulse or Pulse("the questions")
    patience = Patience(at_start=start_seconds, later=math.inf)
    retry = SessionRetry("partitioner", patience, nap=stop.nap)
    while not stop.asked:
        pulse.turn(rest=settings.nats.connect_timeout)
        async with retry.attempt():
            await _one_session(settings, limits, stop, pulse, patience)


async def _one_session(settings: Settings, limits: Limits, stop: Stop, pulse: Pulse, patience: Patience) -> None:
    connection = await connect(settings.nats, name="fshipper partition serve", inbox="_INBOX_partitioner")
    try:
        lost = asyncio.Event()
        connection.on_lost(lost.set)
        serving = Serving(Land(connection, settings.logs.subject), limits)
        await connection.listen(control_up(">"), serving.heard)
        events.session_begun(program="partitioner", subject=control_up(">"))
        patience.served()
        notify("READY=1")
        while connection.open and not stop.asked:
            pulse.turn(rest=TURN_SECONDS)
            await _first_of(lost.wait(), stop.wait(), asyncio.sleep(TURN_SECONDS))
    finally:
        await connection.close()


async def _first_of(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


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
