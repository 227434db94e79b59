"""How fast, at what cost, and compared with what limit: the cases of the suite, one after the other, each some times.

    make bench                                                     the quick whole: 1 GiB sources, three runs of each
    make bench BENCH="--only end-to-end --mb 2048 --runs 5"        one case
    make bench BENCH="--only producer --only collector --mb 256"   two
    make bench BENCH="--long"                                      with the cases that take long (growth to 8 GiB)

Only the ratios travel between machines: every figure stands next to its limit from the same run.
Ends with 0: every line that was measured holds; 1: one does not; 70: a program failed, or the archive is wrong;
75: others use the machine, nothing was judged.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import machine
from cases import (
    alone,
    any_log,
    catching_up,
    flood,
    footprint,
    growth,
    latency,
    lines,
    many,
    peers,
    report,
    report_start,
    search,
    start,
    steady,
    whole,
)
from figures import Verdict, figures, judge
from programs import FailedError, with_sync
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from showing import document, facts, show
from source import make
from suite import Case, Manner, Outcome, outcome

CASES: tuple[Case, ...] = (
    whole.CASE, any_log.CASE, peers.CASE, alone.PRODUCE, alone.COLLECT, lines.CASE, latency.CASE, steady.CASE,
    footprint.CASE, growth.HOSTS, growth.SIZES, catching_up.CASE, many.FILES, many.CROWD,
    many.DRAWN, many.CLUSTER, report.CASE, report.LARGE,
    report_start.CASE,
    search.CASE, start.CASE, flood.CASE,
)  # fmt: skip
OK, BROKEN, FAILED, NOISY, TERMINATED = 0, 1, 70, 75, 143
GIB_IN_MB = 1074
FILE_WIDTH = 120


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # so that what was started is ended
    machine.adopt_orphans()
    arguments = parsed()
    screen = Console(stderr=True)
    directory = Path(tempfile.mkdtemp(prefix="fshipper-bench-", dir=arguments.directory))
    try:
        others = before(arguments)
        source = make(directory / "bench.log", arguments.mb)
        manner = Manner(directory, arguments.runs, (lambda: None) if arguments.anyway else machine.quiet)
        outcomes = run_all(chosen(arguments), manner, screen, lambda case, told: outcome(case, source, manner, told))
    except machine.TooNoisyError as noisy:
        screen.print(str(noisy), style="red", markup=False)
        return NOISY
    except FailedError as failed:
        screen.print(str(failed), style="red", markup=False)
        return FAILED
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    about = facts(arguments.mb, source.kind, arguments.runs, others)
    if arguments.json:
        print(json.dumps(document(about, outcomes), indent=2))
    else:
        show(about, outcomes, Console(width=None if sys.stdout.isatty() else FILE_WIDTH))
    return code(outcomes)


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES], help="this case; repeatable")
    parser.add_argument("--long", action="store_true", help="with the cases that take long")
    parser.add_argument("--mb", type=int, default=GIB_IN_MB, help="size of the log file in 10^6 bytes (1 GiB)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case; medians are shown")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--anyway", action="store_true", help="measure although others use the machine; marked so")
    parser.add_argument("--directory", default=None, help="where to work; a real disk, not tmpfs")
    return with_sync(parser).parse_args(words)


def chosen(arguments: argparse.Namespace) -> list[Case]:
    """The requested cases; without a request, all that are not long."""
    if arguments.only:
        return [case for case in CASES if case.name in arguments.only]
    return [case for case in CASES if arguments.long or not case.is_long]


def before(arguments: argparse.Namespace) -> float:
    """What others use, in cores, once it is quiet; with --anyway immediately."""
    return machine.look_around() if arguments.anyway else machine.quiet()


def run_all(
    cases: list[Case], manner: Manner, screen: Console, one: Callable[[Case, Callable[[], object]], Outcome]
) -> list[Outcome]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    outcomes = []
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=sum(min(manner.runs, case.most_runs) for case in cases))
        for case in cases:
            progress.update(task, description=f"{case.name}: {case.question}")
            outcomes.append(one(case, lambda: progress.advance(task)))
    return outcomes


def code(outcomes: Sequence[Outcome]) -> int:
    """The exit code."""
    verdicts = {
        judged.verdict
        for found in outcomes
        for judged in judge(found.case.lines, figures(found.runs), noisy=found.is_noisy)
    }
    return BROKEN if Verdict.FAILED in verdicts else NOISY if Verdict.NOISY in verdicts else OK


if __name__ == "__main__":
    sys.exit(main())
