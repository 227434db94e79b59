"""Times, zones and levels of the formats that tools write most: one meaning in a search and in the report."""

import datetime as dt
from pathlib import Path

import pytest
from harness.formats import EXAMPLES
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from line_readers import as_reported, as_searched, differing, levels_read

from shipper.line_formats import ANY
from shipper.line_times import object_of

LOGHUB = Path(__file__).resolve().parents[3] / "shared" / "data" / "loghub"
DAY = dt.date(2026, 11, 28)
PAIRS = [(one.line, one.line) for one in EXAMPLES]
MIXED = {"mixed": ANY}
PLAIN = "2026-11-28 10:00:00 INFO a plain line"


def shown(second: int | None) -> str:
    return "" if second is None else f"{dt.datetime.fromtimestamp(second, dt.UTC):%Y-%m-%dT%H:%M:%S}"


@pytest.fixture(scope="module")
def reported(spark):
    return as_reported(spark, PAIRS, day=DAY)


def test_the_report_reads_time_and_level_of_each_format(reported):
    found = {one.name: (shown(second), level) for one, (second, level) in zip(EXAMPLES, reported, strict=True)}
    assert found == {one.name: (one.time, one.level) for one in EXAMPLES}


def test_a_search_reads_the_time_of_each_format():
    found = {one.name: shown(second) for one, second in zip(EXAMPLES, as_searched(PAIRS, day=DAY), strict=True)}
    assert found == {one.name: one.time for one in EXAMPLES}


def test_rules_for_levels_mean_the_same_without_spark():
    found = {one.name: level for one, level in zip(EXAMPLES, levels_read(PAIRS), strict=True)}
    assert found == {one.name: one.level for one in EXAMPLES}


def test_a_file_that_mixes_all_formats_gives_each_line_its_own_time(spark):
    pairs = [(one.line, "mixed") for one in EXAMPLES]
    by_report = [second for second, _ in as_reported(spark, pairs, MIXED, day=DAY)]
    assert {one.name: shown(second) for one, second in zip(EXAMPLES, by_report, strict=True)} == {
        one.name: one.time for one in EXAMPLES
    }
    assert differing(pairs, by_report, as_searched(pairs, MIXED, day=DAY)) == {}


def test_a_line_of_another_format_keeps_its_time(spark):
    strays = [
        ("2026-11-28 12:00:00 +0200 an offset", PLAIN),
        ("2026-11-28 11:00:00.123 CET a name", PLAIN),
        ("2026-11-28  9:00:00 331 [ERROR] a blank instead of a digit", "2026-11-28 10:00:00 331 [Note] x"),
        ("Nov 28 10:00:00 web1 app: syslog", PLAIN),
        ("[28-Nov-2026 10:00:00 UTC] PHP Fatal error:  x", PLAIN),
        ("2026-11-28 10:00:00 ERROR in text", '{"time":"2026-11-28T10:00:00Z","level":"info"}'),
        ("    at App.java:42 2026-11-28 10:00:00", PLAIN),
        ("\tcaused by: 2026/11/28 10:00:00", "Nov 28 10:00:00 web1 app: x"),
    ]
    by_report = [second for second, _ in as_reported(spark, strays, day=DAY)]
    ten = "2026-11-28T10:00:00"
    assert [shown(second) for second in by_report] == [ten, ten, "2026-11-28T09:00:00", ten, ten, ten, "", ""]
    assert differing(strays, by_report, as_searched(strays, day=DAY)) == {}


CLOCKS = ("", "Z", ".123Z", ".123456Z", ".123", ",123", ".123+01:00", "+01:00")
TAILS = (
    *CLOCKS, "Zx", "Z +02:00", " +02:00", " -03", "-03", "+0200", "+02:00", "+01:00:00", "+01:005", "+01:00.5",
    "+19:00", " CET", " [CET]", " CETX", "EST", " Europe/Berlin", " INFO", " - ", "]", ":", ".", ",", ".1", ".12 EST",
    ".12+02:00", ".123 CET", ".123 -03", ".1234", ".123+02:00", ".123+19:00", ".123+01:00 ", ".123+01:00x", ",123 MSK",
    ",123Z", ",123+01:00", "\u0664", ".12\u0664", ".12\u0664+02:00", ".123\u0664 EST", ".12\u0664Z", "+01:0\u0660 ",
)  # fmt: skip


@pytest.mark.parametrize("is_numbered", [False, True], ids=["deferred", "each line"])
@pytest.mark.parametrize("zone", ["", "Europe/Berlin"])
def test_whatever_follows_a_time_it_is_read_as_a_search_reads_it(spark, zone, is_numbered):
    dates = ("2026-11-28 10:00:00", "2026-11-28T10:00:00", "2026-02-30 10:00:00", "2026-11-2\u0668 10:00:00", "x 2026")
    texts = [f"{date}{tail} x" for date in dates for tail in TAILS] + [f"{dates[0]}{tail}" for tail in TAILS]
    pairs = [(text, f"2026-11-28 10:00:00{clock} x") for clock in CLOCKS for text in texts]
    by_report = [second for second, _ in as_reported(spark, pairs, zone=zone, day=DAY, is_numbered=is_numbered)]
    assert differing(pairs, by_report, as_searched(pairs, zone=zone, day=DAY)) == {}


def test_the_second_line_of_java_util_logging_has_a_level_and_a_line_of_a_stack_trace_has_none(spark):
    first = "Nov 28, 2026 10:00:00 AM com.example.App start"
    lines = ["SEVERE: cannot start", "WARNING: slow", "\tat com.example.App.start(App.java:42) ERROR"]
    found = as_reported(spark, [(line, first) for line in lines], day=DAY)
    assert found == [(None, "error"), (None, "warn"), (None, "none")]


IN_ZONES = (
    ("Europe/Berlin", "2026-07-01 12:00:00 x", "2026-07-01T10:00:00"),
    ("Europe/Berlin", "2026-11-28 11:00:00 x", "2026-11-28T10:00:00"),
    ("Europe/Berlin", "2026-10-25 02:30:00 twice: the first", "2026-10-25T00:30:00"),
    ("Europe/Berlin", "2026-10-25 02:30:00 CET twice: named", "2026-10-25T01:30:00"),
    ("Europe/Berlin", "2026-03-29 02:30:00 never", "2026-03-29T01:30:00"),
    ("Europe/Berlin", "Jul  1 12:00:00 web1 app: x", "2026-07-01T10:00:00"),
    ("Europe/Berlin", "Dec 24 12:00:00 web1 app: a year before", "2025-12-24T11:00:00"),
    ("Europe/Berlin", "2026-07-01T12:00:00Z x", "2026-07-01T12:00:00"),
    ("Europe/Berlin", "1795860000.123 92 10.0.0.9 x", "2026-11-28T10:00:00"),
    ("Europe/Berlin", '{"time":"2026-11-28 11:00:00","msg":"x"}', "2026-11-28T10:00:00"),
    ("Europe/Berlin", '{"ts":1795860000}', "2026-11-28T10:00:00"),
    ("Asia/Kolkata", "2026-11-28 15:30:00 IST x", "2026-11-28T10:00:00"),
    ("Asia/Shanghai", "2026-11-28 18:00:00 CST x", "2026-11-28T10:00:00"),
    ("America/Chicago", "2026-11-28 04:00:00 CST x", "2026-11-28T10:00:00"),
    ("America/New_York", "11/28/2026 5:00:00 AM\tx", "2026-11-28T10:00:00"),
    ("Asia/Kathmandu", "[28-Nov-2026 15:45:00] x", "2026-11-28T10:00:00"),
)


def test_a_time_without_a_zone_is_of_the_zone_of_the_host(spark):
    for zone in sorted({zone for zone, _, _ in IN_ZONES}):
        pairs = [(line, line) for name, line, _ in IN_ZONES if name == zone]
        wanted = [time for name, _, time in IN_ZONES if name == zone]
        by_report = [second for second, _ in as_reported(spark, pairs, zone=zone, day=DAY)]
        assert [shown(second) for second in by_report] == wanted, zone
        assert differing(pairs, by_report, as_searched(pairs, zone=zone, day=DAY)) == {}


# -- drawn ---------------------------------------------------------------------------------------------------------

PIECES = (
    *("", " ", "  ", "\t", "[", "]", ":", "error:", "ERROR", "fatal: ", "Z", " +0200", " -03", " EST", " PM"),
    *("[Europe/Berlin]", "\x1b[31m", "\x1b[0m", "<3>", '"level":"warn"', "level=error", "999", "0", "/", "-", ".", "é"),
)
ZONES = ("", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A line of a format with some characters removed, replaced or put in."""
    line = draw(st.sampled_from(EXAMPLES)).line
    for _ in range(draw(st.integers(0, 3))):
        place, length = draw(st.integers(0, min(len(line), 70))), draw(st.integers(0, 2))
        line = line[:place] + draw(st.sampled_from(PIECES)) + line[place + length :]
    return line


@given(st.lists(mutated(), min_size=150, max_size=150), st.sampled_from(ZONES))
@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=True,
    phases=[Phase.generate],  # a smaller example takes seconds each
)
def test_a_drawn_line_means_the_same_in_a_search_and_in_the_report(spark, lines, zone):
    check_alike(spark, [(line, other) for line in lines for other in (line, PLAIN, "mixed")], zone)


def test_a_tab_before_the_time_means_the_same_in_a_file_of_iso_times(spark):
    line = "2026-11-28\t10:00:00\tFRA2-C1\terror:2\t10.0.0.9\tGET\td1.cloudfront.net\t/error\t200"
    check_alike(spark, [(line, PLAIN), (line, line), (PLAIN, line)])


def check_alike(spark, pairs: list[tuple[str, str]], zone: str = "") -> None:
    found = as_reported(spark, pairs, MIXED, zone, DAY)
    assert differing(pairs, [second for second, _ in found], as_searched(pairs, MIXED, zone, DAY)) == {}
    dated = [n for n, (second, _) in enumerate(found) if second and not is_by_kind(*pairs[n])]
    known = [pairs[n] for n in dated]
    assert differing(known, [found[n][1] for n in dated], levels_read(known)) == {}


def is_by_kind(line: str, other: str) -> bool:
    """Whether the level depends on the kind of the file, as for requests and objects, or on the parser of JSON."""
    return '] "' in line or (line.startswith("{") and (other == PLAIN or not object_of(line)))


@pytest.mark.skipif(not LOGHUB.is_dir(), reason="the Loghub samples are not here")
def test_each_line_of_the_real_logs_means_the_same_in_a_search_and_in_the_report(spark):
    for path in sorted(LOGHUB.glob("*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
        check_alike(spark, [(line, "\n".join(lines[:20])) for line in lines])
