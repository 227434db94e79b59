"""What is decided: silent hosts, risen rates, and the words of the verdict."""

import dataclasses

import nights
import pytest
from nights import DATE, a_day, a_host, a_trouble, an_account

from spark_analytics.delivery import message
from spark_analytics.report import build, html, json_export
from spark_analytics.report import inputs as ev
from spark_analytics.report.model import TROUBLES, Severity, State


def facts_of(*hosts, before=nights.BEFORE, account=None, **other):
    account = account or an_account([host for host in hosts if host.lines])
    given = {
        "files": (),
        "patterns": (),
        "auth_kinds": (),
        "auth_tops": (),
        "web_classes": (),
        "hours": (),
        "pattern_sums": ev.PatternSums(),
    }
    return build.facts(dataclasses.replace(a_day(0, before=before), hosts=hosts, account=account, **{**given, **other}))


def names(hosts):
    return [host.host for host in hosts]


# -- hosts --------------------------------------------------------------------------------------------------------


def test_a_calm_day_is_complete_and_reports_that_nothing_is_unusual():
    calm = facts_of(a_host("web1"), a_host("web2"))

    assert calm.verdict.state is State.COMPLETE
    assert calm.verdict.findings == ()
    assert "nothing stands out" in calm.verdict.headline


def test_hosts_that_wrote_nothing_or_stopped_are_silent():
    made = facts_of(
        a_host("fine"),
        a_host("gone", 0),
        a_host("stopped", 500, last_arrival=f"{DATE}T17:59:00Z"),
        a_host("just", 500, last_arrival=f"{DATE}T18:00:00Z"),
        a_host("late", 500, last_arrival=f"{DATE}T18:01:00Z"),
    )

    assert names(made.hosts.silent) == ["gone", "just", "stopped"]
    assert made.hosts.silent[1].quiet_hours == 6.0
    assert made.verdict.state is State.ATTENTION
    assert "3 hosts silent: gone, just (since 18:00), stopped (since 17:59)" in made.verdict.findings[0].text


def test_a_nightly_batch_host_is_not_silent_in_the_evening():
    batch = a_host("batch", last_arrival=f"{DATE}T03:00:00Z", active_hours=2, active_hours_before=(2,) * 7)

    assert facts_of(batch).hosts.silent == ()


def test_a_host_that_was_gone_already_is_not_silent_again_and_again():
    assert facts_of(a_host("gone", 0, before=(0, 0, 0, 0, 900, 900, 900))).hosts.silent == ()


def test_on_an_open_day_silence_is_measured_from_the_newest_line():
    hosts = [
        a_host("noon", 500, last_arrival=f"{DATE}T12:00:00Z"),
        a_host("morning", 500, last_arrival=f"{DATE}T05:00:00Z"),
    ]
    account = an_account(hosts, closed=False, open_collectors=("collector-a",))

    assert names(facts_of(*hosts, account=account).hosts.silent) == ["morning"]


def test_new_hosts_are_those_that_no_day_before_has():
    made = facts_of(a_host("old"), a_host("new", before=(0,) * 7))

    assert names(made.hosts.new) == ["new"]
    assert made.verdict.state is State.COMPLETE
    assert "1 host not seen before: new" in made.verdict.findings[0].text


@pytest.mark.parametrize("days", [0, 1, 2])
def test_with_a_short_history_no_host_is_judged_and_the_report_states_it(days):
    hosts = [a_host("gone", 0, before=(9,) * days), a_host("there", before=(9,) * days)]
    made = facts_of(*hosts, before=nights.BEFORE[:days])

    assert not made.history.enough
    assert "3" in made.history.text
    assert made.hosts.silent == made.hosts.unusual == ()
    assert made.hosts.largest[0].factor is None
    assert "too short" in made.verdict.headline


def test_volumes_far_from_the_usual_are_reported_and_small_ones_are_not():
    made = facts_of(a_host("loud", 9000), a_host("quiet", 100), a_host("tiny", 90, before=(9,) * 7), a_host("usual"))

    assert names(made.hosts.unusual) == ["loud", "quiet"]
    assert [host.factor for host in made.hosts.unusual] == [9, 0.1]


# -- error rates --------------------------------------------------------------------------------------------------


def a_file(lines, errors, median=0.001, days=7):
    return ev.FileSeries(
        partition=0, host="h", file="/f", lines=lines, errors=errors, warnings=0, baseline_days=days, median_rate=median
    )


@pytest.mark.parametrize(
    ("log", "risen"),
    [
        (a_file(3, 1, 0.0), False),
        (a_file(3, 3, 0.0), False),
        (a_file(1000, 50, 0.001), True),
        (a_file(1000, 50, 0.05), False),
        (a_file(1000, 60, 0.05), False),
        (dataclasses.replace(a_file(1000, 8, 0.005), rates_before=(0.005, 0.009, 0.004)), False),
        (dataclasses.replace(a_file(1000, 8, 0.005), rates_before=(0.005, 0.007, 0.004)), True),
        (a_file(99, 50, 0.001), False),
        (a_file(10_000_000, 11_000, 0.001), False),
        (a_file(1000, 50, 0.0), True),
        (a_file(1000, 50, None), False),
        (a_file(1000, 50, 0.001, days=2), False),
    ],
    ids=[
        "1 of 3 does not shout",
        "nor do 3 of 3",
        "fifty times the usual",
        "as usual",
        "a little above",
        "half as much again, below the highest day",
        "half as much again, above every day",
        "too few lines",
        "sure but small",
        "errors where none were",
        "no usual rate",
        "too few days",
    ],
)
def test_a_rate_has_risen_beyond_chance_and_by_a_factor_that_matters(log, risen):
    made = facts_of(a_host("h"), files=(log,))

    assert bool(made.errors.risen) is risen
    assert made.errors.most[0].errors == log.errors


@pytest.mark.parametrize(("number", "values"), [(1, (2,) * 7 + (50,)), (2, (4,) * 7 + (100,)), (4, None)])
def test_the_trend_of_risen_rates_is_that_of_every_log_file_or_there_is_none(number, values):
    files = [dataclasses.replace(a_file(1000, 50), file=f"/f{n}", errors_before=(2,) * 7) for n in range(number)]
    calm = dataclasses.replace(a_file(1000, 1), file="/calm", errors_before=(9,) * 7)
    (finding,) = [
        one for one in facts_of(a_host("h"), files=(*files, calm)).verdict.findings if one.kind == "error_rate"
    ]
    assert (finding.trend.values if finding.trend else None) == values


# -- authentication, patterns, web --------------------------------------------------------------------------------


def a_sign_in(failed=40, **other):
    given = {
        "host": "web1", "user": "root", "remote": "103.99.0.122", "method": "password", "accepted": 1,
        "first": f"{DATE}T14:32:00Z", "last": f"{DATE}T14:32:00Z",
        "failed_first": f"{DATE}T14:02:00Z", "failed_last": f"{DATE}T14:31:00Z",
    }  # fmt: skip
    return ev.PasswordSignIn(failed=failed, **{**given, **other})


def test_a_password_accepted_after_failures_of_the_same_user_and_address_is_named_with_the_times():
    made = facts_of(a_host("h"), password_sign_ins=(a_sign_in(), a_sign_in(failed=4, user="jo")))

    (finding,) = made.verdict.findings
    assert finding.text == (
        "1 password accepted after failures: root from 103.99.0.122 on web1 at 14:32"
        " (40 failed passwords of this user and address, 14:02 to 14:31)"
    )
    assert "guess" not in json_export.to_text(made).replace('"guessed":[]', "")


def test_failed_passwords_above_twice_their_median_are_reported():
    kinds = (
        ev.AuthKind(kind="failed_password", times=519, before=(40,) * 7),
        ev.AuthKind(kind="invalid_user", times=19, before=(1,) * 7),
        ev.AuthKind(kind="accepted", times=5000, before=(100,) * 7),
    )
    made = facts_of(a_host("h"), auth_kinds=kinds)

    (finding,) = made.verdict.findings
    assert finding.text == "more than usual in authentication: failed password 519 (usually 40)"


def test_new_error_patterns_are_listed_for_attention_but_not_when_everything_is_new():
    pattern = ev.PatternCount(
        pattern_id="1", template="disk <*> failed", example="disk 1 failed", file="/f", files=1, level="error",
        lines=7, hosts=1, baseline_median=None, surge=None, is_new=True,
    )  # fmt: skip

    known = facts_of(a_host("h"), patterns=(pattern,))
    assert known.verdict.findings[0].kind == "new_pattern"
    assert "disk <*> failed" in known.verdict.findings[0].text
    placed = dataclasses.replace(pattern, places=(a_place("web7", 7),))
    (finding,) = facts_of(a_host("h"), patterns=(placed,)).verdict.findings
    assert finding.plain == "1 new error or warning pattern; web7: 7 lines, 15:02 to 15:40"
    assert finding.text == f"{finding.plain}: “disk <*> failed”"
    assert finding.hosts == ("web7",)
    assert facts_of(a_host("h", before=()), before=(), patterns=(pattern,)).verdict.findings == ()


def a_place(host, lines=34, **other):
    given = {"file": "/var/log/syslog", "first": f"{DATE}T15:02:10Z", "last": f"{DATE}T15:40:00Z", "subject": "sdb"}
    return ev.Place(host=host, lines=lines, **{**given, **other})


def an_event(kind, *places):
    lines = sum(place.lines for place in places)
    text = "sdb: I/O error, dev sdb, sector 0"
    return ev.KnownEvent(kind=kind, lines=lines, patterns=1, template=text, example=text, file="/f", places=places)


def test_an_event_names_host_subject_times_and_lines_in_the_sentence_and_as_data():
    made = facts_of(a_host("h"), known_events=(an_event("io_error", a_place("backup1")),))

    (finding,) = made.verdict.findings
    assert finding.text == "backup1: I/O error on sdb, 34 lines, 15:02 to 15:40"
    assert finding.plain == "backup1: I/O error, 34 lines, 15:02 to 15:40"
    assert (finding.hosts, finding.file, finding.lines) == (("backup1",), "/var/log/syslog", 34)
    assert (finding.first, finding.last) == (f"{DATE}T15:02:10Z", f"{DATE}T15:40:00Z")
    assert (finding.severity, made.verdict.word) == (Severity.ACT, "act")


def test_an_event_on_many_hosts_is_one_finding_with_the_first_of_them():
    places = [a_place(f"web{number}", 9 - number, first=None, last=None) for number in range(5)]
    made = facts_of(a_host("h"), known_events=(an_event("segfault", *places),))

    (finding,) = made.verdict.findings
    assert finding.text == "program crash (segfault) on 5 hosts (web0, web1, web2 and 2 more), 35 lines"
    assert (finding.severity, made.verdict.word) == (Severity.LOOK, "look")


def test_the_first_day_has_findings_that_need_no_history():
    kinds = (
        ev.AuthKind(kind="failed_password", times=1056, before=()),
        ev.AuthKind(kind="breakin_warning", times=170, before=()),
    )
    tops = (
        ev.AuthTop(what="remote", key="183.62.140.253", failed=600, accepted=0, hosts=1),
        ev.AuthTop(what="host", key="LabSZ", failed=1056, accepted=0, hosts=1),
    )
    fatal = (("bgl1", 348), ("web1", 1))
    given = {"auth_kinds": kinds, "auth_tops": tops, "auth_remotes": 24, "fatal_hosts": fatal}
    first = facts_of(a_host("h", before=()), before=(), **given)

    assert [finding.text for finding in first.verdict.findings] == [
        "1,056 failed passwords from 24 addresses, on LabSZ, from 183.62.140.253",
        "170 lines of sshd with POSSIBLE BREAK-IN ATTEMPT",
        "349 fatal lines, most on bgl1 (348)",
    ]
    assert first.verdict.attention.text == "3 things are worth checking"
    few = facts_of(
        a_host("h", before=()), before=(), auth_kinds=(ev.AuthKind(kind="failed_password", times=99, before=()),)
    )
    assert few.verdict.findings == ()
    later = facts_of(a_host("h"), **{**given, "auth_kinds": ()})
    assert later.verdict.findings == (), "the days before tell whether fatal lines are usual"


def test_web_errors_above_twice_their_share_are_reported():
    classes = (
        ev.WebClass(status_class="2xx", requests=9000, before=(9000,) * 7),
        ev.WebClass(status_class="5xx", requests=200, before=(20,) * 7),
    )
    made = facts_of(a_host("h"), web_classes=classes)

    assert "failed (5xx), usually 0.22 %" in made.verdict.findings[0].text


# -- the archive --------------------------------------------------------------------------------------------------

SAID = {
    "missing": "1 segment listed but not on disk: web1/",
    "truncated": "1 segment cut off: web1/",
    "differs": "1 manifest line with other numbers than its segment has: web1/",
    "unreadable": "1 manifest line that cannot be read: collector-a.jsonl:17 (no JSON)",
    "unregistered": "1 sealed file on disk that no manifest lists, not counted here: web1/",
    "offset_gap": "1 log file with bytes between two spans that no segment holds: web1 /var/log/syslog (9 bytes)",
    "gap": "1 log file with bytes lost before the collector could have them, recorded as gaps: web1 /var/log/syslog (9",
    "doubled": "1 log file with bytes that an earlier segment holds, too: web1 /var/log/syslog (9 bytes)",
}


def trouble_of(kind):
    if kind == "unreadable":
        return a_trouble(kind, "", path="collector-a.jsonl:17", detail="no JSON", file="")
    lost = {"path": "", "detail": "9 bytes"} if kind in {"gap", "offset_gap", "doubled"} else {}
    return a_trouble(kind, "web1", **lost)


@pytest.mark.parametrize("kind", TROUBLES)
def test_the_verdict_names_every_error_of_the_archive(kind):
    made = facts_of(a_host("web1"), account=an_account([a_host("web1")], troubles=[trouble_of(kind)]))

    assert made.verdict.state is made.completeness.state is TROUBLES[kind]
    assert made.verdict.findings[0].kind == kind
    assert made.verdict.findings[0].text.startswith(SAID[kind])


def test_all_errors_together_are_named_worst_first():
    account = an_account([a_host("web1")], troubles=[trouble_of(kind) for kind in reversed(TROUBLES)])
    made = facts_of(a_host("web1"), account=account)

    assert [finding.kind for finding in made.verdict.findings] == list(TROUBLES)
    assert made.verdict.state is State.DAMAGED


def test_what_is_counted_twice_is_reported_with_how_much_and_what_to_do():
    account = an_account(
        [a_host("web1")], troubles=[trouble_of("doubled")], doubled_bytes=8893, doubled_lines=1000, open_files=1
    )
    made = facts_of(a_host("web1"), account=account)

    assert made.completeness.state is State.DOUBLED
    assert (made.completeness.doubled_bytes, made.completeness.doubled_lines) == (8893, 1000)
    assert made.verdict.headline == "The totals count 8,893 bytes and 1,000 lines twice"
    assert "fshipper audit --repair-duplicates" in made.verdict.findings[1].text
    lost = dataclasses.replace(account, trouble_counts={"doubled": 1, "gap": 1})
    assert facts_of(a_host("web1"), account=lost).completeness.state is State.GAPS


def test_until_the_day_is_closed_an_unlisted_file_is_no_damage():
    account = an_account([a_host("web1")], troubles=[trouble_of("unregistered")], closed=False, open_collectors=("a",))

    assert facts_of(a_host("web1"), account=account).completeness.state is State.OPEN


def test_what_is_open_makes_the_day_open_and_notes_do_not():
    notes = an_account([a_host("web1")], repeated_lines=2, duplicates=3, joins=1)
    still = an_account([a_host("web1")], open_files=1, open_bytes=2048)

    assert facts_of(a_host("web1"), account=notes).verdict.state is State.COMPLETE
    assert len(facts_of(a_host("web1"), account=notes).verdict.findings) == 3
    assert facts_of(a_host("web1"), account=still).verdict.state is State.OPEN


def test_an_archive_is_as_complete_as_it_is_whatever_its_lines_say():
    made = facts_of(a_host("gone", 0), a_host("there"))

    assert made.verdict.state is State.ATTENTION
    assert made.completeness.state is State.COMPLETE


def test_a_day_without_a_line_is_listed_for_attention():
    assert facts_of().verdict.findings[0].kind == "empty"


def test_the_map_has_every_host_and_its_worst_status():
    hosts = [a_host(f"h{number:05d}") for number in range(10_000)]
    account = an_account(hosts, troubles=[a_trouble("missing", "h01234")])
    made = facts_of(*hosts, a_host("zz-gone", 0), account=account)

    account = made.completeness
    assert len(account.cells) <= 600
    assert sum(cell.hosts for cell in account.cells) == account.hosts == 10_001
    assert [(cell.status, cell.worst) for cell in account.cells if cell.worst] == [
        ("missing", "h01234"),
        ("silent", "zz-gone"),
    ]
    assert {count.status: count.hosts for count in account.by_status} == {"missing": 1, "silent": 1, "complete": 9999}


# -- sums ---------------------------------------------------------------------------------------------------------


def test_totals_partitions_and_hosts_add_up():
    made = build.facts(a_day(200))

    assert sum(day.lines for day in made.volume.partitions) == made.totals.lines
    assert sum(day.share for day in made.volume.partitions) == pytest.approx(1)
    assert sum(day.hosts for day in made.volume.partitions) == made.totals.hosts == 198
    assert len(made.totals.lines_before) == len(made.history.days) == 7


def test_skew_is_the_share_times_the_partitions():
    hosts = [a_host(f"h{number}", lines, partition=number) for number, lines in enumerate((100, 100, 100, 500))]
    volume = facts_of(*hosts).volume

    assert volume.partitions[3].skew == volume.partition_skew == 2.5
    assert volume.partitions[3].top_host == "h3"


def test_old_lines_are_drawn_by_hour_of_any_day():
    old = tuple(ev.HourCount(partition=0, hour=3, on_day=False, level="info", lines=900) for _ in range(1))

    made = facts_of(a_host("h", 900), hours=old)

    assert not made.volume.on_day
    assert made.volume.levels[0].hours[3] == 900
    assert made.totals.other_day_lines == 900


def test_hosts_of_which_retention_removed_the_day_are_named():
    account = an_account([a_host("web1")], removed_hosts=("flood1", "flood2"))
    made = facts_of(a_host("web1"), account=account)

    (finding,) = [each for each in made.verdict.findings if each.kind == "removed_host"]
    assert finding.state is made.verdict.state is State.ATTENTION
    assert finding.text == "retention removed the day of 2 hosts, which no total counts: flood1, flood2"


# -- the two verdicts ---------------------------------------------------------------------------------------------


def both(made):
    return made.verdict.complete, made.verdict.attention


def test_a_calm_day_has_two_calm_verdicts_with_the_days_that_were_used():
    complete, look = both(facts_of(a_host("web1", 2000)))

    assert complete.text == "All 2,000 listed lines are counted: no byte is missing, none is there twice"
    assert look.text == "Nothing stands out against the 7 days before"
    assert {complete.state, look.state} == {State.COMPLETE}


def test_a_sealed_day_that_is_not_closed_is_complete_so_far_and_one_with_open_files_is_not():
    host = a_host("web1", 2000)
    sealed = facts_of(host, account=an_account([host], closed=False, open_collectors=("c",)))
    growing = facts_of(host, account=an_account([host], closed=False, open_collectors=("c",), open_files=1))

    assert sealed.verdict.headline == "Complete so far, the day is not closed yet"
    assert "All 2,000 lines sealed so far are counted" in sealed.verdict.complete.text
    assert growing.verdict.headline == "The day is not closed yet"
    assert "not all of it is sealed" in growing.verdict.complete.text


def test_the_list_of_days_and_messages_call_a_sealed_day_complete_so_far():
    host = a_host("web1", 2000)
    sealed = facts_of(host, account=an_account([host], closed=False, open_collectors=("c",)))

    brief = json_export.brief(json_export.as_json(sealed))
    sent = message.made(sealed, base=None, page=None)

    assert (brief["state"], brief["word"]) == ("open", "complete so far")
    assert "complete so far</span>" in html.index([brief])
    assert (sent.state, sent.subject) == ("open", f"fshipper report {DATE}: complete so far")


def test_a_silent_host_is_worth_checking_and_less_urgent_than_a_sign_in():
    made = facts_of(a_host("fine"), a_host("gone", 0), password_sign_ins=(a_sign_in(),))
    complete, look = both(made)

    assert complete.text.endswith("; 1 host that usually writes was silent")
    assert complete.word == "complete"
    assert look.text == "2 things are worth checking"
    assert [(f.kind, f.severity, f.of_archive, f.section) for f in made.verdict.findings] == [
        ("sign_in", Severity.ACT, False, "sign-ins"),
        ("silent", Severity.LOOK, False, "hosts"),
    ]
    assert (made.verdict.word, look.severity) == ("act", Severity.ACT)
    assert made.verdict.headline.endswith(look.text)
    assert facts_of(a_host("fine"), a_host("gone", 0)).verdict.word == "look"


def test_the_first_day_states_once_that_there_is_nothing_to_compare_with():
    made = facts_of(a_host("web1", before=()), before=())

    assert made.verdict.attention.text == "Nothing stands out by itself; there are too few days to compare with"


def test_a_volume_that_is_usual_on_this_weekday_is_not_far_from_the_usual():
    sunday = a_host("shop", 9000, lines_weekdays=(8800, 9100, 9000, 8700))
    weekday = a_host("web", 9000, lines_weekdays=(1000, 1100, 1000, 1000))

    assert names(facts_of(sunday, weekday).hosts.unusual) == ["web"]
