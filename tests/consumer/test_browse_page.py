"""The page of `fshipper browse` in a real browser, over a real archive. Needs Chromium."""

import http.server
import itertools
import subprocess
import threading
from pathlib import Path

import pytest
from browse_program import DATABASE, BrowseProgram
from harness.browser import NAMES, Browser, installed
from harness.fleet import FSHIPPER, until
from harness.natsd import running

pytestmark = pytest.mark.skipif(
    installed() is None, reason=f"no browser on PATH ({', '.join(NAMES)}): apt-get install chromium"
)
ROOT = Path(__file__).resolve().parents[2]
LINES = "document.querySelectorAll('#lines > li').length"
IDLE = "document.getElementById('go').textContent === 'Search'"
SAYS = "document.getElementById('says').textContent"
ALERT = "document.getElementById('alert').textContent"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("browse")
    with running(directory / "natsd") as natsd, BrowseProgram(directory, natsd.url) as started:
        yield started


@pytest.fixture(scope="module")
def browser(program):
    with Browser() as started:
        started.visit(program.link)
        started.until("!location.hash.includes('token')")
        started.until("document.activeElement.id === 'query'")
        yield started


@pytest.fixture
def page(program, browser):
    """The page without a search; its console stays empty."""
    browser.visit("about:blank")
    browser.complaints.clear()
    browser.requests.clear()
    browser.visit(program.page)
    browser.until("document.activeElement.id === 'query'")
    yield browser
    browser.visit("about:blank")
    until(lambda: program.processes() == [], what="the searches end with the page")
    assert browser.complaints == []
    assert {each for each in browser.requests if not each.startswith((program.page, "data:", "about:"))} == set()


def search(page, query: str, *, lines: int | None = None) -> None:
    page.says(f"document.getElementById('query').value = {query!r}")
    page.says("document.getElementById('form').requestSubmit()")
    page.until(f"{IDLE} && document.getElementById('command').textContent !== ''")
    if lines is not None:
        page.until(f"{LINES} === {lines}")


def press(page, key: str, **more) -> None:
    text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
    if key == "Escape":
        text = {"windowsVirtualKeyCode": 27}
    page.ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
    page.ask("Input.dispatchKeyEvent", type="keyUp", key=key, **more)


def drag(page, *, touch: bool = False) -> None:
    box = page.says("(() => { const b = document.getElementById('chart').getBoundingClientRect();"
                    " return [b.left, b.top, b.width, b.height] })()")  # fmt: skip
    left, top, width, height = box
    start, end, middle = left + 1, left + width - 1, top + height / 2  # within the first and the last bar
    if touch:
        page.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": start, "y": middle}])
        page.ask("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": end, "y": middle}])
        page.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        return
    mouse = {"button": "left", "buttons": 1, "clickCount": 1}
    page.ask("Input.dispatchMouseEvent", type="mousePressed", x=start, y=middle, **mouse)
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=(start + end) / 2, y=middle, **mouse)
    page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=end, y=middle, **mouse)
    page.ask("Input.dispatchMouseEvent", type="mouseReleased", x=end, y=middle, **mouse)


def test_a_search_its_filters_and_the_back_button(page, program):
    search(page, "checkpoint", lines=40)
    assert (
        page.says("document.querySelector('#lines > li .text').textContent")
        == "checkpoint 39 complete: wrote 117 buffers"
    )
    assert page.says("document.querySelectorAll('#bars rect').length") >= 1
    assert page.says("document.querySelector('#facet-host .n').textContent") == "40"
    assert (
        page.says("document.querySelector('#facet-pattern .pattern').textContent")
        == "checkpoint <*> complete: wrote <*> buffers"
    )
    assert "q=checkpoint" in page.says("location.hash")
    page.says("document.querySelector('[data-severity=error]').click()")
    page.until(f"{IDLE} && {LINES} === 0 && {SAYS}.startsWith('No line found')")
    page.says("history.back()")
    page.until(f"{IDLE} && {LINES} === 40")
    assert page.says("document.querySelector('[data-severity=error]').getAttribute('aria-pressed')") == "false"
    search(page, 'NOT "comes in"', lines=344)
    page.says("[...document.querySelectorAll('#facet-host button')].find(b => b.textContent.startsWith('db1')).click()")
    page.until(f"{IDLE} && {LINES} === 41")
    assert f"host={DATABASE}" in page.says("location.hash")
    assert page.says("document.querySelectorAll('#lines > li.error').length") == 1


def test_the_choice_of_time_and_zone_is_in_the_address_and_in_each_line(page):
    first = "document.querySelector('#lines .at').textContent"
    search(page, "ERROR", lines=1)
    assert page.says(first)[0] == "*"  # the line has no time: that of storing
    page.says("document.getElementById('by').value = 'stored'")
    page.says("document.getElementById('zone').value = 'host'")
    search(page, "ERROR", lines=1)
    assert page.says(first).startswith("20")
    assert "by=stored&zone=host" in page.says("location.hash")
    assert "--by=stored" in page.says("document.getElementById('command').textContent")


def test_neither_the_address_nor_the_history_keeps_the_token(page, program):
    search(page, "checkpoint", lines=40)
    assert program.token not in page.says("location.href")
    history = page.ask("Page.getNavigationHistory")["entries"]
    assert not any("token" in each["url"] for each in history)
    assert not any("checkpoint" in each for each in page.requests)


@pytest.mark.parametrize("touch", [False, True])
def test_the_histogram_is_brushed_with_the_pointer(page, touch):
    search(page, "checkpoint", lines=40)
    drag(page, touch=touch)
    page.until("/since=2.*until=2/.test(decodeURIComponent(location.hash))")
    page.until("document.getElementById('range').value === 'own'")  # the page reads its address a moment later
    page.until(f"{IDLE} && {LINES} === 40")


def test_the_histogram_is_brushed_with_the_keyboard(page):
    search(page, "checkpoint", lines=40)
    page.says("document.activeElement.blur()")
    press(page, "h")
    press(page, "Home")
    press(page, "End", modifiers=8)
    assert "40 lines" in page.says("document.getElementById('chosen').textContent")
    press(page, "Enter")
    page.until("/since=2.*until=2/.test(decodeURIComponent(location.hash))")
    page.until(f"{IDLE} && {LINES} === 40")
    press(page, "w")
    page.until(f"{IDLE} && {LINES} === 40")


def test_keys_move_over_lines_and_open_their_neighbours(page):
    search(page, "ERROR", lines=1)
    page.says("document.activeElement.blur()")
    press(page, "j")
    assert page.says("document.activeElement.matches('#lines > li')")
    press(page, "c")
    page.until("document.querySelectorAll('.context li').length === 23")
    assert page.says("document.querySelector('.context li.this').textContent").startswith("ERROR request failed")
    page.says("document.activeElement.blur()")
    press(page, "?")
    page.until("document.getElementById('help').open")
    press(page, "Escape")
    page.until("!document.getElementById('help').open")
    press(page, "/")
    assert page.says("document.activeElement.id") == "query"


def test_the_command_is_copied_and_finds_the_same(page, program):
    search(page, '"request failed"', lines=2)
    page.grant("clipboardReadWrite", "clipboardSanitizedWrite")
    page.ask("Emulation.setFocusEmulationEnabled", enabled=True)  # only a page in focus may read the clipboard
    page.says("document.getElementById('copy').click()")
    page.until("document.getElementById('copy').textContent === 'Copied'")
    page.says("navigator.clipboard.readText().then(text => { window.copied = text })")
    page.until("window.copied !== undefined")
    command = page.says("window.copied")
    assert command == page.says("document.getElementById('command').textContent")
    done = subprocess.run(
        command.replace("fshipper", FSHIPPER, 1), shell=True, capture_output=True, check=True,
        env=program.environment(), timeout=60,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == 2


def test_what_lines_hold_is_shown_and_does_nothing(page):
    search(page, "script", lines=1)
    shown = page.says("document.querySelector('#lines .text').textContent")
    assert "<script>document.title='pwned'</script><img src=x onerror=" in shown
    for escape in ("\\x1b[2J", "\\x1b]0;pwned\\x07", "\\u202egnp.exe\\u2066", "\\x00", "\\xff end"):
        assert escape in shown
    assert not any(char in shown for char in "\x1b\x07\x00\u202e\u2066")
    assert page.says("document.querySelectorAll('#lines script, #lines img').length") == 0
    assert page.says("document.title") == "Search · fshipper"
    press(page, "Escape")
    search(page, '"<script>document.title=\'pwned\'</script>" "<img src=x onerror="', lines=1)
    assert page.says("document.querySelectorAll('#lines mark').length") == 2


def test_lines_are_followed_live_and_the_search_ends_with_it(page, program):
    page.says("document.getElementById('follow').click()")
    page.until("document.getElementById('command').textContent.includes('--follow')")
    written = itertools.count(1)

    def is_seen() -> bool:  # a line that is written before the search follows is older than it
        program.write("other1.example.net", b"line %d comes in" % next(written))
        return page.says("document.getElementById('lines').textContent.includes('comes in')")

    until(is_seen, what="a line that is written now is shown")
    assert len(program.processes("search")) == 1
    page.says("document.getElementById('go').click()")
    until(lambda: program.processes() == [], what="the process ends")
    page.until(IDLE)
    page.says("document.getElementById('follow').click()")
    until(lambda: len(program.processes("search")) == 1)
    page.visit("about:blank")
    until(lambda: program.processes() == [], what="the process ends with the page")
    program.drain()


def test_what_is_wrong_is_reported_with_the_next_step(page):
    page.says("document.getElementById('query').value = '(a'")
    page.says("document.getElementById('form').requestSubmit()")
    page.until(f"{ALERT}.includes('parenthesis is not closed')")
    assert page.says("document.getElementById('alert').getAttribute('role')") == "alert"
    assert page.complaints.pop()["entry"]["text"].startswith("Failed to load resource")  # the 400 itself
    search(page, "FATAL", lines=1)
    assert page.says("document.getElementById('alert').hidden")


@pytest.mark.parametrize("width", [1280, 820, 360])
def test_nothing_is_wider_than_the_screen_light_and_dark(page, program, width):
    colours = set()
    for scheme in ("light", "dark"):
        page.visit("about:blank")
        page.visit(f"{program.page}#q=request&since=24h", width=width, scheme=scheme)
        page.until(f"{IDLE} && {LINES} === 2")
        page.says("document.querySelector('#lines > li').click()")
        page.until("document.querySelector('.detail') !== null")
        assert page.says("document.documentElement.scrollWidth") == width
        colours.add(page.says("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_every_control_has_a_name(page):
    search(page, "ERROR", lines=1)
    nodes = page.ask("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "textbox", "searchbox", "combobox", "dialog", "image", "region"}
    shown = [node for node in nodes if not node.get("ignored") and node["role"]["value"] in roles]
    assert len(shown) > 15
    assert [node for node in shown if not node.get("name", {}).get("value")] == []


def test_a_page_without_a_session_names_the_next_step(program):
    with Browser() as stranger:
        stranger.visit(program.page)
        stranger.until(f"{ALERT}.includes('fshipper browse')")
        assert "printed" in stranger.says(ALERT)
        stranger.visit("about:blank")  # another fragment alone loads nothing
        stranger.visit(program.page + "#token=wrong")
        stranger.until(f"{ALERT}.includes('used before')")


def test_a_page_of_another_origin_reads_nothing(program, browser):
    """It is on another port of the same host, which is the same site: it receives all cookies, and no session."""
    text = f"""<!doctype html><title>other</title><script>
      const told = [];
      const ask = (path, more) => fetch("{program.page}" + path, {{credentials: "include", ...more}})
        .then(answer => answer.text().then(text => told.push("read: " + text)), () => told.push("refused"));
      const search = {{headers: {{"Fshipper-Search": "%7B%7D"}}}};
      const opaque = {{mode: "no-cors"}};
      const all = [ask("search"), ask("search", search), ask("about", opaque), ask("status"), ask("metrics")];
      Promise.all(all).then(() => {{ window.told = told; }});
    </script><iframe src="{program.page}"></iframe>"""

    received = []

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            received.append(str(self.headers))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        try:
            browser.visit(f"http://127.0.0.1:{other.server_address[1]}/")
            browser.until("window.told !== undefined")
            assert browser.says("window.told") == ["refused"] * 5
        finally:
            other.shutdown()
    assert received
    assert not [headers for headers in received if "Cookie" in headers or "Session" in headers]
    assert browser.says("localStorage.length + sessionStorage.length") == 0
    assert program.processes() == []
    assert "origin_refused" in program.browse.log


def test_what_was_selected_is_reported_where_it_is_nothing(page):
    page.says("location.hash = '#q=error&host=mail9&since='")
    page.until(f"{SAYS}.includes('no host matches mail9')")
    assert "wider range" not in page.says(SAYS)


def test_hosts_of_an_address_are_those_of_the_field(page):
    page.says("location.hash = '#q=&host=db*+web*&since=&order=oldest'")
    page.until(f"{IDLE} && {LINES} > 1")
    assert page.says("document.querySelectorAll('#facet-host li').length") > 1


def test_case_counts_where_it_is_switched_on(page):
    page.says("location.hash = '#q=fatal&since='")
    page.until(f"{IDLE} && {LINES} === 1")
    assert page.says("document.querySelector('#lines mark').textContent") == "FATAL"
    page.says("document.getElementById('case').click()")
    page.until(f"{IDLE} && {SAYS}.startsWith('No line found')")
    assert "case=1" in page.says("location.hash")


def test_patterns_have_no_noise_of_times(page):
    lines = (ROOT / "consumer/web/search.html").read_text().splitlines()
    made = [line for line in lines if line.startswith(("const LINE_TIME", "const patternOf"))]
    assert len(made) == 2
    patterns = {
        "2026-11-28T00:08:34.115Z ERROR disk 7 full": "ERROR disk <*> full",
        "Nov 28 01:45:04 web sshd: failed": "web sshd: failed",
        "[2026-11-28 00:08:34,115] WARN slow": "WARN slow",
    }
    for line, pattern in patterns.items():
        script = "".join(["const PATTERN_CHARACTERS = 200; ", *made, f" return patternOf({line!r});"])
        assert page.says(f"(() => {{ {script} }})()") == pattern
