"""`fshipper consume` as a process: its runs, from one SIGHUP to the next, and the parts that each run is made of.

`check` is what `fshipper validate --role collector` calls.
"""

import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
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
from consumer.background import BackgroundTasks
from consumer.cluster.coordinator import ArchiveUsage, Collector
from consumer.cluster.locks import take_name
from consumer.cluster.membership import LocalBucket, Membership
from consumer.cluster.partition_owner import OwnedPartitions, this_process
from consumer.commit.other_partitions import ArchiveSources
from consumer.commit.sink import most_open
from consumer.fleet.page import status_page
from consumer.model import Until
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
    """Run a collector until the work is done or a stop is requested; `read` loads the settings again at SIGHUP.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _CollectorRun:
    """One run of the collector: SIGHUP ends it, and begins the next with other settings."""

    settings: Settings
    until: Until
    place: ArchiveLocation
    name: str
    stop: Stop
    has_worked: bool  #: in an earlier run, so that it waits for a server without limit

    def patience(self, group: SessionGroup | None = None) -> Patience:
        """How long to wait for a server; the workers of one collector share `group`."""
        if self.until is Until.STOPPED:
            return Patience(at_start=inf if self.has_worked else 10.0, later=inf, group=group)
        return Patience(at_start=5.0, later=60.0)


async def _run_once(plan: Plan[Layout], until: Until, stop: Stop, *, has_worked: bool) -> None:
    """One run, from the name of the collector to the last partition that is given back."""
    settings, where = plan
    chosen, archive_path = settings.collector, settings.collector.directory
    archive = open_archive(archive_path)
    journals = journal_directory(archive_path, archive, chosen.state)
    check_subject(journals, settings.logs.subject)
    place = ArchiveLocation(where, archive, journals, settings.logs.subject)
    which = "-".join(map(str, chosen.read_partitions))
    wanted = chosen.name or (f"{socket.gethostname()}-p{which}" if which else socket.gethostname())
    name, lock, held = take_name(archive_path, wanted)
    with held:
        run = _CollectorRun(settings=settings, until=until, place=place, name=name, stop=stop, has_worked=has_worked)
        sealer, duplicates = Sealer(archive_path, collector=name, codec=chosen.codec), DuplicateCount(archive_path)
        merger = Merger(archive_path, sealer, below=chosen.merge, most=chosen.segment)
        retention = Retention(
            archive_path, keep_days=chosen.keep_days, keep_bytes=chosen.keep_bytes, keep_by=chosen.keep_by
        )
        collector = _collector(
            run, await _membership(run), lock, sealer, lambda: ArchiveUsage(duplicates.bytes, retention.over_share)
        )
        days = DayCloser(archive_path, sealer, merger, retention)
        background = BackgroundTasks(settings, place, name, days, duplicates, stop)
        listen = chosen.listen if until is Until.STOPPED else ""
        page = status_page(settings, listen, name=name, archive=archive_path, status=collector.status)
        with (
            page as pages,
            serving(
                listen,
                ready=lambda: _trouble(collector),
                status=collector.status,
                pages=pages,
                allowed_hosts=chosen.allowed_hosts,
                hidden_metrics=events.PRODUCER_METRICS | events.BROWSE_METRICS,
            ),
        ):
            async with supervised(collector.pulses, lambda: _sentence(collector)):
                if until is Until.STOPPED:
                    async with background.running(collector):
                        await collector.serve()
                else:
                    began = time.monotonic()
                    await collector.drain(lambda: background.close_days(collector))
                    if not stop.requested:
                        done, seconds = collector.archived, time.monotonic() - began
                        hosts = len({host for host, _ in done.files})
                        counts = {"host": hosts, "file": len(done.files), "line": done.lines, "byte": done.bytes}
                        if until is Until.SEALED:
                            counts["segment"] = sealer.sealed
                        print_summary("archived", counts, seconds, style=settings.log.format)


async def _membership(run: _CollectorRun) -> Membership:
    """What the collectors publish about themselves. Without permission for the bucket, only local locks are used.

    Raises Unavailable: no server answers.
    """
    open_bucket: Callable[[], Awaitable[Bucket]] = partial(JetStreamBucket.open, run.settings.nats, name=run.name)
    retry = SessionRetry("collector", run.patience(), nap=run.stop.nap)
    while not run.stop.requested:
        async with retry.attempt():
            try:
                bucket = await open_bucket()
                await _compare_with_map(bucket, run)
                await bucket.close()
            except BucketRefused as error:
                events.leases_refused(error=str(error))
                open_bucket = _open_local
            break
    return Membership(open_bucket, prefix=run.place.prefix, lease=run.settings.collector.lease)


async def _compare_with_map(bucket: Bucket, run: _CollectorRun) -> None:
    """Report once, at the start, that SHIPPER_PARTITIONS and the partition map differ."""
    configured, key = run.settings.logs.partitions, map_key(run.place.prefix)
    entry = (await bucket.entries([key])).get(key) if configured else None
    known = decode(entry.value) if entry else None
    if known is not None and known.partitions != configured:
        events.collector_follows_map(version=known.version, partitions=known.partitions, configured=configured)


def _collector(
    run: _CollectorRun, membership: Membership, lock: str, sealer: Sealer, usage: Callable[[], ArchiveUsage]
) -> Collector:
    """The collector, which has no partition yet."""
    chosen = run.settings.collector
    discovery = PartitionDiscovery(run.settings, run.place.layout, membership.is_unused)
    parts = WorkerParts(
        place=run.place,
        settings=chosen,
        until=run.until,
        sealer=sealer,
        sources=ArchiveSources(run.place.newest_journals),
        open_files=lambda: max(8, most_open(chosen.open_files) // discovery.count),
        open_inbox=partial(
            JetStreamInbox.open,
            run.settings.nats,
            consumer=COLLECTOR,
            name=run.name,
            batch_bytes=chosen.batch,
            lost=ConsumerRecovery(),
        ),
        patience=partial(run.patience, SessionGroup()),
    )
    partitions = tuple(sorted(chosen.read_partitions))
    me = this_process(name=run.name, lock=lock, archive=run.place.archive, partitions=partitions)
    owned = OwnedPartitions(parts, membership, me)
    return Collector(membership, owned, discovery.find, run.stop, run.patience(), usage)


async def _open_local() -> Bucket:
    return LocalBucket()


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
    """Finds the partitions of one collector. `is_unused`: the partition map has no host in a partition any more."""

    def __init__(self, settings: Settings, layout: Layout, is_unused: Callable[[int], bool]) -> None:
        self._settings = settings
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
                there = await _streams(self._settings)
            self._has_checked = True
            if missing := sorted(set(found) - set(there)):
                events.partitions_without_stream(missing=missing, there=there)
        if not found or any(map(self._is_unused, found)):
            there = there or await _streams(self._settings)
            chosen = found or there
            found = [number for number in chosen if number in there or not self._is_unused(number)]
        check_template(self._layout, found)
        self.count = max(1, len(found))
        return found


async def _streams(settings: Settings) -> list[int]:
    """The partitions that have a stream. Raises StreamMissing: there is none."""
    prefix = settings.logs.subject
    async with await connect(settings.nats, name="fshipper consume", inbox="_INBOX_collector") as connection:
        names = [name async for name in pages(connection.api, "STREAM.NAMES", "streams")]
    found = sorted(n for name in names if (n := partition_of_stream(prefix, name)) is not None)
    if not found:
        raise StreamMissing(
            f"the server has no stream {stream_name(prefix, 0)}, so there is nothing to read",
            hint="create the streams: fshipper partition apply --partitions N",
        )
    return found


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
