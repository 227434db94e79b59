"""The pace that a collector requests: with many small blocks, their number stays within what it can serve."""

import asyncio

import pytest
from collecting import HOST, Log, PartitionHarness

from consumer.partition.pace import BLOCKS_A_SECOND, ROUND_SECONDS, SMALL_BYTES, RequestedPace
from shipper.control import MAX_PACE_SECONDS, ReceiptsReply
from shipper.model import Delivery, Run

LINES = b"a line\n" * 100


class Fleet:
    """Hosts that always write, and collect lines for as long as the collector requests; on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pace = RequestedPace(lambda: self.now)
        self._sequence = 0

    def write(
        self, rounds: int, *, hosts: float, payload: int = 300, is_lines: bool = False, backlog: int = 0
    ) -> float:
        """All blocks of some rounds arrive, and are read, unless they are `backlog`. The pace after them."""
        for _ in range(rounds * 10):
            self.now += ROUND_SECONDS / 10
            self._sequence += round(hosts * ROUND_SECONDS / 10 / max(1.0, self.pace.seconds))
            times = (0,) * 100
            run = Run(tuple(range(self._sequence - 99, self._sequence + 1)), times) if is_lines else None
            batch = [Delivery(self._sequence - backlog, 0, backlog, "logs.p0.h", {}, bytes(payload), "", run)] * 100
            self.pace.received(0, batch)
        return self.pace.seconds


@pytest.mark.parametrize(
    ("hosts", "options", "least", "most"),
    [
        (0.5 * BLOCKS_A_SECOND, {}, 0.0, 0.0),
        (3 * BLOCKS_A_SECOND, {}, 2.9, 3.1),
        (1000 * BLOCKS_A_SECOND, {}, MAX_PACE_SECONDS, MAX_PACE_SECONDS),
        (3 * BLOCKS_A_SECOND, {"payload": SMALL_BYTES}, 0.0, 0.0),  # full enough: fewer of them save nothing
        (3 * BLOCKS_A_SECOND, {"is_lines": True}, 0.0, 0.0),  # a message a line, whatever the delay is
    ],
)
def test_the_pace_bounds_the_blocks_of_a_second(hosts: float, options: dict, least: float, most: float) -> None:
    assert least <= Fleet().write(8, hosts=hosts, **options) <= most


def test_a_backlog_is_no_reason_and_the_pace_ends_with_the_hosts() -> None:
    fleet = Fleet()
    fleet.write(1, hosts=0, backlog=100_000)
    assert fleet.write(4, hosts=0, backlog=0) == 0.0  # the batches are as many as those of many hosts
    assert fleet.write(6, hosts=4 * BLOCKS_A_SECOND) > 3.0
    assert fleet.write(6, hosts=1) == 0.0


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0, None), (2.5, 2500)])
async def test_receipts_carry_the_pace(
    harness: PartitionHarness, log: Log, seconds: float, milliseconds: int | None
) -> None:
    harness.pace.seconds = seconds
    harness.producer(HOST, lambda _: None)
    harness.ship(log, 100)
    async with harness.running(receipt_every=0.1) as worker:
        async with asyncio.timeout(20):
            while not harness.told:
                await asyncio.sleep(0.01)
        assert worker.status()["pace_seconds"] == seconds
    assert {each.get("pace") for each in harness.told} == {milliseconds}
    assert {ReceiptsReply.from_json(each).pace_seconds for each in harness.told} == {seconds}
