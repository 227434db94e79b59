"""A second thread packs only where the machine has a core to spare for it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.parallel_compression import (
    BEGIN_CORES,
    SAMPLE_SECONDS,
    STALE_SECONDS,
    STAT,
    STAY_CORES,
    Sample,
    SpareCores,
    free_cores,
    idle_ticks,
    is_spare,
    sampled,
)

TWO_CORES = """\
cpu  2975410 103265 558983 2389250 60187 0 35757 2093 0 0
cpu0 1387831 40105 258827 1346199 16787 0 9413 1035 0 0
cpu1 1587578 63159 300156 1043050 43399 0 26344 1058 0 0
intr 54583321 0 0
ctxt 139694574
"""


class Machine:
    """Two cores that a test lets be used."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.idle = self.own = 0.0

    def sample(self) -> Sample:
        return Sample(self.now, self.idle, self.own)

    def spare(self) -> SpareCores:
        return SpareCores(self.sample, lambda: self.now)

    def run(self, seconds: float, *, own: float, others: float) -> None:
        """Time goes by in which so many cores are used."""
        self.now += seconds
        self.own += own * seconds
        self.idle += (2 - own - others) * seconds


@pytest.mark.parametrize(
    ("free", "before", "after"),
    [
        (2.0, False, True),
        (BEGIN_CORES, False, True),
        (BEGIN_CORES - 0.01, False, False),
        (BEGIN_CORES - 0.01, True, True),
        (STAY_CORES, True, True),
        (STAY_CORES - 0.01, True, False),
        (0.0, False, False),
    ],
)
def test_it_takes_more_to_begin_than_to_stay(free: float, before: bool, after: bool) -> None:
    assert is_spare(free, was_spare=before) is after


@given(
    others=st.floats(0.0, 2.0),
    seconds=st.floats(SAMPLE_SECONDS, STALE_SECONDS),
    share=st.lists(st.floats(0, 1), min_size=2),
)
def test_what_is_free_does_not_depend_on_how_much_of_it_is_used(
    others: float, seconds: float, share: list[float]
) -> None:
    found = []
    for part in share:
        machine = Machine()
        before = machine.sample()
        machine.run(seconds, own=part * (2 - others), others=others)
        found.append(free_cores(before, machine.sample()))
    assert found == pytest.approx([2 - others] * len(share))


def test_no_helper_packs_before_the_cores_were_sampled_and_then_as_long_as_there_is_room() -> None:
    machine = Machine()
    spare = machine.spare()
    assert not spare.is_there()
    machine.run(SAMPLE_SECONDS / 2, own=1.0, others=0.0)
    assert not spare.is_there()
    machine.run(SAMPLE_SECONDS / 2, own=1.0, others=0.0)
    assert spare.is_there()
    machine.run(SAMPLE_SECONDS, own=1.7, others=0.3)  # no core is idle any more, and no other process wants one
    assert spare.is_there()


def test_one_packs_alone_when_others_want_the_cores_and_no_sooner_than_they_leave_two_pack_again() -> None:
    machine = Machine()
    spare = machine.spare()
    for others, helps in ((0.3, True), (0.6, True), (1.0, False), (0.6, False), (0.3, True)):
        machine.run(SAMPLE_SECONDS, own=2 - others, others=others)
        assert spare.is_there() is helps, others


def test_cores_that_were_free_while_the_producer_rested_prove_nothing() -> None:
    machine = Machine()
    spare = machine.spare()
    machine.run(STALE_SECONDS, own=0.0, others=0.0)
    assert not spare.is_there()
    machine.run(SAMPLE_SECONDS, own=1.0, others=0.0)
    assert spare.is_there()


def test_no_helper_packs_where_the_system_does_not_report_its_cores() -> None:
    times = iter(range(100))
    spare = SpareCores(lambda: None, lambda: float(next(times)))
    assert not any(spare.is_there() for _ in range(9))


def test_the_idle_time_is_that_of_the_cores_that_the_process_may_use() -> None:
    assert idle_ticks(TWO_CORES, {0, 1}) == 1346199 + 16787 + 1043050 + 43399
    assert idle_ticks(TWO_CORES, {1, 7}) == 1043050 + 43399


@pytest.mark.parametrize(
    "stat", ["", "cpu  1 2 3 4 5\n", "cpu0 1 2 3\n", "intr 1 2 3 4 5 6\n", "cpufreq 1 2 3 4 5 6\n"]
)
def test_statistics_without_the_cores_yield_nothing(stat: str) -> None:
    assert idle_ticks(stat, {0}) is None


@pytest.mark.skipif(not os.path.exists(STAT), reason=f"this system has no {STAT}")
def test_this_machine_reports_its_idle_time() -> None:
    first, second = sampled(), sampled()
    assert first is not None
    assert second is not None
    assert (first.at, first.idle, first.own) <= (second.at, second.idle, second.own)


def test_a_file_that_is_missing_or_of_another_kind_yields_nothing(tmp_path: Path) -> None:
    assert sampled(str(tmp_path / "stat")) is None
    (tmp_path / "stat").write_bytes(b"cpu0 a b c d e\n\xff")
    assert sampled(str(tmp_path / "stat")) is None
