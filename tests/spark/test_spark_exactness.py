import random
from pathlib import Path

from day_archives import DATE, table_of, totals_of

CODECS = ("zstd", "gzip", "none")
PIECES = (
    b"\n",
    b"\r\n",
    b"\r",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"a",
    "é€😀".encode(),
    b"\x85",
    b"word ",
    b"\n\n",
)


SHAPES = (
    b"one\ntwo\n",
    b"one\ntwo",
    b"no newline at all",
    b"\n",
    b"\r",
    b"\r\n",
    b"a\rb\rc",
    b"\x00\x00\n\x00",
    b"\xff\xfe\n\xff",
    b"\xef\xbb\xbfmarked\n",
    b"\xef\xbb\xbfmarked\ncut",
    b"\xef\xbb\xbf",
    b"",
    b"x\n\xef\xbb\xbf\n",
    b"long" * 100_000 + b"\nend",
)


def test_lines_and_bytes_are_those_of_wc_for_every_shape_of_a_file_in_every_codec(archive, spark, tmp_path):
    for codec in CODECS:
        for number, content in enumerate(SHAPES):
            archive.seal(content, file=f"/var/log/{codec}{number}.log", codec=codec)
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    assert totals_of(spark, tmp_path / "out") == archive.counts
    assert made.completeness.state.value == "complete"


def test_random_bytes_in_many_segments_of_many_hosts_are_counted_as_wc_does(archive, spark, tmp_path):
    seeded = random.Random(20)
    for number in range(120):
        content = b"".join(seeded.choices(PIECES, k=seeded.randrange(60)))
        archive.seal(
            content,
            host=f"h{number % 7}",
            partition=number % 3,
            file=f"/log/{number % 11}",
            codec=seeded.choice(CODECS),
        )
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    assert totals_of(spark, tmp_path / "out") == archive.counts
    assert made.totals.lines == sum(lines for lines, _ in archive.counts.values())
    assert made.totals.bytes == sum(size for _, size in archive.counts.values())
    assert [row["status"] for row in table_of(tmp_path / "out", "audit")] == ["complete"] * len(archive.counts)


def test_a_plain_segment_that_spark_splits_has_its_unfinished_line_in_its_last_block(archive, spark, tmp_path):
    content = (
        b"".join(b"2026-11-20T%02d:00:00Z INFO line %d\n" % (n // 1000, n) for n in range(20_000))
        + b"2026-11-20T20:00:00Z ERROR cut"
    )
    archive.seal(content, codec="none")
    archive.close()
    spark.conf.set("spark.sql.files.maxPartitionBytes", "65536")
    spark.conf.set("spark.sql.files.openCostInBytes", "1")
    try:
        made = archive.reported(spark, tmp_path / "out")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")

    assert totals_of(spark, tmp_path / "out") == archive.counts
    assert {level.level: level.lines for level in made.volume.levels if level.lines} == {"info": 20_000, "error": 1}


def test_names_that_spark_and_hive_escape_are_joined_with_their_manifest_lines(archive, spark, tmp_path):
    names = (
        ("fe80::1", "/var/log/~tilde%7E.log"),
        ("host with space", "/var/log/a b+c.log"),
        ("höst", "/var/log/é€😀.log"),
        ("{glob}[1]*?", "/var/log/{a,b}[c]*?\\x.log"),
        ("%41", '/var/log/%41"quoted",comma.log'),
        ("0123", "/_begins/with.log"),
        ("2026-11-20", "/var/log/" + "long" * 60 + ".log"),
        ("web1", "/var/log/undecodable-\udcff.log"),
    )
    for number, (host, file) in enumerate(names):
        archive.seal(b"x\n" * (number + 1), host=host, file=file, codec=CODECS[number % 3])
    archive.close()

    made = archive.reported(spark, tmp_path / "out")

    expected = {
        (part, host, file.replace("\udcff", "\\xff")): counts for (part, host, file), counts in archive.counts.items()
    }
    assert totals_of(spark, tmp_path / "out") == expected
    assert made.completeness.state.value == "complete"


def test_an_archive_below_a_directory_with_a_pattern_in_its_name_is_read(archive, spark, tmp_path):
    archive.root = tmp_path / "a{b} [c]+%20"
    archive.root.mkdir()
    archive.seal(b"x\ny\n")

    archive.reported(spark, tmp_path / "out")

    assert totals_of(spark, tmp_path / "out") == archive.counts


def test_another_run_of_a_day_replaces_that_day_and_no_other(archive, spark, tmp_path):
    archive.seal(b"old\n" * 9)
    archive.reported(spark, tmp_path / "out")
    archive.date = "2026-11-21"
    archive.seal(b"x\n")
    archive.reported(spark, tmp_path / "out")
    archive.date = DATE
    archive.seal(b"late\n")
    archive.reported(spark, tmp_path / "out")

    table = spark.read.parquet(str(tmp_path / "out" / "tables" / "hourly"))
    sums = {str(row["date"]): row["sum(lines)"] for row in table.groupBy("date").sum("lines").collect()}

    assert sums == {DATE: 10, "2026-11-21": 1}
    assert Path(tmp_path / "out" / "latest").readlink() == Path("2026-11-21")


def test_a_day_that_became_empty_leaves_no_rows_of_its_past(archive, spark, tmp_path):
    archive.seal(b"x\n")
    archive.reported(spark, tmp_path / "out")
    archive.manifest.write_bytes(b"")

    made = archive.reported(spark, tmp_path / "out")

    assert made.totals.lines == 0
    assert totals_of(spark, tmp_path / "out") == {}
