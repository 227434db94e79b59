"""Open a partition that was claimed: lock its journal, find where to continue, and build its worker."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from consumer.archive import note_journal
from consumer.cluster.epochs import Takeover
from consumer.cluster.lease import Lease
from consumer.cluster.locks import ArchiveLocation
from consumer.cluster.membership import Claim
from consumer.commit.journal import Journal
from consumer.commit.other_partitions import ArchiveSources, OtherPartitions
from consumer.commit.store import PartitionStore, open_store
from consumer.model import Position
from consumer.pipeline import Worker
from shipper import events
from shipper.durable_files import Lock
from shipper.lifecycle import Stop
from shipper.watchdog import Pulse


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """The settings that the workers of a collector share."""

    place: ArchiveLocation
    open_files: Callable[[], int]  #: maximum number of open files of one partition
    sources: ArchiveSources
    make_worker: Callable[[PartitionStore, int, float, Stop, Pulse], Worker]
    """Builds the worker of a store and a partition, with the maximum of `hole_patience` in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A partition whose lease and locks this collector has."""

    partition: int
    footing: Takeover
    lease: Lease
    before: Claim | None  #: the claim that was in the bucket before this one


def open_worker(
    claimed: Claimed, parts: WorkerParts, stop: Stop, pulse: Pulse, opening: contextlib.ExitStack
) -> Worker:
    """The worker of a partition; `opening` closes what this opens. Called in a thread.

    Raises OSError, sqlite3.Error: the archive has trouble. ConfigError: the journal is locked, or of a newer version.
    """
    place, partition, epoch = parts.place, claimed.partition, claimed.footing.epoch
    path = place.journal(partition, epoch)
    opening.enter_context(Lock(path.with_suffix(".lock"), place.what(partition)))
    journal = Journal(path)
    opening.callback(journal.close)
    note_journal(place.directory, partition)
    hole_patience = math.inf
    if claimed.before is not None and claimed.before.archive != place.archive:
        _continue_other_archive(journal, claimed.before, partition)
        hole_patience = claimed.lease.every  # the producers have the receipts of the other archive
    layout = replace(place.layout, epoch=epoch)
    store = open_store(
        journal, layout, claimed.lease, OtherPartitions(partition, parts.sources), pulse, open_files=parts.open_files()
    )
    opening.callback(store.close)
    return parts.make_worker(store, partition, hole_patience, stop, pulse)


def _continue_other_archive(journal: Journal, before: Claim, partition: int) -> None:
    """Begin where the other archive ends."""
    at = journal.position
    if before.applied > at.applied:
        events.archived_elsewhere(
            partition=partition,
            directory=before.directory,
            collector=before.owner,
            host=before.host,
            first=at.applied + 1,
            last=before.applied,
        )
    if before.created and (before.applied > at.applied or before.created != at.created):
        journal.move_to(
            Position(
                applied=before.applied,
                applied_ns=before.applied_ns,
                resume=before.resume,
                plain_after_ns=max(at.plain_after_ns, before.plain_after_ns),
                created=before.created,
            )
        )
