"""The sentences of `fshipper status` that need rare faults, as tests/situations.tsv has them."""

import dataclasses
import os
from errno import EACCES, EDQUOT, EIO, ENOSPC, EROFS

import pytest
from harness.situations import shows
from rich.console import Console

from consumer.cluster.membership import Claim, Member
from consumer.disk_space import Disk
from consumer.fleet.causes import CollectorSign, sign_of
from consumer.fleet.display import fleet_json, tables
from consumer.fleet.host_table import HostHealth, HostState, HostStatus, judge, shared
from consumer.fleet.page import About, by_cause, snapshot
from consumer.fleet.poller import FleetView
from consumer.fleet.snapshot import Fleet, Partition, Problem, partitions_of
from shipper.heartbeat import Heartbeat
from shipper.jetstream.stream_status import PartitionStatus

BEAT = Heartbeat(version="1", partition=0, every=5.0, up=3600.0, files=3, silent=1.0, shipped=10)
STATUS = PartitionStatus(
    partition=0, stream="LOGS_0", messages=9, bytes=9, max_bytes=100, percent_full=9.0, first_seq=1, last_seq=9,
    pending=7, ack_pending=0, lag=7, ack_floor=2, waiting=0,
)  # fmt: skip
VM = CollectorSign(name="vm", machine="box", archive="a", directory="/srv/logs", age=1.0, lease=5.0)
ROOMY, FULL = Disk(10**9, 10**9), Disk(10**9, 0)


def partition(**changed: object) -> Partition:
    return Partition(**{"status": STATUS, "sign": VM} | changed)


def hindered(error: int | str, disk: Disk = ROOMY) -> Partition:
    trouble = error if isinstance(error, str) else f"the archive cannot be written: [Errno] {os.strerror(error)}"
    return partition(sign=dataclasses.replace(VM, trouble=trouble, disk=disk))


def host(beat: Heartbeat | None, age: float = 1.0, name: str = "web1") -> HostStatus:
    found = judge(beat, age)
    return HostStatus(name, found.state, found.why, age, beat, 0)


def text(fleet: Fleet) -> str:
    out = Console(width=8192, no_color=True, highlight=False)
    with out.capture() as captured:
        out.print(tables(out, fleet, fleet.hosts, limit=0), crop=False)
    return captured.get()


STUCK = dataclasses.replace(BEAT, backlog=4096, backlog_age=60.0, silent=60.0)
TWIN = shared(HostHealth(HostState.QUIET), "two producers have this name: process 7 on box")
FLEETS = {
    "the archive disk has no inodes": [hindered(ENOSPC)],
    "the quota of the archive is used up": [hindered(EDQUOT)],
    "the archive disk is read-only": [hindered(EROFS)],
    "the archive disk has I/O errors": [hindered(EIO)],
    "the collector may not write the archive": [hindered(EACCES)],
    "one message cannot be read": [hindered("the lease was lost; 3 sessions ended at message 12 of logs.p0.web1")],
    "the collector has another trouble": [hindered("the journal is damaged")],
    "the collector reads nothing": [partition(unread=True)],
    "the entries of the collectors cannot be read": [partition(unread=True, sign=None, signs_known=False)],
    "a stream is nearly full": [partition(status=dataclasses.replace(STATUS, percent_full=95.0, waiting=1))],
    "a site is away": [partition(status=dataclasses.replace(STATUS, site="edge1", site_silent=240.0))],
    "the archive disk is nearly full": [partition(sign=dataclasses.replace(VM, disk=FULL))],
}
HOSTS = {
    "a path cannot be read": host(dataclasses.replace(BEAT, unreadable=1)),
    "a host is stuck": host(dataclasses.replace(STUCK, trouble="no server answers")),
    "a host died with bytes": host(dataclasses.replace(STUCK), 600.0),
    "a host has just begun": host(dataclasses.replace(STUCK, shipped=0, up=3.0)),
    "two hosts have one name": HostStatus("web1", TWIN.state, TWIN.why, 1.0, BEAT, 0),
}


@pytest.mark.parametrize("name", FLEETS)
def test_the_cause_is_named_where(name):
    shows(name, text(Fleet(at=0.0, partitions=tuple(FLEETS[name]))))


@pytest.mark.parametrize("name", HOSTS)
def test_the_state_of_a_host_has_a_reason_where(name):
    shows(name, text(Fleet(at=0.0, hosts=(HOSTS[name],))))


def headline(fleet: Fleet) -> str:
    return page_of(fleet)["verdict"]["text"]


def page_of(fleet: Fleet, disk: Disk = ROOMY) -> dict:
    about = About("vm", "1", "/srv/logs", 0.0)
    return snapshot(about, FleetView(fleet=fleet, disk=disk), {"collector": "vm", "partitions": []}, [])


UNKNOWN = tuple(host(None, name=f"web{number}") for number in range(30))
PAGES = {
    "the page: all is well": Fleet(at=0.0, hosts=(host(BEAT),)),
    "the page: most hosts are not known": Fleet(at=0.0, hosts=(host(BEAT, name="live"), *UNKNOWN)),
    "the page: every host ended": Fleet(
        at=0.0, hosts=(host(dataclasses.replace(BEAT, leaves=True, ended=True)),)
    ),
    "the page: the archive disk is full": Fleet(at=0.0, hosts=(host(BEAT),), partitions=(hindered(ENOSPC, FULL),)),
    "the page: nothing was ever sent": Fleet(at=0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_the_first_line_of_the_page_is_true_where(name):
    shows(name, headline(PAGES[name]))


def test_only_what_heartbeats_show_is_said_of_the_hosts():
    shows("the page: what waits is not known", page_of(Fleet(at=0.0, hosts=UNKNOWN))["backlog"])
    shows("the page: what waits is known of some", page_of(PAGES["the page: most hosts are not known"])["backlog"])
    assert page_of(PAGES["the page: most hosts are not known"])["verdict"]["state"] == "unknown"
    assert page_of(PAGES["the page: every host ended"])["verdict"]["state"] == "empty"
    assert page_of(PAGES["the page: all is well"])["verdict"]["state"] == "well"


def test_one_cause_of_many_partitions_and_hosts_is_one_problem():
    full = dataclasses.replace(STUCK, trouble="stream LOGS_0 is full")
    hosts = tuple(host(full, name=f"web{number}") for number in range(4))
    partitions = tuple(
        dataclasses.replace(hindered(ENOSPC, FULL), status=dataclasses.replace(STATUS, partition=number))
        for number in range(64)
    )
    fleet = Fleet(at=0.0, hosts=hosts, partitions=partitions)
    assert len(fleet.problems) == 1
    assert fleet.problems[0].why.endswith("448 messages wait; 4 hosts wait")
    assert fleet_json(fleet)["problems"][0]["state"] == "dead"
    assert len(page_of(fleet)["troubles"]) == 1


def test_an_entry_of_an_older_collector_has_neither_disk_nor_trouble():
    claim = Claim(owner="vm", instance="i", host="box", pid=1, archive="a", lock="l")
    member = Member(name="vm", instance="i", host="box", pid=1, archive="a", lock="l")
    assert sign_of(claim, 0, 10**9, [member]) == CollectorSign(name="vm", machine="box", archive="a", age=1.0)
    (found,) = partitions_of([STATUS], [], {0: sign_of(claim, 0, 60 * 10**9, [member])}, None, 0.0)
    assert found.sign is not None
    assert found.sign.is_silent
    assert not found.why  # it may be read by a collector that has no right to the bucket


def test_the_page_has_one_row_for_each_cause():
    dead = [Problem("host", f"web{n}", f"died {n} min ago, with {n}.5 MiB not shipped", "dead") for n in range(1, 6)]
    other = Problem("host", "db1", "3 paths cannot be read", "stuck")
    disk = Problem("disk", "archive disk", "archive disk full: 0 B free", "dead")
    rows = by_cause([disk, *dead, other])
    assert [row.what for row in rows] == ["archive disk", "5 hosts: web1, web2, web3 and 2 more", "db1"]
    assert rows[1].why == "web1: died 1 min ago, with 1.5 MiB not shipped"
    assert by_cause([]) == []
