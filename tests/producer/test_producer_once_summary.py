"""`produce --once` ends with one exact line, and reports patterns without a match with an exit code of its own."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from harness.fleet import FSHIPPER, Fleet

SUMMARY = re.compile(r"shipped ([\d,]+) files?, ([\d,]+) lines?, ([\d,]+) bytes? in \d+\.\d s\n")


@pytest.fixture
def fleet(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=1) as found:
        found.apply()
        yield found


def sums(said: str) -> tuple[int, int, int]:
    """Files, lines and bytes of the one line that was printed."""
    (found,) = SUMMARY.findall(said)
    assert SUMMARY.fullmatch(said), said
    return tuple(int(number.replace(",", "")) for number in found)


def once(fleet: Fleet, *arguments: object, code: int = 0, **more: str):
    done = fleet.run("produce", "--once", *map(str, arguments), HOSTNAME="web1", **more)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_summary_equals_wc_and_is_empty_the_second_time(fleet: Fleet, tmp_path: Path):
    logs = tmp_path / "logs"
    logs.mkdir()
    contents = {"a.log": b"one\n" * 30_000, "b.log": b"x" * 700_000 + b"\nlast", "empty.log": b""}
    for name, content in contents.items():
        (logs / name).write_bytes(content)
    whole = b"".join(contents.values())
    done = once(fleet, logs / "*.log")
    assert sums(done.stdout) == (2, whole.count(b"\n"), len(whole))
    assert "30,001 lines" in done.stdout
    assert sums(once(fleet, logs / "*.log").stdout) == (0, 0, 0)
    with (logs / "a.log").open("ab") as log:
        log.write(b"two\n")
    assert once(fleet, logs / "*.log").stdout.startswith("shipped 1 file, 1 line, 4 bytes in ")
    with (logs / "a.log").open("ab") as log:
        log.write(b"three\n")
    found = json.loads(once(fleet, logs / "*.log", "--log-format", "json").stdout)
    assert found.pop("seconds") > 0
    assert found == {"v": 1, "summary": "shipped", "files": 1, "lines": 1, "bytes": 6}

    drained = fleet.drain("--seal")
    lines, octets = whole.count(b"\n") + 2, len(whole) + 10
    assert drained.startswith(f"archived 1 host, 2 files, {lines:,} lines, {octets:,} bytes, 2 segments in ")
    assert fleet.drain().startswith("archived 0 hosts, 0 files, 0 lines, 0 bytes in ")


def test_standard_input_is_one_file(fleet: Fleet, tmp_path: Path):
    done = subprocess.run(
        [FSHIPPER, "produce", "--once", "-"],
        input=b"a\nb\n",
        capture_output=True,
        check=False,
        env=fleet.environment(HOSTNAME="web1"),
    )
    assert sums(done.stdout.decode()) == (1, 2, 4)


def test_a_glob_without_a_match_is_reported_and_ends_with_a_code_of_its_own(fleet: Fleet, tmp_path: Path):
    done = once(fleet, tmp_path / "nosuch/*.log", code=2)
    assert f"error: nothing was shipped: no file matches '{tmp_path}/nosuch/*.log'" in done.stderr
    assert "hint: correct the path or glob" in done.stderr
    assert done.stdout == ""
    (tmp_path / "some").mkdir()
    (tmp_path / "some/a.tmp").write_text("x\n")
    (tmp_path / "some/below").mkdir()
    done = once(fleet, tmp_path / "some/*.tmp", "--exclude", "*.tmp", code=2)
    assert f"every file that matches '{tmp_path}/some/*.tmp' is excluded (1 file)" in done.stderr
    done = once(fleet, tmp_path / "some/b*", code=2)
    assert f"what matches '{tmp_path}/some/b*' is no regular file" in done.stderr


def test_nothing_to_ship_needs_no_server(fleet: Fleet, tmp_path: Path, natsd):
    natsd.kill()
    once(fleet, tmp_path / "nosuch/*.log", code=2)


def test_a_pattern_without_a_match_is_reported_and_the_exit_code_is_0(fleet: Fleet, tmp_path: Path):
    (tmp_path / "a.log").write_bytes(b"one\n")
    done = once(fleet, tmp_path / "a.*", tmp_path / "nosuch/*.log")
    assert sums(done.stdout) == (1, 1, 4)
    assert f"no file matches '{tmp_path}/nosuch/*.log'" in done.stderr.replace('"', "")


def test_the_rest_of_a_renamed_file_is_shipped_although_nothing_matches(fleet: Fleet, tmp_path: Path):
    log = tmp_path / "logs/app.log"
    log.parent.mkdir()
    log.write_bytes(b"one\n")
    once(fleet, tmp_path / "logs/*.log")
    with log.open("ab") as more:
        more.write(b"two\n")
    os.rename(log, tmp_path / "logs/app.log.1")
    assert sums(once(fleet, tmp_path / "logs/*.log").stdout) == (1, 1, 4)
    once(fleet, tmp_path / "logs/*.log", code=2)
