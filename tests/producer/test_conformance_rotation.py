"""Tests of other tail shippers for rotation by renaming and truncation that no other test here covers."""

import os
from pathlib import Path

import pytest
from producing import Host, append


def lines(count: int, of: str = "line") -> bytes:
    return b"".join(b"%s %d\n" % (of.encode(), number) for number in range(count))


@pytest.mark.parametrize("name", ["app.log.1", "app.log-20261121", "app.log.old"])
def test_a_file_renamed_among_the_watched_names_is_not_read_again_while_its_reader_lags(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(5000))
    host = Host(tmp_path, "app.log*")
    host.read(10_000)  # most is unread
    path.rename(tmp_path / name)
    path.write_bytes(b"new\n")
    for _ in range(3):
        host.sources.scan()
        host.read(10_000)
        host.deliver()
        host.acknowledge()
        host.save()
        host.restart()
    host.ship()
    host.let_go()
    assert b"".join(data for _, data in host.archive.order) == lines(5000) + b"new\n"
    assert len(host.archive.files) == 2


def test_400_000_lines_rotated_in_the_middle_of_reading_arrive_and_leave_one_live_row(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    text = lines(400_000)
    path.write_bytes(text)
    host = Host(tmp_path, "app.log", block=256 * 1024)
    host.read(len(text) // 2)
    path.rename(tmp_path / "app.log.1")
    path.write_bytes(b"new\n")
    host.ship()
    host.let_go()
    assert host.archive.text(path) == text + b"new\n"
    assert len([source for source in host.checkpoints.load() if not source.ended_at]) == 1


def test_a_file_deleted_after_it_was_read_is_closed_although_nothing_else_happens(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    path.unlink()
    assert host.open_files == 1
    host.let_go()
    assert host.open_files == 0
    held = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_there(name)]
    assert not [name for name in held if name.startswith(str(path))]


def _is_there(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


@pytest.mark.parametrize("stopped", [False, True])
def test_a_replaced_file_that_begins_with_all_that_was_shipped_does_not_send_it_again(
    stopped: bool, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(200))
    host = Host(tmp_path, "app.log")
    host.ship()
    (tmp_path / "tmp").write_bytes(lines(200) + b"appended in an editor\n")
    if stopped:
        host.restart(while_down=lambda: (tmp_path / "tmp").replace(path))
    else:
        (tmp_path / "tmp").replace(path)
    host.ship()
    host.let_go()
    assert host.archive.text(path) == lines(200) + b"appended in an editor\n"


def test_a_replaced_file_with_other_content_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(200))
    host = Host(tmp_path, "app.log")
    host.ship()
    (tmp_path / "tmp").write_bytes(lines(200, "other"))
    (tmp_path / "tmp").replace(path)
    host.ship()
    host.let_go()
    assert host.archive.text(path) == lines(200) + lines(200, "other")


def test_twenty_truncations_in_one_second_with_scans_between_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"first\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    wanted = b"first\n"
    for number in range(20):
        with path.open("r+b") as stream:
            stream.truncate(0)
        append(path, b"%d after\n" % number)
        wanted += b"%d after\n" % number
        host.ship()
    assert host.archive.text(path) == wanted
    assert host.archive.gaps == {}


def test_twenty_truncations_between_two_scans_leave_the_last_content(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"first\n")
    host = Host(tmp_path, "app.log")
    host.ship()
    for number in range(20):
        with path.open("r+b") as stream:
            stream.truncate(0)
        append(path, b"%d\n" % number)
    host.ship()
    assert host.archive.text(path) == b"first\n19\n"
