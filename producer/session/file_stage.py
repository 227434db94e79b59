"""How far a file is on its way, by the last scan and the checkpoint: the reply to `explain` and `wait`.

It opens and reads no file. A name that no pattern of the configuration matches is not searched on the disk: a requester
does not learn whether it exists. Names are redacted, as everywhere outside of this host.
"""

import os
import stat
import time
from typing import NamedTuple

from producer.discovery.patterns import path_matcher
from producer.discovery.safe_open import ExcludedName
from producer.discovery.scanner import COMPRESSED, Watched
from producer.model import Place, Source
from producer.options import Task
from producer.tailer.file_table import FileState
from producer.tailer.tailer import Tailer
from shipper.control import FileMark, FilesReply, FilesRequest, FileVerdict, as_many_as_fit
from shipper.layout import NANOSECONDS

MAX_GENERATIONS = 20
"""Maximum marks of one file: its generations, the newest ones."""
MAX_NAMES = 10
"""Maximum names in a reply of files that cannot be read."""
MAX_PATTERNS = 5
"""Maximum patterns that a reason names."""


class _NamedFile(NamedTuple):
    """What is known of a requested name."""

    verdict: FileVerdict
    reason: str = ""
    source: str = ""  #: the source under whose name it is read


def files_reply(
    request: FilesRequest, task: Task, tailer: Tailer, place: Place, *, run: str, scan_age: float
) -> FilesReply:
    """The reply to a request. `scan_age`: seconds since the last scan of all files began."""
    sources = list(tailer.acks.known.values())
    pending = [source for source in sources if _is_pending(source, tailer)]
    found = _NamedFile(FileVerdict.UNKNOWN)
    if request.file:
        found = _found(request.file, task, tailer)
        own = [each for each in sources if each.id == found.source or task.archive_name(each.file) == request.file]
        marked = sorted(own, key=lambda source: (bool(source.ended_at), -source.mtime_ns))[:MAX_GENERATIONS]
    else:
        marked = sorted(pending, key=lambda source: source.mtime_ns)
    unreadable = tailer.unreadable
    return FilesReply(
        run=run,
        clock=round(time.time() * 1000),
        scanned=round(max(0.0, scan_age) * 1000),
        partition=place.partition,
        pending=len(pending),
        marks=tuple(as_many_as_fit(_mark(source, task, tailer) for source in marked)),
        unreadable=len(unreadable),
        named=tuple(map(task.archive_name, unreadable[:MAX_NAMES])),
        unsettled=tailer.is_unsettled,
        leaving=bool(place.leaving),
        verdict=found.verdict,
        reason=found.reason,
    )


def _mark(source: Source, task: Task, tailer: Tailer) -> FileMark:
    file = tailer.file_of(source.id)
    reader = file.reader if file is not None else None
    return FileMark(
        source=source.id,
        file=task.archive_name(source.file),
        origin=source.origin,
        read=max(source.offset, reader.offset) if reader is not None else source.offset,
        offset=source.offset,
        archived=source.archived,
        size=max(source.size, source.offset),
        sequence=max(0, source.sequence),
        changed=max(0, source.mtime_ns // NANOSECONDS),
        state=file.state.value if file is not None else "",
        ended=_is_over(source, tailer),
    )


def _is_pending(source: Source, tailer: Tailer) -> bool:
    """Whether not all of a source is archived."""
    if source.offset > max(source.origin, source.archived):
        return True
    return source.size > source.offset and not _is_over(source, tailer)


def _is_over(source: Source, tailer: Tailer) -> bool:
    """Whether nothing more of it is read."""
    return bool(source.ended_at) or tailer.is_excluded(source)


def _found(name: str, task: Task, tailer: Tailer) -> _NamedFile:
    """Whether the file of that archive name is read, and if not, why."""
    unopened = {task.archive_name(path): path for path in tailer.resolver.unopened}
    if name in unopened:
        return _NamedFile(FileVerdict.UNREADABLE, _why_unopened(unopened[name]))
    if any(task.archive_name(reader.file) == name for reader in tailer.readers):
        return _NamedFile(FileVerdict.FOLLOWED)
    patterns = task.following.watched.patterns
    if not path_matcher(patterns)(name):
        shown = ", ".join(map(task.archive_name, patterns[:MAX_PATTERNS]))
        more = f" and {len(patterns) - MAX_PATTERNS} more" if len(patterns) > MAX_PATTERNS else ""
        return _NamedFile(FileVerdict.UNMATCHED, f"the configuration names {shown}{more}")
    return _refused(name, task, tailer) or _not_open(name, task, tailer)


def _not_open(name: str, task: Task, tailer: Tailer) -> _NamedFile:
    """What is known of a name that may be read, and is not the name of an open file."""
    key = tailer.found.names.get(name)
    if key is None:
        return _not_found(name)
    if (file := tailer.file_at(key)) is None:
        kind = "compressed" if name.endswith(COMPRESSED) else "a copy of a file that is read"
        return _NamedFile(FileVerdict.SKIPPED, f"{kind}: only what of it is unread elsewhere is read from there")
    if file.state is FileState.EXCLUDED:
        return _NamedFile(FileVerdict.EXCLUDED, "the configuration did not name it when it was read last", file.id)
    if (other := task.archive_name(file.name)) != name:
        return _NamedFile(FileVerdict.SECOND_NAME, f"it is read as {other}", file.id)
    return _NamedFile(FileVerdict.FOLLOWED, source=file.id)


def _refused(name: str, task: Task, tailer: Tailer) -> _NamedFile | None:
    """Why a name that a pattern matches is not read; None: no rule refuses it."""
    watched, refused = task.following.watched, tailer.resolver.refused.get(name)
    if excluding := [each for each in watched.exclude if Watched((), (each,)).excludes(name)]:
        return _NamedFile(FileVerdict.EXCLUDED, f"excluded by {task.archive_name(excluding[0])}")
    if refused is not None:
        is_excluded = isinstance(refused, ExcludedName)
        return _NamedFile(FileVerdict.EXCLUDED if is_excluded else FileVerdict.LINK, task.edits.of_name(refused.reason))
    for path, error in tailer.found.unknown:
        if path == name:
            return _NamedFile(FileVerdict.UNREADABLE, error.strerror or str(error))
    for directory, error in tailer.found.unlisted.items():
        if name.startswith(os.path.join(directory, "")) and name not in tailer.found.names:
            where = task.archive_name(directory)
            return _NamedFile(
                FileVerdict.UNREADABLE, f"the directory {where} cannot be listed: {error.strerror or error}"
            )
    return None


def _not_found(name: str) -> _NamedFile:
    """Why the last scan did not find a name that a pattern matches."""
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        return _NamedFile(FileVerdict.MISSING, "a link that leads nowhere" if os.path.islink(name) else "")
    except OSError as error:
        return _NamedFile(FileVerdict.UNREADABLE, error.strerror or str(error))
    if stat.S_ISREG(mode):
        return _NamedFile(FileVerdict.NEW, "it came after the last scan")
    return _NamedFile(FileVerdict.SKIPPED, "a directory" if stat.S_ISDIR(mode) else "no regular file")


def _why_unopened(path: str) -> str:
    if os.path.exists(path) and not os.access(path, os.R_OK, effective_ids=True):
        return "permission denied"
    return "it could not be opened at the last scan; the log of the producer has the reason (file_unreadable)"
