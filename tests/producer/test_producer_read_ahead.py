"""A block is read when it is requested, so that compression finds it in the core's cache."""

import zlib
from pathlib import Path

from producing import Host

LINES = b"".join(b"line %d\n" % number for number in range(20_000))


def test_nothing_is_read_ahead_of_the_piece_that_is_requested(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(LINES)
    host = Host(tmp_path, "*.log")
    pieces = host.sources.read_scheduler.pieces(1 << 20)
    first = next(pieces)
    assert 0 < first.span.length < len(LINES)
    assert host.sources.read_scheduler.backlog_bytes == len(LINES) - first.span.length
    assert first.data + b"".join(piece.data for piece in pieces) == LINES


def test_each_piece_has_its_own_sum_and_that_of_the_source_so_far(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(LINES)
    pieces = Host(tmp_path, "*.log").read_all()
    assert len(pieces) > 1
    assert [piece.crc for piece in pieces] == [zlib.crc32(piece.data) for piece in pieces]
    assert [piece.source_crc for piece in pieces] == [zlib.crc32(LINES[: piece.span.end]) for piece in pieces]
