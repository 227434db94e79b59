"""Seeded runs: whatever befalls the programs, the archive equals the logs, or a gap record names what is missing."""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from play import play
from schedule import FAULTS, SEEDS_A_DEAL, schedule

RUNS = int(os.environ.get("FSHIPPER_CHAOS_RUNS", str(SEEDS_A_DEAL)))
ONE = os.environ.get("FSHIPPER_CHAOS_SEED", "")
SEEDS = [int(ONE)] if ONE else list(range(RUNS))
AT_ONCE = int(os.environ.get("FSHIPPER_CHAOS_AT_ONCE", "3"))
"""A run mostly waits: for time-outs, for what hangs, for what comes back."""


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, "Future[str]"]]:
    """The seeds of the chosen tests, a few at a time, each in a world of its own."""
    here = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    seeds = sorted(item.callspec.params["seed"] for item in here if "seed" in item.callspec.params)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="run") as pool:
        yield {seed: pool.submit(play, seed, tmp_path_factory.mktemp(f"seed-{seed}", numbered=False)) for seed in seeds}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_seeded_run_of_faults_every_byte_is_there_once_or_its_loss_is_recorded(
    seed: int, runs: dict[int, "Future[str]"]
) -> None:
    print(runs[seed].result())


@pytest.mark.parametrize("first", range(0, 10 * SEEDS_A_DEAL, SEEDS_A_DEAL))
def test_the_seeds_of_every_deal_meet_every_fault(first: int) -> None:
    met = [schedule(seed).faults for seed in range(first, first + SEEDS_A_DEAL)]
    assert frozenset().union(*met) == FAULTS.keys()
    assert sum(map(len, met)) == len(FAULTS)


def test_a_seed_is_the_same_run_every_time() -> None:
    assert [schedule(seed) for seed in range(20)] == [schedule(seed) for seed in range(20)]
    assert len({str(schedule(seed)) for seed in range(20)}) == 20
