"""`fshipper consume`: settings in, one worker a partition out."""

import asyncio
import contextlib
import datetime as dt
import socket
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from consumer.archive import Layout, check_journal, journal_directory, lock_path, note_journal, open_archive
from consumer.journal import Journal
from consumer.pipeline import Worker
from consumer.seal import Sealer
from consumer.sink import Sink
from consumer.task import Task, Until
from shipper import events, layout
from shipper.config import load
from shipper.errors import ConfigError, StreamMissing, Transient, Unavailable, UsageError
from shipper.files import Lock
from shipper.jetstream.connection import connect
from shipper.jetstream.inbox import JetStreamInbox, stream_names
from shipper.layout import FileKey
from shipper.lifecycle import Stop, stop_on_signals
from shipper.retry import SESSION, Patience
from shipper.settings import CollectorSettings, Settings
from shipper.subjects import COLLECTOR, partition_of_stream, stream_name
from shipper.telemetry import serving, set_up_logging

app = typer.Typer(add_completion=False, rich_markup_mode=None)
CLOSE_DAYS_SECONDS = 10.0
SAMPLE = FileKey("2026-01-01", 0, "host.example.net", "/var/log/messages")


@app.command()
def consume(
    drain: Annotated[bool, typer.Option("--drain", help="Write everything that is in the streams, then end")] = False,
    seal: Annotated[bool, typer.Option("--seal", help="With --drain: seal what is open, so a report can run")] = False,
    directory: Annotated[Path | None, typer.Option(help="The archive (SHIPPER_DIRECTORY)")] = None,
    read_partitions: Annotated[
        str | None, typer.Option("--partitions", help="Only these, as 0,2 or 0-3 (SHIPPER_READ_PARTITIONS)")
    ] = None,
    output: Annotated[str | None, typer.Option(help="File of plain messages, or a template (SHIPPER_OUTPUT)")] = None,
    url: Annotated[str | None, typer.Option(help="NATS server, or several with commas (NATS_URL)")] = None,
    subject: Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT)")] = None,
    name: Annotated[str | None, typer.Option(help="Name of this collector in manifests (SHIPPER_COLLECTOR)")] = None,
    state: Annotated[Path | None, typer.Option(help="Directory of the journals (SHIPPER_STATE)")] = None,
    codec: Annotated[str | None, typer.Option(help="zstd, gzip or none for sealed segments (SHIPPER_CODEC)")] = None,
    listen: Annotated[
        str | None, typer.Option(help="host:port of /metrics, /healthz, /readyz (SHIPPER_LISTEN)")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Write what is in the streams to one file a host and log file: nothing lost, nothing twice, in order."""
    if seal and not drain:
        raise UsageError("--seal goes with --drain", hint="a collector that runs on seals by itself")
    settings = load(
        {
            "collector.directory": directory,
            "collector.read_partitions": read_partitions,
            "collector.output": output,
            "collector.name": name,
            "collector.state": state,
            "collector.codec": codec,
            "collector.listen": listen,
            "logs.subject": subject,
            "nats.url": url,
            "log.format": log_format,
            "log.level": log_level,
        },
        config=config,
    )
    set_up_logging(style=settings.log.format, level=settings.log.level)
    until = (Until.SEALED if seal else Until.DRAINED) if drain else Until.STOPPED
    asyncio.run(run(settings, until))


async def run(settings: Settings, until: Until) -> None:
    """Write as `settings` say, until the work is done or somebody asks to stop.

    Raises:
        ConfigError, Fatal, Unavailable: with what to do next.
    """
    chosen = settings.collector
    where = _layout(chosen)
    identity = open_archive(chosen.directory)
    journals = journal_directory(chosen.directory, identity, chosen.state)
    stop = Stop()
    stop_on_signals(stop)
    partitions = await _partitions(settings, _patience(until), stop)
    _check_template(where, partitions)
    sealer = Sealer(chosen.directory, collector=_name(chosen), codec=chosen.codec)
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(_worker(settings, partition, len(partitions), journals, sealer, where, until, stop))
            for partition in partitions
        ]
        events.collector_started(directory=str(chosen.directory), partitions=partitions)
        listen = chosen.listen if until is Until.STOPPED else ""
        with serving(listen, ready=lambda: _trouble(workers), status=lambda: _status(workers)):
            await _serve(workers, sealer, stop)


async def _serve(workers: list[Worker], sealer: Sealer, stop: Stop) -> None:
    """Run every worker; the first that fails stops all, and its error is the program's."""

    async def guarded(worker: Worker) -> None:
        try:
            await worker.run()
        except BaseException:
            stop.ask()
            raise

    closing = asyncio.create_task(_close_days(workers, sealer, stop))
    outcomes = await asyncio.gather(*map(guarded, workers), return_exceptions=True)
    _close_past_days(workers, sealer)
    closing.cancel()
    events.drained(program="collector", left=sum(status["pending"] for status in map(Worker.status, workers)))
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def _close_days(workers: list[Worker], sealer: Sealer, stop: Stop) -> None:
    while not stop.asked:
        _close_past_days(workers, sealer)
        await stop.nap(CLOSE_DAYS_SECONDS)


def _close_past_days(workers: list[Worker], sealer: Sealer) -> None:
    today = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
    for date in sealer.dates():
        if date < today and all(worker.is_past(date) for worker in workers):
            sealer.close_day(date)


@contextlib.contextmanager
def _worker(
    settings: Settings, partition: int, workers: int, journals: Path, sealer: Sealer, where: Layout, until: Until,
    stop: Stop,
) -> Iterator[Worker]:  # fmt: skip
    """The worker of `partition`, with the lock that makes it the only writer on this machine."""
    chosen, prefix = settings.collector, settings.logs.subject
    path = journals / f"{prefix}.p{partition}.sqlite"
    what = f"partition {partition} of the archive {chosen.directory}"
    with Lock(lock_path(chosen.directory, partition), what), Lock(path.with_suffix(".lock"), what):
        check_journal(chosen.directory, path, partition)
        journal = Journal(path)
        note_journal(chosen.directory, partition)
        stream = stream_name(prefix, partition)

        async def open_inbox() -> JetStreamInbox:
            return await JetStreamInbox.open(
                settings.nats, stream=stream, consumer=COLLECTOR, name=_name(chosen), batch_bytes=chosen.batch
            )

        task = Task(
            partition=partition,
            stream=stream,
            output=chosen.output if where.seals else "messages.log",
            until=until,
            batch_bytes=chosen.batch,
            segment_bytes=chosen.segment,
            idle_seal=chosen.idle_seal,
            replay_window=chosen.replay_window,
            hole_patience=chosen.hole_patience,
            hole_limit=chosen.hole_limit,
            receipt_every=chosen.receipt_every,
        )
        sink = Sink(chosen.directory, open_files=max(8, chosen.open_files // workers), links=where.seals)
        worker = Worker(task, journal, sink, sealer, where, open_inbox, stop, _patience(until))
        try:
            yield worker
        finally:
            worker.close()


async def _partitions(settings: Settings, patience: Patience, stop: Stop) -> list[int]:
    """The partitions to read: the chosen ones, else every stream that there is.

    Raises:
        Unavailable: no server answers, or it has no stream to read.
    """
    if settings.collector.read_partitions:
        return sorted(settings.collector.read_partitions)
    while not stop.asked:
        try:
            return await _found_partitions(settings)
        except (Transient, Unavailable) as error:
            delay = patience.after(error, SESSION)
            events.session_ended(program="collector", error=str(error), hint=error.hint, retry_in=delay)
            await stop.nap(delay)
    return []


async def _found_partitions(settings: Settings) -> list[int]:
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


def _layout(chosen: CollectorSettings) -> Layout:
    """Spark's layout, or the template of SHIPPER_OUTPUT. Raises ConfigError: the template leads astray."""
    if not layout.is_template(chosen.output):
        return Layout(chosen.directory)
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


def _name(chosen: CollectorSettings) -> str:
    """This collector's name in manifests: its own on each machine, and for each choice of partitions."""
    if chosen.name:
        return chosen.name
    which = "-".join(map(str, chosen.read_partitions))
    return f"{socket.gethostname()}-p{which}" if which else socket.gethostname()


def _patience(until: Until) -> Patience:
    if until is Until.STOPPED:
        return Patience(at_start=10.0, later=inf)
    return Patience(at_start=5.0, later=60.0)


def _trouble(workers: list[Worker]) -> str:
    return "; ".join(f"partition {w.status()['partition']}: {w.trouble}" for w in workers if w.trouble)


def _status(workers: list[Worker]) -> dict[str, Any]:
    return {"partitions": [worker.status() for worker in workers]}
