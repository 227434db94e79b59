import dataclasses
import json

import pytest
from conftest import DATE

from shipper import manifest
from shipper.errors import Permanent
from spark_analytics import io


def rows_by_file(spark, out):
    table = spark.read.parquet(str(out / "tables" / "audit" / f"date={DATE}"))
    return {row["file"]: row for row in table.collect()}


def test_the_audit_names_each_log_file_whose_account_does_not_add_up(archive, spark, tmp_path):
    archive.seal(b"fine\n", file="/fine")
    archive.seal(b"a\nb\n", file="/gap", gaps=(archive.gap(10, 110), archive.gap(200, 205)))
    lost = archive.seal(b"lost\n" * 3, file="/lost")
    (archive.root / lost.path).unlink()
    archive.seal(b"other\n", file="/differs", lines=7, bytes_raw=99)
    short = archive.seal(b"last newline lost\n", file="/short", codec="none")
    (archive.root / short.path).write_bytes(b"last newline lost")
    (archive.root / lost.path).with_name("stray%7Ename-00000000000000000099.zst").write_bytes(b"never read")
    (archive.root / lost.path).with_name("_open-app").write_bytes(b"being written")
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    rows = rows_by_file(spark, tmp_path / "out")
    assert {file: row["status"] for file, row in rows.items()} == {
        "/fine": "complete",
        "/gap": "gap",
        "/lost": "missing",
        "/differs": "differs",
        "/short": "differs",
        "stray%7Ename-00000000000000000099.zst": "unregistered",
    }
    assert rows["/gap"]["gap_bytes"] == 105
    assert (rows["/lost"]["lines_manifest"], rows["/lost"]["lines_counted"]) == (3, 0)
    assert made.audit.files == 5
    assert made.audit.files_unregistered == 1
    assert [finding.state.value for finding in made.verdict.findings] == ["damaged"] * 3 + ["gaps", "open"]
    assert "1 segment listed but not on disk" in [finding.text for finding in made.verdict.findings]
    assert made.totals.lines == 1 + 2 + 1 + 0


def test_the_last_manifest_line_of_a_path_holds_and_a_torn_one_is_ignored_with_a_note(archive, spark, tmp_path):
    segment = archive.seal(b"x\ny\n")
    archive.register(dataclasses.replace(segment, duplicates=3))
    with archive.manifest.open("ab") as lines:
        lines.write(manifest.to_line(segment)[:50])
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    assert made.totals.lines == 2
    assert made.audit.duplicates == 3
    texts = [finding.text for finding in made.verdict.findings]
    assert "1 manifest cut off in the last line, which is ignored" in texts
    assert "1 manifest line repeated for the same path; the last one holds" in texts


def test_a_day_is_open_until_every_collector_has_closed_it(archive, spark, tmp_path):
    archive.seal(b"x\n")

    made = archive.reported(spark, tmp_path / "out")

    assert made.verdict.state.value == "open"
    assert made.verdict.headline == "Day not closed yet"
    shown = json.loads((tmp_path / "out" / DATE / "report.json").read_bytes())
    assert (shown["v"], shown["verdict"]["state"]) == (1, "open")


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_truncated_segment_is_one_sentence_that_names_the_file(archive, spark, tmp_path, codec):
    content = bytes(range(256)) * 4_000
    segment = archive.seal(content, codec=codec, file="/var/log/a~b.log")
    path = archive.root / segment.path
    path.write_bytes(path.read_bytes()[:-40])

    with pytest.raises(Permanent) as caught, io.explained(tmp_path / "spark.log"):
        archive.reported(spark, tmp_path / "out")

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "spark.log").read_text()


def test_a_segment_of_zeros_in_its_manifest_fields_neither_divides_nor_crashes(archive, spark, tmp_path):
    archive.seal(b"", bytes_stored=0)
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    assert made.totals.lines == made.totals.bytes == 0
    assert made.verdict.state.value == "complete"
