"""What is watched is a link, or lies behind one: rotations happen where the file is."""

import gzip
import os
import sqlite3
from pathlib import Path

import pytest
from producing import Host, append, copytruncate, rotate

from producer.checkpoints import VERSION, Checkpoints

SECOND_NS = 10**9


def lines(count: int, of: str = "line") -> bytes:
    return b"".join(b"%s %d\n" % (of.encode(), number) for number in range(count))


def pod(directory: Path) -> tuple[Path, Path]:
    """A link as Kubernetes makes it, and what it leads to."""
    (directory / "pods").mkdir()
    (directory / "links").mkdir()
    link, target = directory / "links" / "c.log", directory / "pods" / "0.log"
    link.symlink_to(target)
    return link, target


def lead(link: Path, to: Path) -> None:
    """Let a link lead elsewhere, at once."""
    new = link.with_name("new")
    new.symlink_to(to)
    new.rename(link)


def aged(path: Path, seconds: int) -> None:
    at = (1_700_000_000 + seconds) * SECOND_NS
    os.utime(path, ns=(at, at))


def partly_shipped(host: Host) -> None:
    host.read(3000)
    host.deliver()
    host.acknowledge()
    host.save()


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("name", ["0.log.20261121-101010", "0.log.1", "0.log.20261121-101010.gz"])
def test_the_rest_of_a_file_behind_a_link_is_read_where_its_rotation_lies(
    name: str, stopped: bool, tmp_path: Path
) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(1000))
    host = Host(tmp_path, "links/*.log")
    partly_shipped(host)

    def turn() -> None:
        if name.endswith(".gz"):
            target.with_name(name).write_bytes(gzip.compress(target.read_bytes()))
            target.unlink()
        else:
            target.rename(target.with_name(name))
        target.write_bytes(b"new\n")

    if stopped:
        host.restart(while_down=turn)
    else:
        turn()
    host.ship()
    host.let_go()
    assert host.archive.text(link) == lines(1000) + b"new\n"
    assert host.archive.gaps == {}


@pytest.mark.parametrize("stopped", [False, True])
def test_a_generation_that_came_and_went_behind_a_link_is_found(stopped: bool, tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(b"old\n")
    aged(target, 0)
    host = Host(tmp_path, "links/*.log")
    host.ship()

    def turn() -> None:
        target.rename(target.with_name("0.log.20261121-101010"))
        for number, name in enumerate(("0.log.20261121-101011", "0.log.20261121-101012")):
            target.write_bytes(b"between %d\n" % number)
            aged(target, number + 1)
            target.rename(target.with_name(name))
        target.write_bytes(b"new\n")

    if stopped:
        host.restart(while_down=turn)
    else:
        turn()
    host.ship()
    host.let_go()
    assert host.archive.text(link) == b"old\nbetween 0\nbetween 1\nnew\n"
    assert set(host.archive.files.values()) == {str(link)}


@pytest.mark.parametrize("stopped", [False, True])
def test_a_release_link_that_leads_elsewhere_leaves_no_unread_byte_behind(stopped: bool, tmp_path: Path) -> None:
    for release in "12":
        (tmp_path / release).mkdir()
    (tmp_path / "current").symlink_to(tmp_path / "1")
    watched, first = tmp_path / "current" / "app.log", tmp_path / "1" / "app.log"
    first.write_bytes(lines(1000))
    aged(first, 0)
    host = Host(tmp_path, "current/app.log")
    partly_shipped(host)

    def turn() -> None:
        rotate(first)
        first.write_bytes(b"between\n")
        lead(tmp_path / "current", tmp_path / "2")
        watched.write_bytes(b"new\n")

    if stopped:
        host.restart(while_down=turn)
    else:
        turn()
    host.ship()
    host.let_go()
    assert host.archive.text(watched) == lines(1000) + b"between\nnew\n"
    assert host.archive.gaps == {}


def test_a_link_that_leads_to_the_next_file_of_the_same_directory_leaves_no_unread_byte_behind(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(1000))
    host = Host(tmp_path, "links/*.log")
    partly_shipped(host)

    def turn() -> None:
        target.rename(target.with_name("0.log.20261121-101010"))
        (tmp_path / "pods" / "1.log").write_bytes(b"new\n")
        lead(link, tmp_path / "pods" / "1.log")

    host.restart(while_down=turn)
    host.ship()
    host.let_go()
    assert host.archive.text(link) == lines(1000) + b"new\n"
    assert host.archive.gaps == {}


@pytest.mark.parametrize("stopped", [False, True])
def test_rotations_in_a_directory_that_a_link_leads_to_are_found_once(stopped: bool, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "log").symlink_to(tmp_path / "data")
    path = tmp_path / "log" / "app.log"
    path.write_bytes(b"old\n")
    aged(path, 0)
    host = Host(tmp_path, "log/app.log*")
    host.ship()

    def turn() -> None:
        rotate(path)
        path.write_bytes(b"between\n")
        rotate(path)
        path.write_bytes(b"new\n")

    if stopped:
        host.restart(while_down=turn)
    else:
        turn()
    host.ship()
    host.let_go()
    assert sorted(b"".join(data for _, data in host.archive.order).splitlines()) == [b"between", b"new", b"old"]


@pytest.mark.parametrize("stopped", [False, True])
def test_the_copy_that_copytruncate_leaves_behind_a_link_is_not_shipped(stopped: bool, tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(1000))
    host = Host(tmp_path, "links/*.log")
    host.ship()
    if stopped:
        host.restart(while_down=lambda: copytruncate(target))
    else:
        copytruncate(target)
    append(target, b"new\n")
    host.ship()
    host.let_go()
    assert host.archive.text(link) == lines(1000) + b"new\n"
    assert host.archive.gaps == {}


def test_a_copy_that_is_watched_is_known_for_one_before_the_file_behind_the_link_is_truncated(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(1000))
    host = Host(tmp_path, "links/*.log", "pods/*.log.*")
    host.ship()
    target.with_name("0.log.1").write_bytes(target.read_bytes())
    host.ship()
    assert host.archive.order == [(str(link), data) for name, data in host.archive.order if name == str(link)]
    assert host.archive.text(link) == lines(1000)


def test_a_late_line_in_a_rotated_file_behind_a_link_is_shipped(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(b"one\n")
    host = Host(tmp_path, "links/*.log")
    host.ship()
    target.rename(target.with_name("0.log.1"))
    target.write_bytes(b"two\n")
    host.ship()
    host.let_go()
    append(target.with_name("0.log.1"), b"late\n")
    host.ship()
    host.let_go()
    assert host.archive.text(link) == b"one\ntwo\nlate\n"


def test_a_rotated_file_behind_a_link_is_opened_again_where_it_lies(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(10))
    host = Host(tmp_path, "links/*.log", "other.log", open_files=1)
    host.ship()
    append(target, b"behind\n")
    target.rename(target.with_name("0.log.1"))
    target.write_bytes(b"new\n")
    (tmp_path / "other.log").write_bytes(b"other\n")
    host.ship()
    host.let_go()
    assert host.archive.text(link) == lines(10) + b"behind\nnew\n"
    assert host.archive.gaps == {}


def test_a_file_that_was_empty_behind_a_link_is_known_by_the_name_of_its_rotation(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.touch()
    host = Host(tmp_path, "links/*.log")
    host.ship()

    def turn() -> None:
        append(target, b"old\n")
        target.rename(target.with_name("0.log.1"))
        target.write_bytes(b"new\n")

    host.restart(while_down=turn)
    host.ship()
    host.let_go()
    assert host.archive.text(link) == b"old\nnew\n"


def version_1(state: Path) -> None:
    """Make a checkpoint what the first version of the program wrote."""
    database = sqlite3.connect(state)
    database.execute("ALTER TABLE sources DROP COLUMN real")
    database.execute("PRAGMA user_version = 1")
    database.commit()
    database.close()


def test_the_checkpoint_of_an_older_version_goes_on_where_it_was(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(1000))
    host = Host(tmp_path, "links/*.log")
    partly_shipped(host)
    host.checkpoints.begin_use()
    host.restart(while_down=lambda: version_1(host.state))
    assert not host.checkpoints.fresh
    host.ship()
    assert host.archive.text(link) == lines(1000)
    assert host.archive.dropped == 0
    host.restart(while_down=lambda: target.rename(target.with_name("0.log.1")))
    assert not host.checkpoints.fresh
    host.ship()
    host.let_go()
    assert host.archive.gaps == {}
    database = sqlite3.connect(host.state)
    assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
    database.close()


def test_an_older_checkpoint_that_no_session_used_stays_fresh(tmp_path: Path) -> None:
    state = tmp_path / "checkpoint.sqlite"
    Checkpoints(state).close()
    version_1(state)
    database = sqlite3.connect(state)
    database.execute("PRAGMA user_version = 0")
    database.close()
    checkpoints = Checkpoints(state)
    assert checkpoints.fresh
    assert checkpoints.load() == []
    checkpoints.close()


def test_where_links_lead_is_learned_when_a_file_of_an_older_version_is_followed(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(1000))
    host = Host(tmp_path, "links/*.log")
    partly_shipped(host)
    host.checkpoints.begin_use()
    host.restart(while_down=lambda: version_1(host.state))
    partly_shipped(host)
    (tmp_path / "elsewhere").mkdir()

    def turn() -> None:
        target.rename(target.with_name("0.log.1"))
        (tmp_path / "elsewhere" / "0.log").write_bytes(b"new\n")
        lead(link, tmp_path / "elsewhere" / "0.log")

    host.restart(while_down=turn)
    host.ship()
    host.let_go()
    assert host.archive.text(link) == lines(1000) + b"new\n"
    assert host.archive.gaps == {}


def test_a_file_that_an_older_version_followed_behind_a_link_is_found_beside_the_target(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(1000))
    host = Host(tmp_path, "links/*.log")
    partly_shipped(host)
    host.checkpoints.begin_use()

    def turn() -> None:
        version_1(host.state)
        target.rename(target.with_name("0.log.1"))
        target.write_bytes(b"new\n")

    host.restart(while_down=turn)
    host.ship()
    host.let_go()
    assert host.archive.text(link) == lines(1000) + b"new\n"
    assert host.archive.gaps == {}
