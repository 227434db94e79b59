"""A cluster of three real servers: what is killed and comes back costs time, never a line."""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.cluster import Nodes, cluster
from harness.fleet import Fleet, Program, until

HOSTS = ("web1.example.net", "web2.example.net", "db1.example.net")
PARTITIONS = 6
ROUNDS_SECONDS = float(os.environ.get("FSHIPPER_CLUSTER_SECONDS", "15"))
"""A minute in `make chaos`."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def fleet(nodes: Nodes, tmp_path: Path) -> Iterator[Fleet]:
    nodes.wait_until_whole()
    with Fleet(tmp_path, nodes.url, partitions=PARTITIONS) as found:
        found.must("partition", "apply", "--partitions", str(PARTITIONS), "--replicas", "3", "--max-bytes", "200MB")
        yield found


def balance(fleet: Fleet, *options: str) -> dict:
    return json.loads(fleet.must("partition", "balance", "--json", *options))


def leader_of(fleet: Fleet) -> str:
    """The node that leads most streams."""
    answered = []  # not while leaders are being chosen

    def answer() -> bool:
        answered.append(fleet.run("partition", "balance", "--json", "--dry-run"))
        return answered[-1].returncode in {0, 2}

    until(answer, within=60)
    counts = json.loads(answered[-1].stdout)["streams"]
    return max(counts, key=counts.__getitem__)


def test_leaders_are_spread_evenly_once_a_node_that_was_away_is_back(fleet: Fleet, nodes: Nodes) -> None:
    nodes["nats1"].kill()
    until(lambda: balance(fleet, "--dry-run")["streams"].get("nats1", 0) == 0, within=60)
    nodes["nats1"].start()
    nodes["nats1"].wait_until_ready()
    before = balance(fleet, "--dry-run")
    assert before["streams"]["nats1"] == 0
    assert before["moves"]
    after = balance(fleet)
    for kind in ("streams", "consumers"):
        spread = after[kind].values()
        assert max(spread) - min(spread) <= 1, after
    assert balance(fleet, "--dry-run")["moves"] == []


def test_every_byte_arrives_once_while_leaders_are_killed_and_nodes_restarted_in_turn(
    fleet: Fleet, nodes: Nodes
) -> None:
    logs = {host: fleet.directory / f"{host}.log" for host in HOSTS}
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("ab", buffering=0)) for path in logs.values()]
        programs = [fleet.produce(host, path) for host, path in logs.items()]
        until(lambda: all(begun(program) for program in programs))
        collector = fleet.consume()  # one that never reached its streams ends, as it should
        until(lambda: len(begun(collector)) == PARTITIONS)
        ends = time.monotonic() + ROUNDS_SECONDS
        number = 0
        while time.monotonic() < ends:
            victim = nodes[leader_of(fleet)] if number % 2 == 0 else nodes[sorted(nodes)[number % 3]]
            victim.kill()
            number = write(files, number, seconds=2)
            victim.start()
            victim.wait_until_ready()
            number = write(files, number, seconds=1) + 1
    for host, path in logs.items():
        until(lambda host=host, path=path: fleet.archived(host, path) == path.read_bytes(), within=150, what=host)


def begun(program: Program) -> set[str]:
    """The streams and subjects that a program has begun to work with."""
    return set(re.findall(r"session_begun .* subject=(\S+)", program.log_file.read_text()))


def write(files: list, number: int, *, seconds: float) -> int:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for file in files:
            file.write(b"".join(b"line %d of %d\n" % (each, number) for each in range(200)))
        number += 1
        time.sleep(0.02)
    return number


def test_a_server_alone_has_no_leaders_to_spread(natsd, tmp_path: Path) -> None:
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        done = fleet.run("partition", "balance")
        assert done.returncode == 1
        assert "not part of a cluster" in done.stderr
