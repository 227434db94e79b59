"""Replaces a sealed segment by a new one: for merging, redacting, removing doubled bytes, compressing again.

make    unpack, compare with the manifest line, change, pack under a temporary name, fsync
place   link, fsync the directory
        manifest line with what it replaces, fsync              (from here on readers use it, and not the old one)
        remove the old one, fsync the directory

Killed before the line: running it again takes the name over. Killed after it: running it again removes the old one.
One process at a time does so in a partition.
"""

import contextlib
import fcntl
import io
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from consumer.archive import frame_index, manifests
from consumer.archive.directory import LOCKS, is_written, manifests_of_day, try_lock
from consumer.archive.manifests import listed_segments
from consumer.archive.segment_io import BROKEN, ByteCounter, CountingWriter, pack, texts
from consumer.archive.stored_times import StoredTimes, joined
from consumer.segments.sealer import Sealer, new_segment_file, now, number_of, sweep, times_for
from shipper import layout, manifest
from shipper.bytes_ops import crc32
from shipper.durable_files import Lock, make_directory, sync_directory
from shipper.errors import Fatal, Unavailable
from shipper.layout import FileKey, date_of
from shipper.manifest import Segment


class KeptRange(NamedTuple):
    """Bytes `start` to `end` of a text that are in another one, where they begin `at` an offset."""

    start: int
    end: int
    at: int


WAIT_SECONDS = 60.0
POLL_SECONDS = 0.1
RETENTION_TRIES = 100


@contextlib.contextmanager
def rewriting(archive: Path, partition: int) -> Iterator[bool]:
    """Lock out other processes that replace segments, until the end of the block. False means that one is running."""
    lock = _try_rewriting(archive, partition)
    with lock or contextlib.nullcontext():
        yield lock is not None


def _try_rewriting(archive: Path, partition: int) -> BinaryIO | None:
    """The lock of the one process that replaces segments, until it is closed.

    None means that another process has it.
    """
    make_directory(archive / LOCKS)
    path = archive / LOCKS / f"rewriting={partition}.lock"
    lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


@contextlib.contextmanager
def alone(archive: Path, partitions: Iterable[int]) -> Iterator[None]:
    """No other process puts segments in the place of others in these partitions before the end of the block.

    Raises Unavailable: a collector merges segments of one of them for long.
    """
    with contextlib.ExitStack() as stack:
        for partition in sorted(set(partitions)):
            deadline = time.monotonic() + WAIT_SECONDS
            while (lock := _try_rewriting(archive, partition)) is None:
                if time.monotonic() >= deadline:
                    raise Unavailable(
                        f"a collector merges segments of partition {partition}", hint="try again in some minutes"
                    )
                time.sleep(POLL_SECONDS)
            stack.enter_context(lock)
        yield


@contextlib.contextmanager
def without_retention(archive: Path) -> Iterator[None]:
    """Retention removes no day before the end of the block. Raises Fatal: it runs for long."""
    make_directory(archive / LOCKS)
    path, what, lock = archive / LOCKS / "retention.lock", f"the retention of {archive}", None
    for _ in range(RETENTION_TRIES - 1):
        if (lock := try_lock(path, what)) is not None:
            break
        time.sleep(POLL_SECONDS)
    with lock or Lock(path, what):  # the last attempt raises
        yield


def replace_segment_text(
    archive: Path, old: Segment, text: bytes, *, kept: Sequence[KeptRange] = (), **changes: Any
) -> Segment:
    """Make a segment of `text` that replaces `old`, durable and listed. Then remove `old`. Call it inside `alone`.

    `kept`: what of the old text is in the new one, in order, if not all of it is.
    `changes`: the fields of its manifest line that differ; those of text and file are added.
    """
    times = _times_of(archive, old, len(text), kept)
    remove_replaced(archive, [old])  # nothing names it once `old` is replaced

    def write(packed: CountingWriter) -> ByteCounter:
        return pack(io.BytesIO(text), packed, old.codec, times)

    made = list_in_place_of(archive, old, write, times=times_for(old.codec, times), **changes)
    remove_replaced(archive, [made])
    return made


def list_in_place_of(
    archive: Path, old: Segment, write: Callable[[CountingWriter], ByteCounter], **changes: Any
) -> Segment:
    """Make a segment of what `write` writes, which returns the text in it, durable and listed in the place of `old`.

    `old` stays on the disk until `remove_replaced`. Call it inside `alone` or `rewriting`.
    """
    sealer = Sealer(archive, collector=_manifest_of(archive, old), codec=old.codec)
    path = _free_path(archive, old)
    sweep(archive / path)
    before = sealer.listed_bytes(path)
    with new_segment_file(archive / path) as fresh:
        packed = CountingWriter(fresh.stream)
        counted = write(packed)
        if not fresh.publish():  # of a run that was killed before its manifest line
            fresh.replace()
        made = replace(
            old,
            path=path,
            lines=counted.lines,
            bytes_raw=counted.octets,
            bytes_stored=packed.octets,
            crc32=f"{counted.crc:08x}",
            crc32_stored=f"{packed.crc:08x}",
            sealed_at=now(),
            replaces=(old.path,),
            **changes,
        )
        sealer.record(made, since=before)
    return made


def _times_of(archive: Path, old: Segment, raw: int, kept: Sequence[KeptRange]) -> StoredTimes:
    """When the bytes of its new text were stored: as in the old one."""
    first_ns, last_ns = manifest.nanoseconds(old.first_time), manifest.nanoseconds(old.last_time)
    times = StoredTimes.estimated(first_ns, last_ns, old.bytes_raw)
    with contextlib.suppress(OSError), (archive / old.path).open("rb") as stream:
        times = frame_index.times_in(stream, old)
    if not kept:
        return times if old.bytes_raw == raw else StoredTimes.estimated(first_ns, last_ns, raw)
    ends = [*(each.at for each in kept[1:]), raw]  # a newline that was added belongs to the line before it
    parts = zip(kept, ends, strict=True)
    return joined(replace(times.part(each.start, each.end), raw=end - each.at) for each, end in parts)


def remove_replaced(archive: Path, segments: Iterable[Segment]) -> list[str]:
    """Remove the segments that `segments` replace one for one, and what a kill left. Returns the paths of those."""
    removed = []
    for segment in segments:
        if len(segment.replaces) != 1:  # merged
            continue
        sweep(archive / segment.path)
        for path in filter(lambda path: (archive / path).exists(), segment.replaces):
            (archive / path).unlink(missing_ok=True)
            sync_directory((archive / path).parent)
            removed.append(path)
    return removed


def text_of(archive: Path, segment: Segment) -> bytes:
    """The text of a segment. Raises Fatal: it differs from its manifest line."""
    try:
        with (archive / segment.path).open("rb") as stream:
            text = b"".join(texts(stream, segment.codec))
    except (OSError, *BROKEN) as error:
        raise Fatal(f"{segment.path} cannot be read: {error}", hint="fshipper audit shows details") from None
    if (len(text), f"{crc32(text):08x}") != (segment.bytes_raw, segment.crc32):
        raise Fatal(f"{segment.path} is not what its manifest lists", hint="fshipper audit shows details")
    return text


def stands(archive: Path, segment: Segment) -> bool:
    """Whether the manifests still list `segment` as it is, and nothing replaces it."""
    listed = listed_segments(archive, date_of(segment.path), about=segment.path)
    return segment in manifest.standing(listed)


def _manifest_of(archive: Path, segment: Segment) -> str:
    """The collector in whose manifest a segment is listed: another one's would open a day that is closed."""
    lines = manifests.lines_of_day(archive, date_of(segment.path))
    found = next((line.manifest for line in lines if manifests.lists(line.text, segment.path)), None)
    return layout.unescape(found.stem) if found else segment.collector


def _free_path(archive: Path, old: Segment) -> str:
    """A number next to the old one's, so that names go on telling the order of bytes.

    Not above the highest while a collector may be about to give that one to its next segment.
    """
    date = date_of(old.path)
    number, listed = number_of(old), list(listed_segments(archive, date, about=old.path.rpartition("/")[0]))
    of_file = [each for each in listed if (each.partition, each.host, each.file) == (old.partition, old.host, old.file)]
    used = {number_of(each) for each in of_file}
    standing = sorted(number_of(each) for each in manifest.standing(listed) if each in of_file)
    before = max((each for each in standing if each < number), default=-1)
    following = min((each for each in standing if each > number), default=0)
    is_closed = all(path.with_suffix(".done").exists() for path in manifests_of_day(archive, date))
    if not following and (is_closed or not is_written(archive, old.partition)):
        following = max(used) + 2
    candidates = itertools.chain(range(number - 1, before, -1), range(number + 1, following))
    free = next((each for each in candidates if each not in used), None)
    if free is None:
        raise Unavailable(
            f"there is no free number next to {old.path}",
            hint="try again with the day merged, or with the collector stopped for a moment; to redact"
            " several places, use one --match for all of them",
        )
    return layout.segment_path(FileKey(date, old.partition, old.host, old.file), free, old.codec)
