"""Checks that acknowledged bytes arrive in an archive, and finds bytes that the server lost.

A receipt names the stream sequence up to which the collector has processed everything. If the last block of a source
was acknowledged before that sequence, and the archive lacks bytes of it, the server lost them: the stream was created
anew during a session, or archive and server were restored from a backup. Usually collectors send receipts unsolicited;
only missing ones are requested, with increasing intervals.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from producer import receipts
from producer.checkpoint.ack_tracker import AckTracker
from producer.model import Destination, Entry, Source
from producer.session.delivery import Delivery
from shipper import events
from shipper.control import ReceiptsReply
from shipper.errors import SessionLost, ShipperError
from shipper.periodic import PeriodicRequest
from shipper.ports import Publisher

LATE_SECONDS = 30.0
"""Time after the PubAck of a block until its receipt is requested."""
AT_MOST_SECONDS = 600.0
"""Maximum interval between two requests whose replies contain nothing new."""
CLAIM_SECONDS = 5.0
"""Delay of a request after an unsolicited message that proves nothing: one request for many such messages."""
MOST_SOURCES = 500
"""Sources in one request, the newest ones."""


class _Answer(NamedTuple):
    """The sources of a request, with the reply of the collector and the state of the stream."""

    requested: Mapping[str, Source]  #: as they were at the time of the request
    reply: ReceiptsReply | None = None
    stream_holds: bool = True  #: the acknowledged blocks, as far as the newest message of this host shows
    stream_is_empty: bool = False  #: of messages of this host: the archive has all of them that exist


class DeliveryCheck:
    """Requests receipts for bytes that are acknowledged and not archived, and sends again what the server lost."""

    def __init__(
        self,
        destination: Destination,
        delivery: Delivery,
        *,
        rouse: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._destination = destination
        self._delivery = delivery
        self._clock = clock
        self._request = PeriodicRequest[_Answer](rouse)
        self.next_at = self._request.next_at  #: when the next request is due, or as soon as the reply is there
        self.cancel = self._request.cancel  #: drops the request of a session that has ended
        self._start_over()
        destination.on_move(self._start_over)

    def _start_over(self) -> None:
        """Another partition has another stream and another collector."""
        self._every = LATE_SECONDS
        self._request.cancel()
        self._request.due_at = self._clock() + LATE_SECONDS
        self._sent_at: dict[str, float] = {}  # time of the last PubAck in this process
        self._unconfirmed: dict[str, int] = {}
        self._claimed: set[str] = set()
        self._sent_again: dict[str, int] = {}  # from where; what is missing again was not lost by the server

    def acknowledged(self, entries: Iterable[Entry]) -> None:
        """Blocks are stored."""
        self._sent_at.update(dict.fromkeys((entry.piece.source for entry in entries), self._clock()))

    def doubt(self, unconfirmed: Mapping[str, int], unproven: Collection[str]) -> None:
        """Record what a handshake could not determine.

        `unconfirmed`: sources that the stream lost, with the offset up to which an archive had them by a receipt.
        `unproven`: those of which the stream may lack blocks without a sign: its newest message is of another producer.
        """
        self._unconfirmed.update(unconfirmed)
        for source in unproven:
            self._sent_at.setdefault(source, -math.inf)
        if unconfirmed or unproven:
            self._every = self._request.due_at = 0.0

    def unproven(self, sources: Iterable[str]) -> None:
        """Record that an unsolicited message claims receipts of `sources` without proof: the collector is requested."""
        before = len(self._claimed)
        self._claimed.update(sources)
        if len(self._claimed) > before:
            self._request.due_at = min(self._request.due_at, self._clock() + CLAIM_SECONDS)

    async def run(self, session: Publisher | None) -> None:
        """Send a request if it is due, and send again what was lost.

        Raises SessionLost: the stream is no longer what it was when the session began.
        """
        acks = self._delivery.tailer.acks
        if session is None:
            return
        if (answer := self._request.take()) is not None:
            self._answered(answer, acks)
        elif self._request.is_due(self._clock()):
            self._every = min(max(2 * self._every, 1.0), AT_MOST_SECONDS)
            self._request.due_at = self._clock() + self._every
            if requested := self._late(acks):
                self._request.send(self._ask(session, acks, requested))
            else:
                self._every = LATE_SECONDS

    def _late(self, acks: AckTracker) -> dict[str, Source]:
        """The sources that should be archived by now."""
        self._sent_at = {id_: at for id_, at in self._sent_at.items() if id_ in acks.known}
        before = self._clock() - LATE_SECONDS
        late = [
            source
            for source in acks.known.values()
            if source.id in self._unconfirmed
            or source.id in self._claimed
            or (source.archived < source.offset > source.origin and self._sent_at.get(source.id, 0.0) < before)
        ]
        self._claimed.clear()
        late.sort(key=lambda source: (source.id in self._unconfirmed, source.id in self._sent_at, source.mtime_ns))
        return {source.id: source for source in late[-MOST_SOURCES:]}

    async def _ask(self, publisher: Publisher, acks: AckTracker, requested: Mapping[str, Source]) -> _Answer:
        acknowledged = acks.sequence
        try:
            # The stream first: messages that are purged by now are archived by now.
            last = await publisher.last_stored(self._destination.subject)
            reply = await receipts.ask(publisher, self._destination.host, self._destination.partition, list(requested))
        except ShipperError:
            return _Answer(requested)  # the main loop gets the same error
        if last is None:
            return _Answer(requested, reply, stream_is_empty=True)
        return _Answer(requested, reply, stream_holds=receipts.surviving(last, acks.known) >= acknowledged)

    def _answered(self, answer: _Answer, acks: AckTracker) -> None:
        if not answer.stream_holds:
            raise SessionLost("the stream lost what it acknowledged")
        if answer.reply is None:
            return
        before = {id_: acks.known[id_].archives for id_ in answer.requested if id_ in acks.known}
        acks.replace_receipts(answer.reply, [id_ for id_ in answer.requested if id_ in self._unconfirmed])
        acks.note_receipts(answer.reply)
        if any(acks.known[id_].archives != archives for id_, archives in before.items()):
            self._every = LATE_SECONDS
        lost = self._lost(answer, answer.reply, acks)
        for id_, start in lost.items():
            events.bytes_not_arrived(
                file=acks.known[id_].file, source=id_, start=start, end=answer.requested[id_].offset
            )
            self._delivery.resend(id_, start)
        self._sent_again.update(lost)
        for id_ in answer.requested:
            self._unconfirmed.pop(id_, None)

    def _lost(self, answer: _Answer, reply: ReceiptsReply, acks: AckTracker) -> dict[str, int]:
        """By source: from where it must be sent again."""
        holds = {receipt.source: receipt.watermark for receipt in reply.receipts}
        lost = {}
        for id_, sent in answer.requested.items():
            source = acks.known.get(id_)
            if source is None or (id_ not in holds and id_ not in self._sent_at and id_ not in self._unconfirmed):
                continue  # from before this process, and unknown to the collector, which may be new
            start = max(source.origin, source.archived)
            is_judged = answer.stream_is_empty or 0 < sent.sequence <= reply.through
            due = sent.offset if is_judged else self._unconfirmed.get(id_, 0)
            if start < due and self._sent_again.get(id_) != start:
                lost[id_] = start
        return lost
