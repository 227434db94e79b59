"""A backup on disk: a directory a stream, and the list of them, which is written last.

<directory>/LOGS_0/stream.tar.s2          as the server sent it
<directory>/LOGS_0/backup.json            configuration and state; `nats stream restore` takes such a directory, too
<directory>/fshipper-backup.json          what was saved, with checksums; without it the backup is not complete
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from shipper.errors import ConfigError, Fatal
from shipper.files import make_directory, replace_file, sync_directory

LIST = "fshipper-backup.json"
DATA = "stream.tar.s2"
HEAD = "backup.json"
VERSION = 1
CHUNK_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """One stream of a backup."""

    name: str
    octets: int  #: of the file
    sha256: str
    messages: int
    first_seq: int
    last_seq: int


class Shelf:
    """The backup in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def begin(self, *, replacing: bool) -> None:
        """Make the directory; from now on the backup in it is not complete.

        Raises:
            ConfigError: there is something in it already, or it cannot be written.
        """
        try:
            make_directory(self.directory, mode=0o700)
            if any(self.directory.iterdir()) and not replacing:
                raise ConfigError(f"{self.directory} is not empty", hint="give a new directory, or --replace")
            (self.directory / LIST).unlink(missing_ok=True)
            sync_directory(self.directory)
        except OSError as error:
            raise ConfigError(f"cannot write {self.directory}: {error.strerror}") from None

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator["Writing"]:
        """A stream's file, under a temporary name until `Writing.finish`; without it nothing is left behind."""
        home = self.directory / name
        make_directory(home, mode=0o700)
        temporary = home / f".{DATA}.{os.getpid()}.tmp"
        try:
            with temporary.open("wb") as stream:
                yield Writing(home, temporary, stream)
        finally:
            temporary.unlink(missing_ok=True)

    def complete(self, saved: list[Saved], *, made: str, server: str) -> None:
        """Write the list: from now on the backup counts."""
        content = {"v": VERSION, "made": made, "server": server, "streams": [asdict(each) for each in saved]}
        replace_file(self.directory / LIST, json.dumps(content, indent=2).encode() + b"\n", mode=0o600)

    def streams(self) -> list[Saved]:
        """What was saved. Raises ConfigError: it is no backup, or not complete."""
        path = self.directory / LIST
        try:
            content = json.loads(path.read_bytes())
            if content["v"] != VERSION:
                raise ConfigError(f"{path} is of version {content['v']}", hint="run the newer fshipper")
            return [Saved(**each) for each in content["streams"]]
        except FileNotFoundError:
            raise ConfigError(
                f"{self.directory} holds no complete backup: {LIST} is missing",
                hint="it is written last; back up again",
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None

    def head(self, saved: Saved) -> dict[str, Any]:
        """Configuration and state of a stream. Raises ConfigError."""
        path = self.directory / saved.name / HEAD
        try:
            content: dict[str, Any] = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        return content

    def check(self, saved: Saved) -> None:
        """Compare a stream's file with its checksum. Raises Fatal: it is another one, or not there."""
        path = self.directory / saved.name / DATA
        digest, octets = hashlib.sha256(), 0
        try:
            for chunk in self.chunks(saved):
                digest.update(chunk)
                octets += len(chunk)
        except OSError as error:
            raise Fatal(f"{path} cannot be read: {error.strerror}") from None
        if (octets, digest.hexdigest()) != (saved.octets, saved.sha256):
            raise Fatal(
                f"{path} is damaged: {octets} bytes, sha256 {digest.hexdigest()[:16]}…,"
                f" where {saved.octets} bytes, {saved.sha256[:16]}… were saved",
                hint="take another backup; nothing was restored",
            )

    def chunks(self, saved: Saved) -> Iterator[bytes]:
        """The bytes of a stream's file, a bounded piece at a time."""
        with (self.directory / saved.name / DATA).open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk


class Writing:
    """A stream's file that is being written."""

    def __init__(self, home: Path, temporary: Path, stream: BinaryIO) -> None:
        self._home = home
        self._temporary = temporary
        self._stream = stream
        self._digest = hashlib.sha256()
        self._octets = 0

    def write(self, chunk: bytes) -> None:
        """Put `chunk` behind the others."""
        self._stream.write(chunk)
        self._digest.update(chunk)
        self._octets += len(chunk)

    def finish(self, head: Mapping[str, Any]) -> Saved:
        """Give the file its name, durably, with `head` beside it."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._temporary.replace(self._home / DATA)
        replace_file(self._home / HEAD, json.dumps(head, indent=2).encode() + b"\n", mode=0o600)
        state = head["state"]
        return Saved(
            name=str(head["config"]["name"]),
            octets=self._octets,
            sha256=self._digest.hexdigest(),
            messages=state["messages"],
            first_seq=state["first_seq"],
            last_seq=state["last_seq"],
        )
