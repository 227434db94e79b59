"""When the checkpoint is due to be written, and what happens when it cannot be."""

import asyncio
import time

from producer.checkpoints import CHECKPOINT_ERRORS, Checkpoints
from producer.following.ledger import Ledger
from producer.following.source import Source
from shipper import events

FIRST_SAVE_SECONDS = 0.01
"""A young process remembers at once what it shipped, and less often as it grows older: one that is killed again and
again must come forward."""


class Saving:
    """Makes durable what a ledger has that the checkpoint lacks. Owned by the pipeline."""

    def __init__(self, checkpoints: Checkpoints, every_seconds: float) -> None:
        self._checkpoints = checkpoints
        self._every = every_seconds
        self._gap = FIRST_SAVE_SECONDS
        self.next_at = 0.0  #: monotonic time before which nothing is saved, except on demand

    async def save_if_due(self, ledger: Ledger) -> None:
        """Save what changed, if it is time."""
        if ledger.has_unsaved and time.monotonic() >= self.next_at:
            self.next_at = time.monotonic() + min(self._gap, self._every)
            self._gap *= 2
            await self.save(ledger)

    async def save(self, ledger: Ledger) -> None:
        """Save what changed, in another thread."""
        await asyncio.to_thread(self._write, ledger, ledger.unsaved())

    def save_last(self, ledger: Ledger) -> None:
        """Save what changed, at the end of the work."""
        self._write(ledger, ledger.unsaved())

    def _write(self, ledger: Ledger, changed: list[Source]) -> None:
        """Where that fails it is due again."""
        try:
            self._checkpoints.save(changed)
        except CHECKPOINT_ERRORS as error:
            ledger.unsave(changed)
            events.checkpoint_failed(error=str(error))
