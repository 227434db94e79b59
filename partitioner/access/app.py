"""The work of `fshipper hosts`: give hosts keys and rights, and write the files that configure the server."""

import contextlib
import datetime as dt
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from partitioner.access import server_config
from partitioner.access.options import AddOptions, InitOptions, ListOptions, MigrateOptions, ReadsOptions, RevokeOptions
from partitioner.access.permissions import AccountLimits, Role
from partitioner.access.roster import AccountLayout, AuthMethod, Member, Roster
from partitioner.access.server_config import (
    SERVER_FILE,
    ServerTls,
    change_server_file,
    check_unused,
    including_accounts,
    server_conf,
)
from partitioner.access.store import ALONE, OPERATOR_FILE, SPARES, AccessStore, AddedMember
from shipper.durable_files import replace_file
from shipper.errors import ConfigError, UsageError
from shipper.json_codec import written
from shipper.prompts import confirm
from shipper.subjects import checked_host, checked_prefix
from shipper.units import format_bytes

_RELOAD = "It counts as soon as the server has read its files again: nats-server --signal reload\n"


def init(options: InitOptions) -> None:
    """Begin a roster, with keys for collector, partitioner and reader."""
    directory, trust, listen = options.directory, options.trust, options.listen
    tls = ServerTls(options.tls_cert, options.tls_key, options.tls_ca)
    if tls != ServerTls() and not listen:
        raise UsageError(
            "--tls-cert, --tls-key and --tls-ca are for --listen", hint="give --listen ADDRESS:4222 as well"
        )
    conf = server_conf(directory.resolve(), trust, OPERATOR_FILE, listen=listen, tls=tls) if listen else ""
    with _changing(directory) as store:
        added = store.make(checked_prefix(options.prefix), trust)
        if conf:
            replace_file(directory / SERVER_FILE, conf.encode())
    _print_added(added, as_json=options.as_json)
    if options.as_json:
        return
    if conf:
        sys.stdout.write(f"Start the server: nats-server -c {directory / SERVER_FILE}\n")
        return
    # nats-server takes every path of an `include` as relative to the directory of its configuration.
    file = OPERATOR_FILE if trust is AuthMethod.TOKENS else server_config.ACCOUNTS_FILE
    line = f"include {json.dumps(f'{directory.name}/{file}')}"
    if trust is not AuthMethod.TOKENS:
        line = f"accounts {{ {line} }}"
    sys.stdout.write(
        f"Now put this into {directory.parent}/nats-server.conf (paths there are relative to that file):\n"
        f"  {line}\nthen add hosts: fshipper hosts add web1.example.net\n"
    )


def add(options: AddOptions) -> None:
    """Give hosts a key of their own, and the right to speak as themselves."""
    if options.role not in {Role.HOST, Role.EDGE, Role.MONITOR}:
        raise UsageError(
            f"--as {options.role}: write host, edge or monitor; the programs got their keys from `fshipper hosts init`"
        )
    if options.role is not Role.EDGE and (options.hosts or options.domain):
        raise UsageError("--hosts and --domain are for --as edge")
    chosen = [checked_host(name) for name in dict.fromkeys(options.names)]
    with _changing(options.directory) as store:
        added = store.add(chosen, options.role, hosts=options.hosts or (), domain=options.domain)
    _print_added(added, as_json=options.as_json)
    roster = Roster.load(options.directory)
    if options.role is Role.EDGE and not options.hosts and roster.has_accounts:
        sys.stderr.write(
            "warning: the site may speak for every host that is not in this roster. To name its hosts: revoke it, and "
            "add it again with --hosts '*.ship.example.net'\n"
        )
    if not options.as_json:
        sys.stdout.write(_reload(roster, options.role))


def list_members(options: ListOptions) -> None:
    """Show who has a key."""
    roster = Roster.load(options.directory)
    members = sorted(roster.members.values(), key=lambda member: (member.role.value, member.name))
    if options.as_json:
        content = [
            {"v": 1, **written(each)} | {"limits": limits._asdict() if (limits := roster.limits(each)) else None}
            for each in members
        ]
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
        return
    if roster.layout is AccountLayout.FLAT:
        sys.stderr.write("warning: hosts are not isolated from each other: run fshipper hosts migrate\n")
    width = max((len(member.name) for member in members), default=0)
    for member in members:
        key = member.public_key or "its certificate"
        used = _limits(roster.limits(member))
        sys.stdout.write(f"{member.role.value:<12} {member.name:<{width}}  since {member.added}  {key}  {used}\n")


def migrate(options: MigrateOptions) -> None:
    """Give each host an account of its own, while running hosts go on. Keys and certificates stay as they are."""
    directory, config = options.directory, options.server_config
    if options.finish:
        for path in {config or directory.parent / SERVER_FILE, directory.parent / SERVER_FILE}:
            check_unused(path)
        with _changing(directory) as store:
            store.finish()
        sys.stdout.write(f"Nothing of the layout with one account is valid any more. {_RELOAD}")
        return
    domains = {}
    for text in options.domain or ():
        site, _, name = text.partition("=")
        if not site or not name:
            raise UsageError(f"--domain {text}: write SITE=DOMAIN")
        domains[site] = name
    change = None
    if config and Roster.load(directory).trust is not AuthMethod.TOKENS:
        # First: what it refuses leaves everything as it is.
        change = including_accounts(config, directory, options.streams)
    with _changing(directory) as store:
        added = store.migrate(streams=options.streams, domains=domains)
        roster = Roster.load(directory)
        if config and change is not None:
            change_server_file(config, change)
    if options.as_json:
        _print_added(added, as_json=True)
        return
    sys.stdout.write(_how_to_migrate(directory, roster, added, config if change is not None else None))


def reads(options: ReadsOptions) -> None:
    """What hosts may read of what is stored of them. Producers of older versions need `all`."""
    with _changing(options.directory) as store:
        store.set_reads(options.what)
    sys.stdout.write(f"Hosts may read: {options.what.value}. {_RELOAD}")


def revoke(options: RevokeOptions) -> None:
    """Take the rights away again: the server ends their connections when it reloads."""
    for member in revoked(options.directory, options.names, yes=options.yes):
        sys.stdout.write(f"revoked {member.name}\n")
    sys.stdout.write(_RELOAD)


def revoked(directory: Path, names: Sequence[str], *, yes: bool) -> list[Member]:
    """Take members out of the roster after a prompt; `yes`: without one. Raises UsageError, ConfigError."""
    question = f"Revoke {', '.join(names)}? What they could not ship waits in their files."
    confirm(yes=yes, question=question, what="this ends connections", hint="give --yes")
    with _changing(directory) as store:
        return store.revoke(names)


def _limits(limits: AccountLimits | None) -> str:
    """What the server lets an account use, in a few words."""
    if limits is None:
        return "no limits"
    parts = [f"{limits.connections} connections"]
    if limits.subscriptions is not None:
        parts.append(f"{limits.subscriptions} subscriptions each")
    if limits.payload_bytes is not None:
        parts.append(f"{format_bytes(limits.payload_bytes)} a message")
    if limits.links:
        parts.append(f"{limits.links} leaf links")
    return ", ".join(parts)


def _how_to_migrate(directory: Path, roster: Roster, added: Sequence[AddedMember], config: Path | None) -> str:
    """The steps that are left, in their order."""
    steps = []
    if roster.trust is not AuthMethod.TOKENS and config is None:
        old = f'{roster.streams} {{ jetstream: enabled, include "{directory.name}/{server_config.FILE}" }}'
        new = f'include "{directory.name}/{server_config.ACCOUNTS_FILE}"'
        steps.append(f"in nats-server.conf, inside of accounts {{ }}, replace\n       {old}\n     by\n       {new}")
    if config is not None:
        steps.append(f"check what was changed: nats-server -t -c {config}")
    steps.append(
        "let the server read its files twice, some seconds apart: nats-server --signal reload\n"
        "     (nats-server joins accounts that are new at the second one; producers wait and go on, streams stay)"
    )
    if added:
        steps.append("bring each host its new token, at any time; until then its old one is valid:")
        steps += [f"  {each.secret} to {each.member.name}" for each in added]
        steps.append("on each host: fshipper validate --connect reports `isolated`")
    steps.append("when that is done on all: fshipper hosts migrate --finish, and reload again")
    numbers = itertools.count(1)
    lines = [step if step.startswith("  ") else f"{next(numbers):>3}. {step}" for step in steps]
    sites = [each for each in roster.members.values() if each.role is Role.EDGE]
    lines += [f"site {each.name}: its JetStream domain must be {each.domain}" for each in sites]
    return "Each host has an account of its own in the new files. Now\n" + "\n".join(lines) + "\n"


def _reload(roster: Roster, role: Role) -> str:
    if roster.trust is not AuthMethod.TOKENS:
        text = "Then let the server read its list again: nats-server --signal reload\n"
        many = f"(twice, some seconds apart, if more than {SPARES[roster.trust]} were added since the last reload)\n"
        return text + many if role in ALONE and roster.has_accounts else text
    if not roster.has_accounts:
        return ""
    if role is Role.HOST:
        most = SPARES[roster.trust]
        return f"It can ship now; the collector can reach it after: nats-server --signal reload (every {most} hosts)\n"
    return _RELOAD if role is Role.EDGE else ""


@contextlib.contextmanager
def _changing(directory: Path) -> Iterator[AccessStore]:
    """What is in `directory`, to be changed. Raises ConfigError: files cannot be made or changed."""
    try:
        yield AccessStore(directory, now=dt.datetime.now(dt.UTC))
    except OSError as error:
        what = error.filename or directory
        raise ConfigError(f"cannot change {what}: {error.strerror}", hint="run it as its owner, or sudo") from None


def _print_added(added: Sequence[AddedMember], *, as_json: bool) -> None:
    if as_json:
        content = [
            {"v": 1, **written(each.member), "secret": str(each.secret) if each.secret else None} for each in added
        ]
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
        return
    for member, secret in added:
        if secret is None:
            step = "its TLS certificate must have that name (DNS, subject alternative)"
        elif member.role is Role.EDGE:
            step = f"bring {secret} to its server (deploy/nats/edge/leaf.conf)"
        else:
            setting = "NATS_CREDS" if secret.suffix == ".creds" else "NATS_NKEY"
            step = f"bring {secret} there, and set {setting} to its path"
        sys.stdout.write(f"added {member.name}: {step}\n")
