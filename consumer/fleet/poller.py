"""Reads the state of the fleet periodically over one connection, with a collector's permissions.

A collector does so in a separate thread with a separate connection, for its status page and its metrics. The result is
a value that other threads read, so neither delays the other.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from consumer.cluster.membership import FORKED_SECONDS, Member, forked_since, to_claim, to_member
from consumer.disk_space import Disk, disk_of
from consumer.fleet.causes import SILENT_LEASES, SILENT_SECONDS, CollectorSign, sign_of
from consumer.fleet.host_table import USUAL, HostState, HostTable, Thresholds, counts
from consumer.fleet.snapshot import Fleet, floors_of, partitions_of
from shipper import events
from shipper.errors import ConfigError, Poison, ShipperError, StreamMissing
from shipper.jetstream.admin import Admin
from shipper.jetstream.connection import MONITOR_INBOX, Connection, connect_as
from shipper.jetstream.direct_get import direct_batch
from shipper.jetstream.heartbeat_stream import HeartbeatReader, HeartbeatUpdate
from shipper.jetstream.kv_bucket import JetStreamBucket
from shipper.jetstream.stream_status import DurabilityReader, PartitionStatus, status
from shipper.settings import NatsSettings
from shipper.subjects import lease_key, members_of, parse_log_subject, partition_subjects

LINES_SECONDS = 60.0
"""Seconds between two searches for hosts without heartbeats: the server lists every subject for it."""
NO_BEATS = "the server has no stream of heartbeats: fshipper partition apply creates it"


MOST_LAST_LINES = 50
"""Maximum messages that are read at a time to find when the last line of a host came: each may have 512 KiB."""
LAST_LINE_SECONDS = 5.0


class _HostSubject(NamedTuple):
    """The messages of one host in a stream."""

    stream: str
    subject: str
    messages: int


class FleetPoller:
    """Reads the fleet of one prefix, over sessions that are replaced when they fail. Owned by one event loop."""

    def __init__(
        self, settings: NatsSettings, prefix: str, *, name: str, limits: Thresholds = USUAL, makes_stream: bool = False
    ) -> None:
        self._settings = settings
        self._prefix = prefix
        self._name = name
        self._table = HostTable(limits)
        self._may_make = makes_stream
        self._session: tuple[Connection, HeartbeatReader] | None = None
        self._lines_at = 0.0
        self._durability = DurabilityReader(settings)
        self._last_lines_of: dict[str, _HostSubject] = {}
        self._last: Fleet | None = None

    async def poll(self) -> Fleet:
        """The fleet now.

        Raises:
            ShipperError: the server does not answer, or refuses; the next call begins a new session.
        """
        try:
            return await self._poll()
        except BaseException:
            await self.close()
            raise

    async def forget(self, host: str) -> bool:
        """Remove the stored heartbeats of a host. False means that there were none. Raises as `poll`."""
        _, beats = await self._connected()
        return await beats.forget(host)

    async def connection(self) -> Connection:
        """The connection of the session, which this poller owns. Raises as `poll`."""
        return (await self._connected())[0]

    async def close(self) -> None:
        """End the session. The next call begins another."""
        session, self._session = self._session, None
        if session is not None:
            await session[0].close()

    async def _connected(self) -> tuple[Connection, HeartbeatReader]:
        if self._session is None:
            connection = await connect_as(
                self._settings, name=f"fshipper {self._name}", inboxes=("_INBOX_collector", MONITOR_INBOX)
            )
            self._may_make = self._may_make and not connection.is_monitor
            self._session = connection, HeartbeatReader(connection, self._prefix)
        return self._session

    async def _poll(self) -> Fleet:
        connection, beats = await self._connected()
        admin = Admin(connection)
        news = await self._news(beats)
        if news is not None:
            self._table.update(news)
        found = await status(admin, subject=self._prefix)
        await self._check_lines(connection, admin, found.partitions)
        now_ns = news.now_ns if news else time.time_ns()
        collectors = await self._collectors(connection, found.partitions, now_ns)
        at = now_ns / 1e9
        hosts = tuple(self._table.hosts(now_ns, collectors.forked if collectors else ()))
        partitions = partitions_of(found.partitions, hosts, collectors and collectors.signs, self._last, at)
        self._last = Fleet(
            at=at,
            hosts=hosts,
            partitions=partitions,
            dead_letters=found.dead_letters,
            dead_letters_full=found.dead_letters_full,
            advisories=found.advisories,
            doubled=collectors.doubled if collectors else 0,
            durability=await self._durability.read(connection, found),
            notes=() if news else (NO_BEATS,),
            floors=floors_of(partitions, self._last, at),
        )
        return self._last

    async def _news(self, beats: HeartbeatReader) -> HeartbeatUpdate | None:
        """The heartbeats since the last call.

        None: this program may not create their stream.
        """
        try:
            return await beats.poll(len(self._table))
        except StreamMissing:
            if not self._may_make:
                return None
        self._may_make = False  # one attempt: a refusal is permanent, and the session may be lost with it
        try:
            await beats.make()
        except ConfigError:
            return None
        return await beats.poll()

    async def _check_lines(self, connection: Connection, admin: Admin, partitions: tuple[PartitionStatus, ...]) -> None:
        if time.monotonic() < self._lines_at:
            return
        hosts: dict[str, int] = {}
        found: dict[str, _HostSubject] = {}
        for each in partitions:
            with contextlib.suppress(StreamMissing):
                counts = await admin.subjects(each.stream, partition_subjects(self._prefix, each.partition))
                for subject, messages in counts.items():
                    with contextlib.suppress(Poison):
                        host = parse_log_subject(subject).host
                        hosts[host] = each.partition
                        found[host] = _HostSubject(each.stream, subject, messages)
        self._table.lines = hosts
        self._lines_at = time.monotonic() + LINES_SECONDS
        await self._find_last_lines(connection, found)

    async def _find_last_lines(self, connection: Connection, found: Mapping[str, "_HostSubject"]) -> None:
        """The times of the last lines of hosts whose heartbeats do not show it, and of which there is news."""
        wanted = [host for host in self._table.hosts_without_time() if self._last_lines_of.get(host) != found[host]]
        times = {host: at for host, at in self._table.last_lines.items() if host in found}
        by_stream: dict[str, dict[str, str]] = {}
        for host in wanted[:MOST_LAST_LINES]:
            by_stream.setdefault(found[host].stream, {})[found[host].subject] = host
        for stream, hosts in by_stream.items():
            with contextlib.suppress(ShipperError):
                what = {"multi_last": list(hosts)}
                for stored in await direct_batch(connection, stream, what, within=LAST_LINE_SECONDS):
                    host = hosts[stored.subject]
                    times[host], self._last_lines_of[host] = stored.time_ns, found[host]
            connection.check()
        self._table.last_lines = times

    async def _collectors(
        self, connection: Connection, partitions: tuple[PartitionStatus, ...], now_ns: int
    ) -> "_Collectors | None":
        """What the collectors publish. None means that it cannot be read."""
        keys = {lease_key(self._prefix, each.partition): each.partition for each in partitions}
        try:
            entries = await JetStreamBucket(connection).entries([*keys, members_of(self._prefix)])
        except StreamMissing:  # so no collector ever used one
            return _Collectors({}, set(), 0)
        except ShipperError:
            connection.check()
            return None
        members = {
            key: member for key, entry in entries.items() if key not in keys and (member := to_member(entry.value))
        }
        live = [
            member
            for key, member in members.items()
            if not member.left
            and now_ns - entries[key].time_ns < 1e9 * max(SILENT_SECONDS, SILENT_LEASES * member.lease_seconds)
        ]
        claims = {
            keys[key]: (claim, entry.time_ns)
            for key, entry in entries.items()
            if key in keys and (claim := to_claim(entry.value))
        }
        return _Collectors(
            signs={number: sign_of(claim, at_ns, now_ns, live) for number, (claim, at_ns) in claims.items()},
            forked={
                host for claim, _ in claims.values() for host in forked_since(claim, now_ns / 1e9 - FORKED_SECONDS)
            },
            doubled=_doubled(members.values()),
        )


class _Collectors(NamedTuple):
    """What the collectors publish."""

    signs: dict[int, CollectorSign]  #: by partition
    forked: set[str]  #: hosts of which two producers continue a source
    doubled: int  #: bytes that archives hold twice


def _doubled(members: Iterable[Member | None]) -> int:
    """The sum over archives. Each collector of an archive counts all of it."""
    by_archive: dict[str, int] = {}
    for member in members:
        if member is not None and not member.left:
            by_archive[member.archive] = max(member.doubled, by_archive.get(member.archive, 0))
    return sum(by_archive.values())


SEEN_SECONDS = 2.0
"""Seconds between two snapshots while the page is open."""
UNSEEN_SECONDS = 10.0
"""Seconds between two snapshots for the metrics."""
HISTORY_SECONDS = 5.0
"""Seconds between two points of the history."""
MOST_HISTORY = 120
POLL_SECONDS = 15.0
"""Time limit of one snapshot, in seconds: a server that does not answer is reported."""
END_SECONDS = 5.0


class FleetSample(NamedTuple):
    """The totals of the fleet at one moment, for a curve."""

    at: float  #: seconds since 1970
    rate: int  #: bytes of lines a second
    lag: int  #: messages


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The last snapshot, and the result of the last attempt."""

    number: int = 0  #: grows with each attempt
    at: float = 0.0  #: seconds since 1970 of the attempt, by this machine's clock
    fleet: Fleet | None = None  #: the last successful snapshot
    fleet_at: float = 0.0  #: seconds since 1970 of that snapshot
    trouble: str = ""  #: why the last attempt found nothing
    disk: Disk | None = None
    history: tuple[FleetSample, ...] = ()  #: the last minutes, oldest first


class FleetWatcher:
    """Polls the fleet in a separate thread. `view`, `ended` and `wait` may be used from any thread."""

    def __init__(self, poller: FleetPoller, archive: Path) -> None:
        self._poller = poller  # used by the thread only
        self._archive = archive
        self._changed = threading.Condition()
        self.view = FleetView()  #: the current view
        self.ended = False  #: whether polling has ended
        self._watchers = 0
        self._partitions: set[int] = set()  # that the metrics name
        self._durability = ""  # as the log has named it last
        self._top_hosts: dict[int, str] = {}  # by partition, as the log has named them
        self._hurry, self._over = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="fleet", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Stop the thread. Waiting callers return."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()
        self._rouse(self._over)
        self._thread.join(END_SECONDS)

    def wait(self, number: int, within: float) -> FleetView:
        """The first view with another number than `number`, or the current one after `within` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or self.view.number != number, within)
            return self.view

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Poll more often inside the block, because the page is open."""
        with self._changed:
            self._watchers += 1
        self._rouse(self._hurry)
        try:
            yield
        finally:
            with self._changed:
                self._watchers -= 1

    def _rouse(self, event: asyncio.Event) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(event.set)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            while not self.ended:
                began = time.monotonic()
                await self._attempt()
                await self._rest(began)
        finally:
            await self._poller.close()

    async def _attempt(self) -> None:
        fleet, trouble = None, ""
        try:
            async with asyncio.timeout(POLL_SECONDS):
                fleet = await self._poller.poll()
        except TimeoutError:
            trouble = f"the server did not answer within {POLL_SECONDS:.0f} s"
        except ShipperError as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001 - the page says it; writing goes on whatever is wrong here
            trouble = f"{type(error).__name__}: {error}"
        if trouble:
            events.fleet_not_seen(error=trouble)
        elif fleet is not None:
            self._measure(fleet)
        self._show(fleet, trouble, await asyncio.to_thread(self._disk))

    def _measure(self, fleet: Fleet) -> None:
        living = [host.beat for host in fleet.hosts if host.beat and host.state is not HostState.DEAD]
        events.fleet_seen(
            states={str(state): count for state, count in counts(fleet.hosts).items()},
            backlog=sum(beat.backlog for beat in living),
            backlog_age=max((beat.backlog_age for beat in living if beat.backlog), default=0.0),
        )
        for each in fleet.partitions:
            found = each.status
            filled, top_ratio = (found.percent_full or 0.0) / 100, (found.top_host_percent or 0.0) / 100
            events.partition_seen(
                partition=found.partition,
                lag=found.messages if found.lag is None else found.lag,
                filled=filled,
                top_host_ratio=top_ratio,
                collectors=1 if found.waiting or each.read_rate else 0,  # a lease may outlive its holder
            )
            if found.top_host and self._top_hosts.get(found.partition) != found.top_host:
                events.stream_crowded(
                    partition=found.partition, host=found.top_host, of_messages=top_ratio, filled=filled
                )
        self._report_durability(fleet)
        self._top_hosts = {each.status.partition: each.status.top_host for each in fleet.partitions}
        partitions = {each.status.partition for each in fleet.partitions}
        events.partitions_gone(partitions=self._partitions - partitions)
        self._partitions = partitions

    def _report_durability(self, fleet: Fleet) -> None:
        """Log a risk when it is new."""
        found = fleet.durability
        if found is not None and found.verdict != self._durability:
            self._durability = found.verdict
            if found.is_at_risk:
                events.durability_at_risk(text=found.text, hint=found.hint)

    def _show(self, fleet: Fleet | None, trouble: str, disk: Disk | None) -> None:
        now, before, history = time.time(), self.view, self.view.history
        if fleet is not None and not (history and now - history[-1].at < HISTORY_SECONDS):
            history = (*history, FleetSample(round(now, 1), round(fleet.rate), fleet.lag))[-MOST_HISTORY:]
        view = FleetView(
            number=before.number + 1,
            at=now,
            fleet=fleet or before.fleet,
            fleet_at=now if fleet else before.fleet_at,
            trouble=trouble,
            disk=disk,
            history=history,
        )
        with self._changed:
            self.view = view
            self._changed.notify_all()

    async def _rest(self, began: float) -> None:
        """Seconds until the next snapshot: polling takes at most 10 % of the time, 3 % while no page is open."""
        took = time.monotonic() - began
        least = max(SEEN_SECONDS, 10 * took) - took
        unseen = max(UNSEEN_SECONDS, 30 * took) - took
        await _either(self._over, least)
        self._hurry.clear()
        if not (self._watchers or self._over.is_set()):
            await _either(self._over, unseen - least, self._hurry)

    def _disk(self) -> Disk | None:
        found = disk_of(self._archive)
        if found is not None:
            events.archive_measured(size=found.size, free=found.free)
        return found


async def _either(event: asyncio.Event, within: float, *others: asyncio.Event) -> None:
    """Return when one of the events is set, or after `within` seconds."""
    waiting = [asyncio.ensure_future(each.wait()) for each in (event, *others)]
    await asyncio.wait(waiting, timeout=max(0.0, within), return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
