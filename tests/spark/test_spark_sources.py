"""The known numbers of real logs: the 16 Loghub samples and two web logs, through one day's tables."""

from collections import Counter
from pathlib import Path

import pytest
from day_archives import Archive, table_of

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SYSTEMS = sorted((DATA / "loghub").glob("*.log"))

pytestmark = pytest.mark.skipif(not SYSTEMS, reason="the samples are not here")


@pytest.fixture(scope="module")
def sources(spark, tmp_path_factory):
    """(archive, out, facts) of all samples; each host has one file, bytes as they are."""
    root = tmp_path_factory.mktemp("sources")
    archive = Archive(root / "archive")
    archive.root.mkdir()
    for path in [*SYSTEMS, *sorted((DATA / "web").glob("*.log"))]:
        archive.seal(
            path.read_bytes(), file=f"/var/log/{path.name}", host=path.stem.lower(), partition=len(path.stem) % 3
        )
    archive.close()
    return archive, root / "out", archive.reported(spark, root / "out")


def test_totals_are_those_of_the_sources(sources):
    archive, out, facts = sources
    rows = {row["file"]: (row["lines"], row["bytes"]) for row in table_of(out, "file_daily")}

    assert rows == {file: counts for (_, _, file), counts in archive.counts.items()}
    assert (facts.totals.lines, facts.totals.bytes) == tuple(map(sum, zip(*archive.counts.values(), strict=True)))
    assert facts.completeness.state.value == "complete"


def test_every_line_has_a_time(sources):
    _, out, _ = sources

    assert {row["file"]: row["no_ts_lines"] for row in table_of(out, "file_daily") if row["no_ts_lines"]} == {}


def test_failed_passwords_are_counted_by_address(sources):
    _, out, facts = sources
    failed: Counter[str] = Counter()
    for row in table_of(out, "auth_daily"):
        if row["kind"] == "failed_password":
            failed[row["remote"]] += row["n"]

    assert (failed.total(), len(failed)) == (519, 23)
    assert [(row["user"], row["remote"]) for row in table_of(out, "auth_daily") if row["kind"] == "odd_name"] == [
        (" 0101", "5.188.10.180")
    ]
    assert failed.most_common(1) == [("183.62.140.253", 286)]
    assert facts.auth.remotes == 23


def test_requests_are_counted_by_status(sources):
    _, out, facts = sources
    found = {row["key"]: row["n"] for row in table_of(out, "access_top") if row["kind"] == "status"}

    assert found == {"200": 9126, "304": 445, "404": 213, "301": 164, "206": 45, "500": 3, "403": 2, "416": 2}
    assert facts.web.requests == 10_000


def test_levels_are_the_known_ones(sources, spark):
    """Of 2,000 rows each: a last line without a newline has a level, though `wc` does not count it."""
    _, out, _ = sources
    rows = {row["file"]: (row["err"], row["warn"]) for row in table_of(out, "file_daily")}

    told: Counter[str] = Counter()
    for row in spark.read.parquet(str(out / "tables" / "hourly")).where("file LIKE '%Zookeeper%'").collect():
        told[row["level"]] += row["lines"]
    assert told == {"info": 669, "warn": 1318, "error": 13}
    assert rows["/var/log/Zookeeper_2k.log"] == (13, 1318)
    assert rows["/var/log/HDFS_2k.log"] == (0, 80)
    assert rows["/var/log/Apache_2k.log"] == (595, 0)


def test_a_pattern_that_is_reported_has_a_line_as_it_was(sources):
    _, out, _ = sources
    examples = {row["text"]: row["example"] for row in table_of(out, "fingerprints") if row["example"]}

    assert len(examples) > 90
    known = b"\n".join(path.read_bytes() for path in [*SYSTEMS, *(DATA / "web").glob("*.log")])
    assert all(example.encode()[:100] in known for example in examples.values())
