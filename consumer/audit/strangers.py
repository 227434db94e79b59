"""The files of a day that no manifest lists and no journal knows: nothing in them counts."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from consumer.audit.entry import Entry
from consumer.audit.finding import Finding, Kind, Weight
from consumer.sealing.placing import target_of
from shipper import layout

STATE_HINT = "name the directory of the collector's journals: SHIPPER_STATE (--state)"
_NOBODY_HINT = "if it was moved, move it back; else take it out of the archive: no report counts it"
_UNFINISHED = "a segment that a kill left unlisted; the next start of the collector finishes it"


def strangers(archive: Path, date: str, known: "Known") -> Iterator[Finding]:
    """What of `date` does not count."""
    for directory, partition, host in host_directories(archive, date):
        files = _files(archive / directory)
        unfinished = {file.inode() for file in files if target_of(file.name)}
        for file in files:
            stranger = known.stranger(f"{directory}/{file.name}", partition)
            if stranger and (size := _size(file)):
                if file.inode() in unfinished:  # it has its name, is not listed, and has its temporary name still
                    stranger = replace(stranger, weight=Weight.NOTE, text=_UNFINISHED, hint="")
                yield replace(stranger, host=host, date=date, octets=size)


def host_directories(archive: Path, date: str) -> Iterator[tuple[str, int, str]]:
    """The directory of each host on `date`, with its partition and host."""
    top = f"date={date}"
    for partition in _names(archive / top, "partition="):
        for host in _names(archive / top / f"partition={partition}", "host="):
            if partition.isdecimal():
                yield f"{top}/partition={partition}/host={host}", int(partition), layout.unescape(host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Which files of a day are accounted for."""

    paths: set[str]
    listed: Mapping[str, Entry]
    epochs: Mapping[int, int]  #: of the journal of each partition

    def stranger(self, path: str, partition: int) -> Finding | None:
        """Why a file does not count; None: it does, or is none that could."""
        directory, _, name = path.rpartition("/")
        if path in self.paths:
            return None
        if (epoch := layout.epoch_of(path)) is not None:
            return self._open_stranger(path, partition, epoch)
        if name.startswith(layout.SEALING_PREFIX):
            if f"{directory}/{name.removeprefix(layout.SEALING_PREFIX)}" in self.listed:
                return None
            return _stranger(path, "no journal knows this file that waits to be sealed")
        return None if name[0] in {"_", "."} else _stranger(path, "no manifest lists this segment")

    def _open_stranger(self, path: str, partition: int, epoch: int) -> Finding:
        newest = self.epochs.get(partition)
        if newest is None:
            text = "no journal of its partition is there, so nobody can tell what of this open file counts"
            return _stranger(path, text, STATE_HINT)
        if epoch < newest:
            text = "left by a collector that had lost the partition: nothing in it counts"
            return replace(_stranger(path, text, "it may be deleted"), weight=Weight.NOTE)
        return _stranger(path, "no journal knows this open file, so nothing in it counts")


def _stranger(path: str, text: str, hint: str = _NOBODY_HINT) -> Finding:
    return Finding(kind=Kind.UNLISTED_FILE, path=path, text=text, hint=hint)


def _names(directory: Path, prefix: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def _files(directory: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except FileNotFoundError:  # retention took the day meanwhile
        return []


def _size(file: "os.DirEntry[str]") -> int:
    """Bytes in the file; 0: none, or it is gone meanwhile."""
    try:
        return file.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0
