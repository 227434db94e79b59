"""`fshipper completion`: prints a script, or the names that a script offers."""

import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from shipper import default_paths, nats_contexts
from shipper.errors import UsageError
from shipper.layout import OPEN_PREFIX, SEALING_PREFIX, unescape
from shipper.manual.catalogue import pages
from shipper.manual.completion import SCRIPTS
from shipper.manual.options import CompletionOptions

DAYS = 7
"""Number of newest days of the archive whose hosts and files are offered."""
MOST = 2000
"""Maximum number of names that are offered."""

_OPEN = re.compile(rf"{OPEN_PREFIX}(.*?)(?:=\d+)?(?:\.zst|\.gz)?")
_SEALED = re.compile(rf"(?:{SEALING_PREFIX})?(.*)-\d{{20}}(?:\.zst|\.gz)?")


def run(options: CompletionOptions) -> None:
    """Print the script of a shell, or names. Raises UsageError: no shell is named."""
    if options.listed:
        archive = options.archive or Path(os.environ.get("SHIPPER_DIRECTORY") or default_paths.archive())
        known = dict.fromkeys(name for name in _known(options.listed, archive) if name.isprintable())
        sys.stdout.writelines(f"{name}\n" for name in itertools.islice(known, MOST))
        return
    if not options.shell:
        raise UsageError("no shell is named", hint="fshipper completion bash, zsh or fish")
    sys.stdout.write(SCRIPTS[options.shell](pages()))


def _known(kind: str, archive: Path) -> Iterable[str]:
    if kind == "context":
        return nats_contexts.names()
    return _hosts(archive) if kind == "host" else _files(archive)


def _hosts(archive: Path) -> Iterator[str]:
    for directory in _host_directories(archive):
        yield unescape(directory.name.removeprefix("host="))


def _files(archive: Path) -> Iterator[str]:
    for directory in _host_directories(archive):
        for name in _names(directory):
            if found := _OPEN.fullmatch(name) or _SEALED.fullmatch(name):
                yield "/" + "/".join(map(unescape, found[1].split("~")))


def _host_directories(archive: Path) -> Iterator[Path]:
    for day in [name for name in _names(archive) if name.startswith("date=")][-DAYS:]:
        for partition in _names(archive / day):
            for host in _names(archive / day / partition):
                yield archive / day / partition / host


def _names(directory: Path) -> list[str]:
    """The names in a directory in their order; none if it cannot be read: completion shows no errors."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
