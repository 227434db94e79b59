"""A batch that is decided, and written but not yet synced or committed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from consumer.archive.journal import Journal
from consumer.commit.host_budgets import HostBudgets
from consumer.commit.other_partitions import FoundSource
from consumer.model import ArchivedSource, Changes, Position, SourceKey
from shipper.layout import FileKey, day_of
from shipper.model import Delivery, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A range that is missing before blocks of the stream."""

    source: SourceKey
    file: str
    sequence: int  #: of the first block after the hole
    missing: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that is itself invalid: no retry can apply it."""

    delivery: Delivery
    host: str
    reason: str
    is_whole: bool = True  #: all of it is kept; else only the beginning, because its host has many


@dataclass(slots=True, kw_only=True)
class StagedBatch:
    """What a batch changes, and what to report after its commit."""

    changes: Changes
    budgets: HostBudgets
    keeps_up: bool  #: so few messages are pending after the batch that the collector keeps up with the stream
    holes: dict[SourceKey, Hole] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    written_bytes: int = 0
    lines: int = 0  #: newlines in the new text
    text_bytes: int = 0
    files: set[tuple[str, str]] = field(default_factory=set)  #: host and log file of the new text
    forked: list[tuple[ArchivedSource, ArchivedSource]] = field(
        default_factory=list
    )  #: sources, with a fork that began
    rewritten: list[ArchivedSource] = field(default_factory=list)  #: as they were before the block that shows it
    archived_before: list[FoundSource] = field(default_factory=list)  #: new here, and another partition has a part
    overflowed: Counter[str] = field(default_factory=Counter)  #: messages by host that has too many files
    bad_counts: Counter[str] = field(default_factory=Counter)  #: blocks by host whose counts of redactions are none

    def count(self, key: FileKey, *, lines: int, octets: int) -> None:
        """Count new text of a log file."""
        self.lines += lines
        self.text_bytes += octets
        self.files.add((key.host, key.file))
        self.budgets.add_text(key.date, key.host, octets)

    def add_dead_letter(self, delivery: Delivery, host: str, reason: str) -> None:
        """Keep an invalid message with the reason, as far as the budget of its host allows."""
        host = host or "unknown"
        octets = len(delivery.payload) + sum(len(name) + len(value) for name, value in delivery.headers.items())
        is_kept, is_whole = self.budgets.keep_letter(day_of(delivery.time_ns), host, octets)
        if is_kept:
            self.dead_letters.append(DeadLetter(delivery=delivery, host=host, reason=reason, is_whole=is_whole))

    def open_hole(self, delivery: Delivery, known: ArchivedSource, missing: Span) -> None:
        """Note that `missing` bytes precede a block. Raises Poison: its host has too many holes."""
        if known.key not in self.holes:
            self.budgets.admit_hole(day_of(delivery.time_ns), known.host, missing.length)
            self.holes[known.key] = Hole(source=known.key, file=known.file, sequence=delivery.sequence, missing=missing)

    def close_hole(self, source: SourceKey, end: int) -> None:
        """Bytes of `source` before the offset `end` arrived: its hole is closed if it ends there or before."""
        if self.holes and (hole := self.holes.get(source)) is not None and end >= hole.missing.end:
            self._remove_hole(hole)

    def close_holes_of(self, host: str) -> None:
        """No block of `host` is expected in this partition any more."""
        for hole in [hole for source, hole in self.holes.items() if source.host == host]:
            self._remove_hole(hole)

    def _remove_hole(self, hole: Hole) -> None:
        del self.holes[hole.source]
        self.budgets.fill_hole(hole.source.host, hole.missing.length)


def begin_batch(
    journal: Journal, holes: Mapping[SourceKey, Hole], *, keeps_up: bool, text_bytes: int = 0
) -> StagedBatch:
    """A batch of which nothing is staged yet; `holes` are open before it. `text_bytes`: budget of a host; 0: none."""
    changes = Changes(position=journal.position)
    missing = ((source.host, hole.missing.length) for source, hole in holes.items())
    budgets = HostBudgets(journal.files, missing, journal.spent, text_bytes=text_bytes)
    return StagedBatch(changes=changes, budgets=budgets, keeps_up=keeps_up, holes=dict(holes))


def position_after(at: Position, last: Delivery, holes: Mapping[SourceKey, Hole]) -> Position:
    """The position in the stream after a batch that ends with `last`.

    `last` is before `at` where the stream is read again for a hole. A restart reads again from the first of `holes`.
    """
    applied = max(at.applied, last.sequence)
    first_hole = min((hole.sequence for hole in holes.values()), default=applied + 1)
    return replace(
        at,
        applied=applied,
        applied_ns=at.applied_ns if last.sequence < at.applied else last.time_ns,
        resume=min(first_hole, last.sequence + 1),
    )


@dataclass(slots=True)
class RunTotals:
    """What a run with an end made durable: the numbers of its summary line."""

    files: set[tuple[str, str]] = field(default_factory=set)  #: host and log file
    lines: int = 0
    bytes: int = 0

    def add(self, more: "StagedBatch | RunTotals") -> None:
        """Add a committed batch, or the totals of another worker."""
        self.files |= more.files
        self.lines += more.lines
        self.bytes += more.text_bytes if isinstance(more, StagedBatch) else more.bytes
