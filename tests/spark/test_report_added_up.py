"""Every number of day pages, list, week, mail, chat and JSON, added up from the lines of the demo's month."""

import datetime as dt
import json
import os
import subprocess
import sys

import pytest
from harness.added_up import (
    BASELINE,
    Month,
    Words,
    changes,
    clocks_of,
    differences,
    known_numbers,
    numbers_of_findings,
    page_differences,
    places_differences,
    trend_differences,
    unknown,
)

from deploy.demo import month
from deploy.demo.workspace import Workspace
from spark_analytics.delivery import message
from spark_analytics.report import json_export

LAST = dt.date(2026, 11, 27)
FEW, MANY = 9, 30
LATENCY = 0.02
"""Of a percentile: it is about, to a step of 1 %, and the nearest rank may be the next request."""


def ran(*arguments):
    command = [sys.executable, "-m", "spark_analytics", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=1800, env=os.environ | {"TZ": "UTC"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(
    scope="module",
    params=[
        (FEW, "UTC"),
        pytest.param((FEW, "Asia/Kolkata"), marks=pytest.mark.long),
        pytest.param((MANY, "UTC"), marks=pytest.mark.long),
    ],
)
def told(request, tmp_path_factory):
    """(the month added up, the directory of its reports)."""
    place = tmp_path_factory.mktemp("month")
    days, zone = request.param
    dates = month.write_month(Workspace(place), days, LAST, seed=7)
    ran(
        "--archive",
        str(place / "archive"),
        "--out",
        str(place / "report"),
        "--since",
        dates[0],
        "--until",
        dates[-1],
        "--timezone",
        zone,
    )
    return Month(place / "archive"), place / "report"


def zone_of(out):
    return shown(out, LAST.isoformat())["run"]["timezone"]


def shown(out, date):
    return json.loads((out / date / "report.json").read_text())


def test_every_number_of_a_day_is_that_of_its_lines(told):
    added, out = told
    wrong = []
    for place, day in enumerate(added.days):
        report, sums = shown(out, day.date), added.report(day.date)
        found = differences(report, sums) + places_differences(report)
        page = (out / day.date / "report.html").read_text()
        before = added.days[max(0, place - BASELINE) : place]
        found += trend_differences(report, day, before)
        yesterday = shown(out, before[-1].date) if before else None
        found += page_differences(page, report, sums, day, before, yesterday)
        wrong += [f"{day.date} {one}" for one in found]
    assert not wrong, "\n".join(wrong[:40])


def test_the_estimates_of_the_web_are_about_right(told):
    added, out = told
    for day in added.days:
        web, requests = shown(out, day.date)["web"], [line.request for line in day.lines if line.request]
        clients, times = len({one[0] for one in requests}), sorted(one[4] * 1000 for one in requests)
        assert abs(web["clients"] - clients) <= 0.05 * clients, day.date
        for share in (50, 95, 99):
            exact = times[-(-len(times) * share // 100) - 1]
            assert abs(web[f"latency_p{share}_ms"] - exact) <= LATENCY * exact + 1, (day.date, share)


def test_the_list_of_days_has_the_numbers_of_the_lines(told):
    added, out = told
    words = " | ".join(text for found in Words((out / "index.html").read_text()).words.values() for text in found)
    reports = [added.report(day.date) for day in added.days]
    findings = [len(shown(out, day.date)["verdict"]["findings"]) for day in added.days]
    known = known_numbers(reports, [shown(out, day.date)["patterns"]["new_count"] for day in added.days], len(reports))
    known |= known_numbers([list(range(number + 1)) for number in findings])
    known |= {number for day in added.days for number in numbers_of_findings(shown(out, day.date))}
    assert not unknown(words, known, set().union(*(clocks_of(day, zone_of(out)) for day in added.days)))


def before_of(date):
    return (dt.date.fromisoformat(date) - dt.timedelta(days=7)).isoformat()


def test_every_number_of_a_week_is_that_of_its_lines(told):
    added, out = told
    monday = LAST - dt.timedelta(days=LAST.weekday())
    before = monday - dt.timedelta(days=7)
    for first in [monday] + ([before] if len(added.days) > MANY - 1 else []):
        dates = [(first + dt.timedelta(days=number)).isoformat() for number in range(7)]
        week = f"{first.isocalendar()[0]}-W{first.isocalendar()[1]:02}"
        text = ran("week", "--out", str(out), "--week", week)
        made, sums = json.loads((out / f"week-{week}.json").read_text()), added.week(dates)
        earlier = added.week([(first + dt.timedelta(days=number - 7)).isoformat() for number in range(7)])
        assert not [one for one in differences(made, sums) if ".before:" not in one]
        for row, old in zip(made["totals"], earlier["totals"], strict=True):
            reported = {day.date for day in added.days}
            same = [n for n, date in enumerate(dates) if date in reported and before_of(date) in reported]
            assert row["before"] == (sum(old["days"][n] for n in same) if same else None)
            assert row["compared"] == (sum(row["days"][n] for n in same) if same else None)
            theirs = [old["days"][n] if before_of(date) in reported else None for n, date in enumerate(dates)]
            assert row["days_before"] == theirs
        known = known_numbers(
            sums,
            made["days_before"],
            len(made["days"]),
            [made["new_count"]],
            [p["lines"] for p in made["new_patterns"]],
        )
        known |= known_numbers(made["frequent_patterns"], made["gone_patterns"], list(range(14)))
        for rows in (made["totals"], made["hosts"], made["remotes"]):
            compared = [(row["compared"], row["before"]) for row in rows if row["compared"] is not None]
            known |= {form for now, old in compared for form in changes(now, old)}
            known |= known_numbers([number or 0 for row in rows for number in row["days_before"]])
        for date in (day["date"] for day in made["days"]):
            known |= numbers_of_findings(shown(out, date))
        clocks = set().union(*(clocks_of(day, zone_of(out)) for day in added.days if day.date in dates))
        words = Words((out / f"week-{week}.html").read_text()).words
        assert not unknown(" | ".join(one for found in words.values() for one in found), known, clocks)
        assert not unknown(text, known, clocks)


def test_the_week_has_the_sentences_of_its_days(told):
    _, out = told
    week = f"{LAST.isocalendar()[0]}-W{LAST.isocalendar()[1]:02}"
    ran("week", "--out", str(out), "--week", week)
    page = " | ".join(one for found in Words((out / f"week-{week}.html").read_text()).words.values() for one in found)
    told_of = shown(out, LAST.isoformat())["verdict"]
    assert told_of["severity"] == "act"
    for finding in told_of["findings"]:
        assert finding["state"] == "complete" or finding["text"] in page


def test_mail_and_chat_have_the_numbers_of_the_lines(told):
    added, out = told
    for day in added.days:
        report, sums = shown(out, day.date), added.report(day.date)
        facts = json_export.from_text((out / day.date / "report.json").read_bytes(), "report.json")
        sent = message.made(facts, base=None, page=None)
        known = known_numbers(sums["totals"], len(sums["hosts"]["silent"]), list(range(14))) | numbers_of_findings(
            report
        )
        clocks = clocks_of(day, zone_of(out))
        for text in (message.as_text(sent), message.as_slack(sent)["text"], message.as_html(sent).replace("<", " <")):
            assert not unknown(text, known, clocks), day.date
        totals = ("lines", "bytes", "hosts", "errors")
        assert message.as_json(sent, "")["totals"] == {name: sums["totals"][name] for name in totals}
        assert not unknown(
            (out / day.date / "report.txt").read_text().partition("  page  ")[0], known_numbers(sums) | known, clocks
        )
