"""Bytes of a file -> pieces: whole lines, at most one block, byte for byte."""

import os
import random
from pathlib import Path

import pytest
from producing import Host, append

from producer.tailer import file_reader
from producer.tailer.file_reader import PROBE_BYTES
from producer.tailer.read_scheduler import PIECE_BYTES
from producer.transform.edits import LINES, LINES_BYTES, Edits

STRANGE = [
    b"\n",
    b"\n\n\nlines\n\n",
    b"windows\r\n\r\nlines\r\n",
    b"a lone \r in a line\n",
    b"nul \0 bytes \0\n\0\n",
    b"\xff\xfe invalid \xc3\x28 utf-8\n",
    "größe ✓\n".encode(),
]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("text", STRANGE)
def test_strange_bytes_survive_line_for_line(text: bytes, plain: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(text)
    host = Host(tmp_path, "*.log", plain=plain)
    host.ship()
    assert host.archive.text(path) == text


def test_a_line_that_arrives_in_two_writes_with_a_scan_between_is_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"whole\nhal")
    host = Host(tmp_path, "*.log")
    host.ship()
    assert host.archive.text(path) == b"whole\n"
    assert host.sources.idle
    append(path, b"f\n")
    host.sources.scan()
    assert [piece.data for piece in host.read()] == [b"half\n"]


def test_an_unterminated_last_line_is_held_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"whole\nhal")
    host = Host(tmp_path, "*.log")
    host.ship()
    host.restart(while_down=lambda: append(path, b"f\n"))
    host.ship()
    assert [data for _, data in host.archive.order] == [b"whole\n", b"half\n"]


def test_an_unterminated_last_line_is_shipped_with_once_and_its_rest_follows_as_the_same_source(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"whole\nhal")
    host = Host(tmp_path, "*.log", once=True)
    host.ship()
    assert host.archive.text(path) == b"whole\nhal"
    host.restart(while_down=lambda: append(path, b"f\n"))
    host.ship()
    assert host.archive.text(path) == b"whole\nhalf\n"
    assert len(host.archive.files) == 1


def test_once_comes_to_its_end_although_the_file_keeps_growing(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n" * 10_000)
    host = Host(tmp_path, "*.log", once=True)
    size = path.stat().st_size
    while host.read(1000):
        append(path, b"more\n" * 10_000)
        host.deliver()
        host.acknowledge()
    assert host.sources.idle
    assert host.sources.unread == []
    assert len(host.archive.text(path)) == size


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("length", [4095, 4096, 4097, 20_000])
def test_an_over_long_line_is_split_over_pieces_and_exact(length: int, plain: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    text = b"short\n" + random.Random(length).randbytes(length).replace(b"\n", b" ") + b"\nshort again\n"
    path.write_bytes(text)
    host = Host(tmp_path, "*.log", plain=plain)
    host.ship()
    assert host.archive.text(path) == text
    assert all(len(data) <= 4096 for _, data in host.archive.order)


def test_the_end_of_an_over_long_line_is_held_until_its_newline_comes(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"x" * 5000)
    host = Host(tmp_path, "*.log")
    host.ship()
    assert host.archive.text(path) == b"x" * 4096
    append(path, b"\n")
    host.ship()
    assert host.archive.text(path) == b"x" * 5000 + b"\n"


def test_a_block_holds_as_many_whole_lines_as_fit(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"%099d\n" % 7 * 100)
    host = Host(tmp_path, "*.log")
    assert [piece.span.length for piece in host.read()] == [4000, 4000, 2000]


def test_line_mode_makes_pieces_of_whole_lines_at_most_so_many(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n\ntwo\r\n" + b"line\n" * 1000 + b"x" * (LINES_BYTES + 1) + b"\nlast\nthree")
    host = Host(tmp_path, "*.log", plain=True, block=2 * LINES_BYTES)
    pieces = [piece.data for piece in host.read_all()]
    assert [piece.count(b"\n") for piece in pieces] == [LINES, 1003 - LINES, 1, 1]
    assert b"".join(pieces) == path.read_bytes().removesuffix(b"three")


@pytest.mark.parametrize("edits", [Edits.of(drop_lines=["nothing"]), Edits.of(redact=["card"])])
def test_lines_that_may_be_edited_are_pieces_of_their_own_in_line_mode(edits: Edits, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n\ntwo\r\nthree")
    host = Host(tmp_path, "*.log", plain=True, edits=edits)
    assert [piece.data for piece in host.read()] == [b"one\n", b"\n", b"two\r\n"]


def test_a_load_of_empty_lines_is_bounded_by_what_messages_cost(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"\n" * 100_000)
    host = Host(tmp_path, "*.log", plain=True, block=256 * 1024)
    count = sum(len(piece.data) for piece in host.read(1 << 20))
    assert 0 < count <= (1 << 20) // PIECE_BYTES + LINES
    host.deliver()
    host.acknowledge()
    host.ship()
    assert host.archive.text(path) == path.read_bytes()


@pytest.mark.parametrize("longest", [200, 6000, 40_000])
def test_a_large_block_ends_with_the_last_line_that_it_has_space_for(longest: int, tmp_path: Path) -> None:
    chance = random.Random(longest)
    text = b"".join(b"x" * chance.randrange(longest) + b"\n" for _ in range(2_000_000 // longest))
    path = tmp_path / "app.log"
    path.write_bytes(text)
    host = Host(tmp_path, "*.log", block=128 * 1024)
    pieces = [piece.data for piece in host.read_all()]
    wanted, start = [], 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + 128 * 1024) + 1
        wanted.append(text[start:end])
        start = end
    assert pieces == wanted


def test_a_line_of_which_a_probe_saw_the_end_and_that_grew_since_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two reads of a block a program may rewrite its file's end in place."""
    path = tmp_path / "app.log"
    path.write_bytes((b"a" * 99 + b"\n") * 4000)
    host = Host(tmp_path, "*.log", block=128 * 1024)
    real, said = os.pread, []

    def rewritten(descriptor: int, size: int, offset: int) -> bytes:
        data = real(descriptor, size, offset)
        if size == PROBE_BYTES and not said:
            said.append(offset)
            with path.open("r+b") as file:
                file.seek(offset + data.rfind(b"\n"))
                file.write(b"b")
        return data

    monkeypatch.setattr(file_reader.os, "pread", rewritten)
    pieces = [piece.data for piece in host.read_all()]
    assert said
    assert b"".join(pieces) == path.read_bytes()
    assert all(piece.endswith(b"\n") for piece in pieces)
