"""A writer, a producer, a server and a collector in one program of steps, and what must hold in the end:

* what is delivered of a generation is a prefix of it, once, from one source;
* the prefix is all of it, unless it was truncated, or deleted while no producer had it open;
* older generations are delivered before younger ones; not if the inode number of an empty file that was closed to save
  its descriptor went to a younger one before the next scan: nothing distinguishes them;
* gaps cover at least the bytes that a scan saw and that could not be read, and never a byte that was not lost.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from producing import Host
from writing import FIRST_BYTE, Generation, Writer

from producer.model import Piece
from producer.options import UNBOUNDED
from producer.tailer.lost_file import ENOUGH_BYTES
from producer.tailer.tailer import new_tailer


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
