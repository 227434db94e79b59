"""Detects another live producer with the name of this host, for example on a cloned machine.

Two such producers would write the files of one host. The proof are heartbeats on the host's subject: each names the
process that sent it. One heartbeat of another process proves nothing, because that process may have died; a second one
that is sent during the check does.
"""

import asyncio
import contextlib
import functools
import hashlib
import math
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from producer.scheduler import Scheduler
from shipper import events
from shipper.errors import ConfigError, SessionLost, ShipperError
from shipper.heartbeat import Heartbeat, dead_after, decode
from shipper.ports import Publisher
from shipper.subjects import beat_subject, beats_stream

MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
PROCESSES = Path("/proc/self/ns/pid")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CHECK_SECONDS, SHORTEST_SECONDS = 1.0, 0.05
"""Intervals of the check at the start, in seconds. Shorter if the other process sends heartbeats more often."""
MOST_WAIT_SECONDS = 60.0
"""Maximum wait at the start for a heartbeat of another process. One that comes later raises an alert."""
MAX_REPORT_SECONDS = 16.0
"""Maximum time for which a refused producer reports that, before it ends."""
REMEMBER_SECONDS = 300.0
"""Time for which heartbeats name the other process after its last heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """Which process this is, among all that may have the host's name."""

    instance: str  #: the same for every run on one machine, since its boot, with one state directory
    kernel: str  #: the same for all processes that see each other's numbers
    run: str  #: of this process only
    machine: str
    state: str
    pid: int


def this_instance(state: Path) -> Instance:
    """This process, with its checkpoint in `state`, which exists."""
    found = state.stat()
    boot = (machine_id(), _text(BOOT_ID))
    return Instance(
        instance=_hash(*boot, str(state.resolve()), str(found.st_dev), str(found.st_ino)),
        kernel=_hash(*boot, str(_number_of(PROCESSES))),
        run=_run(),
        machine=socket.gethostname(),
        state=str(state),
        pid=os.getpid(),
    )


def machine_id() -> str:
    """The id of this machine, which only ever leaves it as part of a hash (machine-id(5)); empty: it has none."""
    return next(filter(None, map(_text, MACHINE_IDS)), "")


@functools.cache
def _run() -> str:
    """Identity of this process, drawn at the first call: a fork after the import must not share it."""
    return secrets.token_hex(8)


def _check_interval(every: float) -> float:
    return min(CHECK_SECONDS, max(SHORTEST_SECONDS, every / 2))


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(("fshipper instance", *parts)).encode(errors="replace")).hexdigest()[:16]


def _number_of(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


class _Newest(NamedTuple):
    sequence: int
    time_ns: int
    beat: Heartbeat


class HostNameGuard:
    """Detects another producer with this host's name. Owned by the heartbeats. `me` None: no check."""

    def __init__(
        self,
        host: str,
        prefix: str,
        me: Instance | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._host = host
        self._stream, self._subject = beats_stream(prefix), beat_subject(prefix, host)
        self.me = me  #: this process
        self._clock = clock
        self._wall_ns = wall_ns
        self.is_checked = me is None  #: the check at the start passed
        self._own = self._foreign = 0  # sequences of the newest heartbeats that were seen: this process's, and others'
        self._checking: asyncio.Task[None] | None = None
        self._other, self._other_at = "", -math.inf

    async def check_at_start(
        self, publisher: Publisher, scheduler: Scheduler, tell: Callable[[], Awaitable[bool]]
    ) -> None:
        """Once in a process: refuse to start while another live process has the name.

        `tell` publishes that this process is refused; False: heartbeats are off.

        Raises:
            ConfigError: another live producer has this name. SessionLost: a stop was requested, or the session ended
                and the next one checks again.
        """
        if self.is_checked:
            return
        first = found = await self._newest(publisher)
        age = max(0, self._wall_ns() - first.time_ns) / 1e9 if first else 0.0
        left = min(dead_after(first.beat.every) - age, MOST_WAIT_SECONDS) if first else 0.0
        until = self._clock() + left
        if first and self._is_foreign(first) and left > 0:
            events.name_in_doubt(host=self._host, other=first.beat.sender, at_most=left)
        while first and found and self._is_foreign(found) and (rest := until - self._clock()) > 0:
            if found.sequence > first.sequence:
                with contextlib.suppress(ShipperError):
                    await self._report_refusal(publisher, found.beat.every, scheduler, tell)
                raise self._refusal(found.beat)
            await scheduler.pause(min(_check_interval(first.beat.every), rest))
            if scheduler.stop.requested:
                raise SessionLost("a stop was requested before it was known whether another producer has this name")
            found = await self._newest(publisher)
        self.is_checked = True

    async def _report_refusal(
        self, publisher: Publisher, every: float, scheduler: Scheduler, tell: Callable[[], Awaitable[bool]]
    ) -> None:
        """Publish the refusal until the other producer confirms it in a heartbeat, or for a limited time."""
        until = self._clock() + min(3 * every + CHECK_SECONDS, MAX_REPORT_SECONDS)
        while self._clock() < until and await tell() and not scheduler.stop.requested:
            await scheduler.pause(_check_interval(every))
            found = await self._newest(publisher)
            if found and found.beat.other:
                return

    def check_later(self, publisher: Publisher, within: float) -> None:
        """Check again in `within` seconds, without waiting: just before this process sends its next heartbeat.

        Until then the newest heartbeat is of this process, unless another process sends heartbeats, too.
        """
        if self.me is None or (self._checking and not self._checking.done()):
            return
        self._checking = asyncio.ensure_future(self._check(publisher, within))

    def cancel(self) -> None:
        """Drop the check of a session that has ended."""
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None

    @property
    def other(self) -> str:
        """The other live process, for people. Empty: none was seen recently."""
        return self._other if self._clock() - self._other_at < REMEMBER_SECONDS else ""

    async def _check(self, publisher: Publisher, within: float) -> None:
        await asyncio.sleep(within)
        try:
            found = await self._newest(publisher)
        except ShipperError:
            return  # the main loop gets the same error
        if found is None or self.me is None or not found.beat.run:
            return
        if found.beat.run == self.me.run:
            self._own = max(self._own, found.sequence)
            return
        if min(self._own or math.inf, self._foreign or math.inf) < found.sequence:  # it was sent during the checks
            refused = ", which was refused" if found.beat.refused else ""
            self._other, self._other_at = f"{found.beat.sender}{refused}", self._clock()
            events.name_shared(host=self._host, other=self._other)
        self._foreign = max(self._foreign, found.sequence)

    async def _newest(self, publisher: Publisher) -> _Newest | None:
        stored = await publisher.mentioned(self._stream, self._subject)
        beat = decode(stored.payload) if stored else None
        return _Newest(stored.sequence, stored.time_ns, beat) if stored and beat else None

    def _is_foreign(self, found: _Newest) -> bool:
        """Whether a process that may be alive sent it. The lock proves that older runs of this producer ended."""
        beat, me = found.beat, self.me
        has_ended = not beat.run or beat.leaves or beat.refused  # or it is too old to name its process
        if me is None or has_ended or beat.run == me.run or beat.instance == me.instance:
            return False
        return beat.kernel != me.kernel or Path(f"/proc/{beat.pid}").exists()

    def _refusal(self, other: Heartbeat) -> ConfigError:
        me = self.me
        here = f"process {me.pid} on {me.machine}, state directory {me.state}" if me else "this process"
        return ConfigError(
            f"another producer ships as host {self._host}: {other.sender}; this one is {here}",
            hint=(
                "if this machine is a copy of that one, give it a name of its own: hostnamectl set-hostname NAME,"
                " HOSTNAME or --host; if it replaces that one, stop the other first: systemctl stop fshipper-producer;"
                " if both run on one machine, let one producer ship all files"
            ),
        )
