"""The options of `fshipper migrate`: a class a command, whose docstring is its help."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shipper.commands import AsJson


class Shipper(enum.StrEnum):
    """The shippers whose configurations are read."""

    PROMTAIL = "promtail"
    FILEBEAT = "filebeat"
    FLUENT_BIT = "fluent-bit"
    RSYSLOG = "rsyslog"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions:
    """Write the configuration of another shipper as one of fshipper, and list what of it has no counterpart.

    It reads configurations of Promtail (YAML), Filebeat (YAML), Fluent Bit (classic and YAML), rsyslog and Vector (TOML
    and YAML). Several files are read as one. The configuration goes to standard output, the list to standard error.

    Ends with 0 when files or inputs were found, with 2 when there is nothing to ship, with 78 when a file is not valid.
    """

    configs: Annotated[list[Path], typer.Argument(help="Configuration of the other shipper.", metavar="FILE...")]
    shipper: Annotated[
        Shipper | None, typer.Option("--from", help="Whose configuration it is; default: by its content.")
    ] = None
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it there; the file must not exist.")] = (
        None
    )
    as_json: AsJson = False
