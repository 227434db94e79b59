"""The options of the commands of `fshipper hosts`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from partitioner.access.permissions import HostReads, Role
from partitioner.access.roster import STREAMS_ACCOUNT, AuthMethod
from shipper.commands import AsJson, Yes

Names = Annotated[list[str], typer.Argument(metavar="HOST...", help="Full host names, as `hostname -f` prints them.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """What every command has."""

    directory: Annotated[
        Path,
        typer.Option(
            "--dir", envvar="SHIPPER_ACCESS", help="Directory of the roster, the secrets and the include file."
        ),
    ] = Path("/etc/nats/fshipper")


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions(AccessOptions):
    """Begin a roster, with keys for collector, partitioner and reader."""

    prefix: Annotated[str, typer.Option("--subject", help="First token of the subjects.", envvar="SHIPPER_SUBJECT")] = (
        "logs"
    )
    trust: Annotated[
        AuthMethod,
        typer.Option("--by", help="Authentication of hosts: listed keys, signed tokens (JWT), TLS certificates."),
    ] = AuthMethod.KEYS
    listen: Annotated[
        str, typer.Option(help="Write the server's configuration, too: ADDRESS:PORT; not loopback only with TLS.")
    ] = ""
    tls_cert: Annotated[Path | None, typer.Option(help="The server's certificate, for --listen.")] = None
    tls_key: Annotated[Path | None, typer.Option(help="Its key.")] = None
    tls_ca: Annotated[Path | None, typer.Option(help="The authority of the clients' certificates.")] = None
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions(AccessOptions):
    """Give hosts a key of their own, and the right to speak as themselves."""

    names: Names
    role: Annotated[
        Role, typer.Option("--as", help="What they are: host; edge: the server of a site; monitor: reads.")
    ] = Role.HOST
    hosts: Annotated[
        list[str] | None, typer.Option("--hosts", help="A site's hosts, as *.ship.example.net; may be repeated.")
    ] = None
    domain: Annotated[str, typer.Option(help="A site's JetStream domain, if it is not its name.")] = ""
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(AccessOptions):
    """Show who has a key."""

    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions(AccessOptions):
    """Give each host an account of its own, while running hosts go on. Keys and certificates stay as they are.

    Hosts with tokens get new ones; the old ones are valid until --finish. Streams and what is in them stay.
    """

    streams: Annotated[
        str, typer.Option("--account", help="The account in nats-server.conf that has the streams; it keeps them.")
    ] = STREAMS_ACCOUNT
    domain: Annotated[
        list[str] | None, typer.Option("--domain", help="SITE=DOMAIN where a site's JetStream domain is not its name.")
    ] = None
    server_config: Annotated[
        Path | None, typer.Option("--server-config", help="The nats-server.conf to change; the old text is kept.")
    ] = None
    finish: Annotated[bool, typer.Option("--finish", help="End the old layout: when all hosts use the new one.")] = (
        False
    )
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsOptions(AccessOptions):
    """What hosts may read of what is stored of them. Producers of older versions need `all`.

    With `all`, a small request makes the server copy a whole block: one key can take much of its memory.
    """

    what: Annotated[HostReads, typer.Argument(help="heartbeats, or all: their newest stored lines, too.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeOptions(AccessOptions):
    """Take the rights away again: the server ends their connections when it reloads."""

    names: Names
    yes: Yes = False
