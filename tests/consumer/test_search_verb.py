"""`fshipper search` as people and programs run it: real processes over a real archive."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from harness import forking
from harness.fleet import until
from keeping import DAY_NS
from searching import fshipper, write_archive

from consumer.archive.directory import JOURNALS
from shipper.layout import NANOSECONDS

WEB, DB = ("web1.example.net", "/var/log/app.log"), ("db1.example.net", "/var/log/db.log")


def whole_lines(text: bytes, lines: int = 10) -> list[bytes]:
    each = text.splitlines(keepends=True)
    return [b"".join(each[at : at + lines]) for at in range(0, len(each), lines)]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    files = {
        WEB: b"".join(b"line %02d of web\n" % number for number in range(30)),
        DB: b"".join(b"line %02d of db\n" % number for number in range(30)),
    }
    return write_archive(tmp_path, files, whole_lines)


def found(archive: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    done = fshipper("--json", "--archive", str(archive), "--state", str(archive.parent), *arguments, code=code)
    return [json.loads(line) for line in done.stdout.splitlines()]


def lines_in(objects: list[dict[str, Any]]) -> list[str]:
    return [each["line"] for each in objects if each["type"] == "hit"]


def test_hits_of_all_hosts_come_in_the_order_of_storing(archive: Path) -> None:
    objects = found(archive, "line")
    hits = [each for each in objects if each["type"] == "hit"]
    assert len(hits) == 60
    assert [each["time"] for each in hits] == sorted(each["time"] for each in hits)
    assert {each["host"] for each in hits[:20]} == {WEB[0], DB[0]}
    first = next(each for each in hits if each["host"] == WEB[0])
    assert (first["offset"], first["line"], first["file"]) == (0, "line 00 of web", WEB[1])
    assert first["segment"].startswith("date=2026-11-20/")
    assert [each["lines"] for each in objects[-1].pop("unknown_formats")] == [30, 30]
    assert objects[-1] | {"seconds": 0, "bytes_read": 0, "bytes_total": 0} == {
        "v": 1,
        "type": "summary", "hits": 60, "bytes_read": 0, "bytes_total": 0, "seconds": 0, "truncated": False,
        "by": "event", "time_from": {"line": 0, "previous": 0, "stored": 0, "estimated": 60},
    }  # fmt: skip


def test_newest_first_and_the_limit(archive: Path) -> None:
    assert lines_in(found(archive, "line", "web*", "--newest-first", "--limit", "3")) == [
        "line 29 of web", "line 28 of web", "line 27 of web",
    ]  # fmt: skip
    objects = found(archive, "line", "web*", "--limit", "3")
    assert lines_in(objects) == ["line 00 of web", "line 01 of web", "line 02 of web"]
    assert objects[-1]["truncated"]


def test_hosts_files_and_times_are_selected(archive: Path) -> None:
    assert len(lines_in(found(archive, "line", "db*"))) == 30
    assert len(lines_in(found(archive, "line", "--file", "app.log"))) == 30
    minute = DAY_NS // NANOSECONDS + 60
    since, until_ = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(each)) for each in (minute, minute + 60))
    assert lines_in(found(archive, "line", "web*", "--since", since, "--until", until_)) == [
        f"line {number} of web" for number in range(10, 20)
    ]


def test_lines_of_context_reach_over_the_borders_of_chunks(archive: Path) -> None:
    (hit,) = (each for each in found(archive, '"line 15 of web"', "-B", "2", "-A", "1") if each["type"] == "hit")
    assert (hit["before"], hit["after"]) == (["line 13 of web", "line 14 of web"], ["line 16 of web"])
    hits = [each for each in found(archive, '"1 of web"', "-C", "20") if each["type"] == "hit"]
    assert hits[1]["before"] == [f"line {number:02} of web" for number in range(11)]
    assert hits[1]["after"] == [f"line {number} of web" for number in range(12, 30)]
    text = fshipper("--archive", str(archive), '"line 15 of web"', "-C", "1").stdout.decode().splitlines()
    assert [line.partition("Z ")[2] for line in text[:3]] == [
        f"{WEB[0]} {WEB[1]}- line 14 of web",
        f"{WEB[0]} {WEB[1]}: line 15 of web",
        f"{WEB[0]} {WEB[1]}- line 16 of web",
    ]  # fmt: skip


def test_records_are_shown_whole_and_count_once(tmp_path: Path) -> None:
    text = b"2026-11-20 00:00:00 one\n  at x.py\n  at y.py\n"
    text += b"2026-11-20 00:01:00 two\n2026-11-20 00:01:01 three\n  at z.py\n"
    archive = write_archive(tmp_path, {WEB: text}, lambda whole: [whole])
    assert lines_in(found(archive, "at", "--records")) == [
        "2026-11-20 00:00:00 one\n  at x.py\n  at y.py",
        "2026-11-20 00:01:01 three\n  at z.py",
    ]
    assert [each["count"] for each in found(archive, "at", "--records", "--count", "all")[:1]] == [2]
    buckets = [each for each in found(archive, "at", "--records", "--histogram", "1m") if each["type"] == "bucket"]
    assert [each["count"] for each in buckets] == [1, 1]
    shown = fshipper("--archive", str(archive), "z.py", "--records", "-B", "1").stdout.decode().splitlines()
    assert [line.partition("Z ")[2].removeprefix(f"{WEB[0]} {WEB[1]}") for line in shown] == [
        "- 2026-11-20 00:01:00 two", ": 2026-11-20 00:01:01 three", ":   at z.py",
    ]  # fmt: skip
    assert b"-f excludes --records" in fshipper("x", "--records", "-f", "--archive", str(archive), code=64).stderr


def test_counts_and_histograms(archive: Path) -> None:
    counts = [each for each in found(archive, "/line 1./", "--count", "host") if each["type"] == "count"]
    assert {(each["name"], each["count"]) for each in counts} == {(WEB[0], 10), (DB[0], 10)}
    buckets = [each for each in found(archive, "line", "--histogram", "1m") if each["type"] == "bucket"]
    assert [each["count"] for each in buckets] == [20, 20, 20]
    assert buckets[0]["start"] == "2026-11-20T00:00:00.000Z"
    objects = found(archive, "line", "--histogram", "1m", "--limit", "2")
    assert len(lines_in(objects)) == 2
    assert sum(each["count"] for each in objects if each["type"] == "bucket") == 60
    drawn = fshipper("--archive", str(archive), "line", "--histogram", "1m").stdout.decode()
    assert drawn.splitlines()[0].startswith("2026-11-20T00:00:00Z 20 ███")


def test_exit_codes(archive: Path, tmp_path: Path) -> None:
    assert fshipper("--archive", str(archive), "nothing like it", code=1).stdout == b""
    assert b"character 1" in fshipper("--archive", str(archive), "(a", code=64).stderr
    assert fshipper("--archive", str(tmp_path), "a", code=78)


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_searched(archive: Path) -> None:
    segments = sorted(archive.rglob("var~log~app.log-*"))
    segments[0].unlink()
    segments[1].write_bytes(segments[1].read_bytes()[:20] + b"damaged")
    objects = found(archive, "line", code=3)
    assert len(lines_in(objects)) == 40
    named = {each["path"] for each in objects if each["type"] == "unreadable"}
    assert named == {path.relative_to(archive).as_posix() for path in segments[:2]}


def test_control_characters_are_escaped_for_people(tmp_path: Path) -> None:
    line = b"evil \x1b]0;title\x07 \xff \xe2\x80\xae end\n"
    archive = write_archive(tmp_path, {WEB: line}, lambda text: [text])
    shown = fshipper("--archive", str(archive), "evil").stdout
    assert shown.endswith(b": evil \\x1b]0;title\\x07 \\xff \\u202e end\n")
    (hit, _) = found(archive, "evil")
    assert hit["line"].encode("utf-8", "surrogateescape") == line[:-1]


def test_a_line_of_many_megabytes_is_cut_and_costs_no_memory(tmp_path: Path) -> None:
    text = b"a" * 9_000_000 + b"needle\nnext needle\n"
    archive = write_archive(tmp_path, {WEB: text}, lambda text: [text])
    objects = found(archive, "needle")
    assert [len(line) for line in lines_in(objects)] == [64 * 1024, 11]
    assert objects[0]["cut"]


def test_explain_reads_nothing(archive: Path) -> None:
    (explained,) = found(archive, "web NOT db", "--explain")
    assert (explained["files"], explained["hosts"], explained["days"]) == (6, 2, ["2026-11-20"])
    assert "'web'" in explained["literal"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough that a search takes some seconds: every line is compared."""
    text = b"".join(b"%d some line of a log without content\n" % number for number in range(200_000))
    place = tmp_path_factory.mktemp("large")
    return write_archive(place, {(f"web{n}.example.net", "/a.log"): text for n in range(12)}, lambda text: [text])


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def slow(archive: Path, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return forking.popen(
        ["search", "--json", "--archive", str(archive), "--jobs", "2", "NOT nothing NOT /x+y/", *arguments],
        env=dict(os.environ), stdout=stdout, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_a_signal_ends_every_worker(large: Path, number: int, code: int) -> None:
    process = slow(large, "--count", "all")
    until(lambda: len(children(process.pid)) == 2, what="two workers")
    workers = children(process.pid)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)  # the search must not end before the signal
    process.send_signal(number)
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)
    process.communicate(timeout=20)
    assert process.returncode == code
    until(lambda: not any(map(is_running, workers)), what="the workers end")


SIGNAL_AFTER_FORK = """
import os, signal, sys
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), int(sys.argv[1])))
from shipper.main import run
sys.exit(run(["search", "line", "--jobs", "2", "--archive", sys.argv[2]]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_worker_is_forked_ends_the_search(archive: Path, number: int) -> None:
    """Python writes an exception of such a callback to stderr and drops it."""
    command = [sys.executable, "-c", SIGNAL_AFTER_FORK, str(int(number)), str(archive)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("verb", [["search", "x", "--archive"], ["audit"]], ids=["search", "audit"])
def test_a_signal_while_journals_are_copied_leaves_no_copy(
    archive: Path, tmp_path: Path, number: int, verb: list[str]
) -> None:
    copies, journals = tmp_path / "copies", archive / JOURNALS
    copies.mkdir()
    journals.mkdir(exist_ok=True)
    with (journals / "logs.p0.sqlite").open("wb") as journal:
        journal.truncate(500_000_000)  # without blocks on the disk; its copy takes a while
    environment = os.environ | {"TMPDIR": str(copies)}
    with forking.popen([*verb, str(archive)], env=environment, stderr=subprocess.PIPE, text=True) as process:
        # Before it makes its directory, Python tries by a file of four bytes whether TMPDIR can be written to.
        until(lambda: any(copies.glob("fshipper-*")), what="it copies the journal")
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in errors, list(copies.iterdir())) == (130, False, [])


def test_a_closed_pipe_ends_every_worker(large: Path) -> None:
    with slow(large, "--limit", "0") as process:
        assert process.stdout
        process.stdout.readline()
        workers = children(process.pid)
        process.stdout.close()
        assert process.wait(20) == 0
        until(lambda: not any(map(is_running, workers)), what="the workers end")
        assert process.stderr
        assert process.stderr.read() == b""


def test_a_worker_that_is_killed_once_costs_no_line(large: Path) -> None:
    process = slow(large, "web1*", "--count", "all")
    until(lambda: len(children(process.pid)) == 2, what="two workers")
    os.kill(children(process.pid)[0], signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    objects = [json.loads(line) for line in output.splitlines()]
    assert process.returncode == 0
    assert [each["type"] for each in objects] == ["count", "summary"]
    assert objects[0]["count"] == 3 * 200_000


@pytest.mark.parametrize("order", [(), ("--newest-first",), ("--by", "event"), ("--histogram", "1m")])
def test_truncated_is_true_exactly_if_there_are_more_lines(archive: Path, order: tuple[str, ...]) -> None:
    for limit, truncated in ((29, True), (30, False), (31, False)):
        objects = found(archive, "line", "web*", "--limit", str(limit), "--jobs", "4", *order)
        assert (len(lines_in(objects)), objects[-1]["truncated"]) == (min(limit, 30), truncated)


def test_one_file_with_more_lines_than_the_limit_is_truncated_newest_first(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, {WEB: b"line\n" * 30}, lambda text: [text])
    for limit, truncated in ((29, True), (30, False)):
        objects = found(archive, "line", "--newest-first", "--limit", str(limit))
        assert (len(lines_in(objects)), objects[-1]["truncated"]) == (limit, truncated)
