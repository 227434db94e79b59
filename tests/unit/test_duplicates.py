"""Which bytes of a source are held twice, and which copy is the later one."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shipper.duplicates import Index, begins, common, cover, doubled
from shipper.manifest import Segment, SourceSpan

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda at: (at[0], at[0] + at[1])), max_size=14)


@given(spans)
def test_duplicate_bytes_are_those_of_a_set_of_bytes(added: list[tuple[int, int]]) -> None:
    held, there, index = list[int](), set[int](), Index()
    for start, end in added:
        own = set(range(start, end))
        assert {byte for span in common(held, start, end) for byte in range(*span)} == (own & there)
        assert index.common("h", "s", start, end) == common(held, start, end)
        found = cover(held, start, end)
        assert index.add("h", "s", start, end) == found
        assert {byte for span in found for byte in range(*span)} == own & there
        assert sum(span.length for span in found) == len(own & there)
        there |= own
        assert {byte for at in range(0, len(held), 2) for byte in range(held[at], held[at + 1])} == there
        assert held == sorted(set(held))  # runs apart from each other
        assert begins(held, start) == (bool(own) and start - 1 not in there) or start >= end


def segment(path: str, *held: tuple[str, int, int], at: str = "2026-11-20T10:00:00Z", lines: int = 10) -> Segment:
    date, partition = path.split("/", maxsplit=1)[0].removeprefix("date="), int(path.split("partition=")[1][0])
    size = sum(end - start for _, start, end in held)
    return Segment(
        collector="c", partition=partition, host="web1", file="/var/log/x", path=path, codec="none", lines=lines,
        bytes_raw=size, bytes_stored=size, first_seq=1, last_seq=2, first_time=at, last_time=f"{date}T23:00:00Z",
        spans=tuple(SourceSpan(source=source, start=start, end=end) for source, start, end in held),
    )  # fmt: skip


FIRST = segment("date=2026-11-20/partition=2/host=web1/x-1", ("a", 0, 100))
LATER = segment("date=2026-11-20/partition=0/host=web1/x-1", ("a", 0, 100), at="2026-11-20T11:00:00Z")


def test_the_copy_that_was_stored_later_is_the_later_one_whatever_the_order_of_the_lines() -> None:
    for given_order in ((FIRST, LATER), (LATER, FIRST)):
        (found,) = doubled(given_order)
        assert (found.segment, found.bytes, found.lines, found.is_whole) == (LATER, 100, 10, True)


def test_of_copies_of_the_same_time_the_one_of_the_later_day_is_the_later_one_else_the_path_decides() -> None:
    moved = replace(FIRST, path=FIRST.path.replace("11-20", "11-21"))
    again = replace(FIRST, path=FIRST.path.replace("x-1", "x-2"))
    assert [each.segment for each in doubled([moved, again, FIRST])] == [again, moved]


def test_a_part_has_its_share_of_the_lines() -> None:
    part = segment("date=2026-11-20/partition=0/host=web1/x-1", ("a", 50, 250), at="2026-11-20T11:00:00Z", lines=20)
    (found,) = doubled([part, FIRST])
    assert (found.bytes, found.lines, found.is_whole) == (50, 5, False)
    assert [(span.start, span.end) for span in found.spans] == [(50, 100)]


def test_three_copies_are_two_too_many_and_another_host_or_source_is_none() -> None:
    third = replace(LATER, path=LATER.path.replace("partition=0", "partition=1"), partition=1)
    other_host = replace(LATER, host="web2", path=LATER.path.replace("web1", "web2"))
    other_source = segment("date=2026-11-20/partition=1/host=web1/y-1", ("b", 0, 100))
    assert [each.segment for each in doubled([third, other_host, other_source, LATER, FIRST])] == [LATER, third]


def test_a_segment_may_hold_a_span_twice_itself() -> None:
    merged = segment("date=2026-11-20/partition=0/host=web1/x-1", ("a", 0, 100), ("a", 0, 100))
    (found,) = doubled([merged])
    assert (found.bytes, found.is_whole) == (100, False)


def test_what_earlier_days_hold_counts_and_grows() -> None:
    index = Index()
    assert list(doubled([FIRST], index)) == []
    later_day = replace(LATER, path=LATER.path.replace("11-20", "11-22"))
    assert [each.bytes for each in doubled([later_day], index)] == [100]
    assert len(index) == 1
