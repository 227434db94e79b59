import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.edit_map import MAX_MAP_BYTES, Edit, Rest, filtered_bytes, from_map, rest_of, to_map
from shipper.errors import Poison
from shipper.model import MAX_BLOCK_BYTES, Edited, Span

SIZES = st.integers(0, 400)
EDITS = st.lists(st.builds(Edit, SIZES, st.integers(1, 400), SIZES), max_size=12)


def made(edits, behind):
    """Source bytes, and the content that `edits` make of them; each replacement is stars."""
    source, content = bytearray(), bytearray()
    for number, (unchanged, taken, put) in enumerate(edits):
        run = bytes([97 + number]) * unchanged
        source += run + b"-" * taken
        content += run + b"*" * put
    return bytes(source + b"z" * behind), bytes(content + b"z" * behind)


@given(EDITS)
def test_an_edit_map_contains_the_edits_it_was_made_of(edits):
    assert from_map(to_map(edits)) == edits


@given(st.integers(1, MAX_BLOCK_BYTES))
def test_any_length_in_a_block_fits_into_a_map(length):
    assert from_map(to_map([Edit(length, length, length)])) == [Edit(length, length, length)]


@given(EDITS, SIZES, st.data())
def test_after_any_offset_follows_what_was_not_written_with_an_edit_across_it_whole(edits, behind, data):
    source, content = made(edits, behind)
    span, edited = Span(1000, 1000 + len(source)), Edited(len(content), filtered_bytes(edits))
    at = data.draw(st.integers(0, len(source)))
    expected, filtered, place = bytearray(), 0, 0
    for number, (unchanged, taken, put) in enumerate(edits):
        expected += bytes([97 + number]) * max(0, min(unchanged, place + unchanged - at))
        place += unchanged + taken
        expected += b"*" * put if place > at else b""
        filtered += 0 if put else max(0, min(taken, place - at))
    expected += b"z" * min(behind, len(source) - at)
    rest = rest_of(content, to_map(edits), span, edited, at=1000 + at)
    assert rest[:2] == (bytes(expected), filtered)
    assert rest.begins_left_out == (_at(edits, at) == 0)


def _at(edits, at):
    """How many bytes stand for the edit that byte `at` of the source is in; None: in none."""
    place = 0
    for unchanged, taken, put in edits:
        place += unchanged + taken
        if place - taken <= at < place:
            return put
    return None


@pytest.mark.parametrize(
    ("length", "edited", "content", "at", "rest"),
    [
        (9, Edited(4, 5), b"kept", 0, Rest(b"kept", 5, True)),
        (9, Edited(4, 5), b"kept", 3, Rest(b"kept", 2, True)),
        (9, Edited(4, 5), b"kept", 5, Rest(b"kept", 0)),
        (9, Edited(4, 5), b"kept", 7, Rest(b"pt", 0)),
        (9, Edited(3, 5), b"[x]", 7, Rest(b"[x]", 0)),
        (9, Edited(0, 9), b"", 7, Rest(b"", 2, True)),
        (9, Edited(0, 9), b"", 9, Rest(b"", 0)),
    ],
)
def test_an_empty_map_is_left_out_bytes_first_and_then_one_edit_or_unchanged_ones(length, edited, content, at, rest):
    assert rest_of(content, b"", Span(100, 100 + length), edited, at=100 + at) == rest


@pytest.mark.parametrize(
    ("octets", "edited"),
    [
        (b"\x80", Edited(10, 0)),
        (b"\x01", Edited(10, 0)),
        (b"\x01\x02", Edited(10, 0)),
        (b"\x80\x80\x80\x01\x01\x01", Edited(10, 0)),
        (b"\x01\x00\x01", Edited(11, 0)),
        (b"\x01\x01\x00", Edited(9, 0)),
        (b"\x01\x01\x00", Edited(9, 2)),
        (b"\x01\x01\x00", Edited(8, 1)),
        (b"\x09\x02\x01", Edited(9, 0)),
        (b"\x01\x01\x01" * (MAX_MAP_BYTES // 3 + 1), Edited(10, 0)),
    ],
    ids=["number", "one", "two", "large", "nothing", "not left out", "more left out", "short", "beyond", "long"],
)
def test_a_map_that_does_not_lead_from_the_span_to_the_content_is_poison(octets, edited):
    with pytest.raises(Poison, match="map of the edits"):
        rest_of(bytes(edited.content), octets, Span(0, 10), edited, at=0)


def test_a_map_that_is_sound_but_longer_than_any_is_poison():
    count = MAX_MAP_BYTES // 3
    octets, edited = to_map([Edit(0, 1, 1)] * count), Edited(count, 0)
    assert rest_of(bytes(count), octets, Span(0, count), edited, at=0) == Rest(bytes(count), 0)
    longer = Edited(count + 1, 0)
    with pytest.raises(Poison, match="map of the edits is longer"):
        rest_of(bytes(count + 1), octets + b"\0\1\1", Span(0, count + 1), longer, at=0)


@given(st.binary(max_size=60), SIZES, SIZES, SIZES, SIZES)
def test_any_bytes_for_a_map_are_poison_or_lead_within_the_content(octets, length, content, filtered, at):
    edited = Edited(content, filtered)
    try:
        rest = rest_of(bytes(content), octets, Span(0, length), edited, at=at)
    except Poison:
        return
    assert len(rest.content) <= content
    assert 0 <= rest.filtered <= filtered
