"""Old days are removed whole, the oldest first, and only as the settings require; what is gone stays noted."""

import datetime as dt
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from dying import Places
from keeping import TODAY, Past, state, tend, write_open, write_segments

from consumer.archive import manifests
from consumer.archive.directory import LOCKS
from shipper.durable_files import Lock
from shipper.errors import Unavailable
from spark_analytics.archive import inventory

DAYS = [(TODAY - dt.timedelta(days=ago)).isoformat() for ago in range(5, -1, -1)]  # the last one is today
LINES = [b"a line\n" * 100, b"another\n" * 100]


def fill(place: Path, days: list[str] = DAYS) -> None:
    for day in days:
        write_segments(place, "/var/log/app.log", LINES, date=day)
    tend(place)


def kept(place: Path) -> list[str]:
    """The days that are there, with their manifests; nothing half."""
    archive = place / "archive"
    days = sorted(path.name.removeprefix("date=") for path in archive.glob("date=*"))
    assert days == sorted(path.name.removeprefix("date=") for path in (archive / "_manifest").glob("date=*"))
    assert not list(archive.rglob(".removed-*"))
    return days


def test_days_that_are_older_than_the_setting_are_removed(tmp_path):
    fill(tmp_path)
    tend(tmp_path, keep_days=2)
    assert kept(tmp_path) == DAYS[-3:]


def test_without_a_setting_nothing_is_removed(tmp_path):
    fill(tmp_path)
    assert kept(tmp_path) == DAYS


def test_the_oldest_days_go_until_the_rest_is_below_the_limit(tmp_path):
    fill(tmp_path)
    size = manifests.total(manifests.held_by_host(tmp_path / "archive", DAYS[0])).bytes_stored
    total = sum(manifests.total(manifests.held_by_host(tmp_path / "archive", day)).bytes_stored for day in DAYS)
    tend(tmp_path, keep_bytes=total - size - 1)
    assert kept(tmp_path) == DAYS[2:]
    tend(tmp_path, keep_bytes=1)
    (tmp_path / "archive" / f"_manifest/date={DAYS[-1]}/here.done").touch()
    tend(tmp_path, keep_bytes=1)
    assert kept(tmp_path) == DAYS[-1:]  # today never


def test_what_was_removed_is_noted(tmp_path):
    fill(tmp_path, DAYS[:1])
    held = manifests.total(manifests.held_by_host(tmp_path / "archive", DAYS[0]))
    tend(tmp_path, keep_days=1)
    (noted,) = manifests.removed(tmp_path / "archive")
    assert (noted["v"], noted["date"], noted["reason"]) == (1, DAYS[0], "keep_days")
    assert {name: noted[name] for name in held._fields} == held._asdict()
    assert (held.bytes_raw, held.lines, held.segments, held.hosts) == (1500, 200, 1, 1)


def test_a_day_that_a_collector_has_not_closed_stays(tmp_path):
    fill(tmp_path)
    (tmp_path / "archive" / f"_manifest/date={DAYS[1]}/other.jsonl").touch()
    tend(tmp_path, keep_days=1)
    assert kept(tmp_path) == [DAYS[1], *DAYS[-2:]]


@pytest.mark.parametrize("name", ["_open-a.log", "_open.3-a.log", "_sealing-a.log-00000000000000000007.zst"])
def test_a_day_of_which_something_is_not_sealed_stays(tmp_path, name):
    fill(tmp_path, DAYS[:2])
    next((tmp_path / "archive").glob(f"date={DAYS[0]}/*/*/")).joinpath(name).touch()
    tend(tmp_path, keep_days=1)
    assert kept(tmp_path) == DAYS[:1]


def test_another_collector_at_it_is_left_to_do_it(tmp_path):
    fill(tmp_path)
    (tmp_path / "archive" / LOCKS).mkdir(exist_ok=True)
    with Lock(tmp_path / "archive" / LOCKS / "retention.lock", "retention"):
        tend(tmp_path, keep_days=1)
    assert kept(tmp_path) == DAYS


def test_two_collectors_in_parallel_remove_each_day_once(tmp_path):
    fill(tmp_path)
    threads = [threading.Thread(target=tend, args=[tmp_path], kwargs={"keep_days": 1}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept(tmp_path) == DAYS[-2:]
    assert [noted["date"] for noted in manifests.removed(tmp_path / "archive")] == DAYS[:-2]


def test_it_stops_between_two_days(tmp_path):
    fill(tmp_path)
    answers = iter([True, True])
    tend(tmp_path, Past("1970-01-01"), keep_days=1, go_on=lambda: next(answers, False))
    assert kept(tmp_path) == DAYS[1:]


def test_a_day_that_comes_back_is_sealed_listed_and_removed_again(tmp_path):
    fill(tmp_path, DAYS[:2])
    tend(tmp_path, keep_days=1)
    assert kept(tmp_path) == []
    write_segments(tmp_path, "/late.log", LINES, date=DAYS[0])
    assert inventory.read_day(tmp_path / "archive", DAYS[0]).present
    tend(tmp_path)
    tend(tmp_path, keep_days=1)
    assert kept(tmp_path) == []
    assert [noted["date"] for noted in manifests.removed(tmp_path / "archive")] == [*DAYS[:2], DAYS[0]]


def test_a_report_on_a_removed_day_names_the_removal(tmp_path):
    fill(tmp_path)
    tend(tmp_path, keep_days=1)
    with pytest.raises(Unavailable, match=f"{DAYS[0]} was removed .* by keep_days at .*200 lines of 1 host"):
        inventory.read_day(tmp_path / "archive", DAYS[0])
    assert inventory.read_day(tmp_path / "archive", DAYS[-2]).present


def test_an_error_is_reported_and_the_next_call_continues(tmp_path, monkeypatch):
    fill(tmp_path)
    told: list[Any] = []
    monkeypatch.setattr("shipper.events.days_failed", lambda **what: told.append(what))

    def fails(_path: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("consumer.segments.retention.shutil.rmtree", fails)
        tend(tmp_path, keep_days=1)
    assert len(told) == 1
    tend(tmp_path, keep_days=1)
    assert kept(tmp_path) == DAYS[-2:]


def work(place: Path) -> None:
    tend(place, keep_days=4)


def test_kills_at_every_step_leave_what_the_next_start_finishes(lives, places):
    fill(places.first, DAYS[:2])
    expected = places.copy()
    work(expected)
    assert kept(expected) == DAYS[1:2]
    for place in lives.every_step(work, places.copy):
        assert (place / "archive" / f"date={DAYS[1]}").exists()
        work(place)
        assert kept(place) == DAYS[1:2]
        assert state(place) == state(expected)
        shutil.rmtree(place)


def test_a_kill_is_made_good_also_with_other_settings(lives, tmp_path):
    """Between the note and the renaming nothing is gone yet: the day stays, and is reported as it is."""
    places = Places(tmp_path)
    fill(places.first, DAYS[:1])
    write_open(places.first, "/now.log", [b"x\n"], date=DAYS[-1])
    for place in lives.every_step(work, places.copy):
        tend(place, keep_days=100)
        if (place / "archive" / f"date={DAYS[0]}").exists():
            day = inventory.read_day(place / "archive", DAYS[0])
            assert day.present == day.manifests.segments
        else:
            assert not (place / "archive" / "_manifest" / f"date={DAYS[0]}").exists()
        shutil.rmtree(place)
