"""Streams of edge sites: which are wanted, how they are made on both ends, and that no command moves or prunes them."""

import json

import pytest
from harness.natsd import running

from partitioner.desired import parse, wanted_of
from partitioner.edge import at_site, edges_of, in_centre, site_map
from partitioner.topology import Sizing, shipped_template
from shipper.errors import ConfigError, UsageError
from shipper.partition_map import decode, encode
from shipper.stream_source import origin_of

EDGE1 = {"edge1": (100, 101)}


def centre(edges, *, partitions=4):
    return in_centre(shipped_template(), edges, subject="logs", partitions=partitions, sizing=Sizing())


# -- pure -----------------------------------------------------------------------------------------------------------


def test_streams_of_the_centre_listen_to_nothing_and_are_read_by_the_collector():
    wanted = centre(EDGE1)
    assert [each.name for each in wanted] == ["LOGS_100", "LOGS_101"]
    assert not any(each.stream["subjects"] for each in wanted)
    assert [origin_of(each.stream) for each in wanted] == [(each.name, "edge1") for each in wanted]
    assert {each.consumers[0]["durable_name"] for each in wanted} == {"collector"}


def test_streams_of_the_site_listen_and_have_no_consumer():
    wanted = at_site(shipped_template(), (100, 101), subject="logs", sizing=Sizing(max_bytes=1024**3))
    assert [each.name for each in wanted] == ["KV_fshipper", "LOGS_BEATS", "LOGS_100", "LOGS_101"]
    assert [each.stream["subjects"] for each in wanted[2:]] == [["logs.p100.>"], ["logs.p101.>"]]
    assert not any(each.consumers for each in wanted)
    assert {each.stream["discard"] for each in wanted[2:]} == {"new"}


def test_hosts_of_a_site_find_its_partitions_and_no_other():
    known = decode(encode(site_map((100, 101))))
    assert {known.partition_of(f"web{number}.example.net") for number in range(100)} == {100, 101}


@pytest.mark.parametrize(
    ("edges", "partitions", "why"),
    [
        ({"edge1": (3,)}, 4, "partition 3 of edge1 is one of the centre"),
        ({"edge1": (0,)}, 0, "partition 0 of edge1 is one of the centre"),
        ({"edge1": (100,), "edge2": (101, 100)}, 4, "partition 100 of edge2 is one of edge1"),
    ],
)
def test_two_may_not_have_the_same_partition(edges, partitions, why):
    with pytest.raises(ConfigError, match=why):
        centre(edges, partitions=partitions)


@pytest.mark.parametrize(
    "text", ["edge1", "edge1=", "=100", "edge.1=100", "*=100", "a b=100", "hub=100", "edge1=some", "edge1=100,4096"]
)
def test_what_is_no_site_is_refused(text):
    with pytest.raises(UsageError):
        edges_of([text])


def test_a_site_is_named_once():
    assert edges_of(["edge1=100-101", "ship=7"]) == {"edge1": (100, 101), "ship": (7,)}
    with pytest.raises(UsageError, match="once for each site"):
        edges_of(["edge1=100", "edge1=101"])


def test_the_file_of_the_desired_state_has_sites_too():
    desired = parse('partitions = 1\nmax_bytes = "2MiB"\n[edges]\nedge1 = "100-101"\n', "f.toml")
    wanted = wanted_of(desired, shipped_template(), subject="logs", partitions=1, sizing=desired.sizing)
    assert [each.stream["max_bytes"] for each in wanted if origin_of(each.stream)] == [2 * 1024**2] * 2
    with pytest.raises(ConfigError, match="edges"):
        parse('[edges]\nedge1 = "none"\n', "f.toml")


# -- on a server ----------------------------------------------------------------------------------------------------


@pytest.fixture
def sited(partition):
    assert partition("apply", "--partitions", 1, "--edge", "edge1=100", "--max-bytes", "1MB")[0] == 0
    return partition


def plan(partition, *arguments):
    return json.loads(partition("plan", "--partitions", 1, "--max-bytes", "1MB", "--json", *arguments)[1])


def test_a_plan_right_after_shows_no_change(sited):
    assert not plan(sited, "--edge", "edge1=100")["changes"]


def test_a_site_that_is_not_named_is_kept_which_is_reported(sited):
    assert not plan(sited)["changes"]
    (kept,) = [each for each in plan(sited)["actions"] if each["stream"] == "LOGS_100"]
    assert "edge1" in kept["reason"]


def test_a_stream_is_for_producers_or_a_copy_and_stays_so(sited):
    code, _, said = sited("apply", "--partitions", 101, "--max-bytes", "1MB", "--yes")
    assert code == 78
    assert "fshipper partition move" in said
    code, _, said = sited("apply", "--partitions", 1, "--max-bytes", "1MB", "--edge", "edge2=0", "--yes")
    assert code == 78
    assert "one of the centre" in said


def test_a_move_leaves_the_streams_of_sites_alone(sited):
    dry = json.loads(sited("move", "--partitions", 2, "--dry-run", "--json")[1])
    assert (dry["creates"], dry["retires"]) == ([1], [])
    code, _, said = sited("move", "--partitions", 101, "--yes", "--within", "5s")
    assert code == 1
    assert "partition 100 is one of the edge site edge1" in said


def test_the_status_shows_a_site_that_never_sent_anything(sited):
    assert "LOGS_100 is sourced from edge1, which has not answered yet" in sited("status")[1]
    (row,) = [row for row in json.loads(sited("status", "--json")[1]) if row["partition"] == 100]
    assert (row["site"], row["site_silent"], row["site_lag"]) == ("edge1", None, None)


def test_a_site_is_made_once_and_keeps_its_partitions(at_site):
    code, said, _ = at_site("edge", "100-101", "--max-bytes", "1MB")
    assert code == 0
    assert "created stream LOGS_101 (logs.p101.>)" in said
    assert "hosts here go to 100-101" in said
    assert at_site("edge", "100-101", "--max-bytes", "1MB")[1] == "nothing to do\n"
    code, _, said = at_site("edge", "100-102")
    assert code == 1
    assert "map of its own" in said


@pytest.mark.parametrize("domain", ["hub", ""])
def test_a_site_needs_a_domain_that_is_not_the_centres(partition, tmp_path, domain):
    with running(tmp_path / "site", domain=domain) as server:
        code, said, error = partition("edge", "100-101", url=server.url)
    assert (code, said) == (64, "")
    assert "cannot be the JetStream domain of a site" in error


def test_the_domain_of_the_centre_is_refused_as_that_of_a_site(partition, tmp_path):
    with running(tmp_path / "centre", domain="core") as server:
        for verb in ("apply", "plan"):
            code, _, error = partition(verb, "--partitions", 1, "--edge", "core=100", url=server.url)
            assert code == 64
            assert "it is the domain of the centre" in error
