"""Builds the worker of a partition from its parts."""

import time
from collections.abc import Callable

from consumer.commit.applier import Applier
from consumer.commit.frame_cache import FrameCache
from consumer.commit.store import PartitionStore
from consumer.options import PartitionOptions
from consumer.partition.maintenance import ControlRequests, Maintenance, partition_tasks
from consumer.partition.missing_ranges import MissingRanges
from consumer.partition.purge import StreamPurge
from consumer.partition.receipts import ReceiptSender
from consumer.partition.sealing import SealScheduler
from consumer.partition.sessions import SessionLoop
from consumer.partition.stream import StreamView
from consumer.pipeline import Worker
from consumer.segments.sealer import Sealer


def make_worker(
    options: PartitionOptions, store: PartitionStore, sealer: Sealer, sessions: SessionLoop,
    wall: Callable[[], float] = time.time,
) -> Worker:  # fmt: skip
    """A worker that writes `store` in `sessions`. `wall` is the time in seconds since 1970."""
    stream, frames = StreamView(wall), FrameCache(sealer.codec)
    missing = MissingRanges(options, store, stream)
    sealing = SealScheduler(options, store, sealer, frames, stream, sessions.stop)
    receipts = ReceiptSender(options, store)
    purge = StreamPurge(options, store, stream)
    maintenance = Maintenance(
        list(partition_tasks(options, store, missing, sealing, receipts, purge)),
        sealing,
        receipts,
        purge,
        ControlRequests(options, receipts, sealing),
        stream,
    )
    return Worker(options, store, Applier(options, store, frames), missing, maintenance, sessions)
