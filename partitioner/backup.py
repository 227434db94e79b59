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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from partitioner.arguments import numbers_of, with_admin
from partitioner.desired import is_ours
from partitioner.options import BackupOptions, RestoreOptions
from shipper.commands import settings_of
from shipper.durable_files import make_directory, replace_file, sync_directory
from shipper.errors import ConfigError, Fatal, Unavailable, UsageError
from shipper.jetstream import stream_snapshot
from shipper.jetstream.admin import Admin, Json
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


@dataclass(frozen=True, slots=True)
class BackupDirectory:
    """The backup in a directory."""

    directory: Path

    def begin(self, *, replacing: bool) -> None:
        """Make the directory; from now on the backup in it is not complete.

        Raises ConfigError: there is something in it already, or it cannot be written.
        """
        try:
            make_directory(self.directory, mode=0o700)
            if any(self.directory.iterdir()) and not replacing:
                raise ConfigError(f"{self.directory} is not empty", hint="give a new directory, or --replace")
            (self.directory / LIST).unlink(missing_ok=True)
            sync_directory(self.directory)
        except OSError as error:
            raise ConfigError(f"cannot write {self.directory}: {error.strerror}") from None

    def complete(self, saved: list[SavedStream], *, server: str) -> None:
        """Write the list: from now on the backup counts."""
        made = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
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
        try:
            with path.open("rb") as stream:
                digest, octets = hashlib.file_digest(stream, "sha256").hexdigest(), stream.tell()
        except OSError as error:
            raise Fatal(f"{path} cannot be read: {error.strerror}") from None
        if (octets, digest) != (saved.octets, saved.sha256):
            raise Fatal(
                f"{path} is damaged: {octets} bytes, sha256 {digest[:16]}…,"
                f" where {saved.octets} bytes, {saved.sha256[:16]}… were saved",
                hint="take another backup; nothing was restored",
            )

    def chunks(self, saved: SavedStream) -> Iterator[bytes]:
        """The bytes of a stream's file, a bounded piece at a time."""
        with (self.directory / saved.name / DATA).open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk


def backup(options: BackupOptions) -> None:
    """Save streams to a directory, one after the other, and complete the backup."""
    settings, store = settings_of(options), BackupDirectory(options.directory)
    begun = False  # what an attempt before this one left may be replaced

    async def work(admin: Admin) -> list[SavedStream]:
        nonlocal begun
        there = [str(info["config"]["name"]) for info in await admin.streams()]
        ours = [name for name in there if options.every or is_ours(name, settings.logs.subject)]
        names = _chosen(options, there, ours, settings)
        store.begin(replacing=options.replace or begun)
        begun = True
        saved = []
        for name in names:
            saved.append(await _save(admin, store, name, consumers=options.consumers))
            if not options.as_json:
                size = f"{counted(saved[-1].messages, 'message')}, {format_bytes(saved[-1].octets)}"
                _print(f"saved stream {name} ({size})")
        store.complete(saved, server=str(admin.connection.client.connected_server_version))
        return saved

    saved = with_admin(settings, work)
    if options.as_json:
        _print(json.dumps([{"v": 1, **asdict(each)} for each in saved], indent=2))


async def _save(admin: Admin, store: BackupDirectory, name: str, *, consumers: bool) -> SavedStream:
    """Write a stream to its file, durably, and configuration and state next to it; a part of a file never remains."""
    home, digest, heads = store.directory / name, hashlib.sha256(), list[Json]()
    make_directory(home, mode=0o700)
    temporary = home / f".{DATA}.{os.getpid()}.tmp"
    try:
        # 0600 from the beginning, whatever the umask is: the file holds lines of all hosts.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            chunks = stream_snapshot.snapshot(admin.connection, name, consumers=consumers, begun=heads.append)
            async with contextlib.aclosing(chunks):  # type: ignore[type-var]
                async for chunk in chunks:
                    stream.write(chunk)
                    digest.update(chunk)
            stream.flush()
            os.fsync(descriptor)
            octets = stream.tell()
        temporary.replace(home / DATA)
    finally:
        temporary.unlink(missing_ok=True)
    head = {key: heads[0][key] for key in ("config", "state")}
    replace_file(home / HEAD, json.dumps(head, indent=2).encode() + b"\n", mode=0o600)
    numbers = {key: head["state"][key] for key in ("messages", "first_seq", "last_seq")}
    return SavedStream(name=name, octets=octets, sha256=digest.hexdigest(), **numbers)


def _print(text: str) -> None:
    """Print a line immediately: a stream may take minutes."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def restore(options: RestoreOptions) -> None:
    """Make streams of a backup."""
    settings, store = settings_of(options), BackupDirectory(options.directory)
    known = {saved.name: saved for saved in store.streams()}
    chosen = [known[each] for each in _chosen(options, list(known), list(known), settings)]
    if (options.name or options.subjects) and len(chosen) != 1:
        raise UsageError(f"--as and --subjects are for one stream, these are {len(chosen)}", hint="name the one")

    async def work(admin: Admin) -> list[Json]:
        taken = {str(info["config"]["name"]): info["config"].get("subjects") or [] for info in await admin.streams()}
        skipped = taken if options.skip_existing else ()
        left = [saved for saved in chosen if (options.name or saved.name) not in skipped]
        return await _bring_back(admin, store, left, options, taken)

    made = with_admin(settings, work, attempts=1)
    if options.as_json:
        _print(json.dumps(made, indent=2))


async def _bring_back(
    admin: Admin,
    store: BackupDirectory,
    chosen: Sequence[SavedStream],
    options: RestoreOptions,
    taken: dict[str, list[str]],
) -> list[Json]:
    """Make each of `chosen` a stream of the server; all files are proven, and all names free, before the first is.

    `taken`: subjects of the server's streams, by name.

    Raises Fatal: a file is damaged, or what the server made of it is not what was saved. ConfigError: a name is taken.
    """
    heads = [_changed(store.head(saved), options, taken) for saved in chosen]
    for saved in chosen:
        store.check(saved)
    made = []
    for saved, head in zip(chosen, heads, strict=True):
        config, name = head["config"], str(head["config"]["name"])
        info = await stream_snapshot.restore(admin.connection, head, store.chunks(saved))
        state = info["state"]
        fades = bool(config.get("max_age") or config.get("allow_msg_ttl"))  # messages that are too old are removed
        if state["last_seq"] != saved.last_seq or (state["messages"] != saved.messages and not fades):
            raise Fatal(
                f"stream {name} was restored, but holds {state['messages']} messages up to {state['last_seq']},"
                f" where {saved.messages} up to {saved.last_seq} were saved"
            )
        made.append({"v": 1, **info})
        if not options.as_json:
            other = f" as {name}" if name != saved.name else ""
            _print(f"restored stream {saved.name}{other} ({counted(saved.messages, 'message')})")
    return made


def _changed(head: Json, options: RestoreOptions, taken: dict[str, list[str]]) -> Json:
    """`head` with the name, subjects and replicas of `options`."""
    config = dict(head["config"])
    config["name"] = options.name or config["name"]
    if config["name"] in taken:
        raise ConfigError(
            f"the server has a stream {config['name']} already; nothing was restored",
            hint="restore it under another name (--as NAME), or delete that one first",
        )
    if options.subjects:
        config["subjects"] = options.subjects.split(",")
    elif options.name and any(not set(config.get("subjects") or ()).isdisjoint(each) for each in taken.values()):
        config["subjects"] = []  # the server gives it its name as a subject, and refuses others that overlap
    if options.replicas is not None:
        config["num_replicas"] = options.replicas
    return head | {"config": config}


def _chosen(
    options: BackupOptions | RestoreOptions, there: Sequence[str], ours: Sequence[str], settings: Settings
) -> list[str]:
    """The selected streams. Raises Unavailable: one of them does not exist, or there is none."""
    wanted = list(options.streams or ())
    wanted += [stream_name(settings.logs.subject, each) for each in numbers_of(options.partitions)]
    names = list(dict.fromkeys(wanted)) or list(ours)
    if missing := [each for each in names if each not in there]:
        raise Unavailable(f"there is no stream {missing[0]}", hint=f"there are {', '.join(there) or 'none'}")
    if not names:
        raise Unavailable("there is no stream to save", hint="--all takes those of others, too")
    return names
