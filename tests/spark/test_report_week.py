"""The report of a week: its sums are those of the tables, it is compared with the week before, and linked."""

import dataclasses
import datetime as dt
import json
import os
import subprocess
import sys

import pytest
from day_archives import Archive, table_of

from shipper import layout
from spark_analytics.report import week
from spark_analytics.tables.store import SMALL, Tables

BEFORE, MONDAY, TUESDAY = "2026-11-09", "2026-11-16", "2026-11-17"
FAILED = b"Nov %d 05:00:00 web1 sshd[1]: Failed password for root from 192.0.2.7 port 22 ssh2\n"


def lines(date: str, number: int, text: str = "all is well") -> bytes:
    return b"".join(f"{date}T05:{n % 60:02}:00Z INFO {text} {n}\n".encode() for n in range(number))


@pytest.fixture(scope="module")
def out(tmp_path_factory, spark):
    place = tmp_path_factory.mktemp("week")
    (place / "archive").mkdir()
    (place / "archive" / layout.IDENTITY).write_text('{"v": 1, "id": "00c0ffee00c0ffee"}\n')
    for date, number, hosts in ((BEFORE, 100, ("a", "b")), (MONDAY, 150, ("a", "<b>c")), (TUESDAY, 30, ("a",))):
        archive = Archive(place / "archive", date)
        for host in hosts:
            archive.seal(lines(date, number), host=host)
        error = f"{date}T06:00:00Z ERROR cannot open the file\n".encode() * (3 if date != BEFORE else 0)
        archive.seal(error or b"nothing\n", host="a", file="/var/log/other.log")
        archive.seal(FAILED % int(date[-2:]) * 5, host="a", file="/var/log/auth.log")
        archive.close()
        archive.reported(spark, place / "out")
    return place / "out"


def test_a_week_begins_on_monday_and_has_a_number_of_iso_8601():
    assert week.days_of("2026-W47")[0] == MONDAY
    assert week.week_before("2027-W01") == "2026-W53"
    with pytest.raises(ValueError, match="week"):
        week.days_of("2026-W60")


def test_sums_are_those_of_the_tables(out):
    made = week.week_facts(Tables(out), "2026-W47")
    days = {day.date: day for day in made.days}
    assert list(days) == [MONDAY, TUESDAY]
    for date, day in days.items():
        (run,) = table_of(out, "runs", date)
        assert (day.lines, day.bytes) == (run["lines"], run["bytes"])
        assert day.errors == sum(row["err"] for row in table_of(out, "host_daily", date)) == 3
    assert made.hosts[0].name == "a"
    assert made.hosts[0].days == (158, 38, 0, 0, 0, 0, 0)
    assert made.host_count == 2
    assert [(change.name, change.now, change.days[:2]) for change in made.remotes] == [("192.0.2.7", 10, (5, 5))]
    assert "cannot open the file" in made.frequent_patterns[0].template
    assert made.frequent_patterns[0].days[:2] == (3, 3)


def reports_of(out):
    return {date: json.loads((out / date / "report.json").read_text()) for date in (MONDAY, TUESDAY)}


def test_a_day_has_the_findings_of_its_report_and_the_worst_day_is_the_verdict(out):
    made = week.week_facts(Tables(out), "2026-W47")
    for day in made.days:
        verdict = reports_of(out)[day.date]["verdict"]
        told = [one for one in verdict["findings"] if one["state"] != "complete"]
        assert [(one.text, one.severity) for one in day.findings] == [(one["text"], one["severity"]) for one in told]
        assert (day.state, day.severity, day.headline) == (verdict["state"], verdict["severity"], verdict["headline"])
    assert made.worst in {MONDAY, TUESDAY}
    (worst,) = (day for day in made.days if day.date == made.worst)
    assert (made.state, made.severity, made.word) == (worst.state, worst.severity, worst.word)


def test_the_worst_day_is_that_of_the_worst_state_and_then_of_the_worst_severity(out):
    calm, act, look, lost = (
        week.WeekDay("2026-11-16", state, 1, 1, 0, 1, 0, 0, 0, severity=severity)
        for state, severity in (("complete", "note"), ("attention", "act"), ("attention", "look"), ("gaps", "look"))
    )
    assert min([calm, look, act], key=week._badness) is act
    assert min([calm, look, act, lost], key=week._badness) is lost


def test_a_day_that_needs_attention_is_the_verdict_of_the_week(out):
    path = out / TUESDAY / "report.json"
    now = path.read_text()
    report = json.loads(now)
    report["verdict"] |= {"state": "attention", "severity": "act"}
    try:
        path.write_text(json.dumps(report))
        made = week.week_facts(Tables(out), "2026-W47")
    finally:
        path.write_text(now)
    assert (made.worst, made.state, made.severity, made.word) == (TUESDAY, "attention", "act", "act")
    assert 'class="card verdict act"' in week.as_html(made)


@pytest.mark.parametrize("older", ["no severity", "another version", "none"])
def test_reports_of_older_versions_are_read(out, older):
    path = out / TUESDAY / "report.json"
    now = path.read_text()
    report = json.loads(now)
    report["verdict"].pop("severity")
    for one in report["verdict"]["findings"]:
        one.pop("severity"), one.pop("section")
    try:
        path.write_text(json.dumps(report | ({"v": 1} if older == "another version" else {})))
        if older == "none":
            path.unlink()
        made = week.week_facts(Tables(out), "2026-W47")
    finally:
        path.write_text(now)
    (day,) = (day for day in made.days if day.date == TUESDAY)
    assert {one.severity for one in day.findings} <= {"note"}
    assert {one.section for one in day.findings} <= {"completeness"}
    assert "2026-11-17" in week.as_html(made)
    if older != "no severity":
        (run,) = table_of(out, "runs", TUESDAY)
        assert (day.state, day.word, day.findings) == (run["status"], "", ())


def test_failed_passwords_of_odd_names_count_as_on_the_day(out):
    rows = [
        {"kind": kind, "remote": "192.0.2.7", "n": 1, "attempts": attempts, "user": None}
        for kind, attempts in (("failed_password", 3), ("odd_name", 2), ("accepted", 7), ("failed_password", None))
    ]
    loaded = week._Loaded(week.days_of("2026-W47"), {"auth_daily": {MONDAY: rows}})
    assert loaded.failed_by_address() == {"192.0.2.7": [6, 0, 0, 0, 0, 0, 0]}


def test_weeks_are_compared_on_the_weekdays_that_both_have(out):
    made = week.week_facts(Tables(out), "2026-W47")
    place, total = dt.date.fromisoformat(BEFORE).weekday(), made.totals[0]
    assert (made.same_weekdays, len(made.days)) == (1, 2)
    assert total.before == total.days_before[place] == sum(row["lines"] for row in table_of(out, "runs", BEFORE))
    assert total.compared == total.days[place] < total.now
    assert week.change_of(total).endswith("%")
    for change in made.hosts:
        assert [day for day, lines in enumerate(change.days_before) if lines is not None] == [place]


def test_a_day_whose_table_of_runs_is_incomplete_is_left_out(out, tmp_path):
    file = Tables(out).day("runs", TUESDAY) / SMALL
    file.rename(tmp_path / SMALL)
    try:
        assert [day.date for day in week.week_facts(Tables(out), "2026-W47").days] == [MONDAY]
    finally:
        (tmp_path / SMALL).rename(file)


def test_a_host_that_wrote_on_five_days_and_stopped_is_named():
    rows = {f"2026-11-{day:02}": [{"host": "gone", "lines": 9}] for day in range(9, 14)}
    loaded = week._Loaded(week.days_of("2026-W46"), {"host_daily": rows})
    counts = loaded.by_day("host_daily", "host", "lines")["gone"]
    assert week._is_frequent(counts)
    assert not week._is_frequent([*counts[1:], 0])


def test_the_command_writes_and_links_the_week_without_java(out):
    command = [sys.executable, "-m", "spark_analytics", "week", "--out", str(out), "--week", "2026-W47"]
    environment = dict(os.environ) | {"PATH": "/nonexistent", "JAVA_HOME": "/nonexistent"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "week 2026-W47" in done.stdout
    page = (out / "week-2026-W47.html").read_text()
    assert "&lt;b&gt;c" in page
    assert "<b>c<" not in page
    assert f'href="{MONDAY}/report.html"' in page
    assert 'href="week-2026-W47.html"' in (out / "index.html").read_text()
    made = json.loads((out / "week-2026-W47.json").read_text())
    assert set(made) == {"v", *(field.name for field in dataclasses.fields(week.WeekFacts))}
    assert (out / "week-2026-W47.txt").read_text() in done.stdout


@pytest.mark.parametrize(("week", "code"), [("2026-W60", 64), ("47", 64), ("2020-W01", 69)])
def test_a_week_without_days_is_an_error(out, week, code):
    command = [sys.executable, "-m", "spark_analytics", "week", "--out", str(out), "--week", week]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
