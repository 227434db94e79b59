"""`fshipper hosts init|add|list|revoke`: who may speak as which host, and the files that tell the server."""

import contextlib
import datetime as dt
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from partitioner.access import include
from partitioner.access.place import OPERATOR_FILE, Added, Place
from partitioner.access.rights import Role
from partitioner.access.roster import Roster, Trust, entry
from shipper.errors import ConfigError, UsageError
from shipper.subjects import checked_host, checked_prefix

DIRECTORY = Path("/etc/nats/fshipper")
ADDED = frozenset({Role.HOST, Role.EDGE})

app = typer.Typer(help="Give hosts keys and least rights.", add_completion=False, rich_markup_mode=None)

Directory = Annotated[
    Path, typer.Option("--dir", envvar="SHIPPER_ACCESS", help="Where roster, secrets and the server's include lie.")
]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]
Names = Annotated[list[str], typer.Argument(metavar="HOST...", help="Full host names, as `hostname -f` says them.")]


@app.command()
def init(
    *,
    directory: Directory = DIRECTORY,
    subject: Annotated[str, typer.Option(help="First token of the subjects.", envvar="SHIPPER_SUBJECT")] = "logs",
    trust: Annotated[
        Trust,
        typer.Option("--by", help="How the server knows them: listed keys, signed tokens (JWT), TLS certificates."),
    ] = Trust.KEYS,
    as_json: Json = False,
) -> None:
    """Begin a roster, with keys for collector, partitioner and reader."""
    with _touching(directory):
        added = _place(directory).make(checked_prefix(subject), trust)
    _say_added(added, as_json=as_json)
    if not as_json:
        sys.stdout.write(_next_step(directory, trust))


@app.command()
def add(
    names: Names,
    *,
    role: Annotated[Role, typer.Option("--as", help="What they are: host, or edge: the server of an edge site.")] = (
        Role.HOST
    ),
    directory: Directory = DIRECTORY,
    as_json: Json = False,
) -> None:
    """Give hosts a key of their own, and the right to speak as themselves."""
    if role not in ADDED:
        raise UsageError(f"--as {role}: write host or edge; the programs got their keys from `fshipper hosts init`")
    hosts = [checked_host(name) for name in dict.fromkeys(names)]
    with _touching(directory):
        added = _place(directory).add(hosts, role)
    _say_added(added, as_json=as_json)
    if not as_json and Roster.load(directory).trust is not Trust.TOKENS:
        sys.stdout.write("Then let the server read its list again: nats-server --signal reload\n")


@app.command("list")
def list_members(*, directory: Directory = DIRECTORY, as_json: Json = False) -> None:
    """Show who has a key."""
    members = sorted(Roster.load(directory).members.values(), key=lambda member: (member.role.value, member.name))
    if as_json:
        sys.stdout.write(json.dumps([entry(member) for member in members], indent=1) + "\n")
        return
    width = max((len(member.name) for member in members), default=0)
    for member in members:
        key = member.public_key or "its certificate"
        sys.stdout.write(f"{member.role.value:<12} {member.name:<{width}}  since {member.added}  {key}\n")


@app.command()
def revoke(
    names: Names,
    *,
    directory: Directory = DIRECTORY,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take the rights away again: the server ends their connections when it reloads."""
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("this ends connections, and there is no terminal to ask", hint="say --yes")
        if not typer.confirm(f"Revoke {', '.join(names)}? What they could not ship waits in their files."):
            raise UsageError("nothing was changed")
    with _touching(directory):
        gone = _place(directory).revoke(names)
    for member in gone:
        sys.stdout.write(f"revoked {member.name}\n")
    sys.stdout.write("It counts as soon as the server has read its files again: nats-server --signal reload\n")


def _next_step(directory: Path, trust: Trust) -> str:
    """nats-server takes every path of an `include` as relative to the directory of its configuration."""
    included = json.dumps(f"{directory.name}/{OPERATOR_FILE if trust is Trust.TOKENS else include.FILE}")
    line = f"include {included}"
    if trust is not Trust.TOKENS:
        line = f"accounts {{ LOGS {{ jetstream: enabled, {line} }} }}"
    return (
        f"Now put this into {directory.parent}/nats-server.conf (paths there are relative to that file):\n"
        f"  {line}\nthen add hosts: fshipper hosts add web1.example.net\n"
    )


@contextlib.contextmanager
def _touching(directory: Path) -> Iterator[None]:
    """Raise ConfigError where files of `directory` cannot be made or changed."""
    try:
        yield
    except OSError as error:
        what = error.filename or directory
        raise ConfigError(f"cannot change {what}: {error.strerror}", hint="run it as its owner, or sudo") from None


def _place(directory: Path) -> Place:
    return Place(directory, now=dt.datetime.now(dt.UTC))


def _say_added(added: Sequence[Added], *, as_json: bool) -> None:
    if as_json:
        content = [{**entry(each.member), "secret": str(each.secret) if each.secret else None} for each in added]
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
        return
    for member, secret in added:
        if member.role is Role.EDGE and secret is not None:
            sys.stdout.write(f"added {member.name}: bring {secret} to its server (deploy/nats/edge/leaf.conf)\n")
            continue
        if secret is None:
            sys.stdout.write(
                f"added {member.name}: its TLS certificate must have that name (DNS, subject alternative)\n"
            )
            continue
        setting = "NATS_CREDS" if secret.suffix == ".creds" else "NATS_NKEY"
        sys.stdout.write(f"added {member.name}: bring {secret} there, and set {setting} to its path\n")
