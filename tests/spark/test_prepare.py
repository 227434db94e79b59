"""`fshipper report prepare` writes the class data archive that the first report starts from."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shipper.errors import Unavailable
from spark_analytics import pipeline, prepare
from spark_analytics.runtime import session

RUN = (
    "import sys; sys.prefix = sys.argv.pop(1)\nfrom spark_analytics.__main__ import main\nsys.exit(main(sys.argv[1:]))"
)
DATE = prepare.DATES[0]


def run(installation: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", RUN, installation, *arguments]
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        env=dict(os.environ) | environment,
    )


@pytest.mark.skipif(not shutil.which("java"), reason="needs java: apt-get install openjdk-17-jre-headless")
def test_the_first_report_after_it_uses_the_archive_and_writes_none(tmp_path):
    installation, state = tmp_path / "installation", tmp_path / "state"
    done = run(installation, "prepare", SHIPPER_STATE=str(state))
    assert done.returncode == 0, done.stderr
    archive = Path(done.stdout.partition(":")[0])
    assert archive.parent == installation / "lib" / "fshipper" / "java"

    again = run(installation, "prepare", SHIPPER_STATE=str(state))
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)

    prepare.write_days(tmp_path / "archive")
    where = ("--archive", tmp_path / "archive", "--out", tmp_path / "out", "--date", DATE)
    written = archive.stat().st_mtime_ns
    reported = run(installation, *where, SHIPPER_STATE=str(state))
    assert reported.returncode == 0, reported.stderr
    assert not state.exists()
    assert archive.stat().st_mtime_ns == written
    assert str(archive) in mapped_by_java(installation, tmp_path, state)


@pytest.mark.skipif(not shutil.which("java"), reason="needs java: apt-get install openjdk-17-jre-headless")
def test_a_session_maps_the_archive_that_the_setup_of_this_installation_made(tmp_path):
    known = session.known_classes(session.require_runtime())
    if known is None or not known.path.is_relative_to(sys.prefix):
        pytest.skip("this installation is not prepared: run `fshipper report prepare`")
    assert str(known.path) in mapped_by_java(Path(sys.prefix), tmp_path, tmp_path / "state")
    assert not (tmp_path / "state").exists()


def mapped_by_java(installation: Path, place: Path, state: Path) -> str:
    """The files that the Java of a session maps, as the kernel lists them."""
    code = (
        "import sys, pathlib; sys.prefix = sys.argv[1]\n"
        "from spark_analytics.runtime import session\n"
        "from pyspark import SparkContext\n"
        "with session.open_session(master=None, log=pathlib.Path(sys.argv[2]), size_bytes=1):\n"
        "    print(pathlib.Path(f'/proc/{SparkContext._gateway.proc.pid}/maps').read_text())"
    )
    command = [sys.executable, "-c", code, str(installation), str(place / "spark.log")]
    environment = dict(os.environ) | {"SHIPPER_STATE": str(state)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.parametrize("command", ["report", "query", "shell", "compact"])
def test_only_a_report_writes_a_missing_archive(tmp_path, monkeypatch, command):
    written = []

    def opened(settings, log, known, *, makes):
        written.append(makes)
        raise Unavailable("no session")

    monkeypatch.setattr(session, "require_runtime", lambda: Path("java"))
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))
    monkeypatch.setattr(session, "_opened_with_classes", opened)
    archive, out = tmp_path / "archive", tmp_path / "out"
    prepare.write_days(archive)
    request = pipeline.Request(archive=archive, out=out, top=20, master=None)
    commands = {
        "report": lambda: list(pipeline.run(request, [DATE])),
        "query": lambda: pipeline.query("select 1", archive, out, [DATE], "table", None),
        "shell": lambda: pipeline.shell(archive, out, [DATE], "table", None),
        "compact": lambda: pipeline.compact(archive, out, DATE, None),
    }
    with pytest.raises(Unavailable, match="no session"):
        commands[command]()
    assert written == [command == "report"]


def test_without_java_the_message_names_what_is_missing(tmp_path):
    done = run(tmp_path, "prepare", PATH="/nonexistent", JAVA_HOME=str(tmp_path))
    assert done.returncode == 69
    assert "the report needs Java 17 or later" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_space_nothing_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(prepare, "NEEDED_BYTES", 1 << 60)
    with pytest.raises(Unavailable, match="MB free; the Java classes need"):
        prepare.prepare(force=False)
    assert list(tmp_path.iterdir()) == []
