"""The handshake at the start of a session: sources go back if the server lost blocks that it had acknowledged.

By default a PubAck does not mean fsync: after a power failure, a restored backup or a recreated stream the server may
have less than the checkpoint. Sending too much is always safe, because the collector drops duplicates.
"""

from producer import receipts
from producer.checkpoint.ack_tracker import AckTracker
from producer.checkpoint.recovery import Recovery
from producer.checkpoint.store import Checkpoints
from producer.model import SETTLED, TRUSTED
from producer.scheduler import Scheduler
from producer.session.delivery import Delivery
from producer.session.delivery_check import DeliveryCheck
from producer.session.migration import Migration
from shipper import events
from shipper.model import Stored
from shipper.ports import Publisher


class Handshake:
    """Recovers a lost checkpoint, and agrees with the server on what is stored. Owned by `Sessions`."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        delivery: Delivery,
        recovery: Recovery,
        migration: Migration,
        check: DeliveryCheck,
    ) -> None:
        self._checkpoints = checkpoints
        self._delivery = delivery
        self._recovery = recovery
        self._migration = migration
        self._check = check

    async def run(self, session: Publisher, scheduler: Scheduler) -> None:
        """Let sources go back to what server and archive hold. Raises CHECKPOINT_ERRORS, SessionLost, Unavailable."""
        checkpoints, delivery, destination = self._checkpoints, self._delivery, self._migration.destination
        if checkpoints.fresh:  # a checkpoint without sources is either new here, or was lost
            await self._recover(session, scheduler)
            checkpoints.begin_use()
        checkpoints.note_prefix(destination.prefix)
        acks, holds, unproven = delivery.tailer.acks, True, list[str]()
        acknowledged = acks.sequence
        last = await session.last_stored(destination.subject)
        stored = receipts.surviving(last, acks.known)
        if stored < acknowledged:
            holds = await self._go_back(session, acks, last, stored)
        if not receipts.is_known(last, acks.known) and (stored >= acknowledged or (last and last.is_unread)):
            unproven = [each.id for each in acks.known.values() if each.archived < each.offset]
        self._check.doubt({source.id: source.trusted for source in acks.known.values() if source.trusted}, unproven)
        if not holds:
            delivery.reopen()

    async def _go_back(self, session: Publisher, acks: AckTracker, last: Stored | None, stored: int) -> bool:
        """Let sources go back to the offset that the server or an archive has. The stream holds all up to `stored`.

        False: some went back durably and must be opened anew; blocks in flight are void.
        """
        destination, acknowledged = self._migration.destination, acks.sequence
        host, partition, waits = destination.host, destination.partition, receipts.STARTING_SECONDS
        doubtful = [each.id for each in acks.known.values() if each.ring and not 0 < each.sequence <= stored]
        reply = await receipts.ask(session, host, partition, doubtful, waits=waits)
        if reply is not None:
            acks.replace_receipts(reply, doubtful)
        # Without a reply a known receipt may be void: the archive may have been restored together with the server.
        # Then the blocks in the stream are the better proof. If the stream is empty, receipts avoid sending everything
        # again.
        is_marked = reply is not None or last is None
        before = dict(acks.known)
        archived = {source.id: source.archived if is_marked else source.settled for source in before.values()}
        after = acks.rewind(sequence=stored, archived=archived, as_=TRUSTED if reply is None else SETTLED)
        again = sum(before[source.id].offset - source.offset for source in after)
        if again:
            events.server_lost_data(subject=destination.subject, acknowledged=acknowledged, stored=stored, again=again)
        acks.replace(after)
        return not again and all(bool(before[source.id].ended_at) == bool(source.ended_at) for source in after)

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
