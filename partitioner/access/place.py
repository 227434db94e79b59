"""The directory that holds roster, secrets and what the server includes: made, added to, taken from."""

import datetime as dt
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import nkeys

from partitioner.access import include, tokens
from partitioner.access.keys import ACCOUNT, OPERATOR, USER, new_key, public, read_key, write_secret
from partitioner.access.rights import Role
from partitioner.access.roster import FILE, Member, Roster, Trust
from shipper.errors import UsageError
from shipper.files import Lock, make_directory, replace_file

OPERATOR_FILE = "operator.conf"
OPERATOR_TOKEN = "operator.jwt"  # noqa: S105 - it is signed, not secret
PROGRAMS = (Role.COLLECTOR, Role.PARTITIONER, Role.READER)
_HEAD = """\
# Written by `fshipper hosts`; edit nothing here, it is written anew. Include it at the top of nats-server.conf.
# After a revocation: nats-server --signal reload
"""


class Added(NamedTuple):
    """Who was added, and the file with the secret to bring there; None: its certificate is its secret."""

    member: Member
    secret: Path | None


class Place:
    """One directory, by default on the server's machine. `now` is its clock."""

    def __init__(self, directory: Path, *, now: dt.datetime) -> None:
        self.directory = directory
        self._now = now

    def locked(self) -> Lock:
        """One change at a time. Raises Fatal: another is being made."""
        return Lock(self.directory / ".lock", f"the roster in {self.directory}")

    def make(self, prefix: str, trust: Trust) -> list[Added]:
        """Begin a roster with a key for each program. Raises UsageError: there is one."""
        if (self.directory / FILE).exists():
            raise UsageError(f"{self.directory} has a roster already", hint="add to it: fshipper hosts add NAME")
        make_directory(self.directory, mode=0o755)
        if trust is Trust.TOKENS:
            for name, kind in (("operator", OPERATOR), ("account", ACCOUNT), ("system", ACCOUNT)):
                write_secret(self._key(name), bytes(new_key(kind).seed) + b"\n")
            for role in Role:
                write_secret(self._signer(role), bytes(new_key(ACCOUNT).seed) + b"\n")
            operator, system = read_key(self._key("operator")), public(read_key(self._key("system")))
            token = tokens.operator_token(operator, now=int(self._now.timestamp()), system=system)
            replace_file(self.directory / OPERATOR_TOKEN, f"{token}\n".encode())
        roster, added = Roster(prefix, trust, {}, {}), []
        for role in PROGRAMS:
            roster, one = self._add(roster, role.value, role)
            added.append(one)
        self._write(roster)
        return added

    def add(self, hosts: Sequence[str], role: Role = Role.HOST) -> list[Added]:
        """Add hosts, or servers of edge sites, all or none.

        Raises UsageError: one is there already, or its name would hear another's answers.
        """
        Roster.load(self.directory)  # else there is no place for a lock
        with self.locked():
            roster, added = Roster.load(self.directory), []
            for host in hosts:
                if host in roster.members:
                    raise UsageError(f"{host} is in the roster already", hint="for a new key, revoke it first")
                if role is Role.HOST:
                    roster.check_name(host)
                self._have_signer(role, roster.trust)
                roster, one = self._add(roster, host, role)
                added.append(one)
            self._write(roster)
            return added

    def revoke(self, names: Iterable[str]) -> list[Member]:
        """Take hosts, or programs, out of the roster; their secrets here are removed."""
        gone = list(dict.fromkeys(names))
        Roster.load(self.directory)
        with self.locked():
            before = Roster.load(self.directory)
            self._write(before.without(gone, at=int(self._now.timestamp())))
            for name in gone:
                self._secret(name, before.trust, before.members[name].role).unlink(missing_ok=True)
        return [before.members[name] for name in gone]

    @property
    def _added(self) -> str:
        return self._now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _add(self, roster: Roster, name: str, role: Role) -> tuple[Roster, Added]:
        if roster.trust is Trust.CERTIFICATES:
            member = Member(name, role, "", self._added)
            return roster.with_member(member), Added(member, None)
        user = new_key(USER)
        secret = self._secret(name, roster.trust, role)
        secret.unlink(missing_ok=True)  # of a change that was killed before the roster had it: nobody can use it
        write_secret(secret, self._secret_content(roster.trust, user, name, role))
        member = Member(name, role, public(user), self._added)
        return roster.with_member(member), Added(member, secret)

    def _secret_content(self, trust: Trust, user: nkeys.KeyPair, name: str, role: Role) -> bytes:
        if trust is Trust.KEYS:
            seed = bytes(user.seed)
            return b'nkey: "%s"\n' % seed if role is Role.EDGE else seed + b"\n"  # for a server to include
        account, signer = public(read_key(self._key("account"))), read_key(self._signer(role))
        return tokens.user_credentials(signer, account, user, name, now=int(self._now.timestamp()))

    def _write(self, roster: Roster) -> None:
        """First the roster, then what is made of it: after a kill between them the next change mends it."""
        roster.save(self.directory)
        if roster.trust is not Trust.TOKENS:
            replace_file(self.directory / include.FILE, include.users_conf(roster).encode())
        else:
            replace_file(self.directory / OPERATOR_FILE, self._operator_conf(roster).encode())

    def _operator_conf(self, roster: Roster) -> str:
        operator, now = read_key(self._key("operator")), int(self._now.timestamp())
        account, system = (public(read_key(self._key(name))) for name in ("account", "system"))
        signers = {role: public(read_key(self._signer(role))) for role in Role if self._signer(role).exists()}
        accounts = {
            account: tokens.account_token(
                operator, account, signers, prefix=roster.prefix, revoked=roster.revoked, now=now
            ),
            system: tokens.system_token(operator, system, now=now),
        }
        preload = "".join(f"  {key}: {json.dumps(token)}\n" for key, token in accounts.items())
        return (
            f"{_HEAD}operator: {json.dumps(self._operator_token())}\n"
            f"system_account: {system}\nresolver: MEMORY\nresolver_preload: {{\n{preload}}}\n"
        )

    def _operator_token(self) -> str:
        """The one of the beginning: nats-server refuses to reload another one, even of the same operator."""
        return (self.directory / OPERATOR_TOKEN).read_text().strip()

    def _have_signer(self, role: Role, trust: Trust) -> None:
        """The roster may be older than the role."""
        if trust is Trust.TOKENS and not self._signer(role).exists():
            write_secret(self._signer(role), bytes(new_key(ACCOUNT).seed) + b"\n")

    def _key(self, name: str) -> Path:
        return self.directory / "keys" / f"{name}.nk"

    def _signer(self, role: Role) -> Path:
        return self._key(f"sign-{role.value}")

    def _secret(self, name: str, trust: Trust, role: Role) -> Path:
        suffix = "creds" if trust is Trust.TOKENS else "conf" if role is Role.EDGE else "nk"
        return self.directory / "secrets" / f"{name}.{suffix}"
