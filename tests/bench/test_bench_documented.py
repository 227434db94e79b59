"""The document of the figures names every case, and every line that must hold has one."""

from pathlib import Path

import pytest

from bench import CASES, chosen, parsed

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "development" / "benchmarks.md").read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_has_its_requirement_and_its_figures(case):
    requirements, _, figures = DOCUMENT.partition("## Figures")
    assert f"| `{case.name}`" in requirements
    assert f"| `{case.name}`" in figures


def test_without_a_word_all_cases_run_but_the_long_ones():
    quick = {case.name for case in chosen(parsed([]))}
    assert quick == {case.name for case in CASES if not case.is_long}
    assert {case.name for case in chosen(parsed(["--long"]))} == {case.name for case in CASES}
    assert [case.name for case in chosen(parsed(["--only", "growth"]))] == ["growth"]
