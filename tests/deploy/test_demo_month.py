"""The demo's month of days: what the archive holds, and that the story of the last day is in it."""

import datetime as dt
import gzip
import json

from deploy.demo import month
from deploy.demo.workspace import Workspace
from shipper import layout
from spark_analytics.archive import inventory

LAST = dt.date(2026, 11, 20)


def text_of(archive, date, host, name):
    paths = sorted((archive / f"date={date}").glob(f"partition=*/host={host}/*{name}*.gz"))
    return b"".join(gzip.decompress(path.read_bytes()) for path in paths).decode()


def test_the_month_is_an_archive_of_closed_days_whose_manifests_match_its_files(tmp_path):
    dates = month.write_month(Workspace(tmp_path), 25, LAST, seed=1)

    assert (len(dates), dates[0], dates[-1]) == (25, "2026-10-27", "2026-11-20")
    assert inventory.days(tmp_path / "archive") == dates
    for date in (dates[0], dates[-1]):
        day = inventory.read_day(tmp_path / "archive", date)
        assert day.closed
        assert day.present == tuple(day.manifests.segments)
        assert (day.unregistered, day.manifests.damaged) == ((), ())
        for segment in day.present:
            key = layout.FileKey(date, segment.partition, segment.host, segment.file)
            assert segment.path == layout.segment_path(key, segment.first_seq, "gzip")
            content = gzip.decompress((tmp_path / "archive" / segment.path).read_bytes())
            assert (content.count(b"\n"), len(content)) == (segment.lines, segment.bytes_raw)


def test_the_last_day_has_the_whole_story(tmp_path):
    dates = month.write_month(Workspace(tmp_path), 25, LAST, seed=1)
    archive, last, before = tmp_path / "archive", dates[-1], dates[-2]

    attack = [line for line in text_of(archive, last, "web2", "auth.log").splitlines() if month.ATTACKER in line]
    assert [("Failed" in line, "Accepted password" in line) for line in attack] == [(True, False)] * 412 + [
        (False, True)
    ]
    assert text_of(archive, last, "mail1", "mail.log") == ""
    assert text_of(archive, before, "mail1", "mail.log")
    for text, host, name, days in (
        ("certificate of pay.example.net expires", "app1", "shop.log", {last}),
        ("I/O error, dev sdb", "backup1", "syslog", {last, *dates[: 25 - month.AWAY_DAYS]}),
        ("standby db2 has replayed", "db1", "syslog", set(dates[:-1])),
        ("Out of memory: Killed process", "db1", "syslog", {last}),
    ):
        assert {date for date in dates if text in text_of(archive, date, host, name)} == days, text


def test_the_same_seed_gives_the_same_month(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        month.write_month(Workspace(tmp_path / name), 25, LAST, seed=3)
    manifests = [
        next((tmp_path / name / "archive").glob("_manifest/date=2026-11-20/*.jsonl")) for name in ("one", "other")
    ]

    first, second = ([json.loads(line)["crc32"] for line in path.read_text().splitlines()] for path in manifests)
    assert first == second
