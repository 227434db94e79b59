"""Runs one producer by its settings: which files, which state directory, which host name.

The process runs one pipeline after another: each SIGHUP ends a pipeline and starts the next.
"""

import asyncio
import contextlib
import glob
import hashlib
import math
import os
import re
import resource
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from producer.checkpoint.store import Checkpoints, acknowledged_sources
from producer.discovery.patterns import prefix_matcher
from producer.discovery.safe_open import Links, NotFollowed
from producer.discovery.scanner import ScanResult, Watched, scan
from producer.discovery.scanner import names as names_of
from producer.fingerprint import Mark
from producer.host_zone import HostZones
from producer.inputs.factory import Inputs, files_of, inputs_of, is_any, named
from producer.inputs.spool import SPOOLS
from producer.options import Following, Order, Task, WhenSilent
from producer.pipeline import Pipeline, pipeline_of
from producer.session.delivery import Shipped
from producer.session.host_name_guard import HostNameGuard, machine_id, this_instance
from producer.tailer.file_reader import file_limit
from producer.tailer.retained_files import Bounds, RetainedFiles
from producer.transform.edits import Edits
from shipper import events
from shipper.compression import Compressor
from shipper.config import default_host
from shipper.durable_files import Lock, LockHeld, LockHolder, private_directory, replace_file
from shipper.errors import ConfigError, Fatal, NothingToShip
from shipper.http_endpoints import serving
from shipper.jetstream.publisher import JetStreamPublisher
from shipper.lifecycle import Pulse, Stop, give_way, keep_freed_memory, stop_on_signals, supervised
from shipper.model import MAX_BLOCK_BYTES, Encoding
from shipper.partition_map import partition_for
from shipper.reload import Plan, ReloadActions, Reloader
from shipper.retry import Patience
from shipper.settings import ProducerSettings, Settings
from shipper.subjects import checked_host, is_everybodys, log_subject, stream_name
from shipper.telemetry import log_names_as, print_summary
from shipper.units import counted, format_bytes


class Producer:
    """One producer process: a pipeline for each plan, one after another, with the same checkpoint, lock and inputs."""

    def __init__(self, reloading: Reloader[Task], checkpoints: Checkpoints, inputs: Inputs) -> None:
        self._reloading = reloading
        self._checkpoints = checkpoints
        self._inputs = inputs
        self._guard = HostNameGuard(
            reloading.plan.task.host, reloading.plan.task.prefix, this_instance(checkpoints.directory)
        )
        self._endpoints = contextlib.ExitStack()
        self._served: tuple[str, tuple[str, ...]] = ("", ())  # address, and the host names that are accepted
        self._retained = RetainedFiles(hands_over=True)
        self._pipeline: Pipeline

    async def run(self) -> Shipped:
        """Ship until stopped, or with `once` all files. Returns what is shipped. Raises Fatal, Unavailable."""
        self._pipeline = self._next(is_first=True)
        with self._endpoints, contextlib.closing(self._retained):
            async with supervised(self._pulses, self._sentence):
                while True:
                    self._serve()
                    try:
                        await self._pipeline.run()
                    except Fatal as error:
                        if not self._reloading.falls_back(error):
                            raise
                    else:
                        if not self._reloading.goes_on():
                            return self._pipeline.delivery.shipped
                    self._pipeline = self._next()

    def _next(self, *, is_first: bool = False) -> Pipeline:
        """The pipeline of the newest plan."""
        stop = self._reloading.begin()
        plan = self._reloading.plan
        log_names_as(plan.task.edits.of_name)
        chosen, following = plan.settings.producer, plan.task.following
        self._retained.bounds = Bounds(chosen.hold, chosen.hold_for, following.open_files)
        # files that appear after the first scan of the process are read from their first byte
        following = replace(following, start_at_end=following.start_at_end and is_first)
        task, connect = replace(plan.task, following=following), partial(self._connect, plan)
        return pipeline_of(task, self._checkpoints, connect, stop, self._inputs, self._guard, self._retained)

    async def _connect(self, plan: Plan[Task], partition: int) -> JetStreamPublisher:
        publisher = await JetStreamPublisher.begin(
            plan.settings.nats,
            stream=stream_name(plan.task.prefix, partition),
            host=plan.task.host,
            block_bytes=plan.task.message_bytes,
        )
        self._reloading.served()
        return publisher

    def _serve(self) -> None:
        """Serve the end points at the address of the plan. They stay open if it did not change."""
        plan = self._reloading.plan
        listen = "" if plan.task.following.once else plan.settings.producer.listen
        names = (*plan.settings.producer.allowed_hosts, plan.task.host)
        if (listen, names) != self._served:
            self._endpoints.close()
            served = serving(
                listen,
                ready=self._ready,
                status=self._status,
                allowed_hosts=names,
                hidden_metrics=events.COLLECTOR_METRICS | events.BROWSE_METRICS,
            )
            self._endpoints.enter_context(served)
            self._served = (listen, names)

    # -- the pipeline that runs now -----------------------------------------------------------------------------------

    def _ready(self) -> str:
        return self._pipeline.ready()

    def _status(self) -> dict[str, Any]:
        return self._pipeline.status()

    def _pulses(self) -> list[Pulse]:
        """The loops that the watchdog supervises."""
        return [self._pipeline.pulse]

    def _sentence(self) -> str:
        """What the producer does now, in a line for people."""
        if trouble := self._pipeline.ready():
            return f"waiting: {trouble}"
        now = self._pipeline.status()
        backlog, in_flight = format_bytes(now["backlog_bytes"]), format_bytes(now["in_flight_bytes"])
        return f"shipping as {now['host']}: {counted(now['sources'], 'file')}, {backlog} to send, {in_flight} in flight"


INPUTS = (
    *("producer.stdin_name", "producer.syslog", "producer.syslog_sender", "producer.spool"),
    *("producer.journald", "producer.journald_directory", "producer.journald_match"),
)
FIXED = ("producer.host", "producer.state", "logs.subject", "logs.partitions", "log.format", "log.level", *INPUTS)
"""Settings that only a restart changes. The first four determine lock, checkpoint and subject: other values make it
another producer. The log is set up once. An input lives as long as the program: closing a socket loses its content."""
CHECKPOINT = "checkpoint.sqlite"
"""Name of the checkpoint in the state directory of a host."""
MAX_OTHER_HOSTS = 1000
"""Further checkpoints in the same state directory that are read before a host's first session."""
CONTAINER_ID = re.compile(r"[0-9a-f]{12}")
NAME_IT = "give this machine a name of its own: hostnamectl set-hostname NAME, or set HOSTNAME (--host, producer.host)"
ONCE_RECOVER_SECONDS = 5.0
"""Maximum wait for a collector with `--once`, in seconds: a person waits for the result."""


def run(settings: Settings, *, once: bool, read: Callable[[], Settings]) -> None:
    """Ship as `settings` request, until stopped or, with `once`, to the ends of the files. `read` loads them at SIGHUP.

    Raises ConfigError, Fatal, Unavailable: with what to do next.
    """
    host = host_of(settings)
    watched = _watched(settings.producer, once=once)
    state = _state_directory(settings.producer, host)
    _allow_many_files()
    keep_freed_memory()
    give_way()
    listen = "" if once else settings.producer.listen
    try:
        with Lock(state / "lock", f"the checkpoint of host {host}", listen=listen):
            inputs = inputs_of(settings.producer, state / SPOOLS, once=once)
            with contextlib.closing(Checkpoints(state / CHECKPOINT)) as checkpoints:
                checkpoints.check_prefix(settings.logs.subject)
                new = checkpoints.fresh and not checkpoints.damaged
                task = _task(settings, host, watched, once=once, new=new)
                log_names_as(task.edits.of_name)
                if new:
                    _check_other_name(state, settings, host, watched)
                asyncio.run(_run(settings, task, checkpoints, inputs, once=once, read=read))
    except LockHeld as held:
        raise Fatal(str(held), hint=_hint_of(held.holder)) from None


def _is_of_another(listen: str, pid: int) -> bool:
    """Whether another process than `pid` listens at the port of an address, so that its `/status` is another one's."""
    port = listen.rpartition(":")[2]
    try:
        own = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
        tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    except OSError:
        return False  # a process of another user: not known
    rows = [row.split() for table in tables for row in table.splitlines()[1:]]
    listening = [row for row in rows if row[3] == LISTENS and f"{int(row[1].rpartition(':')[2], 16)}" == port]
    return bool(listening) and not any(f"socket:[{row[9]}]" in own for row in listening)


LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp."""


def _hint_of(holder: LockHolder) -> str:
    """How to find the producer that runs, and how it ships more files. A second one would ship them twice."""
    pid = str(holder.pid) if holder.pid else "PID"
    if "--once" in holder.command.split():
        return f"it ends by itself, as it was started with --once; wait for it (ps -fp {pid}), then try again"
    see = f"see it: systemctl status fshipper-producer, or ps -fp {pid}"
    if holder.listen and not _is_of_another(holder.listen, holder.pid):
        see += f"; what it ships: curl http://{holder.listen}/status"
    more = f"add them to producer.files of its configuration and reload it: kill -HUP {pid}"
    return f"a producer of this host runs already; {see}. To ship more files, {more}; or stop it, and name all files"


async def _run(
    settings: Settings,
    task: Task,
    checkpoints: Checkpoints,
    inputs: Inputs,
    *,
    once: bool,
    read: Callable[[], Settings],
) -> None:
    host, watched = task.host, task.following.watched
    plan = Plan(settings, replace(task, following=inputs.followed_with(task.following)))
    stop = Stop()
    stop.on_request(inputs.stop)  # first: what was read until then is shipped before the end
    actions = ReloadActions(
        fixed=FIXED,
        read=read,
        planned=partial(_planned_again, inputs),
        reloaded=_report_reload,
        restarts=partial(_needs_restart, named(settings.producer)),
    )
    reloading = Reloader(plan, stop, actions)
    stop_on_signals(stop, reload=None if once else reloading.reload)
    _report_host_name(host)
    found = scan(watched)
    place = checkpoints.place
    subject = log_subject(plan.task.prefix, place.partition, host) if place else ""
    events.producer_started(host=host, subject=subject, files=len(found.files))
    unmatched = without_match(watched, found)
    for problem in unmatched:
        events.nothing_matched(problem=problem)
    is_empty = once and not found.files and not is_any(settings.producer)
    if is_empty and not checkpoints.load():
        raise nothing_to_ship(unmatched)
    began = time.monotonic()
    try:
        inputs.start()
        shipped = await Producer(reloading, checkpoints, inputs).run()
    finally:
        inputs.close()
    if once:
        if is_empty and not shipped.files:  # else the rest of a file that was renamed is shipped
            raise nothing_to_ship(unmatched)
        counts = {"file": len(shipped.files), "line": shipped.lines, "byte": shipped.bytes}
        print_summary("shipped", counts, time.monotonic() - began, style=settings.log.format, redacted=shipped.redacted)


def nothing_to_ship(problems: Sequence[str]) -> NothingToShip:
    """Why `--once` had nothing to do: no path or glob leads to a file."""
    return NothingToShip(
        "nothing was shipped: " + "\n".join(problems),
        hint="correct the path or glob, quoted so that the shell leaves it alone; --dry-run shows what would be read",
    )


def without_match(watched: Watched, found: ScanResult) -> list[str]:
    """A sentence for each configured path or glob that leads to no file that is shipped."""
    paths = {seen.path for seen in found.files}
    names = {pattern: set(names_of(pattern)) for pattern in watched.patterns if pattern not in watched.own}
    return [_without_match(pattern, watched, named, found) for pattern, named in names.items() if not named & paths]


def _without_match(pattern: str, watched: Watched, named: set[str], found: ScanResult) -> str:
    excluded = sum(map(watched.excludes, named))
    if named and excluded == len(named):
        return f"every file that matches {pattern!r} is excluded ({counted(excluded, 'file')})"
    for path, error in found.unknown:
        if path in named:
            return f"what matches {pattern!r} cannot be read: {path}: {error.strerror or error}"
    if named:
        return f"what matches {pattern!r} is no regular file"
    leads_to = prefix_matcher([pattern])
    for directory, error in found.unlisted.items():
        if leads_to(directory):
            return f"no file matches {pattern!r}: cannot list {directory}: {error.strerror or error}"
    return f"no file matches {pattern!r}"


def _planned_again(inputs: Inputs, settings: Settings) -> Plan[Task]:
    """A plan for a producer that is running: its first scan is done, and no error of the server ends it."""
    task = planned(settings, once=False, new=False)
    following = inputs.followed_with(task.following)
    return Plan(settings, replace(task, following=following, patience=Patience(at_start=math.inf, later=math.inf)))


def _report_reload(plan: Plan[Task]) -> None:
    events.settings_reloaded(files=len(plan.settings.producer.files))


def _needs_restart(unlisted: frozenset[str], settings: Settings) -> list[str]:
    """Settings that are not applied: the program keeps the standard input and FIFOs that it started with."""
    return ["producer.files"] if named(settings.producer) != unlisted else []


def planned(settings: Settings, *, once: bool, new: bool) -> Task:
    """What a producer would do. `new`: it has no checkpoint yet. Raises ConfigError."""
    return _task(settings, host_of(settings), _watched(settings.producer, once=once), once=once, new=new)


def host_of(settings: Settings) -> str:
    """The name of this host.

    A name that every machine has is kept only where something was shipped under it: refusing it after an upgrade would
    end the shipping. Raises ConfigError: it has none that can stand in a subject, or one that every machine has.
    """
    host = settings.producer.host or checked_host(default_host())
    if is_everybodys(host) and not (state_path(settings.producer, host) / CHECKPOINT).exists():
        own = "" if settings.producer.host else socket.gethostname().lower()
        if own and not is_everybodys(own):  # /etc/hosts calls it by its own name and `localhost`
            return checked_host(own)
        raise ConfigError(f"every machine is called {host}: hosts of this name would share one archive", hint=NAME_IT)
    return host


def _report_host_name(host: str) -> None:
    if is_everybodys(host):
        events.name_unsuitable(host=host, reason="every machine has this name; kept, as it was shipped under before")
    elif CONTAINER_ID.fullmatch(host):
        events.name_of_container(host=host)


def state_path(settings: ProducerSettings, host: str) -> Path:
    """The directory of the checkpoint of `host`.

    By default below `/var/lib/fshipper` for root, the user's state directory else (XDG base directories).
    """
    state = settings.state
    if state is None and os.geteuid() == 0:
        state = Path("/var/lib/fshipper")
    elif state is None:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fshipper"
    return state / "producer" / host


NAME_KEY = "names.key"
"""The file in the state directory with the key of the hashes in redacted names of files."""


def _name_key(state: Path) -> bytes:
    """The key of the hashes in redacted names of files, or what the first start writes.

    Where the machine has an id it is made of that: it is the same after a loss of the state directory.
    """
    try:
        return (state / NAME_KEY).read_bytes()
    except OSError:
        machine = machine_id()
        return hashlib.sha256(f"fshipper names {machine}".encode()).digest() if machine else secrets.token_bytes(32)


def _task(settings: Settings, host: str, watched: Watched, *, once: bool, new: bool) -> Task:
    chosen = settings.producer
    if chosen.pattern_time is not None:
        events.setting_without_effect(setting="producer.pattern_time", since="0.2.0")
    edits = Edits.of(
        keep_lines=chosen.keep_lines,
        drop_lines=chosen.drop_lines,
        redact=chosen.redact,
        charset=chosen.charset,
        zones=HostZones.of(chosen.timezone, chosen.timezones),
        most_bytes=min(2 * chosen.block, MAX_BLOCK_BYTES),
        name_key=_name_key(state_path(chosen, host)),
    )
    recover_wait = math.inf if chosen.recover_wait is None else chosen.recover_wait
    following = Following(
        watched=watched,
        cut=edits.cut(chosen.block, line_a_piece=chosen.encoding is Encoding.PLAIN),
        start_at_end=chosen.start_at_end and new,
        once=once,
        rotate_wait=chosen.rotate_wait,
        partial_after=chosen.partial_after,
        ignore_older=chosen.ignore_older,
        order=Order(chosen.read_order),
        links=Links(chosen.link_roots),
        open_files=file_limit(chosen.open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )
    return Task(
        host=host,
        partition=partition_for(host, settings.logs.partitions),
        partitions=settings.logs.partitions,
        prefix=settings.logs.subject,
        following=following,
        compressor=Compressor(chosen.encoding),
        edits=edits,
        labels=tuple(chosen.labels.items()),
        window_bytes=chosen.window,
        poll=chosen.poll,
        max_delay=chosen.max_delay,
        watch=chosen.watch,
        ack_timeout=chosen.ack_timeout,
        checkpoint_every=chosen.checkpoint_every,
        drain_within=chosen.drain_within,
        rate=chosen.rate,
        heartbeat=0.0 if once else chosen.heartbeat,
        reports_end=chosen.heartbeat > 0,
        recover_wait=min(recover_wait, ONCE_RECOVER_SECONDS) if once else recover_wait,
        when_silent=WhenSilent.REFUSE if chosen.recover_wait is None else WhenSilent.BEGIN_ANEW,
        delete_archived=None if once else chosen.delete_archived,
        patience=Patience(at_start=5.0, later=60.0) if once else Patience(at_start=10.0, later=math.inf),
    )


def _watched(settings: ProducerSettings, *, once: bool) -> Watched:
    """What to ship. Raises ConfigError: nothing is named, a directory is, or with `once` a file cannot be read."""
    if not settings.files and not is_any(settings):
        raise ConfigError("no file to ship", hint="name files or globs: fshipper produce PATH..., or SHIPPER_FILE")
    watched = Watched.of(files_of(settings), settings.exclude)
    links = Links(settings.link_roots)
    problems = [problem for pattern in watched.patterns if (problem := _problem(pattern, links, once=once))]
    if problems:
        raise ConfigError("\n".join(problems))
    return watched


def _problem(pattern: str, links: Links, *, once: bool) -> str:
    if os.path.isdir(pattern):
        return f"{pattern} is a directory; write '{pattern}/*' for the files in it"
    if once and not glob.has_magic(pattern):
        try:
            os.close(links.open(pattern))
        except NotFollowed as refused:
            return f"cannot read {pattern}: {refused.reason}; name the file by its own path, or see link_roots"
        except OSError as error:
            return f"cannot read {pattern}: {error.strerror}; correct the path or its permissions"
    return ""


def _state_directory(settings: ProducerSettings, host: str) -> Path:
    """The directory of the checkpoint of `host`. Raises ConfigError: it cannot be made or written."""
    directory = state_path(settings, host)
    try:
        private_directory(directory)
        (directory / "lock").touch(mode=0o600)
        if not (directory / NAME_KEY).exists():
            replace_file(directory / NAME_KEY, _name_key(directory), mode=0o600)
    except OSError as error:
        raise ConfigError(
            f"cannot use the state directory {directory}: {error.strerror}",
            hint="set SHIPPER_STATE (--state) to a directory of this user, to which no other user may write",
        ) from None
    return directory


def _check_other_name(state: Path, settings: Settings, host: str, watched: Watched) -> None:
    """Whether the same files were shipped under another host name: a forgotten HOSTNAME, or a renamed machine.

    If the settings give the name, the files are shipped under it, and an event names the other host. If the name is the
    system's, this raises ConfigError: all lines would be archived again, as lines of another host.
    """
    links = Links(settings.producer.link_roots)
    files = {seen.key: seen for seen in scan(watched).files}
    others = sorted(state.parent.glob(f"*/{CHECKPOINT}"))[:MAX_OTHER_HOSTS] if files else []
    for path in others:
        for source in acknowledged_sources(path) if path.parent != state else ():
            seen, other = files.get(source.key), path.parent.name
            if seen is None or not _holds(seen.path, source.mark, links):
                continue
            if settings.producer.host:
                events.shipped_as_another_host(file=seen.path, other=other, host=host)
                return
            raise ConfigError(
                f"{seen.path} was shipped as host {other!r}, and this machine is called {host!r}: its lines would come"
                " twice",
                hint=f"keep the name: HOSTNAME={other} (--host {other}); to ship all files again under the new name,"
                f" give it: HOSTNAME={host} (--host {host})",
            )


def _holds(path: str, mark: Mark, links: Links) -> bool:
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        descriptor = links.open(path)
        stack.callback(os.close, descriptor)
        return mark.agrees(descriptor)
    return False


def _allow_many_files() -> None:
    """The more files stay open, the fewer vanish unread. The usual soft limit of 1024 is for programs with select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
