"""The cost depends on the changed files, not on all files; a scan finds exactly what `glob` and `stat` would."""

import glob
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from producing import Host, append

from producer.discovery import scanner
from producer.discovery.patterns import directories, prefix_matcher
from producer.discovery.safe_open import Links
from producer.discovery.scanner import Listing, ScanResult, Seen, Watched


class Calls:
    """Counts the calls of functions of `os`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.count = dict.fromkeys(names, 0)
        for name in names:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))
        if "open" in names:
            monkeypatch.setattr(Links, "open", self._counted("open", Links.open))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **more: Any) -> Any:
            self.count[name] += 1
            return call(*arguments, **more)

        return counted

    def take(self) -> dict[str, int]:
        taken, self.count = self.count, dict.fromkeys(self.count, 0)
        return taken


def shipped_host(tmp_path: Path, count: int) -> tuple[Host, list[Path]]:
    """A host that has shipped `count` files; its checkpoint is in another directory."""
    logs, state = tmp_path / "logs", tmp_path / "state"
    logs.mkdir()
    state.mkdir()
    paths = [logs / f"app-{number:03d}.log" for number in range(count)]
    for path in paths:
        path.write_bytes(b"one\n" * 10)
    host = Host(tmp_path, "logs/*.log", state=state)
    host.ship()
    return host, paths


# -- cost ---------------------------------------------------------------------------------------------------------


def test_a_scan_of_unchanged_files_lists_their_directory_once_and_opens_and_reads_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _ = shipped_host(tmp_path, 60)
    calls = Calls(monkeypatch, "fstat", "pread", "open", "scandir", "stat", "readlink")
    host.sources.scan()
    counted = calls.take()
    assert counted == {"fstat": 0, "pread": 0, "open": 0, "scandir": 1, "stat": 0, "readlink": 0}


def test_a_hint_costs_a_check_of_the_hinted_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, paths = shipped_host(tmp_path, 60)
    append(paths[7], b"two\n")
    calls = Calls(monkeypatch, "fstat", "scandir")
    host.sources.grown([str(paths[7]), str(paths[8]), str(tmp_path / "unknown.log")])
    assert calls.take() == {"fstat": 2, "scandir": 0}
    assert [piece.file for piece in host.read()] == [str(paths[7])]


def test_a_poll_checks_files_that_lost_their_names_and_no_unchanged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, paths = shipped_host(tmp_path, 60)
    late = paths[3].open("ab")
    paths[3].rename(tmp_path / "elsewhere")
    host.ship()
    late.write(b"late\n")
    late.close()
    calls = Calls(monkeypatch, "fstat", "scandir")
    host.sources.poll()
    assert calls.take() == {"fstat": 1, "scandir": 0}
    assert [piece.data for piece in host.read()] == [b"late\n"]


def test_a_rotation_of_all_files_of_a_directory_lists_it_a_few_times_not_once_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, paths = shipped_host(tmp_path, 60)
    for path in paths:
        path.rename(f"{path}.1")
        path.write_bytes(b"next\n")
    calls = Calls(monkeypatch, "scandir")
    host.ship()
    assert calls.take()["scandir"] <= 2
    assert {host.archive.text(path) for path in paths} == {b"one\n" * 10 + b"next\n"}


def test_a_start_after_a_rotation_of_all_files_lists_their_directory_a_few_times_not_once_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, paths = shipped_host(tmp_path, 60)
    host.kill()
    for path in paths:
        append(path, b"late\n")
        path.rename(f"{path}.1")
        path.write_bytes(b"next\n")
    os.utime(tmp_path / "logs", ns=(0, 0))  # long ago: else a change within one tick of the clock could hide
    calls = Calls(monkeypatch, "scandir")
    host.start()
    assert calls.take()["scandir"] <= 4
    host.ship()
    host.let_go()
    assert {host.archive.text(path) for path in paths} == {b"one\n" * 10 + b"late\n" + b"next\n"}
    assert not host.archive.gaps


def test_a_file_that_came_into_a_directory_after_it_was_listed_is_found_in_it(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    moved = tmp_path / "app.log"
    moved.write_bytes(b"one\n")
    key = (moved.stat().st_dev, moved.stat().st_ino)
    listing = Listing()
    assert listing.find_inode(str(tmp_path / "logs"), key) is None
    moved.rename(tmp_path / "logs" / "app.log.1")
    assert listing.find_inode(str(tmp_path / "logs"), key) == str(tmp_path / "logs" / "app.log.1")
    (tmp_path / "logs" / "app.log.1").rename(tmp_path / "logs" / "app.log.2")
    assert listing.find_inode(str(tmp_path / "logs"), key) == str(tmp_path / "logs" / "app.log.2")


def test_a_change_within_one_tick_of_the_clock_does_not_stay_hidden_by_a_listing(tmp_path: Path) -> None:
    logs, moved = tmp_path / "logs", tmp_path / "app.log"
    logs.mkdir()
    moved.write_bytes(b"one\n")
    key = (moved.stat().st_dev, moved.stat().st_ino)
    changed_at = logs.stat().st_mtime_ns
    listing = Listing()
    assert listing.find_inode(str(logs), key) is None
    moved.rename(logs / "app.log.1")
    os.utime(logs, ns=(changed_at, changed_at))
    assert listing.find_inode(str(logs), key) == str(logs / "app.log.1")


# -- what a scan finds --------------------------------------------------------------------------------------------

NAMES = ("a.log", "b.log", ".h.log", "a[1].log", "x.gz", "sub")
PARTS = ("*", "*.log", "a*", ".*", "a[1].log", "[!a]*", "sub", "**", "?.log")


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Paths of files, at most three deep, as parts."""
    part = st.sampled_from(NAMES)
    return draw(st.lists(st.lists(part, min_size=1, max_size=3).map(tuple), max_size=9))


PATTERNS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join)


@given(
    tree=trees(),
    links=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.booleans()), max_size=4),
    patterns=st.lists(PATTERNS, min_size=1, max_size=3),
    exclude=st.sampled_from([(), ("*.gz",), ("a*",)]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_scan_finds_what_glob_and_stat_find_in_the_same_order(
    tree: list[tuple[str, ...]],
    links: list[tuple[str, str, bool]],
    patterns: list[str],
    exclude: tuple[str, ...],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        plant(Path(directory), tree, links)
        watched = Watched.of([os.path.join(directory, pattern) for pattern in patterns], exclude)
        found = scanner.scan(watched)
        expected = list(reference(watched))
        assert found.files == expected
        assert {seen.path for seen in expected} <= found.names.keys()
        may_be = prefix_matcher(watched.patterns)
        assert all(may_be(seen.path) for seen in expected)
        watchable = found.directories | {os.path.normpath(name) for name in found.directories}
        assert all(os.path.dirname(seen.path) in watchable for seen in expected)


def plant(root: Path, tree: list[tuple[str, ...]], links: list[tuple[str, str, bool]]) -> None:
    for parts in tree:
        path = root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        except OSError:
            continue  # a file where another path has a directory
    for name, target, symbolic in links:
        try:
            (root / name).symlink_to(target) if symbolic else (root / name).hardlink_to(root / target)
        except OSError:
            continue


def crosses_a_link(name: str, pattern: str) -> bool:
    """Whether a directory that `**` stands for is a link: `glob` goes through it, a shell and we do not."""
    parts, steps = name.split("/"), pattern.split("/")
    if "**" not in steps:
        return False
    first, behind = steps.index("**"), max(1, len(steps) - steps.index("**") - 1)
    return any(os.path.islink("/".join(parts[: end + 1])) for end in range(first, len(parts) - behind))


def reference(watched: Watched) -> Iterator[Seen]:
    """A plain implementation of what `Watched` documents: each pattern as a name and as a glob, each file once."""
    names: dict[str, None] = {}
    for pattern in watched.patterns:
        names[pattern] = None
        if glob.has_magic(pattern):
            found = sorted(glob.glob(pattern, recursive=True))
            names.update(dict.fromkeys(name for name in found if not crosses_a_link(name, pattern)))
    known = set()
    for path in names:
        try:
            found = os.stat(path)
        except OSError:
            continue
        seen = Seen(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if stat.S_ISREG(found.st_mode) and seen.key not in known and not watched.excludes(path):
            known.add(seen.key)
            yield seen


def test_a_link_is_known_under_the_names_that_it_leads_over(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "data" / "real.log").write_bytes(b"x")
    (tmp_path / "data" / "hop.log").symlink_to("real.log")
    (tmp_path / "logs" / "app.log").symlink_to(tmp_path / "data" / "hop.log")
    (tmp_path / "logs" / "later.log").symlink_to(tmp_path / "later" / "real.log")
    found = look(tmp_path, "logs/*.log")
    names = {os.path.relpath(name, tmp_path) for name, key in found.names.items() if key is not None}
    assert names == {"logs/app.log", "data/hop.log", "data/real.log"}
    assert found.names[str(tmp_path / "later" / "real.log")] is None
    assert found.directories == {str(tmp_path / name) for name in ("logs", "data", "later")}


def look(root: Path, *patterns: str) -> ScanResult:
    return scanner.scan(Watched.of([str(root / pattern) for pattern in patterns]))


def test_directories_on_the_way_to_a_match_are_watched_too(tmp_path: Path) -> None:
    (tmp_path / "pods" / "one" / "logs").mkdir(parents=True)
    (tmp_path / "pods" / "two").mkdir()
    found = {os.path.relpath(name, tmp_path) for name in directories([str(tmp_path / "pods/*/logs/*.log")])}
    assert found == {"pods", "pods/one", "pods/two", "pods/one/logs"}


@pytest.mark.parametrize(
    ("path", "may_be"),
    [
        ("/var/log/app.log", True),
        ("/var/log/app.txt", False),
        ("/var/log", True),
        ("/var", True),
        ("/var/lib", False),
        ("/pods/x", True),
        ("/pods/x/logs", True),
        ("/pods/x/logs/0.log", True),
        ("/pods/x/data", False),
        ("/deep/any/where", True),
        ("/deeper", False),
        ("/odd/app[1].log", True),
        ("/odd/app1.log", True),
    ],
)
def test_a_name_matters_if_it_may_match_or_be_a_directory_on_the_way_to_a_match(path: str, may_be: bool) -> None:
    patterns = ("/var/log/*.log", "/pods/*/logs/*.log", "/deep/**/*.log", "/odd/app[1].log", "/plain/file")
    assert prefix_matcher(patterns)(path) is may_be
