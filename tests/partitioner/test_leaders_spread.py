"""The plan of an even spread: whatever the copies allow, in as few moves as a leadership more than another needs."""

from hypothesis import given
from hypothesis import strategies as st

from partitioner.leaders import RaftGroup, counts, moves

NODES = ("n1", "n2", "n3", "n4", "n5")


def led(number: int, leader: str, peers: frozenset[str]) -> RaftGroup:
    return RaftGroup(f"LOGS_{number}", "", leader, peers | {leader})


@st.composite
def clusters(draw: st.DrawFn, copies: int, nodes: int) -> list[RaftGroup]:
    names = NODES[:nodes]
    count = draw(st.integers(0, 30))
    found = []
    for number in range(count):
        peers = draw(st.lists(st.sampled_from(names), min_size=copies, max_size=copies, unique=True))
        found.append(led(number, peers[0], frozenset(peers)))
    return found


def after(cluster: list[RaftGroup]) -> list[RaftGroup]:
    to = {(move.led.stream, move.led.consumer): move.to for move in moves(cluster, NODES)}
    return [each._replace(leader=to.get((each.stream, each.consumer), each.leader)) for each in cluster]


@given(clusters(copies=3, nodes=3))
def test_where_every_node_has_a_copy_leaders_differ_by_one_at_most(cluster: list[RaftGroup]) -> None:
    three = NODES[:3]
    to = {each.led.stream: each.to for each in moves(cluster, three)}
    spread = counts([each._replace(leader=to.get(each.stream, each.leader)) for each in cluster], three)
    assert max(spread.values()) - min(spread.values()) <= 1


@given(clusters(copies=2, nodes=5))
def test_a_leadership_only_goes_where_a_copy_is(cluster: list[RaftGroup]) -> None:
    assert all(each.leader in each.peers for each in after(cluster))


@given(clusters(copies=2, nodes=5))
def test_what_is_as_even_as_it_can_be_stays_as_it_is(cluster: list[RaftGroup]) -> None:
    assert moves(after(cluster), NODES) == []


@given(clusters(copies=2, nodes=4))
def test_no_single_move_could_do_better(cluster: list[RaftGroup]) -> None:
    done = after(cluster)
    load = counts(done, NODES)
    assert not [(each, peer) for each in done for peer in each.peers if load[each.leader] >= load[peer] + 2]


def test_the_way_from_the_fullest_to_the_emptiest_may_lead_over_others() -> None:
    cluster = [led(1, "n1", frozenset({"n2"})), led(2, "n1", frozenset({"n2"})), led(3, "n2", frozenset({"n3"}))]
    assert counts(after(cluster), NODES[:3]) == {"n1": 1, "n2": 1, "n3": 1}


def test_what_has_no_leader_just_now_is_left_alone() -> None:
    assert moves([RaftGroup("LOGS_0", "", "", frozenset({"n1", "n2"}))], NODES) == []
