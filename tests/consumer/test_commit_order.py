"""The order of the steps of a batch: write, check the lease, sync, check the lease, commit, acknowledge."""

from typing import Any

import pytest
from collecting import LocalFence, Log, PartitionHarness, cuts

from consumer.commit.sink import Sink
from consumer.pipeline import TEXT_A_PAYLOAD
from shipper.errors import Fenced
from shipper.lifecycle import Stop
from shipper.model import Delivery, Encoding
from shipper.testing import MemoryInbox

LINES = b"".join(b"%d a line\n" % number for number in range(500))


class LeaseUntil(LocalFence):
    """A lease that is lost at a point of the commit."""

    is_lost = False

    async def hold(self) -> None:
        if self.is_lost:
            raise Fenced


def lose_lease_after(monkeypatch: pytest.MonkeyPatch, lease: LeaseUntil, owner: type, name: str) -> None:
    original = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        lease.is_lost = True
        return result

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize("step", ["create", "append", "sync"])
async def test_a_lease_that_is_lost_before_the_commit_prevents_it(tmp_path, monkeypatch, step):
    harness, log = PartitionHarness(tmp_path), Log(LINES, encoding=Encoding.IDENTITY)
    harness.send(log, 0, len(LINES))
    harness.fence = lease = LeaseUntil()
    with monkeypatch.context() as patched:
        lose_lease_after(patched, lease, Sink, step)
        with pytest.raises(Fenced):
            await harness.drain()
    with harness.journal() as journal:
        assert journal.position.applied == 0
    assert harness.stream.ack_floor == 0
    harness.fence = LocalFence()
    await harness.drain()
    assert harness.text(log) == LINES


async def test_a_stop_within_a_batch_ends_it_after_the_current_part(tmp_path):
    text = b"x" * 9_999 + b"\n"
    harness, log, stop = PartitionHarness(tmp_path), Log(text * 10), Stop()
    sizes = []
    for span in cuts(log.data, len(text)):
        sizes.append(len(log.message(*span)[2]))
        harness.send(log, *span)
    batch_bytes = 2 * len(text) // TEXT_A_PAYLOAD  # two blocks a part
    assert sum(sizes) < batch_bytes, "all blocks are in one batch"

    class StopAtAck(MemoryInbox):
        async def ack(self, delivery: Delivery) -> None:
            await super().ack(delivery)
            stop.request()

    harness.inbox = StopAtAck
    with harness.worker(stop=stop, batch_bytes=batch_bytes) as worker:
        await worker.run()
    assert harness.stream.ack_floor == 2
    harness.inbox = MemoryInbox
    await harness.drain()
    assert harness.text(log) == log.data
