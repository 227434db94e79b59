"""Reports of producers on their files, compared with the journals."""

import contextlib
from pathlib import Path

import pytest

from consumer.archive.finding import Weight
from consumer.archive.journal import Journal
from consumer.archive.journal_snapshot import JournalLocation, JournalSnapshots
from consumer.audit.producer_comparison import HostComparison, ProducerReports, compare
from consumer.model import ArchivedSource, Changes, Position
from shipper.control import SourceMark

HOST = "web1.example.net"
LOGS_0 = JournalLocation("logs", 0)


@pytest.fixture
def journals(tmp_path: Path):
    """A journal that waits for message 10 and has 1,000 bytes of one source."""
    with contextlib.closing(Journal(tmp_path / "logs.p0.sqlite")) as journal:
        known = ArchivedSource(id="a1", host=HOST, file="/var/log/app.log", origin=0, watermark=1000, crc=0)
        position = Position(applied=9, applied_ns=1, resume=10)
        journal.commit(Changes(position=position, sources={known.key: known}))
    with JournalSnapshots(tmp_path) as copies:
        yield copies


def mark(source: str = "a1", **more: int) -> SourceMark:
    numbers = {"origin": 0, "offset": 1000, "size": 1000, "archived": 1000, "elsewhere": 0} | more
    return SourceMark(source, "/var/log/app.log", **numbers)


def said_of(
    journals: JournalSnapshots, *marks: SourceMark, last: int = 9
) -> tuple[HostComparison, list[tuple[Weight, int]]]:
    (host,), findings = compare(ProducerReports({HOST: marks}, {LOGS_0: last}), journals)
    return host, [(finding.weight, finding.octets) for finding in findings]


def test_a_host_whose_every_acknowledged_byte_is_archived_is_complete(journals: JournalSnapshots) -> None:
    host, findings = said_of(journals, mark(), mark(size=1200))
    assert (host.unshipped, host.waiting, host.missing, findings) == (200, 0, 0, [])
    assert host.text == "2 files, 200 B not shipped yet"


def test_what_no_stream_holds_any_more_is_missing_and_what_one_holds_waits(journals: JournalSnapshots) -> None:
    host, findings = said_of(journals, mark(offset=1300))
    assert (host.waiting, host.missing, findings) == (0, 300, [(Weight.DAMAGE, 300)])
    host, findings = said_of(journals, mark(offset=1300), last=10)
    assert (host.waiting, host.missing, findings) == (300, 0, [(Weight.NOTE, 300)])


def test_a_source_that_the_journal_does_not_know_is_missing_from_its_origin_on(journals: JournalSnapshots) -> None:
    assert said_of(journals, mark("b2", origin=900, archived=0))[1] == [(Weight.DAMAGE, 100)]
    assert said_of(journals, mark("b2", origin=1000, archived=0))[1] == []


def test_what_another_archive_holds_is_not_missing_in_this_one(journals: JournalSnapshots) -> None:
    assert said_of(journals, mark("b2", archived=0, elsewhere=1000))[1] == []
    assert said_of(journals, mark(offset=1500, elsewhere=1200))[1] == [(Weight.DAMAGE, 300)]


def test_a_journal_that_lacks_what_its_collector_had_reported_is_found_whatever_the_stream_holds(
    journals: JournalSnapshots,
) -> None:
    assert said_of(journals, mark(offset=1500, archived=1400), last=99)[1] == [(Weight.DAMAGE, 400), (Weight.NOTE, 500)]


def test_a_missing_answer_and_a_missing_journal_are_reported_and_are_no_damage(
    journals: JournalSnapshots, tmp_path: Path
) -> None:
    (host,), findings = compare(ProducerReports({HOST: None}, {}), journals)
    assert (host.text, findings) == ("no producer answers", [])
    (tmp_path / "empty").mkdir()
    with JournalSnapshots(tmp_path / "empty") as nothing:
        host, found = said_of(nothing, mark())
        assert (host.missing, found) == (0, [])
