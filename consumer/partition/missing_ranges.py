"""Holes, which are missing ranges of a source: request the bytes from the producer, and when to give them up.

A hole is given up, and a gap recorded, when its producer no longer has the bytes, or does not answer for `hole_limit`.
"""

import asyncio
import enum
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from consumer.commit.batch import Batch, Hole
from consumer.commit.store import PartitionStore
from consumer.commit.watermark import REASON_EXCLUDED, REASON_MISSING, GivenUp
from consumer.model import PartitionOptions, SourceKey
from consumer.partition.stream import StreamView
from shipper import events
from shipper.control import ResendAnswer, ResendReply, ResendRequest
from shipper.errors import SessionLost, ShipperError
from shipper.ports import Inbox
from shipper.subjects import control_down


class HoleAction(enum.Enum):
    """What to do about a hole now."""

    WAIT = "wait"
    REQUEST = "request"
    GIVE_UP = "give up"


class Answer(enum.Enum):
    """A producer's reply to the request for missing bytes."""

    NONE = "no answer"
    RESENT = "resent"
    LASTING = "resent, even by another process"
    GONE = "gone"
    EXCLUDED = "excluded"  #: the host does not read the file any more
    ELSEWHERE = "in another archive"


_ANSWERS = {
    ResendAnswer.GONE: Answer.GONE,
    ResendAnswer.EXCLUDED: Answer.EXCLUDED,
    ResendAnswer.ARCHIVED: Answer.RESENT,  # of a part: the rest is requested again
    ResendAnswer.RESENT: Answer.RESENT,
    ResendAnswer.LASTING: Answer.LASTING,
}


@dataclass(slots=True)
class _HoleState:
    hole: Hole
    since: float
    requested_at: float = 0.0
    answer: Answer | None = None


class OpenHoles:
    """The open holes of a partition, and what was done about each. Part of `MissingRanges`."""

    def __init__(self, *, patience: float, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._limit = limit
        self._clock = clock
        self._watched: dict[SourceKey, _HoleState] = {}
        self._before: dict[SourceKey, _HoleState] = {}  # of earlier sessions, until they are read past

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def open(self) -> Mapping[SourceKey, Hole]:
        """The open holes by source."""
        return {source: watched.hole for source, watched in self._watched.items()}

    @property
    def unanswered(self) -> list[Hole]:
        """The holes whose producer did not answer the request."""
        return [watched.hole for watched in self._watched.values() if watched.answer is Answer.NONE]

    @property
    def are_promised(self) -> bool:
        """Whether every producer sends again from its hole on, even if its process ends now."""
        return all(watched.answer is Answer.LASTING for watched in self._watched.values())

    @property
    def first_sequence(self) -> int:
        """The first sequence to read again, so that every open hole is found."""
        return min(watched.hole.sequence for watched in self._watched.values())

    def update(self, holes: Mapping[SourceKey, Hole]) -> None:
        """`holes` are the ones that are open after the last batch."""
        before, self._watched = self._watched, {}
        for source, hole in holes.items():
            known = before.get(source) or self._before.pop(source, None)
            self._watched[source] = watched = known or _HoleState(hole, since=self._clock())
            watched.hole = hole

    def skip(self, sequence: int) -> None:
        """Do not read again what follows them below `sequence`: their producers send it again."""
        for watched in self._watched.values():
            watched.hole = replace(watched.hole, sequence=sequence)

    def read_to(self, sequence: int) -> None:
        """The session has read up to `sequence`: holes before it that it did not find again are filled."""
        self._before = {source: watched for source, watched in self._before.items() if watched.hole.sequence > sequence}

    def begin_session(self) -> None:
        """A session begins before the first hole, so it finds each again. Each keeps its age."""
        for watched in self._watched.values():
            watched.requested_at, watched.answer = 0.0, None
        self._before |= self._watched
        self._watched = {}

    def next_action(self, hole: Hole, *, at_once: bool) -> HoleAction:
        """What to do about `hole` now. `at_once`: request without waiting, the stream has nothing more to read."""
        watched, now = self._watched[hole.source], self._clock()
        if watched.answer in {Answer.GONE, Answer.EXCLUDED, Answer.ELSEWHERE} or now - watched.since >= self._limit:
            return HoleAction.GIVE_UP
        waited = now - (watched.requested_at or watched.since)
        is_due = at_once and not watched.requested_at
        return HoleAction.REQUEST if is_due or waited >= self._patience else HoleAction.WAIT

    def answer_of(self, hole: Hole) -> Answer | None:
        """The producer's reply about a hole. None means that it was not requested yet."""
        watched = self._watched.get(hole.source)
        return watched.answer if watched else None

    def answered(self, hole: Hole, answer: Answer) -> None:
        """The producer replied `answer` to the request."""
        watched = self._watched[hole.source]
        watched.requested_at, watched.answer = self._clock(), answer


REPLY_SECONDS = 2.0
"""Seconds to wait for a producer's reply."""
REQUESTS_AT_ONCE = 256
"""Maximum number of requests that wait for a reply."""


class MissingRanges:
    """The missing ranges of a partition, from the block that shows one to the block that fills it, or to a gap.

    Owned by the partition's worker.
    """

    def __init__(self, options: PartitionOptions, store: PartitionStore, stream: StreamView) -> None:
        self._options = options
        self._store = store
        self._stream = stream
        self._holes = OpenHoles(patience=options.hole_patience, limit=options.hole_limit)
        self._read_to = 0  # sequence that this session has committed last
        self.given_up: dict[SourceKey, GivenUp] = {}  #: ranges that the next session accepts as missing

    def __len__(self) -> int:
        return len(self._holes)

    @property
    def open(self) -> Mapping[SourceKey, Hole]:
        """The open holes by source."""
        return self._holes.open

    def begin_session(self) -> None:
        """A session begins before the first open hole."""
        self._holes.begin_session()
        self._read_to = 0

    def committed(self, batch: Batch) -> None:
        """A batch is committed, up to its last message."""
        self._holes.update(batch.holes)
        self._read_to = batch.messages[-1].sequence
        self._holes.read_to(self._read_to)
        watermarks = {key: known.watermark for key, known in batch.sources.items()}
        for source in [source for source in self.given_up if source in watermarks]:
            if watermarks[source] >= self.given_up[source].offset:
                del self.given_up[source]

    async def check(self, inbox: Inbox) -> None:
        """Request what is due, give up what no producer has, and skip holes that hold up a full stream.

        Raises SessionLost: the stream has to be read again.
        """
        await self._fill(inbox, at_once=self._stream.is_held_up)
        await self._skip_promised(inbox)

    async def is_drained(self, inbox: Inbox) -> bool:
        """Whether no hole is open in a stream that is read to its end.

        Raises ShipperError: bytes are missing and their producer does not answer. SessionLost: as `check`.
        """
        await self._fill(inbox, at_once=True)
        for hole in self._holes.unanswered:
            raise ShipperError(
                f"bytes {hole.missing} of {hole.file} on {hole.source.host} are not in the stream,"
                " and the host does not answer",
                hint="start its producer and drain again: it sends them anew; nothing is lost meanwhile",
            )
        return not len(self._holes)

    async def _fill(self, inbox: Inbox, *, at_once: bool) -> None:
        await self._fill_from_other_partitions()
        due = self._holes_for(HoleAction.REQUEST, at_once=at_once)
        await asyncio.gather(*(self._request(inbox, hole) for hole in due[:REQUESTS_AT_ONCE]))
        if lasting := self._holes_for(HoleAction.GIVE_UP, at_once=at_once):
            await self._give_up(lasting)

    def _holes_for(self, action: HoleAction, *, at_once: bool) -> list[Hole]:
        return [hole for hole in self.open.values() if self._holes.next_action(hole, at_once=at_once) is action]

    async def _fill_from_other_partitions(self) -> None:
        """Read the stream again where another partition of this archive has what is missing. Raises SessionLost."""
        others = self._store.others
        found = [(hole, await self._store.run(others.find, hole.source)) for hole in list(self.open.values())]
        filled = [hole for hole, other in found if other and other.known.watermark >= hole.missing.end]
        if filled:
            others.sources.shared |= {hole.source for hole in filled}
            await self._read_again()
            raise SessionLost(f"another partition has archived what was missing of {filled[0].file}; reading again")

    async def _request(self, inbox: Inbox, hole: Hole) -> None:
        start = max(hole.missing.start, self.given_up.get(hole.source, GivenUp(0)).elsewhere)
        request = ResendRequest(hole.source.id, start, self._options.archive).to_json()
        reply = ResendReply.from_json(await inbox.ask(control_down(hole.source.host), request, REPLY_SECONDS))
        # offset up to which another archive has the source, according to its producer
        upto = max(start, reply.watermark) if reply and reply.answer is ResendAnswer.ARCHIVED else start
        answer = _ANSWERS[reply.answer] if reply else Answer.NONE
        if reply and upto >= hole.missing.end:
            answer = Answer.ELSEWHERE
        events.hole_asked(
            partition=self._options.partition, host=hole.source.host, file=hole.file, start=start, answer=answer.value
        )
        if upto > start:
            upto = min(upto, hole.missing.end)
            self.given_up[hole.source] = GivenUp(upto, elsewhere=upto)
        if start < upto < hole.missing.end:  # only the rest of it is missing
            await self._request(inbox, hole)
        elif hole.source in self.open:
            self._holes.answered(hole, answer)

    async def _give_up(self, holes: list[Hole]) -> None:
        """Accept these ranges as missing, and read the stream again from the first hole. Raises SessionLost."""
        for hole in holes:
            elsewhere = self.given_up.get(hole.source, GivenUp(0)).elsewhere
            reason = REASON_EXCLUDED if self._holes.answer_of(hole) is Answer.EXCLUDED else REASON_MISSING
            self.given_up[hole.source] = GivenUp(hole.missing.end, elsewhere, reason)
        await self._read_again()
        missing = ", ".join(f"bytes {hole.missing} of {hole.file} on {hole.source.host}" for hole in holes[:5])
        raise SessionLost(f"{missing} are given up; reading again after them")

    async def _read_again(self) -> None:
        await self._store.move_to(replace(self._store.journal.position, resume=self._holes.first_sequence))

    async def _skip_promised(self, inbox: Inbox) -> None:
        """Allow the purge of what follows holes, once every producer has promised to send from its hole on.

        Otherwise a full stream has no space for the missing bytes until the hole is given up. A session that reads
        again has found every hole only at the position of the last session.
        """
        at = self._store.journal.position
        promised = self._stream.is_held_up and len(self._holes) and self._holes.are_promised
        if promised and (self._read_to >= at.applied or await inbox.all_taken()):
            await self._store.lease.hold()
            await self._store.move_to(replace(at, resume=at.applied + 1))
            self._holes.skip(at.applied + 1)
            self._stream.is_held_up = self._stream.is_site_held_up = False  # the next purge finds something to remove
            events.holes_passed_by(partition=self._options.partition, holes=len(self._holes), below=at.applied + 1)
