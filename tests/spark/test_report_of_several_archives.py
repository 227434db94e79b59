"""Collectors that write an archive each: one report over all of them, by real Spark, and each line counts once."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from day_archives import DATE, Archive, table_of, totals_of
from test_spark_nightly import report  # noqa: F401 - a fixture

from shipper import layout
from shipper.manifest import SourceSpan
from spark_analytics import __main__ as program
from spark_analytics.archive import inventory

FILE = "/var/log/app.log"
LINES = b"".join(b"2026-11-20T05:17:00Z INFO line %d of one host\n" % number for number in range(40))
MORE = b"".join(b"2026-11-20T06:17:00Z WARN line %d of one host\n" % number for number in range(7))


@pytest.fixture
def other(archive, tmp_path) -> Archive:
    """The archive of a second collector on the same volume."""
    root = tmp_path / "other"
    root.mkdir()
    (root / layout.IDENTITY).write_text('{"v": 1, "id": "00c0ffee00c0ffef"}\n')
    return dataclasses.replace(archive, root=root, counts={})


def span(start: int, end: int, source: str = "00000000000000a1") -> dict:
    return {"spans": (SourceSpan(source=source, start=start, end=end),)}


def shown(tmp_path: Path) -> dict:
    return json.loads((tmp_path / "out" / DATE / "report.json").read_bytes())


def test_one_report_covers_two_archives_and_a_host_in_both_counts_once(
    archive, other, report, spark, tmp_path  # noqa: F811
):  # fmt: skip
    first = archive.seal(LINES, **span(0, len(LINES)))
    second = other.seal(MORE, **span(len(LINES), len(LINES) + len(MORE)))
    assert first.path == second.path  # both have the first segment of that partition, host and file
    other.seal(LINES, host="web2", partition=1, codec="gzip")
    archive.close()
    other.close()

    code, printed = report("--archive", str(other.root), "--archive", str(other.root), "--date", DATE)

    assert code == 0, printed
    made = shown(tmp_path)
    assert (made["completeness"]["state"], made["completeness"]["hosts"], made["totals"]["lines"]) == (
        "complete",
        2,
        87,
    )
    assert totals_of(spark, tmp_path / "out") == {
        (0, "web1", FILE): (47, len(LINES) + len(MORE)),
        (1, "web2", FILE): (40, len(LINES)),
    }
    assert {row["status"] for row in table_of(tmp_path / "out", "audit")} == {"complete"}
    assert report("--archive", str(other.root), "--date", DATE)[0] == 4


def test_a_quoted_glob_names_the_archives_of_a_volume_and_queries_read_the_lines_of_all(
    archive, other, report, monkeypatch, tmp_path, capsys  # noqa: F811
):  # fmt: skip
    archive.seal(LINES)
    other.seal(MORE)
    (tmp_path / "lost+found").mkdir()
    monkeypatch.setenv("SHIPPER_DIRECTORY", f"{tmp_path}/*")

    assert (
        program.main(["query", "select count(*) as n from lines", "--date", DATE, "--out", str(tmp_path / "out")]) == 0
    )

    assert "47" in capsys.readouterr().out


def test_an_open_day_names_the_collector_and_its_archive(archive, other, report, tmp_path):  # noqa: F811
    archive.seal(LINES)
    other.seal(MORE)
    archive.close()

    report("--archive", str(other.root), "--date", DATE)

    assert "other/collector-a" in json.dumps(shown(tmp_path)["verdict"])


def test_a_copy_of_an_archive_adds_nothing(archive, report, tmp_path):  # noqa: F811
    archive.seal(LINES, **span(0, len(LINES)))
    archive.close()
    shutil.copytree(archive.root, tmp_path / "copy")

    assert report("--archive", str(tmp_path / "copy"), "--date", DATE, "--fail-on-gaps")[0] == 0

    made = shown(tmp_path)
    assert (made["completeness"]["state"], made["totals"]["lines"]) == ("complete", 40)


def test_an_archive_without_the_day_adds_nothing_and_no_archive_at_all_is_an_error(
    archive, other, report, tmp_path  # noqa: F811
):  # fmt: skip
    archive.seal(LINES)
    archive.close()

    assert report("--archive", str(other.root), "--date", DATE)[0] == 0
    assert shown(tmp_path)["totals"]["lines"] == 40
    assert report("--archive", str(other.root), "--date", "2026-11-01")[0] == 69
    assert report("--archive", str(tmp_path / "out"), "--date", DATE)[0] == 78


def test_a_host_whose_few_bytes_hold_too_much_text_is_left_out_and_named(archive, report, tmp_path):  # noqa: F811
    archive.seal(LINES)
    large = inventory.FREE_TEXT_BYTES + 1
    archive.seal(b"x\n" * 1000, host="bomb", bytes_raw=large, lines=large // 2)
    archive.seal(MORE, host="large", bytes_raw=len(MORE))
    archive.close()

    assert report("--date", DATE)[0] == 0

    made = shown(tmp_path)
    (finding,) = [each for each in made["verdict"]["findings"] if each["kind"] == "left_out_host"]
    assert (finding["names"], finding["state"]) == (["bomb"], "attention")
    assert (made["totals"]["lines"], made["completeness"]["state"]) == (47, "complete")
