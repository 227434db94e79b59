"""Settings -> one running producer: what to follow, where its state lies, under which name."""

import asyncio
import contextlib
import glob
import math
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from producer.checkpoints import Checkpoints
from producer.editing.edits import Edits
from producer.following.handles import file_limit
from producer.following.reading import Following, Order
from producer.inputs.chosen import files_of, inputs_of, is_any, with_spools
from producer.inputs.lifetime import Inputs
from producer.looking.discover import Watched, look
from producer.reload import Plan, Reloading
from producer.task import Task
from producer.turns import Turns
from shipper import events
from shipper.compression import Compressor
from shipper.config import default_host
from shipper.errors import ConfigError
from shipper.files import Lock, make_directory
from shipper.lifecycle import Stop, stop_on_signals
from shipper.memory import keep_freed_memory
from shipper.model import MAX_BLOCK_BYTES, Encoding
from shipper.partitioning import partition_for
from shipper.retry import Patience
from shipper.scheduling import give_way
from shipper.settings import ProducerSettings, Settings
from shipper.subjects import checked_host
from shipper.supervision import supervised

ONCE_RECOVER_SECONDS = 5.0
"""With `--once` somebody waits."""


def run(settings: Settings, *, once: bool, read: Callable[[], Settings]) -> None:
    """Ship as `settings` say, until stopped or, with `once`, to the ends of the files; `read` loads them at SIGHUP.

    Raises:
        ConfigError, Fatal, Unavailable: with what to do next.
    """
    host = host_of(settings)
    watched = _watched(settings.producer, once=once)
    state = _state_directory(settings.producer, host)
    _allow_many_files()
    keep_freed_memory()
    give_way()
    with Lock(state / "lock", f"the checkpoint of host {host}"):
        inputs = inputs_of(settings.producer, state / "spool", once=once)
        checkpoints = Checkpoints(state / "checkpoint.sqlite")
        try:
            asyncio.run(_run(settings, host, watched, checkpoints, inputs, once=once, read=read))
        finally:
            checkpoints.close()


async def _run(
    settings: Settings,
    host: str,
    watched: Watched,
    checkpoints: Checkpoints,
    inputs: Inputs,
    *,
    once: bool,
    read: Callable[[], Settings],
) -> None:
    new = checkpoints.fresh and not checkpoints.damaged
    plan = Plan(settings, with_spools(_task(settings, host, watched, once=once, new=new), inputs))
    stop = Stop()
    stop.on_ask(inputs.stop)  # first: what was read until then is shipped before the end
    reloading = Reloading(plan, stop, read=read, planned=lambda wanted: _planned_again(wanted, inputs))
    stop_on_signals(stop, reload=None if once else reloading.reload)
    events.producer_started(host=host, subject=plan.task.subject, files=len(look(watched).files))
    try:
        inputs.start()
        turns = Turns(reloading, checkpoints, inputs)
        async with supervised(turns.pulses, turns.sentence):
            await turns.run()
    finally:
        inputs.close()


def _planned_again(settings: Settings, inputs: Inputs) -> Plan:
    """A plan for a producer that runs already: it has looked before, and no server, however wrong, ends it."""
    plan = planned(settings, once=False, new=False)
    for_ever = Patience(at_start=math.inf, later=math.inf)
    return plan._replace(task=replace(with_spools(plan.task, inputs), patience=for_ever))


def planned(settings: Settings, *, once: bool, new: bool) -> Plan:
    """What a producer would do; `new`: it has no checkpoint yet. Raises ConfigError."""
    watched = _watched(settings.producer, once=once)
    return Plan(settings, _task(settings, host_of(settings), watched, once=once, new=new))


def host_of(settings: Settings) -> str:
    """The name of this host. Raises ConfigError: it has none that can stand in a subject."""
    return settings.producer.host or checked_host(default_host())


def state_path(settings: ProducerSettings, host: str) -> Path:
    """Where the checkpoint of `host` lies."""
    return (settings.state or default_state()) / "producer" / host


def _task(settings: Settings, host: str, watched: Watched, *, once: bool, new: bool) -> Task:
    chosen = settings.producer
    edits = _edits(chosen)
    following = Following(
        watched=watched,
        cut=edits.cut(chosen.block, line_a_piece=chosen.encoding is Encoding.PLAIN),
        start_at_end=chosen.start_at_end and new,
        once=once,
        rotate_wait=chosen.rotate_wait,
        ignore_older=chosen.ignore_older,
        order=Order(chosen.read_order),
        open_files=file_limit(chosen.open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
    return Task(
        host=host,
        partition=partition_for(host, settings.logs.partitions),
        prefix=settings.logs.subject,
        following=following,
        compressor=Compressor(chosen.encoding),
        edits=edits,
        window_bytes=chosen.window,
        poll=chosen.poll,
        watch=chosen.watch,
        ack_timeout=chosen.ack_timeout,
        checkpoint_every=chosen.checkpoint_every,
        drain_within=chosen.drain_within,
        rate=chosen.rate,
        heartbeat=0.0 if once else chosen.heartbeat,
        recover_wait=min(chosen.recover_wait, ONCE_RECOVER_SECONDS) if once else chosen.recover_wait,
        delete_archived=None if once else chosen.delete_archived,
        patience=Patience(at_start=5.0, later=60.0) if once else Patience(at_start=10.0, later=math.inf),
    )


def _edits(settings: ProducerSettings) -> Edits:
    return Edits.of(
        keep_lines=settings.keep_lines,
        drop_lines=settings.drop_lines,
        redact=settings.redact,
        charset=settings.charset,
        labels=settings.labels,
        most_bytes=min(2 * settings.block, MAX_BLOCK_BYTES),
    )


def _watched(settings: ProducerSettings, *, once: bool) -> Watched:
    """What to ship. Raises ConfigError: nothing is named, a directory is, or with `once` a file cannot be read."""
    if not settings.files and not is_any(settings):
        raise ConfigError("no file to ship", hint="name files or globs: fshipper produce PATH..., or SHIPPER_FILE")
    watched = Watched.of(files_of(settings), settings.exclude)
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
    directory = state_path(settings, host)
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
    """The more files stay open, the fewer vanish unread; the usual soft limit of 1024 is for programs with select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft != hard else soft, hard))


def default_state() -> Path:
    """`/var/lib/fshipper` for root, the user's state directory else (XDG base directories)."""
    if os.geteuid() == 0:
        return Path("/var/lib/fshipper")
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "fshipper"
