"""A program that logs, in steps: it writes, rotates in every way, truncates, links and deletes one file.

Each generation of the file is the beginning of an endless text of its own, so the delivered bytes show which
generation it is of, and whether it is in order, whole and single.
"""

import contextlib
import gzip
import os
import re
from dataclasses import dataclass
from pathlib import Path

TICK_NS = 10_000_000
FIRST_BYTE = 35
COPIES = (
    "app-{date}.log", "app.{number}.log", "app.log-{date}", "app_{number}.txt", "app.log.copy{number}",
    "old/app.log.{number}", "old/app-{date}.log", "old/{number}", "app.log-{date}.gz", "old/app.log.{number}.gz",
)  # fmt: skip
"""Names that logrotate, process managers and scripts give to a copy."""
LEAST_COPIED = 600
"""Bytes: of a few bytes a copy of any name cannot be told from a file of its own."""


def endless(number: int, length: int) -> bytes:
    """The first bytes of generation `number`: lines of uneven length, the first byte names the generation."""
    lines, size, count = [], 0, 0
    while size < length:
        line = b"%c%04d %s\n" % (FIRST_BYTE + number, count, b"x" * (count * 7 % 40))
        lines.append(line)
        size, count = size + len(line), count + 1
    return b"".join(lines)[:length]


@dataclass
class Generation:
    number: int
    size: int = 0
    seen: int = 0
    seen_saved: int = 0
    begun: bool = False
    is_open: bool = False
    in_place: bool = False  #: began by truncation: perhaps as a source that had no byte yet
    truncated: bool = False
    deleted: bool = False
    orphaned: bool = False  #: deleted, and no producer holds it

    @property
    def text(self) -> bytes:
        return endless(self.number, self.size)


class Writer:
    """The file and its generations. Each verb takes a number that varies what it does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "app.log"
        self.now_ns = 1_800_000_000 * 10**9
        self.generations: list[Generation] = []
        self.files: dict[int, Generation] = {}  # by inode
        self.descriptors: dict[int, int] = {}
        self.late_allowed: set[int] = set()  # inodes
        self.late = False
        self.rotations = 0
        self.dated = 0
        self.copies: list[Path] = []
        self.moved: set[Path] = set()
        self.copied = False
        self.empty_gone: set[int] = set()  # inodes of empty files that were removed
        self.reused_empty = False

    def create(self) -> None:
        if not self.path.exists():
            descriptor = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            inode = os.fstat(descriptor).st_ino
            if inode in self.descriptors:
                os.close(self.descriptors[inode])
            self.descriptors[inode] = descriptor
            self.reused_empty = self.reused_empty or inode in self.empty_gone
            self.files[inode] = self._generation()
            self._stamp(inode)

    def _generation(self) -> Generation:
        self.generations.append(Generation(len(self.generations)))
        return self.generations[-1]

    @property
    def inode(self) -> int | None:
        return self.path.stat().st_ino if self.path.exists() else None

    def _write(self, inode: int, count: int) -> None:
        generation = self.files[inode]
        text = endless(generation.number, generation.size + count)
        with open(f"/proc/self/fd/{self.descriptors[inode]}", "r+b", buffering=0) as in_place:
            in_place.seek(generation.size)  # the file may be padded
            in_place.write(text[generation.size :])
        generation.size += count
        self._stamp(inode)

    def _stamp(self, inode: int) -> None:
        self.now_ns += TICK_NS
        os.utime(self.descriptors[inode], ns=(self.now_ns, self.now_ns))

    def write(self, count: int) -> None:
        self.create()
        self._write(self.inode, count)

    def end_line(self) -> None:
        """Write to the end of the line and one line more."""
        self.create()
        generation = self.files[self.inode]
        rest = endless(generation.number, generation.size + 200)[generation.size :]
        self._write(self.inode, rest.index(b"\n", 1) + 1)

    def write_late(self, count: int) -> None:
        """Lines to the descriptor of a file that was renamed a moment ago."""
        if self.late_allowed:
            self.late = True
            self._write(min(self.late_allowed), count)

    # -- padding ------------------------------------------------------------------------------------------------

    def pad(self, count: int) -> None:
        """Reserve space: the file is longer than what was written, by NULs."""
        self.create()
        os.ftruncate(self.descriptors[self.inode], self.files[self.inode].size + 2 + count * 50)
        self._stamp(self.inode)

    def trim(self, _: int) -> None:
        """Give back the space that was reserved."""
        if self.inode is not None:
            os.ftruncate(self.descriptors[self.inode], self.files[self.inode].size)
            self._stamp(self.inode)

    # -- renaming -----------------------------------------------------------------------------------------------

    def rotate(self, _: int) -> None:
        """app.log.1 -> .2, app.log -> .1; nothing new is created."""
        if self.inode is not None:
            self.late_allowed.add(self.inode)
            self._shift()
            self.path.rename(self._rotated(1))
            self.rotations += 1

    def pause(self, count: int) -> None:
        """No scan takes place while the file is written and rotated a few times."""
        for _ in range(1 + count % 3):
            self.write(count)
            self.rotate(count)

    def redate(self, count: int) -> None:
        """An old generation gets a date for its number, without leaving the watched names."""
        numbered = [number for number in range(1, 40) if self._rotated(number).exists()]
        if numbered:
            self.dated += 1
            self._rotated(numbered[count % len(numbered)]).rename(
                self.path.with_name(f"app.log-{20261120 + self.dated}")
            )

    def link(self, count: int) -> None:
        """A second name for the file, by which it is not rotated."""
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            self.path.with_name(f"app.log.link{count % 5}").hardlink_to(self.path)

    def _shift(self) -> None:
        names = [each.name for each in os.scandir(self.directory)]
        numbers = {
            int(found[1]): found[2] for name in names if (found := re.fullmatch(r"app\.log\.(\d+)(\.gz)?", name))
        }
        for number in sorted(numbers, reverse=True):
            suffix = numbers[number] or ""
            self._rotated(number, suffix).rename(self._rotated(number + 1, suffix))

    def _rotated(self, number: int, suffix: str = "") -> Path:
        return self.path.with_name(f"app.log.{number}{suffix}")

    # -- compressing --------------------------------------------------------------------------------------------

    def rotate_gz(self, count: int) -> None:
        """Rotate and compress in one step, as logrotate does without delaycompress."""
        if self.inode is not None:
            self.rotate(count)
            self._compress(1)

    def compress(self, _: int) -> None:
        """Compress what was rotated longest ago (delaycompress, or a cron job)."""
        numbered = [number for number in range(1, 40) if self._rotated(number).exists()]
        if numbered:
            self._compress(numbered[-1])

    def _compress(self, number: int) -> None:
        plain, packed = self._rotated(number), self._rotated(number, ".gz")
        found = plain.stat()
        packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
        os.utime(packed, ns=(found.st_mtime_ns, found.st_mtime_ns))
        plain.unlink()
        self._let_go(found.st_ino)

    # -- truncating and deleting --------------------------------------------------------------------------------

    def truncate(self, count: int) -> None:
        if self.inode is not None:
            self._begin_anew()
            os.ftruncate(self.descriptors[self.inode], 0)
            self._stamp(self.inode)
            if count % 2:
                self._write(self.inode, count)

    def copytruncate(self, count: int) -> None:
        self.create()
        self._shift()
        self._rotated(1).write_bytes(self.path.read_bytes())
        self.now_ns += TICK_NS
        os.utime(self._rotated(1), ns=(self.now_ns, self.now_ns))
        self.truncate(count)

    def copy_away(self, count: int) -> None:
        """The file is copied to any name, perhaps compressed, and truncated."""
        self.create()
        if (size := self.files[self.inode].size) < LEAST_COPIED:
            self._write(self.inode, LEAST_COPIED - size)
        self.copied = True
        self._copy_to(COPIES[count % len(COPIES)], self.path.read_bytes())
        self.truncate(count // len(COPIES))

    def move_copy(self, count: int) -> None:
        """A script moves the newest copy away."""
        if self.copies:
            form = COPIES[count % len(COPIES)].removesuffix(".gz")
            moved = self._copy_name(form + ".gz" * (self.copies[-1].suffix == ".gz"))
            self.copies[-1].rename(moved)
            self.copies[-1] = moved
            self.moved.add(moved)
            self.late = True  # under its new name it may be found after younger lines

    def compress_copy(self, _: int) -> None:
        """A script compresses the newest copy, under the name that it was given."""
        if self.copies and self.copies[-1].suffix != ".gz" and self.copies[-1] not in self.moved:
            plain, packed = self.copies[-1], self.copies[-1].with_name(self.copies[-1].name + ".gz")
            found = plain.stat()
            packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
            os.utime(packed, ns=(found.st_mtime_ns, found.st_mtime_ns))
            plain.unlink()
            self.copies[-1] = packed

    def remove_copy(self, _: int) -> None:
        """The oldest copy is removed, as retention does."""
        if self.copies:
            self.copies.pop(0).unlink()

    def _copy_name(self, form: str) -> Path:
        self.dated += 1
        copy = self.directory / form.format(date=20260101 + self.dated, number=self.dated)
        copy.parent.mkdir(exist_ok=True)
        return copy

    def _copy_to(self, form: str, data: bytes) -> None:
        copy = self._copy_name(form)
        copy.write_bytes(gzip.compress(data, 1) if copy.suffix == ".gz" else data)
        self.now_ns += TICK_NS
        os.utime(copy, ns=(self.now_ns, self.now_ns))
        self.copies.append(copy)

    def _begin_anew(self) -> None:
        self.files[self.inode].truncated = True
        self.files[self.inode] = self._generation()
        self.files[self.inode].in_place = True
        self.rotations += 1

    def delete(self, _: int) -> None:
        """The file and every link to it."""
        inode = self.inode
        if inode is not None:
            self._delete(inode)

    def _delete(self, inode: int) -> None:
        generation = self.files[inode]
        for entry in list(os.scandir(self.directory)):
            if entry.inode() == inode:
                Path(entry.path).unlink()
        generation.deleted = True
        generation.orphaned = not generation.is_open
        self._let_go(inode)

    def _let_go(self, inode: int) -> None:
        if not self.files.pop(inode).size:
            self.empty_gone.add(inode)
        self.late_allowed.discard(inode)
        os.close(self.descriptors.pop(inode))

    def close(self) -> None:
        for descriptor in self.descriptors.values():
            os.close(descriptor)
