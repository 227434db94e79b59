"""What `fshipper up` ships: the paths of the command line as patterns of a producer, and what these lead to now."""

import difflib
import fnmatch
import glob
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shipper.errors import ConfigError, UsageError
from shipper.units import counted, printable

DEFAULT = "/var/log"
RECORDS = ("wtmp*", "btmp*", "lastlog*", "faillog*", "tallylog*", "*.journal", "*.journal~")
"""Names of binary records in directories of logs; they are not shipped unless they are named."""
SAMPLE_BYTES = 8192
"""Bytes at the beginning of a new file that show whether it is text."""
COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
MISSING = " does not exist yet"
"""End of a warning of the dry run."""
SHOWN = 3
"""Names in a note; the others are counted."""


class Selection(NamedTuple):
    """What a producer is started with."""

    patterns: tuple[str, ...]  #: absolute paths and globs
    excluded: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        """Of `fshipper produce`."""
        return [*self.patterns, *(f"--exclude={each}" for each in self.excluded)]


class Found(NamedTuple):
    """What the patterns lead to now."""

    files: int
    octets: int  #: of these files
    unread: int  #: bytes of them that were not shipped before
    notes: tuple[str, ...]  #: what is not shipped, or not as one expects
    binary: tuple[str, ...]  #: files that are no text and were not named


def patterns_of(paths: Sequence[str]) -> tuple[str, ...]:
    """`paths` as absolute patterns: a directory means every file below it. Raises UsageError, ConfigError."""
    return tuple(dict.fromkeys(map(_pattern, paths)))


def _pattern(path: str) -> str:
    if path == "-":
        raise UsageError("`fshipper up` reads files", hint="pipe into a producer: COMMAND | fshipper produce -")
    if not path or not path.isprintable():
        raise UsageError(f"{path!r} is no path", hint="name files, directories or quoted globs")
    whole = os.path.abspath(path if os.path.lexists(path) else os.path.expanduser(path))
    if os.path.isdir(whole):
        return _files_below(whole)
    if not os.path.lexists(whole) and not glob.has_magic(whole) and not os.path.isdir(os.path.dirname(whole)):
        raise ConfigError(f"there is no directory {os.path.dirname(whole)}", hint=_correction(whole))
    return whole


def _files_below(directory: str) -> str:
    return os.path.join(glob.escape(directory), "**")


def _correction(path: str) -> str:
    """What a wrong path was probably meant to be: the nearest name in the last directory that exists."""
    there = path
    while not os.path.isdir(parent := os.path.dirname(there)):
        there = parent
    try:
        names = os.listdir(parent)
    except OSError:
        names = []
    near = difflib.get_close_matches(os.path.basename(there), names, n=1)
    return f"did you mean {os.path.join(parent, near[0])}?" if near else "correct the path"


def selection(patterns: Sequence[str], data: Path, binary: Sequence[str] = ()) -> Selection:
    """`patterns` without binary records and the data directory: its logs would grow by being shipped."""
    named = [os.path.basename(each) for each in patterns if not glob.has_magic(each)]
    records = [record for record in RECORDS if not fnmatch.filter(named, record)]
    own = os.path.join(glob.escape(str(data)), "*")
    return Selection(tuple(patterns), (own, *records, *map(glob.escape, binary)))


def found(patterns: Sequence[str], dry_run: Mapping[str, Any]) -> Found:
    """What `fshipper produce --dry-run --json` reports. Raises ConfigError: there is nothing to ship, now or later."""
    reads, binary = list(dry_run["reads"]), []
    skipped = [str(each["path"]) for each in dry_run["skips"]]
    known = {*skipped, *(f"{_files_below(each)} matches no file yet" for each in skipped)}
    awaited = [each for each in map(str, dry_run["warnings"]) if each.removesuffix(MISSING) not in known]
    notes = [_note_of_warning(each) for each in awaited]
    for each in list(reads):
        kind = "" if each["known"] else _kind(each["path"])
        if kind and each["path"] in patterns:
            notes.append(f"{each['path']} is {kind}: it is archived as it is, and search finds no lines in it")
        elif kind:
            binary.append(str(each["path"]))
            reads.remove(each)
    skips = [each for each in dry_run["skips"] if each["path"] in patterns and each["reason"] != "second_name"]
    notes += [f"{each['path']} is not shipped: {each['text']}" for each in skips]
    others = {each["path"] for each in skips}
    unreadable = [each["path"] for each in dry_run["skips"] if each["reason"] == "unreadable"]
    compressed = [each["path"] for each in dry_run["skips"] if each["reason"] == "compressed"]
    notes += [f"{_some(compressed)}: not shipped, because it is compressed"] if compressed else []
    if unreadable := [each for each in unreadable if each not in others]:
        notes.append(f"this user cannot read {_some(unreadable)}; root can: sudo fshipper up")
    notes += [f"{_some(binary)}: not shipped, because it is no text"] if binary else []
    if not (reads or dry_run["inputs"] or awaited):
        why = "; ".join(notes) or "no file is there"
        raise ConfigError(f"there is nothing to ship: {why}", hint="name files, directories or quoted globs")
    octets = sum(each["start"] + each["bytes"] for each in reads)
    unread = sum(each["bytes"] for each in reads)
    return Found(len(reads) + len(dry_run["inputs"]), octets, unread, tuple(notes), tuple(binary))


def _note_of_warning(text: str) -> str:
    """A warning of the dry run; a file that does not exist may be misspelt."""
    path = text.removesuffix(MISSING)
    if path == text:
        return text
    near = _correction(path)
    return f"{path} does not exist; it is shipped when it appears" + (f"; {near}" if near[:3] == "did" else "")


def _kind(path: str) -> str:
    """What a file is by its beginning; empty: text, or not known."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb") as file:
            sample = file.read(SAMPLE_BYTES)
    except OSError:
        return ""
    if sample.startswith(COMPRESSED):
        return "compressed"
    is_utf_16 = sample.startswith((b"\xff\xfe", b"\xfe\xff"))
    return "UTF-16" if is_utf_16 else "binary" if b"\0" in sample else ""


def _some(paths: Sequence[str]) -> str:
    """Some of `paths`, and how many more there are."""
    shown = ", ".join(map(printable, paths[:SHOWN]))
    more = len(paths) - SHOWN
    return f"{shown} and {counted(more, 'more file')}" if more > 0 else shown
