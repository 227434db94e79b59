"""Rename rotation, deletion, and late lines: every generation once, the older before the younger."""

import os
from pathlib import Path

import pytest
from producing import Host, append, rotate

from producer.discovery.safe_open import Links
from shipper.model import End


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_successor_begins_only_when_all_of_the_older_generation_is_acknowledged(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old 1\nold 2\n")
    host = Host(tmp_path, pattern)
    rotate(path)
    path.write_bytes(b"new\n")
    host.sources.scan()
    assert b"".join(piece.data for piece in host.read_all()) == b"old 1\nold 2\n"
    assert host.sources.idle  # nothing is to be done until the server speaks
    host.acknowledge()
    assert not host.sources.idle
    assert b"".join(piece.data for piece in host.read_all()) == b"new\n"


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_late_lines_to_the_old_descriptor_are_shipped(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    host = Host(tmp_path, pattern)
    with path.open("ab", buffering=0) as writer:
        rotate(path)
        path.write_bytes(b"new\n")
        host.ship()
        for number in range(3):
            host.now += host.following.rotate_wait - 1  # silent for less than the wait
            writer.write(b"late %d\n" % number)
            host.ship()
    host.let_go()
    old, new = host.archive.sources_of(path)
    assert host.archive.bytes[old] == b"old\nlate 0\nlate 1\nlate 2\n"
    assert host.archive.bytes[new] == b"new\n"


def test_lines_written_while_the_last_block_is_on_its_way_are_shipped(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"old\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    with path.open("ab", buffering=0) as writer:
        rotate(path)
        host.sources.scan()
        host.now += 60
        host.sources.scan()
        assert [piece.end for piece in host.read_all()] == [End.ROTATED]  # the server is away, nothing is acknowledged
        writer.write(b"late\n")
        host.deliver()
        host.acknowledge()
        host.ship()
    host.let_go()
    assert host.archive.text(path) == b"old\nlate\n"
    assert host.open_files == 0


def test_a_file_that_comes_back_while_its_last_block_is_on_its_way_is_not_read_again(tmp_path: Path) -> None:
    path, away = tmp_path / "app.log", tmp_path / "away"
    path.write_bytes(b"line\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    path.rename(away)
    host.sources.scan()
    host.now += 60
    host.sources.scan()
    assert host.read_all()
    away.rename(path)
    host.sources.scan()
    assert host.read() == []
    host.deliver()
    host.acknowledge()
    append(path, b"more\n")
    host.ship()
    assert host.archive.text(path) == b"line\nmore\n"
    assert len(host.archive.files) == 1


def test_a_file_that_comes_back_after_it_was_closed_continues_where_it_ended(tmp_path: Path) -> None:
    path, away = tmp_path / "app.log", tmp_path / "away"
    path.write_bytes(b"line\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    path.rename(away)
    host.let_go()
    assert host.open_files == 0
    append(away, b"more\n")
    host.restart(while_down=lambda: away.rename(path))
    host.ship()
    assert host.archive.text(path) == b"line\nmore\n"
    assert len(host.archive.files) == 1


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_an_unterminated_line_at_rotation_holds_its_successor_only_for_the_wait(pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"torn")
    host = Host(tmp_path, pattern)
    host.ship()
    rotate(path)
    path.write_bytes(b"new\n")
    host.ship()
    assert host.archive.text(path) == b""
    host.let_go()
    assert host.archive.text(path) == b"tornnew\n"


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@pytest.mark.parametrize("stopped", [False, True])
def test_generations_that_came_and_went_between_two_scans_are_found_oldest_first(
    stopped: bool, pattern: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"generation 0\n")
    host = Host(tmp_path, pattern)
    host.ship()

    def rotate_often() -> None:
        append(path, b"more of 0\n")
        for number in range(1, 5):
            rotate(path)
            path.write_bytes(b"generation %d\n" % number)

    if stopped:
        host.restart(while_down=rotate_often)
    else:
        rotate_often()
    host.ship()
    wanted = b"generation 0\nmore of 0\n" + b"".join(b"generation %d\n" % number for number in range(1, 5))
    assert host.archive.text(path) == wanted
    host.let_go()
    host.restart()
    host.ship()
    host.let_go()
    assert host.archive.text(path) == wanted
    assert host.archive.dropped == 0


def test_generations_of_one_tick_of_the_clock_are_distinguished_by_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"0\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    for number in range(1, 13):
        rotate(path, keep=20)
        path.write_bytes(b"%d\n" % number)
    stamp = path.stat().st_mtime_ns + 10_000_000
    for other in tmp_path.glob("app.log*"):
        os.utime(other, ns=(stamp, stamp))
    host.ship()
    assert host.archive.text(path) == b"".join(b"%d\n" % number for number in range(13))


def test_a_rotation_between_the_scan_and_the_open_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"0\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    rotate(path)
    path.write_bytes(b"1\n")
    real, rotations = Links.open, []

    def rotating(links: Links, name: str) -> int:
        if name == str(path) and not rotations:
            rotations.append(name)
            rotate(path)
            path.write_bytes(b"2\n")
        return real(links, name)

    monkeypatch.setattr(Links, "open", rotating)
    host.ship()
    host.ship()
    host.ship()
    assert rotations
    assert host.archive.text(path) == b"0\n1\n2\n"


def test_what_was_next_to_the_file_before_the_first_scan_is_not_shipped(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"older\n")
    rotate(path)
    path.write_bytes(b"now\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    rotate(path)
    path.write_bytes(b"next\n")
    host.ship()
    assert host.archive.text(path) == b"now\nnext\n"


def test_a_file_deleted_while_half_read_is_delivered_whole_and_its_descriptor_released(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    text = b"%063d\n" % 3 * 1000
    path.write_bytes(text + b"torn")
    host = Host(tmp_path, "app.log")
    host.read(5000)
    path.unlink()
    host.let_go()
    assert host.archive.text(path) == text + b"torn"
    assert list(host.archive.ends.values()) == [End.DELETED]
    assert host.archive.gaps == {}
    assert host.open_files == 0


def test_a_file_deleted_while_stopped_is_a_gap_of_what_was_seen_and_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"acknowledged\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    append(path, b"seen, never acknowledged\n")
    host.sources.scan()
    host.save()
    host.restart(while_down=path.unlink)
    host.ship()
    assert host.archive.text(path) == b"acknowledged\n"
    assert host.archive.lost(path) == len(b"seen, never acknowledged\n")
    assert list(host.archive.ends.values()) == [End.DELETED]


def test_a_deleted_file_that_was_acknowledged_to_its_end_is_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    host.restart(while_down=path.unlink)
    host.ship()
    assert host.archive.gaps == {}
    host.restart()
    assert host.read() == []  # logged once


def test_three_rotations_leave_no_more_open_files_than_there_are(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"0\n")
    host = Host(tmp_path, "app.log")
    for number in range(1, 4):
        host.ship()
        rotate(path)
        path.write_bytes(b"%d\n" % number)
    host.ship()
    host.let_go()
    assert host.open_files == 1
    assert [source.file for source in host.checkpoints.load() if not source.ended_at] == [str(path)]


def test_an_inode_number_that_comes_back_with_another_file_is_another_source(tmp_path: Path) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    for text in (b"", b"same line\n"):
        first.write_bytes(text)
        host = Host(tmp_path, "*.log", state=_made(tmp_path / f"state-{len(text)}"))
        host.ship()
        key = (first.stat().st_dev, first.stat().st_ino)
        first.unlink()
        host.let_go()
        second.write_bytes(b"same line\nanother\n")
        source = next(iter(host.sources.acks.known.values()))
        assert source.ended_at
        assert host.sources._table.ended_at(key) is None  # whatever file gets the number is new
        host.ship()
        assert host.archive.text(second) == b"same line\nanother\n"
        host.kill()
        second.unlink()


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_an_empty_source_does_not_claim_a_file_of_another_name_with_its_inode_number(tmp_path: Path) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    first.touch()
    host = Host(tmp_path, "*.log")
    host.ship()

    def reuse() -> None:
        first.rename(second)  # the inode number is what a file system gives again
        second.write_bytes(b"belongs to second\n")

    host.restart(while_down=reuse)
    host.ship()
    assert host.archive.text(second) == b"belongs to second\n"
    assert host.archive.text(first) == b""


def test_a_file_replaced_in_one_step_by_an_editor_is_a_new_generation(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    (tmp_path / "tmp").write_bytes(b"other\n")
    (tmp_path / "tmp").replace(path)
    host.ship()
    host.let_go()
    assert host.archive.text(path) == b"one\nother\n"


def test_a_late_line_to_an_old_file_does_not_hide_a_generation_that_came_and_went(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"0\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    rotate(path)
    path.write_bytes(b"1\n")
    rotate(path)
    path.write_bytes(b"2\n")
    oldest = tmp_path / "app.log.2"
    append(oldest, b"late\n")
    later = path.stat().st_mtime_ns + 5_000_000_000
    os.utime(oldest, ns=(later, later))
    host.ship()
    assert host.archive.text(path) == b"0\nlate\n1\n2\n"
