"""The options of `fshipper web`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from consumer.web.roles import Role
from shipper.commands import Archive, ConfigFile, Key, LogFormat, LogLevel, NatsContext, OpenPage, Subject, Url

Accounts = Annotated[
    Path | None, typer.Option(help="File of local accounts, which `fshipper web user` writes."), Key("web.accounts")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOptions:
    """Serve status, search and reports under one address, for users with a role.

    Prints a link that works once, for an operator on this machine; SIGHUP prints another one.
    """

    context: typer.Context  #: names the command that is called
    archive: Archive = None
    report: Annotated[
        Path | None, typer.Option(help="Directory of the reports (SHIPPER_REPORT)."), Key("web.report")
    ] = None
    listen: Annotated[str | None, typer.Option(help="host:port of the pages (SHIPPER_LISTEN)."), Key("web.listen")] = (
        None
    )
    host: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", "--host", help="Another host name of the pages, as a proxy has it; may repeat."),
        Key("web.allowed_hosts"),
    ] = None
    accounts: Accounts = None
    user_header: Annotated[
        str | None,
        typer.Option(help="Header in which a trusted proxy sends its user: X-Forwarded-User."),
        Key("web.user_header"),
    ] = None
    operators: Annotated[
        list[str] | None,
        typer.Option("--operator", help="A user of the proxy who is an operator; may repeat."),
        Key("web.operators"),
    ] = None
    open_page: OpenPage = False
    url: Url = None
    nats_context: NatsContext = None
    subject: Subject = None
    config: ConfigFile = None
    log_format: LogFormat = None
    log_level: LogLevel = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOptions:
    """Create a local account, change its password or role, or remove it.

    The password is read from the terminal, or as one line from standard input. Sessions of before end.
    """

    name: Annotated[str, typer.Argument(help="Name of the user.", metavar="NAME")]
    role: Annotated[Role | None, typer.Option(help="reader (new accounts) or operator.")] = None
    remove: Annotated[bool, typer.Option("--remove", help="Remove the account.")] = False
    accounts: Accounts = None
    config: ConfigFile = None
