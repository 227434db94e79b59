"""Java may be ended by the kernel at any moment: the report says so, and the next one finds everything whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DATE

ROOT = Path(__file__).resolve().parents[2]

ENDING = """
import os, signal, sys
from pyspark import SparkContext
from spark_analytics import __main__ as program
from spark_analytics import pipeline, scanning

def ends_java(step):
    def taken(*arguments, **named):
        java = SparkContext._gateway.proc
        os.kill(java.pid, signal.SIGKILL)
        java.wait()
        return step(*arguments, **named)
    return taken

owner, name = {"scan": (scanning.Scan, "_groups"), "publish": (pipeline.publish, "publish")}[sys.argv[1]]
setattr(owner, name, ends_java(getattr(owner, name)))
sys.exit(program.main(sys.argv[2:]))
"""


def report(archive, out: Path, state: Path, *, ends_at: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--archive", str(archive.root), "--out", str(out), "--date", DATE, "--force"]
    return subprocess.run(
        [sys.executable, "-c", ENDING, ends_at, *arguments],
        capture_output=True, text=True, timeout=240, check=False, cwd=ROOT,
        env=os.environ | {"SHIPPER_STATE": str(state)},
    )  # fmt: skip


@pytest.fixture
def closed(archive):
    archive.seal(b"one\ntwo\n")
    archive.close()
    return archive


def test_where_java_ends_in_the_scan_two_lines_say_so_and_what_was_there_is_whole(closed, spark, tmp_path):
    out = tmp_path / "out"
    closed.reported(spark, out)
    before = {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file() and path.name != "spark.log"}

    ended = report(closed, out, tmp_path / "state", ends_at="scan")

    error, hint = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (69, "")
    assert error == "error: Java, in which Spark runs, ended before the work did"
    assert "journalctl -k" in hint
    assert {path: path.read_bytes() for path in before} == before


def test_where_java_ends_behind_the_tables_the_report_is_there_all_the_same(closed, tmp_path):
    ended = report(closed, tmp_path / "out", tmp_path / "state", ends_at="publish")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads((tmp_path / "out" / DATE / "report.json").read_bytes())["run"]["input_fingerprint"]
