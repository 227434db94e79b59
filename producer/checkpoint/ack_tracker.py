"""Tracks how far each source is acknowledged and archived, and saves what changed to the checkpoint when it is due."""

import asyncio
import math
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from producer.checkpoint.store import CHECKPOINT_ERRORS, TOMBSTONE_SECONDS, Checkpoints
from producer.discovery.scanner import LinkTargets, Seen
from producer.fingerprint import Mark
from producer.model import SETTLED, KnownCopy, Piece, Place, Point, Source
from shipper import events
from shipper.control import Receipt, ReceiptsReply

_Row = TypeVar("_Row")


class AckTracker:
    """Every source of this host by its id, with its acknowledged offset. Owned by `FileTable`."""

    def __init__(
        self, checkpoints: Checkpoints, wall: Callable[[], float], may_hold: Callable[[str, Seen], bool]
    ) -> None:
        self._checkpoints = checkpoints
        self._wall = wall
        self._known: dict[str, Source] = {}
        self.targets = LinkTargets(may_hold)  #: the files to which symbolic links lead
        self._dirty: set[str] = set()
        self._ahead: dict[str, tuple[str, Receipt]] = {}  # by source: an archive's receipt for bytes without PubAck yet
        self._claimed: dict[str, tuple[str, Receipt]] = {}  # the same, of unsolicited messages
        self._changed_until: dict[str, int] = {}  # by the name in the archive: the last change of a file, in ns
        #: the same for the names that known files had at the end of the last scan. Files that appear later were written
        #: later, whatever happens to the older files meanwhile
        self.changed_before: dict[str, int] = {}

    @property
    def known(self) -> Mapping[str, Source]:
        """Every source with its acknowledged offset, by its id."""
        return self._known

    @property
    def sequence(self) -> int:
        """The newest stream sequence of an acknowledged block of this host."""
        return max((source.sequence for source in self._known.values()), default=0)

    def add(self, source: Source) -> None:
        """Add a source that is in the checkpoint."""
        self._known[source.id] = source
        self.targets.learn(source)
        self.note_name(source.file, source.mtime_ns)

    def note_name(self, file: str, mtime_ns: int) -> None:
        """Record that a file had a name in the archive, and when it changed."""
        by_now = min(mtime_ns, int(self._wall() * 1e9))  # a time in the future would hide what is written until then
        self._changed_until[file] = max(by_now, self._changed_until.get(file, 0))

    def scan_ends(self, names: Container[str]) -> None:
        """The next scan compares with the changes recorded so far, for the `names` that this scan found.

        If a name is missing, a generation may have had it in between: it is searched when the name is back.
        """
        for name, until in self._changed_until.items():
            if name in names or name not in self.changed_before:
                self.changed_before[name] = until

    def add_durably(self, sources: list[Source]) -> bool:
        """Save new sources and add them. False: the checkpoint cannot be written now."""
        is_saved = _is_written(self._checkpoints.save, sources)
        for source in sources if is_saved else ():
            self.add(source)
        return is_saved

    def note_scan(self, id_: str, size: int, mtime_ns: int, start: Mark) -> None:
        """Record what a scan found: if the file is gone at the next start, its size shows how much was lost."""
        source = self._known[id_]
        self.note_name(source.file, mtime_ns)
        if (source.size, source.mtime_ns) != (size, mtime_ns):
            mark = source.mark if source.offset else start
            self.change(replace(source, size=size, mtime_ns=mtime_ns, mark=mark))

    def note_size(self, id_: str, size: int) -> None:
        """Record that `size` bytes of a source were found, perhaps in a copy of its file."""
        source = self._known[id_]
        if size > source.size:
            self.change(replace(source, size=size))

    def save_marks(self, starts: Mapping[str, Mark]) -> bool:
        """Save the marks of files that were empty when their sources began, by source. True: they may be read.

        Without the mark, other content with the same inode number could be taken for bytes sent before a kill.
        """
        marked = [replace(self._known[id_], mark=start) for id_, start in starts.items()]
        return bool(marked) and self.add_durably(marked)

    def note_receipts(self, reply: ReceiptsReply) -> None:
        """Record what an archive holds, up to the acknowledged offset. Ignore receipts that contradict a known sum."""
        for receipt, source in self._known_in(reply):
            self._note_receipt(source, reply.archive, receipt)

    def note_unsolicited(self, reply: ReceiptsReply) -> list[str]:
        """Record an unsolicited message as far as it proves itself. Returns the sources to request a receipt for.

        Its sum must be the one that this host has at the watermark. Anything else could be a forgery, after which a
        spool would be deleted, or bytes would be skipped at a move, that no archive has.
        """
        unproven = []
        for receipt, source in self._known_in(reply):
            if receipt.watermark <= source.archived_in(reply.archive):
                continue
            if source.proves(receipt.watermark, receipt.host_crc):
                self._note_receipt(source, reply.archive, receipt)
            elif receipt.watermark > source.offset and receipt.host_crc >= 0:
                self._claimed[source.id] = (reply.archive, receipt)  # its bytes may be acknowledged soon
            else:
                unproven.append(source.id)
        return unproven

    def _note_receipt(self, source: Source, archive: str, receipt: Receipt) -> None:
        """Record a receipt. One that arrives before the PubAck of its bytes is kept, because it is not repeated."""
        self._ahead.pop(source.id, None)
        if receipt.watermark > source.offset:
            self._ahead[source.id] = (archive, receipt)
        archived = min(receipt.watermark, source.offset)
        if archived > source.archived_in(archive):
            self.change(source.in_archive(archive, archived))

    def replace_receipts(self, reply: ReceiptsReply, requested: Iterable[str]) -> None:
        """Record the reply to a request for sources, also if a restored archive has less than before."""
        holds = {source.id: receipt.watermark for receipt, source in self._known_in(reply)}
        for source in [self._known[id_] for id_ in requested if id_ in self._known]:
            archived = min(holds.get(source.id, 0), source.offset)
            if source.handoff is not None and source.handoff.archive == reply.archive:
                archived = max(archived, min(source.handoff.offset, source.offset))
            if source.trusted or archived != source.archived_in(reply.archive):
                self.change(source.in_archive(reply.archive, archived).confirmed())

    def _known_in(self, reply: ReceiptsReply) -> Iterator[tuple[Receipt, Source]]:
        for receipt in reply.receipts:
            source = self._known.get(receipt.source)
            if source and receipt.origin == source.origin and not source.contradicts(receipt.watermark, receipt.crc):
                yield receipt, source

    @property
    def unarchived_bytes(self) -> int:
        """Bytes that are acknowledged, and for which no receipt has arrived."""
        sources = list(self._known.values())
        return sum(max(0, source.offset - max(source.origin, source.archived)) for source in sources)

    def note_ack(self, piece: Piece, sequence: int) -> None:
        """Record that JetStream has stored `piece` and everything before it of its source."""
        point = Point(sequence, piece.span.end, piece.source_crc)
        source = self._known[piece.source].acknowledged(point, piece.mark)
        self.change(source)
        if piece.source in self._claimed:
            archive, receipt = self._claimed[piece.source]
            if source.proves(receipt.watermark, receipt.host_crc):
                self._note_receipt(source, archive, receipt)
            if receipt.watermark <= source.offset:
                del self._claimed[piece.source]
        elif piece.source in self._ahead:
            archive, receipt = self._ahead[piece.source]
            if source.contradicts(receipt.watermark, receipt.crc):
                del self._ahead[piece.source]
            else:
                self._note_receipt(source, archive, receipt)

    def end(self, id_: str, *, file_rests: bool) -> Source:
        """End a source whose last block is acknowledged. `file_rests`: its file may appear under another name."""
        source = self._known[id_].ended(self._wall(), file_rests=file_rests)
        self.change(source)
        return source

    def exclude(self, id_: str) -> None:
        """End a source whose file the configuration no longer names. It continues if the file is named again."""
        self.change(replace(self._known[id_].ended(self._wall(), file_rests=True), excluded=True))

    @property
    def unsaved_ids(self) -> frozenset[str]:
        """The sources whose newest state is not saved."""
        return frozenset(self._dirty)

    def take_unsaved(self) -> list[Source]:
        """The sources that changed since the last call. The caller saves them."""
        changed, self._dirty = [self._known[id_] for id_ in self._dirty], set()
        return changed

    @property
    def has_unsaved(self) -> bool:
        """Whether a source changed since the last `take_unsaved`."""
        return bool(self._dirty)

    def save(self, sources: list[Source]) -> None:
        """Save `sources`, which `take_unsaved` returned. If that fails, it returns them again."""
        if not _is_written(self._checkpoints.save, sources):
            self._dirty.update(source.id for source in sources if source.id in self._known)

    def go_back(self, offsets: Mapping[str, int]) -> None:
        """Save that the sources in `offsets` continue at these offsets or before. Raises CHECKPOINT_ERRORS."""
        known = {id_: self._known[id_] for id_ in offsets if id_ in self._known}
        self._checkpoints.save(source.back_to(offsets[id_]) for id_, source in known.items())

    def move_to(self, place: Place, sources: Iterable[Source]) -> None:
        """Save the host's new place, and `sources` as they are there, in one transaction. Raises CHECKPOINT_ERRORS."""
        changed = {source.id: source for source in sources}
        others = [self._known[id_] for id_ in self._dirty if id_ in self._known and id_ not in changed]
        self._checkpoints.stand_at(place, [*others, *changed.values()])
        self._ahead.clear()
        self._claimed.clear()

    def rewind(self, *, sequence: int, archived: Mapping[str, int], as_: int = SETTLED) -> list[Source]:
        """Save and return the sources at what the server (up to `sequence`) or the archive (`archived`) still has."""
        known = self._known.values()
        after = [each.rewound(sequence=sequence, archived=archived.get(each.id, 0), as_=as_) for each in known]
        changed = [source for source in after if source != self._known[source.id] or source.id in self._dirty]
        self._checkpoints.save(changed)
        return after

    def replace(self, sources: Iterable[Source]) -> None:
        """Replace sources. The checkpoint has them in this state."""
        for source in sources:
            self._known[source.id] = source
            self._dirty.discard(source.id)

    def forget_old(self, kept: Container[str]) -> list[Source]:
        """Forget the sources that ended long ago, except those in `kept`. Returns them."""
        limit = self._wall() - TOMBSTONE_SECONDS
        old = [source for source in self._known.values() if 0 < source.ended_at < limit and source.id not in kept]
        if not self.forget(old):
            return []
        for source in old:
            self.remove(source.id)
        names = {source.file for source in self._known.values()}
        self._changed_until = {name: until for name, until in self._changed_until.items() if name in names}
        self.changed_before = {name: until for name, until in self.changed_before.items() if name in names}
        self.targets.keep(names)
        return old

    def remove(self, id_: str) -> Source:
        """Remove a source, but not its name. The checkpoint still has it."""
        self._dirty.discard(id_)
        self._ahead.pop(id_, None)
        self._claimed.pop(id_, None)
        return self._known.pop(id_)

    def forget(self, sources: Iterable[Source]) -> bool:
        """Delete sources from the checkpoint. False: it cannot be written now."""
        return _is_written(self._checkpoints.forget, sources)

    def load_copies(self) -> list[KnownCopy]:
        """The files that earlier scans took for copies. Empty where that cannot be read: they are compared again."""
        try:
            return self._checkpoints.load_copies()
        except (*CHECKPOINT_ERRORS, ValueError, TypeError):
            return []

    def save_copies(self, copies: list[KnownCopy], gone: list[tuple[int, int]]) -> bool:
        """Save what was found of copies. False: the checkpoint cannot be written now."""
        return _is_written(lambda found: self._checkpoints.save_copies(found, gone), copies)

    def change(self, source: Source) -> None:
        """Another state of a source is to be saved."""
        self._known[source.id] = source
        self._dirty.add(source.id)


def _is_written(change: Callable[[Iterable[_Row]], None], rows: Iterable[_Row]) -> bool:
    """Change the checkpoint. False: it cannot be written now, which is logged."""
    try:
        change(rows)
    except CHECKPOINT_ERRORS as error:
        events.checkpoint_failed(error=str(error))
        return False
    return True


FIRST_SAVE_SECONDS = 0.01
"""First interval between saves, in seconds. It doubles up to the configured one. A process that is killed repeatedly
shortly after its start still makes progress."""


class CheckpointSaver:
    """Saves what changed in an `AckTracker` to the checkpoint, in another thread. Owned by `Delivery`."""

    def __init__(self, every_seconds: float) -> None:
        self._every = every_seconds
        self._gap = FIRST_SAVE_SECONDS
        self.next_at = math.inf  #: monotonic time before which nothing is saved, except on demand

    async def save_if_due(self, acks: AckTracker) -> None:
        """Save what changed, if it is time. What changes soon after, as the size of a file and an ack, is one save."""
        if acks.has_unsaved:
            self.next_at = min(self.next_at, time.monotonic() + min(self._gap, self._every))
            if time.monotonic() >= self.next_at:
                self.next_at = math.inf
                self._gap *= 2
                await self.save(acks)

    async def save(self, acks: AckTracker) -> None:
        """Save what changed."""
        await asyncio.to_thread(acks.save, acks.take_unsaved())
