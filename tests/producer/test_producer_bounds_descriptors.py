"""Few descriptors, many files: idle ones are opened again, under whatever name they have by then."""

import os
from pathlib import Path

import pytest
from producing import Host, append

from producer.tailer.file_reader import RESERVED_DESCRIPTORS, file_limit
from shipper.model import End


def open_logs(directory: Path) -> list[str]:
    """The log files below `directory` that this process holds open."""
    held = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if target.startswith(str(directory)) and ".log" in target:
            held.append(target)
    return held


def written(directory: Path, count: int, lines: int = 40) -> dict[Path, bytes]:
    texts = {}
    for number in range(count):
        path = directory / f"app{number:03}.log"
        texts[path] = b"".join(b"file %d line %d\n" % (number, line) for line in range(lines))
        path.write_bytes(texts[path])
    return texts


@pytest.mark.parametrize("start_at_end", [False, True])
def test_a_hundred_files_are_read_with_twenty_descriptors(start_at_end: bool, tmp_path: Path) -> None:
    directory = tmp_path / f"{start_at_end}"  # not that of the other run, whose files may still be open
    directory.mkdir()
    texts = written(directory, 100)
    host = Host(directory, "*.log", open_files=20, start_at_end=start_at_end)
    assert len(open_logs(directory)) <= 20
    for path in texts:
        append(path, b"later\n")
    host.ship()
    before = dict.fromkeys(texts, b"") if start_at_end else texts
    assert {path: host.archive.text(path) for path in texts} == {p: text + b"later\n" for p, text in before.items()}
    assert len(open_logs(directory)) <= 20


def test_files_that_rested_grow_and_are_read_on_also_after_a_restart(tmp_path: Path) -> None:
    texts = written(tmp_path, 10)
    host = Host(tmp_path, "*.log", open_files=2)
    host.ship()
    host.restart()
    for turn in range(3):
        for path in texts:
            append(path, b"more %d\n" % turn)
            texts[path] += b"more %d\n" % turn
        host.ship()
    assert {path: host.archive.text(path) for path in texts} == texts
    assert len(host.archive.bytes) == 10


def test_what_is_deleted_while_it_rests_is_a_gap_of_what_a_scan_had_seen(tmp_path: Path) -> None:
    texts = written(tmp_path, 3)
    host = Host(tmp_path, "*.log", open_files=1)
    host.ship()
    for path in texts:
        append(path, b"seen, never read\n")
    host.sources.scan()
    victim = next(path for path in texts if str(path) not in open_logs(tmp_path))
    victim.unlink()
    host.ship()
    host.let_go()
    assert host.archive.text(victim) == texts[victim]
    assert host.archive.lost(victim) == len(b"seen, never read\n")
    others = [path for path in texts if path != victim]
    assert all(host.archive.text(path) == texts[path] + b"seen, never read\n" for path in others)
    assert End.DELETED in host.archive.ends.values()


def test_a_file_without_a_name_keeps_its_descriptor(tmp_path: Path) -> None:
    texts = written(tmp_path, 3, lines=2000)
    host = Host(tmp_path, "*.log", open_files=1)
    [held] = open_logs(tmp_path)
    Path(held).unlink()
    host.ship()
    host.let_go()
    assert {path: host.archive.text(path) for path in texts} == texts
    assert not host.archive.gaps


@pytest.mark.parametrize(("chosen", "soft", "limit"), [(0, 100, 100 - RESERVED_DESCRIPTORS), (7, 1024, 7), (0, 8, 1)])
def test_what_is_kept_open_leaves_descriptors_for_the_rest_of_the_process(chosen: int, soft: int, limit: int) -> None:
    assert file_limit(chosen, soft) == limit
