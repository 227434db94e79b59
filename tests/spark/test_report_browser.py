"""A real browser opens the report: nothing to complain of, nothing wider than the screen. Needs Chromium."""

import pytest
from browser import NAMES, Browser, installed
from nights import a_day
from test_report_page import hostile_day

from spark_analytics.report import build, publish

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


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.mark.parametrize("name", DAYS)
def test_a_browser_has_nothing_to_complain_of(browser, tmp_path, name):
    evidence = DAYS[name]()
    publish.publish(tmp_path, build.facts(evidence), evidence)

    for file in (tmp_path / evidence.date / "report.html", tmp_path / "index.html"):
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light")):
            browser.open(file, width=width, scheme=scheme)
            assert browser.says("document.documentElement.scrollWidth") == width, (file.name, width)
    assert browser.complaints == []
    assert [address for address in browser.requests if not address.startswith(("file:", "data:"))] == []


def test_verdict_and_completeness_are_on_the_first_screen(browser, tmp_path):
    evidence = a_day(10_000, partitions=64)
    publish.publish(tmp_path, build.facts(evidence), evidence)

    browser.open(tmp_path / evidence.date / "report.html", width=1280, height=800)

    assert browser.says("document.querySelector('.verdict p').getBoundingClientRect().bottom") < 200
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
    assert (printed, ink) == ("rgb(255, 255, 255)", "rgb(23, 33, 45)")


def test_the_browser_would_complain(browser, tmp_path):
    """Else its silence says nothing."""
    (tmp_path / "bad.html").write_text("<script>console.error('x')</script><img src='nowhere.png'>")

    browser.open(tmp_path / "bad.html")

    assert len(browser.complaints) >= 2
    browser.complaints.clear()
