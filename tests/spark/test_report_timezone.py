"""A report in another zone: each time of sentences, pages and charts; the day stays that of UTC."""

import dataclasses
import json

import pytest
from nights import DATE, a_day, a_run
from typer.testing import CliRunner

from shipper import zone_names
from shipper.errors import UsageError
from spark_analytics import pipeline
from spark_analytics.cli import app
from spark_analytics.delivery import message
from spark_analytics.report import build, json_export, publish, svg_charts, text
from spark_analytics.report.zone_times import Clock, sentence_of


@pytest.mark.parametrize(
    ("zone", "date", "time", "shown"),
    [
        ("UTC", "2026-11-26", "2026-11-26T02:10:00Z", "02:10"),
        ("Europe/Berlin", "2026-11-26", "2026-11-26T02:10:00Z", "03:10"),
        ("Europe/Berlin", "2026-11-26", "2026-11-26T23:10:00Z", "11-27 00:10"),
        ("America/New_York", "2026-11-26", "2026-11-26T02:10:00Z", "11-25 21:10"),
        ("Asia/Kolkata", "2026-11-26", "2026-11-26T02:10:00Z", "07:40"),
        ("Asia/Kathmandu", "2026-11-26", "2026-11-26T02:10:00Z", "07:55"),
        ("Pacific/Kiritimati", "2026-12-31", "2026-12-31T10:00:00Z", "01-01 00:00"),
        # summer time ends: 02:30 comes twice, in Lord Howe 01:45, and the clock names which
        ("Europe/Berlin", "2026-10-25", "2026-10-25T00:30:00Z", "02:30 CEST"),
        ("Europe/Berlin", "2026-10-25", "2026-10-25T01:30:00Z", "02:30 CET"),
        ("Europe/Berlin", "2026-10-25", "2026-10-25T02:30:00Z", "03:30"),
        ("Australia/Lord_Howe", "2026-04-04", "2026-04-04T14:45:00Z", "04-05 01:45 +11"),
        ("Australia/Lord_Howe", "2026-04-04", "2026-04-04T15:15:00Z", "04-05 01:45 +1030"),
        # it begins: 02:30 does not come
        ("Europe/Berlin", "2026-03-29", "2026-03-29T00:59:00Z", "01:59"),
        ("Europe/Berlin", "2026-03-29", "2026-03-29T01:00:00Z", "03:00"),
        ("Europe/Berlin", "2026-11-26", None, "\N{EN DASH}"),
    ],
)
def test_a_time_is_shown_in_the_zone(zone, date, time, shown):
    assert Clock(date, zone)(time) == shown


def test_a_day_has_24_hours_that_begin_at_the_times_of_the_zone():
    assert Clock("2026-11-26").hours() == tuple(f"{hour:02}:00" for hour in range(24))
    assert Clock("2026-11-26", "Asia/Kolkata").hours()[:2] == ("05:30", "06:30")
    ends = Clock("2026-10-25", "Europe/Berlin").hours()  # a day of 25 hours there
    assert ends[:4] == ("02:00 CEST", "02:00 CET", "03:00", "04:00")
    begins = Clock("2026-03-29", "Europe/Berlin").hours()  # of 23 hours
    assert begins[:3] == ("01:00", "03:00", "04:00")
    half = Clock("2026-04-04", "Australia/Lord_Howe").hours()  # of 24 hours and a half
    assert half[13:17] == ("00:00", "01:00", "01:30 +1030", "02:30")
    assert {len(ends), len(begins), len(half)} == {24}


def test_the_zone_and_the_day_are_named():
    assert Clock("2026-11-26").sentence == "times are UTC"
    said = "times are Asia/Kolkata; the day is that of UTC, 11-26 05:30 to 11-27 05:30 there"
    assert Clock("2026-11-26", "Asia/Kolkata").sentence == said
    assert sentence_of(["UTC", "", "UTC"]) == "times are UTC"
    assert sentence_of(["UTC", "Asia/Kolkata"]) == "times are Asia/Kolkata or UTC, as on the page of each day"
    assert sentence_of([""]) == ""


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berlim", "did you mean Europe/Berlin"),
        ("berlin", "did you mean Europe/Berlin"),
        ("europe/berlin", "did you mean Europe/Berlin"),
        ("new york", "did you mean America/New_York"),
        ("Calcuta", "did you mean Asia/Calcutta"),
        ("utc", "did you mean UTC"),
        ("+02:00", "write a name such as Europe/Berlin, UTC"),
        ("", "write a name such as Europe/Berlin, UTC"),
        ("../../etc/passwd", "write a name such as Europe/Berlin, UTC"),
        ("Nowhere/Xyzzyx", "write a name such as Europe/Berlin, UTC"),
    ],
)
def test_a_name_of_no_zone_is_refused_with_the_nearest(name, hint):
    with pytest.raises(UsageError) as caught:
        zone_names.chosen(name)
    assert f"--timezone {name!r} is no zone" in str(caught.value)
    assert caught.value.hint.startswith(hint)


def published(out, zone):
    evidence = dataclasses.replace(a_day(40), run=a_run(timezone=zone))
    facts = build.facts(evidence)
    publish.publish(out, facts, evidence)
    return facts


def test_page_list_terminal_mail_and_json_say_the_zone(tmp_path):
    facts = published(tmp_path, "Asia/Kolkata")

    day = tmp_path / DATE
    hosts = list((day / "host").glob("*.html"))
    said = f"times are Asia/Kolkata; the day is that of UTC, {DATE[5:]} 05:30 to 11-21 05:30 there"
    assert hosts
    for page in (day / "report.html", *hosts):
        assert said in page.read_text(), page
    assert "times are Asia/Kolkata" in (tmp_path / "index.html").read_text()
    assert said in text.as_text(facts)
    sent = message.made(facts, base=None, page=None)
    for shown in (message.as_text(sent), message.as_html(sent), message.as_slack(sent)["text"]):
        assert "Asia/Kolkata" in shown
    assert message.as_json(sent, "")["timezone"] == "Asia/Kolkata"
    made = json.loads((day / "report.json").read_text())
    assert made["run"]["timezone"] == "Asia/Kolkata"
    assert made["volume"]["hours_at"][:2] == ["05:30", "06:30"]


def test_only_the_words_change_with_the_zone(tmp_path):
    """Numbers, and the times of fields, are those of UTC."""
    utc, there = (json_export.as_json(published(tmp_path / zone[:3], zone)) for zone in ("UTC", "Asia/Kolkata"))
    for made in (utc, there):
        made["run"].pop("timezone")
        made["volume"].pop("hours_at")
        for finding in made["verdict"]["findings"]:
            finding.pop("text"), finding.pop("plain")
    assert utc == there


def test_the_sentences_of_findings_have_the_times_of_the_zone():
    utc, there = (build.facts(a_day(40, run=a_run(timezone=zone))) for zone in ("UTC", "Asia/Kolkata"))
    changed = [(one.text, other.text) for one, other in zip(utc.verdict.findings, there.verdict.findings, strict=True)
               if one.text != other.text]  # fmt: skip
    assert changed
    for one in utc.hosts.silent:
        if one.last_arrival:
            assert f"{one.host} (since {there.clock(one.last_arrival)})" in " ".join(text for _, text in changed)


def test_charts_have_the_hours_of_the_zone():
    clock = Clock("2026-10-25", "Europe/Berlin")
    drawn = str(svg_charts.stacked_hours({"info": range(24)}, clock))
    assert "<title>02:00 CET  1 lines: 1 info</title>" in drawn
    assert "lines by hour, Europe/Berlin" in drawn
    assert "<title>02:00 CEST 0</title>" in str(svg_charts.heat_row([0] * 24, 1, "web1", clock))
    labels = str(svg_charts.hour_labels(Clock(DATE, "Asia/Kolkata")))
    assert "<span>05:30</span><span></span><span></span><span>08:30</span>" in labels
    assert "<span>00</span><span></span><span></span><span>03</span>" in str(svg_charts.hour_labels(Clock(DATE)))


class Made:
    """The tables of a day that was made."""

    def run_of(self, date):
        return {"input_fingerprint": "7d1e0c5a9f2b4486", "status": "complete"}


@dataclasses.dataclass
class Day:
    date: str = DATE
    fingerprint: str = "7d1e0c5a9f2b4486"


def test_a_report_is_made_again_when_the_zone_changes(tmp_path):
    asked = pipeline.Request(archive=tmp_path, out=tmp_path, top=20, master=None)
    there = dataclasses.replace(asked, timezone="Asia/Kolkata")

    published(tmp_path, "UTC")
    assert pipeline.existing_state(asked, Made(), Day()) == "complete"
    assert pipeline.existing_state(there, Made(), Day()) is None

    published(tmp_path, "Asia/Kolkata")
    assert pipeline.existing_state(asked, Made(), Day()) is None
    assert pipeline.existing_state(there, Made(), Day()) == "complete"


def test_a_report_of_an_earlier_version_is_in_utc(tmp_path):
    published(tmp_path, "UTC")
    file = tmp_path / DATE / "report.json"
    old = json.loads(file.read_text())
    del old["run"]["timezone"], old["volume"]["hours_at"]
    file.write_text(json.dumps(old))

    asked = pipeline.Request(archive=tmp_path, out=tmp_path, top=20, master=None)
    assert pipeline.existing_state(asked, Made(), Day()) == "complete"
    assert json_export.from_text(file.read_bytes(), "report.json").clock.sentence == "times are UTC"
    assert [one["timezone"] for one in publish.briefs_of(tmp_path)] == ["UTC"]


def test_the_command_refuses_a_zone_that_is_none(tmp_path):
    result = CliRunner().invoke(app, ["--archive", str(tmp_path), "--timezone", "Europe/Berlim"])
    assert isinstance(result.exception, UsageError)
    assert "Europe/Berlin" in result.exception.hint
