"""The options of `fshipper wait`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from typing import Annotated

import typer

from shipper.commands import AsJson, ConfigFile, NatsContext, Subject, Url


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOptions:
    """Wait until the archive has everything that the hosts wrote up to a time, and name what is missing.

    Each producer is requested to scan its files after that time, by the clock of this machine. The wait ends when
    collectors have confirmed every byte that these scans found. A host that does not answer makes it wait.

    Ends with 0 when everything is in the archive, with 1 when --timeout is over, with 69 when no such host is known.
    """

    until: Annotated[
        str, typer.Option(help="What was written up to then: now, 10m (ago), 09:30, 2026-11-20T10:00:00Z.")
    ] = "now"
    host: Annotated[list[str] | None, typer.Option(help="Only hosts of this name or pattern: 'web*'; may repeat.")] = (
        None
    )
    timeout: Annotated[str, typer.Option(help="Give up after this time, as 10m; 0: never.")] = "0"
    as_json: AsJson = False
    url: Url = None
    nats_context: NatsContext = None
    config: ConfigFile = None
    subject: Subject = None
