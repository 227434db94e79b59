"""The options of the commands of `fshipper partition`: a class a command, whose docstring is its help.

The function that does the work takes the object.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from shipper.commands import (
    AsJson,
    AsJsonLines,
    ConfigFile,
    DryRun,
    Key,
    LogFormat,
    LogLevel,
    NatsContext,
    Subject,
    Url,
    Yes,
)
from shipper.partition_map import MAX_PARTITIONS

Color = Literal["auto", "always", "never"]
"""When to colour."""
MAX_STREAMS = 64
"""Default limit of streams that `partition serve` makes, in all."""
TAIL = "TAIL"
"""Name of the push consumers of `--push`."""

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
DataLoss = Annotated[bool, typer.Option("--allow-data-loss", help="Also do what destroys messages.")]
Recreate = Annotated[bool, typer.Option("--recreate-consumers", help="Delete consumers that cannot be changed.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the streams of partitions that are too many.")]
Stream = Annotated[str, typer.Argument(metavar="STREAM", help="A stream by its name, or a partition: p3.")]
Force = Annotated[bool, typer.Option("--force", help="Also what is not archived: it is lost, or sent again.")]
Every = Annotated[bool, typer.Option("--all", help="Every stream of the account, not only fshipper's.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it; the terminal if left out.")]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Where the backup is.")]
Streams = Annotated[list[str] | None, typer.Argument(metavar="[STREAM]...", help="Only these streams.")]
OfPartitions = Annotated[str | None, typer.Option(help="Only the streams of these partitions: 0,2 or 0-3.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What every command with a session has."""

    url: Url = None
    nats_context: NatsContext = None
    config: ConfigFile = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsOptions(ServerOptions):
    """What every command about partitions has."""

    subject: Subject = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredOptions(LogsOptions):
    """Which streams there should be."""

    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            help="Desired state, TOML or JSON: what `export` writes, or what `nats stream info --json` prints.",
        ),
    ] = None
    partitions: Annotated[
        int | None,
        typer.Option(help="How many partitions; 0 means partition 0 (SHIPPER_PARTITIONS)."),
        Key("logs.partitions"),
    ] = None
    template: TemplateFile = None
    replicas: Replicas = None
    max_bytes: MaxBytes = None
    edge: Annotated[
        list[str] | None,
        typer.Option(help="An edge site that is sourced here: its domain and partitions.", metavar="DOMAIN=NUMBERS"),
    ] = None
    push: Annotated[
        str | None,
        typer.Option(help=f"Add push consumers {TAIL}, to SUBJECT.p<N>, for plain subscribers.", metavar="SUBJECT"),
    ] = None
    push_ack: Annotated[str, typer.Option(help="What their subscribers answer: none, or explicit.")] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions(DesiredOptions):
    """Show what `apply` would do; exit 2 when it would change something."""

    as_json: AsJson = False
    detailed_exitcode: Annotated[bool, typer.Option(help="Exit 2 when something would change.")] = True
    color: Annotated[Color, typer.Option(help="Colours: on terminals, always, or never.")] = "auto"
    allow_data_loss: DataLoss = False
    recreate_consumers: Recreate = False
    prune: Prune = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions(DesiredOptions):
    """Create the streams of all partitions with the collector's consumer, and what they share: dead letters, leases.

    It prompts before it changes or deletes something.
    """

    yes: Yes = False
    allow_data_loss: DataLoss = False
    recreate_consumers: Recreate = False
    prune: Prune = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions(LogsOptions):
    """Show how full the streams are, the collector's lag, and which hosts are too big for a partition."""

    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions(LogsOptions):
    """Write what exists as a desired-state file for `plan --file` and `apply --file`."""

    streams: Annotated[list[str] | None, typer.Argument(help="Only these streams.")] = None
    every: Every = False
    output: Output = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Make one desired-state file of what `nats stream info --json` and `nats consumer info --json` print."""

    files: Annotated[list[Path], typer.Argument(help="JSON of `nats stream info --json`, or desired-state files.")]
    output: Output = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions(LogsOptions):
    """Save streams with their consumers to DIR, while they are in use."""

    directory: Directory
    streams: Streams = None
    partitions: OfPartitions = None
    every: Every = False
    consumers: Annotated[bool, typer.Option(help="The durable consumers, too.")] = True
    replace: Annotated[bool, typer.Option("--replace", help="Over the backup that is in DIR.")] = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions(LogsOptions):
    """Make streams of the backup in DIR, with their consumers; streams that exist are never touched."""

    directory: Directory
    streams: Streams = None
    partitions: OfPartitions = None
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Another name for the one stream.")] = None
    subjects: Annotated[str | None, typer.Option(help="Other subjects for the one stream, separated by commas.")] = None
    replicas: Annotated[int | None, typer.Option(min=1, max=5, help="Copies in a cluster; as saved if left out.")] = (
        None
    )
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Only those that the server does not have.")
    ] = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyConfigOptions(LogsOptions):
    """Make a stream with another one's configuration, or change it to that; no messages are copied."""

    source: Annotated[str, typer.Argument(help="The stream that is as it should be.")]
    target: Annotated[str, typer.Argument(help="The stream to make, or to make like it.")]
    subjects: Annotated[str | None, typer.Option(help="What TARGET listens to, separated by commas.")] = None
    consumers: Annotated[bool, typer.Option(help="The durable consumers, too.")] = True
    yes: Yes = False
    allow_data_loss: DataLoss = False
    recreate_consumers: Recreate = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOptions(LogsOptions):
    """Change a stream's configuration: by --set, or in $EDITOR; shows the difference and prompts."""

    stream: Stream
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="For example max_bytes=50GB, metadata.team=web."),
    ] = None
    removed: Annotated[
        list[str] | None, typer.Option("--unset", metavar="FIELD", help="Back to the server's default.")
    ] = None
    consumer: Annotated[str | None, typer.Option(help="Edit this consumer of the stream instead.")] = None
    dry_run: DryRun = False
    yes: Yes = False
    allow_data_loss: DataLoss = False
    recreate_consumers: Recreate = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOptions(LogsOptions):
    """Remove old messages from a stream; of a partition only what is archived, unless --force is given."""

    stream: Stream
    before: Annotated[str | None, typer.Option(help="What was stored before: 24h (ago), 2026-11-20, RFC 3339.")] = None
    below: Annotated[int | None, typer.Option("--below", min=1, help="What has a lower sequence.")] = None
    everything: Annotated[bool, typer.Option("--all", help="All of it.")] = False
    force: Force = False
    yes: Yes = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMessageOptions(LogsOptions):
    """Remove one message for good, and print the command that removes the same bytes from the archive."""

    stream: Stream
    sequence: Annotated[int, typer.Argument(min=1, metavar="SEQ", help="Its number in the stream.")]
    erase: Annotated[bool, typer.Option(help="Overwrite its bytes on the server's disk.")] = True
    force: Force = False
    yes: Yes = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountOptions(ServerOptions):
    """Show limits and use of the account."""

    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsOptions(LogsOptions):
    """Show the advisories of the server about streams and consumers, as they arrive."""

    stream: Annotated[str | None, typer.Option(help="Only about this stream, or partition: p3.")] = None
    api: Annotated[bool, typer.Option("--api", help="Requests to the JetStream API, too.")] = False
    metrics: Annotated[bool, typer.Option("--metrics", help="Sampled acknowledgements, too.")] = False
    count: Annotated[int, typer.Option(min=0, help="End after so many; 0: never.")] = 0
    within: Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after so long, for example 10s.")] = (
        None
    )
    as_json: AsJsonLines = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions(LogsOptions):
    """Change the number of partitions under traffic: no line is lost, duplicated or out of order.

    If it is interrupted at any point, run it again: it continues where it was.
    """

    partitions: Annotated[int, typer.Option("--partitions", min=1, max=MAX_PARTITIONS, help="How many there shall be.")]
    slots: Annotated[
        bool | None,
        typer.Option(
            help="Spread hosts over 256 virtual slots, so that later moves take few hosts; or by FNV-1a modulo."
        ),
    ] = None
    override: Annotated[
        list[str] | None, typer.Option("--override", metavar="HOST=N", help="Assign a host to a partition.")
    ] = None
    no_override: Annotated[
        list[str] | None, typer.Option("--no-override", metavar="HOST", help="Remove the assignment of a host.")
    ] = None
    template: TemplateFile = None
    replicas: NewReplicas = None
    max_bytes: NewMaxBytes = None
    within: Annotated[str, typer.Option(help="How long to wait for hosts and collectors, as 90s or 2h.")] = "30m"
    dry_run: DryRun = False
    yes: Yes = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceOptions(ServerOptions):
    """Spread the leaders of streams and consumers evenly over the nodes: no cluster does so by itself."""

    dry_run: DryRun = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeOptions(LogsOptions):
    """Let this server, a leaf node at an edge site, keep the lines of its hosts until the centre has them.

    In the centre: partition apply --edge DOMAIN=NUMBERS.
    """

    numbers: Annotated[
        str, typer.Argument(help="The site's partitions, as 100-101: no other site's, nor the centre's.")
    ]
    template: TemplateFile = None
    replicas: Replicas = None
    max_bytes: MaxBytes = None
    yes: Yes = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(LogsOptions):
    """Create streams from the template when producers request them: producers have no right to create any."""

    max_streams: Annotated[
        int, typer.Option(min=1, max=MAX_PARTITIONS, help="Make no more streams than these in all.")
    ] = MAX_STREAMS
    partitions: Annotated[
        int | None,
        typer.Option(help="How many partitions there are, while there is no map (SHIPPER_PARTITIONS)."),
        Key("logs.partitions"),
    ] = None
    template: TemplateFile = None
    replicas: NewReplicas = None
    max_bytes: NewMaxBytes = None
    log_format: LogFormat = None
    log_level: LogLevel = None
