import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.partition_map import fnv1a_32, partition_for

# http://www.isthe.com/chongo/tech/comp/fnv/ (test_fnv.c of the authors)
VECTORS = {
    b"": 0x811C9DC5,
    b"a": 0xE40C292C,
    b"b": 0xE70C2DE5,
    b"c": 0xE60C2C52,
    b"fo": 0x6222E842,
    b"foo": 0xA9F37ED7,
    b"foob": 0x3F5076EF,
    b"fooba": 0x39AAA18A,
    b"foobar": 0xBF9CF968,
}


@pytest.mark.parametrize(("key", "value"), VECTORS.items())
def test_the_hash_is_fnv_1a_as_its_authors_test_it(key, value):
    assert fnv1a_32(key) == value


@pytest.mark.parametrize("partitions", [0, -1])
def test_no_partitions_mean_partition_0(partitions):
    assert partition_for("web1.example.net", partitions) == 0


@given(st.text(), st.integers(1, 4096))
def test_every_host_has_one_of_the_partitions_and_always_the_same(host, partitions):
    chosen = partition_for(host, partitions)
    assert 0 <= chosen < partitions
    assert partition_for(host, partitions) == chosen == fnv1a_32(host.encode()) % partitions


def test_a_hundred_hosts_are_spread_over_all_partitions():
    chosen = [partition_for(f"web{number}.example.net", 8) for number in range(100)]
    assert set(chosen) == set(range(8))
    assert max(chosen.count(partition) for partition in range(8)) <= 25
