"""`fshipper web` in a real browser: one address with status, search and reports. Needs Chromium."""

from functools import partial

import pytest
from browse_program import WEB
from harness.browser import AXE, NAMES, Browser, installed
from harness.fleet import until
from harness.natsd import running
from harness.page_tokens import drawn_strangers
from web_program import PASSWORD, WebProgram

from shipper.heartbeat import Heartbeat, encode
from spark_analytics.report import build, publish
from tests.spark.nights import a_day

pytestmark = pytest.mark.skipif(
    installed() is None, reason=f"no browser on PATH ({', '.join(NAMES)}): apt-get install chromium"
)
LINES = "document.querySelectorAll('#lines > li').length"
SITE = "[...document.querySelectorAll('.site a[href]')].map(link => link.getAttribute('href')).join(' ')"
CURRENT = "document.querySelector('.site [aria-current]').textContent"
ALERT = "document.getElementById('alert').textContent"
BEYOND = """[...document.querySelectorAll('body *')].filter(element => {
  const place = element.getBoundingClientRect();
  return place.width && place.right > innerWidth + 1 && !element.closest('.wide, nav, svg, dialog, .unseen');
}).map(element => element.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("web")
    with running(directory / "natsd") as natsd, WebProgram(directory, natsd.url) as started:
        evidence = a_day(20)
        publish.publish(started.reports, build.facts(evidence), evidence)
        started.day = f"/report/{evidence.date}/report.html"
        yield started


def signed_in(program, name: str) -> Browser:
    browser = Browser()
    browser.visit(f"{program.page}/sign-in")
    browser.until("!document.getElementById('form').hidden")
    browser.says(f"document.getElementById('name').value = {name!r}")
    browser.says(f"document.getElementById('password').value = {PASSWORD!r}")
    browser.says("document.getElementById('form').requestSubmit()")
    browser.until("location.pathname === '/'")
    browser.until("document.documentElement.dataset.role !== undefined")
    browser.complaints.clear()
    return browser


@pytest.fixture(scope="module")
def operator(program):
    with signed_in(program, "alice") as browser:
        yield browser


@pytest.fixture(scope="module")
def reader(program):
    with signed_in(program, "bob") as browser:
        yield browser


@pytest.fixture(autouse=True)
def nothing_is_wrong_and_nothing_is_loaded_from_elsewhere(program, operator, reader):
    operator.requests.clear()
    yield
    for browser in (operator, reader):
        assert browser.complaints == []
        assert [each for each in browser.requests if not each.startswith((program.page, "data:", "about:"))] == []


def test_a_link_that_was_sent_leads_over_the_login_to_its_view(program):
    with Browser() as stranger:
        stranger.visit(f"{program.page}/logs/#q=FATAL&since=")
        stranger.until("location.pathname === '/sign-in' && !document.getElementById('form').hidden")
        stranger.says("document.getElementById('name').value = 'bob'")
        stranger.says("document.getElementById('password').value = 'not the password'")
        stranger.says("document.getElementById('form').requestSubmit()")
        stranger.until(f"{ALERT}.includes('wrong')")
        stranger.says(f"document.getElementById('password').value = {PASSWORD!r}")
        stranger.says("document.getElementById('form').requestSubmit()")
        stranger.until(f"location.pathname === '/logs/' && {LINES} === 1")
        assert "q=FATAL" in stranger.says("location.hash")
        stranger.says("document.getElementById('sign-out').click()")
        stranger.until("location.pathname === '/sign-in'")
        stranger.visit(f"{program.page}/logs/")
        stranger.until("location.pathname === '/sign-in'")


@pytest.mark.parametrize(
    "wanted", ["//evil.example/", "/\\evil.example", "https://evil.example/", "javascript:alert(1)"]
)
def test_the_login_leads_to_no_other_server(program, wanted):
    with Browser() as stranger:
        stranger.visit(f"{program.page}/sign-in?next={wanted}")
        stranger.until("!document.getElementById('form').hidden")
        stranger.says("document.getElementById('name').value = 'bob'")
        stranger.says(f"document.getElementById('password').value = {PASSWORD!r}")
        stranger.says("document.getElementById('form').requestSubmit()")
        stranger.until("location.pathname === '/'")
        assert stranger.says("location.origin") == program.page


def test_one_navigation_leads_to_all_pages(program, reader):
    for path, name in (("/", "Status"), ("/logs/", "Search"), ("/report/", "Reports"), (program.day, "Reports")):
        reader.visit(program.page + path)
        reader.until("document.querySelector('.site [aria-current]') !== null")
        assert reader.says(CURRENT) == name
        assert reader.says(SITE) == "/ / /logs/ /report/"


def test_a_finding_and_a_row_of_the_report_lead_to_their_lines(program, reader):
    reader.visit(program.page + program.day)
    links = reader.says("[...document.querySelectorAll('.findings a.find')].map(link => link.getAttribute('href'))")
    assert links
    assert all(link.startswith("/logs/#") and "host=" in link and "since=" in link for link in links)
    reader.says("document.querySelector('.findings a.find').click()")
    reader.until("location.pathname === '/logs/' && document.getElementById('hosts').value !== ''")
    reader.visit("about:blank")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_drawn_in_a_colour_size_or_font_of_its_own(program, reader, scheme):
    for path in ("/", "/logs/", "/parts", "/report/", program.day, "/report/index.html"):
        reader.visit(program.page + path, scheme=scheme)
        reader.until("document.querySelector('.site [aria-current], h1') !== null")
        assert drawn_strangers(reader) == [], path


def test_a_stranger_is_found(program, reader):
    reader.visit(f"{program.page}/parts")
    reader.says("document.querySelector('h1').style.color = '#123456'")
    reader.says("document.querySelector('h2').style.fontSize = '11px'")
    assert drawn_strangers(reader) == ["h1. rgb(18, 52, 86)", "h2. 11px"]


def test_a_report_in_a_file_shows_no_links_to_pages_that_are_not_there(program, reader):
    with Browser() as browser:
        browser.open(program.reports / program.day.removeprefix("/report/"))
        assert browser.says("getComputedStyle(document.querySelector('.site')).display") == "none"
        assert browser.says("getComputedStyle(document.querySelector('.findings a.find')).display") == "none"


def test_a_host_of_the_status_leads_to_its_lines_and_only_an_operator_may_forget_it(program, operator, reader):
    beat = Heartbeat(version="1.0", partition=0, every=5.0, up=60.0, files=1, silent=60.0, leaves=True, ended=True)
    row = f"[...document.querySelectorAll('#hosts tbody tr')].find(row => row.dataset.key === '{WEB}')"

    def is_listed(browser: Browser) -> bool:
        program.publish(f"logs.beat.{WEB}", encode(beat))  # again: the page may not have subscribed yet
        return bool(browser.says(f"{row} !== undefined"))

    for browser in (reader, operator):
        browser.visit(f"{program.page}/")
        browser.until(
            "document.documentElement.dataset.role !== undefined && document.querySelectorAll('.chip').length"
        )
        browser.says(
            "[...document.querySelectorAll('#chips .chip')].find(c => c.textContent.startsWith('ended')).click()"
        )
        until(partial(is_listed, browser), what=row)
        assert browser.says(f"{row}.querySelector('a.name').getAttribute('href')") == f"/logs/#host={WEB}&since=1h"
    assert reader.says("document.querySelectorAll('.forget').length") == 0
    operator.until(f"{row}.querySelector('.forget') !== null")
    operator.says(f"{row}.querySelector('.forget').click(); {row}.querySelector('.forget').click()")
    until(lambda: "host_forgotten" in program.web.log, what=lambda: program.web.log)
    for browser in (reader, operator):
        browser.visit("about:blank")


def test_the_search_begins_with_hosts_lines_and_a_histogram_by_severity(program, reader):
    reader.visit(f"{program.page}/logs/")
    reader.until(f"document.getElementById('go').textContent === 'Search' && {LINES} > 300")
    assert reader.says("document.querySelectorAll('#facet-host li').length") == 2
    kinds = (
        "[...new Set([...document.querySelectorAll('#bars rect')].map(bar => bar.getAttribute('class')))].sort().join()"
    )
    assert reader.says(kinds) == "bar,error,warning"
    top, half = reader.says("['y-top', 'y-half'].map(id => Number(document.getElementById(id).textContent))")
    assert top == 2 * half > 0
    bar = "document.querySelector('#bars rect.error').getBoundingClientRect()"

    def is_described() -> bool:  # the lines may be in one bar or in two, by the time of day
        x, y, bottom = reader.says(f"(() => {{ const b = {bar}; return [b.left + b.width / 2, b.top, b.bottom] }})()")
        reader.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=(y + bottom) / 2)
        return reader.says("/: \\d+ lines?, \\d errors?/.test(document.getElementById('chosen').textContent)")

    until(is_described, what="the bar at the pointer is described")
    reader.visit("about:blank")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        *((360, "light"), (768, "light"), (1400, "dark")),
        *(pytest.param(*screen, marks=pytest.mark.long) for screen in ((360, "dark"), (768, "dark"), (1400, "light"))),
    ],
)
def test_no_page_is_wider_than_the_screen_and_axe_finds_nothing_serious(program, reader, width, scheme):
    ready = {
        "/": "!document.getElementById('tiles').hidden", "/logs/": f"{LINES} > 300", "/parts": "true",
        "/report/": "true", program.day: "true",
    }  # fmt: skip
    for path, condition in ready.items():
        reader.visit(program.page + path, width=width, scheme=scheme)
        reader.until(condition)
        assert reader.says("document.documentElement.scrollWidth") == width, path
        assert reader.says(BEYOND) == [], path
        if AXE.exists() and width != 768:
            assert serious(reader) == [], path
    reader.visit("about:blank")


def serious(browser) -> list:
    """What axe finds that is serious or critical. It runs as the browser's, not as the page's script."""
    browser.ask("Runtime.evaluate", expression=AXE.read_text(encoding="utf-8"))
    run = """axe.run().then(found => found.violations.filter(v => ['serious', 'critical'].includes(v.impact))
      .map(v => [v.id, v.nodes.slice(0, 3).map(node => node.html.slice(0, 160))]))"""
    return browser.ask("Runtime.evaluate", expression=run, awaitPromise=True, returnByValue=True)["result"]["value"]
