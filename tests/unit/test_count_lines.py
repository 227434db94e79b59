"""Newlines are counted as `bytes.count` counts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.bytes_ops import count_lines


@given(st.binary(max_size=300))
def test_whatever_the_bytes_are(data: bytes) -> None:
    assert count_lines(data) == data.count(b"\n")


@pytest.mark.parametrize("size", [1, 63, 64, 65, 4096, 512 * 1024 - 1, 512 * 1024])
@pytest.mark.parametrize("pattern", [b"\n", b"a", b"\n\x0b\x8a\xff", b"a line of a log\n"])
def test_however_many_there_are(pattern: bytes, size: int) -> None:
    data = (pattern * (size // len(pattern) + 1))[:size]
    assert count_lines(data) == data.count(b"\n")
