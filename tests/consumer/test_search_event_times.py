"""`fshipper search --by event`: lines are selected, counted and ordered by the times that they contain."""

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pytest
from keeping import DAY_NS
from searching import fshipper, search, write_archive

from consumer.archive.event_times import TimeOf, TimeOrigin
from consumer.read.query import parse
from shipper.layout import NANOSECONDS

APP, SYSLOG, PLAIN = (("web1.example.net", f"/var/log/{name}.log") for name in ("app", "syslog", "plain"))
START = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
APP_TEXT = b"""\
2026-11-20 08:00:02,500 ERROR late line
Traceback of the late line
2026-11-20 08:00:00,250 INFO early line
2031-01-01 00:00:00,000 INFO a clock that is wrong, line
"""
SYSLOG_TEXT = b"""\
Nov 20 08:00:01 host app[1]: line of syslog
Dec 31 23:59:59 host app[1]: line of last year
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(
        tmp_path, {APP: APP_TEXT, SYSLOG: SYSLOG_TEXT, PLAIN: b"line without time\n"}, lambda text: [text]
    )


def found(archive: Path, *arguments: str) -> list[dict[str, Any]]:
    done = fshipper("--json", "--by", "event", "--archive", str(archive), "--state", str(archive.parent), *arguments)
    return [json.loads(line) for line in done.stdout.splitlines()]


def times(objects: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["event_time"][:-1], each["time_from"]) for each in objects if each["type"] == "hit"]


def test_hits_come_in_the_order_of_their_own_times(archive: Path) -> None:
    objects = found(archive, "line")
    assert times(objects) == [
        ("2025-12-31T23:59:59", "line"),
        ("2026-11-20T00:00:00", "estimated"),
        ("2026-11-20T08:00:00.250", "line"),
        ("2026-11-20T08:00:00.250", "previous"),
        ("2026-11-20T08:00:01", "line"),
        ("2026-11-20T08:00:02.500", "line"),
        ("2026-11-20T08:00:02.500", "previous"),
    ]
    assert {each["time"][:10] for each in objects if each["type"] == "hit"} == {"2026-11-20"}
    assert objects[-1]["time_from"] == {"line": 4, "previous": 2, "stored": 0, "estimated": 1}
    assert times(found(archive, "line", "--newest-first", "--limit", "2"))[0] == ("2026-11-20T08:00:02.500", "previous")
    text = fshipper("--by", "event", "--archive", str(archive), "late")
    assert text.stdout.startswith(
        b"2026-11-20T08:00:02.500Z web1.example.net /var/log/app.log: 2026-11-20 08:00:02,500"
    )
    assert b"1 of 2 lines that match have no time of their own: that of the last line before it" in text.stderr
    assert b"the format of its times" not in text.stderr
    assert objects[-1]["unknown_formats"] == [{"host": PLAIN[0], "file": PLAIN[1], "lines": 1}]
    text = fshipper("--by", "event", "--archive", str(archive), "without")
    unknown = f"note: {PLAIN[0]} {PLAIN[1]}: the format of its times is not known, 1 line that matches has the time"
    assert unknown.encode() in text.stderr


def test_the_limit_keeps_the_first_lines_of_all_files(archive: Path) -> None:
    objects = found(archive, "line", "--limit", "3")
    assert [when for when, _ in times(objects)] == [
        "2025-12-31T23:59:59", "2026-11-20T00:00:00", "2026-11-20T08:00:00.250",
    ]  # fmt: skip
    assert objects[-1]["truncated"]


def test_since_and_until_and_the_histogram_mean_the_own_times(archive: Path) -> None:
    objects = found(archive, "line", "--since", "2026-11-20T08:00:01Z", "--until", "2026-11-20T08:00:02Z")
    assert times(objects) == [("2026-11-20T08:00:01", "line")]
    assert times(found(archive, "line", "--until", "2026-01-01")) == [("2025-12-31T23:59:59", "line")]
    buckets = [each for each in found(archive, "line", "--histogram", "1s") if each["type"] == "bucket"]
    assert [(each["start"][:-5], each["count"]) for each in buckets] == [
        ("2025-12-31T23:59:59", 1), ("2026-11-20T00:00:00", 1), ("2026-11-20T08:00:00", 2),
        ("2026-11-20T08:00:01", 1), ("2026-11-20T08:00:02", 2),
    ]  # fmt: skip


def test_files_whose_times_cannot_be_those_that_are_wanted_are_not_read(archive: Path) -> None:
    """Manifest lines have how far the lines of two files are ahead of the time of storing, or how late they are."""
    (explained,) = found(archive, "line", "--explain", "--since", "2026-11-20T07:59:00Z")
    assert (explained["files"], explained["by"]) == (2, "event")
    (explained,) = found(archive, "line", "--explain", "--since", "2026-11-22T23:00:00Z")
    assert explained["files"] == 0
    (explained,) = found(archive, "line", "--explain", "--until", "2026-11-01")
    assert explained["files"] == 1
    plain = fshipper("--by", "event", "--archive", str(archive), "line", "--explain").stdout.decode()
    assert "time     of the line; without one, that of the last line before it" in plain


def test_lines_that_arrive_are_not_sorted_by_their_own_times(archive: Path) -> None:
    done = fshipper("--by", "event", "-f", "--archive", str(archive), "line", code=64)
    assert b"-f excludes --by event" in done.stderr


def test_drawn_lines_have_the_time_of_a_slow_reference(tmp_path: Path) -> None:
    drawn, files, expected = random.Random(5), {}, []
    for number in range(4):
        lines, last = [], None
        for line in range(30_000 if number else 20):
            if drawn.random() < (0.3, 0.3, 0.01, 0.0001)[number] or not line:
                last = START + dt.timedelta(seconds=drawn.randrange(86_400), milliseconds=drawn.randrange(1000))
                lines.append(f"{last:%Y-%m-%d %H:%M:%S}.{last.microsecond // 1000:03} line {line} of {number}")
            else:
                lines.append(f"   line {line} of {number} {'and more' * drawn.randrange(9)}")
            if drawn.random() < (0.3, 0.02, 0.02, 0.001)[number]:
                lines[-1] += " needle"
                expected.append((last, lines[-1].encode()))
        files["web1.example.net", f"/{number}.log"] = "\n".join([*lines, ""]).encode()
    archive = write_archive(tmp_path, files, lambda text: [text])
    result = search(archive, parse("needle"), jobs=2, by=TimeOf.EVENT)
    here = [(START + dt.timedelta(microseconds=(hit.time_ns - DAY_NS) // 1000), hit.line) for hit in result.hits]
    assert sorted(here) == sorted(expected)
    assert [when for when, _ in here] == sorted(when for when, _ in here)
    assert {hit.time_origin for hit in result.hits} == {TimeOrigin.LINE, TimeOrigin.PREVIOUS}
    first = search(archive, parse("needle"), jobs=2, by=TimeOf.EVENT, limit=20)
    assert first.hits == result.hits[:20]
    assert first.search.totals.is_truncated
    last_hits = search(archive, parse("needle"), jobs=2, by=TimeOf.EVENT, limit=20, newest_first=True).hits
    assert last_hits == result.hits[:-21:-1]
    since = DAY_NS + 40_000 * NANOSECONDS
    later = search(archive, parse("needle"), by=TimeOf.EVENT, since_ns=since).hits
    assert [hit.at for hit in later] == [hit.at for hit in result.hits if hit.time_ns >= since]
