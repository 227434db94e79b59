"""What one run with `--once` shipped, exactly: the numbers of its summary line."""

from collections.abc import Collection

from producer.window import Entry


class Shipped:
    """Files, lines and bytes that the server acknowledged. Owned by the pipeline.

    What is sent again, because the server lost it, counts once.
    """

    def __init__(self, inputs: Collection[str]) -> None:
        self._inputs = frozenset(inputs)  # archive names of inputs that are no files
        self._ends: dict[str, int] = {}  # by source: acknowledged up to there
        self._files: set[str] = set()
        self.lines = 0
        self.bytes = 0

    def add(self, entry: Entry) -> None:
        """Count an acknowledged block."""
        piece = entry.piece
        before = self._ends.get(piece.source, piece.span.start)
        if piece.span.end <= before:
            return
        self._ends[piece.source] = piece.span.end
        self._files.add(piece.file if piece.file in self._inputs else piece.source)
        self.bytes += piece.span.end - max(before, piece.span.start)
        self.lines += entry.lines

    @property
    def files(self) -> int:
        """Files of which anything was shipped; an input that is no file is one."""
        return len(self._files)
