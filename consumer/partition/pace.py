"""The pace that a collector requests of its hosts: they collect lines for longer while there are many small blocks.

A block costs the collector and the server about the same, however few lines it has. With a limit on their number, the
cost of a fleet grows with its bytes. The hosts comply up to their own `producer.max_delay`.
"""

import time
from collections.abc import Callable, Sequence

from shipper import events
from shipper.control import MAX_PACE_SECONDS, USUAL_DELAY_SECONDS
from shipper.model import Delivery

BLOCKS_A_SECOND = 2000.0
"""Small blocks of all partitions of a collector, from which on it requests longer delays: a fifth of a core."""
SMALL_BYTES = 16 * 1024
"""Average payload of a block from which on fewer and larger ones save little."""
ROUND_SECONDS = 10.0
"""Minimum time between two decisions. Receipts bring a decision to a host within seconds."""
STEP = 2.0
"""Maximum factor between two paces: a decision shows its effect before the next one."""


class RequestedPace:
    """The requested pace of one collector, shared by its workers. Owned by the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = 0.0  #: how long hosts collect lines at least; 0: as long as they like
        self._clock = clock
        self._newest: dict[int, int] = {}  # by partition: the newest message of its stream
        self._begin()

    def _begin(self) -> None:
        self._began_at = self._clock()
        self._arrived = self._messages = self._blocks = self._block_bytes = 0

    def received(self, partition: int, batch: Sequence[Delivery]) -> None:
        """Note a batch. A backlog is no reason for a longer delay, so what arrives in the stream counts."""
        newest = batch[-1].sequence + batch[-1].pending
        self._arrived += max(0, newest - self._newest.get(partition, newest))
        self._newest[partition] = newest
        for delivery in batch:
            self._messages += delivery.messages
            if delivery.run is None:  # the messages of a line each do not become fewer
                self._blocks += 1
                self._block_bytes += len(delivery.payload)
        if self._clock() >= self._began_at + ROUND_SECONDS:
            self._decide()
            self._begin()

    def _decide(self) -> None:
        elapsed = self._clock() - self._began_at
        blocks_a_second = self._arrived / elapsed * self._blocks / self._messages
        before = max(self.seconds, USUAL_DELAY_SECONDS)
        wanted = before * blocks_a_second / BLOCKS_A_SECOND if self._block_bytes < SMALL_BYTES * self._blocks else 0.0
        chosen = min(max(wanted, before / STEP), before * STEP, MAX_PACE_SECONDS)
        self.seconds = round(chosen, 3) if chosen > USUAL_DELAY_SECONDS else 0.0
        events.pace_chosen(seconds=self.seconds)
