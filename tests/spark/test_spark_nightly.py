"""The command as a timer runs it: what it leaves alone, what it makes again, what it exits with."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from day_archives import DATE, table_of

from spark_analytics import __main__ as program
from spark_analytics import build_tables, pipeline
from spark_analytics.scan import run as scanning


@pytest.fixture
def report(archive, spark, tmp_path, monkeypatch, capsys):
    """Runs the command in the session that all tests share; returns its exit code and what it printed."""

    @contextlib.contextmanager
    def shared(**_):
        yield spark

    monkeypatch.setattr(pipeline, "open_session", shared)

    def run(*arguments):
        code = program.main(["--archive", str(archive.root), "--out", str(tmp_path / "out"), *arguments])
        return code, capsys.readouterr()

    return run


def test_the_same_input_is_left_alone_and_another_one_makes_that_day_again_and_no_other(archive, report, tmp_path):
    archive.seal(b"x\n")
    archive.close()
    archive.date = "2026-11-21"
    archive.seal(b"y\n")
    archive.close()
    both = ("--since", DATE, "--until", "2026-11-21")
    assert report(*both)[0] == 0
    first = (tmp_path / "out" / DATE / "report.json").stat().st_mtime_ns

    assert report(*both)[0] == 4
    archive.seal(b"late\n", file="/more")
    code, said = report(*both)

    assert code == 0
    assert f"{DATE}: nothing to do" in said.out
    assert (tmp_path / "out" / DATE / "report.json").stat().st_mtime_ns == first
    assert [row["lines"] for row in table_of(tmp_path / "out", "runs", "2026-11-21")] == [2]
    assert [row["median7_lines"] for row in table_of(tmp_path / "out", "host_daily", "2026-11-21")] == [1.0]


def test_while_the_first_day_lasts_there_is_nothing_to_do(archive, report, tmp_path):
    archive.seal(b"x\n")

    code, said = report("--until", "2026-11-19")

    assert (code, said.out) == (4, "")
    assert said.err == f"no day of {archive.root} is over yet: nothing to do\n"
    assert report("--since", "2026-11-01", "--until", "2026-11-19")[0] == 69


def test_a_day_of_one_unfinished_line_of_another_day_has_a_page(archive, report, tmp_path):
    archive.seal(b"2026-11-18T05:00:00Z INFO the last line of another day")
    archive.close()

    assert report("--date", DATE)[0] == 0
    assert "100 % of them are of other days" in (tmp_path / "out" / DATE / "report.html").read_text()


def test_where_no_day_ever_began_something_is_wrong(report):
    assert report("--until", "2026-11-19")[0] == 69


def test_an_unchanged_day_is_built_again_by_force(archive, report):
    archive.seal(b"x\n")

    assert [report("--date", DATE)[0], report("--date", DATE)[0], report("--date", DATE, "--force")[0]] == [0, 4, 0]


def spoil_truncated(archive, segment):
    path = archive.root / segment.path
    path.write_bytes(path.read_bytes()[:-20])
    return segment.path


def spoil_missing(archive, segment):
    (archive.root / segment.path).unlink()
    return segment.path


def spoil_unregistered(archive, segment):
    path = (archive.root / segment.path).with_name("stray-00000000000000000099.zst")
    path.write_bytes((archive.root / segment.path).read_bytes())
    return str(path.relative_to(archive.root))


def spoil_listing(archive, segment):
    lies = archive.manifest.read_bytes().replace(b'"lines":500', b'"lines":501')
    archive.manifest.write_bytes(lies)
    return segment.path


@pytest.mark.parametrize("spoil", [spoil_truncated, spoil_missing, spoil_unregistered, spoil_listing])
def test_what_is_wrong_is_named_in_the_verdict_and_exits_with_3(archive, report, tmp_path, spoil):
    archive.seal(b"fine\n" * 7, file="/fine")
    segment = archive.seal(b"".join(b"%d hosted line\n" % number for number in range(500)), file="/spoiled")
    path = spoil(archive, segment)
    archive.close()

    code, _ = report("--date", DATE, "--fail-on-gaps")

    assert code == 3
    shown = json.loads((tmp_path / "out" / DATE / "report.json").read_bytes())
    assert any(path in finding["names"] for finding in shown["verdict"]["findings"])
    assert shown["totals"]["lines"] in {7, 507}
    assert report("--date", DATE, "--fail-on-gaps")[0] == 3


def test_a_run_that_dies_between_the_tables_leaves_the_old_day(archive, report, tmp_path, monkeypatch):
    archive.seal(b"x\n")
    assert report("--date", DATE)[0] == 0
    archive.seal(b"y\n", file="/more")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(build_tables.TableBuilder, "write_run", killed)
    assert report("--date", DATE)[0] == 130

    assert [row["file"] for row in table_of(tmp_path / "out", "file_daily")] == ["/var/log/app.log"]
    monkeypatch.undo()


def test_sql_reaches_the_tables_and_the_lines(archive, report, tmp_path, capsys):
    archive.seal(b"2026-11-20T10:00:00Z ERROR a, b\n2026-11-20T11:00:00Z INFO c\n")
    report("--date", DATE)
    named = ["--archive", str(archive.root), "--out", str(tmp_path / "out")]

    asked = "SELECT date, level, sum(lines) AS n FROM hourly GROUP BY ALL ORDER BY level"
    assert program.main(["query", asked, *named, "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ["date,level,n", f"{DATE},error,1", f"{DATE},info,1"]
    asked = "SELECT file, ts, line FROM lines WHERE line LIKE '%ERROR%'"
    assert program.main(["query", asked, *named, "--date", DATE, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": "/var/log/app.log",
        "ts": "2026-11-20T10:00:00Z",
        "line": "2026-11-20T10:00:00Z ERROR a, b",
    }


def test_sql_that_cannot_be_answered_is_reported_in_two_lines_and_its_log_is_there(archive, tmp_path):
    archive.seal(b"2026-11-20T10:00:00Z INFO c\n")
    (tmp_path / "out").mkdir()
    out = ["--archive", str(archive.root), "--out", str(tmp_path / "out")]
    place = {**os.environ, "TMPDIR": str(tmp_path)}

    asked = [sys.executable, "-m", "spark_analytics", "query", "SELECT CAST('x' AS INT)", *out]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False, env=place)

    error, hint = done.stderr.splitlines()
    assert done.returncode == 1
    assert "CAST_INVALID_INPUT" in error
    assert "CAST_INVALID_INPUT" in Path(hint.split()[-1]).read_text()


def test_overflow_checks_are_off_within_a_report_and_on_for_later_queries_of_the_session(
    archive, report, spark, monkeypatch
):
    archive.seal(b"x\n")
    archive.close()
    within = []
    groups_of = scanning.Scanner._scan

    def noted(self, *arguments):
        within.append(spark.conf.get("spark.sql.ansi.enabled"))
        return groups_of(self, *arguments)

    monkeypatch.setattr(scanning.Scanner, "_scan", noted)

    assert report("--date", DATE)[0] == 0
    assert (within, spark.conf.get("spark.sql.ansi.enabled")) == (["false"], "true")


def test_the_list_of_functions_is_requested_from_java_once(spark):
    assert spark._jvm.functions is spark._jvm.functions
    assert spark._jvm.functions.lit is spark._jvm.functions.lit


def test_compact_writes_the_lines_of_a_day_in_their_order(archive, report, spark, tmp_path, capsys):
    content = b"".join(b"2026-11-20T10:00:00Z line %d\n" % number for number in range(300))
    cut = content.index(b"line 100") - 21
    archive.seal(content[:cut], file="/a")
    archive.seal(content[cut:], file="/a")

    named = ["--archive", str(archive.root), "--out", str(tmp_path / "out"), "--date", DATE]
    assert program.main(["compact", *named]) == 0

    written = spark.read.parquet(capsys.readouterr().out.strip()).collect()
    assert "\n".join(row["line"] for row in written) == content.decode().removesuffix("\n")
