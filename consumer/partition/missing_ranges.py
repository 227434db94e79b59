"""Missing bytes: ask their producer, and find out whether anybody can have them any more.

Holes that last: ask the producer for the bytes, and give them up only when nobody can have them any more.
"""

import asyncio
import enum
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from consumer.commit.applier import Hole
from consumer.commit.watermark import REASON_EXCLUDED, REASON_MISSING, GivenUp
from consumer.model import SourceKey
from consumer.options import Task
from shipper import events
from shipper.control import ResendAnswer, ResendReply, ResendRequest
from shipper.ports import Inbox
from shipper.subjects import control_down


class Step(enum.Enum):
    """What to do about a hole now."""

    WAIT = "wait"
    ASK = "ask"
    GIVE_UP = "give up"


class Answer(enum.Enum):
    """What a producer says to the question for missing bytes."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    hole: Hole
    since: float
    asked_at: float = 0.0
    answer: Answer | None = None


class Holes:
    """The open holes of a partition and what was done about them. Owned by the partition's worker."""

    def __init__(self, *, patience: float, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._limit = limit
        self._clock = clock
        self._watched: dict[SourceKey, _Watched] = {}
        self._before: dict[SourceKey, _Watched] = {}  # of earlier sessions, until they are read past

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def open(self) -> Mapping[SourceKey, Hole]:
        """The open holes by source."""
        return {source: watched.hole for source, watched in self._watched.items()}

    @property
    def unanswered(self) -> list[Hole]:
        """The holes of which the producer was asked and did not answer."""
        return [watched.hole for watched in self._watched.values() if watched.answer is Answer.NONE]

    @property
    def are_promised(self) -> bool:
        """Whether every host sends again from its hole on, even if its producer ends now."""
        return all(watched.answer is Answer.LASTING for watched in self._watched.values())

    @property
    def first_sequence(self) -> int:
        """Where the stream is to be read again, so that every open hole is met."""
        return min(watched.hole.sequence for watched in self._watched.values())

    def update(self, holes: Mapping[SourceKey, Hole]) -> None:
        """What the last batch left open."""
        now = self._clock()
        self._watched = {
            source: replace(self._known(source) or _Watched(hole=hole, since=now), hole=hole)
            for source, hole in holes.items()
        }

    def _known(self, source: SourceKey) -> _Watched | None:
        return self._watched.get(source) or self._before.pop(source, None)

    def pass_by(self, sequence: int) -> None:
        """What the stream has of them below `sequence` is not read again: their producers send it again."""
        self._watched = {
            source: replace(watched, hole=replace(watched.hole, sequence=sequence))
            for source, watched in self._watched.items()
        }

    def read_to(self, sequence: int) -> None:
        """The session has read so far: what was not found again up to here is filled."""
        self._before = {source: watched for source, watched in self._before.items() if watched.hole.sequence > sequence}

    def clear(self) -> None:
        """A new session reads again from before the first hole, so each is found again, as old as it was."""
        found = {source: replace(watched, asked_at=0.0, answer=None) for source, watched in self._watched.items()}
        self._before |= found
        self._watched = {}

    def next_step(self, hole: Hole, *, at_once: bool) -> Step:
        """What to do about `hole` now; `at_once`: nothing else is to be expected from the stream."""
        watched, now = self._watched[hole.source], self._clock()
        if watched.answer in {Answer.GONE, Answer.EXCLUDED, Answer.ELSEWHERE} or now - watched.since >= self._limit:
            return Step.GIVE_UP
        waited = now - (watched.asked_at or watched.since)
        ask_now = at_once and not watched.asked_at
        return Step.ASK if ask_now or waited >= self._patience else Step.WAIT

    def answer_of(self, hole: Hole) -> Answer | None:
        """What the producer said of a hole; None: nothing yet."""
        watched = self._watched.get(hole.source)
        return watched.answer if watched else None

    def answered(self, hole: Hole, answer: Answer) -> None:
        """The producer was asked: it sends again, or cannot, or did not answer."""
        self._watched[hole.source] = replace(self._watched[hole.source], asked_at=self._clock(), answer=answer)


ASK_SECONDS = 2.0
ASKED_AT_ONCE = 256


class Asking:
    """Asks for the open holes of a partition. Owned by the partition's worker."""

    def __init__(self, task: Task, holes: Holes) -> None:
        self._task = task
        self._holes = holes
        self.given_up: dict[SourceKey, GivenUp] = {}

    async def see_to(self, inbox: Inbox, *, at_once: bool) -> list[Hole]:
        """Ask for what is due; the holes that are to be given up now."""
        due = [hole for hole in self._holes.open.values() if self._step(hole, at_once=at_once) is Step.ASK]
        await asyncio.gather(*(self._ask_for(inbox, hole) for hole in due[:ASKED_AT_ONCE]))
        return [hole for hole in self._holes.open.values() if self._step(hole, at_once=at_once) is Step.GIVE_UP]

    def give_up(self, hole: Hole) -> None:
        """What is missing is accepted as missing from now on."""
        elsewhere = self.given_up.get(hole.source, GivenUp(0)).elsewhere
        reason = REASON_EXCLUDED if self._holes.answer_of(hole) is Answer.EXCLUDED else REASON_MISSING
        self.given_up[hole.source] = GivenUp(hole.missing.end, elsewhere, reason)

    def written(self, watermarks: dict[SourceKey, int]) -> None:
        """So far these sources are archived: what was given up before is passed."""
        for source in [source for source in self.given_up if source in watermarks]:
            if watermarks[source] >= self.given_up[source].offset:
                del self.given_up[source]

    def _step(self, hole: Hole, *, at_once: bool) -> Step:
        return self._holes.next_step(hole, at_once=at_once)

    async def _ask_for(self, inbox: Inbox, hole: Hole) -> None:
        start = max(hole.missing.start, self.given_up.get(hole.source, GivenUp(0)).elsewhere)
        request = ResendRequest(hole.source.id, start, self._task.archive).to_json()
        reply = ResendReply.from_json(await inbox.ask(control_down(hole.source.host), request, ASK_SECONDS))
        upto = _archived_elsewhere(reply, start)
        answer = _answer(reply, upto, hole)
        events.hole_asked(
            partition=self._task.partition, host=hole.source.host, file=hole.file, start=start, answer=answer.value
        )
        if upto > start:
            upto = min(upto, hole.missing.end)
            self.given_up[hole.source] = GivenUp(upto, elsewhere=upto)
        if start < upto < hole.missing.end:  # only the rest of it is missing
            await self._ask_for(inbox, hole)
        elif hole.source in self._holes.open:
            self._holes.answered(hole, answer)


def _answer(reply: ResendReply | None, upto: int, hole: Hole) -> Answer:
    if reply is None:
        return Answer.NONE
    if upto >= hole.missing.end:
        return Answer.ELSEWHERE
    return _ANSWERS[reply.answer]


def _archived_elsewhere(reply: ResendReply | None, start: int) -> int:
    """Offset up to which another archive has the source, according to its producer; `start`: there is none."""
    return max(start, reply.watermark) if reply and reply.answer is ResendAnswer.ARCHIVED else start
