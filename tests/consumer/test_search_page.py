"""The search page in a real browser: hosts, fields, links to lines, downloads and saved searches. Needs Chromium."""

import datetime as dt
import json

import pytest
from browse_program import DATABASE, WEB, BrowseProgram
from harness.browser import AXE, NAMES, Browser, installed
from harness.fleet import until
from harness.natsd import running

pytestmark = pytest.mark.skipif(
    installed() is None, reason=f"no browser on PATH ({', '.join(NAMES)}): apt-get install chromium"
)
SHOP = "shop1.example.net"
IDLE = "document.getElementById('go').textContent === 'Search'"
LINES = "document.querySelectorAll('#lines > li').length"
QUERY = "document.getElementById('query').value"
SAYS = "document.getElementById('says').textContent"
STRIP = "[...document.querySelectorAll('#hosts-found .name')].map(each => each.textContent).sort().join(' ')"
FIELD = "[...document.querySelectorAll('.field')].find(each => each.textContent.startsWith('status'))"
BEYOND = """[...document.querySelectorAll('body *')].filter(element => {
  const place = element.getBoundingClientRect();
  return place.width && place.right > innerWidth + 1 && !element.closest('svg, dialog, .unseen');
}).map(element => element.outerHTML.slice(0, 120))"""
CUT = """[...document.querySelectorAll('button, .status *, .filters *, .strip *, #lines span')].filter(element =>
  element.clientWidth && element.scrollWidth > element.clientWidth + 1
    && getComputedStyle(element).textOverflow !== 'ellipsis' && getComputedStyle(element).display !== 'inline'
    && !element.matches('input, select, option, .unseen') && !element.querySelector('.name')
).map(element => element.outerHTML.slice(0, 120))"""


def shop_lines() -> list[bytes]:
    now = dt.datetime.now(dt.UTC)
    return [
        *(
            json.dumps(
                {"time": now.isoformat(), "level": "info" if n % 4 else "error", "status": 200 if n % 4 else 500,
                 "user": {"name": "Ann Lee"}, "path": f"/cart/{n % 3}"}
            ).encode()
            for n in range(40)
        ),
        json.dumps({"time": now.isoformat(), "level": "error", "msg": "stack"}).encode(),
        *(b"    at shop.cart.Cart.add(Cart.java:%d)" % n for n in range(6)),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("search")
    with running(directory / "natsd") as natsd, BrowseProgram(directory, natsd.url) as started:
        started.write(SHOP, *shop_lines())
        started.drain()
        yield started


@pytest.fixture(scope="module")
def browser(program):
    with Browser() as started:
        started.visit(program.link)
        started.until(f"{IDLE} && {LINES} > 0")
        yield started


@pytest.fixture
def page(program, browser):
    browser.visit("about:blank")
    browser.complaints.clear()
    browser.requests.clear()
    browser.visit(program.page)
    browser.until(f"{IDLE} && {LINES} > 0")
    yield browser
    browser.visit("about:blank")
    until(lambda: program.processes() == [], what="the searches end with the page")
    assert browser.complaints == []
    assert {
        each for each in browser.requests if not each.startswith((program.page, "data:", "about:", "blob:"))
    } == set()


def show(page, program, fragment: str, lines: int, **screen) -> None:
    page.visit("about:blank")
    page.visit(f"{program.page}#{fragment}", **screen)
    page.until(f"{IDLE} && {LINES} === {lines}")


def test_the_page_begins_with_hosts_a_histogram_by_severity_and_lines(page):
    page.until(f"{STRIP} !== ''")
    assert page.says(STRIP).split() == sorted([SHOP, WEB, DATABASE])
    assert page.says("document.querySelectorAll('#bars rect.error').length") >= 1
    assert page.says("document.getElementById('y-top').textContent") != ""
    assert page.says("document.querySelector('#lines > li.error .level').textContent") == "error"
    page.says(
        f"[...document.querySelectorAll('#hosts-found button')].find(b => b.textContent.startsWith('{SHOP}')).click()"
    )
    page.until(f"{IDLE} && {LINES} === 47")
    page.until(f"{STRIP} !== ''")
    assert len(page.says(STRIP).split()) == 3, "a chosen host hides no other one"
    assert page.says("document.querySelector('#hosts-found [aria-pressed=true] .name').textContent") == SHOP


def test_fields_of_the_lines_shown_narrow_the_query_and_are_counted_in_all_lines(page, program):
    show(page, program, f"q=&host={SHOP}&since=", 47)
    assert "47 lines" in page.says("document.getElementById('fields-of').textContent")
    assert "41 have fields" in page.says("document.getElementById('fields-of').textContent")
    page.says(f"{FIELD}.open = true")
    page.until(f"{FIELD}.querySelector('ul') !== null")
    assert page.says(f"{FIELD}.querySelector('ul').textContent") == "20030\u221250010\u2212"
    page.says(f"{FIELD}.querySelector('.whole').click()")
    page.until(f"{FIELD}.textContent.includes('Counted in all 47 lines; 7 have no such field')")
    page.says(f"[...{FIELD}.querySelectorAll('button')].find(each => each.textContent.startsWith('500')).click()")
    page.until(f"{IDLE} && {LINES} === 10")
    assert page.says(QUERY) == "status:500"
    page.says("document.querySelector('#lines > li').click()")
    page.until("document.querySelector('.detail .values') !== null")
    page.says("document.querySelector('[aria-label=\"No lines with path:/cart/0\"]').click()")
    page.until(f"{IDLE} && {LINES} === 6")
    assert page.says(QUERY) == "status:500 -path:/cart/0"
    show(page, program, "q=status:>=500+OR+checkpoint&since=", 50)
    page.says("document.querySelector('#facet-pattern button:not([disabled])').click()")
    page.until(f"{QUERY}.startsWith('(status:>=500 OR checkpoint) \"')")
    show(page, program, "q=status:>=500+OR+checkpoint&since=", 50)
    page.says("document.querySelector('#lines > li.error').click()")
    page.says('document.querySelector(\'[aria-label="Only lines with user.name:\\\\"Ann Lee\\\\""]\').click()')
    page.until(f"{IDLE} && {LINES} === 10")
    assert page.says(QUERY) == '(status:>=500 OR checkpoint) user.name:"Ann Lee"'


def test_a_link_leads_to_one_line_and_its_neighbours(page, program):
    show(page, program, "q=%22request+failed+after%22&since=", 1)
    page.grant("clipboardReadWrite", "clipboardSanitizedWrite")
    page.ask("Emulation.setFocusEmulationEnabled", enabled=True)
    page.says("document.querySelector('#lines > li').click()")
    page.says(
        "[...document.querySelectorAll('.detail button')].find(b => b.textContent === 'Copy link to line').click()"
    )
    page.until("document.body.textContent.includes('Copied')")
    page.says("navigator.clipboard.readText().then(text => { window.copied = text })")
    page.until("window.copied !== undefined")
    link = page.says("window.copied")
    page.visit("about:blank")
    page.visit(link)
    page.until(f"{IDLE} && document.querySelector('#lines > li.linked .detail') !== null")
    assert page.says("document.querySelector('.linked .text').textContent").startswith("ERROR request failed after")
    assert page.says(LINES) == 23
    assert page.says("document.querySelectorAll('#lines > li:not(.linked) .at:not(:empty)').length") == 0
    page.visit("about:blank")
    page.visit(link.replace("line=", "line=9"))
    page.until("document.getElementById('alert').textContent.includes('not in the archive')")


def test_records_are_shown_as_one(page, program):
    show(page, program, f"q=stack&host={SHOP}&since=&records=1", 1)
    assert page.says("document.querySelector('.more-lines').textContent") == "record of 7 lines"
    assert "--records" in page.says("document.getElementById('command').textContent")


@pytest.mark.parametrize(("form", "count"), [("txt", 41), ("jsonl", 41)])
def test_what_was_found_is_downloaded(page, program, form, count):
    show(page, program, f"q=NOT+shop.cart&host={SHOP}&since=", count)
    page.says("""{ const real = URL.createObjectURL.bind(URL);
      URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text }); return real(blob) } }""")
    page.says(f"document.getElementById('download').value = '{form}'")
    page.says("document.getElementById('download').dispatchEvent(new Event('change'))")
    page.until("window.saved !== undefined")
    rows = page.says("window.saved").splitlines()
    assert len(rows) == count
    assert f"{count} lines saved" in page.says(SAYS)
    if form == "jsonl":
        first = json.loads(rows[0])
        assert (first["type"], first["host"], first["fields"]["level"]) == ("hit", SHOP, ["error"])
    else:
        assert SHOP in rows[0]


def test_searches_are_saved_in_the_browser(page, program):
    show(page, program, "q=FATAL&since=", 1)
    page.says("document.getElementById('saved-open').click()")
    page.says("document.getElementById('saved-name').value = '<b>fatal'")
    page.says("document.getElementById('saved-form').requestSubmit()")
    show(page, program, "q=checkpoint&since=", 40)
    page.says("document.getElementById('saved-open').click()")
    assert page.says("document.getElementById('saved-list').textContent") == "<b>fatalDelete"
    page.says("document.querySelector('#saved-list a').click()")
    page.until(f"{IDLE} && {LINES} === 1 && {QUERY} === 'FATAL'")
    page.says("document.getElementById('saved-open').click()")
    page.says("document.querySelector('#saved-list button').click()")
    assert page.says("localStorage.getItem('saved')") == "[]"
    page.says("document.getElementById('saved-close').click()")


@pytest.mark.parametrize("width", [360, 768, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_open_line_with_fields_is_whole_and_accessible(page, program, width, scheme):
    show(page, program, f"q=status:500&host={SHOP}&since=", 10, width=width, scheme=scheme)
    page.until(f"{STRIP} !== ''")
    page.says("document.querySelectorAll('#facets details').forEach(each => { each.open = true })")
    page.says("document.querySelector('#lines > li').click()")
    page.until(f"document.querySelector('.detail .values') !== null && {FIELD}.querySelector('ul') !== null")
    assert page.says(BEYOND) == []
    assert page.says(CUT) == []
    page.says(AXE.read_text())
    page.says("axe.run(document).then(found => { window.found = JSON.stringify(found.violations.map(each =>"
              " [each.id, each.nodes.map(node => node.html.slice(0, 160))])) })")  # fmt: skip
    page.until("window.found !== undefined")
    assert json.loads(page.says("window.found")) == []


def test_fields_of_lines_that_were_followed_are_counted_in_all_lines(page, program):
    show(page, program, "q=&host=live1.example.net&since=", 0)
    page.says("document.getElementById('follow').click()")
    page.until(f"!({IDLE})")
    program.write("live1.example.net", b'{"status": 200}')
    page.until(f"{LINES} === 1")
    page.says("document.getElementById('go').click()")
    page.until(IDLE)
    program.drain()
    page.says(f"{FIELD}.open = true")
    page.until(f"{FIELD}.querySelector('.whole') !== null")
    page.says(f"{FIELD}.querySelector('.whole').click()")
    page.until(f"{FIELD}.textContent.includes('Counted in all 1 line.')")
