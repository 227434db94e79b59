import dataclasses
import json
import random

import pytest
from day_archives import DATE, table_of, totals_of

from shipper import manifest
from shipper.manifest import SourceSpan
from spark_analytics.archive import inventory


def rows_by_file(out):
    return {row["file"]: row for row in table_of(out, "audit")}


def test_the_audit_names_each_log_file_whose_account_does_not_add_up(archive, spark, tmp_path):
    archive.seal(b"fine\n", file="/fine")
    archive.seal(b"a\nb\n", file="/gap", gaps=(archive.gap(10, 110), archive.gap(200, 205)))
    left_out = dataclasses.replace(archive.gap(10, 110), reason="excluded")
    archive.seal(b"not all of it\n", file="/excluded", gaps=(left_out,))
    lost = archive.seal(b"lost\n" * 3, file="/lost")
    (archive.root / lost.path).unlink()
    archive.seal(b"other\n", file="/differs", lines=7, bytes_raw=99)
    short = archive.seal(b"last newline lost\n", file="/short", codec="none")
    (archive.root / short.path).write_bytes(b"last newline lost")
    (archive.root / lost.path).with_name("stray%7Ename-00000000000000000099.zst").write_bytes(b"never read")
    (archive.root / lost.path).with_name("_open-app").write_bytes(b"being written")
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    rows = rows_by_file(tmp_path / "out")
    assert {file: row["status"] for file, row in rows.items()} == {
        "/fine": "complete",
        "/gap": "gap",
        "/excluded": "complete",
        "/lost": "missing",
        "/differs": "differs",
        "/short": "differs",
        "stray%7Ename-00000000000000000099.zst": "unregistered",
    }
    assert rows["/gap"]["gap_bytes"] == 105
    assert (rows["/lost"]["lines_manifest"], rows["/lost"]["lines_counted"]) == (3, 0)
    assert made.completeness.state.value == "damaged"
    assert {trouble.kind for trouble in made.completeness.troubles} == {"missing", "differs", "unregistered", "gap"}
    assert made.totals.lines == 1 + 2 + 1 + 0 + 1


def test_the_last_manifest_line_of_a_path_holds_and_a_torn_one_is_ignored_with_a_note(archive, spark, tmp_path):
    segment = archive.seal(b"x\ny\n")
    archive.register(dataclasses.replace(segment, duplicates=3))
    with archive.manifest.open("ab") as lines:
        lines.write(manifest.to_line(segment)[:50])
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    assert made.totals.lines == 2
    assert made.completeness.duplicates == 3
    texts = " ".join(finding.text for finding in made.verdict.findings)
    assert "cut off" in texts


def test_a_day_is_open_until_every_collector_has_closed_it(archive, spark, tmp_path):
    archive.seal(b"x\n")

    made = archive.reported(spark, tmp_path / "out")

    assert made.completeness.state.value == "open"
    shown = json.loads((tmp_path / "out" / DATE / "report.json").read_bytes())
    assert (shown["v"], shown["completeness"]["state"]) == (2, "open")


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_truncated_segment_is_named_and_the_others_are_counted(archive, spark, tmp_path, codec):
    archive.seal(b"fine\n" * 3, file="/fine")
    segment = archive.seal(bytes(range(256)) * 4_000, codec=codec, file="/var/log/a~b.log")
    path = archive.root / segment.path
    path.write_bytes(path.read_bytes()[:-40])
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    (trouble,) = made.completeness.troubles
    assert (trouble.kind, trouble.path) == ("truncated", segment.path)
    assert made.totals.lines == 3
    assert made.completeness.lines_manifest == 3 + segment.lines
    assert made.completeness.state.value == "damaged"


def test_a_damaged_segment_of_the_right_size_is_found_by_the_scan_that_it_ends(archive, spark, tmp_path):
    archive.seal(b"fine\n" * 3, file="/fine")
    content = random.Random(6).randbytes(200_000)
    segments = [archive.seal(content, codec="gzip", file=f"/damaged{number}") for number in range(2)]
    for segment in segments:
        path = archive.root / segment.path
        stored = bytearray(path.read_bytes())
        stored[100_000] ^= 0xFF
        path.write_bytes(stored)
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    assert {trouble.path for trouble in made.completeness.troubles} == {segment.path for segment in segments}
    assert made.totals.lines == 3


def test_bytes_between_two_spans_of_a_source_that_no_gap_explains_are_an_offset_gap(archive, spark, tmp_path):
    def span(start, end):
        return (SourceSpan(source="00c0ffee00c0ffee", start=start, end=end),)

    archive.seal(b"0123\n", file="/torn", spans=span(0, 5))
    archive.seal(b"abcd\n", file="/torn", spans=span(12, 17))
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    row = rows_by_file(tmp_path / "out")["/torn"]
    assert (row["status"], row["offset_gap_bytes"]) == ("offset_gap", 7)
    assert made.completeness.state.value == "gaps"


def test_a_segment_of_zeros_in_its_manifest_fields_neither_divides_nor_crashes(archive, spark, tmp_path):
    archive.seal(b"", bytes_stored=0)
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    assert made.totals.lines == made.totals.bytes == 0
    assert made.completeness.state.value == "complete"


LINES = b"".join(b"%d a line\n" % number for number in range(500))
LIES = {
    "/line-too-many": {"lines": 501},
    "/line-too-few": {"lines": 499},
    "/byte-too-many": {"bytes_raw": len(LINES) + 1},
    "/byte-too-few": {"bytes_raw": len(LINES) - 1},
    "/three-bytes-too-many": {"bytes_raw": len(LINES) + 3},
    "/line-and-byte-too-few": {"lines": 499, "bytes_raw": len(LINES) - 1},
    "/stored-smaller": {"bytes_stored": 5},
}


def test_no_lie_of_a_manifest_makes_a_wrong_total(archive, spark, tmp_path):
    for file, lie in LIES.items():
        archive.seal(LINES, file=file, **lie)
    archive.seal(LINES[:-1], file="/cut", lines=507)
    archive.seal(b"\xef\xbb\xbf" + LINES, file="/marked", bytes_raw=9)
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    rows = rows_by_file(tmp_path / "out")
    assert {row["status"] for row in rows.values()} == {"differs"}
    assert totals_of(spark, tmp_path / "out") == archive.counts
    assert {file: (row["lines_counted"], row["bytes_counted"]) for file, row in rows.items()} == {
        file: counted for (_, _, file), counted in archive.counts.items()
    }
    assert made.totals.lines == 9 * 500 - 1


@pytest.mark.parametrize(
    "lie",
    [
        {"host": "web9"},
        {"partition": 4},
        {"partition": 1 << 40},
        {"file": "/other"},
        {"codec": "none"},
        {"codec": "lz4"},
        {"lines": -500},
        {"bytes_raw": 10**40},
        {"bytes_stored": "many"},
        {"duplicates": "some"},
        {"gaps": [{"source": "00c0ffee00c0ffee", "start": "0", "end": 9, "reason": "deleted"}]},
        {"path": "../../etc/passwd-00000000000000000009"},
    ],
    ids=lambda lie: "-".join(map(str, *lie.items()))[:40],
)
def test_a_manifest_line_that_contradicts_itself_vouches_for_nothing(archive, lie):
    segment = archive.seal(LINES, file="/var/log/a~b.log")
    listed = {**json.loads(manifest.to_line(segment)), **lie}
    archive.manifest.write_bytes(json.dumps(listed).encode() + b"\n")

    day = inventory.read_day(archive.root, DATE)

    assert day.manifests.segments == ()
    assert len(day.manifests.damaged) == 1
    assert day.unregistered == (segment.path,)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
@pytest.mark.parametrize(
    "file", ["/a b/%41:~x", "messages.log", "/" + "long" * 90, "/caf\udce9", "/_x.log", "/a-00000000000000000001.gz"]
)
def test_a_true_manifest_line_is_believed_whatever_the_file_is_called(archive, codec, file):
    segment = archive.seal(b"x\n", file=file, host="fe80::1", codec=codec)

    assert inventory.read_day(archive.root, DATE).present == (segment,)
