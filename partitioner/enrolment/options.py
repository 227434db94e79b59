"""The options of `fshipper fleet`, `join` and `leave`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from partitioner.access.options import AccessOptions, Names
from shipper.commands import AsJson, Yes

Etc = Annotated[Path, typer.Option("--etc", help="Directory of the programs' configuration.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions(AccessOptions):
    """Write a first site: an authority, the server with accounts and TLS, keys and settings of each program.

    A second time it repairs: what is there stays, what is missing is made, certificates that end soon are made anew.
    """

    address: Annotated[
        str, typer.Argument(metavar="ADDRESS[:PORT]", help="Name or address of this machine, as hosts reach it.")
    ]
    join_port: Annotated[int, typer.Option(min=1, max=65535, help="Port where hosts join.")] = 4443
    store: Annotated[Path, typer.Option(help="Where the server keeps the streams.")] = Path("/var/lib/nats")
    archive: Annotated[Path, typer.Option(help="Directory of the archive.")] = Path("/var/lib/fshipper/archive")
    etc: Etc = Path("/etc/fshipper")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions(AccessOptions):
    """Make a token with which one host joins once. It is printed once, and kept as a hash."""

    host: Annotated[
        str, typer.Argument(metavar="[HOST]", help="Full name of the host that joins; default: one new host.")
    ] = ""
    lifetime: Annotated[str, typer.Option("--for", help="How long it is valid, as 1h or 2d; at most 7d.")] = "1h"
    replace: Annotated[
        bool, typer.Option("--replace", help="HOST has joined already, and gets a new key; its old one ends.")
    ] = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensOptions(AccessOptions):
    """List the tokens: for whom, until when, and who has used them from where."""

    as_json: AsJson = False


Reload = Annotated[
    str, typer.Option(help="Command that lets nats-server read its files again; default: by systemd or its pid file.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinServerOptions(AccessOptions):
    """Let hosts join, until SIGTERM: answers over TLS on the join port, one token one host."""

    listen: Annotated[str, typer.Option(help="ADDRESS:PORT; default: every address, and the port of `fleet init`.")] = (
        ""
    )
    reload: Reload = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOptions(AccessOptions):
    """Revoke hosts, and let the server end their connections now. What they could not ship stays in their files."""

    names: Names
    yes: Yes = False
    reload: Reload = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """Join a site: make a key, have it accepted with the token, write the producer's configuration, start it.

    The key never leaves this host. Again with the same token it repairs; files that were changed stay.
    """

    token: Annotated[str, typer.Argument(help="From `fshipper fleet token`; `-` reads it from standard input.")]
    paths: Annotated[list[str] | None, typer.Argument(help="Files and globs to ship; default: /var/log.")] = None
    host: Annotated[str, typer.Option(help="Full name of this host; default: the system's.")] = ""
    etc: Etc = Path("/etc/fshipper")
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start the producer's unit where systemd runs.")] = (
        True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOptions:
    """Leave the site: the key ends, the producer stops. What it could not ship stays in its files."""

    etc: Etc = Path("/etc/fshipper")
    yes: Yes = False
