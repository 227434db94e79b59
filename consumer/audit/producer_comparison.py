"""Compares the archive with what the producers report of their files: `fshipper audit --hosts`."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.archive.finding import Finding, Kind, Weight
from consumer.archive.journal_snapshot import JournalLocation, JournalSnapshots
from consumer.audit.day_inventory import Scope
from consumer.model import SourceKey
from shipper import heartbeat, partition_map
from shipper.control import MarksReply, MarksRequest, SourceMark
from shipper.errors import ConfigError, ShipperError, StreamMissing
from shipper.jetstream.admin import Admin
from shipper.jetstream.connection import MONITOR_INBOX, Connection, connect_as
from shipper.jetstream.heartbeat_stream import HeartbeatReader
from shipper.jetstream.kv_bucket import JetStreamBucket
from shipper.settings import NatsSettings
from shipper.subjects import checked_host, control_ask, control_down, host_of_beat, map_key, stream_name
from shipper.units import counted, format_bytes

_SILENT = "the server knows this host, the archive has nothing of it, and no producer answers"
ANSWER_SECONDS = 2.0
MAX_PARALLEL_REQUESTS = 64
_LOST_HINT = (
    "restart its producer: at its next session it sends again what the server lost, as far as its files are there"
)
_OLDER_HINT = (
    "was the archive, or its journal, restored from an older copy? the producers still have what is not deleted"
)


@dataclass(frozen=True, slots=True)
class ProducerReports:
    """The replies of producers, then the state of streams."""

    marks: dict[str, tuple[SourceMark, ...] | None]  #: by host; None: no producer answers
    last: dict[JournalLocation, int]  #: the newest sequence that each stream holds, later than every mark; 0: none
    unknown: Mapping[str, int] = field(default_factory=dict)  #: hosts that the archive does not know; their partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class HostComparison:
    """The totals of one host's report."""

    name: str
    answers: bool
    sources: int = 0
    unshipped: int = 0  #: bytes in its files that no server has acknowledged
    waiting: int = 0  #: acknowledged and not archived: in the stream
    missing: int = 0  #: acknowledged, and neither in the stream nor in the archive
    forgotten: int = 0  #: reported as archived, and not in the journal any more

    @property
    def text(self) -> str:
        """The totals as text."""
        if not self.answers:
            return "no producer answers"
        parts = [counted(self.sources, "file")]
        parts += [f"{format_bytes(self.unshipped)} not shipped yet"] if self.unshipped else []
        parts += [f"{format_bytes(self.waiting)} in the stream, not archived yet"] if self.waiting else []
        parts += [f"{format_bytes(self.missing)} MISSING"] if self.missing else []
        parts += [f"{format_bytes(self.forgotten)} REMOVED after they were archived"] if self.forgotten else []
        return ", ".join(parts if len(parts) > 1 else [*parts, "all archived"])


async def ask(
    settings: NatsSettings,
    archive: str,
    scope: Scope,
    hosts: Iterable[str],
    places: Sequence[JournalLocation],
    prefix: str,
) -> ProducerReports:
    """Query every one of `hosts`, and every host that the server knows, then the streams.

    `archive`: the identity of the audited archive, which may have lost all that it had of a host; `prefix`: first token
    of the subjects, which the journals contain, too.

    Raises:
        Unavailable, Fatal, SessionLost: no server, or the session ended.
    """
    request = MarksRequest(archive)
    connection = await connect_as(settings, name="fshipper audit", inboxes=("_INBOX_collector", MONITOR_INBOX))
    async with connection:
        slots = asyncio.Semaphore(MAX_PARALLEL_REQUESTS)
        known = set(hosts)
        prefixes = {prefix, *(place.prefix for place in places)}
        found = {host: at for each in sorted(prefixes) for host, at in (await _on_server(connection, each)).items()}
        unknown = {host: at for host, at in found.items() if host not in known and scope.has_host(host)}
        names = sorted({*known, *unknown})
        marks = await asyncio.gather(*(_marks_of(connection, host, request, slots) for host in names))
        last = await _newest(Admin(connection), places)
        return ProducerReports(dict(zip(names, marks, strict=True)), last, unknown)


def compare(reports: ProducerReports, journals: JournalSnapshots) -> tuple[list[HostComparison], list[Finding]]:
    """The findings from the replies of hosts and the journals, which are read after the replies."""
    held, homes = _held(reports, journals)
    unread = {where for where, place in journals.places.items() if place.resume <= reports.last.get(where, 0)}
    hosts, findings = [], list[Finding]()
    own = {where.partition for where in journals.places}
    for name, marks in reports.marks.items():
        is_foreign = name in reports.unknown and reports.unknown[name] not in own  # another archive has its partition
        if marks is None:
            hosts.append(HostComparison(name=name, answers=False))
            if name in reports.unknown and not is_foreign:
                findings.append(Finding(kind=Kind.PRODUCER, weight=Weight.NOTE, host=name, text=_SILENT))
            continue
        pending = homes[name] in unread if name in homes else bool(unread)
        shortfalls = [_shortfall(mark, held.get(SourceKey(name, mark.source), 0)) for mark in marks if journals.places]
        if is_foreign:
            shortfalls = [each._replace(missing=0) for each in shortfalls]
        missing = sum(each.missing for each in shortfalls)
        hosts.append(
            HostComparison(
                name=name,
                answers=True,
                sources=len(marks),
                unshipped=sum(max(0, mark.size - mark.offset) for mark in marks if not mark.excluded),
                waiting=missing if pending else 0,
                missing=0 if pending else missing,
                forgotten=sum(each.forgotten for each in shortfalls),
            )
        )
        findings += _findings(name, shortfalls, Weight.NOTE if pending else Weight.DAMAGE)
    return hosts, findings


class _Shortfall(NamedTuple):
    """What the archive lacks of what a producer reports."""

    mark: SourceMark
    missing: int  #: bytes that were acknowledged
    forgotten: int  #: bytes that were reported as archived


def _shortfall(mark: SourceMark, watermark: int) -> _Shortfall:
    there = max(watermark, mark.origin, mark.elsewhere)
    return _Shortfall(mark, max(0, mark.offset - there), max(0, mark.archived - there))


def _held(
    reports: ProducerReports, journals: JournalSnapshots
) -> tuple[dict[SourceKey, int], dict[str, JournalLocation]]:
    """How far each source of the queried hosts is archived, and which journal has each host."""
    held: dict[SourceKey, int] = {}
    homes: dict[str, JournalLocation] = {}
    for where, key, watermark in journals.watermarks():
        if key.host in reports.marks:
            held[key], homes[key.host] = max(watermark, held.get(key, 0)), where
    for key, forks in journals.forks():  # of two producers with one source, the archive has a fork for one
        if key.host in reports.marks:
            held[key] = max([held.get(key, 0), *(held.get(SourceKey(key.host, fork), 0) for fork in forks)])
    return held, homes


def _findings(host: str, shortfalls: Sequence[_Shortfall], weight: Weight) -> Iterator[Finding]:
    for mark, missing, forgotten in shortfalls:
        if forgotten:
            text = f"{forgotten:,} bytes of source {mark.source} were reported as archived, and the journal lacks them"
            yield _about(host, mark, text, forgotten, _OLDER_HINT, Weight.DAMAGE)
        if missing and weight is Weight.NOTE:
            text = f"{missing:,} bytes of source {mark.source} are in the stream, not archived yet"
            yield _about(host, mark, text, missing, "", weight)
        elif missing:
            text = f"{missing:,} bytes of source {mark.source} were acknowledged, and are in neither stream nor archive"
            yield _about(host, mark, text, missing, _LOST_HINT, weight)


def _about(host: str, mark: SourceMark, text: str, octets: int, hint: str, weight: Weight) -> Finding:
    return Finding(kind=Kind.PRODUCER, weight=weight, host=host, file=mark.file, text=text, octets=octets, hint=hint)


async def _marks_of(
    connection: Connection, host: str, request: MarksRequest, slots: asyncio.Semaphore
) -> tuple[SourceMark, ...] | None:
    async with slots:
        where = control_ask(host) if connection.is_monitor else control_down(host)
        reply = MarksReply.from_json(await connection.ask(where, request.to_json(), ANSWER_SECONDS))
    return reply.marks if reply else None


async def _on_server(connection: Connection, prefix: str) -> dict[str, int]:
    """The hosts that the server knows, with their partitions: by heartbeats of the last 30 days, and by the map."""
    found: dict[str, int] = {}
    try:
        entry = (await JetStreamBucket(connection).entries([map_key(prefix)])).get(map_key(prefix))
        known = partition_map.decode(entry.value) if entry else None
        found |= known.overrides if known else {}
    except ShipperError:  # there is no bucket, or this user may not read it
        connection.check()
    with contextlib.suppress(StreamMissing):  # no stream of heartbeats
        for stored in (await HeartbeatReader(connection, prefix).poll()).beats:
            with contextlib.suppress(ConfigError):  # no producer accepts such a name
                beat = heartbeat.decode(stored.payload)
                found[checked_host(host_of_beat(stored.subject))] = beat.partition if beat else -1
    return found


async def _newest(admin: Admin, places: Iterable[JournalLocation]) -> dict[JournalLocation, int]:
    found = {}
    for where in places:
        info = await admin.stream(stream_name(where.prefix, where.partition))
        state = info["state"] if info else {"messages": 0}
        found[where] = int(state["last_seq"]) if state["messages"] else 0
    return found
