import datetime as dt
import random
from pathlib import Path

import pytest
from day_archives import DATE, DAY, table_of
from line_readers import as_reported, as_searched, differing
from pyspark.sql import functions as F  # noqa: N812

from shipper import line_formats

LOGHUB = Path(__file__).resolve().parents[3] / "shared" / "data" / "loghub"

STAMPED = (
    ("2026-11-20T10:59:59.123Z INFO x", "2026-11-20T10"),
    ("2026-11-20T10:15:00+05:30 x", "2026-11-20T04"),
    ("2026-11-20T10:45:00+0530 x", "2026-11-20T05"),
    ("2015-07-29 17:41:44,747 - INFO  [x]", "2015-07-29T17"),
    ("2016-09-28 04:30:30, Info   CBS   Loaded", "2016-09-28T04"),
    ("nova-compute.log.1.2017-05-16_13:55:31 2017-05-16 00:00:04.500 2931 INFO nova", "2017-05-16T00"),
    ("<34>1 2003-10-11T22:14:15.003Z host su - ID47 - text", "2003-10-11T22"),
    ("Nov 20 06:55:46 LabSZ sshd[24200]: x", "2026-11-20T06"),
    ("Dec 10 06:55:46 LabSZ sshd[24200]: x", "2025-12-10T06"),
    ("Feb 29 06:55:46 a leap day of another year", "2026-02-28T06"),
    ("<13>Jul  1 09:00:55 host kernel[0]: x", "2026-07-01T09"),
    ('1.2.3.4 - - [17/May/2015:10:05:03 +0200] "GET / HTTP/1.1" 200 5', "2015-05-17T08"),
    ("[Sun Dec 04 04:47:44 2005] [notice] x", "2005-12-04T04"),
    ("[Sun Dec 04 04:47:44.123456 2005] [core:error] x", "2005-12-04T04"),
    ("<191>Nov  20 06:55:46 the longest of its kind", "2026-11-20T06"),
    ("[Thu Nov 20 10:00:00.123456789 2026] [core:error] x", "2026-11-20T10"),
    ("1286536309586123456.123456789 the longest of its kind", "2010-10-08T11"),
    ("20171223-22:15:29:606 the longest of its kind", "2017-12-23T22"),
    ('1.2.3.4 - - [01/Jan/2026:00:30:00 -0700] "GET / HTTP/1.1" 200 5', "2026-01-01T07"),
    ('1.2.3.4 - - [31/Feb/2026:00:30:00 +0000] "GET / HTTP/1.1" 200 5', None),
    ("Feb 30 06:55:46 no day of any year", None),
    ("2026/11/20 08:01:02 [error] 12#0: *1 x", "2026-11-20T08"),
    ("17/06/09 20:10:40 INFO executor.Backend: x", "2017-06-09T20"),
    ("081109 203615 148 INFO dfs.DataNode: x", "2008-11-09T20"),
    ("03-17 16:13:38.811  1702  2395 D WindowManager: x", "2026-03-17T16"),
    ("20171223-22:15:29:606|Step_LSC|30002312|x", "2017-12-23T22"),
    ("20171224-0:5:9:6|Step_LSC|30002312|x", "2017-12-24T00"),
    ("[10.30 16:49:06] chrome.exe - x", "2026-10-30T16"),
    ("E1120 10:00:00.123456    1234 file.go:12] x", "2026-11-20T10"),
    ("- 1117838570 2005.06.03 R02-M1 2005-06-03-15.42.50.675872 R02-M1 RAS KERNEL INFO x", "2005-06-03T22"),
    ("134681 node-246 unix.hw state_change.unavailable 1077804742 1 x", "2004-02-26T14"),
    ("1286536309.586 921 192.168.0.68 TCP_MISS/200", "2010-10-08T11"),
    ('{"level":"info","ts":1446249499322,"msg":"x"}', "2015-10-30T23"),
    ('{"timestamp": 1446249499.5}', "2015-10-30T23"),
    ("    at org.apache.Main(Main.java:42)", None),
    ("2099-01-01 00:00:00 a clock that is wrong", None),
    ("2026-11-21 22:00:00 a zone that is ahead", "2026-11-21T22"),
    ("9999-99-99 99:99:99 no time", None),
    ("Xyz 99 99:99:99", None),
    ("", None),
    ("\x00\x00", None),
)

PRECEDED = (
    (" Nov 20 06:55:46 a blank before it", "Nov 20 06:55:46 x", "2026-11-20T06"),
    ("\x1b[1;32m2026/11/20 08:01:02 a colour before it", "2026/11/20 08:01:02 x", "2026-11-20T08"),
    ("\x00\x00081109 203615 148 INFO a hole before it", "081109 203615 148 INFO x", "2008-11-09T20"),
    ("\t1286536309.586 921 a tab before it", "1286536309.586 921 x", "2010-10-08T11"),
    ("long before it: Nov 20 06:55:46 is not of this line", "Nov 20 06:55:46 x", None),
)
"""Lines in a file whose other lines are of the second kind."""

LEVELLED = (
    ("2015-07-29 17:41:44,747 - WARN  [x] - y", "warn"),
    ("- 1117838570 2005.06.03 R02 2005-06-03-15.42.50.675872 R02 RAS KERNEL FATAL data error", "fatal"),
    ("- 1 2005.06.03 R02 RAS KERNEL SEVERE x", "error"),
    ("[Sun Dec 04 04:47:44 2005] [error] mod_jk INFO", "error"),
    ("[Wed Oct 11 14:32:52 2000] [ssl:warn] x", "warn"),
    ("2016-09-28 04:30:30, Info   CBS", "info"),
    ('{"time":"x","level":"debug","msg":"ERROR in text"}', "debug"),
    ("ts=1 level=warning msg=x", "warn"),
    ("<11>Nov 20 06:55:46 host app: x", "error"),
    ("<190>Nov 20 06:55:46 host app: FATAL in text", "info"),
    ("03-17 16:13:38.811  1702  2395 V PhoneStatusBar: x", "trace"),
    ("W1120 10:00:00.123456    1234 file.go:12] x", "warn"),
    ("Nov 20 06:55:46 combo logrotate: ALERT exited abnormally with [1]", "none"),
    ("Nov 20 06:55:46 combo sshd: error: authentication failure", "error"),
    ("MYERROR and ERRORS are words of their own", "none"),
    ("x" * 130 + " ERROR too far", "none"),
    ("", "none"),
)


@pytest.fixture(scope="module")
def parsed(spark):
    pairs = [(line, line) for line, _ in STAMPED + LEVELLED] + [(line, other) for line, other, _ in PRECEDED]
    found = as_reported(spark, pairs)
    return {
        line: (None if second is None else f"{dt.datetime.fromtimestamp(second, dt.UTC):%Y-%m-%dT%H}", level)
        for (line, _), (second, level) in zip(pairs, found, strict=True)
    }


@pytest.mark.parametrize(("line", "hour"), STAMPED, ids=lambda value: str(value)[:40])
def test_the_hour_of_a_line_is_the_one_it_names(parsed, line, hour):
    assert parsed[line][0] == hour


@pytest.mark.parametrize(
    ("line", "hour"), [(line, hour) for line, _, hour in PRECEDED], ids=lambda value: str(value)[-40:]
)
def test_a_time_at_the_start_of_other_lines_may_follow_a_few_characters(parsed, line, hour):
    assert parsed[line][0] == hour


def drawn_lines() -> list[tuple[str, str]]:
    """Lines of every family at drawn times, valid or not, and the line that decides the format of their file."""
    drawn = random.Random(11)
    months, lines = line_formats.MONTHS, []
    for _ in range(60):
        year, month, day = drawn.choice((1969, 1999, 2024, 2026, 2027)), drawn.randint(1, 12), drawn.randint(1, 31)
        hour, minute, second = drawn.choice((0, 7, 23, 24)), drawn.randint(0, 59), drawn.choice((0, 31, 59, 60))
        clock, name = f"{hour:02}:{minute:02}:{second:02}", months[month - 1]
        zone = drawn.choice(("", "Z", "+05:30", "-0700", "+1900", "+00:00"))
        epoch = f"{drawn.randrange(10**9, 10**10)}"
        date = f"{year}-{month:02}-{day:02}"
        lines += [
            (f"{date}T{clock}.123 x", "2026-01-01T00:00:00.1 x"),
            (f"{date} {clock},456{zone} x", "2026-01-01 00:00:00,1+01:00 x"),
            (f"<34>1 {date}T{clock}.1{zone} x", "<34>1 2026-01-01T00:00:00.1Z x"),
            (f"{name} {day:>2} {clock} host sshd[1]: x", "Jan  1 00:00:00 host x"),
            (f"<13>{name} {day} {clock} host x", "<13>Jan  1 00:00:00 host x"),
            (f"{year % 100:02}/{month:02}/{day:02} {clock} INFO x", "26/01/01 00:00:00 INFO x"),
            (f"{year}/{month:02}/{day:02} {clock} [error] x", "2026/01/01 00:00:00 [error] x"),
            (f"{year % 100:02}{month:02}{day:02} {clock.replace(':', '')} 1 INFO x", "260101 000000 1 INFO x"),
            (f"{month:02}-{day:02} {clock}.811 1 2 D x", "01-01 00:00:00.811 1 2 D x"),
            (f"{year}{month:02}{day:02}-{hour}:{minute}:{second}:6|x", "20260101-0:0:0:6|x"),
            (f"[Sun {name} {day:02} {clock}.5 {year}] [notice] x", "[Sun Jan 01 00:00:00 2026] [notice] x"),
            (f"[{month:02}.{day:02} {clock}] x", "[01.01 00:00:00] x"),
            (f"E{month:02}{day:02} {clock}.123456 1 x", "E0101 00:00:00.123456 1 x"),
            (f'1.2.3.4 - - [{day:02}/{name}/{year}:{clock} {zone[:3] or "+"}00] "GET / HTTP/1.1" 200 5', CLF),
            (f"{epoch}.5 921 x", "1286536309.586 921 x"),
            (f"{epoch}123 x", "1286536309.586 921 x"),
            (f'{{"ts":{epoch}{drawn.choice(("", "123", "123456", ".25"))}}}', '{"ts":1446249499322}'),
            (f'{{"time":"{date}T{clock}{zone}"}}', '{"time":"2026-01-01T00:00:00Z"}'),
            (f"{clock} x", "2026-01-01 00:00:00 x"),
        ]
    tails = (
        ".12 EST x",
        ".1 +02:00 x",
        ".+02:00 x",
        ".1.2 x",
        ".12+0300 x",
        ".123 EST x",
        ".123Z x",
        ".1234 -03 x",
        ".12\tEST x",
        ",123 [MSK] x",
        ".12. EST",
        ".-03",
        ".1 2",
        ". 12 +02:00",
        ".123",
        "Z",
        " EST",
        " - EST",
        ".123456+05:30 x",
    )
    return lines + [(f"2026-11-20T10:59:59{tail}", "2026-01-01T00:00:00.1 x") for tail in tails]


CLF = '1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5'


def test_a_search_reads_the_times_of_lines_as_the_report_does(spark):
    pairs = drawn_lines() + [(line, line) for line, _ in STAMPED] + [(line, other) for line, other, _ in PRECEDED]
    pairs += [(line, "mixed") for line, _ in STAMPED]
    by_report = [second for second, _ in as_reported(spark, pairs, {"mixed": line_formats.ANY})]
    by_search = as_searched(pairs, {"mixed": line_formats.ANY})
    assert differing(pairs, by_report, by_search) == {}
    assert sum(found is not None for found in by_search) > len(pairs) // 4


@pytest.mark.parametrize(("line", "level"), LEVELLED, ids=lambda value: str(value)[:40])
def test_the_level_of_a_line_is_the_one_it_names(parsed, line, level):
    assert parsed[line][1] == level


def test_a_line_without_a_time_counts_at_the_hour_at_which_its_segment_was_stored(archive, spark, tmp_path):
    archive.seal(b"2026-11-20T10:00:00Z INFO x\n    at Main\n")

    made = archive.reported(spark, tmp_path / "out")

    levels_by_hour = {level.level: dict(enumerate(level.hours)) for level in made.volume.levels}
    assert (levels_by_hour["info"][10], levels_by_hour["none"][5]) == (1, 1)
    assert made.totals.no_ts_lines == 1
    assert [row["continuation_lines"] for row in table_of(tmp_path / "out", "file_daily")] == [1]


GOLDEN = {
    "Zookeeper_2k": {"info": 669, "warn": 1318, "error": 13},
    "Hadoop_2k": {"info": 1040, "warn": 808, "error": 150, "fatal": 2},
    "HDFS_2k": {"info": 1920, "warn": 80},
    "BGL_2k": {"info": 1597, "fatal": 347, "error": 41 + 7, "warn": 8},
    "Apache_2k": {"notice": 1405, "error": 595},
}


@pytest.mark.skipif(not LOGHUB.is_dir(), reason="the Loghub samples are not here")
def test_levels_and_hours_of_the_loghub_samples_are_the_known_ones(archive, spark, tmp_path):
    for path in sorted(LOGHUB.glob("*.log")):
        content = path.read_bytes()
        # The known counts are of rows; an unterminated last line is no line to wc.
        archive.seal(content if content.endswith(b"\n") else content + b"\n", file=path.stem)
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    table = spark.read.parquet(str(tmp_path / "out" / "tables" / "hourly" / f"date={DATE}"))
    rows = table.groupBy("file", "level").sum("lines").collect()
    levels: dict[str, dict[str, int]] = {}
    for file, level, lines in rows:
        levels.setdefault(file, {})[level] = lines
    assert {file: levels[file] for file in GOLDEN} == GOLDEN
    assert made.totals.no_ts_lines == 0
    assert made.totals.lines == 16 * 2000
    assert dt.date.fromisoformat(made.date) == DAY


def test_a_group_classifies_as_its_lines_do_one_by_one(archive, spark, tmp_path):
    """Level and message of lines without a request's id are computed from their groups; numbers are masked by then."""
    plain = [
        "<11>Nov 20 05:00:00 host app[1]: disk 7 is full",
        "<14>Nov 20 05:00:01 host app[2]: disk 8 is full",
        "Nov 20 05:00:02 host app[3]: level=error in 4 places",
        "Nov 20 05:00:03 host app[4]: WARN 5 left",
    ]
    ids = [
        f"2026-11-20 05:00:0{n % 10} WARN [{'abcdef'[n % 6] * 5}{'bcdefa'[n // 6 % 6] * 3}] app: took {n} ms"
        for n in range(30)
    ]
    archive.seal(("\n".join(plain * 4) + "\n").encode(), file="plain")
    archive.seal(b"<2026> apples and 3 pears\n" * 3, file="bare")
    archive.seal(("\n".join(ids) + "\n").encode(), file="ids")
    archive.close()

    archive.reported(spark, tmp_path / "out")

    rows = spark.read.parquet(str(tmp_path / "out" / "tables" / "hourly" / f"date={DATE}"))
    texts = spark.read.parquet(str(tmp_path / "out" / "tables" / "fingerprints" / f"date={DATE}"))
    found = rows.join(texts, on="fingerprint").groupBy("file", "level", "text").agg(F.sum(rows["lines"])).collect()
    assert {tuple(row) for row in found} == {
        ("plain", "error", "disk 0 is full", 4),
        ("plain", "info", "disk 0 is full", 4),
        ("plain", "error", "level=error in 0 places", 4),
        ("plain", "warn", "WARN 0 left", 4),
        ("bare", "none", "<0> apples and 0 pears", 3),
        ("ids", "warn", "took 0 ms", 30),
    }
