"""Does what was acknowledged arrive in an archive? Who asks the collector can prove that the server lost it.

A receipt names the stream sequence up to which everything is judged. A source whose last block was acknowledged before
that, and of which the archive lacks bytes all the same, was lost on the way: by a stream that was created anew behind a
session's back, or by an archive that was restored together with the server. Receipts come by themselves while all is
well; only what stays away is asked for, and less often the longer it does.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from producer import receipts
from producer.checkpoint.ack_tracker import Ledger
from producer.session.handshake import Agreement, surviving
from shipper import events
from shipper.control import ReceiptsReply
from shipper.errors import SessionLost, ShipperError
from shipper.ports import Publisher

LATE_SECONDS = 30.0
"""From the acknowledgement of a block until its archive is asked for it."""
AT_MOST_SECONDS = 600.0
"""Between two questions, once the answers bring nothing new."""
CLAIM_SECONDS = 5.0
"""From a message about the archive that proves nothing until the collector is asked: one question for many of them."""
MOST_SOURCES = 500
"""In one question, the newest ones."""


class _Sent(NamedTuple):
    """How far a source was acknowledged when the collector was asked."""

    sequence: int
    offset: int


class _Answer(NamedTuple):
    """What was asked, and what the collector and the stream say."""

    asked: Mapping[str, _Sent]
    told: ReceiptsReply | None = None
    stream_holds: bool = True  #: what it acknowledged, as far as its newest message of this host shows
    stream_is_empty: bool = False  #: of messages of this host: what was archived then is all that there is


class Arrival:
    """Asks now and then for what is acknowledged and not archived. Owned by the pipeline."""

    def __init__(
        self,
        subject: str,
        host: str,
        partition: int,
        *,
        rouse: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._subject = subject
        self._host, self._partition = host, partition
        self._rouse = rouse
        self._clock = clock
        self._every = LATE_SECONDS
        self._next_at = clock() + LATE_SECONDS
        self._sent_at: dict[str, float] = {}  # when this process had the last word that a source was stored
        self._unconfirmed: dict[str, int] = {}
        self._claimed: set[str] = set()
        self._sent_again: dict[str, int] = {}  # from where; what stays away then is no loss of the server's
        self._asking: asyncio.Task[_Answer] | None = None

    @property
    def next_at(self) -> float:
        """Monotonic time when `due` wants to be called."""
        return math.inf if self._asking is not None and not self._asking.done() else self._next_at

    def acknowledged(self, source: str) -> None:
        """A block of `source` is stored."""
        self._sent_at[source] = self._clock()

    def doubt(self, agreed: Agreement) -> None:
        """What a handshake could not find out."""
        self._unconfirmed.update(agreed.unconfirmed)
        for source in agreed.unproven:
            self._sent_at.setdefault(source, -math.inf)
        if agreed.unconfirmed or agreed.unproven:
            self._every = self._next_at = 0.0

    def unproven(self, sources: Iterable[str]) -> None:
        """A message that nobody asked for says that an archive has more of `sources`: ask the collector itself."""
        before = len(self._claimed)
        self._claimed.update(sources)
        if len(self._claimed) > before:
            self._next_at = min(self._next_at, self._clock() + CLAIM_SECONDS)

    def due(self, publisher: Publisher, ledger: Ledger) -> Mapping[str, int]:
        """The sources that are lost on the way, with the byte to go back to; asks without waiting where it must.

        Raises SessionLost: the stream is no longer what it was when the session began.
        """
        if self._asking is not None and self._asking.done():
            asking, self._asking = self._asking, None
            if not asking.cancelled():
                return self._answered(asking.result(), ledger)
        elif self._asking is None and self._clock() >= self._next_at:
            self._every = min(max(2 * self._every, 1.0), AT_MOST_SECONDS)
            self._next_at = self._clock() + self._every
            if asked := self._late(ledger):
                self._asking = asyncio.ensure_future(self._ask(publisher, ledger, asked))
                self._asking.add_done_callback(lambda _: self._rouse())
            else:
                self._every = LATE_SECONDS
        return {}

    def session_ends(self) -> None:
        """Nobody answers any more what was asked in this session."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _late(self, ledger: Ledger) -> dict[str, _Sent]:
        """What should be archived by now."""
        self._sent_at = {id_: at for id_, at in self._sent_at.items() if id_ in ledger.known}
        before = self._clock() - LATE_SECONDS
        late = [
            source
            for source in ledger.known.values()
            if source.id in self._unconfirmed
            or source.id in self._claimed
            or (source.archived < source.offset > source.origin and self._sent_at.get(source.id, 0.0) < before)
        ]
        self._claimed.clear()
        late.sort(key=lambda source: (source.id in self._unconfirmed, source.id in self._sent_at, source.mtime_ns))
        return {source.id: _Sent(source.sequence, source.offset) for source in late[-MOST_SOURCES:]}

    async def _ask(self, publisher: Publisher, ledger: Ledger, asked: Mapping[str, _Sent]) -> _Answer:
        acknowledged = ledger.sequence
        try:
            last = await publisher.last_stored(self._subject)  # first: what is purged by now is archived by now
            told = await receipts.ask(publisher, self._host, self._partition, list(asked))
        except ShipperError:
            return _Answer(asked)  # the session's own calls meet it, too
        if last is None:
            return _Answer(asked, told, stream_is_empty=True)
        return _Answer(asked, told, stream_holds=surviving(last, ledger.known) >= acknowledged)

    def _answered(self, answer: _Answer, ledger: Ledger) -> Mapping[str, int]:
        if not answer.stream_holds:
            raise SessionLost("the stream lost what it acknowledged")
        if answer.told is None:
            return {}
        before = {id_: ledger.known[id_].archives for id_ in answer.asked if id_ in ledger.known}
        ledger.corrected(answer.told, [id_ for id_ in answer.asked if id_ in self._unconfirmed])
        ledger.told(answer.told)
        if any(ledger.known[id_].archives != archives for id_, archives in before.items()):
            self._every = LATE_SECONDS
        lost = self._lost(answer, answer.told, ledger)
        for id_, start in lost.items():
            source, sent = ledger.known[id_], answer.asked[id_]
            events.bytes_not_arrived(file=source.file, source=id_, start=start, end=sent.offset)
        self._sent_again.update(lost)
        for id_ in answer.asked:
            self._unconfirmed.pop(id_, None)
        return lost

    def _lost(self, answer: _Answer, told: ReceiptsReply, ledger: Ledger) -> dict[str, int]:
        """By source: from where it must be sent again."""
        holds = {receipt.source: receipt.watermark for receipt in told.receipts}
        lost = {}
        for id_, sent in answer.asked.items():
            source = ledger.known.get(id_)
            if source is None or (id_ not in holds and id_ not in self._sent_at and id_ not in self._unconfirmed):
                continue  # from before this process, and the collector never heard of it: it may be a new one
            start = max(source.origin, source.archived)
            is_judged = answer.stream_is_empty or 0 < sent.sequence <= told.through
            due = sent.offset if is_judged else self._unconfirmed.get(id_, 0)
            if start < due and self._sent_again.get(id_) != start:
                lost[id_] = start
        return lost
