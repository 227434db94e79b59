"""`fshipper produce`: settings in, one pipeline out."""

import asyncio
import contextlib
import glob
import math
import os
import resource
from pathlib import Path
from typing import Annotated

import typer

from producer.checkpoints import Checkpoints
from producer.discover import Watched, look
from producer.pipeline import Pipeline
from producer.reading import Following
from producer.tail import Cut
from producer.task import Task
from shipper import events
from shipper.compression import Compressor
from shipper.config import default_host, load
from shipper.errors import ConfigError
from shipper.files import Lock, make_directory
from shipper.jetstream.publisher import JetStreamPublisher
from shipper.lifecycle import Stop, stop_on_signals
from shipper.model import Encoding
from shipper.partitioning import partition_for
from shipper.retry import Patience
from shipper.settings import ProducerSettings, Settings
from shipper.subjects import checked_host, stream_name
from shipper.telemetry import serving, set_up_logging

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def produce(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Files and globs (SHIPPER_FILE)", metavar="[PATH]...")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Ship to the ends of the files, wait for every ack, end")
    ] = False,
    url: Annotated[str | None, typer.Option(help="NATS server, or several with commas (NATS_URL)")] = None,
    host: Annotated[str | None, typer.Option(help="Name of this host (HOSTNAME)")] = None,
    partitions: Annotated[int | None, typer.Option(help="Number of partitions (SHIPPER_PARTITIONS)")] = None,
    subject: Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT)")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Globs of files not to ship (SHIPPER_EXCLUDE)")] = None,
    encoding: Annotated[
        Encoding | None, typer.Option(help="zstd, gzip, identity; plain: a message a line (SHIPPER_ENCODING)")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Directory of the checkpoint (SHIPPER_STATE)")] = None,
    start_at_end: Annotated[
        bool | None, typer.Option("--start-at-end", help="Leave out what files hold at the very first start")
    ] = None,
    block: Annotated[str | None, typer.Option(help="Most bytes of lines in a message (SHIPPER_BLOCK)")] = None,
    window: Annotated[str | None, typer.Option(help="Most bytes in flight (SHIPPER_WINDOW)")] = None,
    poll: Annotated[str | None, typer.Option(help="Look at the files at least this often (SHIPPER_POLL)")] = None,
    no_watch: Annotated[bool, typer.Option("--no-watch", help="Look at intervals only, without notifications")] = False,
    listen: Annotated[
        str | None, typer.Option(help="host:port of /metrics, /healthz, /readyz (SHIPPER_LISTEN)")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Ship log files to the streams: every line once, in order, byte for byte, through kill -9 at any time."""
    settings = load(
        {
            "producer.files": tuple(paths) if paths else None,
            "producer.host": host,
            "producer.exclude": tuple(exclude) if exclude else None,
            "producer.encoding": encoding,
            "producer.state": state,
            "producer.start_at_end": start_at_end,
            "producer.block": block,
            "producer.window": window,
            "producer.poll": poll,
            "producer.watch": False if no_watch else None,
            "producer.listen": listen,
            "logs.partitions": partitions,
            "logs.subject": subject,
            "nats.url": url,
            "log.format": log_format,
            "log.level": log_level,
        },
        config=config,
    )
    set_up_logging(style=settings.log.format, level=settings.log.level)
    run(settings, once=once)


def run(settings: Settings, *, once: bool) -> None:
    """Ship as `settings` say, until stopped or, with `once`, to the ends of the files.

    Raises:
        ConfigError, Fatal, Unavailable: with what to do next.
    """
    host = settings.producer.host or checked_host(default_host())
    watched = _watched(settings.producer, once=once)
    state = _state_directory(settings.producer, host)
    _allow_many_files()
    with Lock(state / "lock", f"the checkpoint of host {host}"):
        checkpoints = Checkpoints(state / "checkpoint.sqlite")
        try:
            asyncio.run(_run(settings, host, watched, checkpoints, once=once))
        finally:
            checkpoints.close()


async def _run(settings: Settings, host: str, watched: Watched, checkpoints: Checkpoints, *, once: bool) -> None:
    task = _task(settings, host, watched, once=once, new=checkpoints.fresh and not checkpoints.damaged)
    stop = Stop()
    stop_on_signals(stop)

    async def begin() -> JetStreamPublisher:
        return await JetStreamPublisher.begin(
            settings.nats,
            stream=stream_name(task.prefix, task.partition),
            host=host,
            block_bytes=settings.producer.block,
        )

    pipeline = Pipeline(task, checkpoints, begin, stop)
    events.producer_started(host=host, subject=task.subject, files=len(look(watched).files))
    with serving("" if once else settings.producer.listen, ready=pipeline.ready, status=pipeline.status):
        await pipeline.run()


def _task(settings: Settings, host: str, watched: Watched, *, once: bool, new: bool) -> Task:
    chosen = settings.producer
    following = Following(
        watched=watched,
        cut=Cut(chosen.block, line_a_piece=chosen.encoding is Encoding.PLAIN),
        start_at_end=chosen.start_at_end and new,
        once=once,
        rotate_wait=chosen.rotate_wait,
    )
    return Task(
        host=host,
        partition=partition_for(host, settings.logs.partitions),
        prefix=settings.logs.subject,
        following=following,
        compressor=Compressor(chosen.encoding),
        window_bytes=chosen.window,
        poll=chosen.poll,
        watch=chosen.watch,
        ack_timeout=chosen.ack_timeout,
        checkpoint_every=chosen.checkpoint_every,
        drain_within=chosen.drain_within,
        patience=Patience(at_start=5.0, later=60.0) if once else Patience(at_start=10.0, later=math.inf),
    )


def _watched(settings: ProducerSettings, *, once: bool) -> Watched:
    """What to ship. Raises ConfigError: nothing is named, a directory is, or with `once` a file cannot be read."""
    if not settings.files:
        raise ConfigError("no file to ship", hint="name files or globs: fshipper produce PATH..., or SHIPPER_FILE")
    watched = Watched.of(settings.files, settings.exclude)
    problems = [problem for pattern in watched.patterns if (problem := _problem(pattern, once=once))]
    if problems:
        raise ConfigError("\n".join(problems))
    return watched


def _problem(pattern: str, *, once: bool) -> str:
    if os.path.isdir(pattern):
        return f"{pattern} is a directory; write '{pattern}/*' for the files in it"
    if once and not glob.has_magic(pattern):
        try:
            os.close(os.open(pattern, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            return f"cannot read {pattern}: {error.strerror}; correct the path or its permissions"
    return ""


def _state_directory(settings: ProducerSettings, host: str) -> Path:
    """Where the checkpoint of `host` lies. Raises ConfigError: it cannot be made or written."""
    base = settings.state or default_state()
    directory = base / "producer" / host
    try:
        make_directory(directory, mode=0o700)
        (directory / "lock").touch(mode=0o600)
    except OSError as error:
        raise ConfigError(
            f"cannot write the state directory {directory}: {error.strerror}",
            hint="set SHIPPER_STATE (--state) to a directory that this user may write",
        ) from None
    return directory


def _allow_many_files() -> None:
    """Every file that is followed stays open; the usual soft limit of 1024 is there for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft != hard else soft, hard))


def default_state() -> Path:
    """`/var/lib/fshipper` for root, the user's state directory else (XDG base directories)."""
    if os.geteuid() == 0:
        return Path("/var/lib/fshipper")
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "fshipper"
