"""The archive as a place: where files lie, whose it is, and whether a partition's journal belongs to it."""

import functools
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from shipper import layout
from shipper.errors import ConfigError, Fatal
from shipper.files import make_directory, replace_file
from shipper.layout import FileKey

IDENTITY = "_archive.json"
JOURNALS = "_journal"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the file of a key lies: Spark's layout, or the template of the blog's `SHIPPER_OUTPUT`."""

    archive: Path
    template: str = ""

    def path(self, key: FileKey, time_ns: int) -> str:
        """Path relative to the archive."""
        return layout.template_path(self.template, key, time_ns) if self.template else _open_path(key)

    def length_before(self, path: str) -> int:
        """Bytes that a file which no journal row names has already: a template's file may have been released."""
        if not self.template:
            return 0
        try:
            return (self.archive / path).stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def seals(self) -> bool:
        """Whether files become segments: a template's files stay as they are."""
        return not self.template


_open_path = functools.lru_cache(maxsize=4096)(layout.open_path)


def open_archive(directory: Path) -> str:
    """The identity of the archive in `directory`, which is made if it is new.

    Raises:
        ConfigError: the directory cannot be made or written.
    """
    path = directory / IDENTITY
    try:
        make_directory(directory)
        if not path.exists():
            replace_file(path, json.dumps({"v": 1, "id": secrets.token_hex(8)}).encode() + b"\n")
        found = json.loads(path.read_bytes())
        if not os.access(directory, os.W_OK):
            raise PermissionError(13, "Permission denied")
        return str(found["id"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"cannot use the archive directory {directory}: {getattr(error, 'strerror', None) or error}",
            hint="set SHIPPER_DIRECTORY (--directory) to a directory that this user may write",
        ) from None


def journal_directory(directory: Path, identity: str, state: Path | None) -> Path:
    """Where the journals of this archive lie: beside its files, or below `SHIPPER_STATE`. Made if it is new."""
    where = state / "collector" / identity if state else directory / JOURNALS
    try:
        make_directory(where, mode=0o700)
    except OSError as error:
        raise ConfigError(
            f"cannot write the state directory {where}: {error.strerror}",
            hint="set SHIPPER_STATE (--state) to a directory that this user may write",
        ) from None
    return where


def check_journal(directory: Path, journal: Path, partition: int) -> None:
    """Refuse to begin a new journal over files that an older one wrote: they would be written twice.

    Raises:
        Fatal: the archive holds files of the partition, and the journal is not there.
    """
    if not journal.exists() and any(directory.glob(f"date=*/partition={partition}")):
        raise Fatal(
            f"the archive {directory} holds files of partition {partition}, but its journal {journal} is missing",
            hint="restore the journal (SHIPPER_STATE), or give a new SHIPPER_DIRECTORY",
        )
