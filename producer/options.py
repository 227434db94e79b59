"""What one producer does, as a value."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from producer.discovery import scanner
from producer.discovery.safe_open import FOLLOWED_BY_OWNER, Links
from producer.discovery.scanner import Seen, Watched
from producer.model import Piece
from producer.transform.edits import NO_EDITS, Cut, Edits
from shipper.compression import Compressor
from shipper.retry import Patience
from shipper.subjects import log_subject


class WhenSilent(enum.Enum):
    """What a producer without a checkpoint does when no collector replies what the archive holds of its host."""

    BEGIN_ANEW = "begin anew"  #: ship all files as new sources; lines that the archive has are archived twice
    REFUSE = "refuse"  #: ship nothing, and end with an error


class Order(enum.Enum):
    """Which of the files that have unread bytes is read next."""

    FAIR = "fair"  #: one block of each in turn
    OLDEST = "oldest"  #: the one whose last change is the oldest, to its end; a write makes a file the newest


EDITED_WAITS = 10
"""So many `partial_after` a last line without its newline waits if lines are filtered or redacted."""
UNBOUNDED = 1 << 30
"""Open files: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Which files are tailed, and how. Durations are seconds."""

    watched: Watched
    cut: Cut
    start_at_end: bool = False  #: files that are there at the first scan begin at their end
    once: bool = False  #: ship to the end that the files have at the first scan, unterminated last lines too
    rotate_wait: float = 5.0  #: silence before a renamed or deleted file ends
    partial_after: float = 5.0  #: silence before a last line without its newline is shipped; 0: it waits for that
    ignore_older: float = 0.0  #: a file that is unchanged for longer when first seen begins at its end
    order: Order = Order.FAIR
    open_files: int = UNBOUNDED  #: most descriptors for files
    spools: Mapping[str, str] = field(default_factory=dict)  #: archive names of the files that inputs append to
    links: Links = FOLLOWED_BY_OWNER  #: which links are followed

    @property
    def line_wait(self) -> float:
        """Seconds of silence before a last line without its newline is shipped; infinite: it waits for that.

        Longer where patterns see lines: they must see a whole one if its writer only pauses.
        """
        if self.partial_after == 0:
            return math.inf
        return self.partial_after * (EDITED_WAITS if self.cut.edits_lines else 1)

    def ignores(self, mtime_ns: int, now: float) -> bool:
        """Whether a file that is not tracked is too old to be read; `now`: seconds since 1970."""
        return 0 < self.ignore_older < now - mtime_ns / 1e9

    def may_hold(self, name: str, seen: Seen) -> bool:
        """Whether a file may be read as a rotation of `name`."""
        excluded = self.watched.excludes(seen.path) and not scanner.is_rotated_name(seen.path)
        return not excluded and self.links.may_read_as(name, seen.path)

    def named(self, piece: Piece) -> Piece:
        """A piece under the name of its input, where one appends to its file. The encoder redacts names."""
        name = self.spools.get(piece.file)
        return piece._replace(file=name) if name else piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One host's files, and how they are shipped. Durations are seconds."""

    host: str
    partition: int
    prefix: str
    following: Following
    compressor: Compressor
    edits: Edits = NO_EDITS
    labels: tuple[tuple[str, str], ...] = ()  #: NAME and value, kept with everything that is shipped
    window_bytes: int
    poll: float
    watch: bool
    ack_timeout: float
    checkpoint_every: float
    drain_within: float
    patience: Patience
    partitions: int = 0  #: the setting SHIPPER_PARTITIONS; a partition map has precedence
    heartbeat: float = 0.0  #: between two heartbeats; 0: none
    reports_end: bool = False  #: with one heartbeat once everything is shipped, also where `heartbeat` is 0
    max_delay: float = 0.02  #: lines are collected for at most so long before they are read (`linger.py`)
    rate: int = 0  #: most bytes a second that are read from files; 0: as fast as it goes
    recover_wait: float = 0.0  #: seconds to wait for the collector when the checkpoint was lost
    when_silent: WhenSilent = WhenSilent.BEGIN_ANEW  #: what to do when it did not answer until then
    delete_archived: float | None = None  #: seconds after the archive has all of a file; None: nothing is deleted

    def archive_name(self, path: str) -> str:
        """The name of a local file in the archive."""
        return self.edits.of_name(self.following.spools.get(path, path))

    def is_redacted(self, path: str) -> bool:
        """Whether a local file has another name in the archive because its own holds a secret."""
        return self.archive_name(path) != self.following.spools.get(path, path)

    def local_names(self) -> dict[str, str]:
        """Local paths by their names in the archive: of inputs, and of files whose names hold a secret."""
        files = scanner.scan(self.following.watched).files if self.edits.redact else ()
        return {self.archive_name(path): path for path in (*self.following.spools, *(seen.path for seen in files))}

    @property
    def message_bytes(self) -> int:
        """The most bytes of a message's payload."""
        return self.edits.message_bytes if self.edits.change_text else self.following.cut.block_bytes

    @property
    def subject(self) -> str:
        """Where the host publishes."""
        return log_subject(self.prefix, self.partition, self.host)
