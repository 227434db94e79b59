"""How a host is, as a function of its heartbeats and their times; and the bounded table of all hosts."""

import dataclasses

import pytest

from consumer.fleet.causes import CollectorSign
from consumer.fleet.display import fleet_json, printable
from consumer.fleet.host_table import CLASH_SECONDS, HostState, HostStatus, HostTable, Thresholds, counts, judge
from consumer.fleet.snapshot import Fleet, floors_of, partitions_of
from shipper.heartbeat import ENDED_EVERY, Heartbeat, encode
from shipper.jetstream.heartbeat_stream import HeartbeatUpdate
from shipper.jetstream.stream_status import PartitionStatus
from shipper.model import Stored
from shipper.units import format_duration

HOUR = 3600.0
BEAT = Heartbeat(version="0.1.0", partition=0, every=5.0, up=HOUR, files=3, silent=HOUR, shipped=10)
WAITING = dataclasses.replace(BEAT, backlog=4096, backlog_age=60.0, backlog_files=1, silent=60.0)
LIMITS = Thresholds()


def state(beat: Heartbeat | None, age: float = 1.0) -> HostState:
    return judge(beat, age).state


SEEN = {
    "nothing waits": (BEAT, 1.0, HostState.QUIET),
    "it never had anything to say": (dataclasses.replace(BEAT, shipped=0), 1.0, HostState.QUIET),
    "something was acknowledged just now": (dataclasses.replace(BEAT, silent=1.0), 1.0, HostState.SHIPPING),
    "it has just begun, and nothing waits": (
        dataclasses.replace(BEAT, shipped=0, up=0.1, silent=0.1),
        1.0,
        HostState.QUIET,
    ),
    "something waits since now": (dataclasses.replace(BEAT, backlog=1, backlog_age=0.0), 1.0, HostState.SHIPPING),
    "it catches up with an old file": (
        dataclasses.replace(WAITING, silent=0.5, backlog_age=HOUR),
        1.0,
        HostState.SHIPPING,
    ),
    "nothing moves, not for long yet": (dataclasses.replace(WAITING, silent=LIMITS.stuck - 1), 1.0, HostState.SHIPPING),
    "nothing moves": (dataclasses.replace(WAITING, silent=LIMITS.stuck), 1.0, HostState.STUCK),
    "a file cannot be opened": (dataclasses.replace(BEAT, unreadable=1), 1.0, HostState.STUCK),
    "it began with a backlog": (dataclasses.replace(WAITING, shipped=0, up=3.0), 1.0, HostState.UNKNOWN),
    "it began with a backlog, and that was a while ago": (
        dataclasses.replace(WAITING, shipped=0),
        1.0,
        HostState.STUCK,
    ),
    "no heartbeat for a while": (BEAT, LIMITS.dead - 1, HostState.QUIET),
    "no heartbeat for too long": (BEAT, LIMITS.dead + 1, HostState.DEAD),
    "it was stuck, and sends no heartbeat": (WAITING, LIMITS.dead + 1, HostState.DEAD),
    "it speaks seldom": (dataclasses.replace(BEAT, every=60.0), 200.0, HostState.QUIET),
    "it speaks seldom, and does not": (dataclasses.replace(BEAT, every=60.0), 241.0, HostState.DEAD),
    "it shipped everything with --once, days ago": (
        dataclasses.replace(BEAT, leaves=True, ended=True, every=ENDED_EVERY),
        3 * 86400.0,
        HostState.ENDED,
    ),
    "it never spoke": (None, 0.0, HostState.UNKNOWN),
}


@pytest.mark.parametrize(("beat", "age", "expected"), SEEN.values(), ids=SEEN)
def test_a_host_is_by_its_last_heartbeat_where(beat, age, expected):
    assert state(beat, age) is expected


def test_a_host_that_was_idle_for_hours_is_not_stuck_by_its_next_line():
    assert state(dataclasses.replace(BEAT, silent=9 * HOUR, backlog=80, backlog_age=0.2)) is HostState.SHIPPING


def test_a_stuck_or_dead_host_has_a_reason():
    assert judge(dataclasses.replace(WAITING, trouble="stream LOGS_0 is full"), 1.0).why == (
        "4.0 KiB wait, nothing moved for 60 s: stream LOGS_0 is full"
    )
    assert judge(BEAT, 600.0).why == "last heartbeat 10 min ago"
    assert (
        judge(dataclasses.replace(WAITING, leaves=True), 600.0).why
        == "was stopped 10 min ago, with 4.0 KiB not shipped"
    )
    assert judge(dataclasses.replace(BEAT, unreadable=2), 1.0).why == "2 paths cannot be read"


def test_thresholds_are_settings():
    assert judge(WAITING, 1.0, Thresholds(stuck=61.0)).state is HostState.SHIPPING
    assert judge(BEAT, 30.0, Thresholds(dead=40.0)).state is HostState.QUIET


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 d")]
)
def test_durations_have_one_unit(seconds, text):
    assert format_duration(seconds) == text


# -- the table ---------------------------------------------------------------------------------------------------

SECOND = 10**9


def heard(*hosts: str, at: int = 0, beat: Heartbeat = BEAT, complete: bool = False) -> HeartbeatUpdate:
    beats = [Stored(1, at * SECOND, f"logs.beat.{host}", {}, encode(beat)) for host in hosts]
    return HeartbeatUpdate(at * SECOND, beats, complete)


def names(table: HostTable, now: int) -> list[tuple[str, str]]:
    return [(host.name, str(host.state)) for host in table.hosts(now * SECOND)]


def test_the_worst_come_first_and_a_host_is_once():
    table = HostTable()
    table.update(heard("b.example", "a.example", at=100))
    table.update(heard("c.example", at=200))
    table.update(heard("a.example", at=201))
    assert names(table, 202) == [("b.example", "dead"), ("a.example", "quiet"), ("c.example", "quiet")]


def test_the_table_is_bounded_and_drops_the_host_that_was_silent_longest():
    table = HostTable(most=100)
    for second in range(150):
        table.update(heard(f"h{second}", at=second))
    table.update(heard("h50", at=150))  # again
    table.update(heard(*(f"h{number}" for number in range(150, 200)), at=151))
    assert {name for name, _ in names(table, 151)} == {"h50", *(f"h{number}" for number in range(101, 200))}


def test_a_complete_poll_drops_hosts_that_were_forgotten():
    table = HostTable()
    table.update(heard("gone", "here", at=1))
    table.update(heard("here", at=2, complete=True))
    assert [name for name, _ in names(table, 2)] == ["here"]


def test_hosts_that_only_send_lines_are_unknown():
    table = HostTable(most=3)
    table.update(heard("web1", at=1))
    table.lines = {"web1": 0, "router": 7, "printer": 1, "one too many": 2}
    assert names(table, 1) == [("printer", "unknown"), ("router", "unknown"), ("web1", "quiet")]


@pytest.mark.parametrize("payload", [b"", b"no json", b'{"v":99}'])
def test_what_cannot_be_read_is_an_unknown_host(payload):
    table = HostTable()
    table.update(HeartbeatUpdate(0, [Stored(1, 0, "logs.beat.web1", {}, payload)], complete=True))
    assert names(table, 0) == [("web1", "unknown")]


@pytest.mark.parametrize("host", ["", "..", "a b", "UPPER.\udcff", "x" * 300, "<script>"])
def test_names_that_no_producer_can_have_are_left_out(host):
    table = HostTable()
    table.update(HeartbeatUpdate(0, [Stored(1, 0, f"logs.beat.{host}", {}, encode(BEAT))], complete=True))
    assert names(table, 0) == []


def test_a_clock_that_goes_back_makes_no_host_dead():
    table = HostTable()
    table.update(heard("web1", at=100))
    assert names(table, 50) == [("web1", "quiet")]


# -- the whole ---------------------------------------------------------------------------------------------------


def stream(**changed) -> PartitionStatus:
    usual = {"messages": 9, "bytes": 9, "max_bytes": 99, "percent_full": 9.1, "first_seq": 1, "last_seq": 9}
    read = {"pending": 0, "ack_pending": 0, "lag": 0, "ack_floor": 9, "waiting": 2}
    return PartitionStatus(**{"partition": 0, "stream": "LOGS_0", **usual, **read, **changed})


def fleet(status: PartitionStatus, *, at: float, before: Fleet | None = None, hosts=()) -> Fleet:
    partitions = partitions_of([status], hosts, {0: CollectorSign(name="alpha")}, before, at)
    return Fleet(at=at, hosts=tuple(hosts), partitions=partitions, floors=floors_of(partitions, before, at))


def test_a_partition_without_an_owner_is_reported_from_the_second_poll_on():
    first = fleet(stream(lag=7, waiting=0), at=100.0)
    at_once = fleet(stream(lag=7, waiting=0), at=100.1, before=first)
    second = fleet(stream(lag=7, waiting=0), at=100.55, before=at_once)
    assert [each.is_well for each in (first, at_once, second)] == [True, True, False]
    assert second.partitions[0].why == "7 messages wait, and collector alpha is alive and requests none"


@pytest.mark.parametrize("changed", [{"ack_floor": 10}, {"waiting": 1}, {"lag": 0}])
def test_a_partition_that_moves_or_is_claimed_is_not_an_orphan(changed):
    first = fleet(stream(lag=7, waiting=0), at=100.0)
    assert fleet(stream(**{"lag": 7, "waiting": 0, **changed}), at=101.0, before=first).is_well


def test_rates_are_of_the_time_between_two_polls():
    first = fleet(stream(ack_floor=100), at=100.0)
    assert first.partitions[0].read_rate is None
    assert fleet(stream(ack_floor=150), at=110.0, before=first).partitions[0].read_rate == 5.0


def test_streams_that_are_nearly_full_or_have_no_consumer_are_reported():
    assert "95 % full" in fleet(stream(percent_full=95.0), at=1.0).partitions[0].why
    crowded = fleet(stream(percent_full=95.0, top_host="web9", top_host_percent=87.0), at=1.0).partitions[0]
    assert "95 % full, and 87 % of its messages are of web9" in crowded.why
    nobody = stream(pending=None, ack_pending=None, lag=None, ack_floor=None, waiting=None)
    assert "no consumer" in fleet(nobody, at=1.0).partitions[0].why


def test_a_dead_hosts_rate_counts_for_nothing():
    shipping = dataclasses.replace(BEAT, rate=1000.0, silent=0.0)
    hosts = [
        HostStatus("a", HostState.SHIPPING, "", 1.0, shipping, 0),
        HostStatus("b", HostState.DEAD, "", 99.0, shipping, 0),
    ]
    found = fleet(stream(), at=1.0, hosts=hosts)
    assert (found.rate, found.partitions[0].rate, found.partitions[0].hosts) == (1000.0, 1000.0, 2)
    assert counts(hosts)[HostState.DEAD] == 1
    assert fleet_json(found)["well"] is False


def test_names_are_made_printable_wherever_they_stand():
    hostile = {"hosts": [{"why": "\x1b[2J\u202e\udcff\n", "n": 1}]}
    assert printable(hostile) == {"hosts": [{"why": "\\x1b[2J\\u202e\\udcff\\n", "n": 1}]}


# -- two producers under one name ------------------------------------------------------------------------------------

RUNS = {name: dataclasses.replace(BEAT, run=name, machine=f"machine-{name}", state="/s", pid=7) for name in "ABC"}


def hear(table: HostTable, *beats: Heartbeat, at: float = 0.0, host: str = "web1") -> HostStatus:
    """The host after one poll for each heartbeat."""
    for number, beat in enumerate(beats):
        stored = Stored(number + 1, int(at * SECOND), f"logs.beat.{host}", {}, encode(beat))
        table.update(HeartbeatUpdate(int(at * SECOND), [stored], complete=number == 0))
    (found,) = table.hosts(int(at * SECOND))
    return found


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ("A", HostState.QUIET),
        ("AAB", HostState.QUIET),
        ("ABC", HostState.QUIET),
        ("ABBA", HostState.SHARED),
        ("ABAB", HostState.SHARED),
    ],
)
def test_a_restart_changes_the_process_once_and_two_that_live_take_turns(runs, expected):
    found = hear(HostTable(), *(RUNS[name] for name in runs))
    assert found.state is expected
    assert ("two producers have this name: process 7 on machine-" in found.why) is (expected is HostState.SHARED)


def test_that_two_had_a_name_is_forgotten_after_a_while():
    table = HostTable()
    assert hear(table, *(RUNS[name] for name in "ABA")).state is HostState.SHARED
    assert hear(table, RUNS["A"], at=CLASH_SECONDS - 1).state is HostState.SHARED
    assert hear(table, RUNS["A"], at=CLASH_SECONDS + 1).state is HostState.QUIET


def test_what_a_producer_saw_itself_counts_at_one_poll():
    found = hear(HostTable(), dataclasses.replace(RUNS["A"], other="process 9 on machine-B"))
    assert (found.state, "process 9 on machine-B" in found.why) == (HostState.SHARED, True)
    assert fleet(stream(), at=0.0, hosts=[found]).troubled_hosts == [found]


def test_a_producer_that_was_refused_is_reported_and_does_not_stand_for_the_host():
    refused = dataclasses.replace(RUNS["B"], refused=True, backlog=99, up=0.1)
    found = hear(HostTable(), RUNS["A"], refused)
    assert (found.state, found.beat.run) == (HostState.SHARED, "A")
    assert "machine-B" in found.why
    assert hear(HostTable(), refused).state is HostState.SHARED


def test_a_dead_or_stuck_host_keeps_its_state_and_older_producers_raise_no_alarm():
    shared = dataclasses.replace(RUNS["A"], other="another")
    table = HostTable()
    hear(table, shared)
    (dead,) = table.hosts(60 * SECOND)
    assert (dead.state, "last heartbeat" in dead.why, "two producers" in dead.why) == (HostState.DEAD, True, True)
    stuck = hear(HostTable(), dataclasses.replace(WAITING, run="A", other="another"))
    assert (stuck.state, "two producers" in stuck.why) == (HostState.STUCK, True)
    older = [dataclasses.replace(BEAT, files=number) for number in (1, 2, 1)]
    assert hear(HostTable(), *older).state is HostState.QUIET
    assert hear(HostTable(), RUNS["A"], BEAT, RUNS["A"]).state is HostState.QUIET  # a downgrade, and an upgrade


def test_a_host_that_is_called_localhost_is_not_well():
    found = hear(HostTable(), BEAT, host="localhost")
    assert (found.state, "every machine is called localhost" in found.why) == (HostState.SHARED, True)


def test_what_a_hostile_host_reports_of_another_is_short_and_printable():
    hostile = dataclasses.replace(RUNS["A"], machine="\x1b[2J" * 999, state="\n" * 999, other="\x07" * 9999, pid=-5)
    found = hear(HostTable(), hostile)
    assert found.beat.pid == 0
    assert len(found.why) < 1000
    assert "\x1b" not in printable(found.why)
