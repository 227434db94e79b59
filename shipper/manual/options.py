"""The options of `fshipper completion`."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from shipper.commands import Archive


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions:
    """Print a script with which a shell completes commands, options, values, hosts and files of the archive.

    Packages and `make install` put it where bash, zsh and fish find it.
    """

    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None, typer.Argument(help="The shell.", metavar="[bash|zsh|fish]")
    ] = None
    listed: Annotated[
        Literal["host", "archived", "context"] | None,
        typer.Option("--list", help="For the scripts: names of hosts, archived files or contexts of `nats`."),
    ] = None
    archive: Archive = None
