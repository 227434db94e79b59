"""Documents contain no word of the list of words that mislead."""

from pathlib import Path

import pytest
from documents import DOCUMENTS, ROOT, name
from plain_english import WORDS, findings

REWRITTEN_LATER = {
    "docs/development/structure.md",
}
"""Pages that still contain such words. A page that is clean is removed from this list."""
README_WORDS = 900
"""Maximum words of README.md before "Read on"."""


@pytest.mark.parametrize("document", [*DOCUMENTS, *sorted((ROOT / "deploy").rglob("*.md"))], ids=name)
def test_a_document_contains_no_word_that_misleads(document: Path) -> None:
    found = findings(document.read_text())
    if name(document) in REWRITTEN_LATER:
        assert found, f"{name(document)} is clean: remove it from REWRITTEN_LATER"
    else:
        assert not found, "\n".join(f"{name(document)}:{each.line}: {each.word!r}: {each.write}" for each in found)


def test_the_list_names_existing_documents() -> None:
    assert {path for path in REWRITTEN_LATER if (ROOT / path).exists()} == REWRITTEN_LATER


def test_the_readme_is_short() -> None:
    before, heading, _ = (ROOT / "README.md").read_text().partition("\n## Read on\n")
    assert heading
    assert len(before.split()) < README_WORDS


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
