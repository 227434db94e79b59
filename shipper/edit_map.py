"""What a producer changed in a block's bytes: the map between the bytes of the source and the content. Pure.

The payload of an edited block is its content (the text for the archive), followed by a map:
unsigned LEB128 varints, three for each edit, in order:

    unchanged   bytes of the source since the previous edit, which are in the content as they were
    taken       bytes of the source that the edit replaces, at least 1
    given       bytes of the content that stand for them; 0: whole lines were left out

The bytes after the last edit are unchanged. An empty map is that of a block of at most two edits: the first
`filtered` bytes of the span are left out, and what follows is unchanged where it is as long as the content, one edit
else.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shipper.errors import Poison
from shipper.model import Edited, Span

MAX_MAP_BYTES = 256 * 1024
"""The longest map in a block."""
_MAX_NUMBER_BYTES = 3
"""Of a varint: no number in a map is above `MAX_BLOCK_BYTES`."""


class Edit(NamedTuple):
    """`taken` bytes of the source became `given` bytes of content, `unchanged` bytes after the previous edit."""

    unchanged: int
    taken: int
    given: int


class Rest(NamedTuple):
    """The part of a block after an offset of its source: the content, and the number of bytes left out there."""

    content: bytes
    filtered: int
    begins_left_out: bool = False  #: the line at the offset is left out: what of it was written before has no newline


def filtered_bytes(edits: Iterable[Edit]) -> int:
    """Bytes of the source whose lines were left out."""
    return sum(taken for _, taken, given in edits if not given)


def to_map(edits: Iterable[Edit]) -> bytes:
    """The map of `edits`."""
    octets = bytearray()
    for edit in edits:
        for number in edit:
            left = number
            while left > 0x7F:  # noqa: PLR2004 - seven bits a byte
                octets.append(left & 0x7F | 0x80)
                left >>= 7
            octets.append(left)
    return bytes(octets)


def from_map(octets: bytes) -> list[Edit]:
    """The edits of a map. Raises Poison: it ends within an edit, holds too large a number, or takes nothing."""
    numbers = list(_numbers(octets))
    if len(numbers) % 3:
        raise Poison(f"the map of the edits ends within an edit, after {len(numbers)} numbers")
    edits = list(map(Edit, numbers[::3], numbers[1::3], numbers[2::3]))
    if not all(numbers[1::3]):
        raise Poison("the map of the edits has one that takes nothing")
    return edits


def _numbers(octets: bytes) -> Iterator[int]:
    number = shift = 0
    for octet in octets:
        number |= (octet & 0x7F) << shift
        if octet & 0x80:
            shift += 7
            if shift >= 7 * _MAX_NUMBER_BYTES:
                raise Poison("the map of the edits holds a number that no block is as long as")
        else:
            yield number
            number = shift = 0
    if shift:
        raise Poison("the map of the edits ends within a number")


def rest_of(content: bytes, octets: bytes, span: Span, edited: Edited, *, at: int) -> Rest:
    """The part of an edited block after offset `at` of its source.

    An edit that reaches beyond `at` counts whole: its content is written once more, never lost.

    Raises Poison: the map does not lead from `span` to `content`, or leaves out other than `edited.filtered` bytes.
    """
    if len(octets) > MAX_MAP_BYTES:
        raise Poison(f"the map of the edits is longer than {MAX_MAP_BYTES} bytes")
    edits = from_map(octets) if octets else _shortest(span, edited)
    _check(edits, span, edited)
    return _cut(content, edits, edited, at=max(0, at - span.start))


def _shortest(span: Span, edited: Edited) -> list[Edit]:
    kept = span.length - edited.filtered
    edits = [Edit(0, edited.filtered, 0)] if edited.filtered else []
    if kept != edited.content:
        edits.append(Edit(0, kept, edited.content))
    return edits


def _check(edits: list[Edit], span: Span, edited: Edited) -> None:
    taken = sum(edit.unchanged + edit.taken for edit in edits)
    given = sum(edit.unchanged + edit.given for edit in edits)
    rest = span.length - taken
    if rest < 0 or edited.content - given != rest or any(edit.taken <= 0 or edit.given < 0 for edit in edits):
        raise Poison(f"the map of the edits does not lead from Log-Span {span} to {edited.content} bytes of content")
    if filtered_bytes(edits) != edited.filtered:
        raise Poison(f"the map of the edits does not leave out {edited.filtered} bytes, the number in Log-Edits")


def _cut(content: bytes, edits: list[Edit], edited: Edited, *, at: int) -> Rest:
    """The part after byte `at` of the span."""
    source = place = passed = 0
    for unchanged, taken, given in edits:
        if source + unchanged > at:
            break
        if source + unchanged + taken > at:  # the watermark is in the edit
            inside = 0 if given else at - source - unchanged
            return Rest(content[place + unchanged :], edited.filtered - passed - inside, begins_left_out=not given)
        source, place = source + unchanged + taken, place + unchanged + given
        passed += 0 if given else taken
    return Rest(content[place + at - source :], edited.filtered - passed)
