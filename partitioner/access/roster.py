"""The roster: who was given a key, as one file beside the server's configuration. No secret is in it."""

import enum
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from partitioner.access.rights import Role
from shipper.errors import ConfigError, UsageError
from shipper.files import replace_file

VERSION = 1
FILE = "roster.json"


class Trust(enum.StrEnum):
    """What the server believes: its own list of users, or what an operator's keys have signed."""

    LIST = "list"
    TOKENS = "tokens"


class Identity(NamedTuple):
    """How the server knows somebody: by key (nkey `U...`), or by a certificate of that name, which has no key here."""

    public_key: str = ""

    @property
    def kind(self) -> str:
        """`key` or `certificate`."""
        return "key" if self.public_key else "certificate"


class Member(NamedTuple):
    """Somebody with rights: the name is a host's fqdn, or the name of a role's program."""

    name: str
    role: Role
    identity: Identity
    added: str
    """RFC 3339, UTC."""


class Roster(NamedTuple):
    """Everybody with rights, by name. `prefix`: first token of the lines' subjects.

    `revoked`: public keys whose tokens are worth nothing any more, and since when (Unix seconds).
    """

    prefix: str
    trust: Trust
    members: Mapping[str, Member]
    revoked: Mapping[str, int]

    @classmethod
    def load(cls, directory: Path) -> Self:
        """The roster of `directory`.

        Raises:
            UsageError: there is none. ConfigError: it cannot be read.
        """
        path = directory / FILE
        try:
            found = json.loads(path.read_bytes())
            if found["version"] != VERSION:
                raise ConfigError(f"{path} has version {found['version']}", hint="use the fshipper that wrote it")
            members = [_member(entry) for entry in found["members"]]
            return cls(str(found["prefix"]), Trust(found["trust"]), {each.name: each for each in members},
                       dict(found["revoked"]))  # fmt: skip
        except FileNotFoundError:
            raise UsageError(f"there is no roster in {directory}", hint="make one: fshipper hosts init") from None
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}", hint="run it as who owns it, or sudo") from None
        except (ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path} is no roster: {error!r}", hint="put it back from a backup") from None

    def save(self, directory: Path) -> None:
        """Put the roster into `directory`, as a whole."""
        members = [_entry(member) for _, member in sorted(self.members.items())]
        content = {
            "version": VERSION, "prefix": self.prefix, "trust": self.trust.value, "members": members,
            "revoked": dict(self.revoked),
        }  # fmt: skip
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
            if self.trust is Trust.TOKENS:
                revoked[member.identity.public_key] = at
        return self._replace(members=left, revoked=revoked)

    def check_name(self, name: str) -> None:
        """Raise UsageError where `name` would hear what another host is told.

        The inbox of `web1` is `_INBOX_web1.>`, which holds the inbox of `web1.example.net`.
        """
        for other in self.members.values():
            if other.role is Role.HOST and (_begins(other.name, name) or _begins(name, other.name)):
                raise UsageError(
                    f"{name} and {other.name} cannot both be hosts: one name begins with the other, "
                    "so one could read the answers to the other",
                    hint="use full host names (hostname -f) for both",
                )


def _begins(longer: str, shorter: str) -> bool:
    return longer.startswith(shorter + ".")


def _member(entry: Mapping[str, Any]) -> Member:
    identity = Identity(str(entry.get("public_key", "")))
    return Member(str(entry["name"]), Role(entry["role"]), identity, str(entry["added"]))


def _entry(member: Member) -> dict[str, str]:
    key = {"public_key": member.identity.public_key} if member.identity.public_key else {}
    return {"name": member.name, "role": member.role.value, **key, "added": member.added}
