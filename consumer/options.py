"""What one worker is to do, as a value."""

import enum
from dataclasses import dataclass


class Until(enum.Enum):
    """When a worker's work is done."""

    STOPPED = "stopped"  #: somebody asks it to stop
    DRAINED = "drained"  #: the stream is read to its end
    SEALED = "sealed"  #: that, and every open file is a segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one worker does."""

    partition: int
    stream: str
    output: str
    until: Until
    batch_bytes: int
    segment_bytes: int
    idle_seal: float
    replay_window: float
    hole_patience: float
    hole_limit: float
    receipt_every: float
    archive: str = ""  #: identity of the archive, told to producers
    keep_sources: float = 0.0  #: seconds for which the journal remembers sources that ended; 0: for ever
