"""The document of the figures names every case, and every line that must hold has one."""

from pathlib import Path

import pytest
from bench import CASES, chosen, parsed

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "development" / "benchmarks.md").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_has_its_row_and_tells_what_it_means(case):
    assert f"| `{case.name}`" in DOCUMENT
    assert f"`{case.name}`" in DOCUMENT.partition("## What each number is")[2]


def test_without_a_word_all_cases_run_but_the_long_ones():
    quick = {case.name for case in chosen(parsed([]))}
    assert quick == {case.name for case in CASES if not case.is_long}
    assert {case.name for case in chosen(parsed(["--long"]))} == {case.name for case in CASES}
    assert [case.name for case in chosen(parsed(["--only", "growth"]))] == ["growth"]
