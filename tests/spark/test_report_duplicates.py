"""Bytes that the archive holds twice: the report states it, and its totals are those of the source after the repair."""

import contextlib
import dataclasses
import io
import json

import pytest
from day_archives import DATE, Archive, table_of
from test_spark_nightly import report  # noqa: F401 - a fixture

from shipper.main import run as fshipper
from shipper.manifest import SourceSpan
from spark_analytics.archive import inventory
from spark_analytics.report import json_export

HOST, FILE, SOURCE = "web1", "/var/log/auth.log", "00000000000000a1"
LINES = b"".join(
    b"Nov 20 05:17:%02d web1 sshd[%d]: Failed password for root from 10.0.0.%d port 22 ssh2\n" % (n % 60, n, n % 7)
    for n in range(300)
)
HALF = LINES.index(b"\n", len(LINES) // 2) + 1


def sealed(archive: Archive, start: int, end: int, *, partition: int = 0, hour: int = 5, **other):
    span = SourceSpan(source=SOURCE, start=start, end=end)
    stored = f"{archive.date}T{hour:02d}:17:00.000001Z"
    return archive.seal(
        LINES[start:end], host=HOST, file=FILE, partition=partition, first_time=stored, spans=(span,), **other
    )


def shown(tmp_path, date: str = DATE) -> dict:
    return json.loads((tmp_path / "out" / date / "report.json").read_bytes())


def repaired(archive: Archive) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        assert fshipper(["audit", str(archive.root), "--repair-duplicates", "--yes"]) == 0, errors.getvalue()
        assert fshipper(["audit", str(archive.root)]) == 0


def failed_passwords(tmp_path, date: str = DATE) -> int:
    return sum(row["n"] for row in table_of(tmp_path / "out", "auth_daily", date) if row["kind"] == "failed_password")


@pytest.fixture
def twin(archive):
    """A day later in the same archive."""
    return dataclasses.replace(archive, date="2026-11-23", sequence=1000, counts={})


def test_a_source_in_two_partitions_is_red_until_it_is_repaired_and_then_the_totals_are_those_of_the_source(
    archive, report, tmp_path  # noqa: F811
):  # fmt: skip
    sealed(archive, 0, HALF)
    sealed(archive, HALF, len(LINES))
    sealed(archive, 0, len(LINES), partition=1, hour=9)
    archive.close()

    code, printed = report("--date", DATE, "--fail-on-gaps")

    assert code == 3
    assert f"The totals count {len(LINES):,} bytes and 300 lines twice" in printed.out
    assert "fshipper audit --repair-duplicates" in printed.out
    made = shown(tmp_path)
    whole = made["completeness"]
    assert (whole["state"], whole["doubled_bytes"], whole["doubled_lines"]) == ("doubled", len(LINES), 300)
    assert (made["verdict"]["state"], made["totals"]["lines"]) == ("doubled", 600)
    assert [row["doubled_bytes"] for row in table_of(tmp_path / "out", "audit")] == [0, len(LINES)]
    assert failed_passwords(tmp_path) == 600
    page = (tmp_path / "out" / DATE / "report.html").read_text()
    assert "counted twice" in page
    assert "fshipper audit --repair-duplicates" in page
    assert report("--date", DATE, "--fail-on-gaps")[0] == 3  # nothing changed, and it is red still

    repaired(archive)
    code, printed = report("--date", DATE, "--fail-on-gaps")  # not forced: its input changed

    assert code == 0, printed.out
    made = shown(tmp_path)
    assert (made["completeness"]["state"], made["completeness"]["doubled_bytes"]) == ("complete", 0)
    assert (made["totals"]["lines"], made["totals"]["bytes"]) == (300, len(LINES))
    assert (made["totals"]["hosts"], made["totals"]["files"], made["totals"]["partitions"]) == (1, 1, 1)
    assert failed_passwords(tmp_path) == 300
    assert report("--date", DATE)[0] == 4


def test_a_copy_on_a_later_day_makes_that_day_red_and_leaves_the_first_one_alone(
    archive, twin, report, tmp_path  # noqa: F811
):  # fmt: skip
    sealed(archive, 0, len(LINES))
    archive.close()
    assert report("--date", DATE, "--fail-on-gaps")[0] == 0
    sealed(twin, HALF, len(LINES), partition=1)
    twin.seal(b"another line\n", file="/other")
    twin.close()

    assert report("--since", DATE, "--until", twin.date, "--fail-on-gaps")[0] == 3
    assert report("--date", DATE)[0] == 4
    whole = shown(tmp_path, twin.date)["completeness"]
    assert (whole["doubled_bytes"], whole["state"]) == (len(LINES) - HALF, "doubled")

    repaired(archive)
    assert report("--date", DATE)[0] == 4
    assert report("--date", twin.date, "--fail-on-gaps")[0] == 0
    assert shown(tmp_path, twin.date)["totals"]["lines"] == 1


def test_a_day_of_nothing_but_second_copies_has_no_line_left(archive, twin, report, tmp_path):  # noqa: F811
    sealed(archive, 0, len(LINES))
    archive.close()
    sealed(twin, 0, len(LINES), partition=1)
    twin.close()
    repaired(archive)
    assert report("--date", twin.date, "--fail-on-gaps")[0] == 0
    made = shown(tmp_path, twin.date)
    assert (made["totals"]["lines"], made["totals"]["files"], made["completeness"]["segments"]) == (0, 0, 0)


def test_what_earlier_days_hold_is_found_by_host_and_source_whatever_was_merged_or_removed(archive, twin):
    part = sealed(archive, 0, HALF)
    sealed(archive, 0, len(LINES), replaces=(part.path,))
    sealed(twin, 0, len(LINES), partition=1)
    twin.seal(LINES, host="web2", file=FILE, spans=(SourceSpan(source=SOURCE, start=0, end=len(LINES)),))
    archive.manifest.write_bytes(archive.manifest.read_bytes() + b'{"source":"' + SOURCE.encode() + b'"}\n')

    def doubled() -> list[tuple[int, int]]:
        day = inventory.with_duplicates(archive.root, inventory.read_day(archive.root, twin.date))
        return [(each.segment.partition, each.bytes) for each in day.doubled]

    assert doubled() == [(1, len(LINES))]
    plain = inventory.read_day(archive.root, twin.date)
    assert inventory.with_duplicates(archive.root, plain).fingerprint != plain.fingerprint
    (archive.root / "_manifest/removed.jsonl").write_text(json.dumps({"v": 1, "date": DATE}) + "\n")
    assert doubled() == [(1, len(LINES))]
    (archive.root / f"date={DATE}").rename(archive.root / f".removed-date={DATE}")
    assert doubled() == []


def test_a_day_without_doubled_bytes_has_the_fingerprint_that_it_always_had(archive):
    sealed(archive, 0, HALF)
    sealed(archive, HALF, len(LINES))
    day = inventory.read_day(archive.root, DATE)
    assert inventory.with_duplicates(archive.root, day).fingerprint == day.fingerprint


def test_a_report_of_an_older_version_is_still_shown(archive, report, tmp_path):  # noqa: F811
    sealed(archive, 0, len(LINES))
    archive.close()
    report("--date", DATE)
    older = shown(tmp_path)
    for name in ("doubled_bytes", "doubled_lines"):
        del older["completeness"][name]
    assert json_export.from_text(json.dumps(older).encode(), "report.json").completeness.doubled_bytes == 0
