"""The messages of a host that moves: where it continues, and its marker in the old partition."""

from dataclasses import replace

import pytest

from shipper import codec
from shipper.errors import Poison
from shipper.model import Block, Encoding, Handoff, Span

BLOCK = Block(
    source="00000000000000a1", file="/f", span=Span(5, 9), origin=0, lines=1, block_crc=1, source_crc=2,
    encoding=Encoding.ZSTD, read_at="2026-11-20T10:00:00Z", map_version=7,
)  # fmt: skip


@pytest.mark.parametrize("crc", [None, 0, 0xDEADBEEF])
def test_a_handoff_travels_with_its_block(crc: int | None) -> None:
    block = replace(BLOCK, handoff=Handoff(1048576, crc, "00c0ffee00c0ffee"))
    assert codec.from_headers(codec.to_headers(block)) == block


@pytest.mark.parametrize("text", ["", "5", "5-xyz-a", "5-00000000-", "x--a", "5--a-b", "5-0000000-a"])
def test_a_handoff_that_is_none_is_poison(text: str) -> None:
    with pytest.raises(Poison, match="Log-Handoff"):
        codec.from_headers(codec.to_headers(BLOCK) | {"Log-Handoff": text})


def test_a_move_marker_is_neither_a_block_nor_a_plain_line() -> None:
    headers = codec.move_marker(7)
    assert codec.leaves(headers) == 7
    assert not codec.is_plain(headers)
    assert codec.leaves(codec.to_headers(BLOCK)) is None
    with pytest.raises(Poison, match="Log-Leave"):
        codec.leaves(headers | codec.to_headers(BLOCK))
    with pytest.raises(Poison, match="Log-Leave"):
        codec.leaves({"Log-Leave": "soon"})
