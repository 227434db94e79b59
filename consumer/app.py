"""The life of a collector: take a name, find out who else lives, write, give everything back.

Whether a collector can work with its settings: asked by `fshipper validate --role collector`.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from math import inf

from consumer.archive import Layout, check_subject, journal_directory, open_archive
from consumer.audit.count_duplicates import DuplicateCount
from consumer.cluster.coordinator import Collector
from consumer.cluster.locks import Place, dead_names, take_name
from consumer.cluster.membership import LocalBucket, Registry
from consumer.cluster.partition_owner import Holdings, Outfit, this_process
from consumer.cluster.retired_partitions import Retired
from consumer.commit.other_partitions import ArchiveSources
from consumer.commit.sink import most_open
from consumer.options import Task, Until
from consumer.page.server import status_page
from consumer.pipeline import OpenInbox
from consumer.segments.day_close import Days
from consumer.segments.sealer import Sealer
from shipper import events, layout
from shipper.bucket import map_key
from shipper.errors import (
    BucketRefused,
    ConfigError,
    Fatal,
    ShipperError,
    StreamMissing,
)
from shipper.http_endpoints import serving
from shipper.jetstream.connection import connect
from shipper.jetstream.kv_bucket import JetStreamBucket
from shipper.jetstream.pull_consumer import JetStreamInbox, LostConsumers, stream_names
from shipper.layout import FileKey
from shipper.lifecycle import Stop, stop_on_signals
from shipper.partition_map import decode
from shipper.ports import Bucket
from shipper.reload import Plan, Reloader
from shipper.retry import Company, Patience
from shipper.session_retry import SessionRetry
from shipper.settings import CollectorSettings, Settings
from shipper.subjects import COLLECTOR, control_up, partition_of_stream, stream_name
from shipper.telemetry import print_summary
from shipper.watchdog import supervised

TEND_SECONDS = 10.0
ANSWER_AGAIN_SECONDS = 2.0
SERVICES = "fshipper.services"
SAMPLE = FileKey("2026-01-01", 0, "host.example.net", "/var/log/messages")


FIXED = (
    *("collector.directory", "collector.state", "collector.name"),
    *("logs.subject", "log.format", "log.level"),
)
"""Settings that only a restart changes: with another archive, journal, name or subject it is another collector. The log
is set up once."""


async def run(settings: Settings, until: Until, *, read: Callable[[], Settings]) -> None:
    """Write as `settings` say, until the work is done or somebody asks to stop; `read` loads them at SIGHUP.

    Raises:
        ConfigError, Fatal, Unavailable: with what to do next.
    """
    stop = Stop()
    reloading = Reloader(
        _plan(settings), stop, fixed=FIXED, read=read, planned=_plan, reloaded=lambda _: events.collector_reloaded()
    )
    stop_on_signals(stop, reload=reloading.reload if until is Until.STOPPED else None)
    while True:
        life = reloading.begin()
        try:
            await _live(reloading.plan, until, life, for_ever=not reloading.is_first)
        except Fatal as error:
            if not reloading.falls_back(error):
                raise
        else:
            if not reloading.goes_on():
                return


def _plan(settings: Settings) -> Plan[Layout]:
    """Raises ConfigError: the layout of the archive cannot be used."""
    return Plan(settings, layout_of(settings.collector))


async def _live(plan: Plan[Layout], until: Until, stop: Stop, *, for_ever: bool) -> None:
    """One life, from the name to the last partition that is given back."""
    settings, where = plan
    chosen = settings.collector
    archive = open_archive(chosen.directory)
    journals = journal_directory(chosen.directory, archive, chosen.state)
    check_subject(journals, settings.logs.subject)
    place = Place(where, archive, journals, settings.logs.subject)
    with _named(chosen) as (name, lock):
        life = _Life(settings, until, place, name, lock, stop, for_ever=for_ever)
        registry = await life.registry()
        collector = life.collector(registry)
        listen = chosen.listen if until is Until.STOPPED else ""
        page = status_page(settings, listen, name=name, archive=chosen.directory, status=collector.status)
        with (
            page as pages,
            serving(
                listen,
                ready=lambda: _trouble(collector),
                status=collector.status,
                pages=pages,
                allowed_hosts=chosen.allowed_hosts,
                hidden_metrics=events.PRODUCER_METRICS,
            ),
        ):
            async with supervised(collector.pulses, lambda: _sentence(collector)):
                await life.live(collector)


class _Life:
    """What the parts of a collector are made of."""

    def __init__(
        self, settings: Settings, until: Until, place: Place, name: str, lock: str, stop: Stop, *, for_ever: bool
    ) -> None:
        self._for_ever = for_ever  # a collector that worked once waits for a server however long it is away
        self._settings = settings
        self._until = until
        self._place = place
        self._name = name
        self._lock = lock
        self._stop = stop
        chosen = settings.collector
        self._sealer = Sealer(place.directory, collector=name, codec=chosen.codec)
        self._days = Days(
            place.directory,
            self._sealer,
            merge=chosen.merge,
            segment=chosen.segment,
            keep_days=chosen.keep_days,
            keep_bytes=chosen.keep_bytes,
            keep_by=chosen.keep_by,
        )
        self._duplicates = DuplicateCount(place.directory)
        self._partitions = 1
        self._told_missing: list[int] | None = None  # chosen partitions without a stream, once that was looked at
        self._workers = Company()
        self._lost_consumers = LostConsumers()
        self._is_unused: Callable[[int], bool] = lambda _: False

    async def registry(self) -> Registry:
        """What the collectors tell each other; where that is refused, everything is left to the locks here.

        Raises:
            Unavailable: no server answers.
        """
        open_bucket = self._open_bucket
        retry = SessionRetry("collector", self._patience(), nap=self._stop.nap)
        while not self._stop.asked:
            async with retry.attempt():
                try:
                    bucket = await open_bucket()
                    await self._compare_with_map(bucket)
                    await bucket.close()
                except BucketRefused as error:
                    events.leases_refused(error=str(error))
                    open_bucket = _open_local
                break
        return Registry(open_bucket, prefix=self._place.prefix, lease=self._settings.collector.lease)

    async def _compare_with_map(self, bucket: Bucket) -> None:
        """Say once at the start where SHIPPER_PARTITIONS disagrees with the partition map."""
        configured, key = self._settings.logs.partitions, map_key(self._place.prefix)
        entry = (await bucket.entries([key])).get(key) if configured else None
        known = decode(entry.value) if entry else None
        if known is not None and known.partitions != configured:
            events.collector_follows_map(version=known.version, partitions=known.partitions, configured=configured)

    def collector(self, registry: Registry) -> Collector:
        """The collector, which holds nothing yet."""
        me = this_process(
            name=self._name,
            lock=self._lock,
            archive=self._place.archive,
            partitions=tuple(sorted(self._settings.collector.read_partitions)),
        )
        outfit = Outfit(
            place=self._place,
            sealer=self._sealer,
            open_files=lambda: max(8, most_open(self._settings.collector.open_files) // self._partitions),
            task=self._task,
            open_inbox=self._open_inbox,
            patience=lambda: self._patience(self._workers),
            sources=ArchiveSources(self._place.newest_journals),
        )
        holdings = Holdings(outfit, registry, me)
        self._is_unused = registry.is_unused
        return Collector(self._place, registry, holdings, me, self._find, self._stop, self._patience(),
                         doubled=lambda: self._duplicates.bytes, over_share=lambda: self._days.over_share)  # fmt: skip

    async def live(self, collector: Collector) -> None:
        """Write until the end, and see to the days that are over beside it."""
        if self._until is not Until.STOPPED:
            began = time.monotonic()
            await collector.drain(lambda: self._tend_once(collector))
            if not self._stop.asked:
                self._sum_up(collector, time.monotonic() - began)
        else:
            beside = [asyncio.create_task(self._tend(collector)), asyncio.create_task(self._answer(collector))]
            if self._place.layout.seals:
                beside.append(asyncio.create_task(self._count_duplicates()))
            if self._settings.collector.serve_partitions:
                beside.append(asyncio.create_task(_serve_partitions(self._settings, self._stop)))
            try:
                await collector.serve()
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.wait(beside)

    def _sum_up(self, collector: Collector, seconds: float) -> None:
        done = collector.archived
        counts = {"host": done.hosts, "file": len(done.files), "line": done.lines, "byte": done.bytes}
        if self._until is Until.SEALED:
            counts["segment"] = self._sealer.sealed
        print_summary("archived", counts, seconds, style=self._settings.log.format)

    async def _tend(self, collector: Collector) -> None:
        while True:
            await self._tend_once(collector)
            await asyncio.sleep(TEND_SECONDS)

    async def _count_duplicates(self) -> None:
        ending = threading.Event()  # a count may take long, and a thread is not cancelled
        try:
            while True:
                try:
                    await asyncio.to_thread(self._duplicates.look, lambda: not (ending.is_set() or self._stop.asked))
                except OSError as error:
                    events.days_failed(error=str(error))
                await asyncio.sleep(self._duplicates.rest)
        finally:
            ending.set()

    async def _answer(self, collector: Collector) -> None:
        """Answer for retired partitions, in one session after the other."""
        retired = Retired(self._place, collector.is_retired)
        while True:
            with contextlib.suppress(ShipperError):
                connection = await connect(
                    self._settings.nats, name=f"fshipper consume {self._name} retired", inbox="_INBOX_collector"
                )
                try:
                    lost = asyncio.Event()
                    connection.on_lost(lost.set)
                    await connection.listen(control_up(">"), retired.heard)
                    await lost.wait()
                finally:
                    await connection.close()
            await asyncio.sleep(ANSWER_AGAIN_SECONDS)

    async def _tend_once(self, collector: Collector) -> None:
        """Close days that are over; under the names of dead collectors too, while nobody can take such a name."""

        def tend() -> None:
            with dead_names(self._place.directory, self._name) as dead:
                self._days.tend(collector.held, lambda: collector.is_sure, dead, everywhere=collector.others_past)

        if self._place.layout.seals:
            await asyncio.to_thread(tend)

    def _task(self, partition: int) -> Task:
        chosen = self._settings.collector
        return Task(
            partition=partition,
            stream=stream_name(self._place.prefix, partition),
            output=chosen.output if self._place.layout.seals else "messages.log",
            until=self._until,
            batch_bytes=chosen.batch,
            segment_bytes=chosen.segment,
            idle_seal=chosen.idle_seal,
            replay_window=chosen.replay_window,
            hole_patience=chosen.hole_patience,
            hole_limit=chosen.hole_limit,
            receipt_every=chosen.receipt_every,
            archive=self._place.archive,
            keep_sources=chosen.keep_sources,
        )

    def _open_inbox(self, partition: int) -> OpenInbox:
        async def open_inbox() -> JetStreamInbox:
            return await JetStreamInbox.open(
                self._settings.nats,
                stream=stream_name(self._place.prefix, partition),
                consumer=COLLECTOR,
                name=self._name,
                batch_bytes=self._settings.collector.batch,
                lost=self._lost_consumers,
            )

        return open_inbox

    async def _open_bucket(self) -> Bucket:
        return await JetStreamBucket.open(self._settings.nats, name=self._name)

    async def _find(self) -> list[int]:
        """The partitions to read: the chosen ones, unless they are retired, else every stream that there is."""
        found = sorted(self._settings.collector.read_partitions)
        there: list[int] = []
        if found and self._told_missing is None:
            with contextlib.suppress(StreamMissing):  # its reader says so
                there = await _streams(self._settings)
            self._told_missing = sorted(set(found) - set(there))
            if self._told_missing:
                events.partitions_without_stream(missing=self._told_missing, there=there)
        if not found or any(map(self._is_unused, found)):
            there = there or await _streams(self._settings)
            chosen = found or there
            found = [number for number in chosen if number in there or not self._is_unused(number)]
        _check_template(self._place.layout, found)
        self._partitions = max(1, len(found))
        return found

    def _patience(self, company: Company | None = None) -> Patience:
        if self._until is Until.STOPPED:
            return Patience(at_start=inf if self._for_ever else 10.0, later=inf, company=company)
        return Patience(at_start=5.0, later=60.0)


async def _serve_partitions(settings: Settings, stop: Stop) -> None:
    """Make streams when producers ask for them: the partitioner's work, which is found by its entry point."""
    (found,) = entry_points(group=SERVICES, name="streams")
    try:
        await found.load()(settings, stop)
    except ShipperError as error:  # the archive is written all the same
        events.stream_refused(partition=None, host="", reason=str(error))


async def _open_local() -> Bucket:
    return LocalBucket()


async def _streams(settings: Settings) -> list[int]:
    """The partitions that have a stream. Raises StreamMissing: none has."""
    prefix = settings.logs.subject
    connection = await connect(settings.nats, name="fshipper consume", inbox="_INBOX_collector")
    try:
        names = await stream_names(connection)
    finally:
        await connection.close()
    found = sorted(n for name in names if (n := partition_of_stream(prefix, name)) is not None)
    if not found:
        raise StreamMissing(
            f"the server has no stream {stream_name(prefix, 0)}, so there is nothing to read",
            hint="create the streams: fshipper partition apply --partitions N",
        )
    return found


def layout_of(chosen: CollectorSettings) -> Layout:
    """Spark's layout, or the template of SHIPPER_OUTPUT. Raises ConfigError: the template leads astray."""
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


def _check_template(where: Layout, partitions: list[int]) -> None:
    """Refuse a template that makes two partitions write one file: each would cut off what the other wrote."""
    if where.seals or len(partitions) < 2:  # noqa: PLR2004 - two writers
        return
    other = SAMPLE._replace(partition=1, host="other.example.net")
    if where.path(SAMPLE, 0) == where.path(other, 0):
        raise ConfigError(
            f"SHIPPER_OUTPUT (--output) {where.template!r} names one file for all partitions, each has its own writer",
            hint="put {host} or {partition} into it, or read one partition (--partitions)",
        )


@contextlib.contextmanager
def _named(chosen: CollectorSettings) -> Iterator[tuple[str, str]]:
    """This collector's name in manifests, and which lock it has on it: its own among all that live on the archive."""
    which = "-".join(map(str, chosen.read_partitions))
    wanted = chosen.name or (f"{socket.gethostname()}-p{which}" if which else socket.gethostname())
    name = take_name(chosen.directory, wanted)
    with name.held:
        yield name.text, name.lock


def _trouble(collector: Collector) -> str:
    return collector.trouble or "; ".join(
        f"partition {holding.partition}: {holding.trouble}" for holding in collector.held if holding.trouble
    )


def _sentence(collector: Collector) -> str:
    trouble = _trouble(collector)
    return f"waiting: {trouble}" if trouble else collector.sentence()


def check(settings: Settings) -> Iterator[str]:
    """What is as it should be, in sentences. Raises ConfigError: the settings contradict each other."""
    where = layout_of(settings.collector)
    yield f"output: {where.template}" if where.template else "output: one directory a day, partition and host"
    chosen = settings.collector.read_partitions
    yield f"partitions {', '.join(map(str, chosen))}" if chosen else "every partition that has a stream"
