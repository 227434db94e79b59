"""Documents contain no word of the list of words that mislead."""

from collections.abc import Callable

import pytest
from harness.documents import DOCUMENTS, ROOT, name
from harness.plain_english import WORDS, findings, python_findings, remark_findings

README_WORDS = 900
"""Maximum words of README.md before "Read on"."""


def test_no_document_contains_a_word_that_misleads() -> None:
    documents = [*DOCUMENTS, ROOT / "CHANGELOG.md", *sorted((ROOT / "deploy").rglob("*.md"))]
    found = [(path, each) for path in documents for each in findings(path.read_text())]
    assert not found, "\n".join(f"{name(path)}:{each.line}: {each.word!r}: {each.write}" for path, each in found)


def test_the_readme_is_short() -> None:
    before, heading, _ = (ROOT / "README.md").read_text().partition("\n## Read on\n")
    assert heading
    assert len(before.split()) < README_WORDS


PROGRAMS = ("shipper", "producer", "consumer", "partitioner", "spark_analytics", "deploy")


@pytest.mark.parametrize(
    ("folder", "findings_of"),
    [*((each, python_findings) for each in PROGRAMS), *((each, remark_findings) for each in ("tests", "bench"))],
)
def test_docstrings_comments_and_messages_contain_no_word_that_misleads(folder: str, findings_of: Callable) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    found = [(path, each) for path in paths for each in findings_of(path.read_text())]
    assert not found, "\n".join(f"{name(path)}:{each.line}: {each.word!r}: {each.write}" for path, each in found)


@pytest.mark.parametrize(
    "source", ['"""Nobody reads it."""', "x = 1  # lies in memory", 'def f():\n    """It says."""']
)
def test_a_word_that_misleads_is_found_in_remarks(source: str) -> None:
    assert remark_findings(source)


def test_strings_of_a_test_are_no_remarks() -> None:
    assert not remark_findings('assert printed == "nobody says"')


@pytest.mark.parametrize(
    "source",
    [
        '"""Nobody reads it."""',
        "x = 1  # lies in memory",
        'print("host behind")',
        'print(f"{x} is behind {y}")',
        'X = 1\n"""What is told."""',
        'print("It is " "let " "go.")',
        'print("It is let "\n      f"go {1}.")',
    ],
)
def test_a_word_that_misleads_is_found_in_python(source: str) -> None:
    assert python_findings(source)


def test_names_and_keys_in_python_are_not_prose() -> None:
    assert not python_findings('behind = {"behind": 1}  # noqa: behind')


@pytest.mark.parametrize(
    "text",
    [
        "The collector purges behind the ack.",
        "Nobody writes it.",
        "The host is told,\nand asks again.",
        "The journal lies in the archive.",
        "A file that was\nlet go.",
        "At every look.",
        "The machine has moods.",
        "It sends what it has.",
        "By hand, and there is room.",
        "Beside the journal.",
        "Everything at once.",
    ],
)
def test_a_word_that_misleads_is_found(text: str) -> None:
    assert findings(text)


def test_every_pattern_is_tried_and_the_line_is_that_of_the_word() -> None:
    assert [each.line for each in findings("one\ntwo `nobody`\nNobody\n")] == [3]
    assert len({write for _, write in WORDS}) == len(WORDS)


@pytest.mark.parametrize(
    "text",
    [
        "The user `nobody` owns it, and ``let go`` is code.",
        "```sh\nls beside  # nobody\n```\nplain",
        "RE2 has no look-ahead and no look-behind.",
        "[the page](behind/nobody.md) <https://example.net/house>",
        "The warehouse handles hands-on outlooks, insiders and tellers once.",
    ],
)
def test_code_links_and_terms_are_not_prose(text: str) -> None:
    assert not findings(text)
