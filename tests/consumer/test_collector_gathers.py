"""Few lines of many hosts are one commit: each commit syncs, whatever it holds."""

import asyncio
import itertools
import time
from pathlib import Path

import pytest
from collecting import HOST, PartitionHarness
from harness.waiting import becomes

from consumer.archive.journal import Journal
from consumer.pipeline import GATHER_BYTES, GATHER_SECONDS


@pytest.mark.parametrize(("line_bytes", "gathers"), [(10, True), (2 * GATHER_BYTES, False)])
async def test_few_lines_are_committed_together_and_many_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line_bytes: int, gathers: bool
) -> None:
    harness = PartitionHarness(tmp_path)
    starts: list[float] = []
    ends: list[float] = []
    commit = Journal.commit

    def noted(*given: object) -> None:
        starts.append(time.monotonic())
        commit(*given)  # type: ignore[arg-type]
        ends.append(time.monotonic())

    monkeypatch.setattr(Journal, "commit", noted)
    lines = [(b"%d " % number).ljust(line_bytes, b".") for number in range(20)]
    async with harness.running():
        for line in lines:
            harness.say(line)
            await asyncio.sleep(GATHER_SECONDS / 10)
        await becomes(lambda: harness.text(host=HOST, file="messages.log") == b"".join(line + b"\n" for line in lines))
    waits = [start - end for end, start in zip(ends, itertools.islice(starts, 1, None), strict=False)]
    assert waits
    assert all(wait >= GATHER_SECONDS for wait in waits) is gathers
