"""An uninterrupted run of a source's bytes in a file is one row of the journal, whatever happens in between."""

from pathlib import Path

import pytest

from consumer.archive.journal import Journal
from consumer.model import Changes, Extent, OpenFile, Position
from shipper.layout import FileKey
from shipper.manifest import SourceSpan
from shipper.model import Span

FILE = OpenFile(path="a", key=FileKey("2026-11-20", 0, "web1", "/a"))
ONE, TWO = "00000000000000a1", "00000000000000a2"


@pytest.fixture
def journal(tmp_path: Path):
    journal = Journal(tmp_path / "journal.sqlite")
    journal.register([FILE])
    yield journal
    journal.close()


def grow(journal: Journal, *spans: tuple[str, int, int], path: str = "a") -> None:
    extents = [Extent(path, source, Span(start, end)) for source, start, end in spans]
    journal.commit(Changes(position=Position(applied=1), extents=extents))


def runs(*spans: tuple[str, int, int]) -> tuple[SourceSpan, ...]:
    return tuple(SourceSpan(source=source, start=start, end=end) for source, start, end in spans)


def test_what_continues_a_run_makes_it_longer_and_what_does_not_begins_another(journal):
    grow(journal, (ONE, 0, 10))
    grow(journal, (ONE, 10, 20), (TWO, 5, 6))
    grow(journal, (ONE, 30, 40), (TWO, 6, 7))
    grow(journal, (ONE, 40, 50))
    assert journal.spans("a") == runs((ONE, 0, 20), (TWO, 5, 7), (ONE, 30, 50))


def test_several_runs_of_a_source_in_one_batch_are_each_a_row(journal):
    grow(journal, (ONE, 0, 10))
    grow(journal, (ONE, 10, 20), (ONE, 30, 40))
    grow(journal, (ONE, 40, 50))
    assert journal.spans("a") == runs((ONE, 0, 20), (ONE, 30, 50))


def test_a_run_continues_after_a_restart(journal):
    grow(journal, (ONE, 0, 10), (TWO, 0, 5))
    journal.reload()
    grow(journal, (ONE, 10, 20))
    assert journal.spans("a") == runs((ONE, 0, 20), (TWO, 0, 5))


def test_a_file_that_is_begun_again_under_the_same_name_has_runs_of_its_own(journal):
    grow(journal, (ONE, 0, 10))
    sealing = journal.begin_sealing(journal.files["a"], "date=2026-11-20/a-00000000000000000001.zst")
    journal.register([FILE])
    grow(journal, (ONE, 10, 20))
    assert journal.spans(sealing.path) == runs((ONE, 0, 10))
    assert journal.spans("a") == runs((ONE, 10, 20))


def test_a_file_that_was_forgotten_and_is_begun_again_has_runs_of_its_own(journal):
    grow(journal, (ONE, 0, 10))
    journal.forget(journal.files["a"])
    journal.register([FILE])
    grow(journal, (ONE, 10, 20))
    assert journal.spans("a") == runs((ONE, 10, 20))


def test_runs_that_are_not_remembered_any_more_are_found(journal, monkeypatch):
    monkeypatch.setattr("consumer.archive.journal.MAX_CACHED", 0)
    monkeypatch.setattr("consumer.archive.journal.MAX_CACHED_RUNS", 0)
    for start in range(0, 50, 10):
        grow(journal, (ONE, start, start + 10), (TWO, start, start + 10))
    assert journal.spans("a") == runs((ONE, 0, 50), (TWO, 0, 50))
