"""Who moves where, how even it is, and what would make it more so."""

import pytest

from partitioner.move.app import MovePlan
from partitioner.move.load import hot_hosts, loads, proposal, skew
from partitioner.on_demand import StreamLimits, refusal
from partitioner.topology import Sizing, checked_target, push_consumer, shipped_template
from shipper.errors import UsageError
from shipper.partition_map import PartitionMap, changed, static

WEIGHTS = {"a": 10, "b": 20, "c": 30, "d": 40}
LIMITS = StreamLimits(max_streams=4, partitions=3, template=shipped_template(), sizing=Sizing())


def plan(after: PartitionMap) -> MovePlan:
    return MovePlan(before=static(2), after=after, weights=WEIGHTS, creates=(), retires=())


def test_a_plan_names_those_that_move_the_heaviest_first() -> None:
    moves = plan(changed(static(2), partitions=2, overrides={"a": 7, "d": 7})).moves
    assert [(move.host, move.after, move.bytes) for move in moves] == [("d", 7, 40), ("a", 7, 10)]
    assert plan(static(2)).moves == []


def test_every_partition_of_the_map_counts_for_the_skew() -> None:
    known = PartitionMap(version=1, partitions=2, overrides=dict.fromkeys(WEIGHTS, 1))
    assert loads(known, WEIGHTS) == {0: 0, 1: 100}
    assert skew(loads(known, WEIGHTS).values()) == 2.0
    assert skew([5, 5, 5]) == 1.0
    assert skew([0, 0]) == 1.0


def test_a_hot_host_is_named_with_the_emptiest_partition_that_can_take_it() -> None:
    known = PartitionMap(version=1, partitions=3, overrides={"a": 0, "b": 0, "c": 1, "d": 0})
    hot = hot_hosts(known, WEIGHTS)
    assert [(each.host, each.partition, each.proposed) for each in hot if each.proposed != each.partition] == [
        ("d", 0, 2)
    ]
    assert proposal(hot, known) == "fshipper partition move --partitions 3 --override d=2"


def test_a_host_that_is_alone_in_its_partition_is_moved_nowhere() -> None:
    known = PartitionMap(version=1, partitions=3, overrides={"a": 1, "d": 1})
    hot = hot_hosts(known, {"a": 1, "d": 1000})  # nearly: the other one is no reason
    assert [(each.host, each.proposed) for each in hot] == [("d", 1)]
    assert proposal(hot, known) == ""


def test_where_partitions_are_even_no_host_is_proposed_to_move() -> None:
    known = PartitionMap(version=1, partitions=3, overrides={"a": 0, "b": 0, "c": 1, "d": 1, "e": 2})
    even = {"a": 65, "b": 52, "c": 65, "d": 52, "e": 63}
    assert [each.proposed for each in hot_hosts(known, even) if each.proposed != each.partition] == []


@pytest.mark.parametrize(
    ("partition", "known", "there", "said"),
    [
        (2, None, 2, ""),
        (3, None, 2, "there are 3 partitions"),
        (2, None, 4, "no more are made"),
        (8, PartitionMap(version=1, partitions=2, overrides={"a": 8}), 2, ""),
        (2, PartitionMap(version=1, partitions=2), 2, "assigns no host to partition 2"),
        (-1, None, 0, "is no partition"),
    ],
)
def test_a_stream_is_made_within_limits(partition: int, known: PartitionMap | None, there: int, said: str) -> None:
    reason = refusal(partition, known, there, LIMITS)
    assert bool(reason) == bool(said)
    assert said in reason


def test_a_push_consumer_sends_to_a_target_of_its_partition() -> None:
    config = push_consumer("out.logs", 3, ack="none")
    assert (config["durable_name"], config["deliver_subject"]) == ("TAIL", "out.logs.p3")
    assert checked_target("out.logs", prefix="logs") == "out.logs"
    for wrong in ("out..logs", "out.*", "out logs", "", "$JS.x", "logs.out"):
        with pytest.raises(UsageError):
            checked_target(wrong, prefix="logs")
