"""The documents name what exists."""

import ast
import re
from pathlib import Path

import pytest
import written

TESTS = Path(__file__).parent
CONFORMANCE = TESTS.parent / "docs" / "conformance.md"
SCENARIOS = """
    1 2 3 4 5 6 7 8 9 10 12 13 14 15 16 16b 17 18 20 21 22 25 26 27 28 31 33 36 37 38 39 40 42 43 44
    47 49 50 52 54 55 56 57 61 62 63 64 65 66 67 68 71 72 73 74 75
    76 77 78 79 80
""".split()  # noqa: SIM905 - numbers read better than quotes
ROW = re.compile(r"^\| (\d+b?) \| (.+) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_bytes())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_scenario_has_its_row_with_what_happens_and_a_test():
    rows = ROW.findall(CONFORMANCE.read_text())
    assert [number for number, _, _ in rows] == SCENARIOS
    assert not [number for number, _, tests in rows if not (NAMED.search(tests) or tests == "model")]


def test_every_test_that_the_conformance_table_names_exists():
    named = NAMED.findall(CONFORMANCE.read_text())
    assert len(named) > len(SCENARIOS)
    assert not [f"{file}::{name}" for file, name in named if name not in names_in(TESTS / file)]


@pytest.mark.parametrize("name", written.PAGES)
def test_what_a_program_writes_is_as_it_would_write_it_now(name: str) -> None:
    assert (CONFORMANCE.parent / name).read_text() == written.PAGES[name](), "type: make docs"
