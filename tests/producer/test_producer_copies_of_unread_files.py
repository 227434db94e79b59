"""A file that was empty at the last scan, was written, copied and truncated since, and written again."""

import os
from pathlib import Path

import pytest
from producing import Host, append, copytruncate


@pytest.mark.parametrize("hinted", [False, True])
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_what_only_the_copy_holds_comes_before_what_was_written_after_it(
    pattern: str, hinted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.touch()
    host = Host(tmp_path, pattern)
    append(path, b"unseen\n")
    copytruncate(path)
    append(path, b"seen\n")
    if hinted:
        host.sources.grown([str(path)])
        host.read_all()
    host.ship()
    host.let_go()
    assert b"".join(data for _, data in host.archive.order) == b"unseen\nseen\n"


@pytest.mark.parametrize("hinted", [False, True])
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_what_only_the_copy_holds_is_found_though_the_file_is_empty_again(
    pattern: str, hinted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.touch()
    os.utime(path, (path.stat().st_mtime - 20,) * 2)
    host = Host(tmp_path, pattern)
    append(path, b"unseen\n")
    copytruncate(path)
    os.utime(tmp_path / "app.log.1", (path.stat().st_mtime - 10,) * 2)
    if hinted:
        host.sources.grown([str(path)])
    host.ship()
    append(path, b"seen\n")
    host.ship()
    host.let_go()
    assert b"".join(data for _, data in host.archive.order) == b"unseen\nseen\n"


@pytest.mark.parametrize("hinted", [False, True])
def test_a_copy_that_was_seen_before_its_first_byte_is_no_file_of_its_own(hinted: bool, tmp_path: Path) -> None:
    path, copy = tmp_path / "app.log", tmp_path / "app.log.1"
    append(path, b"one\n")
    host = Host(tmp_path, "app.log*")
    host.ship()
    copy.touch()
    host.ship()
    copy.write_bytes(path.read_bytes())
    if hinted:
        host.sources.grown([str(copy)])
        host.read_all()
    path.write_bytes(b"")
    append(path, b"two\n")
    host.ship()
    host.let_go()
    assert [(Path(name).name, data) for name, data in host.archive.order] == [
        ("app.log", b"one\n"),
        ("app.log", b"two\n"),
    ]


def test_the_first_bytes_of_an_empty_file_need_no_full_scan(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.touch()
    host = Host(tmp_path, "app.log")
    append(path, b"one\n")
    host.sources.grown([str(path)])
    assert [piece.data for piece in host.read_all()] == [b"one\n"]
