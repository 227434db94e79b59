"""The users of the roster in the words of nats-server's configuration, to be included in its account."""

import json
from collections.abc import Iterable, Iterator

from partitioner.access.rights import ANSWER_SECONDS, ANSWERS, Rights, Role, rights
from partitioner.access.roster import Member, Roster

FILE = "users.conf"
_HEAD = """\
# Written by `fshipper hosts`; edit nothing here, it is written anew. Include it in the account of the logs, by its path
# from the directory of nats-server.conf:  accounts { LOGS { jetstream: enabled, include "fshipper/users.conf" } }
# After a change: nats-server --signal reload
"""


def users_conf(roster: Roster) -> str:
    """The text of the include file."""
    return "".join([_HEAD, "users: [\n", *_users(roster.members.values(), roster.prefix), "]\n"])


def _users(members: Iterable[Member], prefix: str) -> Iterator[str]:
    for member in sorted(members, key=lambda member: (member.role is Role.HOST, member.name)):
        allowed = rights(member.role, member.name, prefix=prefix)
        who = f"nkey: {member.public_key}" if member.public_key else f"user: {json.dumps(member.name)}"
        yield f"  # {member.role.value} {member.name}, since {member.added}\n"
        yield f"  {{ {who}, permissions: {{\n{_permissions(allowed)}  }} }}\n"


def _permissions(allowed: Rights) -> str:
    publish = ", ".join(json.dumps(subject) for subject in allowed.publish)
    never = f", deny: [{', '.join(json.dumps(subject) for subject in allowed.never)}]" if allowed.never else ""
    subscribe = ", ".join(json.dumps(subject) for subject in allowed.subscribe)
    return (
        f"    publish:   {{ allow: [{publish}]{never} }}\n"
        f"    subscribe: {{ allow: [{subscribe}] }}\n"
        f'    allow_responses: {{ max: {ANSWERS}, expires: "{ANSWER_SECONDS}s" }}\n'
    )
