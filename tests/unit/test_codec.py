import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper import codec
from shipper.errors import Poison
from shipper.model import MAX_BLOCK_BYTES, Block, Edited, Encoding, End, Span

OFFSETS = st.integers(0, 2**62)
PATHS = st.binary(min_size=1, max_size=60).filter(lambda raw: b"\0" not in raw).map(lambda raw: "/" + os.fsdecode(raw))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LABELS = st.dictionaries(TEXT.filter(bool), TEXT, max_size=4).map(lambda labels: tuple(labels.items()))
GOOD = {
    "Log-Id": "00c0ffee00c0ffee",
    "Log-File": "/var/log/app.log",
    "Log-Span": "100-200",
    "Log-Origin": "0",
    "Log-Lines": "3",
    "Log-Crc": "0000000a-0000000b",
    "Log-Time": "2026-11-20T10:00:00Z",
    "Log-Map": "0",
}


@st.composite
def blocks(draw):
    origin = draw(OFFSETS)
    start = origin + draw(OFFSETS)
    end = draw(st.none() | st.sampled_from(End))
    length = draw(st.integers(0, MAX_BLOCK_BYTES))
    filtered = draw(st.integers(0, length))
    edited = Edited(0 if filtered == length else draw(st.integers(0, MAX_BLOCK_BYTES)), filtered)
    return Block(
        source=draw(st.from_regex(r"\A[0-9a-f]{16}\Z")),
        file=draw(PATHS),
        span=Span(start, start + length),
        origin=origin,
        lines=draw(st.integers(0, MAX_BLOCK_BYTES)),
        block_crc=draw(st.integers(0, 2**32 - 1)),
        source_crc=draw(st.integers(0, 2**32 - 1)),
        encoding=draw(st.sampled_from(Encoding)),
        read_at=draw(st.datetimes()).isoformat() + "Z",
        end=end,
        gap=draw(OFFSETS) if end else 0,
        map_version=draw(st.integers(0, 10**6)),
        edited=draw(st.none() | st.just(edited)),
        labels=draw(LABELS),
    )


def test_a_block_may_have_the_largest_size() -> None:
    block = codec.from_headers(GOOD | {"Log-Span": f"0-{MAX_BLOCK_BYTES}"})
    assert block.span.length == MAX_BLOCK_BYTES


def test_collectors_that_do_not_know_exclusion_read_an_end_without_a_gap():
    block = replace(codec.from_headers(GOOD), end=End.EXCLUDED, gap=4096)
    headers = codec.to_headers(block)
    assert headers["Log-End"] == "deleted"
    assert "Log-Gap" not in headers
    new = {name for name in headers if name.startswith("Log-")} - GOOD.keys() - {"Log-End"}
    assert not new, "an older collector rejects a Log- header that it does not know"
    assert codec.from_headers(headers) == block


@given(blocks())
def test_a_block_comes_out_of_its_headers_as_it_went_in(block):
    headers = codec.to_headers(block)
    assert codec.from_headers(headers) == block
    assert not codec.is_plain(headers)


@pytest.mark.parametrize("edited", [None, Edited(MAX_BLOCK_BYTES, 0)])
def test_a_block_may_have_exactly_the_maximum_length(edited):
    span = Span(100, 100 + MAX_BLOCK_BYTES)
    block = replace(codec.from_headers(GOOD), span=span, edited=edited)
    headers = codec.to_headers(block)
    assert codec.from_headers(headers) == block
    assert codec.decoded_bytes(headers, b"compressed") == MAX_BLOCK_BYTES


@given(blocks())
def test_headers_are_printable_ascii_on_one_line_whatever_the_path_holds(block):
    for name, value in codec.to_headers(block).items():
        assert name.isascii()
        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip()


@given(st.binary(max_size=200).filter(lambda raw: b"\0" not in raw))
def test_a_path_of_any_bytes_survives(raw):
    path = os.fsdecode(raw)
    assert os.fsencode(codec.decode_path(codec.encode_path(path))) == raw


@given(
    st.dictionaries(
        st.sampled_from([*GOOD, "Log-End", "Log-Gap", "Log-Encoding", "Log-Edits", "Log-Labels"]), st.text()
    )
)
def test_headers_from_any_client_are_a_block_or_poison_and_nothing_else(headers):
    try:
        block = codec.from_headers(GOOD | headers)
    except Poison:
        return
    assert 0 <= block.origin <= block.span.start <= block.span.end <= block.span.start + MAX_BLOCK_BYTES


@pytest.mark.parametrize("name", ["Log-Id", "Log-File", "Log-Span", "Log-Origin", "Log-Lines", "Log-Crc"])
def test_a_missing_header_is_poison_that_names_it(name):
    with pytest.raises(Poison, match=f"header {name} is missing"):
        codec.from_headers({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Log-Id", "00C0FFEE00C0FFEE"),
        ("Log-Id", "00c0ffee"),
        ("Log-Id", "../../etc/passwd"),
        ("Log-File", "relative.log"),
        ("Log-File", ""),
        ("Log-File", "/a%00b"),
        ("Log-Span", "100"),
        ("Log-Span", "-5-100"),
        ("Log-Span", "a-b"),
        ("Log-Span", "200-100"),
        ("Log-Span", f"0-{MAX_BLOCK_BYTES + 1}"),
        ("Log-Span", "1" * 20 + "-" + "1" * 20),
        ("Log-Origin", "150"),
        ("Log-Origin", "-1"),
        ("Log-Origin", "²"),
        ("Log-Lines", "many"),
        ("Log-Lines", "1" * 25),
        ("Log-Crc", "0000000a"),
        ("Log-Crc", "0000000A-0000000B"),
        ("Log-Encoding", "lz4"),
        ("Log-End", "eaten"),
        ("Log-Gap", "-1"),
        ("Log-Map", "v2"),
        ("Log-Edits", "100"),
        ("Log-Edits", "-1-5"),
        ("Log-Edits", "99999999-0"),
        ("Log-Edits", f"{MAX_BLOCK_BYTES + 1}-0"),
        ("Log-Edits", "10-101"),
        ("Log-Edits", "10-100"),
        ("Log-Labels", "env"),
        ("Log-Labels", "=prod"),
        ("Log-Labels", "env=prod&&dc=ams"),
        ("Log-Labels", "env=" + "x" * 1021),
    ],
)
def test_a_malformed_header_is_poison_that_names_it(name, value):
    with pytest.raises(Poison, match=name):
        codec.from_headers(GOOD | {name: value})


def test_a_header_of_a_newer_version_is_poison_and_not_ignored():
    with pytest.raises(Poison, match="Log-Color"):
        codec.from_headers(GOOD | {"Log-Color": "red"})


def test_the_headers_of_others_are_ignored():
    assert codec.from_headers(GOOD | {"Nats-Msg-Id": "x", "X-Trace": "y"}) == codec.from_headers(GOOD)


def test_a_reason_never_repeats_a_whole_hostile_header():
    with pytest.raises(Poison) as caught:
        codec.from_headers(GOOD | {"Log-Id": "x" * 100_000})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("headers", [{}, {"X-Trace": "1"}, {"Nats-Msg-Id": "1"}])
def test_a_message_without_our_headers_is_plain(headers):
    assert codec.is_plain(headers)
    assert not codec.is_plain(headers | {"Log-Anything": ""})


@pytest.mark.parametrize(
    ("span", "size"), [("0-1000", 1000), ("1000-0", 3), ("0-99999999", 3), ("nonsense", 3), ("5-5", 3)]
)
def test_the_decoded_size_is_believed_within_bounds_only(span, size):
    assert codec.decoded_bytes({"Log-Span": span}, b"abc") == size


def test_of_an_edited_block_the_text_is_what_takes_room():
    assert codec.decoded_bytes({"Log-Span": "0-1000", "Log-Edits": "400-600"}, b"abc") == 400
    assert codec.decoded_bytes({"Log-Span": "0-1000", "Log-Edits": "9999999-0"}, b"abc") == 3


def test_a_block_without_edits_has_no_newer_header():
    assert not {"Log-Edits", "Log-Labels"} & codec.to_headers(codec.from_headers(GOOD)).keys()
