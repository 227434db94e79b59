"""The options of `fshipper demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shipper.commands import AsJson


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """See it all work: files grow and rotate, everything is killed on the way, and every byte is proven.

    Starts a server, four partitions, the producers of three hosts and a collector on this machine, kills each of
    them with SIGKILL several times while the files grow, compares the archive with the sources byte for byte, and
    lets Spark make a report. Exit 0 only if the proof holds.
    """

    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files, as `--path *.log` leaves them.")
    ] = None
    out: Annotated[Path, typer.Option(help="Where everything is written; replaced by the next demo.")] = Path(
        "demo-out"
    )
    path: Annotated[
        list[Path] | None, typer.Option(help="Your own files, or a directory of them, in place of generated lines.")
    ] = None
    seconds: Annotated[float, typer.Option(min=3, max=3600, help="How long the files grow.")] = 40
    seed: Annotated[int | None, typer.Option(help="Repeat the lines, rotations and kills of another demo.")] = None
    days: Annotated[
        int,
        typer.Option(
            help="Write so many finished days up to yesterday and a report of each, instead of the proof.",
            min=0,
            max=60,
            show_default=False,
        ),
    ] = 0
    report: Annotated[bool, typer.Option(help="Let Spark count in the end; needs Java.")] = True
    as_json: AsJson = False
