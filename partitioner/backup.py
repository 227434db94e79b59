"""Save streams, and make streams of what was saved.

A backup on disk: a directory a stream, and the list of them, which is written last.

<directory>/LOGS_0/stream.tar.s2          as the server sent it
<directory>/LOGS_0/backup.json            configuration and state; `nats stream restore` takes such a directory, too
<directory>/fshipper-backup.json          what was saved, with checksums; without it the backup is not complete
"""

import contextlib
import datetime as dt
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from partitioner.arguments import numbers_of, settings_of, with_admin
from partitioner.desired import is_ours
from shipper.durable_files import make_directory, replace_file, sync_directory
from shipper.errors import ConfigError, Fatal, Unavailable, UsageError
from shipper.jetstream import stream_snapshot
from shipper.jetstream.admin import Admin
from shipper.settings import Settings
from shipper.subjects import stream_name
from shipper.units import counted, format_bytes

LIST = "fshipper-backup.json"
DATA = "stream.tar.s2"
HEAD = "backup.json"
VERSION = 1
CHUNK_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedStream:
    """One stream of a backup."""

    name: str
    octets: int  #: of the file
    sha256: str
    messages: int
    first_seq: int
    last_seq: int


class BackupDirectory:
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
    def writing(self, name: str) -> Iterator["SnapshotWriter"]:
        """A stream's file, under a temporary name until `SnapshotWriter.finish`; without it nothing remains."""
        home = self.directory / name
        make_directory(home, mode=0o700)
        temporary = home / f".{DATA}.{os.getpid()}.tmp"
        try:
            with temporary.open("wb") as stream:
                yield SnapshotWriter(home, temporary, stream)
        finally:
            temporary.unlink(missing_ok=True)

    def complete(self, saved: list[SavedStream], *, made: str, server: str) -> None:
        """Write the list: from now on the backup counts."""
        content = {"v": VERSION, "made": made, "server": server, "streams": [asdict(each) for each in saved]}
        replace_file(self.directory / LIST, json.dumps(content, indent=2).encode() + b"\n", mode=0o600)

    def streams(self) -> list[SavedStream]:
        """What was saved. Raises ConfigError: it is no backup, or not complete."""
        path = self.directory / LIST
        try:
            content = json.loads(path.read_bytes())
            if content["v"] != VERSION:
                raise ConfigError(f"{path} is of version {content['v']}", hint="run the newer fshipper")
            return [SavedStream(**each) for each in content["streams"]]
        except FileNotFoundError:
            raise ConfigError(
                f"{self.directory} holds no complete backup: {LIST} is missing",
                hint="it is written last; back up again",
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None

    def head(self, saved: SavedStream) -> dict[str, Any]:
        """Configuration and state of a stream. Raises ConfigError."""
        path = self.directory / saved.name / HEAD
        try:
            content: dict[str, Any] = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        return content

    def check(self, saved: SavedStream) -> None:
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

    def chunks(self, saved: SavedStream) -> Iterator[bytes]:
        """The bytes of a stream's file, a bounded piece at a time."""
        with (self.directory / saved.name / DATA).open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk


class SnapshotWriter:
    """A stream's file that is being written."""

    def __init__(self, home: Path, temporary: Path, stream: BinaryIO) -> None:
        self._home = home
        self._temporary = temporary
        self._stream = stream
        self._digest = hashlib.sha256()
        self._octets = 0

    def write(self, chunk: bytes) -> None:
        """Append `chunk`."""
        self._stream.write(chunk)
        self._digest.update(chunk)
        self._octets += len(chunk)

    def finish(self, head: Mapping[str, Any]) -> SavedStream:
        """Give the file its name, durably, and write `head` next to it."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._temporary.replace(self._home / DATA)
        replace_file(self._home / HEAD, json.dumps(head, indent=2).encode() + b"\n", mode=0o600)
        state = head["state"]
        return SavedStream(
            name=str(head["config"]["name"]),
            octets=self._octets,
            sha256=self._digest.hexdigest(),
            messages=state["messages"],
            first_seq=state["first_seq"],
            last_seq=state["last_seq"],
        )


Json = dict[str, Any]
Began = Callable[[str, int], Callable[[int], None]]
"""Called with the name of a stream and its approximate size in bytes; returns a callback for the size of each chunk."""


class RestoreOverrides(NamedTuple):
    """What to change in a restored stream; None: nothing."""

    name: str | None = None
    subjects: tuple[str, ...] | None = None
    replicas: int | None = None


async def back_up(
    admin: Admin, store: BackupDirectory, names: Sequence[str], *, consumers: bool, began: Began
) -> list[SavedStream]:
    """Save each of the streams `names`, one after the other, and complete the backup."""
    saved = [await _save(admin, store, name, consumers, began) for name in names]
    made = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    store.complete(saved, made=made, server=str(admin.connection.client.connected_server_version))
    return saved


async def _save(admin: Admin, store: BackupDirectory, name: str, consumers: bool, began: Began) -> SavedStream:
    heads: list[Json] = []
    told: Callable[[int], None] | None = None
    chunks = stream_snapshot.snapshot(admin.connection, name, consumers=consumers, begun=heads.append)
    with store.writing(name) as file:
        async with contextlib.aclosing(chunks):  # type: ignore[type-var]
            async for chunk in chunks:
                told = told or began(name, int(heads[0]["state"]["bytes"]))
                file.write(chunk)
                told(len(chunk))
        return file.finish({key: heads[0][key] for key in ("config", "state")})


async def bring_back(
    admin: Admin, store: BackupDirectory, chosen: Sequence[SavedStream], *, otherwise: RestoreOverrides, began: Began
) -> list[Json]:
    """Make each of `chosen` a stream of the server; all files are proven, and all names free, before the first is.

    Raises:
        Fatal: a file is damaged, or what the server made of it is not what was saved. ConfigError: a name is taken.
    """
    taken = {str(info["config"]["name"]): info["config"].get("subjects") or [] for info in await admin.streams()}
    heads = [_changed(store.head(saved), otherwise, taken) for saved in chosen]
    for saved in chosen:
        store.check(saved)
    return [await _bring_back(admin, store, saved, head, began) for saved, head in zip(chosen, heads, strict=True)]


async def _bring_back(admin: Admin, store: BackupDirectory, saved: SavedStream, head: Json, began: Began) -> Json:
    name = str(head["config"]["name"])
    made = await stream_snapshot.restore(admin.connection, head, store.chunks(saved), began(name, saved.octets))
    state, config = made["state"], head["config"]
    fades = bool(config.get("max_age") or config.get("allow_msg_ttl"))  # messages that are too old are removed
    if state["last_seq"] != saved.last_seq or (state["messages"] != saved.messages and not fades):
        raise Fatal(
            f"stream {name} was restored, but holds {state['messages']} messages up to {state['last_seq']},"
            f" where {saved.messages} up to {saved.last_seq} were saved"
        )
    return made


def _changed(head: Json, otherwise: RestoreOverrides, taken: dict[str, list[str]]) -> Json:
    """`head` with the name, subjects and replicas of `otherwise`."""
    config = dict(head["config"])
    config["name"] = otherwise.name or config["name"]
    if config["name"] in taken:
        raise ConfigError(
            f"the server has a stream {config['name']} already; nothing was restored",
            hint="restore it under another name (--as NAME), or delete that one first",
        )
    if otherwise.subjects is not None:
        config["subjects"] = list(otherwise.subjects)
    elif otherwise.name and any(not set(config.get("subjects") or ()).isdisjoint(each) for each in taken.values()):
        config["subjects"] = []  # the server gives it its name as a subject, and refuses others that overlap
    if otherwise.replicas is not None:
        config["num_replicas"] = otherwise.replicas
    return head | {"config": config}


# -- the commands ---------------------------------------------------------------------------------------------------


def backup(
    directory: Path, streams: list[str] | None, *, partitions: str | None, every: bool, consumers: bool, replace: bool,
    as_json: bool, url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Save streams to a directory."""
    settings = settings_of(url, config, subject)
    store = BackupDirectory(directory)

    async def work(admin: Admin) -> list[SavedStream]:
        there = [str(info["config"]["name"]) for info in await admin.streams()]
        ours = [name for name in there if every or is_ours(name, settings.logs.subject)]
        names = _chosen(there, ours, streams, partitions, settings)
        store.begin(replacing=replace or store.directory in begun)
        begun.add(store.directory)
        with _progress() as began:
            return await back_up(admin, store, names, consumers=consumers, began=began)

    begun: set[Path] = set()  # what an attempt before this one left may be replaced
    saved = with_admin(settings, work)
    if as_json:
        sys.stdout.write(json.dumps([asdict(each) for each in saved], indent=2) + "\n")
    else:
        for each in saved:
            sys.stdout.write(
                f"saved stream {each.name} ({counted(each.messages, 'message')}, {format_bytes(each.octets)})\n"
            )


def restore(
    directory: Path, streams: list[str] | None, *, partitions: str | None, name: str | None, subjects: str | None,
    replicas: int | None, skip_existing: bool, as_json: bool, url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Make streams of a backup."""
    settings = settings_of(url, config, subject)
    store = BackupDirectory(directory)
    known = {saved.name: saved for saved in store.streams()}
    chosen = [known[each] for each in _chosen(list(known), list(known), streams, partitions, settings)]
    if (name or subjects) and len(chosen) != 1:
        raise UsageError(f"--as and --subjects are for one stream, these are {len(chosen)}", hint="name the one")
    otherwise = RestoreOverrides(name, tuple(subjects.split(",")) if subjects else None, replicas)

    async def work(admin: Admin) -> tuple[list[SavedStream], list[dict[str, object]]]:
        there = {str(info["config"]["name"]) for info in await admin.streams()} if skip_existing else set()
        left = [saved for saved in chosen if (name or saved.name) not in there]
        with _progress() as began:
            return left, await bring_back(admin, store, left, otherwise=otherwise, began=began)

    left, made = with_admin(settings, work, attempts=1)
    if as_json:
        sys.stdout.write(json.dumps(made, indent=2) + "\n")
        return
    for saved, info in zip(left, made, strict=True):
        stream: dict[str, object] = info["config"]  # type: ignore[assignment]
        other = f" as {stream['name']}" if stream["name"] != saved.name else ""
        sys.stdout.write(f"restored stream {saved.name}{other} ({counted(saved.messages, 'message')})\n")


def _chosen(
    there: Sequence[str], ours: Sequence[str], streams: Sequence[str] | None, partitions: str | None, settings: Settings
) -> list[str]:
    """The selected streams. Raises Unavailable: one of them does not exist, or there is none."""
    wanted = list(streams or ())
    wanted += [stream_name(settings.logs.subject, each) for each in numbers_of(partitions)]
    names = list(dict.fromkeys(wanted)) or list(ours)
    if missing := [each for each in names if each not in there]:
        raise Unavailable(f"there is no stream {missing[0]}", hint=f"there are {', '.join(there) or 'none'}")
    if not names:
        raise Unavailable("there is no stream to save", hint="--all takes those of others, too")
    return names


@contextlib.contextmanager
def _progress() -> Iterator[Began]:
    """A bar a stream on a terminal; elsewhere nothing."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:

        def began(name: str, octets: int) -> Callable[[int], None]:
            task = progress.add_task(name, total=octets)
            return lambda more: progress.advance(task, more)

        yield began
        for task in progress.tasks:  # what a stream takes packed is not what it takes on the server
            progress.update(task.id, total=max(task.completed, 1), completed=max(task.completed, 1))
