"""The options of `fshipper up` and `fshipper down`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shipper.commands import AsJson, Yes

Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory of all data [/var/lib/fshipper as root, else ~/.local/share/fshipper].",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Ship, archive and search the logs of this machine with one command, until Ctrl-C.

    Starts a NATS server, a collector, a producer and a page for the browser, all on 127.0.0.1, and prints the link of
    the page. `fshipper search` finds the lines, too. Run it again, and it continues where it ended.
    """

    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Files, directories and quoted globs. By default those of the last time, or else /var/log.",
        ),
    ] = None
    data: Data = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DownOptions:
    """End the `fshipper up` that runs, also from another terminal; with --remove also remove what it stored."""

    data: Data = None
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the archive and the streams that `fshipper up` made.")
    ] = False
    yes: Yes = False
    as_json: AsJson = False
