"""Judge a batch of deliveries and write what is new into the files; nothing counts before the journal commits it.

Budgets of one host in one partition: what it sends cannot crowd out the other hosts.

What a host spends in a UTC day is in the journal, so a restart of the collector does not give it a second budget. The
day is that of the JetStream timestamp, which no host chooses.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from consumer.commit.archived_bytes import ArchivedBytes
from consumer.commit.batch_plan import Draft, Plan
from consumer.commit.forks import ForkDetector, NewFork, begin_fork, check_room
from consumer.commit.frame_cache import ReadyFrames
from consumer.commit.other_partitions import FoundSource
from consumer.commit.store import PartitionStore
from consumer.commit.watermark import (
    REASON_ELSEWHERE,
    REASON_FORKED,
    REASON_MISSING,
    REASON_REWRITTEN,
    BlockOutcome,
    GivenUp,
    begin,
    judge,
    missing_before,
    missing_behind,
    missing_parts,
    taken_up,
)
from consumer.model import Account, ArchivedSource, Budget, Changes, Loss, OpenFile, Position, SourceKey
from consumer.options import PartitionOptions
from shipper import codec, control
from shipper.bytes_ops import count_lines, crc32, crc32_combine
from shipper.compression import Compressor, Decompressor
from shipper.errors import Poison
from shipper.layout import FileKey, day_of
from shipper.model import Block, Delivery, Encoding, Span
from shipper.subjects import parse_log_subject

MAX_HOLES = 1000
"""Open holes of a host: each keeps the stream from being purged, is asked for, and takes memory.

What comes behind further ones is a dead letter; it comes again when its producer sends from the hole on.
"""
MAX_FILES = 10_000
"""Open files of a host. Lines of further ones go to `OVERFLOW`, once and in order as everything."""
MAX_NEW_FILES = 250_000
"""Files that a host begins in a day, each a segment of its own. Lines of further ones go to `OVERFLOW`, too."""
OVERFLOW = "overflow.log"
MAX_NEW_SOURCES = 1_000_000
"""Sources that a host begins in a day; blocks of further ones are dead letters. 100 MB/s in files of 10 MB are
864,000."""
MAX_LOST = 1 << 44
"""Bytes that a host may report as lost in a day: 16 TiB. A larger number would hide the losses of other hosts."""
MAX_LETTERS = 10_000
"""Dead letters of a host that are kept in a day; further ones are only counted."""
FULL_BYTES = 16 * 1024 * 1024
"""Bytes of dead letters of a host that are kept whole in a day; of further ones the beginnings are kept."""


class HostBudgets:
    """The counts of one batch; made when they are first asked for, which is seldom."""

    def __init__(
        self,
        files: Mapping[str, OpenFile],
        holes: Callable[[], Iterable[tuple[str, int]]],
        spent: Callable[[Account], int],
    ) -> None:
        """`holes`: host and missing bytes of each open hole. `spent`: what was spent before this batch."""
        self._files = files
        self._holes = holes
        self._spent_before = spent
        self._before: dict[Account, int] = {}
        self._admitted: set[str] = set()
        self._new_files: Counter[tuple[str, str]] = Counter()
        self._files_of: Counter[str] | None = None
        self._holes_of: Counter[str] | None = None
        self._missing_of: Counter[str] = Counter()
        self.spent: Counter[Account] = Counter()  #: by this batch
        self.refused: Counter[tuple[str, Budget]] = Counter()  #: messages by host and the budget that was exhausted
        self.cut: Counter[str] = Counter()  #: dead letters of which only the beginning is kept, by host

    def admit_file(self, key: FileKey, path: str) -> bool:
        """Whether a host may begin one more file, `path`, which no journal row names; if so, it is counted."""
        if path in self._admitted:
            return True
        if self._files_of is None:
            self._files_of = Counter(file.key.host for file in self._files.values())
        day = (key.date, key.host)
        begun = self._spent(Account(*day, Budget.FILES)) + self._new_files[day]
        if self._files_of[key.host] >= MAX_FILES or begun >= MAX_NEW_FILES:
            return False
        self._files_of[key.host] += 1
        self._new_files[day] += 1
        self._admitted.add(path)
        return True

    def begin_file(self, key: FileKey) -> None:
        """An admitted file is created."""
        self.spent[Account(key.date, key.host, Budget.FILES)] += 1
        self._new_files[key.date, key.host] -= 1

    def admit_source(self, date: str, host: str) -> None:
        """Check that a host may begin one more source. Raises Poison: it has begun too many today."""
        if self._spent(Account(date, host, Budget.SOURCES)) >= MAX_NEW_SOURCES:
            self.refused[host, Budget.SOURCES] += 1
            raise Poison(f"its host has begun {MAX_NEW_SOURCES} other sources (files and rotations) today")

    def begin_source(self, date: str, host: str) -> None:
        """An admitted source is begun."""
        self.spent[Account(date, host, Budget.SOURCES)] += 1

    def admit_hole(self, date: str, host: str, missing: int) -> None:
        """Count one more open hole of a host. Raises Poison: it has too many, or too many bytes are missing."""
        self.admit_loss(date, host, missing)
        if self._count_holes()[host] >= MAX_HOLES:
            raise Poison(f"bytes before it are missing, as in {MAX_HOLES} other files of its host")
        self._count_holes()[host] += 1
        self._missing_of[host] += missing

    def fill_hole(self, host: str, missing: int) -> None:
        """A hole of a host is filled."""
        if self._holes_of is not None:
            self._holes_of[host] -= 1
            self._missing_of[host] -= missing

    def admit_loss(self, date: str, host: str, octets: int) -> None:
        """Check that a host may lose so many bytes more. Raises Poison: no host loses so much."""
        self._count_holes()
        account = Account(date, host, Budget.LOST)
        if self._spent(account) + self._missing_of[host] + octets > MAX_LOST:
            self.refused[host, Budget.LOST] += 1
            raise Poison(f"with these {octets} lost bytes its host would have lost more than {MAX_LOST} today")

    def lose(self, date: str, host: str, octets: int) -> None:
        """Bytes of a host are recorded as lost."""
        self.spent[Account(date, host, Budget.LOST)] += octets

    def keep_letter(self, date: str, host: str, octets: int) -> tuple[bool, bool]:
        """Whether a dead letter of `octets` is kept, and whether it is kept whole."""
        letters, whole = Account(date, host, Budget.LETTERS), Account(date, host, Budget.LETTER_BYTES)
        if self._spent(letters) >= MAX_LETTERS:
            self.refused[host, Budget.LETTERS] += 1
            self.spent[Account(date, host, Budget.DROPPED)] += 1
            return False, False
        self.spent[letters] += 1
        if self._spent(whole) + octets > FULL_BYTES:
            self.cut[host] += 1
            return True, False
        self.spent[whole] += octets
        return True, True

    def _spent(self, account: Account) -> int:
        before = self._before.get(account)
        if before is None:
            before = self._before[account] = self._spent_before(account)
        return before + self.spent[account]

    def _count_holes(self) -> Counter[str]:
        if self._holes_of is None:
            self._holes_of = Counter()
            for host, missing in self._holes():
                self._holes_of[host] += 1
                self._missing_of[host] += missing
        return self._holes_of


REASON_POISON = "poison"
STALE = "stale"
"""Outcome of a block from before its host left the partition, and that came behind the marker."""
MARKER = "marker"
"""Outcome of a move marker."""
WRITE_BYTES = 256 * 1024
"""Of one file are written at once, not at the end of the batch: what was just unpacked is still in the core's cache, of
which the page cache takes as much again. So a full block is written alone."""
MANY_WAITING = 64
"""Messages behind the batch: as many full blocks as lie between two syncs. While more wait, nobody waits for a disk."""
MAX_OFFSET = (1 << 53) - 1
"""8 PiB: no file is longer, and sums of what is said to be missing stay numbers that every reader of JSON has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Blocks that came behind missing ones: where they begin in the stream, and what is missing."""

    source: SourceKey
    file: str
    sequence: int  #: of the first block behind the hole
    missing: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that fails for its own sake."""

    delivery: Delivery
    host: str
    reason: str
    is_whole: bool = True  #: all of it is kept; else the beginning, because its host has many


@dataclass(slots=True, kw_only=True)
class Staged:
    """A batch that is judged, and written but not synced."""

    changes: Changes
    dead: list[DeadLetter] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    written_bytes: int = 0
    lines: int = 0  #: newlines in the text that is new
    text_bytes: int = 0
    files: set[tuple[str, str]] = field(default_factory=set)  #: host and log file of the text that is new
    holes: dict[SourceKey, Hole] = field(default_factory=dict)
    forked: list[NewFork] = field(default_factory=list)  #: forks that began
    rewritten: list[ArchivedSource] = field(default_factory=list)  #: as they were before the block that shows it
    archived_before: list[FoundSource] = field(
        default_factory=list
    )  #: first met here, and another partition has a part
    keeps_up: bool  #: no more wait than go between two syncs
    crowd: HostBudgets
    crowded: Counter[str] = field(default_factory=Counter)  #: messages of hosts that have too many files

    def count(self, key: FileKey, *, lines: int, octets: int) -> None:
        """Text of a log file is new."""
        self.lines += lines
        self.text_bytes += octets
        self.files.add((key.host, key.file))


@dataclass(frozen=True, slots=True)
class _Target:
    """The file that a delivery belongs to."""

    path: str
    key: FileKey


@dataclass(slots=True)
class RunTotals:
    """What a run with an end made durable: the numbers of its summary line."""

    files: set[tuple[str, str]] = field(default_factory=set)  #: host and log file
    lines: int = 0
    bytes: int = 0

    def add(self, more: "Staged | RunTotals") -> None:
        """Count a committed batch, or what another worker archived."""
        self.files |= more.files
        self.lines += more.lines
        self.bytes += more.text_bytes if isinstance(more, Staged) else more.bytes

    @property
    def hosts(self) -> int:
        """Hosts of which anything is new."""
        return len({host for host, _ in self.files})


class Applier:
    """Turns deliveries into appended bytes and journal changes. Owned by the partition's worker."""

    def __init__(self, options: PartitionOptions, store: PartitionStore, ready: ReadyFrames) -> None:
        self._journal = store.journal
        self._others = store.others
        self._sink = store.sink
        self._layout = store.layout
        self._output = options.output
        self._partition = options.partition
        self._archive = options.archive
        self._ready = ready
        self._decompressor = Decompressor()
        self._copies, self._forks = ArchivedBytes(store.sink.archive, store.journal), ForkDetector()
        frames = store.layout.frames
        self._compress = None if frames == "none" else Compressor(Encoding(frames)).encode

    def stage(
        self, batch: list[Delivery], holes: Mapping[SourceKey, Hole], given_up: Mapping[SourceKey, GivenUp]
    ) -> Staged:
        """Judge `batch` and append its new bytes. Raises OSError, sqlite3.Error: the archive has trouble."""
        staged = Staged(
            changes=Changes(position=self._journal.position),
            holes=dict(holes),
            keeps_up=batch[-1].pending <= MANY_WAITING,
            crowd=HostBudgets(
                self._journal.files,
                lambda: ((source.host, hole.missing.length) for source, hole in holes.items()),
                self._journal.spent,
            ),
        )
        plan = Plan(self._journal, self._compress)
        self._copies.begin()
        for delivery in batch:
            self._stage_one(delivery, staged, plan, given_up)
        self._write(plan, staged)
        staged.changes.spent = staged.crowd.spent
        staged.changes.position = self._position(staged, batch[-1])
        return staged

    def _stage_one(self, delivery: Delivery, staged: Staged, plan: Plan, given_up: Mapping[SourceKey, GivenUp]) -> None:
        host = ""
        try:
            host = parse_log_subject(delivery.subject).host
            if control.is_republished(delivery.headers):
                raise Poison("nats-server sent it as a copy of a stored message: no host published it on this subject")
            if (version := codec.leaves(delivery.headers)) is not None:
                outcome = self._stage_marker(host, version, staged)
            elif codec.is_plain(delivery.headers):
                outcome = self._stage_plain(delivery, host, staged, plan)
            else:
                outcome = self._stage_block(delivery, host, staged, plan, given_up)
        except Poison as error:
            buried = self._is_applied(delivery)
            outcome = BlockOutcome.DUPLICATE.value if buried else _bury(delivery, host, error, staged)
        staged.outcomes[outcome] += 1

    def _is_applied(self, delivery: Delivery) -> bool:
        """Whether a message without offsets was applied before: it is read again for a hole, or in a new history."""
        at = self._journal.position
        return delivery.sequence <= at.applied or delivery.time_ns <= at.plain_after_ns

    def _stage_marker(self, host: str, version: int, staged: Staged) -> str:
        """A host leaves: what it sent by older maps ends here, its holes too, which nobody fills in this partition."""
        staged.changes.left[host] = max(version, self._left(host, staged))
        for source in [source for source in staged.holes if source.host == host]:
            staged.crowd.fill_hole(host, staged.holes.pop(source).missing.length)
        return MARKER

    def _left(self, host: str, staged: Staged) -> int:
        return staged.changes.left.get(host) or self._journal.left.get(host, 0)

    def _stage_plain(self, delivery: Delivery, host: str, staged: Staged, plan: Plan) -> str:
        """One line from anybody: it has no offsets, so the journal's sequence makes it exactly once."""
        target = self._target(delivery, host, self._output, staged, plan)
        if self._is_applied(delivery):
            return BlockOutcome.DUPLICATE.value
        self._draft(target, delivery, plan).append(delivery, "", delivery.payload + b"\n")
        staged.count(target.key, lines=1, octets=len(delivery.payload) + 1)
        return BlockOutcome.WRITE.value

    def _stage_block(
        self, delivery: Delivery, host: str, staged: Staged, plan: Plan, given_up: Mapping[SourceKey, GivenUp]
    ) -> str:
        block = codec.from_headers(delivery.headers)
        _check_offsets(block)
        if block.map_version < self._left(host, staged):
            return STALE
        source = SourceKey(host, block.source)
        found = self._as_archived(source, block, staged, plan)
        date = day_of(delivery.time_ns)
        if found is None:
            staged.crowd.admit_source(date, host)  # else its next blocks would be holes that nobody can fill
        before = found or begin(block, host)
        known = taken_up(block, before, self._archive)
        fork = self._fork_of(delivery, block, known, staged, plan)
        target = self._target(delivery, host, known.file, staged, plan)
        if fork is not None:
            if plan.source(fork.key) is None:
                self._note(fork, Span(fork.origin, fork.watermark), REASON_FORKED, target, delivery, plan)
            block, source, known = replace(block, source=fork.id, handoff=None), fork.key, fork
        gone = given_up.get(source)
        verdict = judge(block, known, given_up_at=gone.offset if gone else None)
        if verdict is BlockOutcome.HOLE:
            try:
                _note_hole(delivery, block, known, staged)
            except Poison as error:
                return _bury(delivery, host, error, staged)
        elif verdict is BlockOutcome.DUPLICATE:
            plan.duplicate(target.path)
        else:
            try:
                _charge(block, date, host, staged.crowd, is_new=found is None)
                _note_filled(block, known, staged)
                if block.handoff is not None and block.handoff.archive != self._archive:
                    elsewhere = Span(before.watermark, known.watermark)
                    self._lose(known, elsewhere, REASON_ELSEWHERE, target, delivery, plan, staged)
                self._accept(delivery, block, known, gone, target, plan, staged)
            except Poison as error:
                return _bury(delivery, host, error, staged)
        return verdict.value

    def _fork_of(
        self, delivery: Delivery, block: Block, known: ArchivedSource, staged: Staged, plan: Plan
    ) -> ArchivedSource | None:
        """The fork of `known` that a block belongs to, as far as it is archived; None: it belongs to `known` itself.

        Raises Poison: it begins another fork, and the source has too many.
        """
        forks = plan.forks(known.key)
        is_new = delivery.time_ns > self._journal.position.plain_after_ns
        if not forks and not (is_new and block.span.length and block.span.start < known.watermark):
            return None
        there = [each for fork in forks if (each := plan.source(SourceKey(known.host, fork)))]
        try:
            chosen = self._forks.choose(
                block,
                functools.cache(functools.partial(self._decompressor.decode, block, delivery.payload)),
                known,
                there,
                functools.partial(self._is_held, plan, staged),
            )
        except Poison:
            return None  # a damaged block says nothing of its source
        if chosen is known:
            return None
        if chosen is None:
            chosen = begin_fork(block, known)
            if chosen.id in forks:
                return plan.source(chosen.key)
            check_room(known, len(forks))
            plan.begin_fork(known.key, chosen.id)
            staged.forked.append(NewFork(known, chosen.id, chosen.watermark))
        return chosen

    def _is_held(self, plan: Plan, staged: Staged, known: ArchivedSource, block: Block, content: bytes) -> bool | None:
        """Whether the archive, with what this batch wrote, has `content` for a block; None: it cannot be compared."""
        opened = []
        for path, draft in plan.drafts.items():
            if draft.committed.key.host == known.host and draft.committed.key.file == known.file:
                draft.close()
                self._write_ahead(draft, plan, staged)
                opened.append((draft.file(), plan.added_to(path)))
        self._sink.flush()
        return self._copies.hold(known, block.span, content, opened)

    def _as_archived(self, source: SourceKey, block: Block, staged: Staged, plan: Plan) -> ArchivedSource | None:
        """What the archive has of a source, in whichever partition; None: nothing.

        A block with a handoff says itself where the former partition ended.
        """
        own = plan.source(source)
        if block.handoff is not None or (own is not None and source not in self._others.sources.shared):
            return own
        found = self._others.find(source)
        if found is None or found.known.watermark <= (own.watermark if own else found.known.origin):
            return own
        if own is None:
            staged.archived_before.append(found)
            staged.changes.shared.add(source)
        plan.sources[source] = found.known
        return found.known

    def _accept(
        self, delivery: Delivery, block: Block, known: ArchivedSource, gone: GivenUp | None, target: _Target,
        plan: Plan, staged: Staged,
    ) -> None:  # fmt: skip
        """Write the new bytes of a sound block; a damaged one leaves a gap, so that the next can follow it."""
        if block.span.start > known.watermark:
            missing = missing_before(block, known)
            for span, reason in missing_parts(missing, gone or GivenUp(0)):
                self._lose(known, span, reason, target, delivery, plan, staged)
            known = replace(known, watermark=block.span.start, crc=None, proven=False)
        end = max(known.watermark, block.span.end)
        try:
            rest = self._decompressor.rest(block, delivery.payload, at=known.watermark)
        except Poison:
            self._lose(known, Span(known.watermark, end), REASON_POISON, target, delivery, plan, staged)
            if end > known.watermark:
                known = replace(known, watermark=end, crc=None, proven=False)
            plan.sources[known.key] = replace(known, seen_ns=delivery.time_ns)
            raise
        new = Span(known.watermark, end)
        if new.length:
            draft = self._draft(target, delivery, plan)
            if rest.begins_left_out:
                draft.end_line(known.id)
            is_whole = block.edited is None and new == block.span
            frame = block.encoding.value if is_whole else "none"
            draft.append(
                delivery,
                known.id,
                rest.content,
                frame=delivery.payload if frame == self._layout.frames else b"",
                crc=block.block_crc if is_whole else None,
            )
            draft.account(new, rest, block.labels)
            lines = block.lines if new == block.span else count_lines(rest.content)
            staged.count(target.key, lines=lines, octets=len(rest.content))
            plan.extend(target.path, known.id, new)
            if frame == self._ready.codec:
                self._ready.add(
                    target.path, draft.raw - new.length, delivery.payload, text_bytes=new.length, lines=block.lines
                )
            if draft.waiting_bytes >= WRITE_BYTES:
                self._write_ahead(draft, plan, staged)
        if block.gap:
            lost = missing_behind(block, known)
            self._lose(known, lost, block.end.value if block.end else REASON_MISSING, target, delivery, plan, staged)
        self._grow(block, known, rest.content, target, delivery, plan, staged)

    def _grow(
        self, block: Block, known: ArchivedSource, content: bytes, target: _Target, delivery: Delivery, plan: Plan,
        staged: Staged,
    ) -> None:  # fmt: skip
        """The source after a sound block, of which `content` is new."""
        crc, proven = _sum(block, known, content, staged)
        if staged.rewritten and staged.rewritten[-1] is known:
            self._note(known, Span(known.watermark, known.watermark), REASON_REWRITTEN, target, delivery, plan)
        plan.sources[known.key] = grown = known.grown(
            watermark=max(known.watermark, block.span.end),
            crc=crc,
            proven=proven,
            ended=block.end is not None,
            seen_ns=delivery.time_ns,
        )
        self._forks.written(grown)

    def _target(self, delivery: Delivery, host: str, file: str, staged: Staged, plan: Plan) -> _Target:
        key = FileKey(day_of(delivery.time_ns), self._partition, host, file)
        path = self._layout.path(key, delivery.time_ns)
        if path in plan.drafts or path in self._journal.files or staged.crowd.admit_file(key, path):
            return _Target(path, key)
        staged.crowded[host] += 1
        key = key._replace(file=OVERFLOW)
        return _Target(self._layout.path(key, delivery.time_ns), key)

    def _draft(self, target: _Target, delivery: Delivery, plan: Plan) -> Draft:
        known = target.path in plan.drafts or target.path in self._journal.files
        before = 0 if known else self._layout.length_before(target.path)
        return plan.draft(target.path, target.key, delivery, length_before=before)

    def _lose(
        self, known: ArchivedSource, span: Span, reason: str, target: _Target, delivery: Delivery, plan: Plan,
        staged: Staged,
    ) -> None:  # fmt: skip
        """Note that bytes are missing in the file, which is there from now on even if it stays empty."""
        if span.length > 0:
            self._note(known, span, reason, target, delivery, plan)
            if reason != REASON_ELSEWHERE:
                staged.crowd.lose(day_of(delivery.time_ns), known.host, span.length)

    def _note(
        self, known: ArchivedSource, span: Span, reason: str, target: _Target, delivery: Delivery, plan: Plan
    ) -> None:
        self._draft(target, delivery, plan)
        plan.losses.append(Loss(target.path, known.key, span, reason))

    def _write(self, plan: Plan, staged: Staged) -> None:
        """Journal new files, create them, append: in this order a kill leaves nothing that nobody knows of."""
        self._create(plan, staged)
        for draft in plan.drafts.values():
            draft.close()
            self._append(draft, staged)
        staged.changes.sources = plan.sources
        staged.changes.files = {path: draft.file() for path, draft in plan.drafts.items()}
        staged.changes.extents = list(plan.extents())
        staged.changes.losses = plan.losses
        staged.changes.forks = plan.new_forks

    def _write_ahead(self, draft: Draft, plan: Plan, staged: Staged) -> None:
        """Append what is there of a large file; it counts no sooner than the rest of the batch."""
        self._create(plan, staged)
        self._append(draft, staged)

    def _create(self, plan: Plan, staged: Staged) -> None:
        created, plan.created = plan.created, []
        self._journal.register(created)
        for file in created:
            self._sink.create(file)
            staged.crowd.begin_file(file.key)

    def _append(self, draft: Draft, staged: Staged) -> None:
        if draft.waiting_bytes:
            staged.written_bytes += draft.waiting_bytes
            is_large = draft.waiting_bytes >= WRITE_BYTES
            append = self._sink.append_past_cache if is_large and staged.keeps_up else self._sink.append
            offset, buffers = draft.take()
            append(draft.committed, buffers, at=offset)

    def _position(self, staged: Staged, last: Delivery) -> Position:
        at = self._journal.position
        applied = max(at.applied, last.sequence)
        first_hole = min((hole.sequence for hole in staged.holes.values()), default=applied + 1)
        behind = last.sequence < at.applied  # read again for a hole that was given up
        return replace(
            at,
            applied=applied,
            applied_ns=at.applied_ns if behind else last.time_ns,
            resume=min(first_hole, last.sequence + 1),
        )


def _bury(delivery: Delivery, host: str, error: Poison, staged: Staged) -> str:
    host = host or "unknown"
    octets = len(delivery.payload) + sum(len(name) + len(value) for name, value in delivery.headers.items())
    is_kept, is_whole = staged.crowd.keep_letter(day_of(delivery.time_ns), host, octets)
    if is_kept:
        staged.dead.append(DeadLetter(delivery=delivery, host=host, reason=str(error), is_whole=is_whole))
    return REASON_POISON


def _charge(block: Block, date: str, host: str, crowd: HostBudgets, *, is_new: bool) -> None:
    """Charge a block to the budgets of its host. Raises Poison: it reports too many bytes as lost."""
    if block.gap:
        crowd.admit_loss(date, host, block.gap)
    if is_new:
        crowd.begin_source(date, host)


def _check_offsets(block: Block) -> None:
    if block.span.end + block.gap > MAX_OFFSET:
        raise Poison(f"Log-Span {block.span} with Log-Gap {block.gap} leads beyond what any file can hold")
    if block.handoff is not None and block.handoff.offset > MAX_OFFSET:
        raise Poison(f"Log-Handoff {block.handoff.offset} is beyond what any file can hold")


def _sum(block: Block, known: ArchivedSource, new: bytes, staged: Staged) -> tuple[int | None, bool]:
    """The source's CRC behind `block`, and whether it proves the archive's copy.

    Another one than the block says means that the file was rewritten: from then on the sum is the host's only.

    The bytes behind an edited block are on the host only: its sum is taken as told, the next block that is not edited
    is checked against it.
    """
    if block.span.end < known.watermark:
        return known.crc, known.proven  # a farewell from before what is here
    if known.crc is not None and block.edited is None and _behind(known.crc, block, new) != block.source_crc:
        staged.rewritten.append(known)
        return block.source_crc, False
    return block.source_crc, known.proven


def _behind(crc: int, block: Block, new: bytes) -> int:
    """The sum behind the `new` bytes of a sound block, from `crc` before them; a whole block is summed already."""
    whole = len(new) == block.span.length
    return crc32_combine(crc, block.block_crc, len(new)) if whole else crc32(new, crc)


def _note_hole(delivery: Delivery, block: Block, known: ArchivedSource, staged: Staged) -> None:
    if known.key not in staged.holes:
        missing = missing_before(block, known)
        staged.crowd.admit_hole(day_of(delivery.time_ns), known.host, missing.length)
        staged.holes[known.key] = Hole(source=known.key, file=known.file, sequence=delivery.sequence, missing=missing)


def _note_filled(block: Block, known: ArchivedSource, staged: Staged) -> None:
    if not staged.holes:
        return
    hole = staged.holes.get(known.key)
    if hole is not None and block.span.end >= hole.missing.end:
        del staged.holes[known.key]
        staged.crowd.fill_hole(known.host, hole.missing.length)
