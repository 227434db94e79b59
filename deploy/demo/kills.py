"""When to kill whom: seeded, every victim once a round, so that the same seed is the same demo."""

import random
from collections.abc import Sequence
from typing import NamedTuple

MIN_ROUNDS = 2
ROUND_SECONDS = 12.0
QUIET = 0.08
"""Part of the flow without kills at either end, so that one sees it run first, and no kill comes too late."""


class Kill(NamedTuple):
    """`victim` dies `at` seconds after the flow began."""

    at: float
    victim: str


def planned(victims: Sequence[str], seconds: float, seed: int) -> list[Kill]:
    """Kills for a flow of `seconds`, in order of time: each victim at least twice, in another order each round."""
    chance = random.Random(seed)  # noqa: S311 - seeded, to be the same again
    rounds = max(MIN_ROUNDS, int(seconds / ROUND_SECONDS))
    order = [victim for _ in range(rounds) for victim in chance.sample(victims, len(victims))]
    first, slot = seconds * QUIET, seconds * (1 - 2 * QUIET) / len(order)
    return [Kill(first + (number + chance.random()) * slot, victim) for number, victim in enumerate(order)]
