"""A host in steps: real files, a clock that the test turns, and an archive that keeps the collector's rule.

host = Host(tmp_path, "app.log")
(tmp_path / "app.log").write_bytes(b"one\n")
host.ship()                                  # scan, read, deliver, acknowledge, save - until nothing is left
assert host.archive.text(tmp_path / "app.log") == b"one\n"
"""

import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from producer.checkpoint.store import Checkpoints
from producer.discovery.scanner import Watched
from producer.model import Piece
from producer.options import Following
from producer.tailer.retained_files import RetainedFiles
from producer.tailer.tailer import new_tailer
from producer.transform.edits import NO_EDITS
from shipper.model import End, Span


class Archive:
    """What a collector makes of the pieces: accept iff start <= watermark < end, each source apart.

    `holes`: pieces after missing ones are ignored, as go-back-N sends them again; else they fail the test.
    """

    def __init__(self, *, holes: bool = False) -> None:
        self._holes = holes
        self.bytes: dict[str, bytearray] = {}  # by source
        self.files: dict[str, str] = {}
        self.origins: dict[str, int] = {}
        self.watermarks: dict[str, int] = {}
        self.ends: dict[str, End] = {}
        self.gaps: dict[str, list[Span]] = {}
        self.order: list[tuple[str, bytes]] = []  # file and bytes as they were written
        self.dropped = 0

    def take(self, piece: Piece) -> None:
        id_, start = piece.source, piece.span.start
        watermark = self.watermarks.setdefault(id_, piece.origin)
        text = self.bytes.setdefault(id_, bytearray())
        self.files[id_] = piece.file
        self.origins[id_] = piece.origin
        assert len(piece.data) == piece.span.length
        if self._holes and start > watermark:
            return
        assert start <= watermark, f"hole before {piece.span} of {piece.file}, watermark {watermark}"
        new = piece.data[watermark - start :] if piece.span.end > watermark else b""
        self.dropped += len(piece.data) - len(new)
        if new:
            text += new
            self.order.append((piece.file, new))
            self.watermarks[id_] = piece.span.end
        if piece.span.end == self.watermarks[id_]:
            assert zlib.crc32(text) == piece.source_crc, f"sum of {piece.file} at {piece.span}"
        if piece.end is not None:
            self._end(piece)

    def _end(self, piece: Piece) -> None:
        id_ = piece.source
        if id_ not in self.ends and piece.span.end + piece.gap > self.watermarks[id_]:
            self.gaps.setdefault(piece.file, []).append(Span(self.watermarks[id_], piece.span.end + piece.gap))
        self.ends[id_] = piece.end

    def text(self, file: Path | str) -> bytes:
        """Everything of one file in the order of writing."""
        return b"".join(data for name, data in self.order if name == str(file))

    def lost(self, file: Path | str) -> int:
        return sum(gap.length for gap in self.gaps.get(str(file), []))

    def sources_of(self, file: Path | str) -> list[str]:
        return [id_ for id_, name in self.files.items() if name == str(file)]


class Host:
    """One host's producer without its pipeline: the test is the pipeline."""

    def __init__(
        self, directory: Path, *patterns: str, started: bool = True, state: Path | None = None, **options: Any
    ) -> None:
        self.directory = directory
        self.now = 1000.0
        self.wall = time.time()
        self.archive = Archive()
        self.window: list[Piece] = []
        self.sequence = 0
        self.state = (state or directory) / "checkpoint.sqlite"
        self._patterns = [str(directory / pattern) for pattern in patterns]
        self.retained: RetainedFiles | None = options.pop("retained", None)
        edits = options.pop("edits", NO_EDITS)
        cut = edits.cut(options.pop("block", 4096), line_a_piece=options.pop("plain", False))
        excluded = [name if "/" not in name else str(directory / name) for name in options.pop("exclude", ())]
        self.following = Following(watched=Watched.of(self._patterns, excluded), cut=cut, **options)
        if started:
            self.start()

    def start(self) -> None:
        self.checkpoints = Checkpoints(self.state)
        clocks = {"clock": lambda: self.now, "wall": lambda: self.wall}
        self.sources = new_tailer(self.following, self.checkpoints, self.retained, **clocks)
        self.sources.resume(self.checkpoints.load())
        self.sources.scan()

    def kill(self) -> None:
        """kill -9: what was not saved is forgotten."""
        self.sources.close()
        self.checkpoints.close()
        self.window = []

    def restart(self, *, while_down: Callable[[], object] = lambda: None) -> None:
        self.kill()
        while_down()
        self.start()

    def read(self, budget: int = 1 << 20) -> list[Piece]:
        pieces = list(self.sources.read_scheduler.pieces(budget))
        self.window += pieces
        return pieces

    def read_all(self) -> list[Piece]:
        pieces: list[Piece] = []
        while more := self.read():
            pieces += more
        return pieces

    def deliver(self) -> None:
        """All that is in flight reaches the collector, whether for the first time or again."""
        for piece in self.window:
            self.archive.take(piece)

    def acknowledge(self, count: int | None = None) -> None:
        settled = self.window[:count]
        self.window = self.window[len(settled) :]
        for piece in settled:
            self.sequence += 1
            self.sources.ended_files.acknowledged(piece, self.sequence)

    def save(self) -> None:
        self.checkpoints.save(self.sources.acks.take_unsaved())

    def ship(self) -> None:
        """Scan once, then read, deliver and acknowledge everything."""
        self.sources.scan()
        while self.read():
            self.deliver()
            self.acknowledge()
        self.sources.ended_files.retire()
        self.save()

    def let_go(self) -> None:
        """Let so much time pass that files which lost their names end."""
        for _ in range(4):
            self.now += self.following.rotate_wait + 0.1
            self.ship()

    @property
    def open_files(self) -> int:
        return len(list(self.sources.readers))


def partly_shipped(host: Host) -> None:
    """Ship the first blocks."""
    host.read(3000)
    host.deliver()
    host.acknowledge()
    host.save()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def rotate(path: Path, *, keep: int = 9) -> None:
    """As logrotate does without copytruncate and compression: .8 -> .9, ..., app.log -> .1; nothing new is created."""
    for number in range(keep - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.rename(path.with_name(f"{path.name}.{number + 1}"))
    path.rename(path.with_name(f"{path.name}.1"))


def copytruncate(path: Path) -> None:
    for number in range(8, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.rename(path.with_name(f"{path.name}.{number + 1}"))
    path.with_name(f"{path.name}.1").write_bytes(path.read_bytes())
    with path.open("r+b") as stream:
        stream.truncate(0)
