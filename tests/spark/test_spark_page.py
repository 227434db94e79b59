import dataclasses
import html.parser
import json
from pathlib import Path

import pytest

from spark_analytics import page, report, schemas, summary, svg
from spark_analytics.report import State

HOSTILE = "<script>alert(1)</script>\"onload='x'&\x1b[31m\u202egnp.exe\x00"


def a_report(hosts=3, host="web{}.example.net", file="/var/log/{}.log", state=State.COMPLETE, top=100):
    days = [
        report.HostDay(
            n % 9, host.format(n), files=2, lines=n + 1, bytes=(n + 1) * 80, errors=n, warnings=1, no_ts_lines=0
        )
        for n in range(hosts)
    ]
    hours = [report.HourLevel(h, True, level, 1000 * h, 9) for h in range(24) for level in schemas.LEVELS]
    return report.Report(
        date="2026-11-20",
        verdict=report.Verdict(state, "a headline", (report.Finding(state, HOSTILE),)),
        totals=report.Totals(10**9, 10**11, 10**9, 9, hosts, 2 * hosts, 5, 6, 7, 0),
        levels=dict.fromkeys(schemas.LEVELS, 10),
        partitions=report.by_partition(days),
        hosts=tuple(days[:top]),
        files=tuple(report.FileDay(0, host.format(n), file.format(n), 5, 6, 7, 8) for n in range(min(hosts, top))),
        hours=tuple(hours),
        host_hours=tuple(
            report.HostHour(day.partition, day.host, h, True, 10 ** (h % 7)) for day in days[:25] for h in range(24)
        ),
        audit=report.audit_of(
            [],
            [
                report.AuditRow(0, host.format(n), file.format(n), "gap", 1, 2, 2, 3, 3, 4, 0, 0)
                for n in range(min(hosts, top))
            ],
        ),
        run=report.Run("/archive", "/out", "2026-11-21T00:30:00Z", 9.1, "4.3.0", "local[*]", ("a.jsonl",), "0.1.0"),
    )


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.open = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_hostile_names_are_text_and_nothing_else():
    made = page.rendered(a_report(host=HOSTILE + "{}", file=HOSTILE + "{}"))

    reader = Reader()
    reader.feed(made)
    assert not reader.open
    assert "script" not in reader.tags
    assert not {name for name in reader.attributes if name.startswith("on")}
    assert not set(made) & set("\x00\x1b\u202e")


def test_the_page_loads_nothing_from_anywhere():
    made = page.rendered(a_report())

    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in made
    assert "http://" not in made
    assert "https://" not in made
    assert " src=" not in made


@pytest.mark.parametrize("top", [20, 100])
def test_the_page_of_ten_thousand_hosts_is_below_300_kib(top):
    long_names = a_report(hosts=10_000, host="h{}." + "x" * 60, file="/var/log/" + "y" * 120 + "{}", top=top)

    assert len(page.rendered(long_names).encode()) < 300 * 1024


def test_texts_are_cut_at_300_characters():
    assert page.clean("x" * 300) == "x" * 300
    assert len(page.clean("x" * 5000)) == 300


@pytest.mark.parametrize("state", list(State))
def test_the_verdict_comes_first(state):
    made = page.rendered(a_report(state=state))

    assert (
        made.index("a headline") < made.index("Completeness") < made.index("Partitions") < made.index("Hosts by hour")
    )
    assert f'class="verdict {state.value}"' in made


def test_an_empty_day_is_a_page_too():
    empty = dataclasses.replace(
        a_report(hosts=0), hours=(), levels={}, totals=report.Totals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    )

    assert "a headline" in page.rendered(empty)


def test_old_lines_shipped_today_are_drawn_by_hour_of_the_day():
    made = a_report()
    old = dataclasses.replace(made, totals=dataclasses.replace(made.totals, other_day_lines=made.totals.lines))

    assert "whatever its date" in page.rendered(old)
    assert "whatever its date" not in page.rendered(made)


def test_the_index_lists_every_day_with_its_verdict():
    shown = json.loads(json.dumps(summary.as_json(a_report(state=State.GAPS))))

    listed = page.index([shown])

    assert '<a href="2026-11-20/report.html">' in listed
    assert "gaps" in listed


def test_shades_fall_by_half_powers_of_ten_and_something_is_never_nothing():
    assert [svg.shade(lines, 100_000) for lines in (100_000, 31_000, 10_000, 1_000, 1, 0)] == [6, 5, 4, 2, 1, 0]


def test_axes_end_at_a_round_number():
    assert [svg.nice_ceiling(value) for value in (0, 3, 81, 17_000, 235_404)] == [4, 4, 100, 20_000, 300_000]


def test_the_room_and_the_operators_share_one_log_configuration():
    root = Path(__file__).resolve().parents[2]

    assert (root / "deploy/spark/log4j2.properties").read_bytes() == (
        root / "spark_analytics/templates/log4j2.properties"
    ).read_bytes()
