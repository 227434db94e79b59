"""What `fshipper up` and `fshipper down` do: start, supervise and end the programs of one machine."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deploy.processes import Interrupted, Interrupts, Program, Programs, end, environment
from deploy.server import nats_server
from deploy.up.data_directory import DRY_RUN, SEAL, DataDirectory, Remembered
from deploy.up.options import DownOptions, UpOptions
from deploy.up.shipped_files import DEFAULT, Found, Selection, found, patterns_of, selection
from shipper import default_paths
from shipper.durable_files import LockHeld, LockHolder, command_of
from shipper.errors import EXIT_CONFIG, EXIT_OK, EXIT_USAGE, ConfigError, ShipperError, Unavailable
from shipper.prompts import confirm
from shipper.units import counted, format_bytes

SERVER, COLLECTOR, PRODUCER, PAGE = "server", "collector", "producer", "page"
PAGE_COMMAND = "web"
PORTS = {SERVER: 4222, COLLECTOR: 9601, PRODUCER: 9600, PAGE: 9602}
"""The port of each program if it is free: other commands connect to the server there by default."""
START_SECONDS = 60.0
START_ATTEMPTS = 3
DRAIN_SECONDS = 8.0
"""From SIGTERM to SIGKILL for each of the programs. A kill loses nothing: the next start continues."""
CHECK_SECONDS = 0.5
FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS = 1.0, 30.0
STEADY_SECONDS = 60.0
"""Time after which a program that was restarted counts as healthy."""
COLLECTOR_SETTINGS = "[collector]\nseal_on_request = true\n"
"""Reports count sealed files, so a report of today has open files sealed first."""
MIN_FREE_BYTES = 2 * 1024**3
"""Free space that a start needs: a stream reserves 1 GiB."""
LINK_SECONDS = 10.0
END_SECONDS = 60.0


def up(options: UpOptions) -> int:
    """Run everything until a signal. Raises ShipperError, with what to do next."""
    data = DataDirectory(options.data or default_paths.data_directory())
    patterns = patterns_of(options.paths or ())
    nats_server()
    try:
        with data.taken() as before:
            state = replace(before, paths=patterns or before.paths or patterns_of([DEFAULT]))
            return _Run(data, before, state, Output(as_json=options.as_json)).run()
    except LockHeld as held:
        return _show_running(data, patterns, held.holder, as_json=options.as_json)


@dataclass(frozen=True, slots=True)
class Output:
    """What people read goes to standard output, or to standard error where that has JSON."""

    as_json: bool

    def line(self, text: str) -> None:
        """Print one line. The terminal may be closed: everything runs, and ends, all the same."""
        stream = sys.stderr if self.as_json else sys.stdout
        with contextlib.suppress(OSError):
            stream.write(text + "\n")
            stream.flush()

    def result(self, values: Mapping[str, Any]) -> None:
        """Print the JSON object, if it is wanted."""
        if self.as_json:
            sys.stdout.write(json.dumps({"v": 1, **values}) + "\n")
            sys.stdout.flush()


class _Run:
    """One `fshipper up`, from the first program to the last."""

    def __init__(self, data: DataDirectory, before: Remembered, state: Remembered, output: Output) -> None:
        self._data = data
        self._before = before
        self._state = state
        self._output = output
        self._restarts: dict[str, _Restarts] = {}

    def run(self) -> int:
        data = self._data
        self._check_disk(0)
        data.forget_run()
        self._output.line(f"fshipper up: starting; data in {data.root}")
        with Interrupts() as interrupts, Programs(data.logs, environment(), interrupts) as programs:
            try:
                self._start_with_free_ports(programs)
                while True:
                    self._revive(programs)
                    interrupts.nap(CHECK_SECONDS)
            except Interrupted:
                self._output.line("ending: what was read is sent and archived first")
                self._end(programs)
                self._output.line("ended; `fshipper up` continues, `fshipper down --remove` removes the data")
        return EXIT_OK

    # -- start ------------------------------------------------------------------------------------------------------

    def _start_with_free_ports(self, programs: Programs) -> None:
        """Start again if another process took a port between its choice and its use."""
        for attempt in range(START_ATTEMPTS):
            try:
                self._start(programs)
                return
            except ShipperError:
                ended = [self._state.ports[name] for name, program in programs.all.items() if not program.running]
                if attempt + 1 == START_ATTEMPTS or all(map(_free_port, ended)):
                    raise
                end([program.process for program in programs.all.values()])

    def _start(self, programs: Programs) -> None:
        """Start the programs one after another: each needs those before it."""
        data, ports = self._data, _free_ports(self._state.ports)
        self._state = replace(self._state, ports=ports)
        data.remember(replace(self._state, paths=self._before.paths))  # the new ones once they proved to be shipped
        address = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        programs.tell(NATS_URL=f"nats://{address[SERVER]}", SHIPPER_DIRECTORY=str(data.archive))
        store = ("--port", str(ports[SERVER]), "--store", str(data.streams))
        self._begin(programs, SERVER, "server", *store, ready="Server is ready")
        chosen, what = self._chosen(programs)
        self._check_disk(what.unread)
        programs.wait_until_up(programs.all[SERVER], within=START_SECONDS)
        collector = ("--config", str(data.collector_settings(COLLECTOR_SETTINGS)), "--listen", address[COLLECTOR])
        self._begin(programs, COLLECTOR, "consume", *collector, ready="collector_started")
        programs.wait_until_up(programs.all[COLLECTOR], within=START_SECONDS)
        producer = ("--state", str(data.checkpoints), "--listen", address[PRODUCER], *chosen.arguments)
        self._begin(programs, PRODUCER, "produce", *producer, ready="session_begun")
        page = ("--listen", address[PAGE], "--report", str(data.reports))
        self._begin(programs, PAGE, PAGE_COMMAND, *page, ready="the link is in", RUNTIME_DIRECTORY=str(data.page))
        programs.wait_until_up(*programs.all.values(), within=START_SECONDS)
        data.note_page(programs.all[PAGE].process.pid)
        data.remember(self._state)
        self._show(what)

    def _begin(self, programs: Programs, name: str, *arguments: str, ready: str, **environment: str) -> None:
        programs.start(name, *arguments, ready=ready, **environment)
        self._restarts[name] = _Restarts()

    def _chosen(self, programs: Programs) -> tuple[Selection, Found]:
        """What is shipped, as a dry run of the producer finds it."""
        chosen = selection(self._state.paths, self._data.root)
        dry_run = ("produce", "--dry-run", "--json", "--state", str(self._data.checkpoints), *chosen.arguments)
        what = found(self._state.paths, json.loads(programs.must(DRY_RUN, *dry_run, within=START_SECONDS)))
        return selection(self._state.paths, self._data.root, what.binary), what

    def _check_disk(self, unread: int) -> None:
        """Raises ConfigError: the disk of the data directory has too little space for the streams and `unread`."""
        free = shutil.disk_usage(self._data.root).free
        if free < MIN_FREE_BYTES + unread:
            logs = f" and {format_bytes(unread)} of logs" if unread else ""
            raise ConfigError(
                f"{self._data.root} has {format_bytes(free)} free; the streams{logs} need"
                f" {format_bytes(MIN_FREE_BYTES + unread)}",
                hint="free space, or name a directory on another disk with --data, or ship fewer files",
            )

    def _show(self, what: Found) -> None:
        data, state = self._data, self._state
        link, server = data.shown_link(), f"nats://127.0.0.1:{state.ports[SERVER]}"
        for note in what.notes:
            self._output.line(f"note: {note}")
        if self._before.paths and set(self._before.paths) != set(state.paths):
            self._output.line(f"note: no longer shipped: {_shown_paths(set(self._before.paths) - set(state.paths))}")
        for text in _notes_of_commands(data, server):
            self._output.line(f"note: {text}")
        new = "" if what.unread == what.octets else f", {format_bytes(what.unread)} of them new"
        self._output.line(f"ships {counted(what.files, 'file')}, {format_bytes(what.octets)}{new}")
        self._output.line(f"status, search, reports: {link}")
        self._output.line(f"or in a terminal:         fshipper search error{_archive_option(data)}")
        self._output.line("Ctrl-C ends it; nothing is lost, and `fshipper up` continues")
        archive = str(data.archive)
        values = {"link": link, "server": server, "archive": archive, "files": what.files, "bytes": what.octets}
        self._output.result({**values, "unread_bytes": what.unread, "notes": list(what.notes)})

    # -- while it runs ----------------------------------------------------------------------------------------------

    def _revive(self, programs: Programs) -> None:
        """Restart what ended, with back-off. Raises ShipperError: a program cannot work with its settings."""
        self._data.shorten_logs()
        for program in programs.all.values():
            restarts = self._restarts[program.name]
            if program.running:
                if program.look() and program.name == PAGE:
                    self._data.note_page(program.process.pid)
                continue
            if program.process.returncode in {EXIT_CONFIG, EXIT_USAGE}:
                raise ShipperError(
                    f"the {program.name} ended\n{program.last_words}",
                    hint=f"correct it, then `fshipper up`; {program.log}",
                )
            if (delay := restarts.delay_of_new_end()) is not None:
                self._output.line(f"the {program.name} ended; it is restarted in {delay:g} s (see {program.log})")
            elif restarts.is_due:
                restarts.begin(program)

    def _end(self, programs: Programs) -> None:
        """End the programs in the order in which the lines flow: each delivers its rest. Then seal the archive."""
        for names in ((PRODUCER,), (COLLECTOR, PAGE)):
            end([programs.all[name].process for name in names if name in programs.all], within=DRAIN_SECONDS)
        if COLLECTOR in programs.all and programs.all[SERVER].running:
            with contextlib.suppress(ShipperError, Interrupted), Interrupts() as interrupts:
                programs.interrupts = interrupts  # the first signal requested this end; another one ends the sealing
                programs.must(SEAL, "consume", "--drain", "--seal", within=DRAIN_SECONDS)
        end([program.process for program in programs.all.values()], within=DRAIN_SECONDS)


class _Restarts:
    """When a program that ended is restarted: later each time, until it has run for a while."""

    def __init__(self) -> None:
        self._delay = FIRST_RESTART_SECONDS
        self._due: float | None = None
        self._began = time.monotonic()

    def delay_of_new_end(self) -> float | None:
        """The seconds until the restart, when the end of the program is seen first; None: it is known."""
        if self._due is not None:
            return None
        if time.monotonic() - self._began > STEADY_SECONDS:
            self._delay = FIRST_RESTART_SECONDS
        delay, self._delay = self._delay, min(self._delay * 2, MAX_RESTART_SECONDS)
        self._due = time.monotonic() + delay
        return delay

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return self._due is not None and time.monotonic() >= self._due

    def begin(self, program: Program) -> None:
        """Restart `program`."""
        self._due, self._began = None, time.monotonic()
        program.start()


def _free_ports(known: Mapping[str, int]) -> dict[str, int]:
    """A free port for each program: that of the last time, the usual one, or any. Raises Unavailable: none is free."""
    chosen: dict[str, int] = {}
    for name, usual in PORTS.items():
        wanted = (port for port in (known.get(name, usual), usual, 0) if port not in chosen.values())
        chosen[name] = next(filter(None, map(_free_port, wanted)), 0)
    if not all(chosen.values()):
        raise Unavailable("no port of 127.0.0.1 is free", hint="end programs that hold many connections")
    return chosen


def _free_port(port: int) -> int:
    """`port` if it is free, for 0 any; 0: there is none."""
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the programs do: not kept off by TIME_WAIT
        probe.bind(("127.0.0.1", port))
        return int(probe.getsockname()[1])
    return 0


def _archive_option(data: DataDirectory) -> str:
    """What other commands need to find the archive."""
    return "" if default_paths.archive() == data.archive else f" --archive {data.archive}"


def _notes_of_commands(data: DataDirectory, server: str) -> list[str]:
    """What other commands need to be given, because of this machine or of the environment."""
    notes = [
        f"{name} is set, so other commands use it"
        for name in ("SHIPPER_CONFIG", "SHIPPER_DIRECTORY", "NATS_URL")
        if os.environ.get(name) not in {None, "", str(data.archive), server}
    ]
    if not server.endswith(f":{PORTS[SERVER]}"):
        notes.append(f"port {PORTS[SERVER]} is in use; for `fshipper status` and `tail`: export NATS_URL={server}")
    return notes


def _shown_paths(paths: set[str]) -> str:
    return ", ".join(sorted(paths)) or "nothing"


# -- a second `up`, and `down` ---------------------------------------------------------------------------------------


def _show_running(data: DataDirectory, patterns: tuple[str, ...], holder: LockHolder, *, as_json: bool) -> int:
    """Show the link of the `up` that runs. Raises Unavailable: it ships other paths."""
    state = data.remembered() or Remembered()
    if patterns and set(patterns) != set(state.paths):
        raise Unavailable(
            f"`fshipper up` runs in {data.root} ({holder.named}) and ships {_shown_paths(set(state.paths))}",
            hint="`fshipper down`, then `fshipper up PATH...`",
        )
    link, output = _new_link(data), Output(as_json=as_json)
    output.line(f"`fshipper up` runs already ({holder.named}); data in {data.root}")
    output.line(f"status, search, reports: {link or 'the page is starting; run this again'}")
    output.result({"link": link, "archive": str(data.archive), "pid": holder.pid})
    return EXIT_OK


def _new_link(data: DataDirectory) -> str:
    """A link that was not used: the page's program writes it at SIGHUP. Empty: it does not answer."""
    before, pid = data.shown_link(), data.page_pid()
    if f" {PAGE_COMMAND} " not in command_of(pid):
        return ""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGHUP)
    until = time.monotonic() + LINK_SECONDS
    while time.monotonic() < until:
        if (link := data.shown_link()) not in {"", before}:
            return link
        time.sleep(CHECK_SECONDS / 10)
    return ""


def down(options: DownOptions) -> int:
    """End the `up` that runs, and remove what it made, if requested. Raises ShipperError."""
    data, output = DataDirectory(options.data or default_paths.data_directory()), Output(as_json=options.as_json)
    holder = data.holder()
    is_made = data.remembered() is not None
    if options.remove and is_made:
        size = format_bytes(data.stored_bytes())
        ends = "End `fshipper up`, and remove" if holder else "Remove"
        confirm(
            yes=options.yes,
            question=f"{ends} the archive and the streams in {data.root} ({size})?",
            what=f"this removes the archive in {data.root} ({size})",
            hint="give --yes",
            unchanged="nothing was removed",
        )
    if holder is not None:
        _end_running(data, holder)
    output.line(f"ended; data in {data.root}" if holder else f"`fshipper up` does not run in {data.root}")
    removes = options.remove and is_made
    if removes:
        with data.taken():
            data.remove()
    if options.remove:
        kept = f"; reports are kept in {data.reports}" if data.reports.exists() else ""
        output.line(f"removed{kept}" if removes else "there is nothing that `fshipper up` made")
    output.result({"ended": holder is not None, "removed": removes, "data": str(data.root)})
    return EXIT_OK


def _end_running(data: DataDirectory, holder: LockHolder) -> None:
    """End the process that holds the lock, and wait until it is gone. Raises Unavailable, ConfigError."""
    if " up" not in holder.command:
        raise Unavailable(
            f"{data.root} is in use by {holder.named}, which is no `fshipper up` that this command can end",
            hint="end it where it was started, for example in its container",
        )
    try:
        os.kill(holder.pid, signal.SIGTERM)
    except PermissionError:
        raise ConfigError(f"{holder.named} is of another user", hint="run the command as that user, or root") from None
    except ProcessLookupError:
        pass
    until = time.monotonic() + END_SECONDS
    while data.holder() is not None:
        if time.monotonic() > until:
            raise Unavailable(f"{holder.named} has not ended for {END_SECONDS:.0f} s", hint=f"kill -9 {holder.pid}")
        time.sleep(CHECK_SECONDS / 5)
