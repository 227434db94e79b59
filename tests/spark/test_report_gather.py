"""Rows of tables become evidence: names as `schemas` has them, values as they are."""

import datetime as dt

import pytest
from nights import DATE, a_run

from spark_analytics.archive.inventory import Day, Manifests
from spark_analytics.report import build, load
from spark_analytics.report.model import Severity, State
from spark_analytics.tables import schemas
from spark_analytics.tables.day_tables import DayTables, HourCell, WebHourCount, WebSums

NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
YESTERDAY = "2026-11-19"


def a_row(table, **given):
    """A row of `table` with every column that its schema has, and no other."""
    empty = {"string": "", "timestamp": None, "boolean": None, "date": None}
    row = {column.name: empty.get(column.dataType.typeName(), 0) for column in schemas.TABLES[table]}
    texts = {"host": "web1", "file": "/var/log/app.log", "level": "info", "partition": 3}
    row |= {name: text for name, text in texts.items() if name in row}
    assert given.keys() <= row.keys()
    return row | given


def a_day(**other):
    manifests = {
        "segments": (), "merged": frozenset(), "repeated": 0, "torn": (), "damaged": (), "open_collectors": (),
        "names": ("a.jsonl",),
    }  # fmt: skip
    lists = Manifests(**{**manifests, **{name: other.pop(name) for name in list(other) if name in manifests}})
    return Day(**{"date": DATE, "manifests": lists, "sizes": {}, "open_files": 0, "open_bytes": 0, **other})


def gathered(day=None, *, before=None, days=(), hours=(), web=(), sums=None, **rows):
    given = DayTables(
        rows=rows, before=before or {}, days_before=list(days), hours=hours, web=web, web_sums=sums or WebSums()
    )
    return load.evidence(given, day or a_day(), a_run())


def test_nothing_given_is_an_empty_day():
    made = gathered()

    assert made.hosts == made.files == made.patterns == made.web_classes == ()
    assert build.facts(made).totals.lines == 0


def test_a_hosts_days_stand_side_by_side():
    today = a_row("host_daily", lines=100, bytes=900, err=1, last_arrival=NOON, active_hours=5)
    past = a_row("host_daily", lines=70, bytes=500, err=2, last_arrival=None)
    gone = a_row("host_daily", host="gone", lines=9, bytes=9)
    before = {"host_daily": {YESTERDAY: [past, gone]}}

    first, second = gathered(host_daily=[today], before=before, days=["2026-11-18", YESTERDAY]).hosts

    assert (first.host, first.lines, first.lines_before) == ("gone", 0, (0, 9))
    assert (second.lines, second.lines_before, second.errors_before) == (100, (0, 70), (0, 2))
    assert second.last_arrival == f"{DATE}T12:00:00Z"


def test_a_host_that_moved_is_one_host_where_most_of_it_is():
    rows = [a_row("host_daily", partition=1, lines=10, bytes=10), a_row("host_daily", partition=2, lines=90, bytes=90)]

    (host,) = gathered(host_daily=rows).hosts

    assert (host.partition, host.lines) == (2, 100)


def test_times_of_other_zones_and_naive_ones_are_utc():
    tokyo = dt.timezone(dt.timedelta(hours=9))
    rows = [
        a_row("host_daily", host="a", last_arrival=dt.datetime(2026, 11, 20, 21, tzinfo=tokyo)),
        a_row("host_daily", host="b", last_arrival=dt.datetime(2026, 11, 20, 12)),  # noqa: DTZ001
    ]

    assert {host.last_arrival for host in gathered(host_daily=rows).hosts} == {f"{DATE}T12:00:00Z"}


def test_hours_are_added_up_by_partition_and_by_large_host():
    old = NOON.replace(year=2005)
    hours = [
        HourCell(3, "web1", NOON, "info", 5),
        HourCell(3, "web2", NOON, "info", 7),
        HourCell(3, "web1", old, "error", 1),
    ]
    rows = [a_row("host_daily", lines=6, bytes=60), a_row("host_daily", host="web2", lines=7, bytes=0)]

    made = gathered(host_daily=rows, hours=hours)

    assert [(hour.on_day, hour.level, hour.lines) for hour in made.hours] == [(False, "error", 1), (True, "info", 12)]
    assert sum(hour.lines for hour in made.host_hours if hour.host == "web1") == 6


def test_patterns_are_reported_with_their_templates_and_counted_with_the_others():
    rows = [
        a_row(
            "pattern_daily",
            pattern_id=f"{n:04}",
            lines=n,
            level="error",
            is_new=n % 2 == 0,
            surge=2.0 if n == 1 else None,
        )
        for n in range(2000)
    ]
    texts = [a_row("patterns", pattern_id="0001", template="a <*>", example="a 1")]

    made = gathered(pattern_daily=rows, patterns=texts)

    assert (made.pattern_sums.patterns, made.pattern_sums.new, made.pattern_sums.surging) == (2000, 1000, 1)
    assert len(made.patterns) < 1000
    assert (made.pattern_sums.new_bad, made.pattern_sums.surging_bad) == (1000, 1)
    (surging,) = [row for row in made.patterns if row.surge]
    assert (surging.template, surging.example, surging.is_new) == ("a <*>", "a 1", False)


def test_log_files_without_one_time_are_named_with_their_lines():
    rows = [
        a_row("file_daily", host="web1", file="/a.log", lines=5, no_ts_lines=5, first_ts=None),
        a_row("file_daily", host="web2", file="/b.log", lines=90, no_ts_lines=90, first_ts=None),
        a_row("file_daily", host="web2", file="/traces.log", lines=90, no_ts_lines=80, first_ts=NOON),
        a_row("file_daily", host="web3", file="/empty.log", lines=0, no_ts_lines=0, first_ts=None),
    ]
    made = gathered(file_daily=rows)

    assert [(one.host, one.file, one.lines) for one in made.untimed] == [("web2", "/b.log", 90), ("web1", "/a.log", 5)]
    (finding,) = [one for one in build.facts(made).verdict.findings if one.kind == "untimed"]
    said = "no time that can be read in 2 log files with 95 lines: web2 /b.log (90), web1 /a.log (5)"
    assert (finding.text, finding.severity, finding.section) == (said, Severity.NOTE, "volume")
    assert not [one for one in build.facts(gathered(file_daily=rows[2:])).verdict.findings if one.kind == "untimed"]


def test_of_too_many_patterns_the_worst_new_the_most_surging_and_the_noisiest_are_reported(monkeypatch):
    monkeypatch.setattr(load, "MAX_PATTERNS", 1)
    rows = [
        a_row("pattern_daily", pattern_id=name, level=level, lines=lines, is_new=is_new, surge=surge)
        for name, level, lines, is_new, surge in (
            ("new and calm", "info", 90, True, None),
            ("new and bad", "error", 2, True, None),
            ("new and worse", "fatal", 3, True, None),
            ("surging", "info", 50, False, 1.0),
            ("surging more", "info", 5, False, 4.0),
            ("old", "info", 20, False, 0.5),
            ("noisy", "info", 100, False, None),
        )
    ]

    made = gathered(pattern_daily=rows)

    assert [row.pattern_id for row in made.patterns] == ["noisy", "new and worse", "surging more"]
    assert (made.pattern_sums.new, made.pattern_sums.surging) == (3, 2)
    assert {row.file for row in made.patterns} == {"/var/log/app.log"}


def test_log_files_with_errors_are_reported_worst_first_with_what_is_usual(monkeypatch):
    monkeypatch.setattr(load, "MAX_FILES", 2)
    rows = [
        a_row("file_daily", file=file, err=errors, lines=100, warn=7, baseline_days=days, median7_err_rate=rate)
        for file, errors, days, rate in (
            ("/b", 1, 7, 0.1),
            ("/worst", 9, None, None),
            ("/a", 1, 7, 0.1),
            ("/c", 0, 7, 0),
        )
    ]

    made = gathered(file_daily=rows)

    assert [(row.file, row.errors, row.baseline_days, row.median_rate) for row in made.files] == [
        ("/worst", 9, 0, None),
        ("/a", 1, 7, 0.1),
    ]
    assert [(row.lines, row.warnings) for row in made.files] == [(100, 7)] * 2


def test_sequence_numbers_that_no_segment_covers_are_added_up():
    rows = [
        a_row("partition_daily", partition=number, seq_missing=missing)
        for number, missing in ((0, 3), (1, None), (2, 4))
    ]

    assert gathered(partition_daily=rows).account.seq_missing == 7


def test_on_the_first_day_of_all_nothing_is_new():
    (row,) = gathered(pattern_daily=[a_row("pattern_daily", pattern_id="1", is_new=None)]).patterns

    assert row.is_new is False


def test_failed_passwords_are_ranked_by_address_and_successful_sign_ins_are_not_lost_among_the_busy():
    auth = [
        a_row("auth_daily", kind="failed_password", user="root", remote=f"10.0.{n // 250}.{n % 250}", n=1000 - n)
        for n in range(500)
    ]
    auth.append(a_row("auth_daily", kind="accepted", user="root", remote="10.0.1.240", n=1, method="password"))
    auth.append(a_row("auth_daily", kind="accepted", user="deploy", remote="10.9.9.9", n=7))
    before = {"auth_daily": {YESTERDAY: [a_row("auth_daily", kind="failed_password", n=40)]}}

    made = gathered(auth_daily=auth, before=before, days=[YESTERDAY])

    assert made.auth_remotes == 500
    assert {kind.kind: (kind.times, kind.before) for kind in made.auth_kinds} == {
        "failed_password": (sum(range(501, 1001)), (40,)),
        "accepted": (8, (0,)),
    }
    accepted = [top.key for top in made.auth_tops if top.what == "remote" and top.accepted]
    assert accepted == ["10.0.1.240"]


def test_an_accepted_public_key_is_no_accepted_password():
    rows = [
        a_row(
            "auth_daily",
            kind="failed_password",
            user="root",
            remote="192.0.2.53",
            n=300,
            attempts=309,
            method="password",
        ),
        a_row("auth_daily", kind="accepted", user="deploy", remote="192.0.2.53", n=73, method="publickey"),
    ]
    made = build.facts(gathered(auth_daily=rows))

    assert [(m.method, m.accepted, m.failed) for m in made.auth.methods] == [("publickey", 73, 0), ("password", 0, 309)]
    assert made.auth.after_failures == ()
    assert [top.accepted for top in made.auth.top_remotes] == [0]
    assert [finding.kind for finding in made.verdict.findings if "sign" in finding.kind] == []


def test_requests_of_the_days_before_are_those_of_their_statuses():
    before = {"access_top": {YESTERDAY: [
        a_row("access_top", kind="status", key="200", n=90), a_row("access_top", kind="status", key="204", n=9),
        a_row("access_top", kind="client", key="2.2.2.2", n=5),
    ]}}  # fmt: skip
    made = gathered(
        access_top=[
            a_row("access_top", kind="status", key="200", n=5),
            a_row("access_top", kind="path404", key="/x", n=2),
        ],
        web=[WebHourCount(NOON, "2xx", 5, 500), WebHourCount(NOON, "4xx", 2, None)],
        sums=WebSums(3, 10.0, 20.0, 30.0),
        before=before,
        days=[YESTERDAY],
    )

    assert [(row.status_class, row.requests, row.before) for row in made.web_classes] == [
        ("2xx", 5, (99,)),
        ("4xx", 2, (0,)),
    ]
    web = build.facts(made).web
    assert (web.requests, web.bytes, web.clients, web.latency_p99_ms) == (7, 500, 3, 30.0)
    assert [(top.key, top.times) for top in web.codes] == [("200", 5)]


def test_of_too_many_keys_the_most_frequent_of_each_kind_are_reported(monkeypatch):
    monkeypatch.setattr(load, "MAX_KEYS", 2)
    rows = [
        a_row("access_top", kind=kind, key=key, n=times)
        for kind in ("client", "path404")
        for key, times in (("b", 3), ("rare", 1), ("a", 3), (None, 9))
    ]

    made = gathered(access_top=rows)

    assert [(top.kind, top.key, top.times) for top in made.web_tops] == [
        ("client", "", 9),
        ("client", "a", 3),
        ("path404", "", 9),
        ("path404", "a", 3),
    ]


def test_of_too_many_addresses_that_failed_the_busiest_are_reported_and_as_many_that_got_in(monkeypatch):
    monkeypatch.setattr(load, "MAX_NAMES", 1)
    given = (
        ("busy", "failed_password", 9),
        ("idle", "failed_password", 2),
        ("in", "failed_password", 3),
        ("in", "accepted", 1),
    )
    given += (
        ("busy", "accepted", 2),
        ("later", "failed_password", 1),
        ("later", "accepted", 1),
        ("idle", "failed_password", 2),
    )
    rows = [a_row("auth_daily", kind=kind, remote=name, n=times, method="password") for name, kind, times in given]

    tops = [top for top in gathered(auth_daily=rows).auth_tops if top.what == "remote"]

    assert [(top.key, top.failed, top.accepted) for top in tops] == [("busy", 9, 2), ("in", 3, 1)]


def test_a_kind_that_only_the_days_before_had_is_none_today():
    before = {
        "auth_daily": {YESTERDAY: [a_row("auth_daily", kind="accepted", n=4)]},
        "access_top": {YESTERDAY: [a_row("access_top", kind="status", key="500", n=3)]},
    }

    made = gathered(before=before, days=[YESTERDAY], web=[WebHourCount(NOON, "2xx", 1, 1)])

    assert [(kind.times, kind.before) for kind in made.auth_kinds] == [(0, (4,))]
    assert [(row.status_class, row.requests, row.before) for row in made.web_classes] == [
        ("2xx", 1, (0,)),
        ("5xx", 0, (3,)),
    ]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("segments_missing", "missing"),
        ("segments_truncated", "truncated"),
        ("segments_differing", "differs"),
        ("files_unregistered", "unregistered"),
        ("offset_gap_bytes", "offset_gap"),
        ("gap_bytes", "gap"),
    ],
)
def test_every_error_of_the_audit_reaches_the_verdict(column, kind):
    path = f"date={DATE}/partition=3/host=web1/app.log-1.log.zst"
    row = a_row("audit", status=kind, segments=4, example=path, lines_manifest=9, lines_counted=5, **{column: 1})

    facts = build.facts(gathered(audit=[row]))

    assert facts.verdict.findings[0].kind == kind
    assert "web1" in facts.verdict.findings[0].text
    assert [(host.host, host.status) for host in facts.completeness.incomplete] == [("web1", kind)]
    assert (facts.completeness.segments, facts.completeness.lines_counted) == (4, 5)


def test_a_log_file_with_several_troubles_is_named_for_each():
    row = a_row(
        "audit", status="missing", segments=4, segments_missing=1, segments_differing=2, gap_bytes=7, example="x"
    )

    facts = build.facts(gathered(audit=[row]))

    assert [finding.kind for finding in facts.verdict.findings if finding.kind != "empty"] == [
        "missing",
        "differs",
        "gap",
    ]
    assert facts.completeness.trouble_count == 4
    assert [trouble.path for trouble in facts.completeness.troubles] == ["x", "", ""]


def test_manifest_lines_that_cannot_be_read_are_named_with_their_number():
    facts = build.facts(gathered(a_day(damaged=("collector-a.jsonl:17: no JSON",))))

    assert facts.verdict.findings[0].text == "1 manifest line that cannot be read: collector-a.jsonl:17 (no JSON)"
    assert facts.completeness.state is State.DAMAGED


# -- patterns that are back or gone, known events, same weekdays ---------------------------------------------------

WEEK = [f"2026-11-{day}" for day in range(13, 20)]


def in_pattern_daily(*ids, lines=50, **other):
    return [a_row("pattern_daily", pattern_id=one, lines=lines, is_new=False, **other) for one in ids]


def registered(pattern_id, last_seen, template="x"):
    last = dt.date.fromisoformat(last_seen)
    return a_row("patterns", pattern_id=pattern_id, last_seen_date=last, first_seen_date=last, template=template)


def with_registry(rows, before, registry):
    given = DayTables(rows=rows, before=before, days_before=WEEK, patterns_before=registry)
    return load.evidence(given, a_day(), a_run())


def test_a_pattern_of_nearly_every_day_before_that_is_missing_today_is_gone():
    before = {"pattern_daily": {day: in_pattern_daily("steady", "today") for day in WEEK}}
    before["pattern_daily"][WEEK[2]] = in_pattern_daily("today", "once", lines=900)
    made = with_registry(
        {"pattern_daily": in_pattern_daily("today")}, before, [registered("steady", WEEK[-1], "job done")]
    )

    assert [(one.pattern_id, one.days, one.median_lines, one.last_seen) for one in made.gone] == [
        ("steady", 6, 50.0, WEEK[-1])
    ]
    finding = next(f for f in build.facts(made).verdict.findings if f.kind == "gone_pattern")
    assert (finding.text, finding.severity) == ("1 pattern gone, usually 50 lines: “job done”", Severity.NOTE)


def test_a_pattern_that_was_away_for_more_than_two_weeks_is_back_and_not_new():
    rows = {
        "pattern_daily": [*in_pattern_daily("away", "recent"), a_row("pattern_daily", pattern_id="old", is_new=True)]
    }
    registry = [registered("away", "2026-11-05"), registered("recent", "2026-11-06"), registered("old", "2026-01-01")]
    made = with_registry(rows, {}, registry)

    assert {one.pattern_id: one.last_seen for one in made.patterns if one.last_seen} == {
        "away": "2026-11-05",
        "old": "2026-01-01",
    }
    assert [one.is_new for one in made.patterns] == [False, False, False]
    assert (made.pattern_sums.new, made.pattern_sums.back) == (0, 2)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Out of memory: Killed process <*> (java) total-vm:<*>kB", "oom_kill"),
        ("blk_update_request: I/O error, dev sda, sector <*>", "io_error"),
        ("EXT4-fs (sda1): Remounting filesystem read-only", "read_only"),
        ("cannot write /var/x: No space left on device", "disk_full"),
        ("nginx[<*>]: segfault at <*> ip <*>", "segfault"),
        ("backup.service: Failed with result 'exit-code'.", "unit_failed"),
        ("(CRON) ERROR (getpwnam() failed)", "cron_error"),
        ("job <*> failed with result code <*>", None),
    ],
)
def test_known_events_are_recognised_by_their_masked_text(text, kind):
    prints = [a_row("fingerprints", text=text, lines=3, pattern_id="1"), a_row("fingerprints", text="x", lines=9)]
    found = load.known_events(DayTables(rows={"fingerprints": prints}, before={}, days_before=()))

    assert [(event.kind, event.lines) for event in found] == ([(kind, 3)] if kind else [])


def test_rates_above_all_days_are_counted_next_to_what_chance_gives():
    before = {"file_daily": {day: [
        a_row("file_daily", file=f"/{n}", lines=1000, err=5) for n in range(16)
    ] for day in WEEK}}  # fmt: skip
    today = [a_row("file_daily", file=f"/{n}", lines=1000, err=9 if n < 3 else 4) for n in range(16)]
    few = a_row("file_daily", file="/few", lines=99, err=99)
    made = gathered(file_daily=[*today, few], before=before, days=WEEK)

    assert (made.rate_chance.compared, made.rate_chance.above_all, made.rate_chance.by_chance) == (16, 3, 2.0)
    assert made.files[1].rates_before == (0.005,) * 7


def test_the_same_weekday_of_four_weeks_is_added_up():
    other = a_row("host_daily", host="b", lines=1)
    dates = ("2026-10-23", "2026-10-30", "2026-11-06", "2026-11-13")
    weekdays = {
        day: [a_row("host_daily", lines=n, bytes=10 * n, err=1), other] for n, day in enumerate(dates, start=100)
    }
    given = DayTables(rows={"host_daily": [a_row("host_daily", lines=5)]}, before={}, days_before=(), weekdays=weekdays)
    made = load.evidence(given, a_day(), a_run())

    assert made.weekdays.lines == (101, 102, 103, 104)
    assert (made.weekdays.errors, made.weekdays.hosts) == ((1,) * 4, (2,) * 4)
    assert next(host for host in made.hosts if host.host == "web1").lines_weekdays == (100, 101, 102, 103)


def test_a_pattern_that_is_back_is_not_surging_too():
    rows = {"pattern_daily": in_pattern_daily("away", "more", surge=3.0)}
    registry = [registered("away", "2026-11-05"), registered("more", WEEK[-1])]
    made = with_registry(rows, {}, registry)

    facts = build.facts(made)
    assert [one.pattern_id for one in facts.patterns.back] == ["away"]
    assert [one.pattern_id for one in facts.patterns.surging] == ["more"]
    assert (facts.patterns.back_count, facts.patterns.surging_count) == (1, 1)
