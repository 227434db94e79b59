"""`read_order`: all files in turn, or the oldest first and to its end."""

import os
from collections.abc import Sequence
from pathlib import Path

from producing import Host, append, rotate

from producer.options import Order


def written_at(path: Path, content: bytes, second: int) -> Path:
    path.write_bytes(content)
    os.utime(path, (second, second))
    return path


def in_turn(host: Host) -> Sequence[str]:
    """The files in the order in which their bytes were written, repeats left out."""
    names = [Path(name).name for name, _ in host.archive.order]
    return [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]


def text(letter: str, lines: int = 4000) -> bytes:
    return b"".join(f"{letter} {line}\n".encode() for line in range(lines))


def test_the_oldest_file_is_read_to_its_end_before_the_next(tmp_path: Path) -> None:
    for name, second in (("a.log", 3000), ("b.log", 1000), ("c.log", 2000)):
        written_at(tmp_path / name, text(name), second)
    host = Host(tmp_path, "*.log", order=Order.OLDEST)
    while host.read(10_000):
        host.deliver()
        host.acknowledge()
    assert in_turn(host) == ["b.log", "c.log", "a.log"]
    assert all(host.archive.text(tmp_path / name) == text(name) for name in ("a.log", "b.log", "c.log"))


def test_fairly_no_file_waits_for_the_end_of_another(tmp_path: Path) -> None:
    for name, second in (("busy.log", 1000), ("quiet.log", 2000)):
        written_at(tmp_path / name, text(name, 40_000 if name == "busy.log" else 10), second)
    host = Host(tmp_path, "*.log")
    host.read(16 * 1024)
    host.deliver()
    assert host.archive.text(tmp_path / "quiet.log") == text("quiet.log", 10)
    assert host.archive.text(tmp_path / "busy.log") != text("busy.log", 40_000)


def test_a_file_that_is_written_to_is_young_and_waits_for_the_older_ones(tmp_path: Path) -> None:
    busy = written_at(tmp_path / "busy.log", text("busy"), 1000)
    old = written_at(tmp_path / "old.log", text("old"), 2000)
    host = Host(tmp_path, "*.log", order=Order.OLDEST)
    host.read(10_000)
    append(busy, b"more\n")
    host.sources.scan()
    host.read_all()
    host.deliver()
    assert in_turn(host) == ["busy.log", "old.log", "busy.log"]
    assert host.archive.text(busy) == text("busy") + b"more\n"
    assert host.archive.text(old) == text("old")


def test_generations_of_one_name_keep_their_order_whatever_their_times_say(tmp_path: Path) -> None:
    path = written_at(tmp_path / "app.log", text("one"), 3000)
    other = written_at(tmp_path / "other.log", text("other"), 2000)
    host = Host(tmp_path, "*.log", order=Order.OLDEST)
    rotate(path)
    written_at(path, text("two"), 1000)
    host.let_go()
    assert host.archive.text(path) == text("one") + text("two")
    assert host.archive.text(other) == text("other")
    assert in_turn(host) == ["other.log", "app.log"]
