"""A collector looks at the fleet beside its work: in a thread and over a connection of its own, for page and metrics.

What it finds is a value that others read; nothing here can hold up writing, and nothing there waits for it.
"""

import asyncio
import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from consumer.fleet.fleet import Fleet
from consumer.fleet.look import Looking
from consumer.fleet.state import State
from consumer.fleet.table import counts
from shipper import events
from shipper.errors import ShipperError

SEEN_SECONDS = 2.0
"""Between two looks while somebody has the page open."""
UNSEEN_SECONDS = 10.0
HISTORY_SECONDS = 5.0
"""Between two points of the history."""
MOST_HISTORY = 120
"""Between two looks for the metrics."""
LOOK_SECONDS = 15.0
"""For one look: a server that hangs is trouble, too."""
END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of an archive, in bytes."""

    size: int
    free: int


class Past(NamedTuple):
    """The whole fleet at one moment, for a curve."""

    at: float  #: seconds since 1970
    rate: int  #: bytes of lines a second
    lag: int  #: messages


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the last look found, and what came of the last attempt."""

    number: int = 0  #: grows with each attempt
    at: float = 0.0  #: seconds since 1970 of the attempt, by this machine's clock
    fleet: Fleet | None = None  #: of the last look that succeeded
    fleet_at: float = 0.0  #: seconds since 1970 of that look
    trouble: str = ""  #: why the last attempt found nothing
    disk: Disk | None = None
    history: tuple[Past, ...] = ()  #: the last minutes, oldest first


class Watching:
    """Looks at the fleet again and again in its own thread. `view` and `wait` may be called from any thread."""

    def __init__(self, looking: Callable[[], Looking], archive: Path) -> None:
        self._make = looking
        self._archive = archive
        self._changed = threading.Condition()
        self._view = View()
        self._watchers = 0
        self._partitions: set[int] = set()  # that the metrics name
        self._top_hosts: dict[int, str] = {}  # by partition, as the log has named them
        self._ended = False
        self._hurry, self._over = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="fleet", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self) -> None:
        """Look no more; whoever waits is told."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._rouse(self._over)
        self._thread.join(END_SECONDS)

    @property
    def ended(self) -> bool:
        """Whether nothing new comes any more."""
        return self._ended

    @property
    def view(self) -> View:
        """What is known now."""
        return self._view

    def wait(self, number: int, within: float) -> View:
        """The view as soon as it is another one than `number`, or after `within` seconds as it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._view.number != number, within)
            return self._view

    @contextlib.contextmanager
    def seen(self) -> Iterator[None]:
        """Somebody looks at the page: what it shows is younger inside the block."""
        with self._changed:
            self._watchers += 1
        self._rouse(self._hurry)
        try:
            yield
        finally:
            with self._changed:
                self._watchers -= 1

    def _rouse(self, event: asyncio.Event) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(event.set)

    async def _run(self) -> None:
        self._loop, looking = asyncio.get_running_loop(), self._make()
        try:
            while not self._ended:
                began = time.monotonic()
                await self._attempt(looking)
                await self._rest(began)
        finally:
            await looking.close()

    async def _attempt(self, looking: Looking) -> None:
        fleet, trouble = None, ""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                fleet = await looking.look()
        except TimeoutError:
            trouble = f"the server did not answer within {LOOK_SECONDS:.0f} s"
        except ShipperError as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001 - the page says it; writing goes on whatever is wrong here
            trouble = f"{type(error).__name__}: {error}"
        if trouble:
            events.fleet_not_seen(error=trouble)
        elif fleet is not None:
            self._measure(fleet)
        self._show(fleet, trouble, await asyncio.to_thread(self._disk))

    def _measure(self, fleet: Fleet) -> None:
        living = [host.beat for host in fleet.hosts if host.beat and host.state is not State.DEAD]
        events.fleet_seen(
            states={str(state): count for state, count in counts(fleet.hosts).items()},
            backlog=sum(beat.backlog for beat in living),
            backlog_age=max((beat.backlog_age for beat in living if beat.backlog), default=0.0),
        )
        for each in fleet.partitions:
            found = each.status
            filled, top_ratio = (found.percent_full or 0.0) / 100, (found.top_host_percent or 0.0) / 100
            events.partition_seen(
                partition=found.partition,
                lag=found.messages if found.lag is None else found.lag,
                filled=filled,
                top_host_ratio=top_ratio,
                collectors=1 if found.waiting or each.read_rate else 0,  # a lease outlives who held it
            )
            if found.top_host and self._top_hosts.get(found.partition) != found.top_host:
                events.stream_crowded(
                    partition=found.partition, host=found.top_host, of_messages=top_ratio, filled=filled
                )
        self._top_hosts = {each.status.partition: each.status.top_host for each in fleet.partitions}
        partitions = {each.status.partition for each in fleet.partitions}
        events.partitions_gone(partitions=self._partitions - partitions)
        self._partitions = partitions

    def _show(self, fleet: Fleet | None, trouble: str, disk: Disk | None) -> None:
        now, before = time.time(), self._view
        view = View(
            number=before.number + 1,
            at=now,
            fleet=fleet or before.fleet,
            fleet_at=now if fleet else before.fleet_at,
            trouble=trouble,
            disk=disk,
            history=_longer(before.history, now, fleet),
        )
        with self._changed:
            self._view = view
            self._changed.notify_all()

    async def _rest(self, began: float) -> None:
        """At most a tenth of the time is spent looking, a thirtieth while nobody watches, however large the fleet."""
        took = time.monotonic() - began
        least = max(SEEN_SECONDS, 10 * took) - took
        unseen = max(UNSEEN_SECONDS, 30 * took) - took
        await _either(self._over, least)
        self._hurry.clear()
        if not (self._watchers or self._over.is_set()):
            await _either(self._over, unseen - least, self._hurry)

    def _disk(self) -> Disk | None:
        try:
            found = shutil.disk_usage(self._archive)
        except OSError:
            return None
        events.archive_measured(size=found.total, free=found.free)
        return Disk(found.total, found.free)


async def _either(event: asyncio.Event, within: float, *others: asyncio.Event) -> None:
    """Return when one of the events is set, or after `within` seconds."""
    waiting = [asyncio.ensure_future(each.wait()) for each in (event, *others)]
    await asyncio.wait(waiting, timeout=max(0.0, within), return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


def _longer(history: tuple[Past, ...], now: float, fleet: Fleet | None) -> tuple[Past, ...]:
    if fleet is None or (history and now - history[-1].at < HISTORY_SECONDS):
        return history
    return (*history, Past(round(now, 1), round(fleet.rate), fleet.lag))[-MOST_HISTORY:]
