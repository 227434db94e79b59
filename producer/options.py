"""What one producer does, as a value."""

import enum
from dataclasses import dataclass

from producer.tailer.read_scheduler import Following
from producer.transform.edits import NO_EDITS, Edits
from shipper.compression import Compressor
from shipper.retry import Patience
from shipper.subjects import log_subject


class WhenSilent(enum.Enum):
    """What a producer without a checkpoint does when no collector says what the archive holds of its host."""

    BEGIN_ANEW = "begin anew"  #: ship all files as new sources; what the archive has of them comes twice
    REFUSE = "refuse"  #: ship nothing, and end with an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One host's files, and how they are shipped. Durations are seconds."""

    host: str
    partition: int
    prefix: str
    following: Following
    compressor: Compressor
    edits: Edits = NO_EDITS
    window_bytes: int
    poll: float
    watch: bool
    ack_timeout: float
    checkpoint_every: float
    drain_within: float
    patience: Patience
    partitions: int = 0  #: what SHIPPER_PARTITIONS says; a partition map has precedence
    heartbeat: float = 0.0  #: between two heartbeats; 0: none
    rate: int = 0  #: most bytes a second that are read from files; 0: as fast as it goes
    recover_wait: float = 0.0  #: seconds to wait for the collector when the checkpoint was lost
    when_silent: WhenSilent = WhenSilent.BEGIN_ANEW  #: what to do when it did not answer until then
    delete_archived: float | None = None  #: seconds after the archive has all of a file; None: nothing is deleted

    @property
    def message_bytes(self) -> int:
        """The most bytes of a message's payload."""
        return self.edits.message_bytes if self.edits.change_text else self.following.cut.block_bytes

    @property
    def subject(self) -> str:
        """Where the host publishes."""
        return log_subject(self.prefix, self.partition, self.host)
