"""The options of `fshipper capacity`: a class, whose docstring is the help."""

from dataclasses import dataclass
from typing import Annotated

import typer

from shipper.commands import AsJson


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOptions:
    """Compute the disk, memory, cores and streams that a number of hosts needs.

    The figures are those of the benchmarks page, measured on two shared virtual cores: a first size of machines, which
    `fshipper status` and your own `make bench` correct.
    """

    hosts: Annotated[int, typer.Option(min=1, max=100_000, help="Number of hosts.")]
    per_day: Annotated[str, typer.Option(metavar="SIZE", help="Log text of all hosts together in a day, as 50GiB.")]
    retention: Annotated[str, typer.Option(metavar="TIME", help="How long the archive keeps a day, as 90d.")] = "30d"
    outage: Annotated[
        str, typer.Option(metavar="TIME", help="How long no collector may run without a loss, as 24h.")
    ] = "24h"
    replicas: Annotated[int, typer.Option(min=1, max=5, help="Replicas of the streams: 1, or 3 in a cluster.")] = 1
    compression: Annotated[
        float | None, typer.Option(min=1, help="Text divided by its stored size; log samples: 12.")
    ] = None
    peak: Annotated[float, typer.Option(min=1, help="The busiest hour divided by the mean hour.")] = 4.0
    as_json: AsJson = False
