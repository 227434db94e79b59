"""The options of `fshipper status`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from typing import Annotated

import typer

from shipper.commands import ConfigFile, NatsContext, Subject, Url


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions:
    """Show the state of every host with the reason, and how far each partition is read.

    shipping: bytes move. quiet: it is alive and has nothing to ship. stuck: bytes wait and none move. dead: no
    heartbeat for too long. shared: two live producers have its name. ended: `produce --once` shipped
    everything. unknown: it sends lines and no heartbeats, or has just started.

    The exit code is 2 when a shown host is stuck, dead or shared, a named host is not known, a partition is not read,
    or an archive holds bytes twice; otherwise it is 0.
    """

    hosts: Annotated[list[str] | None, typer.Argument(help="Only these hosts: names or globs, as 'web*'.")] = None
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--in-state",
            "--state",
            help="Only hosts that are shipping, quiet, stuck, dead, shared, ended or unknown; may repeat.",
        ),
    ] = None
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False
    every: Annotated[str, typer.Option(help="Interval of --watch.")] = "2s"
    as_json: Annotated[bool, typer.Option("--json", help="For programs; with --watch an object a line.")] = False
    limit: Annotated[int, typer.Option(min=0, help="At most so many hosts, the worst; 0: all.")] = 100
    dead_after: Annotated[
        str, typer.Option(help="Silence after which a host is dead, if that is 4 heartbeats or more.")
    ] = "20s"
    stuck_after: Annotated[
        str, typer.Option(help="Time without progress while bytes wait, after which a host is stuck.")
    ] = "30s"
    forget: Annotated[
        list[str] | None, typer.Option(help="Forget the last heartbeat of a host that is gone for good; may repeat.")
    ] = None
    url: Url = None
    nats_context: NatsContext = None
    config: ConfigFile = None
    subject: Subject = None
