"""Moments as people write them, and zones by their names."""

import datetime as dt
import zoneinfo
from pathlib import Path

import pytest

from shipper import codec, zones
from shipper.errors import UsageError
from shipper.layout import NANOSECONDS
from shipper.model import Block, Encoding, Span
from shipper.moments import duration_seconds, moment

NOW = dt.datetime(2026, 11, 28, 8, 0, 30, tzinfo=dt.UTC)
NOW_NS = int(NOW.timestamp()) * NANOSECONDS
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10m", "2026-11-28T07:50:30"), ("1h ago", "2026-11-28T07:00:30"), ("1w", "2026-11-21T08:00:30"),
        ("90", "2026-11-28T07:59:00"), ("now", "2026-11-28T08:00:30"), ("today", "2026-11-28T00:00:00"),
        ("Yesterday", "2026-11-27T00:00:00"), ("yesterday 14:05", "2026-11-27T14:05:00"),
        ("07:30", "2026-11-28T07:30:00"), ("09:30", "2026-11-27T09:30:00"), ("7:30:05", "2026-11-28T07:30:05"),
        ("1795824030", "2026-11-28T00:00:30"), ("@1795824030", "2026-11-28T00:00:30"),
        ("1795824030123", "2026-11-28T00:00:30"), ("1795824030123456789", "2026-11-28T00:00:30"),
        ("2026-11-20", "2026-11-20T00:00:00"), ("2026-11-20T10:00:00+02:00", "2026-11-20T08:00:00"),
        ("2026-11-20 10:00", "2026-11-20T10:00:00"),
    ],
)  # fmt: skip
def test_a_moment_is_what_a_person_means(text: str, meant: str) -> None:
    when = dt.datetime.fromisoformat(meant).replace(tzinfo=dt.UTC)
    assert moment(text, NOW_NS) // NANOSECONDS == int(when.timestamp())


@pytest.mark.parametrize("text", ["1M", "5M ago", "tomorrow", "25:00", "now 10:00", "yesterday noon", "", "1x", "@"])
def test_what_means_none_or_two_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        moment(text, NOW_NS)
    assert refused.value.hint


def test_a_time_of_the_day_after_another_moment_is_the_first_one() -> None:
    since = moment("09:00", NOW_NS)
    assert moment("09:30", NOW_NS, after_ns=since) == since + 1800 * NANOSECONDS
    assert moment("08:30", NOW_NS, after_ns=moment("07:00", NOW_NS)) == NOW_NS + 1770 * NANOSECONDS


def test_a_time_without_a_zone_is_one_of_the_chosen_zone() -> None:
    assert moment("2026-11-28T01:00:00", NOW_NS, BERLIN) == moment("2026-11-28T00:00:00Z", NOW_NS)
    assert moment("today", NOW_NS, BERLIN) == moment("2026-11-27T23:00:00Z", NOW_NS)
    assert moment("2026-07-01", NOW_NS, BERLIN) == moment("2026-06-30T22:00:00Z", NOW_NS)


def test_a_duration_is_no_point_of_time() -> None:
    assert duration_seconds("1h30m") == 5400
    assert duration_seconds("1795824030") is None
    assert duration_seconds("yesterday") is None


@pytest.mark.parametrize(
    ("files", "environment", "found"),
    [
        ({"etc/localtime": "->/usr/share/zoneinfo/Europe/Berlin"}, {}, "Europe/Berlin"),
        ({"etc/localtime": "->../usr/share/zoneinfo/posix/Asia/Kolkata"}, {}, "Asia/Kolkata"),
        ({"etc/timezone": "America/New_York\n"}, {}, "America/New_York"),
        ({}, {"TZ": ":Europe/Vienna"}, "Europe/Vienna"), ({}, {"TZ": "CET-1CEST"}, ""), ({}, {}, ""),
        ({"etc/localtime": "->/usr/share/zoneinfo/Europe/Berlin"}, {"TZ": "UTC"}, ""),
        ({"etc/localtime": "->/usr/share/zoneinfo/Etc/UTC"}, {}, ""), ({"etc/timezone": "../../x"}, {}, ""),
        ({"etc/localtime": "=Australia/Lord_Howe"}, {}, "Australia/Lord_Howe"),
    ],
)  # fmt: skip
def test_the_zone_of_a_machine_is_found(
    tmp_path: Path, files: dict[str, str], environment: dict[str, str], found: str
) -> None:
    database = tmp_path / "usr/share/zoneinfo"
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if content.startswith("->"):
            path.symlink_to(content[2:])
        elif content.startswith("="):
            copy = database / content[1:]
            copy.parent.mkdir(parents=True)
            copy.write_bytes(Path("/usr/share/zoneinfo", content[1:]).read_bytes())
            path.write_bytes(copy.read_bytes())
        else:
            path.write_text(content)
    assert zones.of_system(environment, tmp_path) == found


@pytest.mark.parametrize(
    "sent", ["Europe/Berlin", "../../etc/passwd", "/etc/passwd", "x" * 100, "a b", "\u00fc/x", "A//B"]
)
def test_the_zone_of_a_block_is_a_name_or_ignored(sent: str) -> None:
    block = Block(
        source="0" * 16, file="/a", span=Span(0, 1), origin=0, lines=1, block_crc=0, source_crc=0,
        encoding=Encoding.IDENTITY, read_at="",
    )  # fmt: skip
    headers = codec.to_headers(block) | {"Shipper-Zone": sent}
    assert codec.from_headers(headers).zone == (sent if sent == "Europe/Berlin" else "")
