"""What one producer does, as a value."""

from dataclasses import dataclass

from producer.reading import Following
from shipper.compression import Compressor
from shipper.retry import Patience
from shipper.subjects import log_subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One host's files, and how they are shipped. Durations are seconds."""

    host: str
    partition: int
    prefix: str
    following: Following
    compressor: Compressor
    window_bytes: int
    poll: float
    watch: bool
    ack_timeout: float
    checkpoint_every: float
    drain_within: float
    patience: Patience

    @property
    def subject(self) -> str:
        """Where the host publishes."""
        return log_subject(self.prefix, self.partition, self.host)
