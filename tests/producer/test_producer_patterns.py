"""Patterns are of RE2: they mean in a block what Python's `re` finds in each line, in time linear in the text."""

import itertools
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producer.redaction.detectors import KINDS, detector
from producer.redaction.rules import Rule, built_in
from producer.transform.line_filter import joined, lines_with
from shipper.linear_regex import Linear, PatternError
from tests.producer.test_producer_edits_lines import edited

TYPICAL = [
    *("DEBUG", "^GET /health", "(?i)error|warn", r"\d{3} [a-z.]+", r"user=\w+", r"\bpass\w*\s*[=:]\s*\S+", r"^\s*#"),
    *("^$", r"^\s*$", r'"[^"]*"', r"[^ ]+@[^ ]+", r"\b\d{1,3}(?:\.\d{1,3}){3}\b", r"(?:a|ab)(?:c|bcd)", r"x*?y"),
    *(r"a{2,3}?a", r"[\w.+-]+@[\w-]+\.\w+", r"\.$", "é+", "[é]", r"(?i)[^k]\d", r"[\s\S]b", r"\W\d", r"\D+$", r"\Ba"),
    *(r"(?i:Set-)Cookie: .*", r"(?P<key>id)=(\d+)", r"a.c", "(?s)a.c", r"\x41|\101", r"[a-c\-]+", r"\Aone", "a\nb"),
    *("(a|b|)c", r"(?i)straße", "(?i)É", "(?m)^a", r"\r", "a.*$", r"[]b]", r"\$[$]\\"),
]
PARTS = [
    *("a", "b", "k", "K", ".", r"\d", r"\w", r"\s", r"\S", r"\b", "^", "$", "[a-k]", "[^a]", r"[^\W\d]", "é", " ", ":"),
    *("(a|ab)", "(?:b|)", "(?i:k)", "a+", "a*?", "[ab]{1,2}", "(?:ab)+", "b?", "1|", "(?s:.)", r"\n?"),
]
EXPRESSIONS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map("".join)
TEXTS = st.lists(
    st.sampled_from([*(bytes([octet]) for octet in b"abkK \n\r\t1:_$\\]\xff"), b"ab", b"\r\n", "é".encode()]),
    max_size=24,
).map(b"".join)


def of_python(expression: str, text: bytes) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The lines that `re` finds one by one, with or without their CR, and its matches without the lines' ends."""
    regex = re.compile(expression.replace(r"\A", "^").encode(), re.MULTILINE)
    found, spans = [], []
    for line in re.finditer(rb"[^\n]*\n|[^\n]+", text):
        body = line[0].removesuffix(b"\n")
        if regex.search(body) or regex.search(body.removesuffix(b"\r")):
            found.append(line.span())
        for match in regex.finditer(body.removesuffix(b"\r")):
            spans += [(line.start() + match.start(), line.start() + match.end())] if match[0] else []
    return found, spans


def same(expression: str, text: bytes) -> None:
    regex = Linear(expression.encode())
    found, spans = of_python(expression, text)
    assert list(lines_with(regex, text)) == found
    assert list(regex.matches(text)) == spans


@pytest.mark.parametrize("expression", TYPICAL)
@given(text=TEXTS)
@settings(max_examples=40)
def test_what_users_write_means_what_it_means_in_python(expression: str, text: bytes) -> None:
    same(expression, text)


@given(EXPRESSIONS, TEXTS)
@settings(max_examples=600)
def test_a_drawn_expression_means_what_it_means_in_python(expression: str, text: bytes) -> None:
    same(expression, text)


@pytest.mark.parametrize(
    "expression", [rb"\d", rb"\w", rb"\s", rb"\D", rb"\W", rb"\S", rb"(?i)[a-z]", rb".", rb"(?i)[^a-z]"]
)
def test_each_class_has_the_bytes_that_it_has_in_python(expression: bytes) -> None:
    linear, octets = Linear(expression), [bytes([octet]) for octet in range(256) if octet not in b"\n\v"]
    differing = [each for each in octets if bool(linear.search(each, 0, 1)) != bool(re.search(expression, each))]
    assert differing == []


def test_a_vertical_tab_is_no_blank_as_it_is_in_python() -> None:
    assert Linear(rb"\s").search(b"\v", 0, 1) is None
    assert re.search(rb"\s", b"\v")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("(?=a)b", "look-ahead; write what follows"),
        ("(?!z)a", "negative look-ahead; use drop_lines"),
        ("(?<=x)y", "look-behind; write what is before"),
        ("(?<!x)y", r"negative look-behind; write \b"),
        (r"(a)\1", "back-reference; write one alternative"),
        ("(?P<n>a)(?P=n)", "back-reference"),
        ("a++", "possessive repetition; leave the second +"),
        ("a{2}+", "possessive repetition"),
        ("(?>a)b", "atomic group; write (?:...)"),
        ("(a)?(?(1)b|c)", "condition; write both cases"),
        ("(?#why)a", "comment; leave it out"),
        ("(?ix) a", "flag x; write the expression without blanks"),
        ("(?a)a", "flag a; leave it out"),
        (r"one\Z", r"\Z; write $"),
        (r"\u00e9", "write the character itself"),
        ("a{,3}", "write {0,n}"),
        ("(?-m:a$)", "flag -m; leave it out"),
        ("a{2000}", "{2000}; RE2 repeats up to 1000"),
        (r"\w{0,1000}" * 100, "repeats too much"),
        ("(?:(?:a{1,1000}){1,1000}){1,1000}", "repeats too much"),
        ("[a-f]{999}" * 5, "repeats too much"),
        ("(?P<n", "invalid named capture group"),
    ],
)
def test_what_re2_does_not_have_is_named_with_the_way_out(expression: str, words: str) -> None:
    with pytest.raises(PatternError, match=re.escape(words)):
        Linear(expression.encode())


def test_what_looks_like_such_a_construct_and_is_text_stays() -> None:
    text = rb"a$ \Z (?=x) {,3} $"
    assert list(Linear(rb"a\$ \\Z \(\?=x\) [{],3[}] [$]$").matches(text)) == [(0, len(text))]
    assert list(Linear(rb"\Qa$ \Z (?=x) {,3}\E").matches(text)) == [(0, len(text) - 2)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_of_a_match_with_a_secret_only_this_is_redacted(end: bytes) -> None:
    text = b"user=bob user=eve" + end
    assert edited(text, redact=[r"user=(?P<secret>\S+)"]) == b"user=[redacted] user=[redacted]" + end
    assert edited(b"id 7, name x", redact=["id (?P<secret>[0-9]+)|name ."]) == b"id [redacted], [redacted]"


# -- time grows as the text does -----------------------------------------------------------------------------------

ADVERSARIES = {
    "token": [
        *(b"token>", b"token>a", b"token ", b"token=", b'token="', b'token="\\', b'token:\\"', b"token_", b"token-a "),
        *(b"--token ", b"://", b"://a:", b"://a:b", b"://a@", b"eyJaaaaaaaa.", b"bearer a", b"authorization:"),
        *(b"authorization: a ", b"password>a<", b"secretkey=", b"api_key ", b"token%3a", b"token=&", b"a>secret>"),
        *(b"token='", b'token=\\"', b"pwd:=>\t", b"a1 LOGIN ", b"login code ", b"sqlplus -a ", b"sqlplusa/"),
    ],
    "card": [
        b"4",
        b"4 ",
        b"4-4",
        b"4111 ",
        b"4111 1111 1111 111",
        b"4111111111111111",
        b"1234567890123456789 ",
        b"0.4",
    ],
    "email": [b"@", b"@a", b"@a.", b"a@", b"@1.", b"a%40", b"%40a.1", b"@-", b"a@a.a", b"@a-", b"\xff@\xff."],
}
USERS = [
    *(r"\w+@\w+\.com", "(a+)+$", "(a|aa)+$", "(.*a){12}", r"^(\w+\s?)*$", "x.*y", "a.*b.*c", r"\s+$", "([a-z]+)+[0-9]")
]
UNITS = [b"a", b"x", b" ", b"a ", b"ab", b"aaab", b"\t", b"a@"]


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of the fastest of three."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)


def grows_no_faster_than_its_text(work: Callable[[bytes], Any], unit: bytes, least: int) -> None:
    """Eight times as much takes less than 30 times as long; quadratic would be 64 times."""
    small, large = unit * (least // len(unit)), unit * (8 * least // len(unit))
    before = max(seconds(lambda: work(small)), 0.0002)  # else the clock's steps are measured
    after = seconds(lambda: work(large))
    assert after < 30 * before, (unit, before, after)


@pytest.mark.parametrize(("name", "unit"), [(name, unit) for name, units in ADVERSARIES.items() for unit in units])
def test_time_of_each_ready_pattern_doubles_with_its_text(name: str, unit: bytes) -> None:
    for tail in (b"", b"<", b"\n", b"!"):
        grows_no_faster_than_its_text(lambda text: list(detector(name)(text + tail)), unit, 2048)  # noqa: B023


@pytest.mark.parametrize("rule", [rule for rule in built_in() if rule.keywords], ids=lambda rule: rule.id)
def test_time_of_each_rule_doubles_with_a_text_of_its_keywords(rule: Rule) -> None:
    for keyword in rule.keywords:
        for more in ("", "a1"):
            unit = (keyword + more).encode()
            grows_no_faster_than_its_text(lambda text: list(detector("token")(text)), unit, 2048)


def test_each_ready_pattern_is_tried() -> None:
    assert set(KINDS) == ADVERSARIES.keys()


@pytest.mark.parametrize(("pattern", "unit"), list(itertools.product(USERS, UNITS)))
def test_time_of_a_search_for_a_users_pattern_doubles_with_its_text(pattern: str, unit: bytes) -> None:
    found = Linear(pattern.encode())
    grows_no_faster_than_its_text(lambda text: list(lines_with(found, text + b"!")), unit, 2048)


def test_elements_of_xml_are_blacked_out_as_before() -> None:
    text = b"<token>abc</token> token>x<b token>\n</ secret>y</ token></ password>a token>b</password>\n"
    expected = []
    for name in (b"password", b"passwd", b"passphrase", b"secret", b"token"):
        expected += [found.span(1) for found in re.finditer(name + rb">([^<\n]+)</", text)]
    assert joined(sorted(hit[:2] for hit in detector("token")(text))) == joined(sorted(expected))
    assert len(expected) == 4
