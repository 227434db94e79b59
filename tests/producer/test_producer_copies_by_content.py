"""A copy is known by its content, whatever its name; a file that only begins like another one is shipped."""

import os
import shutil
from pathlib import Path

import pytest
from producing import Host, append

TEXT = b"".join(b"unique line %d of one program\n" % number for number in range(100))
NAMES = ["app-20261128.log", "backup.log", "0.log", "old/x.log", "app.log.1", "app.log~copy.log"]


def copy(path: Path, name: str) -> Path:
    target = path.with_name(name) if "/" not in name else path.parent / name
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(path, target)
    return target


def lines(host: Host) -> bytes:
    return b"".join(data for _, data in host.archive.order)


def wait(host: Host) -> None:
    for _ in range(6):
        host.now += host.following.rotate_wait / 2 + 0.1
        host.ship()


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("seen_between", [False, True])
@pytest.mark.parametrize("half_read", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_under_any_name_is_not_shipped_again(
    name: str, half_read: bool, seen_between: bool, stopped: bool, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(TEXT)
    host = Host(tmp_path, "*", "old/*", exclude=("*.sqlite*",), block=1024)
    if half_read:
        host.sources.scan()
        host.read(1)
        host.deliver()
        host.acknowledge()
        host.save()
    else:
        host.ship()

    def rotate() -> None:
        copy(path, name)
        if seen_between and not stopped:
            host.sources.scan()
        os.truncate(path, 0)
        append(path, b"after\n")

    if stopped:
        host.restart(while_down=rotate)
    else:
        rotate()
    wait(host)
    host.restart()
    wait(host)
    assert lines(host) == TEXT + b"after\n"
    assert host.archive.gaps == {}
    assert set(host.archive.files.values()) == {str(path)}


@pytest.mark.parametrize("text", [b"started\n", TEXT])
def test_two_programs_that_write_the_same_are_both_shipped(text: bytes, tmp_path: Path) -> None:
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    one.write_bytes(text)
    host = Host(tmp_path, "*.log")
    host.ship()
    other.write_bytes(text)
    wait(host)
    assert host.archive.text(one) == host.archive.text(other) == text
    append(other, b"more\n")
    append(one, b"something else\n")
    wait(host)
    assert host.archive.text(one) == text + b"something else\n"
    assert host.archive.text(other) == text + b"more\n"


@pytest.mark.parametrize("how", ["stays", "truncated", "renamed", "deleted"])
@pytest.mark.parametrize("text", [b"started\n", TEXT])
def test_files_of_the_same_name_and_bytes_in_two_directories_are_both_shipped(
    text: bytes, how: str, tmp_path: Path
) -> None:
    one, other = tmp_path / "web1" / "messages", tmp_path / "web2" / "messages"
    for path in (one, other):
        path.parent.mkdir()
    one.write_bytes(text)
    host = Host(tmp_path, "*/messages")
    host.ship()
    if how == "truncated":
        os.truncate(one, 0)
    elif how == "renamed":
        one.rename(one.with_name("messages.1"))
    elif how == "deleted":
        one.unlink()
    wait(host)
    host.wall += 60
    other.write_bytes(text)
    os.utime(other, (host.wall, host.wall))
    wait(host)
    assert host.archive.text(one) == host.archive.text(other) == text


@pytest.mark.parametrize("way", ["copytruncate", "rename", "create"])
@pytest.mark.parametrize("text", [b"started\n", TEXT])
@pytest.mark.parametrize("stopped", [False, True])
def test_of_two_files_with_the_same_bytes_the_rotation_of_one_takes_nothing_of_the_other(
    stopped: bool, text: bytes, way: str, tmp_path: Path
) -> None:
    one, other = tmp_path / "web1" / "messages", tmp_path / "web2" / "messages"
    for path in (one, other):
        path.parent.mkdir()
        path.write_bytes(text)
    host = Host(tmp_path, "*/messages*")
    host.sources.scan()
    host.save()

    def rotate() -> None:
        if way == "copytruncate":
            copy(other, "messages.1")
            os.truncate(other, 0)
        else:
            other.rename(other.with_name("messages.1"))
        if way != "rename":
            append(other, b"after\n")
        append(one, b"more\n")

    if stopped:
        host.restart(while_down=rotate)
    else:
        rotate()
    wait(host)
    assert host.archive.text(one) == text + b"more\n"
    assert host.archive.text(other) == text + (b"" if way == "rename" else b"after\n")
    assert host.archive.gaps == {}


def test_a_rotation_that_no_scan_saw_belongs_to_the_file_of_its_own_directory(tmp_path: Path) -> None:
    one, other = tmp_path / "web1" / "messages", tmp_path / "web2" / "messages"
    for path in (one, other):
        path.parent.mkdir()
        path.write_bytes(path.parent.name.encode() + b" began\n")
    host = Host(tmp_path, "*/messages*")
    host.ship()

    one.rename(one.with_name("messages.1"))
    one.write_bytes(TEXT)
    host.ship()
    other.rename(other.with_name("messages.2"))
    other.write_bytes(TEXT)
    other.rename(other.with_name("messages.1"))
    other.write_bytes(b"after\n")
    wait(host)
    assert host.archive.text(one) == b"web1 began\n" + TEXT
    assert host.archive.text(other) == b"web2 began\n" + TEXT + b"after\n"


def test_a_program_that_starts_after_the_truncation_with_the_same_lines_is_shipped(tmp_path: Path) -> None:
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    one.write_bytes(b"started\n")
    host = Host(tmp_path, "*.log")
    host.ship()
    os.truncate(one, 0)
    wait(host)
    host.wall += 60
    other.write_bytes(b"started\n")
    os.utime(other, (host.wall, host.wall))
    wait(host)
    assert host.archive.text(other) == b"started\n"


def test_what_is_appended_to_a_copy_is_shipped_and_nothing_else_of_it(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(TEXT)
    host = Host(tmp_path, "*.log")
    host.ship()
    target = copy(path, "backup.log")
    os.truncate(path, 0)
    wait(host)
    append(target, b"appended to the copy\n")
    wait(host)
    host.restart()
    wait(host)
    assert lines(host) == TEXT + b"appended to the copy\n"


def test_a_copy_that_is_renamed_while_the_producer_is_stopped_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(TEXT)
    host = Host(tmp_path, "*.log")
    host.ship()
    target = copy(path, "backup.log")
    os.truncate(path, 0)
    wait(host)
    assert [each.source for each in host.checkpoints.load_copies()]
    host.restart(while_down=lambda: target.rename(tmp_path / "backup-2.log"))
    wait(host)
    assert lines(host) == TEXT


def test_a_large_copy_is_compared_once_and_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = os.pread

    def counted(descriptor: int, count: int, offset: int) -> bytes:
        data = real(descriptor, count, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr("producer.tailer.copytruncate.COMPARED_PER_SCAN", 1 << 20)
    path, text = tmp_path / "app.log", TEXT * 1500
    path.write_bytes(text)
    host = Host(tmp_path, "*.log", block=1 << 20)
    host.ship()
    copy(path, "backup.log")
    monkeypatch.setattr(os, "pread", counted)
    for _ in range(8):
        read.clear()
        host.sources.scan()
        assert sum(read) <= 3 << 20
    os.truncate(path, 0)
    wait(host)
    host.restart()
    read.clear()
    wait(host)
    assert sum(read) < 1 << 20
    assert lines(host) == text


def test_what_a_kill_took_back_is_shipped_from_the_copy_that_was_known_to_have_it(tmp_path: Path) -> None:
    path, few = tmp_path / "app.log", b"".join(TEXT.splitlines(keepends=True)[:4])
    path.write_bytes(few)
    host = Host(tmp_path, "*", exclude=("*.sqlite*",))
    host.sources.scan()
    assert host.read()  # and nothing of it is acknowledged
    append(path, TEXT[len(few) :])
    copy(path, "app.log.copy")
    os.truncate(path, 0)
    append(path, b"after\n")
    host.sources.scan()
    host.restart()
    wait(host)
    assert sorted(lines(host).splitlines()) == sorted((TEXT + b"after\n").splitlines())


@pytest.mark.parametrize("name", ["old/b.txt", "b.txt", "old/app.log.2", "app.txt.1"])
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("open_files", [1, 2, 100])
def test_a_file_that_gets_any_watched_name_while_it_is_closed_goes_on(
    open_files: int, is_read: bool, name: str, tmp_path: Path
) -> None:
    path, others = tmp_path / "app.txt", [tmp_path / "one.log", tmp_path / "two.log"]
    for number, each in enumerate((*others, path)):
        each.write_bytes(b"%d " % number + TEXT)
    (tmp_path / "old").mkdir()
    host = Host(tmp_path, "*", "old/*", exclude=("*.sqlite*",), open_files=open_files, block=1024)
    host.sources.scan()
    if is_read:
        host.read(2048)
        host.deliver()
        host.acknowledge()
    append(others[0], b"more\n")
    path.rename(tmp_path / name)
    wait(host)
    assert host.archive.text(path) == b"2 " + TEXT
    assert set(host.archive.files.values()) == {str(each) for each in (*others, path)}
