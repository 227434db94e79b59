"""The roster: the users that have keys, in one file next to the server's configuration. It contains no secrets."""

import enum
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple, Self

from partitioner.access.permissions import LIMITS, RESERVED, AccountLimits, HostReads, Role
from shipper.durable_files import replace_file
from shipper.errors import ConfigError, UsageError
from shipper.json_codec import IF_SET, items, strict, written
from shipper.subjects import checked_host

VERSION = 2
FLAT_VERSION = 1
"""Of a roster without accounts; an older fshipper must be able to read it until it is migrated."""
FILE = "roster.json"
STREAMS_ACCOUNT = "LOGS"
CENTRE = "hub"
"""The domain of the centre in deploy/nats/edge/hub.conf."""
_STARS = re.compile(r"(\*\.)*")
_DOMAIN = re.compile(r"[A-Za-z0-9_-]+")


class AccountLayout(enum.StrEnum):
    """Which accounts the server has."""

    FLAT = "flat"  #: one for all, as before version 2: any host can command the server by a reply subject
    BOTH = "both"  #: one for each host; what the flat layout needs is still valid, until `hosts migrate --finish`
    ISOLATED = "isolated"  #: one for each host, and nothing of the flat layout is valid


class AuthMethod(enum.StrEnum):
    """How the server authenticates users; the same method for all of them."""

    KEYS = "keys"  #: a list of public keys
    TOKENS = "tokens"  #: what an operator's keys have signed, so that a new host needs no word to the server
    CERTIFICATES = "certificates"  #: the name in a TLS certificate (`tls { verify_and_map: true }`)


class Member(NamedTuple):
    """A user with rights: the name is a host's fqdn, or the name of a role's program."""

    name: str
    role: Annotated[Role, Role]
    public_key: str  #: `U...`; empty: known by its certificate
    added: str  #: RFC 3339, UTC
    account: Annotated[str, IF_SET] = ""
    """The account of its own: a name; with tokens a public key (`A...`); empty: it has none."""
    before: Annotated[str, IF_SET] = ""
    """Tokens: the key of its token in the account of the streams, which is valid until `hosts migrate --finish`."""
    domain: Annotated[str, IF_SET] = ""  #: JetStream domain of a site
    hosts: Annotated[tuple[str, ...], items(str), IF_SET] = ()
    """The hosts of a site: names, or patterns as `*.ship.example.net`; empty: any that the roster does not know."""


class Roster(NamedTuple):
    """All users with rights, by name. `prefix`: first token of the lines' subjects.

    `revoked`: public keys whose tokens are invalid, and since when (Unix seconds). `streams`: name of the account of
    the streams. `spares`: accounts for hosts and sites that are added next; the server knows them already.
    """

    prefix: str
    trust: AuthMethod
    members: Mapping[str, Member]
    revoked: Mapping[str, int]
    layout: AccountLayout = AccountLayout.FLAT
    streams: str = STREAMS_ACCOUNT
    spares: tuple[str, ...] = ()
    reads: HostReads = HostReads.ALL  #: of a roster that an older version began

    @property
    def has_accounts(self) -> bool:
        """Whether hosts have accounts of their own."""
        return self.layout is not AccountLayout.FLAT

    def limits(self, member: Member) -> AccountLimits | None:
        """What the account of `member` may use of the server; None: it has no limits, or no account of its own."""
        return LIMITS.get(member.role) if self.has_accounts else None

    def others(self, site: Member) -> tuple[str, ...]:
        """Names that are certainly of no host at a site which named none of its own."""
        if site.hosts:
            return ()
        here = {each.name for each in self.members.values() if each.role is Role.HOST}
        return tuple(
            sorted(here.union(RESERVED, *(each.hosts for each in self.members.values() if each.name != site.name)))
        )

    @classmethod
    def load(cls, directory: Path) -> Self:
        """The roster of `directory`. Raises UsageError: there is none. ConfigError: it cannot be read."""
        path = directory / FILE
        try:
            found = json.loads(path.read_bytes())
            if found["version"] not in {FLAT_VERSION, VERSION}:
                raise ConfigError(f"{path} has version {found['version']}", hint="use the fshipper that wrote it")
            members = [strict(Member, entry) for entry in found["members"]]
            return cls(
                str(found["prefix"]),
                AuthMethod(found["trust"]),
                {each.name: each for each in members},
                dict(found["revoked"]),
                AccountLayout(found.get("layout", AccountLayout.FLAT)),
                str(found.get("streams", STREAMS_ACCOUNT)),
                tuple(map(str, found.get("spares", ()))),
                HostReads(found.get("reads", HostReads.ALL)),
            )
        except FileNotFoundError:
            raise UsageError(f"there is no roster in {directory}", hint="make one: fshipper hosts init") from None
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}", hint="run it as who owns it, or sudo") from None
        except (ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path} is no roster: {error!r}", hint="put it back from a backup") from None

    def save(self, directory: Path) -> None:
        """Put the roster into `directory`, as a whole."""
        members = [written(member) for _, member in sorted(self.members.items())]
        content = {
            "version": VERSION if self.has_accounts else FLAT_VERSION,
            "prefix": self.prefix,
            "trust": self.trust.value,
            "members": members,
            "revoked": dict(self.revoked),
        }
        if self.has_accounts:
            content |= {"layout": self.layout.value, "streams": self.streams, "spares": list(self.spares)}
            content["reads"] = self.reads.value
        replace_file(directory / FILE, (json.dumps(content, indent=1) + "\n").encode())

    def with_member(self, member: Member) -> Self:
        """The roster with one more, or with another key of the same."""
        return self._replace(members={**self.members, member.name: member})

    def without(self, names: Iterable[str], *, at: int) -> Self:
        """The roster without some, whose tokens end `at` (Unix seconds). Raises UsageError: one is not in it."""
        left, revoked = dict(self.members), dict(self.revoked)
        for name in names:
            member = left.pop(name, None)
            if member is None:
                raise UsageError(f"{name} is not in the roster", hint="`fshipper hosts list` shows who is")
            if self.trust is AuthMethod.TOKENS:
                revoked |= {key: at for key in (member.public_key, member.before) if key}
        return self._replace(members=left, revoked=revoked)

    def check_name(self, name: str, role: Role = Role.HOST) -> None:
        """Raise UsageError if `name` is no name for a host or site, or would receive messages for another host.

        The inbox of `web1` is `_INBOX_web1.>`, which holds the inbox of `web1.example.net`.
        """
        if name in RESERVED and role is not Role.MONITOR:
            raise UsageError(
                f"{name} cannot be the name of a {role}: fshipper uses it on the bus",
                hint="use the full host name (hostname -f); programs get their keys from `fshipper hosts init`",
            )
        if role is not Role.HOST:
            return
        for other in self.members.values():
            for pattern in other.hosts:
                if _match(pattern, name):
                    raise UsageError(
                        f"{name} cannot be a host here: it is one of the site {other.name} ({pattern})",
                        hint="add it on the site's own server; a site that has moved: revoke it and add it again",
                    )
            shorter, longer = sorted((name, other.name), key=len)
            if other.role is Role.HOST and longer.startswith(f"{shorter}."):
                raise UsageError(
                    f"{name} and {other.name} cannot both be hosts: one name begins with the other, "
                    "so one could read the answers to the other",
                    hint="use full host names (hostname -f) for both",
                )

    def check_site(self, name: str, domain: str, patterns: Iterable[str]) -> None:
        """Raise UsageError where the domain or a host of the site `name` is another's. `domain`: empty, if unknown."""
        if taken := next((each.name for each in self.members.values() if domain and each.domain == domain), ""):
            raise UsageError(
                f"{name} cannot have the JetStream domain {domain}: it is the domain of the site {taken}",
                hint="each site has a `domain` of its own in its nats-server.conf: --domain",
            )
        for pattern in patterns:
            for other in self.members.values():
                known = (other.name,) if other.role is Role.HOST else other.hosts
                if taken := next((each for each in known if _match(pattern, each)), ""):
                    raise UsageError(
                        f"{pattern} of the site {name} includes {taken}, which is {other.role} {other.name} here",
                        hint="name the site's hosts more exactly (--hosts), or revoke the other first",
                    )


def checked_hosts(patterns: Iterable[str]) -> tuple[str, ...]:
    """The hosts of a site: names, whose first parts may be `*`. Raises UsageError, ConfigError."""
    found = []
    for pattern in dict.fromkeys(patterns):
        stars = _STARS.match(pattern)[0]  # type: ignore[index]  # it matches everything
        name = checked_host(pattern.removeprefix(stars))
        if name in RESERVED:
            raise UsageError(f"--hosts {pattern}: fshipper uses this name on the bus", hint="use full host names")
        found.append(stars + name)
    return tuple(found)


def checked_domain(domain: str, *, centre: str = "") -> str:
    """The JetStream domain of a site: one token of the subjects under which the centre reaches it.

    `centre`: the domain of the centre's server, where it is known.

    Raises UsageError: it is empty, not one token of a subject, or the domain of the centre.
    """
    if not _DOMAIN.fullmatch(domain):
        raise UsageError(
            f"{domain!r} cannot be the JetStream domain of a site: it has letters, digits, - and _ only",
            hint="write the `domain` of the site's nats-server.conf, for example edge1",
        )
    if domain in {CENTRE, centre}:
        raise UsageError(
            f"{domain} cannot be the JetStream domain of a site: it is the domain of the centre",
            hint="set another `domain` in the site's nats-server.conf, for example edge1",
        )
    return domain


def _match(one: str, other: str) -> bool:
    """Whether the names that two patterns stand for may be the same; `*` is one part."""
    pairs = list(itertools.zip_longest(one.split("."), other.split(".")))
    return all(None not in pair and ("*" in pair or pair[0] == pair[1]) for pair in pairs)
