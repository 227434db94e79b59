"""What is going to happen in one run, as a value: made from the seed alone before anything starts.

Progress makes it go on, not a clock: so many bytes are written, so large a share of them is in the archive, then comes
the fault. So a seed means the same on a slow machine.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

KILOBYTE = 1000
LONG_SECONDS = 3.5
"""Beyond every time-out of a run: 3 s without a heartbeat, 1.5 s without an ack."""
SEEDS_A_DEAL = 6
"""So many seeds in a row, from a multiple of it on, meet every fault once."""

HOSTS = ("web1.example.net", "db2.example.net")
"""Of two partitions each has one."""

FAULTS = {
    "producer killed": "producer",
    "producer killed in a call": "producer",
    "producer hung": "producer",
    "producer's checkpoint torn": "producer",
    "producer's acks lost": "producer",
    "producer's requests lost": "producer",
    "producer's wire cut": "producer",
    "producer's wire split": "producer",
    "server killed": "server",
    "server hung": "server",
    "server hung for long": "server",
    "server's store rolled back": "server",
    "server's stream full": "server",
    "server's stream purged": "server",
    "server's consumer deleted": "server",
    "server's consumer made anew": "server",
    "server's ack floor moved": "server",
    "collector killed": "collector",
    "collector killed in a call": "collector",
    "collector hung": "collector",
    "collector hung for long": "collector",
    "collector hung in a call": "collector",
    "collector's journal torn": "collector",
    "collector's deliveries lost": "collector",
    "collector's wire cut": "collector",
    "collector's wire slow": "collector",
    "archive's disk full": "collector",
    "archive read-only": "collector",
    "archive's syncs fail": "collector",
}
"""Every fault, and whom it befalls: one that befalls a victim waits until the one before it is over."""

TAKEN_OVER = frozenset({"collector hung for long", "collector hung in a call"})
"""These show what they are for where another collector takes over."""
NEEDS_VOLUME = frozenset({"archive's disk full", "archive read-only"})


class Rotation(Enum):
    """How a program begins its log anew."""

    RENAME = "rename"
    COPYTRUNCATE = "copytruncate"
    DELETE = "rename, and delete what was seen to its end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """One fault; `number` seeds its own choices."""

    fault: str
    number: int
    seconds: float

    @property
    def victim(self) -> str:
        return FAULTS[self.fault]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """`before` bytes are written, `share` of them archived, the blows fall, `during` bytes are written, all mends."""

    before: int
    share: float
    blows: tuple[Blow, ...]
    during: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """How a host logs: how it rotates, and how many of its bursts of lines begin a new file."""

    host: str
    rotation: Rotation
    rotates: float
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One run."""

    seed: int
    hosts: tuple[Habit, ...]
    partitions: int
    collectors: int
    settings: Mapping[str, str]  #: of the programs, as far as a seed chooses them
    journal_in_archive: bool
    rounds: tuple[Round, ...]

    @property
    def faults(self) -> frozenset[str]:
        return frozenset(blow.fault for each in self.rounds for blow in each.blows)

    @property
    def needs_volume(self) -> bool:
        return bool(self.faults & NEEDS_VOLUME)

    def __str__(self) -> str:
        where = "in" if self.journal_in_archive else "beside"
        lines = [
            f"seed {self.seed}: FSHIPPER_CHAOS_SEED={self.seed} pytest tests/chaos/test_chaos_seeds.py runs it again",
            f"  {self.partitions} partitions, {self.collectors} collectors, the journal lies {where} the archive",
            f"  {self.settings}",
        ]
        lines += [f"  {h.host}: {h.pattern}, {h.rotation.value}, {h.rotates:.0%} of its bursts" for h in self.hosts]
        for each in self.rounds:
            blows = " and ".join(f"{b.fault} ({b.number}, {b.seconds:.1f} s)" for b in each.blows)
            lines.append(f"  {each.before} bytes, {each.share:.0%} archived, {blows}, {each.during} bytes meanwhile")
        return "\n".join(lines)


def schedule(seed: int) -> Schedule:
    """The run of `seed`."""
    chance, faults = random.Random(f"run {seed}"), _dealt(seed)
    collectors = 2 if TAKEN_OVER & set(faults) else random.Random(f"collectors {seed}").choice((1, 1, 2))
    return Schedule(
        seed=seed,
        hosts=tuple(_habit(host, chance) for host in HOSTS),
        partitions=max(collectors, chance.choice((1, 2))),
        collectors=collectors,
        settings=_settings(random.Random(f"settings {seed}")),
        journal_in_archive=chance.random() < 0.5,
        rounds=_rounds(faults, chance),
    )


def _settings(chance: random.Random) -> dict[str, str]:
    return {
        "encoding": chance.choice(("zstd", "zstd", "gzip", "identity", "plain")),
        "store": chance.choice(("plain", "plain", "frames")),
        "codec": chance.choice(("zstd", "gzip")),
        "segment": chance.choice(("200KB", "128MB")),
    }


def _habit(host: str, chance: random.Random) -> Habit:
    return Habit(
        host=host,
        rotation=chance.choice(tuple(Rotation)),
        rotates=chance.choice((0.02, 0.1)),
        pattern=chance.choice(("app.log", "app.log*")),
    )


def _dealt(seed: int) -> list[str]:
    """The faults of a seed: all of them are shuffled and dealt to `SEEDS_A_DEAL` seeds in a row."""
    deal, place = divmod(seed, SEEDS_A_DEAL)
    deck = sorted(FAULTS)
    random.Random(f"deal {deal}").shuffle(deck)
    return deck[place::SEEDS_A_DEAL]


def _rounds(faults: list[str], chance: random.Random) -> tuple[Round, ...]:
    """One blow a round, or two that befall different victims."""
    blows = [Blow(fault=fault, number=chance.randrange(1 << 30), seconds=chance.uniform(0.1, 0.8)) for fault in faults]
    together: list[tuple[Blow, ...]] = []
    for blow in blows:
        if together and len(together[-1]) == 1 and together[-1][0].victim != blow.victim and chance.random() < 0.35:
            together[-1] += (blow,)
        else:
            together.append((blow,))
    return tuple(
        Round(
            before=chance.randrange(100, 500) * KILOBYTE,
            share=chance.random(),
            blows=each,
            during=chance.randrange(50, 400) * KILOBYTE,
        )
        for each in together
    )
