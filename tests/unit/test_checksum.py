"""The sum of two texts is put together from theirs, as if all had been summed in one go."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from shipper.bytes_ops import crc32, crc32_combine


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_two_sums_are_put_together(first: bytes, second: bytes) -> None:
    assert crc32_combine(crc32(first), crc32(second), len(second)) == zlib.crc32(first + second)


def test_a_sum_is_put_together_however_long_the_second_text_is() -> None:
    first, second = b"a line\n", bytes(512 * 1024)
    assert crc32_combine(crc32(first), crc32(second), len(second)) == zlib.crc32(first + second)
