"""`fshipper demo` as a person runs it: real programs, real kills, and no leftovers."""

import contextlib
import datetime as dt
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness.fleet import FSHIPPER, until
from harness.waiting import slowdown

from deploy.demo import month, result
from deploy.demo.workspace import MARKER, Workspace
from deploy.processes import Interrupts, Programs, end, spawned
from shipper.errors import Unavailable

PATIENCE_SECONDS = 240  # other tests may have the machine


@pytest.fixture
def out(tmp_path):
    """A directory for a demo; no process that knows of it outlives the test."""
    yield tmp_path / "out"
    for pid in processes_of(tmp_path / "out"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_of(directory):
    """Ids of the processes that have `directory` in their arguments or their environment, ours not among them."""
    wanted = str(directory).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def run(*arguments):
    return subprocess.run(
        [FSHIPPER, "demo", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@contextlib.contextmanager
def running(out, *arguments):
    """A demo that has begun to kill; its output is in `<out>.txt`."""
    said = out.with_suffix(".txt")
    with said.open("wb") as target:
        process = subprocess.Popen(
            [FSHIPPER, "demo", "--out", str(out), "--no-report", "--seed", "1", *arguments],
            stdout=target,
            stderr=target,
        )
    try:
        until(lambda: b"works again" in said.read_bytes() or process.poll() is not None, within=90, what="a kill")
        assert process.poll() is None, said.read_text()
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_short_demo_kills_everything_twice_proves_every_byte_and_leaves_no_process(out):
    done = run("--out", out, "--seconds", "6", "--no-report", "--json", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["identical"]
    assert set(result["kills"]) == {"server", "collector", "producer web1", "producer db1", "producer mail1"}
    assert all(kills >= 2 for kills in result["kills"].values())
    assert len(result["files"]) == 9
    assert all(file["identical"] and file["generations"] > 1 and file["bytes"] > 0 for file in result["files"])
    assert result["report_skipped"] == "--no-report"
    assert json.loads((out / "result.json").read_text()) == result
    assert "Proven:" in done.stderr
    assert "3 hosts: " in done.stderr.partition("$ fshipper status")[2]
    assert "complete; 3 hosts, 9 files" in done.stderr.partition("$ fshipper audit")[2]
    assert processes_of(out) == []


def test_your_own_files_are_replayed_and_the_demo_before_is_replaced(out, tmp_path):
    out.mkdir()
    (out / MARKER).touch()
    (out / "old").mkdir()
    own = tmp_path / "mine.log"
    own.write_bytes(b"".join(b"%d mine\r\n" % number for number in range(20_000)) + b"no newline here")
    done = run("--out", out, "--seconds", "3", "--no-report", "--json", "--path", own)
    assert done.returncode == 0, done.stdout + done.stderr
    files = json.loads(done.stdout)["files"]
    assert [file["bytes"] for file in files] == [own.stat().st_size] * 3
    assert not (out / "old").exists()


def test_bytes_that_were_not_counted_make_the_proof_fail(out):
    with running(out, "--seconds", "5") as process:
        older = out / "hosts" / "web1.example.net" / "ssh" / "auth.log.1"
        until(older.exists, what="a rotation")
        with older.open("ab") as stream:
            stream.write(b"a line that the writer did not write\n")
        assert process.wait(PATIENCE_SECONDS) == 1
    said = out.with_suffix(".txt").read_text()
    assert "The proof does not hold." in said
    assert "ssh/auth.log" in said
    result = json.loads((out / "result.json").read_text())
    assert [file["file"].rsplit("/", 1)[1] for file in result["files"] if not file["identical"]] == ["auth.log"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_soon_and_leaves_no_process(out, number, code):
    with running(out, "--seconds", "60") as process:
        assert len(processes_of(out)) > 3
        process.send_signal(number)
        assert process.wait(30) == code
        assert processes_of(out) == []


@pytest.mark.starts
def test_ending_a_program_takes_along_what_it_started(tmp_path):
    said = tmp_path / "said"
    shell = spawned(["sh", "-c", "trap '' TERM; sleep 600 & echo $!; wait; wait"], dict(os.environ), said, said)
    until(lambda: said.read_bytes().endswith(b"\n"), what="the child's id")
    child = Path("/proc") / said.read_text().strip()
    assert child.exists()
    end([shell])
    assert shell.returncode == -signal.SIGKILL
    until(lambda: not child.exists() or "(sleep) Z" in (child / "stat").read_text(), what="the end of the child")


def test_its_directory_is_taken_while_it_runs_and_kill_9_takes_its_programs_along(out):
    with running(out, "--seconds", "60") as process:
        done = run("--out", out, "--seconds", "3")
        assert (done.returncode, "another demo runs in" in done.stderr) == (69, True)
        assert (out / "archive").exists()
        assert len(processes_of(out)) > 3
        process.kill()
        process.wait()
        until(lambda: not processes_of(out), within=10, what="no process")


def test_a_directory_that_no_demo_made_is_not_touched(out):
    out.mkdir()
    (out / "precious.txt").write_text("mine")
    done = run("--out", out, "--seconds", "3")
    assert (done.returncode, "no demo made it" in done.stderr, "--out" in done.stderr) == (78, True, True)
    assert [path.name for path in out.iterdir()] == ["precious.txt"]
    assert (out / "precious.txt").read_text() == "mine"


def test_an_out_that_is_a_file_is_a_configuration_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = run("--out", tmp_path / "file", "--seconds", "3")
    assert (done.returncode, "cannot be written" in done.stderr) == (78, True)


def test_files_in_the_directory_that_is_replaced_are_not_replayed(out):
    out.mkdir()
    (out / MARKER).touch()
    (out / "app.log").write_text("x\n")
    done = run("--out", out, "--path", out / "app.log")
    assert (done.returncode, "which the demo replaces" in done.stderr) == (78, True)
    assert (out / "app.log").exists()


def test_a_path_that_is_missing_is_reported_before_anything_is_touched(out, tmp_path):
    done = run("--out", out, "--path", tmp_path / "missing.log")
    assert (done.returncode, "missing.log cannot be read: No such file" in done.stderr) == (78, True)
    assert not out.exists()


def test_without_java_it_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    place = Workspace(tmp_path)
    place.logs.mkdir()
    month.write_month(place, 1, dt.date(2026, 11, 20), seed=1)
    with (
        Interrupts() as interrupts,
        Programs(place.logs, dict(os.environ), interrupts) as programs,
        pytest.raises(Unavailable, match="Java") as caught,
    ):
        result.make_report(programs, place, ["2026-11-20"])
    assert "hint: " in str(caught.value)


def test_a_demo_over_midnight_has_two_reports(tmp_path):
    class Programs:
        def __init__(self):
            self.dates = []

        def must(self, _name, *arguments, within):
            self.dates.append(arguments[arguments.index("--date") + 1])
            return json.dumps({"totals": {"lines": 7}})

    programs = Programs()
    made = result.make_report(programs, Workspace(tmp_path), ["2026-11-20", "2026-11-21"])
    assert programs.dates == ["2026-11-20", "2026-11-21"]
    assert [one["page"] for one in made] == [str(tmp_path / "report" / date / "report.html") for date in programs.dates]


def test_help_reports_what_it_does_quickly():
    began = time.monotonic()
    done = run("--help")
    assert done.returncode == 0
    assert "byte for byte" in " ".join(done.stdout.split())
    assert time.monotonic() - began < 20 * slowdown()
