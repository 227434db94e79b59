"""One pipeline after the other, in one process: the first, and one more after each SIGHUP."""

import contextlib
from dataclasses import replace
from typing import Any

from producer.checkpoints import Checkpoints
from producer.following.heirs import Heirs
from producer.following.held import Bounds, Held
from producer.inputs.lifetime import Inputs
from producer.namesake import Namesake
from producer.pipeline import Pipeline
from producer.reload import Reloading
from producer.shipped import Shipped
from shipper import events
from shipper.errors import Fatal
from shipper.jetstream.publisher import JetStreamPublisher
from shipper.lifecycle import Stop
from shipper.subjects import stream_name
from shipper.supervision import Pulse
from shipper.telemetry import serving
from shipper.units import counted, format_bytes


class Turns:
    """The pipelines of one producer: each works under one plan, over the same checkpoint and behind the same lock."""

    def __init__(self, reloading: Reloading, checkpoints: Checkpoints, inputs: Inputs, namesake: Namesake) -> None:
        self._namesake = namesake
        self._inputs = inputs
        self._reloading = reloading
        self._checkpoints = checkpoints
        self._endpoints = contextlib.ExitStack()
        self._served: tuple[str, tuple[str, ...]] = ("", ())  # where, and by which names
        self._heirs = Heirs()
        self._held = Held()
        self._pipeline = self._next(reloading.begin())

    async def run(self) -> None:
        """Ship until stopped, or with `once` to the ends of the files. Raises Fatal, and Unavailable with `once`."""
        with self._endpoints, contextlib.closing(self._held):
            while True:
                self._serve()
                try:
                    await self._pipeline.run()
                except Fatal as error:
                    if not self._reloading.falls_back(error):
                        raise
                else:
                    if not self._reloading.goes_on():
                        return
                self._pipeline = self._next(self._reloading.begin())

    def _next(self, turn: Stop) -> Pipeline:
        plan = self._reloading.plan
        chosen, open_files = plan.settings.producer, plan.task.following.open_files
        self._held.bounds = Bounds(chosen.hold, chosen.hold_for, open_files)
        following = replace(plan.task.following, heirs=self._heirs, held=self._held)
        task = replace(plan.task, following=following)

        async def begin(partition: int) -> JetStreamPublisher:
            publisher = await JetStreamPublisher.begin(
                plan.settings.nats,
                stream=stream_name(plan.task.prefix, partition),
                host=plan.task.host,
                block_bytes=plan.task.message_bytes,
            )
            self._reloading.served()
            return publisher

        return Pipeline(task, self._checkpoints, begin, turn, self._inputs, self._namesake)

    def _serve(self) -> None:
        """Serve the end points where the plan says; where that did not change they never go away."""
        plan = self._reloading.plan
        chosen = plan.settings.producer
        listen = "" if plan.task.following.once else chosen.listen
        names = (*chosen.allowed_hosts, plan.task.host)
        if (listen, names) != self._served:
            self._endpoints.close()
            served = serving(
                listen,
                ready=self._ready,
                status=self._status,
                allowed_hosts=names,
                hidden_metrics=events.COLLECTOR_METRICS,
            )
            self._endpoints.enter_context(served)
            self._served = (listen, names)

    @property
    def shipped(self) -> Shipped:
        """What the pipeline that runs, or ran last, shipped."""
        return self._pipeline.shipped

    def pulses(self) -> list[Pulse]:
        """Of what has to go on."""
        return [self._pipeline.pulse]

    def sentence(self) -> str:
        """What the producer does now, in a line for people."""
        if trouble := self._ready():
            return f"waiting: {trouble}"
        now = self._status()
        backlog, in_flight = format_bytes(now["backlog_bytes"]), format_bytes(now["in_flight_bytes"])
        return f"shipping as {now['host']}: {counted(now['sources'], 'file')}, {backlog} to send, {in_flight} in flight"

    def _ready(self) -> str:
        return self._pipeline.ready()

    def _status(self) -> dict[str, Any]:
        return self._pipeline.status()
