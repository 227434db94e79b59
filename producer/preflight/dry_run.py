"""`fshipper produce --dry-run`: what would be read, from which byte, and what not and why.

Exact by construction: the producer's own scan of the files, on a copy of its checkpoint. Nothing is sent, and nothing
is changed or created in the state directory. A name that a pattern matches and that is not read has one reason.
"""

import contextlib
import glob
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from producer.app import CHECKPOINT, host_of, planned, state_path
from producer.checkpoint.store import Checkpoints
from producer.discovery.scanner import Key, Seen, Watched, names
from producer.inputs.factory import inputs_named, names_below, with_spools
from producer.inputs.spool import LOG, SPOOLS
from producer.model import Piece
from producer.options import Following
from producer.tailer.decompress import is_compressed_file
from producer.tailer.lost_file import originals
from producer.tailer.tailer import Tailer, new_tailer
from shipper.errors import ConfigError, Fatal
from shipper.model import End
from shipper.settings import Settings
from shipper.subjects import stream_name
from shipper.telemetry import log_names_as


class Skip(NamedTuple):
    """A name that matches and is not read."""

    path: str
    reason: str  #: a stable word, for scripts
    text: str


class Read(NamedTuple):
    """A file that would be read."""

    path: str  #: where it is now
    file: str  #: its name in the archive
    start: int  #: the first byte that would be read
    bytes: int  #: how many from there on, as of now
    known: bool  #: the checkpoint has its source
    left_out: int  #: bytes before `start` that are not read, of a file that is new


class Report(NamedTuple):
    """What a producer would do, if it started now."""

    host: str
    subject: str
    partition: int
    stream: str
    inputs: list[str]  #: what is read that is no file
    reads: list[Read]
    skips: list[Skip]
    warnings: list[str]


def report(settings: Settings, *, once: bool) -> Report:
    """Scan the files as a producer does at its start. Raises ConfigError; Fatal: the checkpoint cannot be read."""
    state = state_path(settings.producer, host_of(settings))
    with tempfile.TemporaryDirectory(prefix="fshipper-dry-run-") as directory:
        copy = Path(directory) / CHECKPOINT
        copy_checkpoint(state / CHECKPOINT, copy)
        with contextlib.closing(Checkpoints(copy)) as checkpoints:
            return _report(settings, checkpoints, state / SPOOLS, once=once)


def _report(settings: Settings, checkpoints: Checkpoints, spools: Path, *, once: bool) -> Report:
    task = planned(settings, once=once, new=checkpoints.fresh and not checkpoints.damaged)
    log_names_as(task.edits.of_name)
    known = checkpoints.load()
    configured = task.following
    spools_there = {str(path / LOG): name for path, name in names_below(spools).items()}
    task = replace(task, following=with_spools(configured, spools_there))
    with contextlib.closing(new_tailer(task.following, checkpoints)) as sources:
        sources.resume(known)
        sources.scan()
        # no bytes, only the last blocks of lost files, and where their unread bytes are
        farewells = list(sources.read_scheduler.pieces(0))
        ids = {source.id for source in known}
        reads = [
            Read(
                path=reader.path,
                file=task.archive_name(reader.file),
                start=reader.offset,
                bytes=reader.unread_bytes,
                known=reader.id in ids,
                left_out=0 if reader.id in ids else reader.origin,
            )
            for reader in sources.reading
        ]
        skipped = list(skips(configured, sources))
        notes = list(_warnings(configured.watched, sources, farewells, checkpoints))
        notes += [
            f"{name}: this file's local name holds a secret, so that it is shipped under this one"
            for name in sorted(
                {task.archive_name(each.file) for each in sources.reading if task.is_redacted(each.file)}
            )
        ]
    stream = stream_name(task.prefix, task.partition)
    inputs = inputs_named(settings.producer)
    return Report(task.host, task.subject, task.partition, stream, inputs, reads, skipped, notes)


def _warnings(watched: Watched, sources: Tailer, farewells: list[Piece], checkpoints: Checkpoints) -> Iterator[str]:
    for pattern in watched.patterns:  # a file that comes later is read from its first byte
        if not any(os.path.isfile(name) for name in names(pattern)):
            yield f"{pattern} {'matches no file' if glob.has_magic(pattern) else 'does not exist'} yet"
    for file, unread in sorted(sources.excluded_bytes.items()):
        yield f"{file} is excluded or no longer named: it is not read; {unread} unread bytes stay on this host"
    for piece in farewells:
        if piece.gap and piece.end and piece.end is not End.EXCLUDED:
            yield f"{piece.file}: {piece.gap} bytes are lost ({piece.end.value}); a gap would be recorded"
    if checkpoints.damaged:
        yield "the checkpoint is damaged: a start would rename it and request the offsets from the archive"


# -- why a name that a pattern matches is not read -------------------------------------------------------------------

OTHER_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def skips(following: Following, sources: Tailer) -> Iterator[Skip]:
    """Each name that matches and is not read, once, in the order of the patterns. `sources` have scanned."""
    read = {reader.key: reader.path for reader in sources.reading}
    matched: dict[str, str] = {}  # each name with the first pattern that matches it
    for pattern in following.watched.patterns:
        for name in names(pattern):
            matched.setdefault(name, pattern)
    refused, links = sources.resolver.refused, sources.resolver.links_not_followed
    for name, pattern in matched.items():
        if name in links:
            yield Skip(name, "link_not_followed", f"{refused[name].reason}; see link_roots")
        elif name in refused:
            yield Skip(name, "excluded", refused[name].reason)
        elif skip := _why(name, pattern, following, read, sources):
            yield skip
    for directory, error in sources.found.unlisted.items():
        yield Skip(directory, "unreadable", f"the directory cannot be listed: {error.strerror or error}")


def _why(name: str, pattern: str, following: Following, read: Mapping[Key, str], sources: Tailer) -> Skip | None:
    """The reason of one name. None: it is read, or is not worth a word."""
    excluding = [each for each in following.watched.exclude if Watched((), (each,)).excludes(name)]
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return (
            Skip(name, "dangling", f"a link to {os.readlink(name)}, which is not there")
            if os.path.islink(name)
            else None
        )
    except OSError as error:
        return Skip(name, "unreadable", error.strerror or str(error))
    if stat.S_ISDIR(found.st_mode):
        whole_tree = os.path.basename(pattern) == "**"
        return None if whole_tree else Skip(name, "directory", f"a directory; write '{name}/*' for the files in it")
    if excluding:
        return Skip(name, "excluded", f"excluded by {excluding[0]}")
    if kind := OTHER_KINDS.get(stat.S_IFMT(found.st_mode)):
        named = "; named by its own path it is read as an input" if stat.S_ISFIFO(found.st_mode) else ""
        return Skip(name, "no_file", f"{kind}, no regular file{named}")
    return _why_file(Seen(name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns), following, read, sources)


def _why_file(seen: Seen, following: Following, read: Mapping[Key, str], sources: Tailer) -> Skip | None:
    path = read.get(seen.key)
    if path == seen.path:
        return None
    if path is not None:
        hard_link = f"a second name (hard link) of {path}, under which it is read"
        text = f"a link to a file that is read as {path}" if os.path.islink(seen.path) else hard_link
        return Skip(seen.path, "second_name", text)
    try:
        os.close(following.links.open(seen.path))
    except OSError as error:
        return Skip(seen.path, "unreadable", error.strerror or str(error))
    is_compressed = False
    with contextlib.suppress(OSError):
        is_compressed = is_compressed_file(seen.path, seen, following.links)
    if is_compressed:
        return Skip(seen.path, "compressed", f"{_whose(seen.path)}; name it by its own path to ship it as it is")
    if sources.rotation.is_copy(seen):
        return Skip(seen.path, "copy", "a copy that copytruncate made: its lines are read from the original")
    return Skip(seen.path, "unknown", "changed during the scan; the next scan decides")


def _whose(path: str) -> str:
    """Of which file a compressed one is a rotation: only what of it is known to be unread is read from there."""
    names = [name for name in sorted(originals(path)) if name != path and os.path.lexists(name)]
    return f"a compressed rotation of {names[0]} without unread lines" if names else "compressed, of no known file"


# -- the copy of the checkpoint -------------------------------------------------------------------------------------


def copy_checkpoint(original: Path, copy: Path) -> None:
    """Copy a checkpoint as it stands, also while a producer writes it. Nothing where there is none.

    Raises ConfigError: this user may not read it; Fatal: it cannot be copied.
    """
    try:
        if not original.exists():
            return
        original.open("rb").close()
    except OSError as error:
        raise ConfigError(
            f"cannot read the checkpoint {original}: {error.strerror}", hint="run this as the user of the producer"
        ) from None
    # With a journal and its index a producer has the checkpoint open, or was killed while it had. Without the index
    # even a reading SQLite would make an empty journal; then there is no writer, and a copy is exact.
    if all(Path(f"{original}{suffix}").exists() for suffix in ("-wal", "-shm")):
        with contextlib.suppress(sqlite3.DatabaseError):  # damaged, or closed just now
            _back_up(original, copy)
            return
    for suffix in ("", "-wal"):
        found = Path(f"{original}{suffix}")
        try:
            shutil.copyfile(found, f"{copy}{suffix}")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Fatal(f"cannot copy {found}: {error.strerror}", hint="check the disk and its permissions") from None


def _back_up(original: Path, copy: Path) -> None:
    """By SQLite itself, without a write: `readonly_shm` keeps it from touching even the index of the journal."""
    with (
        contextlib.closing(
            sqlite3.connect(f"{original.absolute().as_uri()}?mode=ro&readonly_shm=1", uri=True)
        ) as source,
        contextlib.closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
