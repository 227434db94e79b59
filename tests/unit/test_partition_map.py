"""The map of the partitions: where a host belongs, and how few move when it changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.partition_map import SLOTS, PartitionMap, changed, decode, encode, partition_for, static

HOSTS = [f"web{number}.example.net" for number in range(2000)]


def moved(before: PartitionMap, after: PartitionMap) -> float:
    return sum(before.partition_of(host) != after.partition_of(host) for host in HOSTS) / len(HOSTS)


def test_without_slots_a_host_is_where_the_blogs_hash_has_it() -> None:
    known = PartitionMap(version=3, partitions=7)
    assert all(known.partition_of(host) == partition_for(host, 7) for host in HOSTS)


def test_an_override_counts_before_anything_else_and_needs_a_stream() -> None:
    known = PartitionMap(version=1, partitions=2, overrides={"big.example.net": 9})
    assert known.partition_of("big.example.net") == 9
    assert known.used == {0, 1, 9}


@given(st.lists(st.integers(1, SLOTS), min_size=1, max_size=6))
def test_with_slots_every_partition_has_its_share_however_often_it_changes(counts: list[int]) -> None:
    known = changed(static(4), partitions=counts[0], with_slots=True)
    for partitions in counts:
        known = changed(known, partitions=partitions)
        each = [known.slots.count(number) for number in range(partitions)]
        assert sum(each) == SLOTS
        assert max(each) - min(each) <= 1


def test_with_slots_growth_moves_no_more_hosts_than_the_new_partitions_need() -> None:
    four = changed(static(4), partitions=4, with_slots=True)
    assert moved(static(4), four) == 0
    assert moved(four, changed(four, partitions=5)) == pytest.approx(1 / 5, abs=0.04)
    assert moved(static(4), static(5)) > 0.7  # what the same costs by modulo


@given(st.integers(1, 64), st.booleans(), st.dictionaries(st.sampled_from(HOSTS), st.integers(0, 99), max_size=5))
def test_what_is_stored_is_read_again(partitions: int, slots: bool, overrides: dict[str, int]) -> None:
    known = changed(static(4), partitions=partitions, with_slots=slots, overrides=overrides)
    assert known.version in {0, 1}
    stored = PartitionMap(version=5, partitions=partitions, overrides=known.overrides, slots=known.slots)
    assert decode(encode(stored)) == stored


@pytest.mark.parametrize(
    "fields",
    [
        {"v": 2},
        {"version": 0},
        {"partitions": 0},
        {"partitions": 5000},
        {"partitions": True},
        {"overrides": {"a": 5000}},
        {"overrides": 3},
        {"slots": [0]},
        {"slots": [9] * SLOTS},
    ],
)
def test_an_unreadable_map_moves_no_host(fields: dict[str, object]) -> None:
    sound = {"v": 1, "version": 2, "partitions": 4}
    assert decode(json.dumps(sound).encode()) is not None
    assert decode(json.dumps(sound | fields).encode()) is None
    assert decode(b"\xff") is None


def test_the_same_wish_makes_no_new_version_and_another_the_next() -> None:
    known = PartitionMap(version=6, partitions=4, overrides={"a": 1})
    assert changed(known, partitions=4) is known
    assert changed(known, partitions=4, without=["a"]).version == 7
    assert changed(known, partitions=4, without=["a"]).overrides == {}
