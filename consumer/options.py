"""The options of one partition's worker."""

import enum
from dataclasses import dataclass


class Until(enum.Enum):
    """When a worker ends."""

    STOPPED = "stopped"  #: a stop is requested
    DRAINED = "drained"  #: the stream is read to its end
    SEALED = "sealed"  #: the stream is read to its end, and every open file is sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOptions:
    """What one worker does. Sizes are in bytes, times in seconds."""

    partition: int
    stream: str  #: name of the stream on the server
    output: str  #: file name for messages without offsets
    until: Until
    batch_bytes: int
    segment_bytes: int
    idle_seal: float
    replay_window: float
    hole_patience: float
    hole_limit: float
    receipt_every: float
    archive: str = ""  #: identity of the archive, which receipts carry
    keep_sources: float = 0.0  #: how long the journal keeps sources that ended; 0: without limit
