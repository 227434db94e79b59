"""The scheduler of periodic tasks: order, idle reader, waiting, and the end of a session."""

import asyncio
import math
import time
from collections.abc import Callable

import pytest
from harness.waiting import becomes

from producer.discovery.watcher import Wake
from producer.scheduler import Scheduler
from shipper.errors import SessionLost
from shipper.lifecycle import Pulse, Stop
from shipper.periodic import Periodic
from shipper.ports import Publisher
from shipper.testing import Bus, MemoryPublisher

STREAM = "LOGS_0"


class Noting:
    """Work that notes its calls."""

    def __init__(self, name: str, notes: list[str], *, at: float = math.inf) -> None:
        self.name = name
        self.notes = notes
        self.at = at
        self.sessions: list[Publisher | None] = []
        self.fails = False

    async def run(self, session: Publisher | None) -> None:
        self.sessions.append(session)
        self.notes.append(self.name)
        if self.fails:
            raise SessionLost("bytes are missing")


def scheduler_of(
    *works: Noting,
    stop: Stop | None = None,
    poll: float = 0.01,
    clock: Callable[[], float] = time.monotonic,
) -> Scheduler:
    tasks = [Periodic(work.name, work.run, next_at=lambda work=work: work.at) for work in works]
    return Scheduler(tasks, stop or Stop(), Wake(), Pulse("the session"), poll, clock=clock)


def session() -> MemoryPublisher:
    bus = Bus()
    bus.add_stream(STREAM, "logs.p0.>")
    return MemoryPublisher(bus, STREAM)


async def test_tasks_run_in_their_order() -> None:
    notes: list[str] = []
    await scheduler_of(Noting("a", notes), Noting("b", notes)).run_due()
    assert notes == ["a", "b"]


async def test_reading_pauses_for_a_due_task_and_for_no_other() -> None:
    scan = Noting("scan", [], at=12.0)
    scheduler = scheduler_of(scan, Noting("retire", []), clock=lambda: 10.0)
    assert scheduler.next_at == 12.0
    assert not scheduler.must_pause_reading
    scan.at = 10.0
    assert scheduler.must_pause_reading


async def test_without_tasks_nothing_is_due() -> None:
    scheduler = scheduler_of()
    assert scheduler.next_at == math.inf
    assert not scheduler.must_pause_reading


async def test_an_error_of_a_task_ends_the_iteration_before_the_tasks_after_it() -> None:
    notes: list[str] = []
    first = Noting("resend", notes)
    first.fails = True
    with pytest.raises(SessionLost):
        await scheduler_of(first, Noting("delete", notes)).run_due(session())
    assert notes == ["resend"]


async def test_tasks_run_during_a_pause_with_the_session_of_the_pause() -> None:
    stop, task, current = Stop(), Noting("a", []), session()
    pausing = asyncio.create_task(scheduler_of(task, stop=stop).pause(3600.0, current))
    await becomes(lambda: len(task.sessions) > 2)
    stop.request()
    await asyncio.wait_for(pausing, 20)
    assert set(task.sessions) == {current}


async def test_a_pause_ends_after_its_time() -> None:
    await asyncio.wait_for(scheduler_of().pause(0.05), 20)


async def test_a_stop_ends_a_pause() -> None:
    stop, task = Stop(), Noting("a", [])
    pausing = asyncio.create_task(scheduler_of(task, stop=stop, poll=3600.0).pause(3600.0))
    await asyncio.sleep(0.01)
    stop.request()
    await asyncio.wait_for(pausing, 20)


async def test_tasks_run_while_work_is_pending_and_its_result_is_returned() -> None:
    task, done = Noting("a", []), asyncio.Event()

    async def work() -> str:
        await done.wait()
        return "receipts"

    waiting = asyncio.create_task(scheduler_of(task).run_until(work(), before="the end"))
    await becomes(lambda: len(task.sessions) > 2)
    done.set()
    assert await waiting == "receipts"
    assert set(task.sessions) == {None}


async def test_a_stop_ends_pending_work() -> None:
    stop, cancelled = Stop(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    stop.request()
    with pytest.raises(SessionLost, match="a stop was requested before the host had moved"):
        await scheduler_of(stop=stop).run_until(work(), before="the host had moved")
    await asyncio.wait_for(cancelled.wait(), 20)


async def test_tasks_run_while_a_connection_is_pending() -> None:
    task, connection = Noting("a", []), asyncio.get_running_loop().create_future()
    connecting = asyncio.create_task(scheduler_of(task).connected(connection))
    await becomes(lambda: len(task.sessions) > 2)
    found = session()
    connection.set_result(found)
    assert await connecting is found


async def test_a_connection_that_is_made_after_the_cancellation_is_closed() -> None:
    opened = session()

    async def late() -> Publisher:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return opened  # as a client that swallows the cancellation
        raise AssertionError

    connecting = asyncio.create_task(scheduler_of().connected(late()))
    await asyncio.sleep(0.02)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    with pytest.raises(SessionLost):
        await opened.last_stored("logs.p0.h")


async def test_sleep_ends_when_a_task_is_due_or_there_is_news() -> None:
    now = asyncio.get_running_loop().time
    due = Noting("a", [], at=now() + 0.05)
    await asyncio.wait_for(scheduler_of(due, poll=3600.0, clock=now).sleep(math.inf, is_idle=True), 20)
    assert now() >= due.at
    scheduler = scheduler_of(poll=3600.0)
    sleeping = asyncio.create_task(scheduler.sleep(math.inf, is_idle=True))
    await asyncio.sleep(0.01)
    scheduler.rouse()
    await asyncio.wait_for(sleeping, 20)


async def test_the_watchdog_expects_the_next_iteration_after_the_sleep() -> None:
    scheduler = scheduler_of(poll=3600.0)
    sleeping = asyncio.create_task(scheduler.sleep(math.inf, is_idle=True))
    await asyncio.sleep(0.05)
    assert scheduler.pulse.overdue == 0.0
    sleeping.cancel()
    await scheduler.run_due()
    await asyncio.sleep(0.01)
    assert scheduler.pulse.overdue > 0.0
