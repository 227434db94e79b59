"""`tail --grep` compares only lines that contain a byte string of every match: it selects the same lines."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.read.piece import Piece
from consumer.read.prefilter import every_line
from consumer.read.query import grep, parse

PATTERNS = [
    "timeout", "timeout|refused", "ki(ss|t)", "is+", "err(or)?s", "^GET", "OK$", "a.c", "[Kk]elvin", "İstanbul",
    "\\bok\\b", "(?:ab)+c", "ünï|xyz", "x*", "straße", "\\d+ms",
]  # fmt: skip
LETTERS = [*"abckisxKIS \r\t"]
WORDS_OF_ASCII = ["timeout", "TIMEOUT", "refused", "abc", "kit", "errors", "12ms", "k", "ok", "GET", "OK"]
BEYOND_ASCII = ["\u212aelvin", "ki\u017f\u017f", "\u0131s", "\u0130s", "Ünï", "STRASSE", "straße"]
WORDS = st.sampled_from([*LETTERS, *WORDS_OF_ASCII, *BEYOND_ASCII])
LINES = st.lists(
    st.one_of(st.lists(WORDS, max_size=6).map("".join).map(str.encode), st.binary(max_size=8)), max_size=12
)


@settings(max_examples=400, deadline=None)
@given(
    patterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3),
    lines=LINES,
    ignore_case=st.booleans(),
    matching=st.booleans(),
    ends=st.booleans(),
)
def test_the_same_lines_are_selected_as_by_comparing_each(
    patterns: list[str], lines: list[bytes], ignore_case: bool, matching: bool, ends: bool
) -> None:
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    piece = Piece(1, "web1", "/a.log", "a1", 100, text)
    query = grep(patterns, ignores_case=ignore_case, inverted=not matching)
    found = list(query.take(piece))
    query.finder = every_line
    assert found == list(query.take(piece))
    assert all(text[each.offset - 100 :].startswith(each.text) for each in found if each.offset is not None)


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "explained"),
    [
        ("timeout|refused", False, "lines with 'refused' OR 'timeout' are judged"),
        ("Time.*OUT", True, "lines with 'time' OR "),
        ("a|timeout", False, "every line is judged"),
        ("(?-i:timeout)", False, "every line is judged"),  # constructs that it does not know
        ("(?>timeout)", False, "every line is judged"),
    ],
)
def test_which_byte_strings_are_searched_for(pattern: str, ignore_case: bool, explained: str) -> None:
    assert explained in grep([pattern], ignores_case=ignore_case).explained


def test_a_word_in_any_case_is_found_at_every_place_of_a_block() -> None:
    places = [32 * 1024 * number - number for number in range(1, 9)]
    text = bytearray(b".\n" * (places[-1] // 2 + 10))
    for at, word in zip(places, [b"TIMEOUT", b"timeout", b"TimeOut"] * 3, strict=False):
        text[at : at + len(word)] = word
    next_position, found = parse("timeout").finder(bytes(text), 0, len(text)), [-1]
    while (at := next_position(found[-1] + 1)) >= 0:
        found.append(at)
    assert found == [-1, *places]
