"""Puts a tailer together."""

import time
from collections.abc import Callable

from producer.checkpoint.ack_tracker import AckTracker
from producer.checkpoint.store import Checkpoints
from producer.options import Following
from producer.tailer.atomic_replace import AtomicReplacement
from producer.tailer.descriptor_cache import DescriptorCache
from producer.tailer.ended_files import EndedFiles
from producer.tailer.file_table import FileTable
from producer.tailer.lost_file import ContentFinder
from producer.tailer.read_scheduler import ReadScheduler
from producer.tailer.resolver import Resolver
from producer.tailer.retained_files import RetainedFiles
from producer.tailer.rotation import BlankSources, MissedGenerations, Rotation
from producer.tailer.startup import Startup
from producer.tailer.tailer import Tailer


def new_tailer(
    following: Following,
    checkpoints: Checkpoints,
    retained: RetainedFiles | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Tailer:
    """The tailer of one host. `retained`: files that an earlier tailer of this process left open."""
    retained = RetainedFiles() if retained is None else retained
    table = FileTable(DescriptorCache(following.open_files, retained, following.links), retained)
    acks = AckTracker(checkpoints, wall, following.may_hold)
    finder = ContentFinder(following, table, acks.known, checkpoints.directory, clock)
    scheduler = ReadScheduler(following, table, acks.known, finder, clock)
    resolver = Resolver(following, table, scheduler, acks, finder, wall)
    missed = MissedGenerations(following, table, resolver, acks, finder)
    replacement = AtomicReplacement(table, resolver, acks, finder)
    blanks = BlankSources(acks)
    rotation = Rotation(following, table, resolver, acks, missed, replacement, blanks)
    startup = Startup(following, table, scheduler, resolver, acks, finder, blanks)
    ended_files = EndedFiles(following, table, scheduler, resolver, acks, clock)
    return Tailer(following, table, scheduler, resolver, rotation, startup, ended_files, clock=clock)
