"""`fshipper consume` as a process: its runs, from one SIGHUP to the next, and the parts that each run is made of.

From the command to a batch:

run             a run, and the next one after SIGHUP
_run_once       the list of what a run is made of: archive, membership, `OwnedPartitions`, `Collector`, background
Collector       takes and releases partitions (`consumer/cluster`)
OwnedPartition  has one of them: its lease, journal and files, and the worker that it opens
Worker          reads a batch, writes it, syncs, commits the journal, acknowledges (`consumer/pipeline.py`)

`check` is what `fshipper validate --role collector` calls.
"""

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from math import inf

from consumer.archive.directory import (
    ArchiveLocation,
    Layout,
    check_subject,
    journal_directory,
    open_archive,
    unmade_if_refused,
)
from consumer.archive.duplicate_count import DuplicateCount
from consumer.background import BackgroundTasks, partitioner_service
from consumer.cluster.coordinator import ArchiveUsage, Collector
from consumer.cluster.locks import take_name
from consumer.cluster.membership import LocalBucket, Membership
from consumer.cluster.partition_owner import OwnedPartitions, this_process
from consumer.commit.other_partitions import ArchiveSources
from consumer.commit.sink import most_open
from consumer.fleet.page import status_page
from consumer.model import Until
from consumer.partition.pace import RequestedPace
from consumer.pipeline import WorkerParts
from consumer.segments.compaction import Merger
from consumer.segments.day_close import DayCloser
from consumer.segments.retention import Retention
from consumer.segments.sealer import Sealer
from shipper import events, layout
from shipper.errors import BucketRefused, ConfigError, Fatal, StreamMissing
from shipper.http_endpoints import serving
from shipper.jetstream.connection import connect, pages
from shipper.jetstream.kv_bucket import JetStreamBucket
from shipper.jetstream.pull_consumer import ConsumerRecovery, JetStreamInbox
from shipper.jetstream.server_version import OLDEST
from shipper.layout import FileKey
from shipper.lifecycle import Stop, stop_on_signals, supervised
from shipper.partition_map import decode
from shipper.ports import Bucket
from shipper.reload import Plan, ReloadActions, Reloader
from shipper.retry import Patience, SessionGroup, SessionRetry
from shipper.settings import CollectorSettings, Settings
from shipper.subjects import COLLECTOR, map_key, partition_of_stream, stream_name
from shipper.telemetry import print_summary

FIXED = (*("collector.directory", "collector.state", "collector.name"), *("logs.subject", "log.format", "log.level"))
"""Settings that only a restart changes: with another archive, journal, name or subject it would be another collector,
and logging is set up once."""


async def run(settings: Settings, until: Until, *, read: Callable[[], Settings]) -> None:
    """Run a collector until the work is done or a stop is requested. `read` loads the settings again at SIGHUP.

    Raises ConfigError, Fatal, Unavailable: with what to do next.
    """
    stop = Stop()
    actions = ReloadActions(fixed=FIXED, read=read, planned=_plan, reloaded=lambda _: events.collector_reloaded())
    reloading = Reloader(_plan(settings), stop, actions)
    stop_on_signals(stop, reload=reloading.reload if until is Until.STOPPED else None)
    while True:
        stop_run = reloading.begin()
        try:
            with unmade_if_refused(reloading.plan.settings.collector.directory):
                await _run_once(reloading.plan, until, stop_run, has_worked=not reloading.is_first)
        except Fatal as error:
            if not reloading.falls_back(error):
                raise
        else:
            if not reloading.goes_on():
                return


def _plan(settings: Settings) -> Plan[Layout]:
    """Raises ConfigError: the layout of the archive cannot be used."""
    return Plan(settings, layout_of(settings.collector))


async def _run_once(plan: Plan[Layout], until: Until, stop: Stop, *, has_worked: bool) -> None:
    """One run, from the name of the collector to the last partition that is given back."""
    settings, where = plan
    chosen, directory = settings.collector, settings.collector.directory
    archive = open_archive(directory)
    journals = journal_directory(directory, archive, chosen.state)
    check_subject(journals, settings.logs.subject)
    place = ArchiveLocation(where, archive, journals, settings.logs.subject)
    numbers = "-".join(map(str, chosen.read_partitions))
    wanted = chosen.name or (f"{socket.gethostname()}-p{numbers}" if numbers else socket.gethostname())
    name, lock, held = take_name(directory, wanted)
    with held:
        sealer, duplicates = Sealer(directory, collector=name, codec=chosen.codec), DuplicateCount(directory)
        merger = Merger(directory, sealer, below=chosen.merge, most=chosen.segment)
        retention = Retention(
            directory, keep_days=chosen.keep_days, keep_bytes=chosen.keep_bytes, keep_by=chosen.keep_by
        )
        patience = partial(_patience, until, has_worked=has_worked)
        membership = await _membership(settings, name, stop, patience())
        creates_first = until is Until.STOPPED and not chosen.read_partitions
        list_streams = _streams_or_first if creates_first else _streams
        discovery = PartitionDiscovery(settings, where, membership.is_unused, partial(list_streams, settings))
        parts = WorkerParts(
            place=place,
            settings=chosen,
            until=until,
            sealer=sealer,
            pace=RequestedPace(),
            sources=ArchiveSources(place.newest_journals),
            open_files=lambda: max(8, most_open(chosen.open_files, partitions=discovery.count) // discovery.count),
            open_inbox=partial(
                JetStreamInbox.open,
                settings.nats,
                consumer=COLLECTOR,
                name=name,
                batch_bytes=chosen.batch,
                lost=ConsumerRecovery(),
            ),
            patience=partial(patience, SessionGroup()),
        )
        me = this_process(name=name, lock=lock, archive=archive, partitions=tuple(sorted(chosen.read_partitions)))
        owned = OwnedPartitions(parts, membership, me)
        usage = partial(_usage, duplicates, retention)
        collector = Collector(membership, owned, discovery.find, stop, patience(), usage)
        days = DayCloser(directory, sealer, merger, retention)
        background = BackgroundTasks(settings, place, name, days, duplicates, stop)
        async with _watched(collector, settings, name, chosen.listen if until is Until.STOPPED else ""):
            if until is Until.STOPPED:
                async with background.running(collector):
                    await collector.serve()
            else:
                await _drain(collector, background, sealer, style=settings.log.format, stop=stop, until=until)


def _patience(until: Until, group: SessionGroup | None = None, *, has_worked: bool) -> Patience:
    """How long to wait for a server. The workers of one collector share `group`.

    A collector that `has_worked` in an earlier run waits without limit.
    """
    if until is Until.STOPPED:
        return Patience(at_start=inf if has_worked else 10.0, later=inf, group=group)
    return Patience(at_start=5.0, later=60.0)


def _usage(duplicates: DuplicateCount, retention: Retention) -> ArchiveUsage:
    return ArchiveUsage(duplicates.bytes, retention.over_share)


@contextlib.asynccontextmanager
async def _watched(collector: Collector, settings: Settings, name: str, listen: str) -> AsyncIterator[None]:
    """Serve the metrics and pages of a collector, and report its progress to systemd, until the block ends."""
    directory, hidden = settings.collector.directory, events.PRODUCER_METRICS | events.BROWSE_METRICS
    with (
        status_page(settings, listen, name=name, archive=directory, status=collector.status) as pages,
        serving(
            listen,
            ready=lambda: _trouble(collector),
            status=collector.status,
            pages=pages,
            allowed_hosts=settings.collector.allowed_hosts,
            hidden_metrics=hidden,
        ),
    ):
        async with supervised(collector.pulses, lambda: _sentence(collector)):
            yield


async def _drain(
    collector: Collector, background: BackgroundTasks, sealer: Sealer, *, style: str, stop: Stop, until: Until
) -> None:
    """Write everything that is in the streams, and print what that was."""
    began = time.monotonic()
    await collector.drain(lambda: background.close_days(collector))
    if not stop.requested:
        done, seconds = collector.archived, time.monotonic() - began
        hosts = len({host for host, _ in done.files})
        counts = {"host": hosts, "file": len(done.files), "line": done.lines, "byte": done.bytes}
        if until is Until.SEALED:
            counts["segment"] = sealer.sealed
        print_summary("archived", counts, seconds, style=style)


async def _membership(settings: Settings, name: str, stop: Stop, patience: Patience) -> Membership:
    """What the collectors publish about themselves. Without permission for the bucket, only local locks are used.

    Raises Unavailable: no server answers.
    """
    open_bucket: Callable[[], Awaitable[Bucket]] = partial(JetStreamBucket.open, settings.nats, name=name)
    retry = SessionRetry("collector", patience, nap=stop.nap)
    while not stop.requested:
        async with retry.attempt():
            try:
                bucket = await open_bucket()
                await _compare_with_map(bucket, settings)
                await bucket.close()
            except BucketRefused as error:
                events.leases_refused(error=str(error))
                open_bucket = LocalBucket.open
            break
    return Membership(open_bucket, prefix=settings.logs.subject, lease=settings.collector.lease)


async def _compare_with_map(bucket: Bucket, settings: Settings) -> None:
    """Report once, at the start, that SHIPPER_PARTITIONS and the partition map differ."""
    configured, key = settings.logs.partitions, map_key(settings.logs.subject)
    entry = (await bucket.entries([key])).get(key) if configured else None
    known = decode(entry.value) if entry else None
    if known is not None and known.partitions != configured:
        events.collector_follows_map(version=known.version, partitions=known.partitions, configured=configured)


def layout_of(chosen: CollectorSettings) -> Layout:
    """Spark's layout, or the template of SHIPPER_OUTPUT. Raises ConfigError: the template is invalid."""
    if chosen.store == "frames" and chosen.codec == "none":
        raise ConfigError("collector.store is frames, and collector.codec is none", hint="choose zstd or gzip")
    if not layout.is_template(chosen.output):
        return Layout(chosen.directory, frames=chosen.codec if chosen.store == "frames" else "none")
    if chosen.store == "frames":
        raise ConfigError(
            "collector.store is frames, and SHIPPER_OUTPUT (--output) is a template",
            hint="files of a template are plain text: leave collector.store as it is",
        )
    try:
        layout.template_path(chosen.output, SAMPLE, 0)
    except ValueError as error:
        raise ConfigError(f"SHIPPER_OUTPUT (--output): {error}") from None
    return Layout(chosen.directory, chosen.output)


def _trouble(collector: Collector) -> str:
    return collector.trouble or "; ".join(
        f"partition {holding.partition}: {holding.trouble}" for holding in collector.held if holding.trouble
    )


def _sentence(collector: Collector) -> str:
    trouble = _trouble(collector)
    return f"waiting: {trouble}" if trouble else collector.sentence()


def check(settings: Settings) -> Iterator[str]:
    """The checked settings as sentences. Raises ConfigError: the settings contradict each other."""
    where = layout_of(settings.collector)
    yield f"output: {where.template}" if where.template else "output: one directory a day, partition and host"
    chosen = settings.collector.read_partitions
    yield f"partitions {', '.join(map(str, chosen))}" if chosen else "every partition that has a stream"


SAMPLE = FileKey("2026-01-01", 0, "host.example.net", "/var/log/messages")
"""A file to try a template with."""


# -- which partitions a collector reads: the chosen ones, or every one that has a stream ---------------------------


class PartitionDiscovery:
    """Finds the partitions of one collector. `is_unused`: the partition map has no host in a partition any more.

    `streams`: the partitions that have a stream. Raises StreamMissing: there is none.
    """

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        is_unused: Callable[[int], bool],
        streams: Callable[[], Awaitable[list[int]]],
    ) -> None:
        self._settings = settings
        self._streams = streams
        self._layout = layout
        self._is_unused = is_unused
        self._has_checked = False  # whether the chosen partitions have streams
        self.count = 1  #: partitions that were found last, at least 1

    async def find(self) -> list[int]:
        """The chosen partitions, unless they are retired, or else every partition that has a stream.

        Raises StreamMissing: there is no stream. ConfigError: the template is for one partition. Transient: no session.
        """
        found = sorted(self._settings.collector.read_partitions)
        there: list[int] = []
        if found and not self._has_checked:
            with contextlib.suppress(StreamMissing):  # the worker reports it
                there = await self._streams()
            self._has_checked = True
            if missing := sorted(set(found) - set(there)):
                events.partitions_without_stream(missing=missing, there=there)
        if not found or any(map(self._is_unused, found)):
            there = there or await self._streams()
            chosen = found or there
            found = [number for number in chosen if number in there or not self._is_unused(number)]
        check_template(self._layout, found)
        self.count = max(1, len(found))
        return found


async def _streams(settings: Settings) -> list[int]:
    """The partitions that have a stream. Raises StreamMissing: there is none."""
    prefix = settings.logs.subject
    async with await connect(
        settings.nats, name="fshipper consume", inbox="_INBOX_collector", oldest=OLDEST
    ) as connection:
        names = [name async for name in pages(connection.api, "STREAM.NAMES", "streams")]
    found = sorted(n for name in names if (n := partition_of_stream(prefix, name)) is not None)
    if not found:
        raise StreamMissing(
            f"the server has no stream {stream_name(prefix, 0)}, so there is nothing to read",
            hint="create the streams: fshipper partition apply --partitions N",
        )
    return found


async def _streams_or_first(settings: Settings) -> list[int]:
    """As `_streams`, and on an empty server without users the streams are created first."""
    try:
        return await _streams(settings)
    except StreamMissing:
        created = await partitioner_service("first_streams")(settings)
        if not created:
            raise
        events.first_streams_created(partitions=created)
        return await _streams(settings)


def check_template(where: Layout, partitions: list[int]) -> None:
    """Raises ConfigError: with this template two partitions write one file, and each truncates what the other wrote."""
    if where.seals or len(partitions) < 2:  # noqa: PLR2004 - two writers
        return
    other = SAMPLE._replace(partition=1, host="other.example.net")
    if where.path(SAMPLE, 0) == where.path(other, 0):
        raise ConfigError(
            f"SHIPPER_OUTPUT (--output) {where.template!r} names one file for all partitions, each has its own writer",
            hint="put {host} or {partition} into it, or read one partition (--partitions)",
        )
