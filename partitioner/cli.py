"""`fshipper partition`: the options of its commands. What a command runs is imported when it is called.

Each function here declares a command and returns the function that does its work, with the same parameters.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from partitioner.options import (
    MAX_STREAMS,
    AsJson,
    Color,
    Config,
    DataLoss,
    Directory,
    Edge,
    Every,
    File,
    Force,
    MaxBytes,
    NewMaxBytes,
    NewReplicas,
    OfPartitions,
    Output,
    Partitions,
    Prune,
    Push,
    PushAck,
    Recreate,
    RecreateAll,
    Replicas,
    Stream,
    Streams,
    Subject,
    TemplateFile,
    Url,
    Yes,
)
from shipper.interrupts import importing
from shipper.partition_map import MAX_PARTITIONS

app = typer.Typer(help="Plan, create, watch, save and mend the streams.", add_completion=False, rich_markup_mode=None)

Work = Callable[..., None]


def command(name: str | None = None) -> Callable[[Callable[..., Work]], None]:
    """Register a command: its options are the parameters of a function; the work that this returns takes them."""

    def register(options: Callable[..., Work]) -> None:
        @functools.wraps(options)
        def run(**given: Any) -> None:
            with importing():
                work = options(**given)
            work(**given)

        app.command(name)(run)

    return register


@command()
def plan(
    *,
    file: File = None,
    partitions: Partitions = None,
    template: TemplateFile = None,
    replicas: Replicas = None,
    max_bytes: MaxBytes = None,
    edge: Edge = None,
    push: Push = None,
    push_ack: PushAck = "none",
    as_json: AsJson = False,
    detailed_exitcode: Annotated[bool, typer.Option(help="Exit 2 when something would change.")] = True,
    color: Annotated[Color, typer.Option(help="Colours: on terminals, always, or never.")] = "auto",
    allow_data_loss: DataLoss = False,
    recreate_consumers: RecreateAll = False,
    prune: Prune = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Show what `apply` would do; exit 2 when it would change something."""
    from partitioner import app as verbs

    return verbs.plan


@command()
def apply(
    *,
    file: File = None,
    partitions: Partitions = None,
    template: TemplateFile = None,
    replicas: Replicas = None,
    max_bytes: MaxBytes = None,
    edge: Edge = None,
    push: Push = None,
    push_ack: PushAck = "none",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Change and delete without a prompt; creating never prompts.")
    ] = False,
    allow_data_loss: DataLoss = False,
    recreate_consumers: RecreateAll = False,
    prune: Prune = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Create the streams of all partitions with the collector's consumer, and what they share: dead letters, leases."""
    from partitioner import app as verbs

    return verbs.apply


@command()
def status(*, as_json: AsJson = False, url: Url = None, config: Config = None, subject: Subject = None) -> Work:
    """Show how full the streams are, the collector's lag, and which hosts are too big for a partition."""
    from partitioner import app as verbs

    return verbs.status


@command()
def export(
    streams: Annotated[list[str] | None, typer.Argument(help="Only these streams.")] = None,
    *,
    every: Every = False,
    output: Output = None,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Write what exists as a desired-state file for `plan --file` and `apply --file`."""
    from partitioner import desired

    return desired.export


@command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="JSON of `nats stream info --json`, or desired-state files.")],
    *,
    output: Output = None,
    as_json: AsJson = False,
) -> Work:
    """Make one desired-state file of what `nats stream info --json` and `nats consumer info --json` print."""
    from partitioner import desired

    return desired.import_


@command()
def backup(
    directory: Directory,
    streams: Streams = None,
    *,
    partitions: OfPartitions = None,
    every: Every = False,
    consumers: Annotated[bool, typer.Option(help="Save the consumers and how far they are, too.")] = True,
    replace: Annotated[bool, typer.Option("--replace", help="Over the backup that is in DIR.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Save streams with their consumers to DIR, while they are in use."""
    from partitioner import backup as verbs

    return verbs.backup


@command()
def restore(
    directory: Directory,
    streams: Streams = None,
    *,
    partitions: OfPartitions = None,
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Another name for the one stream.")] = None,
    subjects: Annotated[
        str | None, typer.Option(help="Other subjects for the one stream, separated by commas.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=5, help="Copies in a cluster; as saved if left out.")
    ] = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Only those that the server does not have.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Make streams of the backup in DIR, with their consumers; streams that exist are never touched."""
    from partitioner import backup as verbs

    return verbs.restore


@command("copy-config")
def copy_config(
    source: Annotated[str, typer.Argument(help="The stream that is as it should be.")],
    target: Annotated[str, typer.Argument(help="The stream to make, or to make like it.")],
    *,
    subjects: Annotated[str | None, typer.Option(help="What TARGET listens to, separated by commas.")] = None,
    consumers: Annotated[bool, typer.Option(help="Its durable consumers, too.")] = True,
    yes: Yes = False,
    allow_data_loss: DataLoss = False,
    recreate_consumers: Recreate = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Make a stream with another one's configuration, or change it to that; no messages are copied."""
    from partitioner.streams import edit as verbs

    return verbs.copy_config


@command()
def edit(
    stream: Stream,
    *,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="For example max_bytes=50GB, metadata.team=web."),
    ] = None,
    removed: Annotated[
        list[str] | None, typer.Option("--unset", metavar="FIELD", help="Back to the server's default.")
    ] = None,
    consumer: Annotated[str | None, typer.Option(help="Edit this consumer of the stream instead.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; exit 2 when something would.")
    ] = False,
    yes: Yes = False,
    allow_data_loss: DataLoss = False,
    recreate_consumers: Recreate = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Change a stream's configuration: by --set, or in $EDITOR; shows the difference and prompts."""
    from partitioner.streams import edit as verbs

    return verbs.edit


@command()
def purge(
    stream: Stream,
    *,
    before: Annotated[str | None, typer.Option(help="What was stored before: 24h (ago), 2026-11-20, RFC 3339.")] = None,
    below: Annotated[int | None, typer.Option("--below", min=1, help="What has a lower sequence.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of it.")] = False,
    force: Force = False,
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Remove old messages from a stream; of a partition only what is archived, unless --force is given."""
    from partitioner.streams import removal

    return removal.purge


@command("rm-message")
def rm_message(
    stream: Stream,
    sequence: Annotated[int, typer.Argument(min=1, metavar="SEQ", help="Its number in the stream.")],
    *,
    erase: Annotated[bool, typer.Option(help="Overwrite its bytes on the server's disk.")] = True,
    force: Force = False,
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Remove one message for good, and print the command that removes the same bytes from the archive."""
    from partitioner.streams import removal

    return removal.rm_message


@command()
def account(*, as_json: AsJson = False, url: Url = None, config: Config = None) -> Work:
    """Show limits and use of the account."""
    from partitioner import app as verbs

    return verbs.account


@command()
def events(
    *,
    stream: Annotated[str | None, typer.Option(help="Only about this stream, or partition: p3.")] = None,
    api: Annotated[bool, typer.Option("--api", help="Requests to the JetStream API, too.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Sampled acknowledgements, too.")] = False,
    count: Annotated[int, typer.Option(min=0, help="End after so many; 0: never.")] = 0,
    within: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after so long, for example 10s.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: an object a line.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Show the advisories of the server about streams and consumers, as they arrive."""
    from partitioner.streams import server_events

    return server_events.events


@command()
def move(
    *,
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, max=MAX_PARTITIONS, help="How many there shall be.")
    ],
    slots: Annotated[
        bool | None,
        typer.Option(
            help="Spread hosts over 256 virtual slots, so that later moves take few hosts; or by FNV-1a modulo."
        ),
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option("--override", metavar="HOST=N", help="Assign a host to a partition.")
    ] = None,
    no_override: Annotated[
        list[str] | None, typer.Option("--no-override", metavar="HOST", help="Remove the assignment of a host.")
    ] = None,
    template: TemplateFile = None,
    replicas: NewReplicas = None,
    max_bytes: NewMaxBytes = None,
    within: Annotated[str, typer.Option(help="How long to wait for hosts and collectors, as 90s or 2h.")] = "30m",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; exit 2 where it would.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Change the number of partitions under traffic: no line is lost, duplicated or out of order.

    If it is interrupted at any point, run it again: it continues where it was.
    """
    from partitioner.move import app as verbs

    return verbs.move


@command()
def balance(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
) -> Work:
    """Spread the leaders of streams and consumers evenly over the nodes: no cluster does so by itself."""
    from partitioner import leaders

    return leaders.balance_leaders


@command()
def edge(
    numbers: Annotated[
        str, typer.Argument(help="The site's partitions, as 100-101: no other site's, nor the centre's.")
    ],
    *,
    template: TemplateFile = None,
    replicas: Replicas = None,
    max_bytes: Annotated[str | None, typer.Option(help="Maximum size of each partition's stream at the site.")] = None,
    yes: Yes = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> Work:
    """Let this server, a leaf node at an edge site, keep the lines of its hosts until the centre has them.

    In the centre: partition apply --edge DOMAIN=NUMBERS.
    """
    from partitioner import edge as verbs

    return verbs.edge


@command()
def serve(
    *,
    max_streams: Annotated[
        int, typer.Option(min=1, max=MAX_PARTITIONS, help="Make no more streams than these in all.")
    ] = MAX_STREAMS,
    partitions: Annotated[
        int | None, typer.Option(help="How many partitions there are, while there is no map (SHIPPER_PARTITIONS).")
    ] = None,
    template: TemplateFile = None,
    replicas: NewReplicas = None,
    max_bytes: NewMaxBytes = None,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
    log_format: Annotated[str | None, typer.Option(help="text or json")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> Work:
    """Create streams from the template when producers request them: producers have no right to create any."""
    from partitioner import app as verbs

    return verbs.serve
