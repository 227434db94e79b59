"""The handshake at the start of a session: sources go back if the server lost blocks that it had acknowledged.

By default a PubAck does not mean fsync: after a power failure, a restored backup or a recreated stream the server may
have less than the checkpoint. Sending too much is always safe, because the collector drops duplicates.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from producer import receipts
from producer.checkpoint.ack_tracker import AckTracker
from producer.checkpoint.recovery import Recovery
from producer.checkpoint.store import Checkpoints
from producer.migration import Migration
from producer.model import SETTLED, TRUSTED, Destination
from producer.periodic import Scheduler
from producer.session.delivery import Delivery
from shipper import events
from shipper.ports import Publisher


class Agreement(NamedTuple):
    """The result of a handshake."""

    holds: bool  #: False: sources went back durably and must be opened anew; blocks in flight are void
    unconfirmed: Mapping[str, int] = MappingProxyType({})
    """Sources that the stream lost, with the offset up to which an archive had them by its last receipt."""
    unproven: Collection[str] = ()
    """Sources of which the stream may lack blocks without a sign: the newest message is of another producer."""


async def agree(publisher: Publisher, acks: AckTracker, destination: Destination) -> Agreement:
    """Let sources go back to the offset that the server or an archive has."""
    acknowledged, subject = acks.sequence, destination.subject
    last = await publisher.last_stored(subject)
    stored = receipts.surviving(last, acks.known)
    if stored >= acknowledged:
        unproven = [] if receipts.is_known(last, acks.known) else acks.known.values()
        ids = [each.id for each in unproven if each.archived < each.offset]
        return Agreement(holds=True, unconfirmed=_unconfirmed(acks), unproven=ids)
    doubtful = [each.id for each in acks.known.values() if each.ring and not 0 < each.sequence <= stored]
    host, partition, waits = destination.host, destination.partition, receipts.STARTING_SECONDS
    told = await receipts.ask(publisher, host, partition, doubtful, waits=waits)
    if told is not None:
        acks.replace_receipts(told, doubtful)
    # Without a reply a known receipt may be void: the archive may have been restored together with the server. Then the
    # blocks in the stream are the better proof. If the stream is empty, receipts avoid sending everything again.
    is_marked = told is not None or last is None
    before = dict(acks.known)
    archived = {source.id: source.archived if is_marked else source.settled for source in before.values()}
    after = acks.rewind(sequence=stored, archived=archived, as_=TRUSTED if told is None else SETTLED)
    again = sum(before[source.id].offset - source.offset for source in after)
    if again:
        events.server_lost_data(subject=subject, acknowledged=acknowledged, stored=stored, again=again)
    acks.replace(after)
    holds = not again and all(bool(before[source.id].ended_at) == bool(source.ended_at) for source in after)
    return Agreement(holds, _unconfirmed(acks))


def _unconfirmed(acks: AckTracker) -> Mapping[str, int]:
    return {source.id: source.trusted for source in acks.known.values() if source.trusted}


class Handshake:
    """Recovers a lost checkpoint, and agrees with the server on what is stored. Owned by the session factory."""

    def __init__(
        self, checkpoints: Checkpoints, delivery: Delivery, recovery: Recovery, migration: Migration,
        doubt: Callable[[Agreement], None],
    ) -> None:  # fmt: skip
        self._checkpoints = checkpoints
        self._delivery = delivery
        self._recovery = recovery
        self._migration = migration
        self._doubt = doubt  # reports what the handshake could not find out

    async def run(self, session: Publisher, scheduler: Scheduler) -> None:
        """Let sources go back to what server and archive hold. Raises CHECKPOINT_ERRORS, SessionLost, Unavailable."""
        checkpoints, delivery, destination = self._checkpoints, self._delivery, self._migration.destination
        if checkpoints.fresh:  # a checkpoint without sources is either new here, or was lost
            await self._recover(session, scheduler)
            checkpoints.begin_use()
        checkpoints.note_prefix(destination.prefix)
        agreed = await agree(session, delivery.tailer.acks, destination)
        self._doubt(agreed)
        if not agreed.holds:
            delivery.reopen()

    async def _recover(self, session: Publisher, scheduler: Scheduler) -> None:
        delivery = self._delivery
        others = await self._migration.others_with_a_past(session)
        searching = self._recovery.sources(session, delivery.tailer.nameless, others)
        found = await scheduler.run_until(searching, before="the lost checkpoint was recovered")
        self._migration.not_before(self._recovery.left)
        if found:
            proven, nameless = {source.key for source in found}, delivery.tailer.nameless()
            begun = [each for each in delivery.tailer.acks.known.values() if each.id in nameless]
            self._checkpoints.start_over([*(each for each in begun if each.key not in proven), *found])
            delivery.reopen()
