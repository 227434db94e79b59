"""The rings of tests: what decides them names tests that exist, and sees what a test starts."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import rings
from harness.natsd import running


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if hasattr(node, "name")}


@pytest.mark.parametrize("name", [*rings.LONG, *rings.DAILY, *rings.SLOW])
def test_each_name_in_the_tables_is_a_test(name: str) -> None:
    path, _, test = name.partition("::")
    assert (rings.TESTS / path).is_file()
    assert not test or test.partition("[")[0] in functions_of(rings.TESTS / path)


def test_no_test_is_empty(request: pytest.FixtureRequest) -> None:
    def empty() -> None:
        """Only a docstring."""

    async def empty_async() -> None: ...

    codes = {each.__code__.co_code for each in (empty, empty_async)}
    assert [item.nodeid for item in request.session.items if item.function.__code__.co_code in codes] == []


@pytest.mark.parametrize("name", rings.DAILY)
def test_each_exception_is_below_a_path_that_is_left_out(name: str) -> None:
    path, _, test = name.partition("::")
    assert path in rings.LONG or f"{path}::{test.partition('[')[0]}" in rings.LONG


def test_a_test_that_starts_no_process_is_in_the_smallest_ring(request: pytest.FixtureRequest) -> None:
    assert rings.ring(request.node) == rings.CHECK


def test_a_process_that_a_helper_starts_is_seen(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    assert rings.ring(request.node) == rings.TEST
    with running(tmp_path / "natsd"):
        pass


def test_a_process_that_a_fixture_starts_is_seen(request: pytest.FixtureRequest, natsd: object) -> None:
    assert rings.ring(request.node) == rings.TEST


def test_tests_of_a_group_run_on_one_worker(tmp_path: Path) -> None:
    """A version of pytest that pytest-xdist does not know drops the groups without a word."""
    (tmp_path / "test_it.py").write_text(
        "import os, pathlib, pytest\n"
        "@pytest.mark.xdist_group('one')\n"
        "@pytest.mark.parametrize('n', range(20))\n"
        "def test_it(n, tmp_path_factory):\n"
        f"    pathlib.Path({str(tmp_path)!r}, os.environ['PYTEST_XDIST_WORKER']).touch()\n"
    )
    command = f"-m pytest -q -n 2 --dist loadgroup -c {os.devnull} -p no:cacheprovider --rootdir".split()
    subprocess.run([sys.executable, *command, tmp_path, tmp_path / "test_it.py"], check=True, capture_output=True)
    assert len(list(tmp_path.glob("gw*"))) == 1
