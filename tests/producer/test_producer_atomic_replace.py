"""A new file under the old name, as editors, `sed -i` and `rsync` make it, and what must never be taken for one."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from producing import Host, append, rotate

SHIPPED = b"".join(b"line %d\n" % number for number in range(1000))
EITHER = pytest.mark.parametrize("stopped", [False, True])


def replaced(path: Path, data: bytes) -> None:
    """A new file under the old name, atomically."""
    new = path.with_name("new")
    new.write_bytes(data)
    new.replace(path)


def meanwhile(host: Host, turn: Callable[[], object], *, stopped: bool) -> None:
    if stopped:
        host.restart(while_down=turn)
    else:
        turn()


def shipped(tmp_path: Path, data: bytes = SHIPPED, **options: object) -> tuple[Host, Path]:
    path = tmp_path / "app.log"
    path.write_bytes(data)
    host = Host(tmp_path, "app.log", **options)
    host.ship()
    return host, path


@EITHER
def test_a_file_that_is_replaced_again_and_again_is_one_source(stopped: bool, tmp_path: Path) -> None:
    host, path = shipped(tmp_path)
    text = SHIPPED
    for number in range(3):
        text += b"edit %d\n" % number
        meanwhile(host, lambda data=text: replaced(path, data), stopped=stopped)  # type: ignore[misc]
        host.ship()
    append(path, b"appended\n")
    host.ship()
    host.let_go()
    assert host.archive.text(path) == text + b"appended\n"
    assert host.archive.gaps == {}
    assert sum(bool(data) for data in host.archive.bytes.values()) == 1


def test_a_kill_after_a_replacement_was_seen_sends_nothing_twice(tmp_path: Path) -> None:
    host, path = shipped(tmp_path)
    replaced(path, SHIPPED + b"edit\n")
    host.sources.scan()
    host.restart()
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED + b"edit\n"
    assert host.archive.dropped == 0


@EITHER
def test_what_was_not_read_before_a_replacement_is_read_after_it(stopped: bool, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(SHIPPED)
    host = Host(tmp_path, "app.log")
    host.read(3000)
    host.deliver()
    host.acknowledge()
    host.save()
    meanwhile(host, lambda: replaced(path, SHIPPED + b"edit\n"), stopped=stopped)
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED + b"edit\n"
    assert host.archive.gaps == {}


def test_lines_that_a_program_writes_to_the_replaced_file_are_shipped(tmp_path: Path) -> None:
    host, path = shipped(tmp_path)
    with path.open("ab", buffering=0) as writer:
        replaced(path, SHIPPED + b"edit\n")
        host.ship()
        writer.write(b"late\n")
        host.ship()
        append(path, b"appended\n")
        host.ship()
        host.let_go()
    assert sorted(host.archive.text(path).splitlines()) == sorted((SHIPPED + b"edit\nlate\nappended\n").splitlines())
    assert host.archive.text(path).startswith(SHIPPED)
    assert host.archive.gaps == {}


def test_unread_lines_that_the_new_file_lacks_are_read_from_the_old_one(tmp_path: Path) -> None:
    host, path = shipped(tmp_path)
    append(path, b"not read yet, and edited away\n")
    replaced(path, SHIPPED + b"something else, which is longer than that\n" * 2)
    host.ship()
    host.let_go()
    assert b"not read yet, and edited away\n" in host.archive.text(path)
    assert host.archive.gaps == {}


@EITHER
def test_a_new_file_that_has_less_than_was_shipped_starts_again(stopped: bool, tmp_path: Path) -> None:
    host, path = shipped(tmp_path)
    shorter = SHIPPED.removesuffix(b"line 999\n")
    meanwhile(host, lambda: replaced(path, shorter), stopped=stopped)
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED + shorter


@EITHER
def test_a_new_file_with_a_changed_byte_in_the_middle_starts_again(stopped: bool, tmp_path: Path) -> None:
    host, path = shipped(tmp_path)
    changed = SHIPPED.replace(b"line 500\n", b"LINE 500\n")
    meanwhile(host, lambda: replaced(path, changed), stopped=stopped)
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED + changed


@EITHER
@pytest.mark.parametrize("packed", [False, True])
def test_generations_that_begin_alike_are_all_shipped(packed: bool, stopped: bool, tmp_path: Path) -> None:
    host, path = shipped(tmp_path)

    def turn() -> None:
        rotate(path)
        path.write_bytes(SHIPPED + b"of the next\n")
        if packed:
            older = path.with_name("app.log.1")
            path.with_name("app.log.1.gz").write_bytes(gzip.compress(older.read_bytes()))
            older.unlink()

    meanwhile(host, turn, stopped=stopped)
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED * 2 + b"of the next\n"


def test_a_file_that_was_moved_away_and_one_that_begins_alike_are_both_shipped(tmp_path: Path) -> None:
    host, path = shipped(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    path.rename(tmp_path / "elsewhere" / "app.log")
    path.write_bytes(SHIPPED + b"of the next\n")
    host.ship()
    append(tmp_path / "elsewhere" / "app.log", b"late\n")
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED * 2 + b"of the next\nlate\n"


@EITHER
def test_a_program_that_deletes_its_log_and_writes_the_same_first_lines_again_loses_none(
    stopped: bool, tmp_path: Path
) -> None:
    host, path = shipped(tmp_path, b"started\n" * 20)
    meanwhile(host, lambda: replaced(path, b"started\n" * 30), stopped=stopped)
    host.ship()
    host.let_go()
    assert host.archive.text(path) == b"started\n" * 50


def test_a_replaced_file_that_was_not_open_continues_too(tmp_path: Path) -> None:
    (tmp_path / "other.log").write_bytes(b"other\n")
    path = tmp_path / "app.log"
    path.write_bytes(SHIPPED)
    host = Host(tmp_path, "app.log", "other.log", open_files=1)
    host.ship()
    append(tmp_path / "other.log", b"more\n")
    host.ship()
    replaced(path, SHIPPED + b"edit\n")
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED + b"edit\n"


def test_nothing_is_read_of_a_replacement_before_it_is_durable(tmp_path: Path) -> None:
    host, path = shipped(tmp_path)
    replaced(path, SHIPPED + b"edit\n")
    host.checkpoints._database.execute("PRAGMA query_only = ON")
    host.sources.scan()
    assert [piece for piece in host.read_all() if piece.data] == []
    host.checkpoints._database.execute("PRAGMA query_only = OFF")
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED + b"edit\n"


@EITHER
def test_a_link_that_leads_to_a_new_copy_of_its_file_continues_there_once_the_old_one_is_gone(
    stopped: bool, tmp_path: Path
) -> None:
    for release in "12":
        (tmp_path / release).mkdir()
    (tmp_path / "current").symlink_to(tmp_path / "1")
    path = tmp_path / "current" / "app.log"
    path.write_bytes(SHIPPED)
    host = Host(tmp_path, "current/app.log")
    host.ship()

    def turn() -> None:
        (tmp_path / "2" / "app.log").write_bytes(SHIPPED + b"second\n")
        (tmp_path / "1" / "app.log").unlink()
        (tmp_path / "new").symlink_to(tmp_path / "2")
        (tmp_path / "new").rename(tmp_path / "current")

    meanwhile(host, turn, stopped=stopped)
    host.ship()
    (tmp_path / "2" / "app.log").rename(tmp_path / "2" / "app.log.1")
    append(tmp_path / "2" / "app.log.1", b"behind\n")
    host.restart()
    host.ship()
    host.let_go()
    assert host.archive.text(path) == SHIPPED + b"second\nbehind\n"
