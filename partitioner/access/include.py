"""The roster in the words of nats-server's configuration: accounts and users, to be included by it."""

import json
from collections.abc import Iterable, Iterator, Sequence

from partitioner.access.rights import (
    ANSWER_SECONDS,
    ANSWERS,
    Door,
    Doors,
    Rights,
    Role,
    edge_doors,
    edge_rights,
    host_doors,
    monitor_doors,
    own_account_rights,
    rights,
    streams_exports,
)
from partitioner.access.roster import Member, Roster
from shipper.subjects import control_ask

FILE = "users.conf"
"""Everybody in one account: what configurations from before accounts include."""
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


def accounts_conf(roster: Roster) -> str:
    """Every account: of the streams with its programs, of the monitor, and one for each host and each site."""
    return "".join([_ACCOUNTS_HEAD, *_accounts(roster)])


def doors_of(member: Member, prefix: str) -> Doors:
    """What passes between the account of the streams and that of a host, or a site."""
    if member.role is Role.EDGE:
        return edge_doors(member.domain or member.name, member.hosts, prefix=prefix)
    return host_doors(member.name, prefix=prefix)


def rights_of(member: Member, roster: Roster) -> Rights:
    """What a member may do where hosts have accounts of their own."""
    if member.role is Role.EDGE:
        return edge_rights(member.domain or member.name, member.hosts, roster.others(member), prefix=roster.prefix)
    if member.role is Role.HOST:
        return own_account_rights(member.name, prefix=roster.prefix)
    return rights(member.role, member.name, prefix=roster.prefix)


def is_question_of_monitor(door: Door) -> bool:
    """Whether the monitor imports it, too."""
    return door.subject.startswith(control_ask(""))


def _accounts(roster: Roster) -> Iterator[str]:
    members = _sorted(roster.members.values())
    alone = [(member, doors_of(member, roster.prefix)) for member in members if member.role in {Role.HOST, Role.EDGE}]
    monitors = [member for member in members if member.role is Role.MONITOR]
    programs = [m for m in members if m.role not in {Role.HOST, Role.EDGE, Role.MONITOR}]
    offered = [(member.account, door) for member, doors in alone for door in doors.from_other]
    yield _account(
        roster, roster.streams, programs, streams_exports(roster.prefix), offered, jetstream=["jetstream: enabled"]
    )
    asks = [(roster.streams, door) for door in monitor_doors().to_streams]
    asks += [(name, door) for name, door in offered if is_question_of_monitor(door)]
    yield _account(roster, MONITORS_ACCOUNT, monitors, (), asks)
    for member, doors in alone:
        imports = [(roster.streams, door) for door in doors.to_streams]
        yield _account(roster, member.account, [member], doors.from_other, imports)
    yield _SPARES_HEAD
    yield from (f"{json.dumps(spare)}: {{ }}\n" for spare in roster.spares)


def _account(
    roster: Roster, name: str, members: Sequence[Member], exports: Iterable[Door], imports: Iterable[tuple[str, Door]],
    jetstream: Sequence[str] = (),
) -> str:  # fmt: skip
    lines = [*jetstream, "users: [\n" + "".join(_user(each, rights_of(each, roster)) for each in members) + "  ]"]
    offers = [
        f"    {{ {door.kind}: {json.dumps(door.subject)}{', response_type: stream' if door.many else ''} }}\n"
        for door in exports
    ]
    takes = [
        f"    {{ {door.kind}: {{ account: {json.dumps(account)}, subject: {json.dumps(door.subject)} }}"
        f"{f', to: {json.dumps(door.local)}' if door.local else ''} }}\n"
        for account, door in imports
    ]
    lines += [f"{what}: [\n{''.join(doors)}  ]" for what, doors in (("exports", offers), ("imports", takes)) if doors]
    return f"{json.dumps(name)}: {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _sorted(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda member: (member.role is Role.HOST, member.name))


def _user(member: Member, allowed: Rights) -> str:
    who = f"nkey: {member.public_key}" if member.public_key else f"user: {json.dumps(member.name)}"
    return (
        f"  # {member.role.value} {member.name}, since {member.added}\n"
        f"  {{ {who}, permissions: {{\n{_permissions(allowed)}  }} }}\n"
    )


def _permissions(allowed: Rights) -> str:
    return (
        f"    publish:   {_allowed(allowed.publish, allowed.never)}\n"
        f"    subscribe: {_allowed(allowed.subscribe, allowed.deaf)}\n"
        f'    allow_responses: {{ max: {ANSWERS}, expires: "{ANSWER_SECONDS}s" }}\n'
    )


def _allowed(subjects: Sequence[str], never: Sequence[str]) -> str:
    denied = f", deny: {json.dumps(list(never))}" if never else ""
    return f"{{ allow: {json.dumps(list(subjects))}{denied} }}"
