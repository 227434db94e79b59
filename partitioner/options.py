"""Options that several commands of `fshipper partition` have, and values that their `--help` shows."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Color = Literal["auto", "always", "never"]
"""When to colour."""
MAX_STREAMS = 64
"""Default limit of streams that `partition serve` makes, in all."""
TAIL = "TAIL"
"""Name of the push consumers of `--push`."""

Url = Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL).")]
Config = Annotated[Path | None, typer.Option(help="Configuration file (SHIPPER_CONFIG).")]
Subject = Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT).")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt.")]

# -- partitions and their streams ----------------------------------------------------------------------------------

File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        help="Desired state, TOML or JSON: what `export` writes, or what `nats stream info --json` prints.",
    ),
]
Partitions = Annotated[int | None, typer.Option(help="How many partitions; 0 means partition 0 (SHIPPER_PARTITIONS).")]
TemplateFile = Annotated[Path | None, typer.Option("--template", help="Template of the streams (JSON).")]
Replicas = Annotated[int | None, typer.Option(min=1, max=5, help="Copies of each stream in a cluster.")]
MaxBytes = Annotated[
    str | None, typer.Option(help="Maximum size of a partition's stream, for example 50GB; the server reserves it.")
]
NewReplicas = Annotated[
    int | None, typer.Option(min=1, max=5, help="Copies of each new stream; default: as existing ones.")
]
NewMaxBytes = Annotated[
    str | None, typer.Option(help="Size of each new partition, for example 50GB; default: as existing ones.")
]
Edge = Annotated[
    list[str] | None,
    typer.Option(help="An edge site that is sourced here: its domain and partitions.", metavar="DOMAIN=NUMBERS"),
]
Push = Annotated[
    str | None,
    typer.Option(help=f"Add push consumers {TAIL}, to SUBJECT.p<N>, for plain subscribers.", metavar="SUBJECT"),
]
PushAck = Annotated[str, typer.Option(help="What their subscribers answer: none, or explicit.")]
DataLoss = Annotated[bool, typer.Option("--allow-data-loss", help="Also do what destroys messages.")]
RecreateAll = Annotated[bool, typer.Option("--recreate-consumers", help="Delete consumers that cannot be changed.")]
Recreate = Annotated[bool, typer.Option("--recreate-consumers", help="Delete a consumer that cannot be changed.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the streams of partitions that are too many.")]

# -- single streams, and backups -----------------------------------------------------------------------------------

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="A stream by its name, or a partition: p3.")]
Force = Annotated[bool, typer.Option("--force", help="Also what is not archived: it is lost, or sent again.")]
Every = Annotated[bool, typer.Option("--all", help="Every stream of the account, not only fshipper's.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it; the terminal if left out.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Where the backup is.")]
Streams = Annotated[list[str] | None, typer.Argument(metavar="[STREAM]...", help="Only these streams.")]
OfPartitions = Annotated[str | None, typer.Option(help="Only the streams of these partitions: 0,2 or 0-3.")]
