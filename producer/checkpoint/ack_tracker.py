"""When the checkpoint is due to be written, and what happens when it cannot be.

How far each source is acknowledged, and what of that is not on disk yet.
"""

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace

from producer.checkpoint.store import CHECKPOINT_ERRORS, TOMBSTONE_SECONDS, Checkpoints
from producer.discovery.scanner import Seen
from producer.discovery.symlinks import Targets
from producer.model import SETTLED, Place, Point, Source
from producer.tailer.file_reader import Piece, Tail
from shipper import events
from shipper.control import Receipt, ReceiptsReply


class Ledger:
    """Every source of this host by its id. Owned by `Sources`."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        wall: Callable[[], float] = time.time,
        may_hold: Callable[[str, Seen], bool] = lambda _name, _seen: True,
    ) -> None:
        self._checkpoints = checkpoints
        self._wall = wall
        self._known: dict[str, Source] = {}
        self.targets = Targets(may_hold)  #: what the names lead to
        self._dirty: set[str] = set()
        self._claimed: dict[str, tuple[str, Receipt]] = {}  # the same, which nobody asked for
        self._ahead: dict[str, tuple[str, Receipt]] = {}  # by source: an archive's receipt of what is not acknowledged
        self._changed_until: dict[str, int] = {}  # by the name in the archive, ns
        self._before: dict[str, int] = {}  # the same when the last look ended

    @property
    def known(self) -> Mapping[str, Source]:
        """Every source, as far as it is acknowledged."""
        return self._known

    @property
    def sequence(self) -> int:
        """The newest stream sequence that acknowledged anything of this host."""
        return max((source.sequence for source in self._known.values()), default=0)

    def learn(self, source: Source) -> None:
        """Know a source that the checkpoint has."""
        self._known[source.id] = source
        self.targets.learn(source)
        self._note_change(source.file, source.mtime_ns)

    def learn_name(self, source: Source) -> None:
        """Know that a file had this name, and when it changed, and nothing else of it."""
        self._note_change(source.file, source.mtime_ns)

    @property
    def names(self) -> Iterable[str]:
        """Every name that a known file had."""
        return self._before.keys()

    def changed_before(self, file: str) -> int | None:
        """When a file that had this name changed last, as the last look saw it; None: none was known. Nanoseconds.

        What came later was written later, whatever happens to the older files meanwhile.
        """
        return self._before.get(file)

    def look_ends(self, names: Container[str]) -> None:
        """What was learned so far is what the next look compares with, for the `names` that this look found.

        Under a name that was not there a generation may have come and gone: it is looked for when the name is back.
        """
        for name, until in self._changed_until.items():
            if name in names or name not in self._before:
                self._before[name] = until

    def begin(self, sources: list[Source]) -> bool:
        """Make new sources durable and know them; False: the checkpoint cannot be written now."""
        try:
            self._checkpoints.save(sources)
        except CHECKPOINT_ERRORS as error:
            events.checkpoint_failed(error=str(error))
            return False
        for source in sources:
            self.learn(source)
        return True

    def looked(self, tail: Tail) -> None:
        """Keep the size that a look found: should the file be gone at the next start, it tells what was lost."""
        source = self._known[tail.id]
        self._note_change(tail.file, tail.mtime_ns)
        if (source.size, source.mtime_ns) != (tail.size, tail.mtime_ns):
            mark = source.mark if source.offset else tail.start
            self._change(replace(source, size=tail.size, mtime_ns=tail.mtime_ns, mark=mark))

    def glanced(self, tail: Tail) -> None:
        """The same between two looks: what came under the file's name since it left there is not known yet."""
        if tail.left_at is None:
            self.looked(tail)
        else:
            self.seen_at_least(tail.id, tail.size)

    def seen_at_least(self, id_: str, size: int) -> None:
        """So many bytes of a source were found, if not in its own file."""
        source = self._known[id_]
        if size > source.size:
            self._change(replace(source, size=size))

    def moved(self, source: Source) -> None:
        """The file system of a source has another device number now."""
        self._change(source)

    def mark(self, tails: list[Tail]) -> None:
        """Make durable what files begin with that had no byte when they began; then they may be read.

        Else other content with the same inode number would pass for the bytes that were sent before a kill.
        """
        if tails and self.begin([replace(self._known[tail.id], mark=tail.start) for tail in tails]):
            for tail in tails:
                tail.marked = True

    def told(self, told: ReceiptsReply) -> None:
        """Note what an archive holds, as far as it is acknowledged; a receipt that a known sum contradicts is none."""
        for receipt, source in self._known_in(told):
            self._archived(source, told.archive, receipt)

    def heard(self, told: ReceiptsReply) -> list[str]:
        """Note an unsolicited message as far as it proves itself; the sources for which the collector is to be asked.

        Its sum must be the one that this host has at the watermark. Anything else could be a forgery, by which a spool
        would be removed, or bytes left out at a move, that no archive has.
        """
        unproven = []
        for receipt, source in self._known_in(told):
            if receipt.watermark <= source.archived_in(told.archive):
                continue
            if source.proves(receipt.watermark, receipt.host_crc):
                self._archived(source, told.archive, receipt)
            elif receipt.watermark > source.offset and receipt.host_crc >= 0:
                self._claimed[source.id] = (told.archive, receipt)  # its bytes may be acknowledged in a moment
            else:
                unproven.append(source.id)
        return unproven

    def _archived(self, source: Source, archive: str, receipt: Receipt) -> None:
        """Note a receipt; one that came before the PubAck of its bytes is not said again, so it is kept for that."""
        self._ahead.pop(source.id, None)
        if receipt.watermark > source.offset:
            self._ahead[source.id] = (archive, receipt)
        archived = min(receipt.watermark, source.offset)
        if archived > source.archived_in(archive):
            self._change(source.in_archive(archive, archived))

    def corrected(self, told: ReceiptsReply, asked: Iterable[str]) -> None:
        """The same of an answer to a question for the sources `asked`, also where an archive lost what it had.

        As when it was restored from a copy.
        """
        holds = {source.id: receipt.watermark for receipt, source in self._known_in(told)}
        for source in [self._known[id_] for id_ in asked if id_ in self._known]:
            archived = min(holds.get(source.id, 0), source.offset)
            if source.handoff is not None and source.handoff.archive == told.archive:
                archived = max(archived, min(source.handoff.offset, source.offset))
            if source.trusted or archived != source.archived_in(told.archive):
                self._change(source.in_archive(told.archive, archived).confirmed())

    def _known_in(self, told: ReceiptsReply) -> Iterator[tuple[Receipt, Source]]:
        for receipt in told.receipts:
            source = self._known.get(receipt.source)
            if source and receipt.origin == source.origin and not source.contradicts(receipt.watermark, receipt.crc):
                yield receipt, source

    @property
    def unarchived_bytes(self) -> int:
        """Bytes that are acknowledged, and that no archive is known to hold."""
        sources = list(self._known.values())
        return sum(max(0, source.offset - max(source.origin, source.archived)) for source in sources)

    def acknowledged(self, piece: Piece, sequence: int) -> None:
        """JetStream has stored `piece` and everything before it of its source."""
        point = Point(sequence, piece.span.end, piece.source_crc)
        source = self._known[piece.source].acknowledged(point, piece.mark)
        self._change(source)
        if piece.source in self._claimed:
            archive, receipt = self._claimed[piece.source]
            if source.proves(receipt.watermark, receipt.host_crc):
                self._archived(source, archive, receipt)
            if receipt.watermark <= source.offset:
                del self._claimed[piece.source]
        elif piece.source in self._ahead:
            archive, receipt = self._ahead[piece.source]
            if source.contradicts(receipt.watermark, receipt.crc):
                del self._ahead[piece.source]
            else:
                self._archived(source, archive, receipt)

    def ended(self, id_: str, *, file_rests: bool) -> Source:
        """The last block of a source is acknowledged; `file_rests`: its file may show up under another name."""
        source = self._known[id_].ended(self._wall(), file_rests=file_rests)
        self._change(source)
        return source

    def left_out(self, id_: str) -> Source:
        """The configuration no longer names the file of a source: it ends here, until the file is named again."""
        source = self._known[id_].left_out(self._wall())
        self._change(source)
        return source

    def release(self, source: Source) -> None:
        """The file of a source that ended is deleted."""
        self._change(replace(self._known[source.id], device=0, inode=0))

    @property
    def unsaved_ids(self) -> frozenset[str]:
        """The sources whose newest state is not durable."""
        return frozenset(self._dirty)

    def unsaved(self) -> list[Source]:
        """The sources that changed since the last call, to be made durable."""
        changed, self._dirty = [self._known[id_] for id_ in self._dirty], set()
        return changed

    @property
    def has_unsaved(self) -> bool:
        """Whether `unsaved` would return something."""
        return bool(self._dirty)

    def unsave(self, sources: Iterable[Source]) -> None:
        """Saving `sources` failed: they are due again."""
        self._dirty.update(source.id for source in sources if source.id in self._known)

    def go_back(self, offsets: Mapping[str, int]) -> None:
        """Let the sources in `offsets` begin again at most there, durably. Raises CHECKPOINT_ERRORS."""
        known = {id_: self._known[id_] for id_ in offsets if id_ in self._known}
        self._checkpoints.save(source.back_to(offsets[id_]) for id_, source in known.items())

    def take_over(self, place: Place, sources: Iterable[Source]) -> None:
        """Stand at `place` from now on, with `sources` as they are there; all of it durable or nothing.

        Raises CHECKPOINT_ERRORS.
        """
        changed = {source.id: source for source in sources}
        others = [self._known[id_] for id_ in self._dirty if id_ in self._known and id_ not in changed]
        self._checkpoints.stand_at(place, [*others, *changed.values()])
        self._ahead.clear()
        self._claimed.clear()

    def rewound(self, *, sequence: int, archived: Mapping[str, int], as_: int = SETTLED) -> list[Source]:
        """The sources at what the server (up to `sequence`) or the archive (`archived` bytes) still has, durable."""
        after = [
            source.rewound(sequence=sequence, archived=archived.get(source.id, 0), as_=as_)
            for source in self._known.values()
        ]
        changed = [source for source in after if source != self._known[source.id] or source.id in self._dirty]
        self._checkpoints.save(changed)
        return after

    def take(self, sources: Iterable[Source]) -> None:
        """Know `sources` as they are from now on; the checkpoint has them."""
        for source in sources:
            self._known[source.id] = source
            self._dirty.discard(source.id)

    def forget_old(self, kept: Container[str]) -> list[Source]:
        """Forget the sources that ended long ago, except those in `kept`; returns them."""
        limit = self._wall() - TOMBSTONE_SECONDS
        old = [source for source in self._known.values() if 0 < source.ended_at < limit and source.id not in kept]
        if not self.forget(old):
            return []
        for source in old:
            self.drop(source.id)
        names = {source.file for source in self._known.values()}
        self._changed_until = {name: until for name, until in self._changed_until.items() if name in names}
        self._before = {name: until for name, until in self._before.items() if name in names}
        self.targets.keep(names)
        return old

    def drop(self, id_: str) -> Source:
        """Know a source no more, save for its name; the checkpoint still has it."""
        self._dirty.discard(id_)
        self._ahead.pop(id_, None)
        self._claimed.pop(id_, None)
        return self._known.pop(id_)

    def forget(self, sources: Iterable[Source]) -> bool:
        """Drop sources from the checkpoint; False: it cannot be written now."""
        try:
            self._checkpoints.forget(sources)
        except CHECKPOINT_ERRORS as error:
            events.checkpoint_failed(error=str(error))
            return False
        return True

    def _note_change(self, file: str, mtime_ns: int) -> None:
        by_now = min(mtime_ns, int(self._wall() * 1e9))  # a time to come would hide all that is written until then
        self._changed_until[file] = max(by_now, self._changed_until.get(file, 0))

    def _change(self, source: Source) -> None:
        self._known[source.id] = source
        self._dirty.add(source.id)


FIRST_SAVE_SECONDS = 0.01
"""A young process remembers at once what it shipped, and less often as it grows older: one that is killed again and
again must come forward."""


class Saving:
    """Makes durable what a ledger has that the checkpoint lacks. Owned by the pipeline."""

    def __init__(self, checkpoints: Checkpoints, every_seconds: float) -> None:
        self._checkpoints = checkpoints
        self._every = every_seconds
        self._gap = FIRST_SAVE_SECONDS
        self.next_at = 0.0  #: monotonic time before which nothing is saved, except on demand

    async def save_if_due(self, ledger: Ledger) -> None:
        """Save what changed, if it is time."""
        if ledger.has_unsaved and time.monotonic() >= self.next_at:
            self.next_at = time.monotonic() + min(self._gap, self._every)
            self._gap *= 2
            await self.save(ledger)

    async def save(self, ledger: Ledger) -> None:
        """Save what changed, in another thread."""
        await asyncio.to_thread(self._write, ledger, ledger.unsaved())

    def save_last(self, ledger: Ledger) -> None:
        """Save what changed, at the end of the work."""
        self._write(ledger, ledger.unsaved())

    def _write(self, ledger: Ledger, changed: list[Source]) -> None:
        """Where that fails it is due again."""
        try:
            self._checkpoints.save(changed)
        except CHECKPOINT_ERRORS as error:
            ledger.unsave(changed)
            events.checkpoint_failed(error=str(error))
