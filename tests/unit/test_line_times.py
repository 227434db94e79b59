import datetime as dt

import pytest

from shipper.line_formats import NONE
from shipper.line_times import LineClock, detect_family


def test_a_line_with_deeply_nested_json_has_no_time():
    assert detect_family(['{"time": ' + "[" * 100_000]) == NONE


@pytest.mark.parametrize(
    ("line", "zone", "day", "wanted"),
    [
        ("Jan  1 00:30:00 h app: x", "Europe/Berlin", "2026-12-31", "2026-12-31T23:30:00"),
        ("Jan  1 13:00:01 h app: x", "Pacific/Auckland", "2026-12-31", "2027-01-01T00:00:01"),
        ("Jan  1 00:00:01 h app: x", "UTC", "2026-12-31", "2027-01-01T00:00:01"),
        ("Jan  2 00:00:01 h app: x", "UTC", "2026-12-31", "2026-01-02T00:00:01"),
        ("Dec 31 23:59:59 h app: x", "UTC", "2026-12-31", "2026-12-31T23:59:59"),
        ("Dec 31 20:00:00 h app: x", "America/New_York", "2027-01-01", "2027-01-01T01:00:00"),
    ],
)
def test_a_time_without_a_year_is_in_the_year_of_the_clock_of_its_host(
    line: str, zone: str, day: str, wanted: str
) -> None:
    clock = LineClock(detect_family([line]), dt.date.fromisoformat(day), zone)
    found = clock.time_ns(line.encode())
    assert found is not None
    assert dt.datetime.fromtimestamp(found / 1e9, dt.UTC).isoformat() == f"{wanted}+00:00"
