"""DuckDB and Spark make the same tables from the same texts, of fixed days and of drawn ones."""

import datetime as dt
import itertools
import json
import os
import random
from pathlib import Path

import duckdb
import pytest
from day_archives import DATE, Archive, table_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from shipper import layout
from shipper.errors import ShipperError
from shipper.line_times import PLACEHOLDER_START, in_year
from spark_analytics.aggregate import engine as engine_of_texts
from spark_analytics.aggregate import groups
from spark_analytics.aggregate.engine import DuckEngine, SparkEngine
from spark_analytics.archive import inventory
from spark_analytics.metrics.web_requests import MAX_SENT
from spark_analytics.runtime import tuning
from spark_analytics.scan import driver_lines
from spark_analytics.scan import run as scan
from spark_analytics.tables import parquet, schemas, spark_io
from spark_analytics.tables.store import SMALL, Tables

NEW_YEAR = "2026-01-01"
MARK = b"\xef\xbb\xbf"
SKETCHES = {"latency_kll": "kll_sketch_get_n_double", "clients_hll": "hll_sketch_estimate"}

SYSLOG = (
    b"%s web1 sshd[%d]: Failed password for root from 10.0.0.%d port 22 ssh2",
    b"%s web1 sshd[%d]: Failed password for invalid user b\xffd from 10.0.0.%d port 22 ssh2",
    b"%s web1 sshd[%d]: Failed password for invalid user b\xfed from 10.0.0.%d port 22 ssh2",
    b"%s web1 sshd[%d]: message repeated 3 times: [ Failed password for root from 10.0.0.%d port 22 ssh2]",
    b"%s web1 sshd[%d]: Accepted publickey for deploy from 10.0.0.%d port 50212 ssh2",
    b"%s web1 app[%d]: ERROR cannot reach 10.0.0.%d\r",
    b"%s web1 kernel[%d]: blk_update_request: I/O error, dev sdb, sector %d",
    b"%s web1 app[%d]: \xff\xfe warning: %d bytes are no text",
)
YEARLESS = (b"Dec 31 23:59:59", b"Jan  1 00:00:00", b"Jan  2 22:59:59", b"Jan  2 23:00:00", b"Feb 29 12:00:00")
DATED = (
    b"2026-01-01T05:00:00Z",
    b"2025-12-30T23:59:59Z",
    b"1969-12-31T23:59:59Z",
    b"1969-12-31T12:00:00Z",
    b"1970-01-01T00:00:00Z",
    b"2026-01-02T22:59:59Z",
    b"2026-01-02T23:00:01Z",
    b"2031-01-01T00:00:00Z",
)
EPOCHS = (1767225600, 1767225600123, 1767139200, -1, 0, 253402300800, 4_000_000_000, -(10**15), 10**25)
STATUSES = (200, 200, 304, 404, 500, 503)


def syslog(chance: random.Random) -> bytes:
    return chance.choice(SYSLOG) % (chance.choice(YEARLESS), chance.randrange(99), chance.randrange(4))


def dated(chance: random.Random) -> bytes:
    if chance.random() < 0.2:
        return b"\tat com.example.Trace(Trace.java:%d)" % chance.randrange(9)
    return b"%s %s took %d ms" % (
        chance.choice(DATED),
        chance.choice((b"INFO", b"ERROR", b"WARN", b"")),
        chance.randrange(9),
    )


def in_json(chance: random.Random) -> bytes:
    asked = {"status": chance.choice(STATUSES), "method": "GET", "path": f"/p{chance.randrange(5)}?q", "client": "::1"}
    other = {"level": chance.choice(("info", "error")), "message": f"line\nof \u20ac{chance.randrange(5)} \ud800"}
    return json.dumps({"ts": chance.choice(EPOCHS)} | (asked if chance.random() < 0.5 else other)).encode()


def access(chance: random.Random) -> bytes:
    line = b'10.0.0.%d - - [01/Jan/2026:0%d:00:00 +0000] "GET /%d HTTP/1.1" %d %d' % (
        chance.randrange(9),
        chance.randrange(9),
        chance.randrange(5),
        chance.choice(STATUSES),
        chance.randrange(999),
    )
    return line + (b' "-" "-" %d.250' % chance.randrange(3) if chance.random() < 0.5 else b"")


def plain(chance: random.Random) -> bytes:
    return chance.choice((b"", b"\r", b"job %d is done" % chance.randrange(9), b"\xff", "ö€😀".encode()))


CODECS = ("none", "zstd")
WRITERS = (syslog, dated, in_json, access, plain)


def a_generated_day(archive: Archive) -> None:
    """Files of every kind, in several segments, with all that an end or a beginning may lack, and silent ones."""
    chance = random.Random(6)
    archive.date = NEW_YEAR
    for number, (writer, _) in enumerate(itertools.product(WRITERS, range(6))):
        content = b"".join(writer(chance) + b"\n" for _ in range(chance.randrange(1, 60)))
        content = chance.choice((b"", MARK)) + (content if chance.random() < 0.5 else content.rstrip(b"\n"))
        where = {"host": f"h{number % 4}", "partition": number % 3, "file": f"/log/{writer.__name__}{number % 2}"}
        archive.seal(content, **where, codec=chance.choice(("none", "zstd")))
    archive.seal(b"", file="/log/empty")
    archive.seal(MARK, file="/log/mark", first_time="", redacted={"password-name": 3, "card": 1})
    archive.seal(b"of no known hour\n" * 3, file="/log/never", first_time="never")
    request = b'10.0.0.1 - - [32/Jan/2026:05:00:00 +0000] "GET /never HTTP/1.1" 404 7 "-" "-" 1.250\n'
    archive.seal(request * 3, file="/log/request", first_time="never")
    missing = archive.seal(b"x\n", file="/log/missing")
    (archive.root / missing.path).unlink()


def a_damaged_day(archive: Archive) -> None:
    """One segment of which ends within its frame, and whole ones."""
    archive.date = NEW_YEAR
    archive.seal(b"2026-01-01T05:00:00Z INFO x\n" * 9, file="/log/whole")
    cut = archive.root / archive.seal(random.Random(1).randbytes(9000) + b"\n", file="/log/cut").path
    cut.write_bytes(cut.read_bytes()[:4000])


def an_empty_day(archive: Archive) -> None:
    """Closed, without a segment."""
    archive.date = NEW_YEAR
    archive.manifest.write_bytes(b"")
    archive.close()


@pytest.mark.parametrize(
    ("filled", "without"),
    [
        (a_generated_day, set()),
        (a_damaged_day, {"access_hourly", "access_top", "auth_daily", "event_daily", "redacted_daily"}),
        (an_empty_day, schemas.TABLES.keys() - {"runs"}),
    ],
)
def test_every_table_is_the_same_whether_groups_are_few_or_many(archive, spark, tmp_path, monkeypatch, filled, without):
    filled(archive)

    by_values = archive.reported(spark, tmp_path / "few")
    monkeypatch.setattr(driver_lines, "MAX_GROUPS", -1)
    by_spark = archive.reported(spark, tmp_path / "many")

    tables = {name: rows_of(spark, tmp_path / "few", name) for name in schemas.TABLES.keys() - {"runs"}}
    assert {name for name, rows in tables.items() if not rows} == without
    for name, rows in tables.items():
        assert rows == rows_of(spark, tmp_path / "many", name), name
    assert by_values.web == by_spark.web
    assert by_values.volume == by_spark.volume
    assert by_values.totals == by_spark.totals


def test_every_table_is_the_same_whether_texts_are_looked_at_with_the_scan_or_once_each(
    archive, spark, tmp_path, monkeypatch
):
    a_generated_day(archive)

    archive.reported(spark, tmp_path / "with")
    monkeypatch.setattr(tuning, "SMALL_BYTES", -1)
    archive.reported(spark, tmp_path / "once")

    for name in schemas.TABLES.keys() - {"runs"}:
        assert rows_of(spark, tmp_path / "with", name) == rows_of(spark, tmp_path / "once", name), name


@st.composite
def drawn_segments(draw) -> list[tuple[dict, bytes, str]]:
    """Segments of some log files: any mix of formats in a file, with or without a mark and a last newline."""
    segments = []
    for _ in range(draw(st.integers(1, 8))):
        chance = draw(st.randoms(use_true_random=False))
        writers = draw(st.lists(st.sampled_from(WRITERS), min_size=1, max_size=3))
        content = b"\n".join(chance.choice(writers)(chance) for _ in range(draw(st.integers(0, 40))))
        content = draw(st.sampled_from((b"", MARK))) + content + draw(st.sampled_from((b"", b"\n", b"\n\n")))
        host, partition = draw(st.sampled_from((("h0", 0), ("h1", 1), ("\u00fc", 1))))
        file = draw(st.sampled_from(("/log/a", "/log/b", "/log/c \u20ac")))
        segments.append(({"host": host, "partition": partition, "file": file}, content, draw(st.sampled_from(CODECS))))
    return segments


@settings(
    max_examples=int(os.environ.get("FSHIPPER_DRAWN_DAYS", "2")),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
@given(segments=drawn_segments())
def test_both_engines_make_equal_tables_of_drawn_days(spark, tmp_path_factory, segments):
    place = tmp_path_factory.mktemp("drawn")
    (place / "archive").mkdir()
    (place / "archive" / layout.IDENTITY).write_text('{"v": 1, "id": "00c0ffee00c0ffee"}\n')
    archive = Archive(place / "archive", NEW_YEAR)
    for where, content, codec in segments:
        archive.seal(content, **where, codec=codec)
    archive.close()

    by_duckdb = archive.reported(spark, place / "duckdb")
    spark.conf.set(scan.ENGINE, "spark")
    try:
        by_spark = archive.reported(spark, place / "spark")
    finally:
        spark.conf.unset(scan.ENGINE)

    for name in schemas.TABLES.keys() - {"runs"}:
        assert rows_of(spark, place / "duckdb", name) == rows_of(spark, place / "spark", name), name
    assert by_duckdb.totals == by_spark.totals
    assert by_duckdb.web == by_spark.web


@pytest.mark.parametrize("max_groups", [0, driver_lines.MAX_GROUPS])
def test_however_long_numbers_are_and_in_whatever_digits_lines_are_one_pattern(
    archive, spark, tmp_path, monkeypatch, max_groups
):
    monkeypatch.setattr(driver_lines, "MAX_GROUPS", max_groups)
    numbers = ["1", "22", "333", "٤٤", "\uff15"]
    iso = [f"2026-11-20 05:00:0{n} INFO job {number} done" for n, number in enumerate(numbers)]
    syslog = [f"<{pri}>Nov 20 05:00:0{n} web1 cron[{n}]: ran {numbers[n]}" for n, pri in enumerate((3, 11, 131))]
    odd = [f"<٣>Nov 20 05:00:00 web1 cron[1]: odd {number}" for number in numbers]
    for name, lines in (("iso", iso), ("syslog", syslog), ("odd", odd)):
        archive.seal("".join(f"{line}\n" for line in lines).encode(), file=f"/log/{name}")

    archive.reported(spark, tmp_path / "out")

    found = {row["text"]: row["lines"] for row in table_of(tmp_path / "out", "fingerprints")}
    hourly = (
        spark.read.parquet(str(tmp_path / "out" / "tables" / "hourly")).groupBy("file", "level").agg(F.sum("lines"))
    )
    by_level = {(file, level): lines for file, level, lines in hourly.collect()}
    assert {text: lines for text, lines in found.items() if "job" in text or "ran" in text} == {
        "job 0 done": 5,
        "ran 0": 3,
    }
    assert [lines for text, lines in found.items() if "odd" in text] == [5]
    assert by_level["/log/odd", "none"] == 5
    assert by_level["/log/iso", "info"] == 5
    assert by_level["/log/syslog", "error"] == 3


def test_lines_whose_numbers_are_of_any_length_are_few_groups(archive, spark, tmp_path, monkeypatch):
    seen, really = [], driver_lines.classify

    def counted(spark, engine, *rest):
        seen.extend(engine.rows("SELECT count(*) FROM grouped"))
        really(spark, engine, *rest)

    monkeypatch.setattr(driver_lines, "classify", counted)
    chance = random.Random(7)
    numbers = [[str(chance.randrange(10 ** chance.randrange(1, 7))) for _ in range(5)] for _ in range(2000)]
    lines = [f"2026-11-20 05:00:00 INFO job {' of '.join(five)}\n" for five in numbers]
    archive.seal("".join(lines).encode(), file="/log/uneven")
    archive.seal("".join(f"<{34 + n % 2}>1 {line}" for n, line in enumerate(lines)).encode(), file="/log/syslog")
    archive.seal(b"2026-11-20 05:00:00 INFO job 1 of 2\n" * 9, file="/log/even")

    archive.reported(spark, tmp_path / "out")

    found = {row["text"]: row["lines"] for row in table_of(tmp_path / "out", "fingerprints")}
    assert seen[0][0] < 10
    assert found["job 0 of 0 of 0 of 0 of 0"] == 4000
    assert found["job 0 of 0"] == 9


def test_groups_are_taken_only_where_they_are_little_enough(tmp_path, monkeypatch):
    names = ("level", "text", "auth", "user", "remote", "path")
    table = T.StructType([T.StructField(name, T.StringType()) for name in names])
    parquet.write(tmp_path / "part.parquet", table, [names] * 9)

    assert driver_lines.read_groups(tmp_path).read_all().num_rows == 9
    monkeypatch.setattr(driver_lines, "MAX_GROUPS", 8)
    assert driver_lines.read_groups(tmp_path) is None
    monkeypatch.setattr(driver_lines, "MAX_GROUPS", 9)
    monkeypatch.setattr(driver_lines, "MAX_BYTES", 20)
    assert driver_lines.read_groups(tmp_path) is None


def test_groups_are_taken_only_where_there_is_memory_for_twice_of_them(tmp_path, monkeypatch):
    names = ("level", "text", "auth", "user", "remote", "path")
    table = T.StructType([T.StructField(name, T.StringType()) for name in names])
    parquet.write(tmp_path / "part.parquet", table, [names] * 9)

    monkeypatch.setattr(tuning, "available_bytes", lambda: 2 * 9 * driver_lines.GROUP_BYTES)
    assert driver_lines.read_groups(tmp_path).read_all().num_rows == 9
    monkeypatch.setattr(tuning, "available_bytes", lambda: 2 * 9 * driver_lines.GROUP_BYTES - 1)
    assert driver_lines.read_groups(tmp_path) is None


def test_groups_that_are_not_there_are_reported_with_a_next_step(tmp_path):
    with pytest.raises(ShipperError, match="there is nothing in") as caught:
        driver_lines.read_groups(tmp_path)

    assert "--out must be the same place" in str(caught.value.hint)


def test_a_host_that_claims_impossible_counts_shifts_no_sum(archive, spark, tmp_path):
    line = b'10.0.0.%d - - [20/Nov/2026:05:00:00 +0000] "GET /x HTTP/1.1" 200 9223372036854775807\n'
    archive.seal(b"".join(line % (n % 3) for n in range(30)), file="/log/access")

    archive.reported(spark, tmp_path / "out")

    assert [row["bytes"] for row in table_of(tmp_path / "out", "access_hourly")] == [30 * MAX_SENT]


@pytest.mark.parametrize("max_groups", [0, driver_lines.MAX_GROUPS])
def test_no_number_that_a_request_claims_ends_a_report(archive, spark, tmp_path, monkeypatch, max_groups):
    monkeypatch.setattr(driver_lines, "MAX_GROUPS", max_groups)
    took = (b'"Infinity"', b'"NaN"', b'"-Infinity"', b'"1e308"', b"1e400", b"-1", b"0.25", b'"99999999999999999999.5"')
    line = b'{"time":"2026-11-20T05:00:00Z","status":200,"method":"GET","path":"/","bytes":%d,"request_time":%s}\n'
    archive.seal(b"".join(line % (-(2**63), claimed) for claimed in took), file="/log/app.json")

    made = archive.reported(spark, tmp_path / "out")

    table = spark.read.schema(schemas.ACCESS_HOURLY).parquet(str(Tables(tmp_path / "out").day("access_hourly", DATE)))
    assert [tuple(row) for row in table.select("requests", "bytes").collect()] == [(len(took), 0)]
    assert made.totals.lines == len(took)


@pytest.mark.parametrize(
    ("told", "hour"),
    [
        ("2026-11-20T05:59:59Z", 1795150800),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:00:00Z", None),
        ("2099-01-01T00:00:00Z", None),
        ("never", None),
    ],
)
def test_the_hour_of_a_manifest_is_taken_where_it_can_be_one(told, hour):
    assert inventory.hour_of(told) == hour


def rows_of(spark, out: Path, name: str) -> list[str]:
    """Every row as text, sorted; of a sketch its estimate, which only Spark computes."""
    directory, schema = Tables(out).day(name, NEW_YEAR), schemas.TABLES[name]
    sketches = SKETCHES.keys() & set(schema.names)
    if not sketches:
        return sorted(repr(row) for file in directory.glob("*.parquet") for row in parquet.read(file, schema))
    table = spark.read.schema(schema).parquet(str(directory))
    for column in sketches:
        table = table.withColumn(column, F.call_function(SKETCHES[column], column))
    return sorted(map(repr, table.collect()))


def test_a_day_of_few_groups_is_written_without_a_second_query_of_spark(archive, spark, tmp_path, monkeypatch):
    archive.seal(b"2026-11-20T05:00:00Z ERROR x\n" * 9)
    for name in ("write", "read", "stage"):
        monkeypatch.setattr(spark_io, name, None)

    archive.reported(spark, tmp_path / "out")

    assert [row["lines"] for row in table_of(tmp_path / "out", "hourly")] == [9]


def test_groups_that_differ_in_nothing_but_their_sums_are_added_up(archive, spark, tmp_path, monkeypatch):
    archive.seal(b"2026-11-20T05:00:00Z web1 sshd[7]: Accepted publickey for deploy from 10.0.0.1 port 5 ssh2\n" * 8)
    classify = driver_lines.classify

    def halved(spark, engine, *rest):
        engine.define("twice", "SELECT * REPLACE (lines // 2 AS lines, bytes // 2 AS bytes) FROM grouped, range(2)")
        engine.define("halved", "SELECT * EXCLUDE (range) FROM twice")
        engine.rows("DROP TABLE grouped")
        engine.define("grouped", "FROM halved")
        classify(spark, engine, *rest)

    monkeypatch.setattr(driver_lines, "classify", halved)
    made = archive.reported(spark, tmp_path / "out")

    assert made.totals.lines == 8
    for name, column in (("hourly", "lines"), ("auth_daily", "n"), ("fingerprints", "lines"), ("file_daily", "lines")):
        assert [row[column] for row in table_of(tmp_path / "out", name)] == [8], name


def test_the_hourly_table_of_few_groups_is_read_by_others_and_is_in_order(archive, spark, tmp_path):
    for number in (2, 1):
        archive.seal(b"2026-11-20T05:00:00Z ERROR x\n2026-11-20T04:00:00Z INFO y\ntrace\n", host=f"h{number}")
    archive.reported(spark, tmp_path / "out")
    path = str(Tables(tmp_path / "out").day("hourly", DATE) / SMALL)
    columns = ", ".join(schemas.HOURLY.names)

    by_duckdb = duckdb.sql(f"SET TimeZone='UTC'; SELECT {columns} FROM '{path}'").fetchall()
    by_us = [tuple(row.values()) for row in table_of(tmp_path / "out", "hourly")]

    assert [tuple(map(naive, row)) for row in by_us] == by_duckdb
    assert [row[:5] for row in by_us] == sorted(row[:5] for row in by_us)


def naive(value):
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


TIMES = (None, -1, 0, 1767139200, 1767393999, 1767394800, 1767394801, *range(0, 366 * 86_400, 43_200))


@pytest.mark.parametrize(
    "day", [dt.date(2026, 1, 1), dt.date(2028, 2, 28), dt.date(2027, 2, 28), dt.date(2027, 12, 31)]
)
def test_a_time_gets_its_year_in_both_engines_as_in_the_reader_of_lines(spark, tmp_path, day):
    start = int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp())
    seconds = [second if second is None or second in TIMES[:7] else PLACEHOLDER_START + second for second in TIMES]
    seconds += [None if second is None else second + start - 1767225600 for second in TIMES[:7]]
    found = []
    duck, many = tmp_path / "duck", tmp_path / "spark"
    for engine in (DuckEngine(spark, duck, duck, threads=1), SparkEngine(spark, many, many)):
        engine.give("given", "number INT, second BIGINT", list(enumerate(seconds)))
        engine.resolve(groups.resolution(day))
        found.append([one for (one,) in engine.rows("SELECT resolved(second) FROM given ORDER BY number")])
        engine.close()

    latest = start + 47 * 3600
    assert found[0] == found[1] == [meant(second, day.year + 1, latest) for second in seconds]


def meant(second: int | None, year: int, latest: int) -> int | None:
    if second is not None and second >= PLACEHOLDER_START:
        second = next(found for before in range(3) if (found := in_year(second, year - before)) <= latest)
    return second if second is not None and 0 <= second <= latest else None


def test_a_day_without_requests_has_no_clients_in_both_engines(spark, tmp_path):
    columns = "log INT, hour BIGINT, status INT, remote STRING, path STRING, latency INT, lines BIGINT, sent BIGINT"
    duck, many = tmp_path / "duck", tmp_path / "spark"
    for engine in (DuckEngine(spark, duck, duck, threads=1), SparkEngine(spark, many, many)):
        engine.give("groups", columns, [])
        engine.give("logs", "log INT, partition INT, host STRING, file STRING", [(0, 1, "web1", "/log/app.json")])
        made = groups.FileGroups(engine, 0).write_access_hourly()
        engine.close()

        assert made == ([], [], (0, None, None, None))


def test_a_text_reads_no_files_and_loads_nothing_and_its_memory_is_limited(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(engine_of_texts, "MIN_MEMORY_BYTES", 64 << 20)
    monkeypatch.setattr(tuning, "available_bytes", lambda: 0)
    (tmp_path / "file.csv").write_text("secret")
    engine = DuckEngine(spark, tmp_path, tmp_path, threads=1)

    for query in (
        f"FROM read_csv('{tmp_path / 'file.csv'}')",
        f"FROM '{tmp_path / 'file.csv'}'",
        f"COPY (SELECT 1) TO '{tmp_path / 'written.csv'}'",
        "INSTALL httpfs",
        "SET threads = 64",
        "SET enable_external_access = true",
        "FROM tmp_path",
    ):
        with pytest.raises(duckdb.Error):
            engine.rows(query)
    engine.define("large", "SELECT range AS a, 'a text of some length ' || range AS b FROM range(2000000)")
    assert engine.rows("SELECT count(*), sum(a) FROM (SELECT b, sum(a) AS a FROM large GROUP BY b)") == [
        (2_000_000, 1_999_999_000_000)
    ]
    assert any((tmp_path / "spilled").iterdir())
    engine.close()
