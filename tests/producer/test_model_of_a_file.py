"""Random programs of writing, rotating, truncating, deleting, looking, reading, acknowledging and killing.

Each generation of the file is the beginning of an endless text of its own, so what is delivered tells by itself which
generation it is of, and whether it is in order, whole and single. What must hold in the end:

* what is delivered of a generation is a prefix of it, once, from one source;
* the prefix is all of it, unless it was truncated, or deleted while no producer had it open;
* older generations are delivered before younger ones;
* gaps cover at least what a look saw and nobody could read, and never a byte that was not lost.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from producing import Host, copytruncate, rotate

TICK_NS = 10_000_000


def endless(number: int, length: int) -> bytes:
    """The first bytes of generation `number`: lines of uneven length, the first byte names the generation."""
    lines, size, count = [], 0, 0
    while size < length:
        line = b"%c%04d %s\n" % (35 + number, count, b"x" * (count * 7 % 40))
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


class World:
    """The file, the writer, the producer, and what the model knows of them."""

    def __init__(self, directory: Path, pattern: str) -> None:
        (directory / "state").mkdir()
        self.path = directory / "app.log"
        self.now_ns = 1_800_000_000 * 10**9
        self.generations: list[Generation] = []
        self.files: dict[int, Generation] = {}  # by inode
        self.late_allowed: set[int] = set()  # inodes
        self.late = False
        self.descriptors: dict[int, int] = {}
        self.create()
        self.host = Host(directory, pattern, state=directory / "state")
        self._looked()

    # -- the writer ---------------------------------------------------------------------------------------------

    def create(self) -> None:
        if not self.path.exists():
            descriptor = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            inode = os.fstat(descriptor).st_ino
            if inode in self.descriptors:
                os.close(self.descriptors[inode])
            self.descriptors[inode] = descriptor
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
        os.write(self.descriptors[inode], text[generation.size :])
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

    def rotate(self, _: int) -> None:
        if self.inode is not None:
            self.late_allowed.add(self.inode)
            rotate(self.path, keep=100)

    def truncate(self, count: int) -> None:
        if self.inode is not None:
            self._begin_anew()
            os.ftruncate(self.descriptors[self.inode], 0)
            self._stamp(self.inode)
            if count % 2:
                self._write(self.inode, count)

    def copytruncate(self, count: int) -> None:
        self.create()
        copytruncate(self.path)
        self._begin_anew()
        self._stamp(self.inode)
        if count % 2:
            self._write(self.inode, count)

    def _begin_anew(self) -> None:
        self.files[self.inode].truncated = True
        self.files[self.inode] = self._generation()
        self.files[self.inode].in_place = True

    def delete(self, _: int) -> None:
        if self.inode is not None:
            generation = self.files.pop(self.inode)
            generation.deleted = True
            generation.orphaned = not generation.is_open
            self.late_allowed.discard(self.inode)
            os.close(self.descriptors.pop(self.inode))
            self.path.unlink()

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
            known = {tail.inode for tail in self.host.sources._tails}
            missing = {inode: each for inode, each in self.files.items() if inode not in known and not each.begun}
            kept, self.files = self.files, {key: each for key, each in self.files.items() if key not in missing}
            self._looked()
            self.files = kept
        else:
            self._looked()

    def read(self, count: int) -> None:
        self.host.read(count * 20)

    def acknowledge(self, count: int) -> None:
        self.host.deliver()
        self.host.acknowledge(count // 20)

    def save(self, _: int) -> None:
        self.host.save()
        for generation in self.generations:
            generation.seen_saved = generation.seen

    def lose_session(self, count: int) -> None:
        """Some of what is in flight arrived, nobody was told; all of it is sent again."""
        for piece in self.host.window[: count // 20]:
            self.host.archive.take(piece)
        self.host.deliver()

    def wait(self, _: int = 0) -> None:
        self.host.now += self.host.following.rotate_wait + 0.1
        self.late_allowed.clear()

    def kill(self, _: int) -> None:
        for generation in self.generations:
            generation.seen = generation.seen_saved
            generation.is_open = False
            generation.orphaned = generation.orphaned or generation.deleted
        self.host.restart()
        self.scan()

    def settle(self) -> None:
        self.end_line()
        for _ in range(6):
            self.scan()
            while self.host.read():
                self.host.deliver()
                self.host.acknowledge()
            self.host.sources.retire()
            self.wait()

    def close(self) -> None:
        self.host.kill()
        for descriptor in self.descriptors.values():
            os.close(descriptor)

    # -- what must hold -----------------------------------------------------------------------------------------

    def check(self) -> None:
        delivered = self._delivered()
        for generation in self.generations:
            got, text = delivered.get(generation.number, b""), generation.text
            assert text.startswith(got), f"generation {generation.number}: {got[-60:]!r} of {text[-60:]!r}"
            if not (generation.truncated or generation.orphaned):
                wanted = text
                if self.files.get(self.inode) is generation:
                    wanted = text[: text.rfind(b"\n") + 1]
                assert got[len(wanted) :].count(b"\n") == 0
                assert got.startswith(wanted), f"generation {generation.number}: {len(got)} of {len(wanted)} bytes"
        if not self.late:
            order = [data[0] for name, data in self.host.archive.order if name == str(self.path) and data[5:6] == b" "]
            assert order == sorted(order)
        self._check_gaps(delivered)

    def _delivered(self) -> dict[int, bytes]:
        delivered: dict[int, bytes] = {}
        for text in self.host.archive.bytes.values():
            if text:
                number = text[0] - 35
                assert number not in delivered, f"generation {number} came from two sources"
                delivered[number] = bytes(text)
        return delivered

    def _check_gaps(self, delivered: dict[int, bytes]) -> None:
        gone = [each for each in self.generations if each.truncated or each.orphaned]
        lost = {each.number: each.size - len(delivered.get(each.number, b"")) for each in gone}
        least = sum(max(0, each.seen - len(delivered.get(each.number, b""))) for each in gone)
        found = sum(gap.length for gaps in self.host.archive.gaps.values() for gap in gaps)
        assert least <= found <= sum(lost.values()), f"gaps of {found} bytes, at least {least}, lost {lost}"


COMMON = ("write", "scan", "read", "acknowledge", "save", "lose_session", "kill", "wait")


def programs(*verbs: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(COMMON + COMMON[:4] + verbs), st.integers(1, 300)), max_size=40)


def run(program: list[tuple[str, int]], pattern: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name), pattern)
        try:
            for verb, count in program:
                getattr(world, verb)(count)
            world.settle()
            world.check()
        finally:
            world.close()


FEW = settings(
    max_examples=int(os.environ.get("FSHIPPER_EXAMPLES", "100")),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for event in ("file_followed", "file_left", "bytes_lost"):
        monkeypatch.setattr(f"shipper.events.{event}", lambda **_: None)
    monkeypatch.setattr("producer.checkpoints._SYNC", "OFF")  # these programs kill processes, not machines


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@seed(1)
@FEW
@given(program=programs("rotate", "rotate", "write_late"))
def test_a_file_that_is_rotated_by_renaming_arrives_whole(pattern: str, program: list[tuple[str, int]]) -> None:
    run(program, pattern)


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@seed(2)
@FEW
@given(program=programs("truncate", "delete", "rotate"))
def test_a_file_that_is_truncated_deleted_and_renamed_loses_only_what_nobody_could_read(
    pattern: str, program: list[tuple[str, int]]
) -> None:
    run(program, pattern)


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@seed(3)
@FEW
@given(program=programs("copytruncate", "copytruncate"))
def test_a_file_that_is_copied_and_truncated_arrives_once(pattern: str, program: list[tuple[str, int]]) -> None:
    run(program, pattern)
