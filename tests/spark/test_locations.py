"""What a report requires of directories it reads and writes: one contract, held here and on a store of Spark's."""

import contextlib
import dataclasses
import itertools
import json

import pytest
from day_archives import DATE, Archive, table_of

from shipper.errors import ConfigError, Unavailable
from spark_analytics import __main__ as program
from spark_analytics.storage import hadoop_fs, locations
from spark_analytics.tables import schemas
from spark_analytics.tables.store import Tables

NUMBERS = itertools.count()
ODD = "a b+c%41é;x{y}[z]*?&=#"


@pytest.fixture
def store(spark, tmp_path):
    """`viewfs://tN/` is `tmp_path` under another name, which only Hadoop's file systems know."""
    name = f"t{next(NUMBERS)}"
    for link in ("archive", "out", "place"):
        (tmp_path / link).mkdir(exist_ok=True)
        key = f"fs.viewfs.mounttable.{name}.link./{link}"
        spark._jsc.hadoopConfiguration().set(key, f"file://{tmp_path}/{link}")
    return f"viewfs://{name}"


@pytest.fixture(params=["here", "renames", "copies"])
def place(request, spark, tmp_path):
    """A directory of this machine, and one of a store, which renames in one step or by copying."""
    if request.param == "here":
        return tmp_path
    there = hadoop_fs.remote_path(spark, f"{request.getfixturevalue('store')}/place", tmp_path / "spark.log")
    return dataclasses.replace(there, store=dataclasses.replace(there.store, renames=request.param == "renames"))


def filled(directory, **files):
    for name, content in files.items():
        locations.write(directory / name, content.encode())
    return directory


def contents(directory):
    return {path: (directory / path).read_bytes().decode() for path, _ in locations.sizes(directory)}


def test_names_are_those_of_the_directory_and_none_where_there_is_none(place):
    filled(place / "day", b="", a="", _c="")

    assert locations.names(place / "day") == ["_c", "a", "b"]
    assert locations.names(place / "nowhere") == []


def test_sizes_are_those_of_all_files_below_whatever_they_are_called(place):
    filled(place / "day" / ODD, **{ODD: "four"})
    filled(place / "day", _open="x")

    assert dict(locations.sizes(place / "day")) == {f"{ODD}/{ODD}": 4, "_open": 1}
    assert list(locations.sizes(place / "nowhere")) == []


def test_beginnings_come_in_order_and_one_that_cannot_be_read_is_empty(place):
    filled(place, a="alpha" * 1000, b="beta")

    streams = locations.heads(place, ["b", "nowhere", "a"], 7)

    assert [stream.read(7) for stream in streams] == [b"beta", b"", b"alphaal"]


def test_many_beginnings_are_as_many(place):
    paths = [f"{number}" for number in range(hadoop_fs.AT_ONCE + 3)]
    filled(place, **{path: path for path in paths[::50]})

    found = [stream.read().decode() for stream in locations.heads(place, paths, 10)]

    assert found == [path if number % 50 == 0 else "" for number, path in enumerate(paths)]


def test_a_file_is_read_as_a_stream_and_as_a_whole(place):
    content = bytes(range(256)) * 9000
    locations.write(place / ODD, content)

    with (place / ODD).open("rb") as stream:
        assert (stream.read(300), stream.read()) == (content[:300], content[300:])
    assert (place / ODD).read_bytes() == content


def test_a_missing_file_raises_the_error_of_the_standard_library(place):
    with pytest.raises(FileNotFoundError):
        (place / "nowhere").read_bytes()
    assert not (place / "nowhere").exists()
    assert not (place / "nowhere").is_dir()


def test_a_written_file_takes_the_place_of_the_old_one_and_leaves_nothing_else(place):
    for content in ("old and long", "new"):
        filled(place / "made" / "here", file=content)

    assert contents(place) == {"made/here/file": "new"}
    assert (place / "made").is_dir()
    assert not (place / "made" / "here" / "file").is_dir()


def test_names_are_found_by_a_pattern(place):
    filled(place / "2026-11-20", report="a")
    filled(place / "2026-11-21", other="b")
    filled(place / "csv" / "2026-11-20", report="c")

    assert [path.parent.name for path in place.glob("[0-9]*-[0-9]*-[0-9]*/report")] == ["2026-11-20"]


def test_a_removed_directory_is_gone_and_where_there_is_none_nothing_happens(place):
    filled(place / "day" / "deep", a="")

    locations.remove(place / "day")
    locations.remove(place / "day")

    assert not (place / "day").exists()


def test_a_swapped_directory_has_the_new_files_and_none_of_the_old(place):
    for content in ("old", "new"):
        fresh = filled(place / "fresh", **{"_run": content, f"part-{content}": content})
        (place / "days").mkdir(parents=True, exist_ok=True)
        locations.swap(fresh, place / "days" / "day")
        locations.remove(fresh)

    assert contents(place / "days") == {"day/_run": "new", "day/part-new": "new"}


def test_spark_names_files_as_we_do(place, spark):
    filled(place / "date=2026-11-20" / ODD, **{ODD: "line\n"})

    path = locations.for_spark(place / "date=2026-11-20" / ODD / ODD)
    (row,) = spark.read.option("recursiveFileLookup", "true").text(path).select("_metadata.file_path").collect()

    assert row[0] == locations.uri(place, f"date=2026-11-20/{ODD}/{ODD}")


@pytest.mark.parametrize(
    ("text", "path"), [("/a/../b", "/b"), ("file:/a", "/a"), ("file:///a/b", "/a/b"), ("file:///a%20b", "/a%20b")]
)
def test_paths_and_file_uris_are_of_this_machine(text, path):
    assert not locations.is_remote(text)
    assert str(locations.local_path(text)) == path


def test_a_day_is_whole_after_a_run_that_died_while_its_tables_were_swapped(place, monkeypatch):
    few = {name: schemas.TABLES[name] for name in ("hourly", "audit", "runs")}
    monkeypatch.setattr(schemas, "TABLES", few)  # a store takes a tenth of a second for each step
    ages = []
    for steps in (3, 5, 10, 13):  # "old" until the file that commits is written, which takes more steps on a store
        tables = Tables(place / f"out{steps}")
        stage(tables, "old")
        tables.commit(DATE, {"run": "old"})
        stage(tables, "new")
        with monkeypatch.context() as patch:
            dying(patch, steps)
            with contextlib.suppress(KeyboardInterrupt):
                tables.commit(DATE, {"run": "new"})
        ages.append("new" if tables.run_of(DATE) == {"run": "new"} or is_committed(tables) else "old")
        tables.recover()

        made = {name: contents(tables.day(name, DATE)) for name in schemas.TABLES}
        expected = {"_run": json.dumps({"run": ages[-1]}), "part-0": ages[-1], "part-1": ages[-1]}
        assert made == dict.fromkeys(schemas.TABLES, expected), steps
        assert not tables.staging(DATE).exists()
    assert ages[0] == "old"
    assert ages[-1] == "new"


def is_committed(tables):
    return (tables.staging(DATE) / "COMMIT").exists()


def stage(tables, content):
    tables.begin(DATE)
    for name in schemas.TABLES:
        filled(tables.staging(DATE) / name, **{"part-0": content, "part-1": content})


def dying(patch, steps):
    """Every step that changes a file counts; the one after `steps` is not taken, and no later one."""
    left = [steps]

    def counted(step):
        def taken(*arguments, **named):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return step(*arguments, **named)

        return taken

    for name in ("write", "remove", "_swap"):
        patch.setattr(locations, name, counted(getattr(locations, name)))
    for name in ("copy_to", "move_to", "remove"):
        patch.setattr(hadoop_fs.RemotePath, name, counted(getattr(hadoop_fs.RemotePath, name)))


def test_one_report_at_a_time_writes_there(place):
    with (
        locations.exclusive(place / "out"),
        pytest.raises(Unavailable, match="another report"),
        locations.exclusive(place / "out"),
    ):
        pass
    with locations.exclusive(place / "out"):
        pass


def test_the_claim_of_a_killed_run_on_a_store_counts_no_more_after_a_while(place, monkeypatch):
    locations.write(place / "out" / ".lock", b"")
    monkeypatch.setattr(locations, "STALE_SECONDS", -5.0)

    with locations.exclusive(place / "out"):
        pass


def lines_of(host):
    return b"".join(
        b"2026-11-20T%02d:00:00Z %s %s took %d ms\n" % (hour, level, host.encode(), hour)
        for hour, level in enumerate((b"INFO", b"WARN", b"ERROR") * 8)
    )


def test_a_report_from_a_store_to_a_store_is_the_one_that_is_made_here(store, spark, tmp_path, capsys):
    archive = Archive(tmp_path / "archive")
    for host in ("web1", "web2"):
        archive.seal(lines_of(host), host=host, file=f"/var/log/{ODD}.log", codec="zstd" if host == "web1" else "gzip")
    cut = archive.seal(lines_of("cut") * 400, host="cut")
    damaged = archive.root / cut.path
    damaged.write_bytes(damaged.read_bytes()[:-40])
    archive.close()
    here = archive.reported(spark, tmp_path / "local")

    where = ["--archive", f"{store}/archive", "--out", f"{store}/out", "--date", DATE]
    assert program.main([*where, "--fail-on-gaps"]) == 3
    assert program.main(where) == 4
    capsys.readouterr()
    assert program.main(["show", "--out", f"{store}/out", "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    made = tmp_path / "out"
    assert shown == json.loads((made / DATE / "report.json").read_bytes())
    assert shown["run"]["archive"] == f"{store}/archive"
    assert (shown["totals"]["lines"], shown["totals"]["bytes"]) == (here.totals.lines, here.totals.bytes)
    assert [trouble["path"] for trouble in shown["completeness"]["troubles"]] == [cut.path]
    for name in ("file_daily", "fingerprints", "patterns", "pattern_daily", "audit", "host_daily"):
        assert table_of(made, name) == table_of(tmp_path / "local", name), name
    assert any(row["example"] for row in table_of(made, "patterns"))
    assert {path.name for path in made.iterdir()} >= {"tables", "csv", DATE, "index.html"}


def test_the_lines_of_a_day_on_a_store_can_be_queried_and_compacted(store, spark, tmp_path, capsys):
    archive = Archive(tmp_path / "archive")
    archive.seal(lines_of("web1"), host="web1")
    named = ["--archive", f"{store}/archive", "--out", f"{store}/out", "--date", DATE]

    asked = "SELECT count(*) AS n, min(ts) AS first FROM lines"
    assert program.main(["query", asked, *named, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"n": 24, "first": "2026-11-20T00:00:00Z"}
    assert program.main(["compact", *named]) == 0
    assert capsys.readouterr().out.strip() == f"{store}/out/raw/date={DATE}"
    assert spark.read.parquet(str(tmp_path / "out" / "raw" / f"date={DATE}")).count() == 24


def test_a_store_that_spark_does_not_know_is_named_with_what_is_missing(spark, capsys, tmp_path):
    assert program.main(["--archive", "s3a://bucket/archive", "--date", DATE, "--out", str(tmp_path)]) == 78

    said = capsys.readouterr().err
    assert "Spark cannot reach s3a://bucket/archive" in said
    assert "jars" in said


def test_an_archive_that_is_not_on_the_store_is_a_configuration_error(store, capsys, tmp_path):
    code = program.main(["--archive", f"{store}/archive/nowhere", "--date", DATE, "--out", str(tmp_path)])

    assert code == ConfigError.exit_code
    assert "there is no archive at" in capsys.readouterr().err
