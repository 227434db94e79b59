"""The language of `fshipper search` and what it finds: equal to a slow reference, line by line."""

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from searching import expected, places_here, search, write_archive

from consumer.read.query import Case, Options, parse, parse_fixed
from shipper.errors import UsageError

WORDS = ["error", "Error", "timeout", "refused", "10.0.0.7", "GET", "ünï", "ÜNÏ", "ok", "k", "Ab_c", "-x"]
PATTERNS = ["err(or)?", "[Tt]imeout", "10\\.0\\.0\\.[0-9]+", "^GET", "refused$", "a|b|ok", "x*", "\\bok\\b", "time.ut"]
PIECES = st.sampled_from([*WORDS, " ", "  ", "é", "\t", "\r", "(", "/", '"'])
LINES = st.lists(PIECES, max_size=8).map("".join).map(str.encode)
RAW = st.binary(max_size=12).map(lambda text: text.replace(b"\n", b""))
TEXTS = st.lists(st.one_of(LINES, LINES, RAW), max_size=40).map(lambda lines: b"".join(line + b"\n" for line in lines))
Matches = Callable[[bytes], bool]


def word(text: str, *, ignores_case: bool, whole: bool) -> tuple[str, Matches]:
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if whole:
        letter = r"[\w\u0300-\u036f\udcc0-\udcff]"
        flags = re.IGNORECASE | re.ASCII if text.isascii() and ignores_case else re.IGNORECASE * ignores_case
        inner = re.compile(f"(?={re.escape(text)})", flags)

        def is_alone(line: bytes, at: int) -> bool:
            around = decoded(line)[max(0, at - 1) : at], decoded(line)[at + len(text) :][:1]
            return not any(re.fullmatch(letter, each) for each in around)

        return quoted, lambda line: any(is_alone(line, each.start()) for each in inner.finditer(decoded(line)))
    if ignores_case:
        variants = ["|".join(re.escape(each) for each in {char, char.lower(), char.upper()}) for char in text]
        expression = re.compile("".join(f"(?:{each})" for each in variants).encode())
        return quoted, lambda line: expression.search(line) is not None
    return quoted, lambda line: text.encode() in line


def without_cr(matches: Matches, line: bytes) -> bool:
    return matches(line.removesuffix(b"\r"))


def decoded(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def regex(text: str, *, ignores_case: bool, flag: bool) -> tuple[str, Matches]:
    expression = re.compile(text.encode(), re.MULTILINE | (re.IGNORECASE if ignores_case or flag else 0))
    return f"/{text}/{'i' if flag else ''}", lambda line: expression.search(line) is not None


@st.composite
def queries(draw: Any, ignores_case: bool, whole: bool) -> tuple[str, Matches]:
    leaves = st.one_of(
        st.sampled_from(WORDS).map(lambda text: word(text, ignores_case=ignores_case, whole=whole)),
        st.tuples(st.sampled_from(PATTERNS), st.booleans()).map(
            lambda pair: regex(pair[0], ignores_case=ignores_case, flag=pair[1])
        ),
    )

    def extend(inner: Any) -> Any:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            pairs.map(lambda two: (f"({two[0][0]}) ({two[1][0]})", lambda line: two[0][1](line) and two[1][1](line))),
            pairs.map(lambda two: (f"({two[0][0]} OR {two[1][0]})", lambda line: two[0][1](line) or two[1][1](line))),
            inner.map(lambda one: (f"NOT ({one[0]})", lambda line: not one[1](line))),
        )

    return draw(st.recursive(leaves, extend, max_leaves=4))


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_1000_random_queries_over_random_archives_equal_a_slow_reference(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    files = {
        (host, file): data.draw(TEXTS, label=f"{host}{file}")
        for host in ("web1.example.net", "db1.example.net")
        for file in ("/var/log/a.log", "/b.log")[: data.draw(st.integers(1, 2))]
    }
    files = {key: text for key, text in files.items() if text}
    size = data.draw(st.integers(1, 400))

    def cut(text: bytes) -> list[bytes]:
        ends = [
            0,
            *(end for end in (text.find(b"\n", at) + 1 for at in range(size, len(text), size)) if end),
            len(text),
        ]
        return [text[start:end] for start, end in itertools.pairwise(sorted(set(ends)))]

    if not files:
        return
    place = tmp_path_factory.mktemp("archive")
    archive = write_archive(place, files, cut, codec=data.draw(st.sampled_from(["zstd", "zstd", "gzip", "none"])))
    for number in range(20):
        ignores_case, whole = data.draw(st.booleans()), data.draw(st.booleans())
        text, matches = data.draw(queries(ignores_case, whole))
        query = parse(text, Options(Case.IGNORED if ignores_case else Case.SENSITIVE, whole))
        stripped = partial(without_cr, matches)
        assert sorted(places_here(archive, query)) == expected(files, stripped), text
        if number:
            continue
        found = search(archive, query, jobs=data.draw(st.sampled_from((0, 0, 2))))
        assert not found.search.unreadable
        assert sorted(found.places) == expected(files, stripped), text
        assert [hit.time_ns for hit in found.hits] == sorted(hit.time_ns for hit in found.hits)


@pytest.mark.parametrize(
    ("query", "position", "reason"),
    [
        ("(a", 1, "not closed"), ("a)", 2, "closes nothing"), ("a OR", 5, "missing at the end"),
        ("OR a", 1, "missing before 'OR'"), ('a "b', 3, "no \" at its end"), ("NOT", 4, "missing"),
        ("a /(/", 3, "regular expression"), ("/(?=a)b/", 1, "look-ahead"), ("/(a)\\1/", 1, "back-reference"),
        ("(" * 101 + "a" + ")" * 101, 101, "too many"),
    ],
)  # fmt: skip
def test_an_error_in_a_query_is_reported_with_its_position(query: str, position: int, reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"character {position}:")) as error:
        parse(query)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("query", "line", "matches"),
    [
        ("a b", b"b and a", True), ("a b", b"a", False), ("a -b", b"ab", False), ("a NOT b", b"ac", True),
        ("a OR b c", b"bc", True), ("a OR b c", b"b", False), ("(a OR b) c", b"ac", True), ("NOT NOT a", b"a", True),
        ('"a \\"b\\\\"', b'xa "b\\', True), ("/var/log", b"in /var/log/x", True), ("/a\\/b/i", b"A/B", True),
        ("/var/ log", b"log of var", True), ("a AND b", b"ab", True), ("", b"anything", True), ("or", b"for", True),
        ("a-b", b"a-b", True), ("- a", b"a -", True),
    ],
)  # fmt: skip
def test_the_language(query: str, line: bytes, matches: bool) -> None:
    assert parse(query).matches(line) is matches


def test_fixed_text_is_not_a_query() -> None:
    assert parse_fixed('a OR (b "').matches(b'x a OR (b "')
    assert not parse_fixed("a OR b").matches(b"a")


def test_a_pattern_that_needs_exponential_time_elsewhere_takes_linear_time() -> None:
    assert not parse("/(a+)+$/").matches(b"a" * 100_000 + b"b")
    assert parse("/(a|a)*b/").matches(b"a" * 100_000 + b"b")
