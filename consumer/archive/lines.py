"""Cut the text of a file, which comes in chunks, into whole lines. A chunk is not copied for that."""

from collections.abc import Iterator
from typing import NamedTuple

from consumer.archive.frame_index import MAX_LINE_BYTES


class Block(NamedTuple):
    """Whole lines between `start` and `end` of `text`, which begins at `at` in the text of the part."""

    text: bytes
    start: int
    end: int
    at: int

    def pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Whole lines, about `size` bytes at a time, and where they begin in the text of the part."""
        text, start = self.text, self.start
        while start < self.end:
            most = min(start + size, self.end)
            end = text.rfind(b"\n", start, most) + 1 or text.find(b"\n", most, self.end) + 1 or self.end
            yield self.at + start, text[start:end]
            start = end


def whole_lines(chunks: Iterator[bytes], at: int) -> Iterator[Block]:
    """The lines of chunks, of which the first begins `at` an offset of the text of the part.

    A line that crosses chunks is a block of its own, so that the others are not copied. A line of more than
    `MAX_LINE_BYTES` comes in parts.
    """
    rest, length = list[bytes](), 0
    for chunk in chunks:
        start = 0
        if rest:
            start = chunk.find(b"\n") + 1
            rest.append(chunk[:start] if start else chunk)
            length += len(rest[-1])
            if start or length >= MAX_LINE_BYTES:
                line = b"".join(rest)
                yield Block(line, 0, len(line), at - (length - (start or len(chunk))))
                rest, length = [], 0
            if not start:
                at += len(chunk)
                continue
        end = chunk.rfind(b"\n") + 1
        if end > start:
            yield Block(chunk, start, end, at)
        if max(end, start) < len(chunk):
            rest = [chunk[max(end, start) :]]
            length = len(rest[0])
        at += len(chunk)
    if rest:
        line = b"".join(rest)
        yield Block(line, 0, len(line), at - length)


def without_first_line(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same without the first line, of which there may be only the end."""
    for block in blocks:
        start = block.text.find(b"\n", block.start, block.end) + 1
        if 0 < start < block.end:
            yield block._replace(start=start)
        if start:
            break
    yield from blocks
