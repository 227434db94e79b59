"""Work that is repeated, and requests that are sent from time to time."""

import asyncio
import math

from shipper.periodic import Periodic, PeriodicRequest


async def test_work_is_done_when_its_interval_is_over_and_while_it_is_wanted() -> None:
    done: list[str] = []

    async def work(what: str) -> None:
        done.append(what)

    often, seldom = Periodic("a", work), Periodic("b", work, every=lambda: 3600.0)
    unwanted = Periodic("c", work, is_wanted=lambda: False)
    for _ in range(2):
        await often.run_if_due("often")
        await seldom.run_if_due("seldom")
        await unwanted.run_if_due("unwanted")
    assert done == ["often", "seldom", "often"]
    assert often.next_at() == math.inf


async def test_a_request_is_pending_until_its_reply_is_taken_once() -> None:
    roused = asyncio.Event()
    request = PeriodicRequest[str](roused.set, due_at=5.0)
    assert request.next_at() == 5.0
    assert (request.is_due(4.9), request.is_due(5.0)) == (False, True)
    request.send(asyncio.sleep(0, "reply"))
    assert (request.next_at(), request.is_due(5.0), request.take()) == (math.inf, False, None)
    await asyncio.wait_for(roused.wait(), 20)
    assert request.next_at() == -math.inf
    assert (request.take(), request.take()) == ("reply", None)


async def test_a_request_that_is_cancelled_has_no_reply_and_the_next_one_may_be_sent() -> None:
    request = PeriodicRequest[str](lambda: None, due_at=5.0)
    request.send(asyncio.sleep(0, "late"))
    request.cancel()
    request.cancel()
    await asyncio.sleep(0.01)
    assert request.take() is None
    assert request.is_due(5.0)
