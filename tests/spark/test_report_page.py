"""What is shown: hostile text stays text, the page stays small, every section is there."""

import base64
import dataclasses
import hashlib
import html
import html.parser
import re
import shlex
import urllib.parse
from importlib import resources
from pathlib import Path

import nights
import pytest
from nights import a_day, a_trouble, an_account

from shipper.page_sheets import host_page_name, with_sheets
from spark_analytics.report import (
    build,
    day_changes,
    json_export,
    number_format,
    publish,
    svg_charts,
    text,
)
from spark_analytics.report import html as page
from spark_analytics.report.inputs import AuthTop, WebTop
from spark_analytics.report.model import Finding, Severity, State

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "<script>alert(1)</script>\"onload='x'&{{7*7}}\x1b[31m\u202egnp.exe\x00\n=cmd|' /C calc'!A0"
SECTIONS = (
    *("Completeness", "Hosts", "Errors", "Patterns", "Sign-ins", "Web", "Volume"),
    *("By partition", "Partitions by hour", "Hosts by hour", "Largest hosts", "Most frequent patterns", "This run"),
)


def hostile_day(hosts=30, longer=1):
    """A day on which every text from outside is an attack."""
    bad = HOSTILE * longer
    day = a_day(hosts)
    living = [dataclasses.replace(row, host=bad + str(place)) for place, row in enumerate(day.hosts)]
    return dataclasses.replace(
        day,
        hosts=tuple(living),
        account=an_account(
            [row for row in living if row.lines],
            troubles=[a_trouble("gap", bad + str(place), file=bad, path=bad, detail=bad) for place in range(100)],
            open_collectors=(bad,),
            closed=False,
        ),
        files=tuple(dataclasses.replace(row, host=bad, file=bad) for row in day.files),
        host_hours=tuple(cell._replace(host=bad) for cell in day.host_hours),
        patterns=tuple(
            dataclasses.replace(row, template=bad, example=bad + "!", file=bad, is_new=place % 2 == 0)
            for place, row in enumerate(day.patterns * 4)
        ),
        auth_tops=tuple(
            AuthTop(what=what, key=bad, failed=99, accepted=9, hosts=1) for what in ("remote", "user", "host") * 100
        ),
        web_tops=tuple(
            WebTop(kind=kind, key=bad, times=9) for kind in ("path404", "path5xx", "slowpath", "client") * 100
        ),
        run=nights.a_run(archive=bad, manifests=(bad,) * 20),
    )


def template_file(name):
    return (resources.files("spark_analytics") / "templates" / name).read_text(encoding="utf-8")


def scripts(made):
    return re.findall(r"<script>(.*?)</script>", made, re.DOTALL)


def hashed(name):
    text = with_sheets(template_file(name))
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Reader(html.parser.HTMLParser):
    """Fails where tags are not nested, and keeps what a browser would see."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.open = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_hostile_text_is_text_and_nothing_else():
    made = page.rendered(build.facts(hostile_day()))

    reader = Reader()
    reader.feed(made)
    assert not reader.open
    assert not reader.tags & {"iframe", "img", "object", "form"}
    assert not {name for name in reader.attributes if name.startswith("on") or name == "style"}
    assert scripts(made) == [template_file("page.js")]
    assert not set(made) & set("\x00\x1b\u202e")
    assert "{{7*7}}" in made


def test_the_page_loads_nothing_from_anywhere():
    made = page.rendered(build.facts(a_day()))

    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', made)[1])
    assert policy == (
        f"default-src 'none'; style-src '{hashed('day.css')}'; script-src '{hashed('page.js')}'; img-src data:"
        "; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"https?://|\ssrc=|url\(|@import|javascript:", made)


@pytest.mark.parametrize("hosts", [5_000, 10_000])
@pytest.mark.parametrize("top", [20, 100])
def test_the_page_of_many_hosts_is_below_300_kib(hosts, top):
    made = page.rendered(build.facts(a_day(hosts, partitions=64), top=top), top)

    assert len(made.encode()) < 300 * 1024


@pytest.mark.parametrize("letter", ["", "\N{GRINNING FACE}", '"&<'])
def test_however_long_hostile_text_is_the_page_stays_below_300_kib(letter):
    day = hostile_day(600, longer=20)
    if letter:
        day = dataclasses.replace(
            day,
            patterns=tuple(
                dataclasses.replace(row, template=letter * 900, example=letter * 999) for row in day.patterns
            ),
        )

    made = page.rendered(build.facts(day, top=100), 100)

    assert len(made.encode()) < 300 * 1024
    optional = ("By ", "Part", "Hosts by", "Most")
    assert all(f">{name}</h2>" in made for name in SECTIONS if not name.startswith(optional))


def test_every_section_is_there_and_what_needs_action_comes_first():
    made = page.rendered(build.facts(a_day()))

    places = [made.index(f">{name}</h") for name in SECTIONS]
    assert places == sorted(places)
    assert made.index('class="card verdict') < places[0]


@pytest.mark.parametrize("state", list(State))
def test_every_verdict_has_its_sign_and_colour(state):
    facts = build.facts(a_day(20))
    judged = dataclasses.replace(facts.verdict.complete, state=state, text="so it was", severity=Severity.LOOK)
    shown = dataclasses.replace(facts, verdict=dataclasses.replace(facts.verdict, state=state, complete=judged))
    made = page.rendered(shown)

    style = judged.severity.value if state is State.ATTENTION else state.value
    assert f'class="card verdict {style}"' in made
    assert page.MARKS[state] in made
    assert made.index("so it was") < made.index('id="completeness"')


def test_the_report_of_an_older_version_has_its_headline():
    facts = build.facts(a_day(20))
    old = dataclasses.replace(facts.verdict, complete=None, attention=None, headline="so it was")

    assert "so it was" in page.rendered(dataclasses.replace(facts, verdict=old))


@pytest.mark.parametrize("hosts", [0, 1, 3])
def test_small_and_empty_first_days_are_pages_too(hosts):
    day = dataclasses.replace(
        a_day(hosts, before=()), patterns=(), auth_kinds=(), web_classes=(), host_hours=(), account=an_account()
    )
    made = page.rendered(build.facts(day))

    assert made.count("nothing to compare with") == 1
    assert "No access log was read." in made
    assert "No sign-in was seen." in made


def test_what_is_cut_from_a_list_is_counted():
    facts = build.facts(a_day(200))

    assert "and 178 hosts more, in csv/2026-11-20/hosts.csv" in page.rendered(facts)


def test_the_index_lists_every_day_newest_first_with_verdict_and_sparkline():
    days = [
        json_export.brief(
            json_export.as_json(dataclasses.replace(build.facts(a_day(20, seed=day)), date=f"2026-11-{day:02d}"))
        )
        for day in range(20, 0, -1)
    ]

    made = page.index(days)

    table = made[made.index("<table") :]
    assert table.index("2026-11-20/report.html") < table.index("2026-11-01/report.html")
    assert made.index("2026-11-20/report.html") < made.index("<table"), "a column of the chart opens its day"
    assert made.count('class="tag look"') + made.count('class="tag act"') == 20
    assert made.count('class="spark"') == 19
    Reader().feed(made)


def test_the_index_of_three_years_stays_small():
    one = json_export.brief(json_export.as_json(build.facts(a_day(20))))

    assert len(page.index([one] * 1100).encode()) < 1024 * 1024


# -- text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("day", [a_day(200), hostile_day(), a_day(3, before=())], ids=["usual", "hostile", "first"])
def test_the_summary_has_twenty_lines_and_gives_a_terminal_no_orders(day):
    made = text.as_text(build.facts(day))

    assert len(made.splitlines()) <= 20
    assert max(map(len, made.splitlines())) <= text.MAX_COLUMNS
    assert not set(made) & set("\x00\x1b\u202e\r")


def test_the_summary_of_a_broken_archive_names_all_that_is_broken():
    kinds = ("missing", "truncated", "differs", "unreadable", "unregistered", "offset_gap", "gap")
    living = [row for row in a_day(200).hosts if row.lines]
    account = an_account(living, troubles=[a_trouble(kind, f"host-{kind}") for kind in kinds])

    made = text.as_text(build.facts(a_day(200, account=account)))

    assert len(made.splitlines()) <= 20
    assert all(f"host-{kind}" in made for kind in kinds)


def test_a_day_fits_in_a_line():
    made = text.in_a_line(build.facts(hostile_day()))

    assert "\n" not in made
    assert made.startswith("2026-11-20  ")


# -- words and drawings -------------------------------------------------------------------------------------------


def test_texts_are_cut_and_lose_what_gives_orders():
    assert number_format.clean("x" * 300) == "x" * 300
    assert len(number_format.clean("x" * 5000)) == 300
    assert number_format.clean("a\x1b[31mb\u202ec\nd") == "a\ufffd[31mb\ufffdc\ufffdd"


def test_shares_that_are_rounded_do_not_read_as_nothing_or_all():
    shares = (0.0, 0.000001, 0.0052, 0.123, 0.9999, 1.0, None)

    assert [number_format.percent(share) for share in shares] == [
        *("0 %", "< 0.01 %", "0.52 %", "12.3 %", "> 99.9 %", "100 %", "\N{EN DASH}")
    ]


def test_words_have_their_plurals():
    assert [number_format.count(number, "line") for number in (0, 1, 2000)] == ["0 lines", "1 line", "2,000 lines"]
    assert number_format.count(2, "address") == "2 addresses"
    assert number_format.size(1536) == "1.5 KiB"
    assert number_format.listed(["a", "b"], 5) == "a, b and 3 more"


def test_shades_fall_by_half_powers_of_ten_and_something_is_never_nothing():
    assert [svg_charts.shade(lines, 100_000) for lines in (100_000, 31_000, 10_000, 1_000, 1, 0)] == [6, 5, 4, 2, 1, 0]


def test_the_legend_in_the_reference_is_the_one_that_is_drawn():
    words = " ".join((ROOT / "docs" / "reference" / "report.md").read_text().split())
    (found,) = re.findall(r"the fewest lines that have it: `([^`]+)` for a busiest cell of (\d+) lines", words)
    shades = svg_charts.shade_legend(int(found[1]))
    assert found[0] == " ".join(label for _, label in shades)
    assert all(svg_charts.shade(int(label.rstrip("+")), int(found[1])) == shade for shade, label in shades)


def test_the_labels_of_days_fit_and_the_newest_day_has_one():
    for number in (1, 2, 7, 14, 30, 60):
        days = [svg_charts.DayColumn(f"2026-11-{n:02}", [("s-complete", n)], "") for n in range(1, number + 1)]
        drawn = str(svg_charts.day_bars(days)).rpartition('class="days')[2]
        labels = re.findall(r"<span>([^<]*)</span>", drawn)
        assert len(labels) == max(number, 14)
        assert labels[number - 1] == f"11-{number:02}"
        assert len(list(filter(None, labels))) <= 7


def test_axes_end_at_a_round_number():
    assert [svg_charts.nice_ceiling(value) for value in (0, 3, 81, 17_000, 235_404)] == [4, 4, 100, 20_000, 300_000]


def test_one_day_is_no_line_and_nothing_divides_by_zero():
    assert svg_charts.sparkline([5]) == ""
    assert "polyline" in svg_charts.sparkline([0, 0, 0])
    assert "svg" in svg_charts.day_bars([])
    assert "svg" in svg_charts.host_map([])


# -- from a row to its lines --------------------------------------------------------------------------------------


def commands(made):
    return [html.unescape(text) for text in re.findall(r'<code class="cmd">(.*?)</code>', made)]


def test_rows_carry_a_search_command_and_a_link_where_browse_is_known():
    facts = build.facts(a_day())
    plain, linked = page.rendered(facts), page.rendered(facts, links=page.Links(browse="https://logs.example.net/"))
    window = ["--since", "2026-11-20T00:00:00Z", "--until", "2026-11-21T00:00:00Z"]
    log = facts.errors.most[0]

    split = [shlex.split(command) for command in commands(plain)]
    archive = ["--archive", facts.run.archive]
    assert all(words[:8] == ["fshipper", "search", *archive, *window] for words in split)
    assert ["--file", log.file, "--", "", log.host] in [words[8:] for words in split]
    assert ["--", f'"{facts.auth.top_remotes[0].key}"'] in [words[8:] for words in split]
    served = re.findall(r'<a class="(?:find )?served" href="(/logs/#[^"]+)">show the lines', plain)
    assert len(served) == plain.count("show the lines") > len(commands(plain)), "shown only where it is served"
    assert linked.count('<a href="https://logs.example.net/#') == len(commands(linked))


def test_the_query_of_a_finding_has_the_words_of_its_event_or_pattern():
    facts = build.facts(a_day())
    by_kind = {one.kind: page.query_of_finding(one, facts) for one in facts.verdict.findings}
    assert by_kind["new_pattern"].startswith('"Failed to write block')
    assert (by_kind["auth"], by_kind["silent"]) == ('"Failed password"', "")
    address = page.address_of_finding(facts.verdict.findings[0], "2026-11-20", "", '"Failed password"')
    assert urllib.parse.parse_qs(urllib.parse.urlsplit(address).fragment)["q"] == ['"Failed password"']


def test_findings_are_ordered_by_severity_and_compared_with_the_day_before():
    facts = build.facts(a_day())
    words = [row.word for row in page._finding_rows(facts, page.Links())]
    assert words == sorted(words, key=["act", "look", "note"].index)
    yesterday = json_export.brief(json_export.as_json(dataclasses.replace(facts, date="2026-11-19")))
    before = json_export.brief(json_export.as_json(dataclasses.replace(facts, date="2026-11-18")))
    yesterday["found"] = [*yesterday["found"][1:], {**yesterday["found"][0], "key": "other", "text": "a thing"}]
    changes = day_changes.day_changes(facts, [yesterday, before])
    assert (changes.new, [one["text"] for one in changes.gone]) == (1, ["a thing"])
    assert set(changes.since.values()) == {"2026-11-18"}
    made = page.rendered(facts, links=page.Links(changes=changes))
    assert made.count("<b>new</b>") == 1
    assert "since 2026-11-18" in made
    assert f"Against 2026-11-19: 1 new, {len(changes.since)} still there, 1 gone." in made
    assert page.rendered(facts).count("<b>new</b>") == 0, "nothing is known of the day before"


@pytest.mark.parametrize(
    ("kind", "yesterday", "today", "is_same"),
    [
        ("surging_pattern", (("b", "a"), ("web1",)), (("a", "b"), ("web1", "web2")), True),
        ("surging_pattern", (("a",), ("web1",)), (("a", "b"), ("web1",)), False),
        ("event", (("oom",), ("web1", "web2", "web3", "web4")), (("oom",), ("web1", "web2", "web3", "web5")), True),
        ("event", (("oom", "postgres"), ("web1",)), (("oom", "postgres"), ("web2",)), False),
        ("silent", ((), ("web1",)), ((), ("web1", "web2")), False),
    ],
)
def test_a_finding_is_the_same_on_another_day_whatever_the_hosts_of_its_pattern(kind, yesterday, today, is_same):
    keys = {json_export.key_of({"kind": kind, "names": names, "hosts": hosts}) for names, hosts in (yesterday, today)}
    assert (len(keys) == 1) is is_same


def test_a_finding_leads_to_its_hosts_its_file_and_its_time():
    finding = Finding(
        kind="error_rate", state=State.ATTENTION, text="", hosts=("web1", "a[b]"), file="/var/log/x y.log",
        first="2026-11-20T02:10:00.000Z", last="2026-11-20T02:37:59.500Z",
    )  # fmt: skip
    address = urllib.parse.urlsplit(page.address_of_finding(finding, "2026-11-20", ""))
    assert address.path == "/logs/"
    assert urllib.parse.parse_qsl(address.fragment) == [
        ("host", "web1"), ("host", "a[[]b]"), ("file", "/var/log/x y.log"),
        ("since", "2026-11-20T02:10:00.000Z"), ("until", "2026-11-20T02:38:00.500Z"),
    ]  # fmt: skip
    whole = page.address_of_finding(dataclasses.replace(finding, first=None), "2026-11-20", "https://logs.example.net/")
    assert whole.startswith("https://logs.example.net/#")
    assert whole.endswith("since=2026-11-20T00%3A00%3A00Z&until=2026-11-21T00%3A00%3A00Z")
    for other in ({"kind": "silent"}, {"hosts": (), "file": ""}):
        assert page.address_of_finding(dataclasses.replace(finding, **other), "2026-11-20", "") == ""


@pytest.mark.parametrize(
    ("template", "query"),
    [
        ("Connection to <*> timed out after <*> ms", '"Connection to" "timed out after"'),
        ('say "hello there" <*>', '"say" "hello there"'),
        ("<*>", ""),
        ("a <*>", ""),
    ],
)
def test_the_query_of_a_pattern_is_its_longest_texts(template, query):
    assert page.of_template(template) == query


def test_a_hostile_name_is_one_word_of_the_command_and_no_glob():
    command = page.Search("2026-11-20", page.phrase('x" OR "y'), "h; rm -rf *", "/a[1]").command()

    assert shlex.split(command)[6:] == ["--file", "/a[[]1]", "--", '"x\\" OR \\"y"', "h; rm -rf [*]"]


def test_long_paths_keep_their_end():
    assert number_format.shortened("/var/log/app.log") == "/var/log/app.log"
    assert number_format.shortened("/srv/" + "deep/" * 20 + "server.log") == "…/" + "deep/" * 7 + "server.log"
    assert len(number_format.shortened("x" * 300)) == 48


def test_a_host_has_one_number_of_lines():
    facts = build.facts(a_day())
    of_day = {day.host: day.lines for day in facts.hosts.largest}
    drawn = [row for row in facts.volume.host_hours if row.host in of_day]

    assert drawn
    assert [row.lines for row in drawn] == [of_day[row.host] for row in drawn]


# -- pages of hosts -----------------------------------------------------------------------------------------------


def test_hosts_with_a_finding_have_a_page_and_others_have_none(tmp_path):
    day = a_day(200)
    facts = build.facts(day)
    publish.publish(tmp_path, facts, day)
    written = {file.name for file in (tmp_path / facts.date / "host").iterdir()}
    made = (tmp_path / facts.date / "report.html").read_text()

    wanted = [*facts.hosts.silent, *facts.hosts.new, *facts.hosts.unusual, *facts.errors.risen]
    assert written == {f"{one.host}.html" for one in wanted}
    assert all(f'href="host/{one.host}.html"' in made for one in facts.hosts.silent)
    silent = (tmp_path / facts.date / "host" / f"{facts.hosts.silent[0].host}.html").read_text()
    assert "silent all day" in silent
    Reader().feed(silent)


@pytest.mark.parametrize("host", ["../../x", ".", "..", ".x", "a/b", "a b", "\x00", "x" * 300, "\udcff", "ü"])
def test_no_host_chooses_where_its_page_is_written(host):
    name = host_page_name(host)

    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,119}\.html", name)
    assert name != host_page_name(host + "_")


def test_days_link_to_the_days_before_and_after_them(tmp_path):
    for date in ("2026-11-18", "2026-11-20", "2026-11-19"):
        day = dataclasses.replace(a_day(3), date=date)
        publish.publish(tmp_path, build.facts(day), day)
    before, between, after = (
        (tmp_path / date / "report.html").read_text() for date in ("2026-11-18", "2026-11-19", "2026-11-20")
    )

    assert '<a href="../2026-11-20/report.html">next day</a>' in before
    assert '<a href="../2026-11-20/report.html">next day</a>' in between
    assert '<a href="../2026-11-18/report.html">previous day</a>' in between
    assert page.NEXT_DAY in after
