"""The table of situations is whole: each row is held by a test, many of them with real faults."""

from pathlib import Path

from harness.situations import situations

TESTS = Path(__file__).resolve().parent / "consumer"
REAL = (TESTS / "test_status_causes.py").read_text() + (TESTS / "test_search_selection.py").read_text()
JUDGED = (TESTS / "test_status_sentences.py").read_text()


def test_each_row_is_held_by_a_test_and_a_third_of_them_by_real_faults():
    names = list(situations())
    assert len(names) >= 40
    assert [name for name in names if f'"{name}"' not in REAL + JUDGED] == []
    assert len([name for name in names if f'"{name}"' in REAL]) >= len(names) / 3
