"""The options of `fshipper migrate`."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shipper.commands import AsJson


class Shipper(enum.StrEnum):
    """A shipper whose configuration can be read."""

    PROMTAIL = "promtail"
    FLUENT_BIT = "fluent-bit"
    FILEBEAT = "filebeat"
    RSYSLOG = "rsyslog"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions:
    """Write a producer's configuration from that of another shipper.

    Names each line that has no counterpart. Nothing of the other shipper is changed: both can run side by side.
    """

    file: Annotated[Path, typer.Argument(help="Configuration of promtail, Fluent Bit, Filebeat, rsyslog or Vector.")]
    shipper: Annotated[
        Shipper | None, typer.Option("--from", help="Whose it is, where name and content leave that open.")
    ] = None
    output: Annotated[Path | None, typer.Option(help="File to write; it must not exist. [standard output]")] = None
    as_json: AsJson = False
