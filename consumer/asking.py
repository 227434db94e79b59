"""Missing bytes: ask their producer, and find out whether anybody can have them any more."""

import asyncio
from typing import Any

from consumer.holes import Answer, Holes, Step
from consumer.task import Task
from consumer.writing.stage import Hole
from consumer.writing.watermark import REASON_EXCLUDED, REASON_MISSING, GivenUp, SourceKey
from shipper import events
from shipper.ports import Inbox
from shipper.subjects import control_down

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
        question: dict[str, Any] = {"v": 1, "ask": "resend", "source": hole.source.id, "from": start}
        question |= {"archive": self._task.archive} if self._task.archive else {}
        said = await inbox.ask(control_down(hole.source.host), question, ASK_SECONDS)
        upto = _archived_elsewhere(said, start)
        answer = _answer(said, upto, hole)
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


def _answer(said: Any, upto: int, hole: Hole) -> Answer:
    if said is None:
        return Answer.NONE
    if upto >= hole.missing.end:
        return Answer.ELSEWHERE
    if said.get("answer") == "gone":
        return Answer.EXCLUDED if said.get("why") == REASON_EXCLUDED else Answer.GONE
    return Answer.LASTING if said.get("lasting") is True else Answer.RESENT


def _archived_elsewhere(said: Any, start: int) -> int:
    """Up to which byte another collector's archive has the source, as its producer was told; `start`: it has not."""
    watermark = said.get("watermark") if said is not None and said.get("answer") == "archived" else None
    return max(start, watermark) if isinstance(watermark, int) else start
