"""When the work of a producer ends: after a stop request, within a time limit; with `once`, at the end of all files."""

import asyncio
from collections.abc import Awaitable

from producer.inputs.factory import Inputs
from producer.options import Task
from producer.session.delivery import Delivery
from shipper.errors import Fatal
from shipper.lifecycle import Stop

GRACE_SECONDS = 0.5
"""After the time limit: the work checks the limit too, and ends by itself if it can."""


class Drain:
    """Determines whether more is read, and whether the work is done. Owned by the pipeline."""

    def __init__(self, task: Task, stop: Stop, inputs: Inputs, delivery: Delivery) -> None:
        self._task = task
        self._stop = stop
        self._inputs = inputs
        self._delivery = delivery

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.asked

    @property
    def may_read(self) -> bool:
        """Whether more is read: until a stop is requested, and then what the inputs left in their spools."""
        return self._is_emptying or not self._stop.asked

    @property
    def is_done(self) -> bool:
        """Whether the work ends now."""
        delivery = self._delivery
        is_settled = not len(delivery.window)
        if self._stop.asked:
            return (is_settled and not self._is_emptying) or self._stop.asked_for > self._task.drain_within
        ends = self._task.following.once or self._inputs.end_the_program
        return ends and is_settled and delivery.tailer.idle and self._inputs.is_over(delivery.progress)

    @property
    def _is_emptying(self) -> bool:  # the inputs were stopped, and not all of their spools is acknowledged
        return self._inputs.stopping and not self._inputs.is_settled(self._delivery.progress)

    async def run(self, work: Awaitable[None]) -> None:
        """Wait for `work`; cancel it after the time limit of a stop, wherever it waits.

        Raises Fatal: with `once` some files could not be read, so not everything was shipped.
        """
        working = asyncio.ensure_future(work)
        deadline = asyncio.ensure_future(self._deadline())
        try:
            await asyncio.wait({working, deadline}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            deadline.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=2 * GRACE_SECONDS)  # bounded: nats-py may swallow a cancellation
        if working.done() and not working.cancelled():
            working.result()
        unread = self._delivery.tailer.unread if self._task.following.once and not self._stop.asked else []
        if unread:
            raise Fatal(f"not everything could be read: {', '.join(unread[:10])}", hint="see the errors above")

    async def _deadline(self) -> None:
        await self._stop.wait()
        await asyncio.sleep(max(0.0, self._task.drain_within + GRACE_SECONDS - self._stop.asked_for))
