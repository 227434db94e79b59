"""A collector counts what its archive holds twice: metric, status, status page."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from auditing import LINES
from collecting import Log
from prometheus_client import REGISTRY
from test_repair_duplicates import Doubled, copied, lines_of, ordered

from consumer.archive.duplicate_count import DuplicateCount
from consumer.archive.manifests import Listing
from consumer.cluster.membership import Member, encode, to_member
from consumer.fleet.app import HostFilter
from consumer.fleet.display import fleet_json, tables
from consumer.fleet.page import About, snapshot
from consumer.fleet.poller import FleetView, _doubled
from consumer.fleet.snapshot import Fleet
from consumer.model import Until
from consumer.segments.compaction import Merger
from shipper.table_printer import standard_output


def gauge(partition: int) -> float | None:
    return REGISTRY.get_sample_value("fshipper_archive_doubled_bytes", {"partition": str(partition)})


async def test_a_doubled_archive_is_counted_by_partition_until_it_is_repaired(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    count = DuplicateCount(place.archive)
    count.count()
    assert count.bytes == len(LINES)
    assert (gauge(0), gauge(1)) == (0, len(LINES))
    assert place.repair("--yes")[0] == 0
    count.count()
    assert (count.bytes, gauge(0), gauge(1)) == (0, 0, 0)


async def test_it_counts_what_the_repair_finds_over_days_and_merges(tmp_path: Path) -> None:
    place = Doubled(tmp_path)
    place.second.clock.turn(4 * 86400.0)
    await place.fill()
    segment = ordered(place.archive)[0]
    copied(place.archive, segment, segment.path.replace(segment.path[5:15], "2030-01-01"))
    count = DuplicateCount(place.archive)
    count.count()
    assert count.bytes == len(LINES) + segment.bytes_raw
    assert count.bytes == sum(each["bytes"] for each in place.repair()[1]["segments"])
    merger = Merger(place.archive, place.first.sealer, below=1 << 20, most=1 << 30)
    date = segment.path[5:15]
    assert merger.merge(date, 0, Listing(place.archive, date), lambda: True)
    count.count()  # a day before the newest two has changed
    assert count.bytes == len(LINES) + segment.bytes_raw
    assert place.repair("--yes")[0] == 0
    count.count()
    assert count.bytes == 0


async def test_a_poll_reads_nothing_while_no_manifest_changes_and_only_new_days_when_one_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Doubled(tmp_path)
    for start in range(0, len(LINES), 800):
        place.first.send(Log(LINES), start, min(start + 800, len(LINES)))
        await place.first.drain(Until.SEALED)
        place.first.clock.turn(86400.0)
    days = sorted({each.path[5:15] for each in lines_of(place.archive)})
    read: list[str] = []
    copies = DuplicateCount._copies

    def noted(self: DuplicateCount, date: str, go_on: Callable[[], bool]) -> list:
        read.append(date)
        return copies(self, date, go_on)

    monkeypatch.setattr(DuplicateCount, "_copies", noted)
    count = DuplicateCount(place.archive)
    count.count()
    assert (read, count.bytes) == (days, 0)
    read.clear()
    count.count()
    assert read == []
    place.first.send(Log(b"new\n", id="00000000000000c1"), 0, 4)
    await place.first.drain(Until.SEALED)
    count.count()
    newest = max(each.path[5:15] for each in lines_of(place.archive))
    assert read == [days[-2], days[-1], newest] if newest not in days else read == days[-2:]
    read.clear()
    old = place.archive / f"_manifest/date={days[0]}/here.jsonl"
    os.utime(old, (1, 1))
    count.count()
    assert read[0] == days[0]


async def test_a_count_that_stops_in_the_middle_continues_from_there(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    (listing,) = place.archive.glob("_manifest/date=*/*.jsonl")
    whole_text = listing.read_bytes()
    listing.write_bytes(whole_text + b"".join(b'{"damaged":%d}\n' % number for number in range(300)))
    with listing.open("ab") as lines:
        for number in range(300):
            fields = json.loads(whole_text.splitlines()[0]) | {"path": f"x{number}", "spans": []}
            lines.write(json.dumps(fields).encode() + b"\n")
    count = DuplicateCount(place.archive)
    count.count(lambda: False)
    assert count.bytes == 0
    count.count()
    assert count.bytes == len(LINES)
    assert count.rest >= 10


async def test_only_as_many_manifests_are_read_as_fit_and_the_newest_day_always(tmp_path: Path) -> None:
    place = Doubled(tmp_path)
    place.second.clock.turn(86400.0)
    await place.fill()
    count = DuplicateCount(place.archive, most_bytes=1)
    count.count()
    assert count.bytes == 0  # the first copy is on the day before
    count = DuplicateCount(place.archive)
    count.count()
    assert count.bytes == len(LINES)


def test_every_collector_of_an_archive_counts_all_of_it_and_older_ones_say_nothing() -> None:
    def member(archive: str, doubled: int, *, left: bool = False) -> Member:
        return Member(name="c", instance="i", host="h", pid=1, archive=archive, lock="l", doubled=doubled, left=left)

    members = [member("a", 10), member("a", 12), member("b", 5), member("c", 7, left=True), None]
    assert _doubled(members) == 17
    older = json.loads(encode(member("a", 10)))
    del older["doubled"]
    found = to_member(json.dumps(older).encode())
    assert found is not None
    assert found.doubled == 0


def test_the_fleet_is_not_well_and_the_status_names_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = Fleet(at=1.0, doubled=8893)
    assert not fleet.is_well
    assert fleet_json(fleet)["doubled_bytes"] == 8893
    assert HostFilter((), ()).troubled(fleet)
    assert not HostFilter(("web1",), ()).troubled(fleet)
    assert not HostFilter((), ()).troubled(Fleet(at=1.0))
    standard_output().print(tables(standard_output(), fleet, [], limit=0))
    assert "8,893 bytes are in the archive twice (fshipper audit --repair-duplicates)" in capsys.readouterr().out


def test_the_page_lists_it_for_attention() -> None:
    about, view = About("c", "1", "/a", 0.0), FleetView(fleet=Fleet(at=1.0))
    assert snapshot(about, view, {"doubled_bytes": 0}, [])["troubles"] == []
    (trouble,) = snapshot(about, view, {"doubled_bytes": 8893}, [])["troubles"]
    assert (trouble["kind"], trouble["state"]) == ("duplicates", "stuck")  # a note would leave "All is well"
    assert "8,893 bytes are in it twice: fshipper audit --repair-duplicates" in trouble["why"]
