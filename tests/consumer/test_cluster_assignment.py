"""Which collector should have which partition: even, stable, and the same for every collector."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.cluster.coordinator import assign
from consumer.cluster.membership import Member

NAMES = ["a", "b", "c", "d", "e"]


def member(name: str, partitions: tuple[int, ...] = (), refused: tuple[int, ...] = ()) -> Member:
    return Member(
        name=name, instance=name, host="h", pid=1, archive="x", lock="k", partitions=partitions, refused=refused
    )


living = st.lists(st.sampled_from(NAMES), unique=True, min_size=1).map(lambda names: [member(n) for n in names])
count = st.integers(1, 40)
held = st.dictionaries(st.integers(0, 39), st.sampled_from([*NAMES, "dead"]))


@given(count, living, held)
def test_every_partition_has_one_member_and_no_member_has_two_more_than_another(partitions, members, holders):
    found = assign(range(partitions), members, holders)
    assert found.keys() == set(range(partitions))
    sizes = Counter(found.values())
    numbers = [sizes[each.instance] for each in members]
    assert max(numbers) - min(numbers) <= 1


@given(count, living, held, st.randoms())
def test_the_answer_is_the_same_for_every_client(partitions, members, holders, random):
    others = list(members)
    random.shuffle(others)  # type: ignore[attr-defined]
    assert assign(range(partitions), members, holders) == assign(reversed(range(partitions)), others, holders)


@given(count, living, held)
def test_what_is_spread_well_stays_where_it_is(partitions, members, holders):
    found = assign(range(partitions), members, holders)
    assert assign(range(partitions), members, found) == found


@given(count, living.filter(lambda members: len(members) > 1))
def test_when_one_goes_only_its_own_partitions_move(partitions, members):
    before = assign(range(partitions), members, {})
    gone, *left = members
    after = assign(range(partitions), left, before)
    assert all(after[number] == owner for number, owner in before.items() if owner != gone.instance)


@given(count, living.filter(lambda members: len(members) > 1))
def test_when_one_comes_no_partition_moves_between_the_others(partitions, members):
    new, *there = members
    before = assign(range(partitions), there, {})
    after = assign(range(partitions), members, before)
    assert all(owner in {before[number], new.instance} for number, owner in after.items())


@given(count, held, st.lists(st.tuples(st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39))), max_size=5))
def test_no_member_gets_a_partition_it_refuses_and_every_accepted_one_has_an_owner(partitions, holders, limits):
    members = [
        member(name, tuple(sorted(only)), tuple(sorted(refused)))
        for name, (only, refused) in zip(NAMES, limits, strict=False)
    ]
    found = assign(range(partitions), members, holders)
    by_name = {each.instance: each for each in members}
    assert all(by_name[owner].takes(number) for number, owner in found.items())
    assert found.keys() == {n for n in range(partitions) if any(each.takes(n) for each in members)}


@pytest.mark.parametrize(("partitions", "sizes"), [(4, [2, 2]), (5, [2, 3]), (1, [0, 1])])
def test_two_collectors_share_alike(partitions, sizes):
    found = Counter(assign(range(partitions), [member("a"), member("b")], {}).values())
    assert sorted([found["a"], found["b"]]) == sizes
