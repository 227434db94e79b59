"""Java may be ended by the kernel at any moment: it is reported, and the next report finds everything whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from day_archives import DATE
from py4j.protocol import Py4JError

from spark_analytics.runtime import jvm
from spark_analytics.tables import spark_io

ROOT = Path(__file__).resolve().parents[2]

ENDING = """
import os, signal, sys, threading
from pyspark import SparkContext
from spark_analytics import __main__ as program
from spark_analytics.report import publish
from spark_analytics.scan import line_scan

def killed(java):
    java.kill()
    java.wait()

def killed_while_asked(java):
    os.kill(java.pid, signal.SIGSTOP)
    threading.Timer(1, java.kill).start()

ended = {"killed": killed, "killed while asked": killed_while_asked}[sys.argv[1]]
owner, name = {
    "start": (SparkContext, "_initialize_context"),
    "scan": (line_scan, "lines_to_group"),
    "publish": (publish, "publish"),
}[sys.argv[2]]
step = getattr(owner, name)

def last(*arguments, **named):
    ended(SparkContext._gateway.proc)
    return step(*arguments, **named)

setattr(owner, name, last)
sys.exit(program.main(sys.argv[3:]))
"""


def report(archive, out: Path, state: Path, how: str, where: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--archive", str(archive.root), "--out", str(out), "--date", DATE, "--force"]
    return subprocess.run(
        [sys.executable, "-c", ENDING, how, where, *arguments],
        capture_output=True, text=True, timeout=240, check=False, cwd=ROOT,
        env=os.environ | {"SHIPPER_STATE": str(state)},
    )  # fmt: skip


@pytest.fixture
def closed(archive):
    archive.seal(b"one\ntwo\n")
    archive.close()
    return archive


@pytest.mark.parametrize(
    ("how", "where"),
    [("killed", "start"), pytest.param("killed", "scan", marks=pytest.mark.long), ("killed while asked", "scan")],
    ids=str,
)
def test_where_java_ends_two_lines_say_so_and_what_was_there_is_whole(closed, spark, tmp_path, how, where):
    out = tmp_path / "out"
    closed.reported(spark, out)
    before = {path: path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file() and path.name != "spark.log"}

    ended = report(closed, out, tmp_path / "state", how, where)

    error, hint = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (69, "")
    assert error == "error: Java, in which Spark runs, ended before the work did"
    assert "journalctl -k" in hint
    assert {path: path.read_bytes() for path in before} == before


def test_where_java_ends_after_the_tables_the_report_is_there_all_the_same(closed, tmp_path):
    ended = report(closed, tmp_path / "out", tmp_path / "state", "killed", "publish")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads((tmp_path / "out" / DATE / "report.json").read_bytes())["run"]["input_fingerprint"]


@pytest.mark.parametrize("error", [BrokenPipeError(), EOFError(), Py4JError("nothing of Java's")], ids=repr)
def test_while_java_answers_no_message_reports_its_end(spark, tmp_path, error):
    with pytest.raises(type(error)) as raised, spark_io.translated_errors(tmp_path / "spark.log"):
        raise error

    assert raised.value is error


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(), EOFError(), Py4JError("does not exist in the JVM")], ids=repr
)
def test_whatever_error_a_call_to_an_ended_java_raises_it_is_reported_as_the_end_of_java(tmp_path, monkeypatch, error):
    monkeypatch.setattr(jvm, "is_responding", lambda: False)

    with pytest.raises(jvm.JavaEnded), spark_io.translated_errors(tmp_path / "spark.log"):
        raise error


def test_a_closed_pipe_of_sql_output_is_no_error(closed, tmp_path):
    (tmp_path / "out").mkdir()
    program = [sys.executable, "-m", "spark_analytics", "query", "SELECT explode(sequence(1, 300000)) x"]
    asking = subprocess.Popen(
        [*program, "--out", str(tmp_path / "out"), "--format", "csv"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert asking.stdout is not None
    assert asking.stderr is not None
    with asking:
        assert asking.stdout.readline() == "x\n"
        asking.stdout.close()

        assert asking.stderr.read() == ""
