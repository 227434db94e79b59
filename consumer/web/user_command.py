"""`fshipper web user`: creates, changes and removes local accounts."""

import getpass
import re
import sys
from collections.abc import Mapping

from consumer.web.accounts import (
    LONGEST_PASSWORD,
    NAME,
    SHORTEST_PASSWORD,
    AccountFile,
    LocalAccount,
    hash_of,
)
from consumer.web.options import UserOptions
from consumer.web.roles import Role
from shipper.commands import settings_of
from shipper.errors import ConfigError, UsageError


def run(options: UserOptions) -> None:
    """Change one account. Raises UsageError and ConfigError."""
    path = settings_of(options).web.accounts
    if path is None:
        raise UsageError("no file of accounts is named", hint="name it: --accounts FILE, or web.accounts in --config")
    if not re.match(NAME, options.name):
        raise UsageError(f"{options.name!r} cannot be a name", hint="use letters, digits and . _ @ + -")
    file = AccountFile(path)
    try:
        known = file.load() if path.exists() else {}
        file.replace(_changed(known, options))
    except OSError as error:
        hint = "run it as the user of fshipper web: sudo -u fshipper-web fshipper web user NAME"
        raise ConfigError(f"{path}: {error.strerror or error}", hint=hint) from None
    print(f"{options.name} is {'removed' if options.remove else 'saved'} in {path}")


def _changed(known: Mapping[str, LocalAccount], options: UserOptions) -> Mapping[str, LocalAccount]:
    others = {name: account for name, account in known.items() if name != options.name}
    before = known.get(options.name)
    if options.remove:
        if before is None:
            raise UsageError(f"there is no account {options.name}", hint=f"accounts: {', '.join(known) or 'none'}")
        return others
    role = options.role or (before.role if before else Role.READER)
    return {**others, options.name: LocalAccount(role=role, password=hash_of(_new_password()))}


def _new_password() -> str:
    """A password, typed twice or read as a line. Raises UsageError."""
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Again: ") != password:
            raise UsageError("the two passwords differ", hint="nothing was changed; try again")
    else:
        password = sys.stdin.readline(LONGEST_PASSWORD + 2).removesuffix("\n")
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise UsageError(
            f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters", hint="nothing was changed"
        )
    return password
