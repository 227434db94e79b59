"""Local accounts: names, roles and hashed passwords (Argon2id) in one file that only the program's user can read."""

import contextlib
import functools
import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import argon2
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from consumer.web.roles import Role
from shipper.durable_files import private_directory, replace_file
from shipper.errors import ConfigError

SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1024
MOST_BYTES = 4 * 1024 * 1024
"""Size of a file of accounts that is read."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$"
_READ_BY_OTHERS = stat.S_IRWXO | stat.S_IWGRP


class LocalAccount(BaseModel):
    """One account."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role
    password: str  #: as Argon2 encodes a hash with its parameters


class _Accounts(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    accounts: dict[Annotated[str, StringConstraints(pattern=NAME)], LocalAccount] = Field(default_factory=dict)


def hash_of(password: str) -> str:
    """The hash of a new password, with parameters of RFC 9106."""
    return argon2.PasswordHasher().hash(password)


@functools.cache
def _nobody() -> str:
    """A hash for names that have no account: its verification takes as long, and fails."""
    return hash_of(os.urandom(32).hex())


def prepare() -> None:
    """Make what the first login would wait for: an answer must not show that a name is unknown."""
    _nobody()


def is_password_of(account: LocalAccount | None, password: str) -> bool:
    """Whether `password` is that of the account. It takes as long for None, a name that has no account."""
    with contextlib.suppress(argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return argon2.PasswordHasher().verify(account.password if account else _nobody(), password[:LONGEST_PASSWORD])
    return False


class AccountFile:
    """The accounts in a file, read again when the file changes. May be used from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int, int], Mapping[str, LocalAccount]] | None = None

    def account(self, name: str) -> LocalAccount | None:
        """The account of a name. There is none while the file cannot be read: it may have been removed on purpose."""
        with self._lock:
            try:
                found = self.path.stat()
                version = (found.st_ctime_ns, found.st_ino, found.st_size)
                if self._read is None or self._read[0] != version:
                    self._read = version, self.load()
            except (OSError, ConfigError):
                self._read = None
            return self._read[1].get(name) if self._read else None

    def load(self) -> Mapping[str, LocalAccount]:
        """The accounts by their names. Raises ConfigError, and OSError."""
        with self.path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_mode & _READ_BY_OTHERS or found.st_uid not in {0, os.geteuid()}:
                hint = f"sudo chmod 600 {self.path}, and run this as the owner of the file"
                raise ConfigError(f"{self.path} may be read or changed by other users", hint=hint)
            text = file.read(MOST_BYTES + 1)
        try:
            return _Accounts.model_validate_json(text).accounts
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            hint = "write it with: fshipper web user NAME"
            raise ConfigError(f"{self.path}: {where}: {first['msg']}", hint=hint) from None

    def replace(self, accounts: Mapping[str, LocalAccount]) -> None:
        """Write the accounts, mode 0600, into a directory that no other user may change. Raises OSError."""
        private_directory(self.path.parent)
        text = _Accounts(accounts=dict(accounts)).model_dump_json(indent=2)
        replace_file(self.path, f"{text}\n".encode(), mode=0o600)
