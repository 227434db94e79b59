"""`fshipper demo`: options in, exit code out; 0 only if the proof holds."""

import json
import random
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deploy.demo import month
from deploy.demo.hosts import HOSTS, generated, replayed
from deploy.demo.result import DemoResult, print_result
from deploy.demo.scenario import DemoPlan, tell
from deploy.demo.show import DemoDisplay
from deploy.demo.workspace import EXIT_CONFIG, EXIT_OTHER, DemoError, Interrupted, taken

PLAIN_WIDTH = 100
"""Columns of the output if there is no terminal."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def demo(
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files, as `--path *.log` leaves them.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Where everything is written; replaced by the next demo.")] = Path(
        "demo-out"
    ),
    path: Annotated[
        list[Path] | None, typer.Option(help="Your own files, or a directory of them, in place of generated lines.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=3, max=3600, help="How long the files grow.")] = 40,
    seed: Annotated[int | None, typer.Option(help="Repeat the lines, rotations and kills of another demo.")] = None,
    days: Annotated[
        int,
        typer.Option(
            help="Write so many finished days up to yesterday and a report of each, instead of the proof.",
            min=0,
            max=60,
            show_default=False,
        ),
    ] = 0,
    report: Annotated[bool, typer.Option(help="Let Spark count in the end; needs Java.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, all else to stderr.")] = False,
) -> None:
    """See it all work: files grow and rotate, everything is killed on the way, and every byte is proven.

    Starts a server, four partitions, the producers of three hosts and a collector on this machine, kills each of
    them with SIGKILL several times while the files grow, compares the archive with the sources byte for byte, and
    lets Spark make a report. Exit 0 only if the proof holds.
    """
    console = Console(stderr=as_json, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    try:
        if days:
            _month(out, days, seed, report=report)
            return
        result = _run(out, [*(path or []), *(more or [])], seconds, seed, console, report=report)
    except Interrupted as ended:
        raise typer.Exit(ended.code) from None
    except DemoError as error:
        raise _failed(str(error), error.hint, error.code) from None
    except OSError as error:
        raise _failed(f"{error.filename or out}: {error.strerror}", f"see {out}", EXIT_OTHER) from None
    if as_json:
        sys.stdout.write(json.dumps(result.as_json(), indent=1) + "\n")
    if not result.holds:
        raise typer.Exit(EXIT_OTHER)


def _month(out: Path, days: int, seed: int | None, *, report: bool) -> None:
    if days < month.MIN_DAYS:
        hint = f"give {month.MIN_DAYS} to 60"
        raise DemoError(f"--days {days} is too few for its story", hint=hint, code=EXIT_CONFIG)
    with taken(out) as place:
        sys.stderr.write(month.tell(place, days, 1 if seed is None else seed, report=report) + "\n")


def _run(
    out: Path, paths: list[Path], seconds: float, seed: int | None, console: Console, *, report: bool
) -> DemoResult:
    chosen = random.SystemRandom().randrange(10_000) if seed is None else seed
    for path in paths:
        if path.resolve().is_relative_to(out.resolve()):
            raise DemoError(
                f"--path {path} is in {out}, which the demo replaces", hint="copy it elsewhere", code=EXIT_CONFIG
            )
    feeds, notes = replayed(paths, seconds) if paths else (generated(seconds, chosen, time.time), [])
    with taken(out) as place:
        with DemoDisplay(console, f"fshipper demo: {len(HOSTS)} hosts, {len(feeds)} log files, seed {chosen}") as show:
            for note in notes:
                show.event(note)
            result = tell(DemoPlan(feeds, seconds, chosen, report), place, show)
        print_result(console, result, place.hosts)
        return result


def _failed(message: str, hint: str, code: int) -> typer.Exit:
    sys.stderr.write(f"error: {message}\n" + (f"hint: {hint}\n" if hint else ""))
    return typer.Exit(code)
