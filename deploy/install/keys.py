"""Gives each file with a key of NATS to the group of the program whose configuration names it; no other one reads it.

Run by root, `python -m deploy.install.keys`, after an installation and each upgrade; a second run changes nothing.
"""

import contextlib
import os
import pwd
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path("/etc/fshipper")
PRODUCER, OTHERS = "fshipper-producer", "fshipper"
"""Users, each with a group of its name."""
ROLES = ("producer", "collector", "partitioner", "browse", "web")
SETTINGS = {"creds": "NATS_CREDS", "nkey_seed": "NATS_NKEY", "key": "NATS_KEY"}
"""Settings of [nats] that name a file with a secret, and their variables."""
MODE = 0o640


class UserIds(NamedTuple):
    """A user and its group by their numbers."""

    user: int
    group: int


def ids_of(name: str) -> UserIds:
    """The user `name`. Raises KeyError: there is none."""
    found = pwd.getpwnam(name)
    return UserIds(found.pw_uid, found.pw_gid)


def hand_over(directory: Path = DIRECTORY, ids_of: Callable[[str], UserIds] = ids_of) -> Iterator[str]:
    """Change the group of each key in `directory`; yield what a person has to change, as sentences.

    A key of another directory, or of a user that is neither root nor one of ours, is left as it is.
    """
    named = {role: set(_keys_of(directory, role)) for role in ROLES}
    of_producer = named.pop("producer")
    of_others = set().union(*named.values())
    for path in sorted(of_producer | of_others):
        if path.parent != directory:
            continue
        if path in of_producer & of_others:
            yield f"{path} is the key of the producer and of another program: give each a key of its own"
        try:
            _give(path, ids_of(OTHERS if path in of_others else PRODUCER).group, ids_of(OTHERS).user)
        except (OSError, KeyError) as error:
            yield f"{path} keeps its group: {error}"


def _keys_of(directory: Path, role: str) -> Iterator[Path]:
    """The files with keys that the configuration of a program names."""
    with contextlib.suppress(OSError, ValueError):  # `fshipper validate` reports it
        found = tomllib.loads((directory / f"{role}.toml").read_text(encoding="utf-8")).get("nats", {})
        yield from (Path(str(found[name])) for name in SETTINGS if name in found)
    with contextlib.suppress(OSError, ValueError):
        for line in (directory / f"{role}.env").read_text(encoding="utf-8").splitlines():
            name, _, value = line.strip().partition("=")
            if name in SETTINGS.values() and value:
                yield Path(value.strip("\"' "))


def _give(path: Path, group: int, former_owner: int) -> None:
    """Change a regular file that has one name. Raises OSError: it is a link, or cannot be changed."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb", opener=_without_links) as file:
        found = os.fstat(file.fileno())
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid in {os.geteuid(), former_owner}:
            os.fchown(file.fileno(), os.geteuid(), group)
            os.fchmod(file.fileno(), MODE)


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


if __name__ == "__main__":
    for sentence in hand_over():
        sys.stderr.write(f"fshipper: {sentence}\n")
