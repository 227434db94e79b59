"""Looking at the fleet over one connection, with a collector's rights, again and again."""

import contextlib
import time
from collections.abc import Iterable

from consumer.fleet.fleet import Fleet, floors_of, partitions_of
from consumer.fleet.state import USUAL, Thresholds
from consumer.fleet.table import Table
from consumer.sharing.entries import FORKED_SECONDS, Claim, Member, forked_since, to_claim, to_member
from shipper.bucket import lease_key, members_of
from shipper.errors import ConfigError, Poison, ShipperError, StreamMissing
from shipper.jetstream.admin import Admin
from shipper.jetstream.beats import Beats, News
from shipper.jetstream.connection import MONITOR_INBOX, Connection, connect_as
from shipper.jetstream.lag import PartitionStatus, Status, status
from shipper.jetstream.leases import JetStreamBucket
from shipper.settings import NatsSettings
from shipper.subjects import parse_log_subject, partition_subjects

LINES_SECONDS = 60.0
"""Between two looks for hosts that send lines and no heartbeats: the server lists every subject for it."""
NO_BEATS = "nobody keeps heartbeats here: fshipper partition apply makes their stream"


class Looking:
    """Looks at the fleet of one prefix, over sessions that may come and go. Owned by one event loop."""

    def __init__(
        self, settings: NatsSettings, prefix: str, *, name: str, limits: Thresholds = USUAL, makes_stream: bool = False
    ) -> None:
        self._settings = settings
        self._prefix = prefix
        self._name = name
        self._table = Table(limits)
        self._may_make = makes_stream
        self._connection: Connection | None = None
        self._beats: Beats | None = None
        self._lines_at = 0.0
        self._last: Fleet | None = None

    async def look(self) -> Fleet:
        """The fleet now.

        Raises:
            ShipperError: the server does not answer, or refuses; the next look begins a new session.
        """
        try:
            return await self._look()
        except BaseException:
            await self.close()
            raise

    async def forget(self, host: str) -> bool:
        """Remove what is known of a host's heartbeats; False: nothing was. Raises as `look`."""
        return await (await self._session()).forget(host)

    async def close(self) -> None:
        """End the session; the next look begins another."""
        connection, self._connection, self._beats = self._connection, None, None
        if connection is not None:
            await connection.close()

    async def _session(self) -> Beats:
        if self._beats is None:
            connection = await connect_as(
                self._settings, name=f"fshipper {self._name}", inboxes=("_INBOX_collector", MONITOR_INBOX)
            )
            self._may_make = self._may_make and not connection.is_monitor
            self._connection, self._beats = connection, Beats(connection, self._prefix)
        return self._beats

    async def _look(self) -> Fleet:
        beats = await self._session()
        assert self._connection is not None  # noqa: S101 - for the type checker; _session sees to it
        admin = Admin(self._connection)
        news = await self._news(beats)
        if news is not None:
            self._table.hear(news)
        found = await status(admin, subject=self._prefix)
        await self._look_for_lines(admin, found.partitions)
        now_ns = news.now_ns if news else time.time_ns()
        claims, doubled = await self._claims(found.partitions)
        self._last = self._fleet(now_ns, found, claims, doubled, () if news else (NO_BEATS,))
        return self._last

    def _fleet(
        self, now_ns: int, found: Status, claims: dict[int, Claim], doubled: int, notes: tuple[str, ...]
    ) -> Fleet:
        at = now_ns / 1e9
        forked = frozenset(host for claim in claims.values() for host in forked_since(claim, at - FORKED_SECONDS))
        hosts = tuple(self._table.hosts(now_ns, forked))
        owners = {number: claim.owner for number, claim in claims.items() if not claim.released}
        partitions = partitions_of(found.partitions, hosts, owners, self._last, at)
        return Fleet(
            at=at,
            hosts=hosts,
            partitions=partitions,
            dead_letters=found.dead_letters,
            dead_letters_full=found.dead_letters_full,
            advisories=found.advisories,
            doubled=doubled,
            notes=notes,
            floors=floors_of(partitions, self._last, at),
        )

    async def _news(self, beats: Beats) -> News | None:
        """The heartbeats since the last look; None: nobody keeps them, and this program may not make it so."""
        try:
            return await beats.look(len(self._table))
        except StreamMissing:
            if not self._may_make:
                return None
        self._may_make = False  # asked once: what is refused now is refused later, and the session may be lost with it
        try:
            await beats.make()
        except ConfigError:
            return None
        return await beats.look()

    async def _look_for_lines(self, admin: Admin, partitions: tuple[PartitionStatus, ...]) -> None:
        if time.monotonic() < self._lines_at:
            return
        hosts: dict[str, int] = {}
        for each in partitions:
            with contextlib.suppress(StreamMissing):
                for subject in await admin.subjects(each.stream, partition_subjects(self._prefix, each.partition)):
                    with contextlib.suppress(Poison):
                        hosts[parse_log_subject(subject).host] = each.partition
        self._table.found_lines(hosts)
        self._lines_at = time.monotonic() + LINES_SECONDS

    async def _claims(self, partitions: tuple[PartitionStatus, ...]) -> tuple[dict[int, Claim], int]:
        """By partition its newest claim, and the bytes that archives hold twice, as collectors say.

        Nothing where there is no bucket.
        """
        assert self._connection is not None  # noqa: S101 - the same
        keys = {lease_key(self._prefix, each.partition): each.partition for each in partitions}
        try:
            entries = await JetStreamBucket(self._connection).entries([*keys, members_of(self._prefix)])
        except (StreamMissing, ShipperError):
            self._connection.check()
            return {}, 0
        claims = {
            keys[key]: claim for key, entry in entries.items() if key in keys and (claim := to_claim(entry.value))
        }
        return claims, _doubled(to_member(entry.value) for key, entry in entries.items() if key not in keys)


def _doubled(members: Iterable[Member | None]) -> int:
    """Each collector of an archive counts all of it."""
    by_archive: dict[str, int] = {}
    for member in members:
        if member is not None and not member.left:
            by_archive[member.archive] = max(member.doubled, by_archive.get(member.archive, 0))
    return sum(by_archive.values())
