"""Retention by size takes from the hosts that hold more than their share; who holds less loses nothing."""

import datetime as dt
import json
import shutil
from pathlib import Path

from auditing import audit
from keeping import TODAY, tend, write_open, write_segments

from consumer.archive import manifests
from consumer.archive.manifests import DayTotals
from shipper import layout
from spark_analytics.archive.inventory import read_day
from spark_analytics.report.completeness import account

DAYS = [(TODAY - dt.timedelta(days=ago)).isoformat() for ago in range(3, -1, -1)]  # the last one is today
SMALL, OTHER, FLOOD = "small.example.net", "other.example.net", "flood.example.net"
LINES = b"a line\n" * 100


def fill(place: Path, sizes: dict[str, int]) -> None:
    """A segment of each host on each day, of so many times 700 bytes; the last day stays open."""
    for day in DAYS:
        for host, count in sizes.items():
            write_segments(place, "/var/log/app.log", [LINES * count], date=day, host=host, codec="none")
    tend(place, merge=0)


def octets(place: Path, day: str) -> dict[str, int]:
    held = manifests.held_by_host(place / "archive", day)
    return {host: each.bytes_stored // 700 for host, each in held.items()}


def on_disk(place: Path) -> set[tuple[str, str]]:
    directories = (place / "archive").glob("date=*/partition=*/host=*")
    return {(each.parts[-3].removeprefix("date="), each.name.removeprefix("host=")) for each in directories}


def test_the_oldest_days_of_the_largest_host_go_and_no_others(tmp_path):
    fill(tmp_path, {SMALL: 1, OTHER: 2, FLOOD: 9})
    tend(tmp_path, keep_bytes=40 * 700)  # of 48
    all_of_them = {SMALL: 1, OTHER: 2, FLOOD: 9}
    assert octets(tmp_path, DAYS[0]) == {SMALL: 1, OTHER: 2}
    assert [octets(tmp_path, day) for day in DAYS[1:]] == [all_of_them] * 3
    assert on_disk(tmp_path) == {(day, host) for day in DAYS for host in (SMALL, OTHER, FLOOD)} - {(DAYS[0], FLOOD)}
    noted = json.loads((tmp_path / "archive" / layout.REMOVED_HOSTS_PATH).read_bytes())
    assert (noted["date"], noted["reason"]) == (DAYS[0], "keep_bytes")
    assert noted["hosts"] == {FLOOD: DayTotals(6300, 6300, 900, 1, 1)._asdict()}
    assert not manifests.removed_days(tmp_path / "archive")
    assert not list((tmp_path / "archive").rglob(".remov*"))


def test_a_flood_of_today_takes_no_day_of_others_even_before_it_can_be_removed(tmp_path):
    for day in DAYS[:-1]:
        write_segments(tmp_path, "/var/log/app.log", [LINES], date=day, host=SMALL, codec="none")
    write_segments(tmp_path, "/var/log/app.log", [LINES * 30], date=DAYS[-1], host=FLOOD, codec="none")
    tend(tmp_path, keep_bytes=7 * 700, merge=0)
    assert on_disk(tmp_path) == {*((day, SMALL) for day in DAYS[:-1]), (DAYS[-1], FLOOD)}
    tomorrow = TODAY + dt.timedelta(days=1)
    tend(tmp_path, keep_bytes=7 * 700, merge=0, today=lambda: tomorrow)
    assert on_disk(tmp_path) == {(day, SMALL) for day in DAYS[:-1]}


def test_a_host_at_its_share_loses_nothing_whatever_the_others_hold(tmp_path):
    fill(tmp_path, {SMALL: 1, OTHER: 5, FLOOD: 9})
    tend(tmp_path, keep_bytes=3 * 4 * 700)
    assert [octets(tmp_path, day).get(SMALL) for day in DAYS] == [1, 1, 1, 1]
    assert [octets(tmp_path, day).get(OTHER) for day in DAYS] == [None, None, None, 5]
    assert [octets(tmp_path, day).get(FLOOD) for day in DAYS] == [None, None, None, 9]


def test_bytes_that_are_not_sealed_yet_count(tmp_path):
    fill(tmp_path, {SMALL: 1, FLOOD: 2})  # 12 in all
    write_open(tmp_path, "/var/log/flood.log", [LINES * 20], date=DAYS[-1], host=FLOOD)
    tend(tmp_path, keep_bytes=28 * 700, merge=0)
    assert [octets(tmp_path, day).get(FLOOD) for day in DAYS] == [None, None, 2, 2]
    assert [octets(tmp_path, day).get(SMALL) for day in DAYS] == [1, 1, 1, 1]


def test_whole_days_count_bytes_that_are_not_sealed_yet(tmp_path):
    fill(tmp_path, {SMALL: 1, FLOOD: 2})
    write_open(tmp_path, "/var/log/flood.log", [LINES * 20], date=DAYS[-1], host=FLOOD)
    tend(tmp_path, keep_bytes=29 * 700, keep_by="days", merge=0)
    assert {day for day, _ in on_disk(tmp_path)} == set(DAYS[1:])


def test_a_large_host_keeps_its_fair_share_while_the_flood_of_another_cannot_be_removed(tmp_path):
    """What small hosts leave unused belongs to it, too: its share is more than `keep_bytes` by the number of hosts."""
    fill(tmp_path, {SMALL: 1, OTHER: 6})  # 4 and 24
    write_open(tmp_path, "/var/log/flood.log", [LINES * 60], date=DAYS[-1], host=FLOOD)
    tend(tmp_path, keep_bytes=40 * 700, merge=0)  # 4 for the small one, 18 for each of the others
    assert [octets(tmp_path, day).get(OTHER) for day in DAYS] == [None, 6, 6, 6]
    assert [octets(tmp_path, day).get(SMALL) for day in DAYS] == [1, 1, 1, 1]


def test_with_days_the_oldest_days_of_all_hosts_go(tmp_path):
    fill(tmp_path, {SMALL: 1, OTHER: 2, FLOOD: 9})
    tend(tmp_path, keep_bytes=40 * 700, keep_by="days")
    assert {day for day, _ in on_disk(tmp_path)} == set(DAYS[1:])
    assert manifests.removed_days(tmp_path / "archive") == {DAYS[0]}


def test_what_is_noted_of_single_hosts_is_no_removed_day_for_readers_before_it(tmp_path):
    """They take each line of `removed.jsonl` for a whole day."""
    fill(tmp_path, {SMALL: 1, FLOOD: 9})
    tend(tmp_path, keep_bytes=30 * 700)
    assert not (tmp_path / "archive" / layout.REMOVED_PATH).exists()
    assert layout.REMOVED_HOSTS_PATH != layout.REMOVED_PATH


def test_the_audit_finds_no_fault_and_names_the_hosts_whose_days_were_removed(tmp_path):
    archive = tmp_path / "archive"
    for number, day in enumerate(DAYS[:-1]):
        for host, count in ((SMALL, 1), (FLOOD, 9)):
            write_segments(
                tmp_path,
                "/var/log/app.log",
                [LINES * count],
                date=day,
                host=host,
                codec="none",
                start=number * (700 * count + 3),
            )
    tend(tmp_path, merge=0)
    (archive / "_journal").mkdir()
    shutil.copy(tmp_path / "journal.sqlite", archive / "_journal/logs.p0.sqlite")
    before = audit(str(archive))
    tend(tmp_path, keep_bytes=25 * 700)
    after = audit(str(archive))
    found = [(each["kind"], each["date"], each["host"]) for each in after.found["findings"]]
    assert ("removed_host", DAYS[0], FLOOD) in found
    assert {kind for kind, *_ in found} <= {each["kind"] for each in before.found["findings"]} | {"removed_host"}
    assert after.code == before.code


def test_the_report_of_the_day_knows_whose_lines_were_removed(tmp_path):
    fill(tmp_path, {SMALL: 1, OTHER: 2, FLOOD: 9})
    (tmp_path / "archive" / layout.IDENTITY).touch()
    tend(tmp_path, keep_bytes=40 * 700)
    with (tmp_path / "archive" / layout.REMOVED_HOSTS_PATH).open("ab") as torn:
        torn.write(b'{"v":1,"date":"' + DAYS[1].encode())
    found = [read_day(tmp_path / "archive", day) for day in DAYS]
    assert [each.removed_hosts for each in found] == [(FLOOD,), (), (), ()]
    assert account([], found[0], 0).removed_hosts == (FLOOD,)


def work(place: Path) -> None:
    tend(place, keep_bytes=15 * 700)


def test_kills_at_every_step_leave_what_the_next_start_finishes(lives, places):
    for day in DAYS[:2]:
        for host, count in ((SMALL, 1), (FLOOD, 9)):
            write_segments(places.first, "/var/log/app.log", [LINES * count], date=day, host=host, codec="none")
    tend(places.first, merge=0)
    expected = places.copy()
    work(expected)
    assert on_disk(expected) == {(DAYS[0], SMALL), (DAYS[1], SMALL), (DAYS[1], FLOOD)}
    for place in lives.every_step(work, places.copy):
        assert {(DAYS[0], SMALL), (DAYS[1], SMALL), (DAYS[1], FLOOD)} <= on_disk(place)
        work(place)
        assert on_disk(place) == on_disk(expected)
        assert octets(place, DAYS[0]) == octets(expected, DAYS[0])
        assert not list((place / "archive").rglob(".remov*"))
        shutil.rmtree(place)
