"""A real browser opens the report: nothing to complain of, nothing wider than the screen. Needs Chromium."""

import json
from pathlib import Path

import pytest
from harness.browser import AXE, NAMES, Browser, installed
from harness.page_tokens import drawn_strangers
from nights import a_day
from test_report_page import HOSTILE, hostile_day

from spark_analytics.report import build, publish
from spark_analytics.report import week as weeks

pytestmark = pytest.mark.skipif(
    installed() is None, reason=f"no browser on PATH ({', '.join(NAMES)}): apt-get install chromium"
)
DAYS = {
    "usual": lambda: a_day(200),
    "five thousand hosts": lambda: a_day(5000, partitions=16),
    "ten thousand hosts": lambda: a_day(10_000, partitions=64),
    "hostile": lambda: hostile_day(60, longer=3),
    "first day": lambda: a_day(3, before=()),
}


FILLS = """
(() => {
  const root = getComputedStyle(document.documentElement), seen = [];
  const named = name => {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  };
  for (const shape of document.querySelectorAll("svg rect[class]"))
    seen.push([shape.getAttribute("class"), getComputedStyle(shape).fill]);
  const wanted = Object.fromEntries(["soft","h1","h2","h3","h4","h5","h6","fatal","error","warning","notice","info",
    "debug","trace","other","good","act","accent","quiet","line"].map(name => [name, named(name)]));
  const legends = [...document.querySelectorAll(".legend rect, .shades rect, svg.key rect")].map(
    shape => [shape.getAttribute("class"), getComputedStyle(shape).fill]);
  const tags = [...document.querySelectorAll(".tag")].map(
    tag => [tag.className, getComputedStyle(tag).backgroundColor]);
  return JSON.stringify({ seen, wanted, legends, tags });
})()
"""
COLOURS = {
    **{f"h{shade}": f"h{shade}" for shade in range(1, 7)}, "h0": "soft", "track": "soft", "bar": "accent",
    "past": "quiet", "ghost": "line",
    **{f"l-{level}": level for level in ("fatal", "error", "notice", "info", "debug", "trace")},
    "l-warn": "warning", "l-none": "other", "l-other": "other",
    "l-5xx": "error", "l-4xx": "warning", "l-3xx": "notice", "l-2xx": "info", "l-1xx": "debug",
    "c-complete": "good", "c-silent": "warning", "c-gap": "error", "c-missing": "act", "c-truncated": "act",
    "c-differs": "act", "c-doubled": "error", "c-offset_gap": "error", "c-unregistered": "act", "c-unreadable": "act",
    "s-complete": "good", "s-attention": "warning", "s-open": "warning", "s-gaps": "error", "s-doubled": "error",
    "s-damaged": "act", "v-act": "act", "v-look": "warning",
}  # fmt: skip
"""The colour of each kind of shape, by its class: what docs/reference/report.md says."""


OPEN = "document.querySelectorAll('details').forEach(row => { row.open = true; })"


def published(out: Path, evidence) -> list[Path]:
    """A page of each kind: the day, two hosts, the week, the list of days. Every row has three hostile lines."""
    facts = build.facts(evidence)
    long = HOSTILE + "\t" + "x" * 400
    facts = build.with_lines(facts, dict.fromkeys(build.rows_of(facts), (HOSTILE, long, "")))
    publish.publish(out, facts, evidence, browse="http://localhost:8080")
    names = list(dict.fromkeys(host.host for host in evidence.hosts))[:12]
    week = weeks.publish(out, a_week(evidence.date, names))
    hosts = sorted((out / evidence.date / "host").glob("*.html"))[:2]
    return [out / evidence.date / "report.html", *hosts, week, out / "index.html"]


def a_week(date: str, names: list[str]) -> weeks.WeekFacts:
    """A week whose hosts, addresses and patterns have `names`."""
    days = (12345678,) * 7
    changes = tuple(weeks.Change(name, 86419746, 1234, days) for name in names)
    patterns = tuple(weeks.WeekPattern(str(n), name * 3, "error", 99, days) for n, name in enumerate(names))
    return weeks.WeekFacts(
        week="2026-W47",
        first="2026-11-16",
        last="2026-11-22",
        days=(weeks.WeekDay(date, "attention", 10**9, 10**12, 10**6, 5000, 12, 400, 0),),
        days_before=1,
        totals=tuple(weeks.Change(name, 86419746, 1234, days) for name in weeks.TOTALS),
        hosts=changes,
        host_count=5000,
        gone_hosts=tuple(names),
        frequent_patterns=patterns,
        new_patterns=patterns,
        new_count=len(patterns),
        gone_patterns=patterns,
        remotes=changes,
    )


BEYOND = """[...document.querySelectorAll('body *')].filter(element => {
  const place = element.getBoundingClientRect();
  return place.width && place.right > innerWidth + 1 && !element.closest('.wide, nav');
}).map(element => element.outerHTML.slice(0, 120))"""
"""Elements that end outside the screen, except in boxes that scroll."""

MIDDLES = """(() => {
  const middle = element => { const place = element.getBoundingClientRect(); return (place.left + place.right) / 2; };
  const charts = [...document.querySelectorAll('.plot, .map')];
  return charts.map(chart => [
    [...chart.querySelectorAll('.scale span')].map(span => [span.textContent, middle(span)]),
    [...chart.querySelectorAll('svg:not(.shades svg)')].map(
      svg => [...svg.querySelectorAll('rect[class^=h]')].map(middle)),
    chart.getBoundingClientRect().right,
  ]);
})()"""
"""Of each chart by hour: labels with their middles, the middles of the 24 columns of each drawing, its right edge."""


@pytest.fixture(scope="module")
def browser():
    with Browser() as started:
        yield started


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name == "five thousand hosts")) for name in DAYS]
)
def test_a_browser_has_nothing_to_complain_of(browser, tmp_path, name):
    for file in published(tmp_path, DAYS[name]()):
        for width, scheme in ((360, "light"), (768, "dark"), (1400, "light"), (1400, "dark")):
            browser.open(file, width=width, scheme=scheme)
            for prepare in ("", OPEN):
                browser.says(prepare)
                assert browser.says("document.documentElement.scrollWidth") == width, (file.name, width, prepare)
                assert browser.says(BEYOND) == [], (file.name, width, prepare)
    assert browser.complaints == []
    assert [address for address in browser.requests if not address.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["usual", "hostile", "first day"])
def test_nothing_is_drawn_in_a_colour_size_or_font_of_its_own(browser, tmp_path, name, scheme):
    for file in published(tmp_path, DAYS[name]()):
        browser.open(file, scheme=scheme)
        browser.says(OPEN)
        assert drawn_strangers(browser) == [], file.name


def test_verdict_and_completeness_are_on_the_first_screen(browser, tmp_path):
    evidence = a_day(10_000, partitions=64)
    publish.publish(tmp_path, build.facts(evidence), evidence)

    browser.open(tmp_path / evidence.date / "report.html", width=1280, height=800)

    bottoms = "[...document.querySelectorAll('.verdict p')].map(text => text.getBoundingClientRect().bottom)"
    assert len(browser.says(bottoms)) == 2
    assert max(browser.says(bottoms)) < 400
    assert browser.says("document.querySelector('.hosts').getBoundingClientRect().bottom") < 800


def test_light_and_dark_differ_and_print_is_light(browser, tmp_path):
    evidence = a_day(20)
    publish.publish(tmp_path, build.facts(evidence), evidence)
    page, colour = tmp_path / evidence.date / "report.html", "getComputedStyle(document.body).backgroundColor"

    browser.open(page, scheme="light")
    light = browser.says(colour)
    browser.open(page, scheme="dark")
    dark = browser.says(colour)
    browser.ask(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    printed, ink = browser.says(colour), browser.says("getComputedStyle(document.body).color")
    browser.ask("Emulation.setEmulatedMedia", media="")

    assert len({light, dark, printed}) == 3
    assert (printed, ink) == ("rgb(255, 255, 255)", "rgb(28, 37, 48)")


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_each_hour_label_stands_in_the_middle_of_its_column_and_24_hours_fit(browser, tmp_path, width):
    evidence = a_day(200)
    publish.publish(tmp_path, build.facts(evidence), evidence)
    browser.open(tmp_path / evidence.date / "report.html", width=width)
    charts = browser.says(MIDDLES)

    assert len(charts) == 5
    for labels, drawings, right in charts:
        assert right <= width
        assert drawings
        for columns in drawings:
            assert len(columns) == 24
            assert len(labels) == 24
            for hour, ((label, place), column) in enumerate(zip(labels, columns, strict=True)):
                assert label in {"", f"{hour:02d}"}
                assert abs(place - column) <= 1, (hour, place, column)
        assert [label for label, _ in labels if label] == [f"{hour:02d}" for hour in range(0, 24, 3)]


def test_a_bar_is_as_long_as_the_share_next_to_it(browser, tmp_path):
    evidence = a_day(200)
    publish.publish(tmp_path, build.facts(evidence), evidence)
    browser.open(tmp_path / evidence.date / "report.html", width=1400)
    bars = browser.says(
        "[...document.querySelectorAll('td.graph')].map(cell => {"
        " const [track, bar] = [...cell.querySelectorAll('rect')].map(rect => rect.getBoundingClientRect().width);"
        " return [parseFloat(cell.previousElementSibling.textContent), 100 * bar / track]; })"
    )

    assert len(bars) == 8
    assert all(abs(share - length) < 0.7 for share, length in bars)


def test_a_click_on_a_head_sorts_and_typing_filters(browser, tmp_path):
    evidence = a_day(200)
    publish.publish(tmp_path, build.facts(evidence), evidence)
    browser.open(tmp_path / evidence.date / "report.html", width=1400)
    column = (
        "[...document.querySelectorAll('#largest table')[0].tBodies[0].rows].filter(row => !row.hidden)"
        ".map(row => row.cells[{}].textContent)"
    )
    click = "document.querySelectorAll('#largest table')[0].tHead.rows[0].cells[{}].querySelector('button').click()"

    browser.says(click.format(5))
    lines = [int(text.replace(",", "")) for text in browser.says(column.format(5))]
    assert lines == sorted(lines, reverse=True)
    browser.says(click.format(5))
    assert [int(text.replace(",", "")) for text in browser.says(column.format(5))] == sorted(lines)
    browser.says(
        "(() => { const field = document.querySelector('#largest .filter'); field.value = 'db';"
        " field.dispatchEvent(new Event('input')); })()"
    )
    kept = browser.says(column.format(0))
    assert 0 < len(kept) < len(lines)
    assert all("db" in name for name in kept)


def test_a_row_opens_to_its_command_which_can_be_copied(browser, tmp_path):
    evidence = a_day(200)
    publish.publish(tmp_path, build.facts(evidence), evidence)
    browser.open(tmp_path / evidence.date / "report.html", width=1400)

    browser.says("document.querySelector('#errors details summary').click()")
    assert browser.says("document.querySelector('#errors details').open") is True
    browser.says("document.querySelector('#errors details .copy').click()")
    browser.until("document.querySelector('#errors details .copy').textContent === 'copied'")
    assert browser.complaints == []


def test_the_contents_stay_in_view(browser, tmp_path):
    evidence = a_day(200)
    publish.publish(tmp_path, build.facts(evidence), evidence)
    browser.open(tmp_path / evidence.date / "report.html", width=768)

    browser.says("location.hash = '#volume'")
    browser.until("scrollY > 1000")
    assert browser.says("document.querySelector('nav').getBoundingClientRect().top") == 0
    heading = browser.says("document.querySelector('#h-volume').getBoundingClientRect().top")
    assert 0 < heading < 200


SCREENS = ((360, "light"), (1400, "light"), (1400, "dark"))


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        *(("usual", *screen) for screen in SCREENS),
        *(pytest.param("first day", *screen, marks=pytest.mark.long) for screen in SCREENS[1:]),
        *(pytest.param("hostile", *screen, marks=pytest.mark.long) for screen in SCREENS[:2]),
        ("first day", *SCREENS[0]),
        ("hostile", *SCREENS[2]),
    ],
)
@pytest.mark.skipif(not AXE.exists(), reason=f"no {AXE}: sh deploy/setup/testing.sh")
def test_axe_finds_no_serious_violation(browser, tmp_path, name, width, scheme):
    for file in published(tmp_path, DAYS[name]()):
        browser.open(file, width=width, scheme=scheme)
        browser.says(OPEN)
        browser.ask("Runtime.evaluate", expression=AXE.read_text(encoding="utf-8"))
        found = browser.ask(
            "Runtime.evaluate", expression="axe.run().then(JSON.stringify)", returnByValue=True, awaitPromise=True
        )["result"]["value"]
        bad = [
            (violation["id"], violation["nodes"][0]["html"][:200])
            for violation in json.loads(found)["violations"]
            if violation["impact"] in {"serious", "critical"}
        ]
        assert bad == [], file.name


@pytest.mark.parametrize("name", ["usual", "hostile"])
def test_each_page_is_printed_within_the_paper_and_without_navigation(browser, tmp_path, name):
    for file in published(tmp_path, DAYS[name]()):
        browser.open(file, width=718)  # A4 without its margins, at 96 dots an inch
        browser.ask("Emulation.setEmulatedMedia", media="print")

        navigation = "[...document.querySelectorAll('nav')].map(bar => getComputedStyle(bar).display)"
        assert set(browser.says(navigation)) <= {"none"}
        assert browser.says("document.documentElement.scrollWidth") == 718, file.name
        browser.printed(tmp_path / "page.pdf")
        browser.ask("Emulation.setEmulatedMedia", media="")
        assert (tmp_path / "page.pdf").stat().st_size > 10_000


def test_the_browser_would_complain(browser, tmp_path):
    """Else its silence proves nothing."""
    (tmp_path / "bad.html").write_text("<script>console.error('x')</script><img src='nowhere.png'>")

    browser.open(tmp_path / "bad.html")

    assert len(browser.complaints) >= 2
    browser.complaints.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_cell_bar_and_badge_has_the_colour_of_its_class_and_of_the_legend(browser, tmp_path, scheme):
    seen = set()
    for page in published(tmp_path / "out", DAYS["usual"]()):
        browser.open(page, width=1280, scheme=scheme)
        found = json.loads(browser.says(FILLS))
        wanted = found["wanted"]
        for kind, fill in [*found["seen"], *found["legends"]]:
            if kind != "hit":
                assert fill == wanted[COLOURS[kind]], (page.name, kind, fill)
                assert fill not in {"rgb(0, 0, 0)", "rgba(0, 0, 0, 0)"}, (page.name, kind)
        shown = {kind for kind, _ in found["seen"]}
        seen |= shown
        legend = {kind for kind, _ in found["legends"]}
        for group in ("h", "l-"):
            of_group = {kind for kind in shown if kind.startswith(group) and kind not in {"hit", "hbar"}}
            assert of_group <= legend, "each colour of a chart is in a legend"
        assert all(colour != "rgba(0, 0, 0, 0)" for _, colour in found["tags"]), page.name
    assert {"h0", "h1", "h6", "l-error", "c-complete"} <= seen
