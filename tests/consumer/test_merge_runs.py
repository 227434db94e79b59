"""Which segments become one: neighbours, small, of one codec, not too much together, and with a number that is free."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumer.archive.segment_io import ByteCounter
from consumer.segments.compaction import continues, joined, runs, target_of
from consumer.segments.sealer import number_of, split_name
from shipper import layout
from shipper.layout import FileKey
from shipper.manifest import Gap, Segment, SourceSpan

KEY = FileKey("2026-11-20", 3, "web1", "/var/log/app.log")
BELOW, MOST = 100, 250


def segment(number: int, size: int = 10, codec: str = "zstd") -> Segment:
    return Segment(
        collector="here",
        partition=KEY.partition,
        host=KEY.host,
        file=KEY.file,
        path=layout.segment_path(KEY, number, codec),
        codec=codec,
        lines=1,
        bytes_raw=size,
        bytes_stored=size,
        first_seq=number,
        last_seq=number,
        first_time="2026-11-20T00:00:00Z",
        last_time="2026-11-20T00:00:00Z",
    )


@st.composite
def days(draw: st.DrawFn) -> list[Segment]:
    numbers = draw(st.lists(st.integers(0, 60), unique=True, max_size=20))
    sizes = st.sampled_from([0, 1, 30, 99, 100, 240, 1000])
    return [segment(number, draw(sizes), draw(st.sampled_from(["zstd", "zstd", "gzip"]))) for number in sorted(numbers)]


@given(days())
def test_runs_are_small_neighbours_that_fit_and_get_a_free_number(day):
    taken = {number_of(each) for each in day}
    found = runs(day, taken, below=BELOW, most=MOST)
    for run in found:
        first = day.index(run[0])
        assert day[first : first + len(run)] == run
        assert len(run) >= 2
        assert len({part.codec for part in run}) == 1
        assert all(part.bytes_raw < BELOW for part in run)
        assert sum(part.bytes_raw for part in run) <= MOST
    left = [each for each in day if not any(each in run for run in found)]
    targets = [split_name(target_of(run).rpartition("/")[2])[1] for run in found]
    assert not taken & set(targets)
    numbered = [(number_of(each), [each]) for each in left] + list(zip(targets, found, strict=True))
    assert [part for _, run in sorted(numbered, key=lambda pair: pair[0]) for part in run] == day  # the order of bytes


def test_a_run_ends_before_it_is_too_large():
    day = [segment(10 * number, 90) for number in range(5)]
    found = runs(day, {number_of(each) for each in day}, below=BELOW, most=MOST)
    assert [len(run) for run in found] == [2, 2]


def test_nothing_is_below_nothing():
    assert runs([segment(1, 0), segment(5, 0)], {1, 5}, below=0, most=MOST) == []


def test_the_counts_of_the_parts_add_up():
    one = replace(
        segment(5, 40),
        spans=(SourceSpan(source="a", start=0, end=20), SourceSpan(source="b", start=0, end=20)),
        gaps=(Gap(source="", start=30, end=40, reason="archive_changed"),),
        duplicates=1,
        joins=2,
        filtered=3,
        edited=-4,
        labels={"env": "prod"},
    )
    two = replace(
        segment(9, 60),
        spans=(SourceSpan(source="a", start=20, end=60), SourceSpan(source="b", start=30, end=50)),
        gaps=(
            Gap(source="b", start=20, end=30, reason="missing"),
            Gap(source="", start=0, end=60, reason="archive_changed"),
        ),
        duplicates=10,
        joins=20,
        filtered=30,
        edited=40,
        first_time="2026-11-20T01:00:00Z",
        last_time="2026-11-20T02:00:00Z",
    )
    text = ByteCounter()
    text.add(b"x\n" * 50)
    whole = joined([one, two], text, text, collector="there", now="now")
    assert whole.path.endswith(f"-{10:020d}.zst")
    assert (whole.collector, whole.sealed_at, whole.lines, whole.bytes_raw) == ("there", "now", 50, 100)
    assert [(span.source, span.start, span.end) for span in whole.spans] == [("a", 0, 60), ("b", 0, 20), ("b", 30, 50)]
    assert [(gap.source, gap.start, gap.end) for gap in whole.gaps] == [("", 30, 40), ("b", 20, 30), ("", 40, 100)]
    assert (whole.duplicates, whole.joins, whole.filtered, whole.edited) == (11, 22, 33, 36)
    assert (whole.first_seq, whole.last_seq, whole.labels) == (5, 9, {"env": "prod"})
    assert (whole.first_time, whole.last_time) == (one.first_time, two.last_time)
    assert whole.replaces == (one.path, two.path)


def test_a_line_continues_in_the_next_part_only_where_both_hold_the_same_one_source():
    a, b = SourceSpan(source="a", start=0, end=9), SourceSpan(source="b", start=0, end=9)
    only_a, only_b = replace(segment(1), spans=(a,)), replace(segment(2), spans=(b,))
    assert continues(only_a, only_a)
    assert not continues(only_a, only_b)
    assert not continues(replace(segment(1), spans=(b, a)), only_a)
    assert not continues(only_a, replace(segment(1), spans=(a, b)))
    assert not continues(segment(1), segment(2))


def test_the_names_of_segments_are_distinguished_from_others():
    assert split_name("a-b.log-00000000000000000007.zst") == ("a-b.log", 7)
    assert split_name("a-00000000000000000001-00000000000000000007") == ("a-00000000000000000001", 7)
    assert split_name("a.log") is None
    assert split_name("a.log-7.zst") is None
