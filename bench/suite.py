"""Run cases: each some times, in a directory of its own, again where others disturbed it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from figures import Line, Reading, Run
from machine import Moment, is_noisy, now, others_cores, settled
from source import Source

REPETITIONS = 2  # of a run that others disturbed


class MissingError(Exception):
    """What a case needs is not here; its message names how to get it."""


@dataclass(frozen=True)
class Place:
    """Where one run of a case works, and on what."""

    directory: Path
    source: Source
    number: int  #: of the run, from 0: pairs alternate by it


@dataclass(frozen=True)
class Case:
    """A question, how it is measured, and what must be true of the answer."""

    name: str
    question: str
    run: Callable[[Place], list[Reading]]
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    most_runs: int = 100
    is_long: bool = False  #: only on request


@dataclass(frozen=True)
class Outcome:
    """All runs of a case; without any, why."""

    case: Case
    runs: tuple[Run, ...]
    missing: str = ""

    @property
    def is_noisy(self) -> bool:
        """Whether others disturbed a run that had to be kept."""
        return any(run.disturbed for run in self.runs)


@dataclass(frozen=True)
class Manner:
    """How the suite is run."""

    directory: Path
    runs: int
    wait: Callable[[], object]  #: for a quiet machine, before each run
    now: Callable[[], Moment] = now  #: reads the machine's clocks


def outcome(case: Case, source: Source, manner: Manner, told: Callable[[], object]) -> Outcome:
    """Run a case; `told` is called after each run.

    Raises:
        TooNoisyError: the machine did not become quiet.
        FailedError: a program failed, or the result is wrong.
    """
    runs: list[Run] = []
    try:
        for number in range(min(manner.runs, case.most_runs)):
            runs.append(_undisturbed(case, source, manner, number))
            told()
    except MissingError as missing:
        return Outcome(case, (), str(missing))
    return Outcome(case, tuple(runs))


def _undisturbed(case: Case, source: Source, manner: Manner, number: int) -> Run:
    """One run; a disturbed one is done again, some times, and the last one is kept with its mark."""
    for _ in range(REPETITIONS):
        if not (run := _run(case, source, manner, number)).disturbed:
            return run
    return _run(case, source, manner, number)


def _run(case: Case, source: Source, manner: Manner, number: int) -> Run:
    manner.wait()
    with _directory(manner.directory / f"{case.name}-{number}") as directory:
        settled()
        before = manner.now()
        readings = case.run(Place(directory, source, number))
        others = others_cores(before, manner.now())
    return Run(tuple(readings), others, is_noisy(others))


@contextmanager
def _directory(path: Path) -> Iterator[Path]:
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
