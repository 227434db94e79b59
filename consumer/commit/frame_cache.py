"""Frames of busy files, kept in memory as they came: a segment is made of them without packing its text again.

Only a saving: packing 128 MiB costs a third of a CPU second, and the producer has done it already. What is not here,
or not all of it, is read from the open file and packed.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_BYTES = 32 * 1024 * 1024
"""Of the frames of all files of one partition: twice what a segment of usual text takes."""
LEAST_TEXT_BYTES = 64 * 1024
"""A frame, on average: many small ones take more room than one that is packed anew."""
FEW_FRAMES = 16  # may be small


class Frames(NamedTuple):
    """All text of a file, as frames of one codec."""

    frames: tuple[bytes, ...]
    lines: int  #: as the producers counted them


@dataclass(slots=True)
class _Chain:
    """The frames of one file from its first byte on, each with where its text ends, and the newlines up to there."""

    frames: list[bytes] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    stored_bytes: int = 0

    @property
    def end(self) -> tuple[int, int]:
        return self.ends[-1] if self.ends else (0, 0)

    def cut(self, end: int) -> None:
        """Forget what lies behind `end`: it was written, and never committed."""
        while self.ends and self.ends[-1][0] > end:
            self.ends.pop()
            self.stored_bytes -= len(self.frames.pop())


class ReadyFrames:
    """The frames of one partition's open files, by path. Used by its worker's hand only."""

    def __init__(self, codec: str, most_bytes: int = MOST_BYTES) -> None:
        self.codec = codec  #: of the segments; frames of another one are of no use
        self._most_bytes = most_bytes
        self._chains: OrderedDict[str, _Chain] = OrderedDict()
        self._bytes = 0

    def add(self, path: str, at: int, frame: bytes, *, text_bytes: int, lines: int) -> None:
        """`frame` holds the `text_bytes` that were appended to a file behind `at` bytes of text."""
        chain = self._chains.pop(path, None) or _Chain()
        self._bytes -= chain.stored_bytes
        chain.cut(at)
        end, lines_before = chain.end
        is_small = (len(chain.frames) - FEW_FRAMES) * LEAST_TEXT_BYTES > end
        if end != at or is_small:
            return
        chain.frames.append(frame)
        chain.ends.append((at + text_bytes, lines_before + lines))
        chain.stored_bytes += len(frame)
        self._chains[path] = chain
        self._bytes += chain.stored_bytes
        while self._bytes > self._most_bytes:
            self._bytes -= self._chains.popitem(last=False)[1].stored_bytes

    def take(self, path: str, text_bytes: int) -> Frames | None:
        """The frames of a file that is appended no more and holds so much text; None: they are not all here."""
        chain = self._chains.pop(path, None)
        if chain is None:
            return None
        self._bytes -= chain.stored_bytes
        chain.cut(text_bytes)
        end, lines = chain.end
        return Frames(tuple(chain.frames), lines) if end == text_bytes > 0 else None
