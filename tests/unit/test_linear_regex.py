"""Expressions on the linear engine: what is too large is refused before it is compiled."""

import re

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from shipper import linear_regex
from shipper.linear_regex import MAX_PROGRAM, Linear

ATOMS = st.sampled_from(["a", "bc", ".", "[a-z]", "[^x]", r"\w", r"\D", "(?:ab|c)", "(?i:k)", "^", r"\b"])
COUNTS = st.sampled_from(["", "", "{3}", "{0,5}", "{2,}", "*", "+", "?", "{1,40}", "*?"])


@st.composite
def expressions(draw: st.DrawFn) -> bytes:
    parts = [draw(ATOMS) + draw(COUNTS) for _ in range(draw(st.integers(1, 4)))]
    whole = "".join(parts)
    return (f"(?:{whole}){draw(COUNTS)}" if draw(st.booleans()) else whole).encode()


@given(expressions())
def test_the_estimate_of_a_program_is_never_above_its_size(expression: bytes) -> None:
    try:
        tree = linear_regex.parser.parse(expression, re.MULTILINE)
        written = linear_regex._written(tree, tree.state.flags)
    except (re.error, linear_regex._Inexpressible):
        return
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    size = re2.compile(written.encode("ascii"), options).programsize
    assert linear_regex._instructions(tree, tree.state.flags) <= size


@pytest.mark.parametrize(
    "expression",
    [
        b"[a-z]{0,1000}" * 70,
        rb"\w{0,1000}" * 100,
        b"(?:(?:a{1,1000}){1,1000}){1,1000}",
        b"(?:a|b{900}){5}",
        b"(?i:[a-f]{999,}){5}",
    ],
)
def test_what_repetition_makes_too_large_is_refused_before_it_is_compiled(
    expression: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(re2, "compile", lambda *_: pytest.fail("it was compiled"))
    assert Linear.of(expression, may_be_empty=True) is None


def test_what_fits_is_compiled() -> None:
    found = Linear.of(b"a{%d}b" % 900, may_be_empty=False)
    assert found is not None
    assert found.search(b"x" + b"a" * 900 + b"b", 0, 902) == (1, 902)
    assert MAX_PROGRAM > 900
