"""A watched name is a link, or a directory on its path is one: rotations happen where the file is."""

import gzip
import itertools
import os
from pathlib import Path

import pytest
from linked import aged, lead, lines, partly_shipped, pod
from producing import Host, append, copytruncate, rotate


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("name", ["0.log.20261121-101010", "0.log.1", "0.log.20261121-101010.gz"])
def test_the_rest_of_a_file_that_a_link_leads_to_is_read_where_its_rotation_is(
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
def test_a_generation_that_came_and_went_at_the_target_of_a_link_is_found(stopped: bool, tmp_path: Path) -> None:
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
def test_a_release_link_that_leads_elsewhere_leaves_no_unread_byte(stopped: bool, tmp_path: Path) -> None:
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


def test_a_link_that_leads_to_the_next_file_of_the_same_directory_leaves_no_unread_byte(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("name", ["app.log.%d", "app-%d.log"])
def test_a_link_that_leads_to_the_file_of_the_day_sends_each_day_once(
    name: str, stopped: bool, pattern: str, tmp_path: Path
) -> None:
    link = tmp_path / "app.log"
    days = [tmp_path / (name % day) for day in (20261121, 20261122, 20261123)]
    days[0].write_bytes(b"begin\n")
    link.symlink_to(days[0].name)
    host = Host(tmp_path, pattern)
    host.ship()
    for today, next_day in itertools.pairwise(days):

        def turn(today: Path = today, next_day: Path = next_day) -> None:
            append(today, b"end of %b\n" % today.name.encode())
            next_day.write_bytes(b"begin\n")
            lead(link, Path(next_day.name))

        if stopped:
            host.restart(while_down=turn)
        else:
            turn()
        host.ship()
        host.let_go()
    ends = [b"end of %b\n" % day.name.encode() for day in days[:2]]
    assert b"".join(data for _, data in host.archive.order) == b"begin\n" + ends[0] + b"begin\n" + ends[1] + b"begin\n"


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
def test_the_copy_that_copytruncate_leaves_next_to_the_target_of_a_link_is_not_shipped(
    stopped: bool, tmp_path: Path
) -> None:
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


def test_a_copy_that_is_watched_is_known_for_one_before_the_file_that_the_link_leads_to_is_truncated(
    tmp_path: Path,
) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(1000))
    host = Host(tmp_path, "links/*.log", "pods/*.log.*")
    host.ship()
    target.with_name("0.log.1").write_bytes(target.read_bytes())
    host.ship()
    assert host.archive.order == [(str(link), data) for name, data in host.archive.order if name == str(link)]
    assert host.archive.text(link) == lines(1000)


def test_a_late_line_in_a_rotated_file_that_a_link_leads_to_is_shipped(tmp_path: Path) -> None:
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


def test_a_rotated_file_that_a_link_leads_to_is_opened_again_where_it_is(tmp_path: Path) -> None:
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


def test_an_empty_file_that_a_link_leads_to_is_known_by_the_name_of_its_rotation(tmp_path: Path) -> None:
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


def test_a_target_in_a_directory_that_may_not_be_listed_is_followed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(b"old\n")
    host = Host(tmp_path, "links/*.log")
    host.ship()
    scandir = os.scandir

    def denied(path: str) -> object:
        if path == str(target.parent):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)  # root may list everything
    target.rename(tmp_path / "0.log.1")
    target.write_bytes(b"new\n")
    host.ship()
    host.let_go()
    assert host.archive.text(link) == b"old\nnew\n"


def test_a_file_that_is_not_open_is_read_on_while_the_link_to_its_directory_is_missing(tmp_path: Path) -> None:
    release, link = tmp_path / "release", tmp_path / "current"
    release.mkdir()
    link.symlink_to(release)
    (release / "x.log").write_bytes(b"one\n")
    (tmp_path / "other.log").write_bytes(b"other\n")
    host = Host(tmp_path, "current/x.log", "other.log", open_files=1)
    host.ship()
    append(tmp_path / "other.log", b"other\n")
    host.ship()
    assert [reader.fd for reader in host.sources.readers if reader.file == str(link / "x.log")] == [-1]
    link.unlink()
    append(release / "x.log", b"two\n")
    host.ship()
    assert host.archive.text(link / "x.log") == b"one\ntwo\n"
    assert host.archive.lost(link / "x.log") == 0
