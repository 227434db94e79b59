"""A writer, a producer, a server and a collector in one program of steps, and what must hold in the end:

* what is delivered of a generation is a prefix of it, once, from one source;
* the prefix is all of it, unless it was truncated, or deleted while no producer had it open;
* older generations are delivered before younger ones; not if the inode number of an empty file that was closed to save
  its descriptor went to a younger one before the next scan: nothing distinguishes them;
* gaps cover at least the bytes that a scan saw and that could not be read, and never a byte that was not lost.

Each generation of the file is the beginning of an endless text of its own, so the delivered bytes show which
generation it is of, and whether it is in order, whole and single.
"""

import contextlib
import gzip
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from producing import Host

from producer.fingerprint import ENOUGH_BYTES
from producer.model import Piece
from producer.options import UNBOUNDED
from producer.tailer.tailer import new_tailer

TICK_NS = 10_000_000
FIRST_BYTE = 35
COPIES = (
    *("app-{date}.log", "app.{number}.log", "app.log-{date}", "app_{number}.txt", "app.log.copy{number}"),
    *("old/app.log.{number}", "old/app-{date}.log", "old/{number}", "app.log-{date}.gz", "old/app.log.{number}.gz"),
)
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


class World(Writer):
    """The producer follows `pattern`, or several with blanks between them.

    Its blocks wait in a stream until the collector takes them.
    """

    def __init__(self, directory: Path, state: Path, pattern: str, **following: Any) -> None:
        super().__init__(directory)
        self.kills = 0
        self.stream: list[tuple[int, Piece]] = []  # what JetStream has and the collector has not
        self.create()
        self.host = Host(directory, *pattern.split(), started=False, state=state, **following)
        self._tell_the_time()
        self.host.start()
        self._looked()

    def _stamp(self, inode: int) -> None:
        super()._stamp(inode)
        if hasattr(self, "host"):
            self._tell_the_time()

    def _tell_the_time(self) -> None:
        self.host.wall = self.now_ns / 1e9 + 0.001

    # -- the producer -------------------------------------------------------------------------------------------

    def _looked(self) -> None:
        for generation in self.files.values():
            if not generation.begun and not generation.in_place:
                generation.seen_saved = generation.size  # a generation is saved with its size when it begins
            generation.begun = generation.is_open = True
            generation.seen = generation.size

    def scan(self, _: int = 0) -> None:
        self.host.sources.scan()
        if not self.path.exists():  # then a generation that came and went is found when the next one appears
            known = {tail.inode for tail in self.host.sources.readers}
            missing = {inode: each for inode, each in self.files.items() if inode not in known and not each.begun}
            kept, self.files = self.files, {key: each for key, each in self.files.items() if key not in missing}
            self._looked()
            self.files = kept
        else:
            self._looked()

    def read(self, count: int) -> None:
        self.host.read(count * 20)

    def acknowledge(self, count: int) -> None:
        """Some of what is in flight is stored and acknowledged."""
        settled = self.host.window[: count // 20]
        self._store(settled)
        self.host.acknowledge(len(settled))

    def lose_session(self, count: int) -> None:
        """Some in-flight messages were stored and their acks lost; the next session sends them again."""
        sequence = self.host.sequence
        self._store(self.host.window[: count // 20])
        self.host.sequence = sequence + len(self.host.window[: count // 20])

    def _store(self, pieces: list[Piece]) -> None:
        self.stream += [(self.host.sequence + number, piece) for number, piece in enumerate(pieces, start=1)]

    def work(self, count: int) -> None:
        """What the pipeline does between two scans without a fault: read, store, acknowledge, retire, save."""
        self.read(count)
        self._store(self.host.window)
        self.host.acknowledge()
        self.host.sources.ended_files.retire()
        self.save(count)

    def save(self, _: int) -> None:
        self.host.save()
        for generation in self.generations:
            generation.seen_saved = generation.seen

    def wait(self, _: int = 0) -> None:
        self.host.now += self.host.following.rotate_wait + 0.1
        self.late_allowed.clear()

    def kill(self, _: int) -> None:
        """kill -9 of the producer and its next start, which requests from the server what it still has."""
        self.kills += 1
        self._forget()
        self.host.restart()
        self.scan()

    def _forget(self) -> None:
        """What was not saved is not known any more, and deleted files that were open are gone."""
        for generation in self.generations:
            generation.seen = generation.seen_saved
            generation.is_open = False
            generation.orphaned = generation.orphaned or generation.deleted

    # -- the server and the collector ---------------------------------------------------------------------------

    def collect(self, count: int) -> None:
        """The collector takes some of what is stored."""
        taken, self.stream = self.stream[: count // 10], self.stream[count // 10 :]
        for _, piece in taken:
            self.host.archive.take(piece)

    def lose_power(self, count: int) -> None:
        """The server comes back without the newest blocks that it had acknowledged; the next session goes back."""
        self.stream = self.stream[: -1 - count // 20]
        stored = max([0, *(sequence for sequence, _ in self.stream)])
        if stored >= self.host.sequence:
            return
        self._forget()
        archived = self.host.archive.watermarks if count % 2 else {}  # a collector answers, or none does
        self.host.sources.acks.rewind(sequence=stored, archived=archived)
        self.host.sources.close()
        self.host.window.clear()
        self.host.sequence = stored
        following = replace(self.host.following, start_at_end=False)
        self.host.sources = new_tailer(following, self.host.checkpoints, clock=lambda: self.host.now)
        self.host.sources.resume(self.host.checkpoints.load())
        self.scan()

    # -- the end ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        self.end_line()
        for _ in range(6):
            self.scan()
            self._ship_all()
            while self.host.read():
                self._ship_all()
            self.host.sources.ended_files.retire()
            self.wait()

    def _ship_all(self) -> None:
        self._store(self.host.window)
        self.host.acknowledge()
        self.collect(10 * len(self.stream))

    def close(self) -> None:
        self.host.kill()
        super().close()

    # -- what must hold -----------------------------------------------------------------------------------------

    def check(self) -> None:
        delivered = self._delivered()
        for generation in self.generations:
            self._check_generation(generation, delivered.get(generation.number, b""))
        is_mistaken = self.reused_empty and self.host.following.open_files != UNBOUNDED
        if not (self.late or is_mistaken):
            order = [data[0] for name, data in self.host.archive.order if name == str(self.path) and data[5:6] == b" "]
            assert order == sorted(order)
        self._check_gaps(delivered)

    def _check_generation(self, generation: Generation, got: bytes) -> None:
        text = generation.text
        assert text.startswith(got), f"generation {generation.number}: {got[-60:]!r} of {text[-60:]!r}"
        if generation.truncated or generation.orphaned:
            return
        is_live = self.files.get(self.inode) is generation
        wanted = text[: text.rfind(b"\n") + 1] if is_live else text
        assert got[len(wanted) :].count(b"\n") == 0
        assert got.startswith(wanted), f"generation {generation.number}: {len(got)} of {len(wanted)} bytes"

    def _delivered(self) -> dict[int, bytes]:
        delivered: dict[int, bytes] = {}
        for id_, text in sorted(self.host.archive.bytes.items(), key=self._origin):
            if not text:
                continue
            origin = self.host.archive.origins[id_]
            number = self._number(bytes(text), origin)
            before = delivered.get(number, b"")
            if not origin and 0 < min(len(before), len(text)) < ENOUGH_BYTES and self.copied:
                delivered[number] = max(before, bytes(text), key=len)  # too few to know a copy of any name by them
                continue
            assert len(before) == origin, f"generation {number} came from two sources"
            delivered[number] = before + bytes(text)
        return delivered

    def _origin(self, source: tuple[str, bytearray]) -> int:
        return self.host.archive.origins[source[0]]

    def _number(self, text: bytes, origin: int) -> int:
        """The generation that has `text` at `origin`: a copy whose first bytes are known begins after them."""
        if not origin:
            return text[0] - FIRST_BYTE
        found = [each.number for each in self.generations if each.text[origin:].startswith(text)]
        assert found, f"{text[:60]!r} at {origin} is of no generation"
        return found[0]

    def _check_gaps(self, delivered: dict[int, bytes]) -> None:
        gone = [each for each in self.generations if each.truncated or each.orphaned]
        lost = {each.number: each.size - len(delivered.get(each.number, b"")) for each in gone}
        least = sum(max(0, each.seen - len(delivered.get(each.number, b""))) for each in gone)
        found = sum(gap.length for gaps in self.host.archive.gaps.values() for gap in gaps)
        most = float("inf") if self.copied else sum(lost.values())  # a copy may be read, or lost, as a file of its own
        assert least <= found <= most, f"gaps of {found} bytes, at least {least}, lost {lost}"
