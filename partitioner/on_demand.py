"""Streams on demand: a producer requests the stream of its partition; it is created from the template, within limits.

The command `fshipper partition serve` runs it, or a collector as a service of its own process.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partitioner.arguments import first_of
from partitioner.move.cluster_state import ClusterState, sizing_like
from partitioner.options import MAX_STREAMS
from partitioner.topology import Sizing, Template, shipped_template
from shipper import events
from shipper.control import StreamAnswer, StreamReply, StreamRequest, request_from_json
from shipper.errors import ShipperError
from shipper.jetstream.connection import connect
from shipper.jetstream.server_version import OLDEST
from shipper.lifecycle import Pulse, Stop, notify
from shipper.partition_map import PartitionMap
from shipper.rate_limit import RateLimit
from shipper.retry import Patience, SessionRetry
from shipper.settings import Settings
from shipper.subjects import control_up

START_SECONDS = 10.0
"""How long to wait for the first session; later ones are waited for without a limit."""
HOST_PER_SECOND, HOST_BURST = 0.2, 10.0
"""Requests of one host that are handled. A producer sends one for each session that found no stream, with back-off."""
TOTAL_PER_SECOND, TOTAL_BURST = 20.0, 200.0
"""Requests of all hosts together: for each, the server lists all streams."""
TURN_SECONDS = 10.0
"""Interval of signs of life without requests, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """Which streams may be created, and with which template and size."""

    max_streams: int  #: that there may be in all
    partitions: int  #: where there is no map: how many there are; 0: `max_streams` alone counts
    template: Template
    sizing: Sizing


def refusal(partition: int, known: PartitionMap | None, there: int, limits: StreamLimits) -> str:
    """Why no stream is created for a partition; empty: it is. `there`: number of existing streams. Pure."""
    if partition < 0:
        return "it is no partition"
    if known is not None and partition not in known.used:
        return f"version {known.version} of the map assigns no host to partition {partition}"
    if known is None and limits.partitions and partition >= limits.partitions:
        return f"there are {limits.partitions} partitions"
    if there >= limits.max_streams:
        return f"there are {there} streams, and no more are made (--max-streams)"
    return ""


class StreamProvisioner:
    """Handles requests for streams one after another, in one session."""

    def __init__(self, cluster: ClusterState, limits: StreamLimits) -> None:
        self._cluster = cluster
        self._limits = limits
        self._one_at_a_time = asyncio.Lock()
        self._of_hosts = RateLimit(per_second=HOST_PER_SECOND, burst=HOST_BURST)
        self._total = RateLimit(per_second=TOTAL_PER_SECOND, burst=TOTAL_BURST)

    async def answer(self, subject: str, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Handle the request of a host for the stream of its partition; None: no answer.

        There is none to another request, and to one above the limits of its host or of all hosts.
        """
        request = request_from_json(question)
        if not isinstance(request, StreamRequest):
            return None
        host, partition, limits = subject.removeprefix(control_up("")), request.partition, self._limits
        if not (self._of_hosts.allows(host) and self._total.allows("")):
            events.control_ignored(subject=subject[:200], reason="stream requests too often")
            return None
        async with self._one_at_a_time:
            try:
                streams, stored = await self._cluster.streams(), await self._cluster.map()
                if partition in streams and not self._cluster.is_closed(streams[partition]):
                    return StreamReply(StreamAnswer.THERE).to_json()
                reason = refusal(partition, stored.map, len(streams), limits)
                if not reason:
                    sizing = sizing_like(streams, limits.sizing)
                    await self._cluster.open_streams([partition], limits.template, sizing)
            except ShipperError as error:
                reason = str(error)
            if reason:
                events.stream_refused(partition=partition, host=host, reason=reason)
                return StreamReply(StreamAnswer.REFUSED, reason).to_json()
            events.stream_served(partition=partition, host=host)
            return StreamReply(StreamAnswer.CREATED).to_json()


async def serve(
    settings: Settings,
    limits: StreamLimits,
    stop: Stop,
    pulse: Pulse | None = None,
    *,
    start_seconds: float = START_SECONDS,
) -> None:
    """Serve in one session after another until `stop`. Errors end it only before the first session.

    Raises Unavailable: no server answers for `start_seconds`. InsecureConnection, Fatal: the server cannot be used.
    """
    pulse = pulse or Pulse("the requests")
    patience = Patience(at_start=start_seconds, later=math.inf)
    retry = SessionRetry("partitioner", patience, nap=stop.nap)
    while not stop.requested:
        pulse.turn(rest=settings.nats.connect_timeout)
        async with retry.attempt():
            await _one_session(settings, limits, stop, pulse, patience)


async def _one_session(settings: Settings, limits: StreamLimits, stop: Stop, pulse: Pulse, patience: Patience) -> None:
    async with await connect(
        settings.nats, name="fshipper partition serve", inbox="_INBOX_partitioner", oldest=OLDEST
    ) as connection:
        lost = asyncio.Event()
        connection.on_lost(lost.set)
        serving = StreamProvisioner(ClusterState(connection, settings.logs.subject), limits)
        await connection.listen(control_up(">"), serving.answer)
        events.session_begun(program="partitioner", subject=control_up(">"))
        patience.served()
        notify("READY=1")
        while connection.open and not stop.requested:
            pulse.turn(rest=TURN_SECONDS)
            await first_of(lost.wait(), stop.wait(), asyncio.sleep(TURN_SECONDS))


async def beside_a_collector(settings: Settings, stop: Stop) -> None:
    """Serve inside another program with its settings; that program finds it by its entry point, without an import."""
    limits = StreamLimits(
        max_streams=MAX_STREAMS, partitions=settings.logs.partitions, template=shipped_template(), sizing=Sizing()
    )
    await serve(settings, limits, stop, start_seconds=math.inf)  # the collector is not to run without it
