"""The documents name what exists."""

import ast
import dataclasses
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import written
from harness import documents
from harness.documents import DOCUMENTS

from shipper.main import GROUP
from shipper.manifest import Segment
from spark_analytics.tables import schemas

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
CONFORMANCE = TESTS / "conformance.tsv"
MISTAKES = TESTS / "mistakes.tsv"
ALERTS = DOCS / "operations" / "alerts.md"
HANDBOOK = DOCS / "operations" / "troubleshooting.md"
SCENARIOS = """
    1 2 3 4 5 6 7 8 9 10 12 13 14 15 16 16b 17 18 20 21 22 25 26 27 28 31 33 36 37 38 39 40 42 43 44
    47 49 50 52 54 55 56 57 61 62 63 64 65 66 67 68 71 72 73 74 75
    76 77 78 79 80
""".split()  # noqa: SIM905 - numbers read better than quotes
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_bytes())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_scenario_has_its_row_with_what_happens_and_tests_that_exist():
    _, *rows = [line.split("\t") for line in CONFORMANCE.read_text().splitlines()]
    assert [number for _, number, _, _ in rows if number] == SCENARIOS
    assert all(what.endswith(".") for _, _, what, _ in rows)
    tests = {test for *_, cell in rows for test in cell.split("; ") if not test.startswith("scenario: ")} - {"model"}
    named = [test.split("::") for test in sorted(tests)]
    assert not [f"{file}::{name}" for file, name in named if name not in names_in(TESTS / file)]


def test_every_safe_mistake_has_a_test_that_exists():
    _, *rows = [line.split("\t") for line in MISTAKES.read_text().splitlines()]
    named = [NAMED.findall(test) for *_, test in rows]
    assert len(rows) > 40
    assert all(named)
    tests = [each for found in named for each in found]
    assert not [f"{file}::{name}" for file, name in tests if name not in names_in(TESTS / file)]


@pytest.mark.parametrize("name", written.PAGES)
def test_what_a_program_writes_is_as_it_would_write_it_now(name: str) -> None:
    assert (DOCS / name).read_text() == written.PAGES[name](), "type: make docs"


LINK = re.compile(r"(?:\]\(|(?:href|src)=\")([^)\"#\s]*)(?:#([^)\"]+))?[)\"]")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
DOCUMENT_NAME = re.compile(r"\bdocs/[\w/-]+\.md\b")
NAMING = {".py", ".md", ".yml", ".yaml", ".conf", ".toml", ".service", ".sh"}
RULES = (ROOT / "deploy" / "prometheus" / "fshipper.rules.yml").read_text()


def anchors(document: Path) -> set[str]:
    """As GitHub makes them: lower case, words joined by hyphens, no other signs."""
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(document.read_text())
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=documents.name)
def test_every_link_between_documents_leads_somewhere(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text()):
        if "://" in target:
            continue
        there = document.parent / target if target else document
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_every_document_that_a_program_or_file_names_exists() -> None:
    folders = ("shipper", "producer", "consumer", "partitioner", "spark_analytics", "deploy", "tests", "bench")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in NAMING]
    named = {(file.name, name) for file in files for name in DOCUMENT_NAME.findall(file.read_text())}
    assert len(named) > 5
    assert not [(file, name) for file, name in named if not (ROOT / name).exists()]


def test_every_command_is_on_the_page_of_commands() -> None:
    page = (DOCS / "reference" / "commands.md").read_text()
    verbs = {entry.name for entry in entry_points(group=GROUP)}
    assert len(verbs) > 10
    assert not {verb for verb in verbs if not re.search(rf"^\| .*`(?:fshipper )?{verb}\b", page, re.MULTILINE)}


def test_every_header_is_on_the_page_of_the_wire_format() -> None:
    page = (DOCS / "reference" / "wire-format.md").read_text()
    headers = set(re.findall(r'"(Log-\w+|Shipper-\w+)"', (ROOT / "shipper" / "codec.py").read_text()))
    assert len(headers) > 8
    assert not {header for header in headers if f"`{header}" not in page}


def test_every_field_of_a_manifest_line_is_on_the_page_of_the_archive_format() -> None:
    page = (DOCS / "reference" / "archive-format.md").read_text()
    rows = "\n".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    assert {field.name for field in dataclasses.fields(Segment)} == set(re.findall(r"`(\w+)`", rows))


def test_every_table_and_column_of_the_report_is_on_the_page_of_tables() -> None:
    page = (DOCS / "reference" / "tables.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| `([\w ]+)` \|$", page, re.MULTILINE))
    assert {name: columns.split() for name, columns in rows.items()} == {
        name: schema.fieldNames() for name, schema in schemas.TABLES.items()
    }


def test_every_alert_has_a_section_with_the_next_step_and_links_to_it() -> None:
    sections = re.findall(
        r"^## (\w+)\n\n(?:Critical|Warning): (.+?)(?=\n\n## |\Z)", ALERTS.read_text(), re.MULTILINE | re.DOTALL
    )
    alerts = re.findall(r"- alert: (\w+)", RULES)
    assert len(alerts) > 10
    assert [name for name, _ in sections] == alerts
    assert not [name for name, text in sections if not re.search(r"\n\* Check .*\n\* Next: \[", text, re.DOTALL)]
    linked = re.findall(r'runbook_url: "https://\S+?/(docs/[\w/]+\.md)#(\w+)"', RULES)
    assert linked == [("docs/operations/alerts.md", alert.lower()) for alert in alerts]


def test_every_log_event_that_the_handbook_names_exists() -> None:
    handbook = HANDBOOK.read_text() + ALERTS.read_text()
    known = {name for file in (ROOT / "shipper" / "events").glob("*.py") for name in names_in(file)}
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", handbook))
    reasons = {"archive_changed"}  # of a gap, not of the log
    assert not {name for name in named if not name.startswith(("fshipper_", "max_"))} - known - reasons
