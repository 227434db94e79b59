"""The directory that holds roster, secrets and what the server includes: made, added to, taken from."""

import contextlib
import datetime as dt
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import nkeys

from partitioner.access import credentials, server_config
from partitioner.access.credentials import ACCOUNT, OPERATOR, USER, new_key, public, read_key, write_secret
from partitioner.access.permissions import (
    HostReads,
    Role,
    own_account_rights,
    rights,
)
from partitioner.access.roster import FILE, AccountLayout, AuthMethod, Member, Roster, checked_domain, checked_hosts
from partitioner.access.server_config import SERVER_FILE
from shipper.durable_files import Lock, make_directory, replace_file
from shipper.errors import UsageError

OPERATOR_FILE = "operator.conf"
OPERATOR_TOKEN = "operator.jwt"  # noqa: S105 - it is signed, not secret
PROGRAMS = (Role.COLLECTOR, Role.PARTITIONER, Role.READER)
ALONE = (Role.HOST, Role.EDGE)
"""Roles whose members have accounts of their own."""
SPARES = {AuthMethod.TOKENS: 32, AuthMethod.KEYS: 256, AuthMethod.CERTIFICATES: 256}
"""Accounts that the server knows already, for hosts and sites that are added before it reloads its files.

With tokens, each one costs a check at every request to a host, because it may be that host's.
"""
_DOMAIN = re.compile(r"^[^#\n]*\bdomain\s*[:=]?\s*[\"']?([A-Za-z0-9_-]+)", re.MULTILINE)
_HEAD = """\
# Written by `fshipper hosts`; edit nothing here, it is written anew. Include it at the top of nats-server.conf.
# After a revocation: nats-server --signal reload
# The account of the streams, which a site's server names in leafnodes, remotes: {account}
"""


class AddedMember(NamedTuple):
    """A user that was added, and the file with its secret; None: its certificate is the secret."""

    member: Member
    secret: Path | None


def first_layout(trust: AuthMethod) -> AccountLayout:
    """The layout of a new roster; where the server includes files, also the one that older instructions include."""
    return AccountLayout.ISOLATED if trust is AuthMethod.TOKENS else AccountLayout.BOTH


def _new_account(trust: AuthMethod) -> str:
    """Name of a new account; with tokens the public half of a key whose seed is not kept: the operator signs."""
    return public(new_key(ACCOUNT)) if trust is AuthMethod.TOKENS else f"host-{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class AccessStore:
    """One directory, by default on the server's machine. `now` is its clock."""

    directory: Path
    now: dt.datetime

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Roster]:
        """The roster, for one change at a time. Raises Fatal: another is being made."""
        Roster.load(self.directory)  # else there is no place for a lock
        with Lock(self.directory / ".lock", f"the roster in {self.directory}"):
            yield Roster.load(self.directory)

    def make(self, prefix: str, trust: AuthMethod) -> list[AddedMember]:
        """Begin a roster with a key for each program. Raises UsageError: there is one."""
        if (self.directory / FILE).exists():
            raise UsageError(f"{self.directory} has a roster already", hint="add to it: fshipper hosts add NAME")
        make_directory(self.directory, mode=0o755)
        if trust is AuthMethod.TOKENS:
            for name, kind in (("operator", OPERATOR), ("account", ACCOUNT), ("system", ACCOUNT)):
                write_secret(self._key(name), bytes(new_key(kind).seed) + b"\n")
            for role in Role:
                self._have_signer(role, trust)
            operator, system = read_key(self._key("operator")), public(read_key(self._key("system")))
            token = credentials.operator_token(operator, now=int(self.now.timestamp()), system=system)
            replace_file(self.directory / OPERATOR_TOKEN, f"{token}\n".encode())
        roster, added = Roster(prefix, trust, {}, {}, first_layout(trust), reads=HostReads.HEARTBEATS), []
        for role in PROGRAMS:
            roster, one = self._add(roster, role.value, role)
            added.append(one)
        self._write(roster)
        return added

    def enrol(self, name: str, public_key: str, *, replace: bool) -> bool:
        """Add a host that made its key itself; with `replace` its old key ends. False: it is there with this key.

        Raises UsageError: it is there with another key, or its name is refused, or hosts have no keys here.
        """
        with self._changing() as roster:
            if roster.trust is not AuthMethod.KEYS:
                raise UsageError(f"hosts have {roster.trust} here", hint="join works with `hosts init --by keys`")
            known = roster.members.get(name)
            if known is not None and (known.public_key, known.role) == (public_key, Role.HOST):
                self._write(roster)  # a change that was killed may not have written all
                return False
            if known is not None and not (replace and known.role is Role.HOST):
                raise UsageError(
                    f"{name} is in the roster already, with another key",
                    hint=f"a new key for it: fshipper fleet token {name} --replace; or join as --host NAME",
                )
            others = roster if known is None else roster.without([name], at=int(self.now.timestamp()))
            others.check_name(name)
            changed, member = self._member(others, name, Role.HOST, public_key)
            self._write(changed.with_member(member))
            if known is not None:
                self._secret(name, roster.trust, Role.HOST).unlink(missing_ok=True)
            return True

    def add(
        self, names: Sequence[str], role: Role = Role.HOST, *, hosts: Sequence[str] = (), domain: str = ""
    ) -> list[AddedMember]:
        """Add hosts, servers of edge sites, or monitors, all or none. `hosts`, `domain`: of a site.

        Raises UsageError: one is there already, or has a name or hosts of another.
        """
        with self._changing() as known:
            roster, added = known, []
            if role is Role.MONITOR and not roster.has_accounts:
                raise UsageError(
                    "a monitor needs an account of its own, which this roster has not",
                    hint="run: fshipper hosts migrate",
                )
            for name in names:
                if name in roster.members:
                    raise UsageError(f"{name} is in the roster already", hint="for a new key, revoke it first")
                roster.check_name(name, role)
                site = checked_hosts(hosts)
                has_domain = role is Role.EDGE and roster.has_accounts
                its_domain = self._site_domain(domain or name) if has_domain else ""
                if role is Role.EDGE:
                    roster.check_site(name, its_domain, site)
                self._have_signer(role, roster.trust)
                roster, one = self._add(roster, name, role)
                if has_domain:
                    member = one.member._replace(hosts=site, domain=its_domain)
                    roster, one = roster.with_member(member), one._replace(member=member)
                added.append(one)
            self._write(roster)
            return added

    def migrate(self, *, streams: str, domains: Mapping[str, str]) -> list[AddedMember]:
        """Give each host and site an account of its own; what was valid stays valid. Returns who needs a new secret.

        Raises UsageError: it is done already, or `domains` contains a name that is not a site.
        """
        with self._changing() as known:
            roster, added = known, []
            if roster.has_accounts:
                raise UsageError(f"{self.directory} has accounts already", hint="to end the old layout: --finish")
            sites = {each.name for each in roster.members.values() if each.role is Role.EDGE}
            if unknown := sorted(set(domains) - sites):
                raise UsageError(f"--domain: {', '.join(unknown)} is no edge site", hint="see `fshipper hosts list`")
            for role in Role:
                self._have_signer(role, roster.trust)
            roster = roster._replace(layout=AccountLayout.BOTH, streams=streams)
            for before in [each for each in roster.members.values() if each.role in ALONE]:
                member = before._replace(account=_new_account(roster.trust))
                if roster.trust is AuthMethod.TOKENS:
                    roster, one = self._add(roster, before.name, before.role)
                    member = one.member._replace(before=before.public_key, added=before.added)
                    added.append(one)
                if before.role is Role.EDGE:
                    member = member._replace(domain=self._site_domain(domains.get(before.name, before.name)))
                    roster.check_site(before.name, member.domain, ())
                roster = roster.with_member(member)
            self._write(roster)
            return added

    def finish(self) -> None:
        """End what the flat layout needs: tokens in the account of the streams, and the file `users.conf`."""
        with self._changing() as roster:
            if not roster.has_accounts:
                raise UsageError("hosts have no accounts of their own yet", hint="run: fshipper hosts migrate")
            members = {name: member._replace(before="") for name, member in roster.members.items()}
            self._write(roster._replace(layout=AccountLayout.ISOLATED, members=members))
            (self.directory / server_config.FILE).unlink(missing_ok=True)

    def set_reads(self, reads: HostReads) -> None:
        """Change what hosts may read of what is stored of them. Raises UsageError: they have no accounts."""
        with self._changing() as roster:
            if not roster.has_accounts:
                raise UsageError("hosts have no accounts of their own yet", hint="run: fshipper hosts migrate")
            self._write(roster._replace(reads=reads))

    def revoke(self, names: Iterable[str]) -> list[Member]:
        """Take hosts, or programs, out of the roster; their secrets here are removed."""
        gone = list(dict.fromkeys(names))
        with self._changing() as before:
            self._write(before.without(gone, at=int(self.now.timestamp())))
            for name in gone:
                self._secret(name, before.trust, before.members[name].role).unlink(missing_ok=True)
        return [before.members[name] for name in gone]

    def _site_domain(self, domain: str) -> str:
        """`domain`, if a site may have it. Raises UsageError. The centre's configuration is next to the roster."""
        try:
            found = _DOMAIN.search((self.directory.parent / SERVER_FILE).read_text())
        except OSError:
            found = None  # it is elsewhere
        return checked_domain(domain, centre=found[1] if found else "")

    def _add(self, roster: Roster, name: str, role: Role) -> tuple[Roster, AddedMember]:
        if roster.trust is AuthMethod.CERTIFICATES:
            roster, member = self._member(roster, name, role, "")
            return roster.with_member(member), AddedMember(member, None)
        user = new_key(USER)
        roster, member = self._member(roster, name, role, public(user))
        secret = self._secret(name, roster.trust, role)
        secret.unlink(missing_ok=True)  # of a change that was killed before the roster had it: it is not valid
        write_secret(secret, self._secret_content(roster.trust, user, name, role, member.account))
        return roster.with_member(member), AddedMember(member, secret)

    def _member(self, roster: Roster, name: str, role: Role, public_key: str) -> tuple[Roster, Member]:
        """A new member, with one of the roster's spare accounts where it has one of its own."""
        account, added = "", self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        if roster.has_accounts and role in ALONE:
            account = roster.spares[0] if roster.spares else _new_account(roster.trust)
            roster = roster._replace(spares=roster.spares[1:])
        return roster, Member(name, role, public_key, added, account)

    def _secret_content(self, trust: AuthMethod, user: nkeys.KeyPair, name: str, role: Role, account: str) -> bytes:
        if trust is AuthMethod.KEYS:
            seed = bytes(user.seed)
            return b'nkey: "%s"\n' % seed if role is Role.EDGE else seed + b"\n"  # for a server to include
        if not account:
            account = self._monitors() if role is Role.MONITOR else public(read_key(self._key("account")))
        signer = read_key(self._signer(role))
        return credentials.user_credentials(signer, account, user, name, now=int(self.now.timestamp()))

    def _write(self, roster: Roster) -> None:
        """First the roster, then what is made of it: after a kill between them the next change mends it."""
        if roster.has_accounts:
            for role in (Role.HOST, Role.MONITOR):
                self._have_signer(role, roster.trust)
            fresh = (_new_account(roster.trust) for _ in range(SPARES[roster.trust] - len(roster.spares)))
            roster = roster._replace(spares=(*roster.spares, *fresh))
        roster.save(self.directory)
        if roster.trust is AuthMethod.TOKENS:
            account, system = (public(read_key(self._key(name))) for name in ("account", "system"))
            preload = "".join(f"  {key}: {json.dumps(token)}\n" for key, token in self._account_tokens(roster))
            text = (
                f"{_HEAD.format(account=account)}operator: {json.dumps(self._operator_token())}\n"
                f"system_account: {system}\nresolver: MEMORY\nresolver_preload: {{\n{preload}}}\n"
            )
            replace_file(self.directory / OPERATOR_FILE, text.encode())
            return
        if roster.has_accounts:
            replace_file(self.directory / server_config.ACCOUNTS_FILE, server_config.accounts_conf(roster).encode())
        if roster.layout is not AccountLayout.ISOLATED:
            replace_file(self.directory / server_config.FILE, server_config.users_conf(roster).encode())

    def _account_tokens(self, roster: Roster) -> Iterator[tuple[str, str]]:
        """Public key and token of each account. A token that did not change is the same text, byte for byte."""
        operator, now = read_key(self._key("operator")), int(self.now.timestamp())
        account, system = (public(read_key(self._key(name))) for name in ("account", "system"))
        signers = {role: public(read_key(self._signer(role))) for role in Role if self._signer(role).exists()}
        name, prefix = credentials.NAME, roster.prefix
        scopes = {role: (role, key, rights(role, name, prefix=prefix)) for role, key in signers.items()}
        was_flat = not roster.has_accounts or any(member.before for member in roster.members.values())
        flat = roster.layout is not AccountLayout.ISOLATED and was_flat
        own_host = (Role.HOST, signers[Role.HOST], own_account_rights(name, prefix=prefix, reads=roster.reads))
        begun = credentials.issued_at(self._operator_token())
        monitors = self._monitors() if roster.has_accounts else ""
        for each in server_config.accounts_of(roster, account, monitors):
            allowed, is_own = [own_host], each.key not in {account, monitors}
            if each.key == account:
                allowed = [scopes[role] for role in signers if role in PROGRAMS or (flat and role in ALONE)]
            elif each.key == monitors:
                allowed = [scopes[Role.MONITOR]]
            elif each.members and each.members[0].role is Role.EDGE:
                allowed = [(Role.EDGE, signers[Role.EDGE], server_config.rights_of(each.members[0], roster))]
            token = credentials.account_token(
                operator,
                each.key,
                each.title,
                allowed,
                exports=each.exports,
                imports=each.imports,
                revoked={} if is_own else roster.revoked,
                now=begun if is_own else now,
                limits=each.limits,
            )
            yield each.key, token
        yield system, credentials.system_token(operator, system, now=now)

    def _operator_token(self) -> str:
        """The one of the beginning: nats-server refuses to reload another one, even of the same operator."""
        return (self.directory / OPERATOR_TOKEN).read_text().strip()

    def _have_signer(self, role: Role, trust: AuthMethod) -> None:
        """The roster may be older than the role."""
        paths = [self._signer(role), *([self._key("monitors")] if role is Role.MONITOR else [])]
        for path in paths:
            if trust is AuthMethod.TOKENS and not path.exists():
                write_secret(path, bytes(new_key(ACCOUNT).seed) + b"\n")

    def _monitors(self) -> str:
        """The account of the monitors."""
        return public(read_key(self._key("monitors")))

    def _key(self, name: str) -> Path:
        return self.directory / "keys" / f"{name}.nk"

    def _signer(self, role: Role) -> Path:
        return self._key(f"sign-{role.value}")

    def _secret(self, name: str, trust: AuthMethod, role: Role) -> Path:
        suffix = "creds" if trust is AuthMethod.TOKENS else "conf" if role is Role.EDGE else "nk"
        return self.directory / "secrets" / f"{name}.{suffix}"
