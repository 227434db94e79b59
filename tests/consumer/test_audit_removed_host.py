"""What was removed or changed in an archive with all its records: the producers still know it."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from auditing import LINES, audit
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from test_audit_sums import MALLORY, ROOT, made_anew

ONE, TWO = "web1.example.net", "web2.example.net"


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer):
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        yield fleet


def journal(fleet: Fleet) -> Path:
    (path,) = fleet.directory.glob("state/collector/*/*.sqlite")
    return path


def remove(fleet: Fleet, host: str) -> None:
    """A host's days, its manifest lines and its rows in the journal."""
    for path in fleet.archive.glob(f"date=*/partition=*/host={host}"):
        shutil.rmtree(path)
    for path in fleet.archive.glob("_manifest/date=*/*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if host.encode() not in line))


def test_a_removed_host_is_named_by_its_producer_and_a_changed_line_by_both_sums(
    fleet: Fleet, natsd: NatsServer, tmp_path: Path
) -> None:
    collector = fleet.consume()
    producers = []
    for host in (ONE, TWO):
        path = tmp_path / host / "app.log"
        path.parent.mkdir()
        path.write_bytes(LINES)
        producers.append(fleet.start("produce", str(path), HOSTNAME=host, SHIPPER_STATE=str(path.parent / "state")))
    arguments = (str(fleet.archive), "--state", str(tmp_path / "state"))
    asked = (*arguments, "--hosts", "--url", natsd.url)
    for host in (ONE, TWO):
        until(lambda: fleet.archived(host, tmp_path / host / "app.log") == LINES)  # noqa: B023

    def is_complete() -> bool:
        found = audit(*asked).found
        return found["complete"] and found["compared"]["producers"] == 2 * len(LINES)

    until(is_complete, what="the producers' sums are those of the archive")
    assert collector.stop() == 0
    fleet.drain("--seal")
    assert audit(*asked).code == 0
    segment = next(each for each in fleet.segments() if each.host == ONE)
    made_anew(fleet.archive, segment.path, MALLORY, ROOT)
    result = audit(*asked)
    (changed,) = (each for each in result.found["findings"] if each["kind"] == "different_sum")
    assert (result.code, changed["host"], changed["path"]) == (2, ONE, segment.path)
    assert "differs from the journal" in changed["text"]
    assert "differs from the producer's mark" in changed["text"]
    made_anew(fleet.archive, segment.path, ROOT, MALLORY)

    until(lambda: audit(*asked).found["hosts"][1]["sources"] == 1)
    remove(fleet, TWO)
    assert "missing_bytes" in audit(*arguments).kinds  # the journal has it still
    with closing(sqlite3.connect(journal(fleet))) as database, database:
        database.execute("DELETE FROM sources WHERE host = ?", (TWO,))
    assert audit(*arguments).code == 0
    result = audit(*asked)
    gone = next(each for each in result.found["findings"] if each["weight"] == "damage")
    assert (result.code, gone["host"], gone["kind"]) == (2, TWO, "producer")
    assert result.found["hosts"][1]["name"] == TWO
    assert result.found["hosts"][1]["forgotten"] == len(LINES)
    assert audit(*asked, "--host", TWO).code == 2  # nothing of it is in the archive, and its producer knows better
    for producer in producers:
        producer.stop()
    silent = audit(*asked)
    assert any("no producer answers" in text for text in silent.notes)
