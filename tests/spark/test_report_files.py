"""What is written: JSON by its schema, CSV for spreadsheets, the index, and `report show`."""

import csv
import dataclasses
import io
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from nights import DATE, a_day
from typer.testing import CliRunner

from shipper.errors import ConfigError, Permanent, Unavailable, UsageError
from spark_analytics import app as verbs
from spark_analytics.cli import app
from spark_analytics.report import build, json_export, publish, text
from spark_analytics.report import publish as sheets

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "spark_analytics" / "templates" / "report.schema.json"


@pytest.fixture
def out(tmp_path):
    evidence = a_day(50)
    publish.publish(tmp_path, build.facts(evidence), evidence)
    return tmp_path


# -- JSON ---------------------------------------------------------------------------------------------------------


def test_facts_come_back_from_json_as_they_were():
    facts = build.facts(a_day(50))

    assert json_export.from_text(json_export.to_text(facts).encode(), "x") == facts


@pytest.mark.parametrize(
    "day", [a_day(50), a_day(0, before=()), a_day(3, web_classes=())], ids=["usual", "empty", "no web"]
)
def test_every_report_keeps_the_schema(day):
    schema = json.loads(SCHEMA.read_bytes())

    assert list(wrong(json.loads(json_export.to_text(build.facts(day))), schema, schema)) == []


def test_what_breaks_the_schema_is_found():
    schema = json.loads(SCHEMA.read_bytes())
    made = json.loads(json_export.to_text(build.facts(a_day(5))))
    made["totals"]["lines"] = "many"
    made["verdict"]["state"] = "fine"
    del made["run"]["archive"]
    made["v"] = 1

    assert sorted(wrong(made, schema, schema)) == [".run.archive", ".totals.lines", ".v", ".verdict.state"]


KINDS = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}


def wrong(value, schema, root, where=""):
    """Where `value` breaks `schema`: the part of JSON Schema that ours uses."""
    if "$ref" in schema:
        yield from wrong(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, where)
    elif "anyOf" in schema:
        yield from () if any(not list(wrong(value, option, root)) for option in schema["anyOf"]) else (where,)
    elif not is_of(value, schema):
        yield where
    elif isinstance(value, dict):
        yield from (f"{where}.{name}" for name in schema.get("required", ()) if name not in value)
        for name in value.keys() & schema.get("properties", {}).keys():
            yield from wrong(value[name], schema["properties"][name], root, f"{where}.{name}")
    elif isinstance(value, list):
        for entry in value:
            yield from wrong(entry, schema["items"], root, f"{where}[]")


def is_of(value, schema):
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    return isinstance(value, int | float if schema["type"] == "number" else KINDS[schema["type"]])


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"v": 1}', b'{"v": 2}', b'{"v": 2, "date": 7}'])
def test_a_report_of_another_shape_ends_with_one_sentence(content):
    with pytest.raises(Permanent) as raised:
        json_export.from_text(content, "report.json")

    assert "report.json" in str(raised.value)
    assert "--force" in (raised.value.hint or "")


def test_a_report_of_another_version_is_not_read_even_if_it_has_the_same_shape():
    made = json_export.as_json(build.facts(a_day(5))) | {"v": 3}

    with pytest.raises(Permanent, match="version 3"):
        json_export.from_text(json.dumps(made).encode(), "report.json")
    assert json_export.brief(made) is None


# -- CSV ----------------------------------------------------------------------------------------------------------


def rows_of(content):
    return list(csv.DictReader(io.StringIO(content)))


def test_csv_has_every_host_and_the_same_totals():
    evidence = a_day(200)
    facts = build.facts(evidence)
    made = sheets.csv_sheets(facts, evidence)

    hosts = rows_of(made["hosts.csv"])
    assert len(hosts) == 200
    assert sum(int(row["lines"]) for row in hosts) == facts.totals.lines
    assert {row["date"] for row in hosts} == {DATE}
    assert sum(int(row["bytes"]) for row in rows_of(made["partitions.csv"])) == facts.totals.bytes


def test_log_text_is_no_formula_and_numbers_are_numbers():
    assert [sheets.cell(value) for value in ("=1+1", "-x", "@x", "+x", "a=b", -5, 1.5, None, True, (1, 2))] == [
        *("'=1+1", "'-x", "'@x", "'+x", "a=b", -5, 1.5, "", 1, "1 2")
    ]


def test_csv_keeps_quotes_and_has_no_control_characters():
    pattern = dataclasses.replace(a_day(20).patterns[0], template='a "b", c\r\nd\x1b')
    evidence = a_day(20, patterns=(pattern,))

    (row,) = rows_of(sheets.csv_sheets(build.facts(evidence), evidence)["patterns.csv"])

    assert row["template"] == 'a "b", c\ufffd\ufffdd\ufffd'


# -- files --------------------------------------------------------------------------------------------------------


def test_a_day_is_written_whole(out):
    assert {path.name for path in (out / DATE).iterdir()} - {"host"} == {"report.html", "report.json", "report.txt"}
    assert (out / "latest").resolve() == (out / DATE).resolve()
    assert f"{DATE}/report.html" in (out / "index.html").read_text()
    assert {path.name for path in (out / "csv" / DATE).iterdir()} >= {"hosts.csv", "errors.csv", "patterns.csv"}
    assert not list(out.rglob("*.new"))


def test_the_index_leaves_out_what_it_cannot_read_and_the_newest_day_is_the_latest(out):
    for date, content in (("2026-11-01", b'{"v": 1}'), ("2026-11-02", b"torn"), ("2026-11-03", b"[]")):
        (out / date).mkdir()
        (out / date / "report.json").write_bytes(content)
    older = a_day(5, date="2026-11-19")

    publish.publish(out, build.facts(older), older)

    shown = (out / "index.html").read_text()
    days = [shown.index(f'class="day"><a href="{day}') for day in (DATE, "2026-11-19")]
    assert days == sorted(days)
    assert "2026-11-01" not in shown
    assert (out / "latest").readlink().name == DATE


# -- report show --------------------------------------------------------------------------------------------------


def test_show_prints_the_summary_and_the_json_as_they_are(out):
    older = a_day(5, date="2026-11-19")
    publish.publish(out, build.facts(older), older)

    def run(*arguments, **more):
        return CliRunner().invoke(app, ["show", *arguments], **more)

    shown = run("--out", str(out))
    assert shown.output == (out / DATE / "report.txt").read_text()
    assert text.as_text(build.facts(a_day(50))) in shown.output
    assert json.loads(run("--out", str(out), "--date", DATE, "--json").output)["v"] == json_export.VERSION
    assert run(str(out), env={"SHIPPER_REPORT": "/nowhere"}).output == shown.output
    assert isinstance(run(str(out), "--out", "/elsewhere").exception, UsageError)


def test_show_reports_what_there_is(out, tmp_path):
    with pytest.raises(Unavailable, match="2026-11-20"):
        verbs.find_report(out, "2026-11-19")
    with pytest.raises(UsageError):
        verbs.find_report(out, "20.11.2026")
    with pytest.raises(ConfigError):
        verbs.find_report(tmp_path / "nowhere", "latest")


def used():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def test_show_needs_neither_spark_nor_a_second(out):
    script = (
        f"import sys; sys.modules['pyspark'] = None;from spark_analytics.cli import app;app(['show', {str(out)!r}])"
    )
    began = used()

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"fshipper report for {DATE}")
    assert used() - began < 1


def test_the_room_and_the_operators_share_one_log_configuration():
    ours = ROOT / "spark_analytics/templates/log4j2.properties"

    assert (ROOT / "deploy/spark/log4j2.properties").read_bytes() == ours.read_bytes()
