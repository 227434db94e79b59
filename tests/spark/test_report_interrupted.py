"""`fshipper report` ends within 2 s of SIGINT or SIGTERM, with all its processes, and leaves a whole day.

One real run for each moment; FSHIPPER_INTERRUPTS=40 takes more of them.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from day_archives import DATE, Archive, table_of
from harness.waiting import Limit, until

from spark_analytics.runtime import interrupts, session
from spark_analytics.tables.store import Tables

ROOT = Path(__file__).resolve().parents[2]
FACE = "from shipper.__main__ import main; print('up', flush=True); main()"
"""What the console script does. Before it, the interpreter starts: what a signal does then is Python's matter."""
MOMENTS = int(os.environ["FSHIPPER_INTERRUPTS"])
MARK = "FSHIPPER_TEST_RUN"
SECONDS = 2.0
"""Within which an interrupted report ends, on a machine that makes this report in four seconds or faster."""

LEAVING_SECONDS = 10.0
"""For a killed Java to return its memory, on a core that other tests use too."""


@dataclasses.dataclass
class Ended:
    code: int
    said: str
    seconds: float  #: from the signal until the process had ended and every pipe of it was closed
    left: list[str]  #: command lines of processes that it left, apart from those that the kernel is ending


class Place:
    """An archive of which one day is reported; then more lines came. Each run begins with the old report."""

    def __init__(self, root: Path) -> None:
        self.root, self.out, self.temporary = root, root / "out", root / "tmp"
        self.temporary.mkdir()
        (root / "archive").mkdir()
        self.archive = Archive(root / "archive")
        self.archive.seal(b"".join(b"2026-11-20T10:00:%02dZ INFO line %d\n" % (n % 60, n) for n in range(2000)))
        self.archive.close()
        self.state = root / "state"
        self.arguments = ["--archive", str(self.archive.root), "--out", str(self.out), "--date", DATE]

    def prepare(self, spark) -> float:
        """The seconds that a whole run takes; makes the old report before."""
        mask = os.umask(0o027)  # as the command sets it
        self.archive.reported(spark, self.out)
        os.umask(mask)
        shutil.copytree(self.out, self.root / "old", symlinks=True)
        self.archive.seal(b"2026-11-20T11:00:00Z ERROR more\n" * 50, file="/var/log/more.log")
        began = time.monotonic()
        assert self.run(self.start("report", *self.arguments)).code == 0
        seconds = time.monotonic() - began
        assert self.is_readable_by_group_only()
        return seconds

    def is_readable_by_group_only(self) -> bool:
        return all(path.lstat().st_mode & 0o027 == 0 or path.is_symlink() for path in self.out.rglob("*"))

    def restore(self) -> None:
        shutil.rmtree(self.out)
        shutil.copytree(self.root / "old", self.out, symlinks=True)

    def start(self, *arguments: str, program: str = FACE) -> subprocess.Popen[str]:
        self.mark = uuid.uuid4().hex
        variables = {MARK: self.mark, "SHIPPER_STATE": str(self.state), "TMPDIR": str(self.temporary)}
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.root,
            env=os.environ | variables | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    def run(self, process: subprocess.Popen[str], number: int = 0, *, group: bool = False) -> Ended:
        began = time.monotonic()
        if number:
            (os.killpg if group else os.kill)(process.pid, number)
        said, _ = process.communicate(timeout=240)
        seconds = time.monotonic() - began
        end = time.monotonic() + LEAVING_SECONDS
        while (left := left_of(self.mark)) and time.monotonic() < end:
            time.sleep(0.01)
        return Ended(process.returncode, said, seconds, left)

    def is_whole(self) -> str:
        """Whose day is there, old or new; fails where it is neither, or where a part is left."""
        lines = json.loads((self.out / DATE / "report.json").read_bytes())["totals"]["lines"]
        tables = sum(row["lines"] for row in table_of(self.out, "file_daily"))
        assert lines == tables
        assert f"{lines:,}" in (self.out / DATE / "report.html").read_text()
        names = [path.name for path in self.out.rglob("*") if "new" in path.name]
        assert names == []
        assert list(Tables(self.out).root.glob(".new-*")) == []
        return {2000: "old", 2050: "new"}[lines]


def left_of(mark: str) -> list[str]:
    """The processes that have `mark` in their environment, found as the kernel has it."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (directory / "environ").read_bytes():
                found.append((directory / "cmdline").read_text().replace("\0", " ")[:120])
    return found


@pytest.fixture(scope="module")
def prepared(spark, tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("interrupted"))
    made.seconds = made.prepare(spark)
    made.limit_seconds = max(SECONDS, made.seconds / 2)  # a slow machine, or a busy one
    return made


@pytest.fixture
def place(prepared):
    prepared.restore()
    return prepared


def wait_for(condition, process, seconds=120):
    limit = Limit(seconds)
    while not condition():
        assert process.poll() is None, "it ended before"
        assert not limit.is_over()
        time.sleep(0.002)


def test_sigint_at_any_moment_ends_the_report_and_its_java_and_leaves_a_whole_day(place, capsys):
    ends, table = [], []
    for number in range(MOMENTS):
        moment = 0.02 + place.seconds * ((number + 0.5) / MOMENTS) ** 2  # more of them while Java starts
        process = place.start("report", *place.arguments)
        time.sleep(moment)
        if process.poll() is not None:  # this run was faster
            place.run(process)
        else:
            ends.append(ended := place.run(process, signal.SIGINT, group=number % 2 == 1))
            table.append(f"{moment:5.1f} s: {ended.code}, {ended.seconds:.2f} s, {place.is_whole()} day")
            is_shown = ended.said.startswith("fshipper report for")  # interrupted after its work
            assert ended.code == 130 or (ended.code == 0 and is_shown), (moment, ended)
            assert ended.left == [], (moment, ended)
            assert is_shown or len(ended.said.splitlines()) <= 2, (moment, ended)
            assert "Traceback" not in ended.said, (moment, ended)
            assert list(place.temporary.iterdir()) == [], moment
        place.restore()
    with capsys.disabled():
        print("\n" + "\n".join(table))
    assert len(ends) >= MOMENTS // 2
    assert sorted(ended.seconds for ended in ends)[len(ends) * 3 // 4] < place.limit_seconds


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_other_signals_end_it_as_a_service_manager_expects(place, number):
    process = place.start("report", *place.arguments)
    wait_for(lambda: Tables(place.out).staging(DATE).exists(), process)

    ended = place.run(process, number)

    assert (ended.code, ended.said, ended.left) == (-number, "", [])
    assert place.is_whole() == "old"
    assert list(place.temporary.iterdir()) == []


SHORT_SESSION = """
import os, pathlib, sys
print("up", flush=True)
from spark_analytics.runtime import interrupts, session
os.environ["SHIPPER_STATE"] = sys.argv[1]
sys.prefix = os.environ["HOME"] = sys.argv[1]  # the installation or the cache may have the file already
os.environ.pop("XDG_CACHE_HOME", None)
with interrupts.ending(), session.open_session(
    master="local[1]", log=pathlib.Path(sys.argv[1], "log"), size_bytes=1, writes_classes=True
):
    pass
"""


def test_sigint_while_java_writes_its_file_of_classes_leaves_no_part_of_it(place, tmp_path):
    process = place.start(str(tmp_path), program=SHORT_SESSION)
    wait_for(lambda: list(tmp_path.rglob("*.new")), process)

    ended = place.run(process, signal.SIGINT)

    assert (ended.code, ended.left) == (130, [])
    assert [path.name for path in tmp_path.rglob("*") if path.suffix in {".new", ".jsa"}] == []


def test_after_kill_9_java_ends_and_the_next_run_removes_what_is_left(place):
    process = place.start("report", *place.arguments)
    wait_for(lambda: Tables(place.out).staging(DATE).exists(), process)
    killed = place.run(process, signal.SIGKILL)
    until(lambda: left_of(place.mark) == [], what="Java ends")
    assert killed.seconds < place.limit_seconds  # no pipe of the caller is kept open
    assert left_of(place.mark) == []
    assert [path.name.startswith(session.SCRATCH_PREFIX) for path in place.temporary.iterdir()] == [True]

    assert place.run(place.start("report", *place.arguments)).code == 0

    assert list(place.temporary.iterdir()) == []
    assert place.is_whole() == "new"


@pytest.mark.parametrize(
    "arguments",
    [["query", "SELECT explode(sequence(1, 3000000)) x", "--format", "csv"], ["compact"], ["patterns", "/dev/zero"]],
    ids=lambda arguments: arguments[0],
)
def test_sigint_ends_the_other_verbs_of_the_report_as_well(place, arguments):
    named = {"query": place.arguments[2:4], "compact": place.arguments, "patterns": []}[arguments[0]]
    process = place.start("report", *arguments, *named)
    if arguments[0] == "patterns":
        time.sleep(place.seconds / 2)  # it reads without an end
    else:
        wait_for(lambda: any("java" in each for each in left_of(place.mark)), process)

    ended = place.run(process, signal.SIGINT)

    assert (ended.code, ended.left) == (130, [])
    assert "Traceback" not in ended.said
    assert list(place.temporary.iterdir()) == []
    assert not list(place.out.rglob(".new-*"))


def test_sigint_ends_the_wait_for_collectors(place):
    process = place.start("report", "--wait", "30m", *place.arguments[:4], "--date", "2026-11-19")
    assert process.stdout is not None
    first = process.stdout.readline()

    ended = place.run(process, signal.SIGINT)

    assert (ended.code, ended.said, ended.left) == (130, "", []), first
    assert ended.seconds < place.limit_seconds


BUSY_IN_C = """
import ctypes, pathlib, sys
from spark_analytics.runtime import interrupts
semaphore, libc = (ctypes.c_long * 8)(), ctypes.CDLL(None)
with interrupts.ending(), interrupts.removed_at_end(pathlib.Path(sys.argv[1])):
    print("ready", flush=True)
    libc.pthread_mutex_lock(semaphore)
    libc.pthread_mutex_lock(semaphore)  # waits for ever, and no signal interrupts it
"""


def test_a_main_thread_that_handles_no_signal_is_no_obstacle(tmp_path):
    (left := tmp_path / "part").write_bytes(b"x")
    program = [sys.executable, "-c", BUSY_IN_C, str(left)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(10) == -signal.SIGTERM
        finally:
            process.kill()
    assert not left.exists()


WHOLE = """
import sys, time
from spark_analytics.runtime import interrupts
with interrupts.ending():
    with interrupts.uninterrupted():
        print("in", flush=True)
        time.sleep(float(sys.argv[1]))
        print("whole", flush=True)
    print("after", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(("seconds", "said"), [("0.3", "whole\n"), ("60", "")])
def test_a_whole_section_is_completed_if_it_is_short(seconds, said):
    process = subprocess.Popen([sys.executable, "-c", WHOLE, seconds], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGINT)

        assert (process.stdout.read(), process.wait(10)) == (said, 130)


ORPHANS = """
import subprocess, sys, time
from spark_analytics.runtime import interrupts
with interrupts.ending():
    subprocess.Popen(["sh", "-c", "setsid sleep 300 & setsid sh -c 'sleep 301 & sleep 302' & exit 0"]).wait()
    print("ready", flush=True)
    time.sleep(60)
"""


def test_descendants_whose_parent_has_ended_are_killed_too(tmp_path):
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {MARK: mark}
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        until(lambda: len(left_of(mark)) >= 5, what="all have started")
        process.send_signal(signal.SIGINT)
        process.wait(10)

    assert left_of(mark) == []


LATE = """
import os, subprocess, time
from spark_analytics.runtime import interrupts
subprocess.Popen(["sh", "-c", "sleep 300 & echo; wait"], stdout=subprocess.PIPE).stdout.readline()
interrupts.kill_descendants(0.0)
os._exit(0)
"""


def test_descendants_are_killed_also_if_there_is_no_time_to_wait_for_their_parents():
    mark = uuid.uuid4().hex
    subprocess.run([sys.executable, "-c", LATE], check=True, cwd=ROOT, env=os.environ | {MARK: mark}, timeout=60)
    end = time.monotonic() + LEAVING_SECONDS
    while left_of(mark) and time.monotonic() < end:
        time.sleep(0.01)
    assert left_of(mark) == []


def test_directories_of_running_runs_and_of_others_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(session.tempfile, "tempdir", str(tmp_path))
    fresh = tmp_path / f"{session.SCRATCH_PREFIX}being-made"
    aged = tmp_path / f"{session.SCRATCH_PREFIX}of-an-older-version"
    linked = tmp_path / f"{session.SCRATCH_PREFIX}link"
    fresh.mkdir()
    aged.mkdir()
    os.utime(aged, (0, 0))
    (tmp_path / "mine").mkdir()
    linked.symlink_to("mine")
    with session.scratch_directory() as first, session.scratch_directory() as second:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
            path.name for path in (first, second, fresh, linked, tmp_path / "mine")
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([fresh.name, linked.name, "mine"])


def test_without_the_command_nothing_changes():
    before = signal.getsignal(signal.SIGINT)
    with interrupts.uninterrupted(), interrupts.removed_at_end(Path("/nowhere")), interrupts.called_at_end(print):
        assert signal.getsignal(signal.SIGINT) is before
    assert not interrupts.is_active()
