"""The roster in the words of nats-server's configuration: accounts and users, to be included by it.

nats-server's configuration for a roster: written as a whole, or changed where it includes users without accounts.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from partitioner.access.permissions import (
    ANSWER_SECONDS,
    ANSWERS,
    LIMITS,
    AccountExport,
    AccountExports,
    AccountLimits,
    Rights,
    Role,
    edge_exports,
    edge_rights,
    host_exports,
    monitor_exports,
    own_account_rights,
    rights,
    spare_exports,
    streams_exports,
)
from partitioner.access.roster import AuthMethod, Member, Roster
from shipper.durable_files import replace_file
from shipper.errors import ConfigError, UsageError
from shipper.subjects import control_ask

FILE = "users.conf"
"""All users in one account: configurations from before accounts include this file."""
ACCOUNTS_FILE = "accounts.conf"
MONITORS_ACCOUNT = "MONITOR"
_HEAD = """\
# Written by `fshipper hosts`; edit nothing here, it is written anew. Include it in the account of the logs, by its path
# from the directory of nats-server.conf:  accounts { LOGS { jetstream: enabled, include "fshipper/users.conf" } }
# After a change: nats-server --signal reload
#
# NOT ISOLATED: in one account any host can forge lines of others and command JetStream. Include accounts.conf instead:
# docs/guides/security.md, `fshipper hosts migrate`.
"""
_ACCOUNTS_HEAD = """\
# Written by `fshipper hosts`; edit nothing here, it is written anew. Include it by its path from the directory of
# nats-server.conf:  accounts { include "fshipper/accounts.conf" }
# After a change: nats-server --signal reload
"""
_SPARES_HEAD = """\
# For hosts that are added next. In nats-server 2.15 the imports of an account that is new at a reload lead nowhere
# until the next reload. The server knows these accounts already.
"""


def users_conf(roster: Roster) -> str:
    """The users of the flat layout, which has no monitor: nothing would hold it to reading."""
    members = [member for member in roster.members.values() if member.role is not Role.MONITOR]
    users = (_user(member, rights(member.role, member.name, prefix=roster.prefix)) for member in _sorted(members))
    return "".join([_HEAD, "users: [\n", *users, "]\n"])


def rights_of(member: Member, roster: Roster) -> Rights:
    """What a member may do where hosts have accounts of their own."""
    if member.role is Role.EDGE:
        return edge_rights(member.domain or member.name, member.hosts, roster.others(member), prefix=roster.prefix)
    if member.role is Role.HOST:
        return own_account_rights(member.name, prefix=roster.prefix, reads=roster.reads)
    return rights(member.role, member.name, prefix=roster.prefix)


class Account(NamedTuple):
    """One account of the server: its users, what passes between it and others, and what it may use."""

    key: str  #: its name; with tokens a public key
    title: str
    members: Sequence[Member]
    exports: Sequence[AccountExport]
    imports: Sequence[tuple[str, AccountExport]]  #: with the key of the account that exports it
    limits: AccountLimits | None  #: None: it has none


def accounts_of(roster: Roster, streams: str, monitors: str) -> list[Account]:
    """The account of the streams; where hosts have accounts, also that of the monitors, and one a host, site and spare.

    `streams`, `monitors`: keys of the first two. Spares of rosters without tokens are empty accounts, and not listed.
    """
    members, own = _sorted(roster.members.values()), []
    for member in members:
        if member.account and member.role is Role.EDGE:
            passing = edge_exports(member.domain or member.name, member.hosts, prefix=roster.prefix)
        elif member.account:
            passing = host_exports(member.name, prefix=roster.prefix, reads=roster.reads)
        else:
            continue
        title = f"{member.role} {member.name}"
        own.append(_own_account(member.account, title, streams, passing, LIMITS[member.role], [member]))
    if roster.trust is AuthMethod.TOKENS:
        passing = spare_exports(roster.prefix)
        own += [_own_account(spare, "spare", streams, passing, LIMITS[Role.HOST]) for spare in roster.spares]
    programs = [m for m in members if m.role not in {Role.HOST, Role.EDGE, Role.MONITOR}]
    exported = streams_exports(roster.prefix) if roster.has_accounts else ()
    offered = [(account.key, export) for account in own for export in account.exports]
    found = [Account(streams, roster.streams, programs, exported, offered, None)]
    if roster.has_accounts:
        asks = [(streams, export) for export in monitor_exports().to_streams]
        asks += [(key, export) for key, export in offered if export.subject.startswith(control_ask(""))]
        those = [member for member in members if member.role is Role.MONITOR]
        found.append(Account(monitors, MONITORS_ACCOUNT, those, (), asks, LIMITS[Role.MONITOR]))
    return found + own


def _own_account(
    key: str,
    title: str,
    streams: str,
    passing: AccountExports,
    limits: AccountLimits,
    members: Sequence[Member] = (),
) -> Account:
    imports = [(streams, export) for export in passing.to_streams]
    return Account(key, title, members, passing.from_other, imports, limits)


def accounts_conf(roster: Roster) -> str:
    """Every account: of the streams with its programs, of the monitor, and one for each host and each site."""
    accounts = [_account(roster, account) for account in accounts_of(roster, roster.streams, MONITORS_ACCOUNT)]
    return "".join(
        [_ACCOUNTS_HEAD, *accounts, _SPARES_HEAD, *(f"{json.dumps(spare)}: {{ }}\n" for spare in roster.spares)]
    )


def _limits(limits: AccountLimits) -> str:
    names = ("max_connections", "max_subscriptions", "max_payload", "max_leafnodes")
    known = [f"{name}: {value}" for name, value in zip(names, limits, strict=True) if value is not None]
    return f"limits: {{ {', '.join(known)} }}"


def _account(roster: Roster, account: Account) -> str:
    users = "".join(_user(each, rights_of(each, roster)) for each in account.members)
    lines = [_limits(account.limits) if account.limits else "jetstream: enabled", f"users: [\n{users}  ]"]
    offers = [
        f"    {{ {export.kind}: {json.dumps(export.subject)}{', response_type: stream' if export.many else ''} }}\n"
        for export in account.exports
    ]
    takes = [
        f"    {{ {export.kind}: {{ account: {json.dumps(key)}, subject: {json.dumps(export.subject)} }}"
        f"{f', to: {json.dumps(export.local)}' if export.local else ''} }}\n"
        for key, export in account.imports
    ]
    lines += [f"{what}: [\n{''.join(all_)}  ]" for what, all_ in (("exports", offers), ("imports", takes)) if all_]
    return f"{json.dumps(account.key)}: {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _sorted(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: (member.role is Role.HOST, member.name))


def _user(member: Member, allowed: Rights) -> str:
    who = f"nkey: {member.public_key}" if member.public_key else f"user: {json.dumps(member.name)}"
    return (
        f"  # {member.role.value} {member.name}, since {member.added}\n"
        f"  {{ {who}, permissions: {{\n"
        f"    publish:   {_allowed(allowed.publish, allowed.never)}\n"
        f"    subscribe: {_allowed(allowed.subscribe, allowed.deaf)}\n"
        f'    allow_responses: {{ max: {ANSWERS}, expires: "{ANSWER_SECONDS}s" }}\n'
        f"  }} }}\n"
    )


def _allowed(subjects: Sequence[str], never: Sequence[str]) -> str:
    denied = f", deny: {json.dumps(list(never))}" if never else ""
    return f"{{ allow: {json.dumps(list(subjects))}{denied} }}"


SERVER_FILE = "nats-server.conf"
KEPT_SUFFIX = ".before-accounts"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_LISTEN = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s\"]+):(\d{1,5})")
_TEMPLATE = """\
# Written once by `fshipper hosts init`; it is yours to change. Start: nats-server -c {directory}/{file}

server_name: "logs-1"
host: {host}{note}
port: {port}
http: "127.0.0.1:8222"
max_payload: 2MB
write_deadline: "10s"
max_pending: 4MB        # of answers that a client does not read; then it is disconnected
max_connections: 60000  # below LimitNOFILE (65536) by the files of the streams
ping_interval: "20s"    # a connection that went silent is given up after a minute, not after six

jetstream {{
  store_dir: "/var/lib/nats"
  max_file_store: 100GB
  max_memory_store: 64MB
  max_buffered_size: 16MB  # of messages that wait to be stored in a stream; more are refused, and sent again
  max_buffered_msgs: 2048
  sync_interval: always
}}

{included}
{tls}"""
_NO_TLS = """
# Nothing is encrypted, so this server listens on loopback only. Before you name another address, give it a certificate:
# tls {
#   cert_file: "/etc/nats/server.pem"
#   key_file:  "/etc/nats/server-key.pem"
# }
"""


class ServerTls(NamedTuple):
    """The server's certificate, its key, and the authority of the clients' certificates."""

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None


def server_conf(directory: Path, trust: AuthMethod, operator_file: str, *, listen: str, tls: ServerTls) -> str:
    """A complete configuration, to be written into `directory`.

    Raises UsageError: an address that others can reach, and no certificate; or half of one.
    """
    found = _LISTEN.fullmatch(listen)
    if not found or int(found[2]) > 65535:  # noqa: PLR2004 - the highest port
        raise UsageError(f"--listen {listen}: write ADDRESS:PORT, for example 10.0.0.5:4222")
    host = found[1].strip("[]")
    if (tls.certificate is None) != (tls.key is None):
        raise UsageError("--tls-cert and --tls-key belong together")
    if trust is AuthMethod.CERTIFICATES and not (tls.certificate and tls.authority):
        raise UsageError(
            "--by certificates with --listen needs --tls-cert, --tls-key and --tls-ca",
            hint="--tls-ca is the authority that signed the certificates of hosts",
        )
    if host not in LOOPBACK and tls.certificate is None:
        raise UsageError(
            f"--listen {listen} without --tls-cert and --tls-key would send every line unencrypted",
            hint="give both, or listen on 127.0.0.1",
        )
    text = _NO_TLS
    if tls.certificate:
        lines = [f"cert_file: {json.dumps(str(tls.certificate))}", f"key_file: {json.dumps(str(tls.key))}"]
        lines += [f"ca_file: {json.dumps(str(tls.authority))}"] if tls.authority else []
        lines += ["verify_and_map: true", "handshake_first: true"] if trust is AuthMethod.CERTIFICATES else []
        text = "\ntls {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    file = operator_file if trust is AuthMethod.TOKENS else ACCOUNTS_FILE
    line = f"include {json.dumps(file)}"
    return _TEMPLATE.format(
        directory=directory,
        file=SERVER_FILE,
        host=json.dumps(host),
        note="" if host not in LOOPBACK else "  # only this machine; hosts need an address that they reach, and TLS",
        port=found[2],
        included=line if trust is AuthMethod.TOKENS else f"accounts {{\n  {line}\n}}",
        tls=text,
    )


def including_accounts(path: Path, directory: Path, streams: str) -> str | None:
    """The configuration in `path`, including the accounts instead of the users; None: it does already.

    Raises ConfigError: it does not have the form that `fshipper hosts` prints.
    """
    text = _read(path)
    if re.search(rf"^[^#\n]*{re.escape(ACCOUNTS_FILE)}\"", text, re.MULTILINE):
        return None
    new = f'include "{directory.name}/{ACCOUNTS_FILE}"'
    block = re.compile(rf"\"?\b{re.escape(streams)}\"?\s*:?\s*\{{(?P<body>[^{{}}]*)\}}")
    for found in block.finditer(text):
        body = re.sub(r"#[^\n]*", "", found["body"])
        included = re.search(rf"include\s+[\"\']?([^\"\'\s]*){re.escape(FILE)}[\"\']?", body)
        if included and not re.sub(r"jetstream\s*:?\s*(enabled|enable|true)|[\s,;]", "", body.replace(included[0], "")):
            new = f'include "{included[1]}{ACCOUNTS_FILE}"'
            return text[: found.start()] + new + text[found.end() :]
    raise ConfigError(
        f"{path} does not include {FILE} in account {streams} in a way that fshipper knows; nothing is changed",
        hint=f"migrate without --server-config, and replace {streams} {{ ... }} there by {new} yourself (--account)",
    )


def check_unused(path: Path) -> None:
    """Raise UsageError where the configuration in `path` still includes the users of the flat layout."""
    if re.search(rf"^[^#\n]*include[^#\n]*{re.escape(FILE)}", _read(path, absent=""), re.MULTILINE):
        raise UsageError(
            f"{path} still includes {FILE}: without that file the server would not start again",
            hint=f"include {ACCOUNTS_FILE} there as `fshipper hosts migrate` printed, and reload the server first",
        )


def _read(path: Path, *, absent: str | None = None) -> str:
    """The text of the server's configuration; `absent`: where there is none."""
    try:
        return path.read_text()
    except OSError as error:
        if absent is not None and isinstance(error, FileNotFoundError):
            return absent
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="run it as its owner, or sudo") from None


def change_server_file(path: Path, text: str) -> None:
    """Replace the configuration of the server by `text`, and keep the old one next to it."""
    known = path.stat()
    for file, content in ((path.with_name(path.name + KEPT_SUFFIX), path.read_bytes()), (path, text.encode())):
        replace_file(file, content, mode=known.st_mode & 0o777)
        os.chown(file, known.st_uid, known.st_gid)  # the server must be able to read it
