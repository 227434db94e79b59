"""An edge site with both ends killed: byte for byte, in order, nothing twice, and the site keeps what was not received.

The first takes a minute: when the centre's server was away, nats-server sources again after 38 seconds.
"""

import asyncio
import json
import os
import random
import time
from pathlib import Path

import nats
import nats.errors
import pytest
from chaos.wires import Wire
from harness.edges import End, site
from harness.fleet import Fleet, Program, until
from harness.moving import Writer, text_of

SITE = ("web1.edge.example.net", "web2.edge.example.net")
CENTRAL = "db1.example.net"
EDGES = (100, 101)
SOURCED_AGAIN_SECONDS = 60.0
ROUNDS = int(os.environ.get("FSHIPPER_EDGE_ROUNDS", "1"))


def produce(fleet: Fleet, end: End, host: str, path: Path, *options: str, to_the_end: bool = False) -> Program:
    """A producer of `host`, whose server is at this end; with `to_the_end` it has shipped all when this returns."""
    program = fleet.start(
        "produce", str(path), *options, *(["--once"] if to_the_end else ["--poll", "200ms"]), HOSTNAME=host,
        SHIPPER_PARTITIONS="2", SHIPPER_STATE=str(fleet.directory / host / "state"), **end.as_(host),
    )  # fmt: skip
    if to_the_end:
        assert program.wait() == 0, program.log
    return program


def last_sequences(end: End) -> int:
    """How many messages of the site's partitions were ever stored here."""
    return sum(end.stream(f"LOGS_{number}")["state"]["last_seq"] for number in EDGES)


def cut(wire: Wire, centre: End) -> None:
    """Cut the link twice, wherever it is in a message."""
    for links in (centre.links_ever + 1, centre.links_ever + 2):
        wire.cut()
        until(lambda: centre.links_ever >= links, what="the link is not up again")  # noqa: B023


def kill_both(centre: End, edge: End, programs: list[Program]) -> None:
    """Kill everything; the site goes on alone for a while. Returns when the centre has what the site had then."""
    centre.kill()
    alone = last_sequences(edge)
    until(lambda: last_sequences(edge) > alone + 5, what="the site does not go on alone")
    edge.kill()
    for program in programs:
        program.restart()
    time.sleep(1.0)  # of lines that no server receives
    for end in (edge, centre):
        end.start()
        end.wait_until_ready()
    began, known = time.monotonic(), last_sequences(edge)
    until(lambda: last_sequences(centre) >= known, within=SOURCED_AGAIN_SECONDS, what=lambda: centre.log[-2000:])
    print(f"sourced again after {time.monotonic() - began:.1f} s")


def test_both_ends_killed_under_flow_lose_double_and_reorder_nothing(tmp_path: Path) -> None:
    with site(tmp_path, hosts=SITE, central=(CENTRAL,)) as (centre, edge, wire), Fleet(tmp_path, centre.url) as fleet:
        edge.run("partition", "edge", "100-101")
        centre.run("partition", "apply", "--partitions", "2", "--edge", "edge1=100-101")
        ends = dict.fromkeys(SITE, edge) | {CENTRAL: centre}
        writers = {h: Writer(tmp_path / h / "app.log", lines_a_second=200, seed=n) for n, h in enumerate(ends)}
        collector = fleet.start("consume", **centre.as_("collector"))
        producers = {host: produce(fleet, end, host, writers[host].path) for host, end in ends.items()}
        for producer in producers.values():
            until(lambda: "session_begun" in producer.log, what=lambda: producer.log)  # noqa: B023
        for writer in writers.values():
            writer.start()
        for host, writer in writers.items():
            until(lambda: fleet.archived(host, writer.path), what=lambda: producers[host].log + collector.log)  # noqa: B023

        for _ in range(ROUNDS):
            cut(wire, centre)
            kill_both(centre, edge, [*producers.values(), collector])

        written = {host: writer.end() for host, writer in writers.items()}
        for host, producer in producers.items():
            assert producer.stop() == 0, producer.log
            assert not {"bytes_not_arrived", "server_lost_data"} & set(producer.log.split()), producer.log
            produce(fleet, ends[host], host, writers[host].path, to_the_end=True)
        until(lambda: last_sequences(centre) >= last_sequences(edge), what="not all is sourced")
        assert collector.stop() == 0, collector.log
        fleet.must("consume", "--drain", "--seal", **centre.as_("collector"))
        for host, text in written.items():
            assert text_of(fleet, host) == text, host
        audit = fleet.run("audit", **centre.as_("collector"))
        assert audit.returncode == 0, audit.stdout + audit.stderr
        assert {segment.partition for segment in fleet.segments() if segment.host in SITE} <= set(EDGES)


def noise(kib: int) -> bytes:
    """Lines that no codec makes much smaller than half."""
    return b"".join(random.randbytes(32).hex().encode() + b"\n" for _ in range(kib * 16))


async def refused(end: End, subject: str) -> bool:
    """Whether no subscriber receives a message on `subject` there."""
    client = await nats.connect(end.url, inbox_prefix=f"_INBOX_{SITE[0]}", **end.options(SITE[0]))
    try:
        await client.request(subject, b"a line", timeout=3)
    except nats.errors.NoRespondersError:
        return True
    finally:
        await client.close()
    return False


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory):
    """A site with one host, whose stream has space for 4 MB; nothing is shipped yet."""
    directory = tmp_path_factory.mktemp("quiet")
    with site(directory, hosts=SITE[:1]) as (centre, edge, _), Fleet(directory, centre.url) as fleet:
        edge.run("partition", "edge", "100", "--max-bytes", "4MB")
        centre.run("partition", "apply", "--partitions", "1", "--edge", "edge1=100")
        yield centre, edge, fleet


def test_a_plan_right_after_shows_no_change_on_either_side(quiet) -> None:
    centre, edge, _ = quiet
    assert not json.loads(centre.run("partition", "plan", "--partitions", "1", "--edge", "edge1=100", "--json"))[
        "changes"
    ]
    assert "nothing to do" in edge.run("partition", "edge", "100", "--max-bytes", "4MB")
    assert "its own" in edge.fleet.run("partition", "edge", "101", **edge.as_("partitioner")).stderr
    assert (
        "one of the centre"
        in centre.fleet.run(
            "partition", "apply", "--partitions", "1", "--edge", "edge1=0", **centre.as_("partitioner")
        ).stderr
    )


def test_a_line_of_the_site_is_not_taken_by_the_centre_itself(quiet) -> None:
    centre, edge, _ = quiet
    assert asyncio.run(refused(edge, f"logs.p0.{SITE[0]}"))
    assert not centre.messages("LOGS_0")


def test_what_is_archived_leaves_the_site_and_nothing_before(quiet) -> None:
    centre, edge, fleet = quiet
    path = fleet.directory / SITE[0] / "app.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(noise(5500))
    produce(fleet, edge, SITE[0], path, "--block", "64KiB", to_the_end=True)
    given = edge.messages("LOGS_100")
    until(lambda: centre.messages("LOGS_100") == given)
    assert edge.messages("LOGS_100") == given > 40
    collector = fleet.start("consume", **centre.as_("collector"))
    producer = produce(fleet, edge, SITE[0], path)
    until(lambda: edge.messages("LOGS_100") < given, what="the site is not purged")
    until(lambda: fleet.archived(SITE[0], path) == path.read_bytes(), what="not all is archived")
    assert fleet.archived(SITE[0], path) == path.read_bytes()
    with path.open("ab") as more:
        more.write(noise(100))
    until(lambda: fleet.archived(SITE[0], path) == path.read_bytes(), what=lambda: producer.log)
    hosts = fleet.run("audit", "--hosts", **centre.as_("collector"))
    assert hosts.returncode == 0, hosts.stdout + hosts.stderr
    state = json.loads(fleet.run("status", "--json", **centre.as_("collector")).stdout)
    assert [host["host"] for host in state["hosts"]] == [SITE[0]]
    assert "edge1" in centre.run("partition", "status")
    for program in (producer, collector):
        assert program.stop() == 0
        assert "refused" not in program.log
