"""The status page in a real browser, served by a real collector. Needs Chromium."""

import asyncio
import dataclasses
import json
import urllib.error
import urllib.request

import nats
import pytest
from harness.browser import NAMES, Browser, installed
from harness.fleet import Fleet, until
from harness.natsd import running
from harness.ports import free_port

from shipper.heartbeat import Heartbeat, LaggingFile, encode

pytestmark = pytest.mark.skipif(
    installed() is None, reason=f"no browser on PATH ({', '.join(NAMES)}): apt-get install chromium"
)
QUIET = Heartbeat(version="1.0", partition=0, every=600.0, up=60.0, files=1, silent=60.0)
HOSTILE = "<img src=x onerror=\"document.title='pwned'\"></script><script>document.title='pwned'</script>"
STUCK = dataclasses.replace(
    QUIET, backlog=2048, backlog_age=60.0, shipped=1, trouble=f"refused: {HOSTILE}\u202e", version=HOSTILE[:40],
    worst=(LaggingFile(file=f"/{HOSTILE}\udcff\u202egol.exe", offset=0, behind=2048, age=60.0),),
)  # fmt: skip
SAYS = "document.getElementById('says').textContent"
COLOUR = "getComputedStyle(document.body).backgroundColor"


class Served(Fleet):
    """A fleet with one collector whose page is open."""

    def __init__(self, directory, natsd):
        super().__init__(directory, natsd.url, partitions=2)
        self.natsd = natsd
        self.port = free_port()
        self.apply()
        self.collector = self.start("consume", SHIPPER_LISTEN=f"127.0.0.1:{self.port}")
        until(self.answers, what=lambda: self.collector.log)

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def answers(self) -> bool:
        try:
            return self.get("healthz").status == 200
        except OSError:
            return False

    def get(self, path: str):
        return urllib.request.urlopen(self.page + path, timeout=10)

    def publish(self, *messages: tuple[str, bytes]) -> None:
        async def within():
            client = await nats.connect(self.url)
            for subject, payload in messages:
                await client.publish(subject, payload)
            await client.flush()
            await client.close()

        asyncio.run(within())

    def say(self, **beats: Heartbeat) -> None:
        self.publish(*((f"logs.beat.{host.replace('_', '.')}", encode(beat)) for host, beat in beats.items()))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    directory = tmp_path_factory.mktemp("served")
    with running(directory / "natsd") as natsd, Served(directory, natsd) as found:
        yield found


@pytest.fixture
def fresh(tmp_path, natsd):
    with Served(tmp_path, natsd) as found:
        yield found


@pytest.fixture
def browser():
    with Browser() as started:
        yield started


def test_from_an_empty_fleet_to_an_error_and_back(fresh, browser):
    browser.visit(fresh.page)
    browser.until(f"{SAYS} === 'Nothing ships here yet'")
    assert "fshipper produce" in browser.says("document.getElementById('no-hosts').textContent")

    fresh.say(quiet1=QUIET, web1_example=QUIET)
    browser.until(f"{SAYS} === 'All is well'")
    fresh.say(web1_example=STUCK)
    fresh.publish(("logs.beat.odd", b"{}"), ("dlq.LOGS_0.web1", b"poison"))
    browser.until(f"{SAYS} === '1 host needs a look'")
    assert browser.says("document.title") == "(1) fshipper"
    browser.until("document.getElementById('troubles').textContent.includes('dead letters')")
    first = browser.says("document.querySelector('#hosts tbody tr').textContent")
    assert first.startswith("web1.example")
    assert "2.0 KiB wait" in first

    browser.says("document.querySelectorAll('.chip')[5].click()")
    assert browser.says("document.querySelectorAll('#hosts tbody tr').length") == 1
    assert browser.says("document.querySelector('#hosts tbody .name').textContent") == "quiet1"
    fresh.say(web1_example=QUIET)
    browser.until(f"{SAYS} === 'No problem is known; nothing is known of 1 of 3 hosts'")
    assert browser.says("document.getElementById('rate-foot').textContent") == (
        "nothing waits on the hosts; of 1 it is not known"
    )

    assert browser.complaints == []
    assert {address for address in browser.requests if not address.startswith((fresh.page, "data:"))} == set()


def test_hostile_names_are_shown_and_nothing_of_them_runs(served, browser):
    served.say(evil=STUCK)
    browser.visit(served.page)
    browser.until("document.querySelector('#hosts tbody tr.stuck') !== null")
    shown = browser.says("document.querySelector('#hosts tbody tr.stuck').textContent")
    assert "<img src=x onerror" in shown
    assert "\\u202egol.exe" in shown
    assert browser.says("document.querySelectorAll('img, #page script').length") == 0
    assert "pwned" not in browser.says("document.title")
    assert browser.complaints == []
    served.say(evil=QUIET)


@pytest.mark.parametrize("width", [1280, 820, 390, 320])
def test_nothing_is_wider_than_the_screen(served, browser, width):
    served.say(**{"a" * 60 + "_" + "b" * 60 + "_example": STUCK})
    colours = set()
    for scheme in ("light", "dark"):
        browser.visit(served.page, width=width, scheme=scheme)
        browser.until("document.querySelector('#hosts tbody tr.stuck') !== null")
        assert browser.says("document.documentElement.scrollWidth") == width
        cut = "[...document.querySelectorAll('td.n')].filter(cell => cell.scrollWidth > cell.clientWidth + 1).length"
        assert browser.says(cut) == 0
        colours.add(browser.says(COLOUR))
    assert len(colours) == 2
    assert browser.says("document.getElementById('verdict').getBoundingClientRect().bottom") < 200
    assert browser.complaints == []
    served.say(**{"a" * 60 + "_" + "b" * 60 + "_example": QUIET})


def test_what_is_old_is_called_old_and_news_come_by_themselves(served, browser):
    browser.visit(served.page)
    browser.until("!document.getElementById('tiles').hidden")
    served.natsd.kill()
    browser.until("document.getElementById('banner').textContent.includes('The collector cannot look')")
    assert browser.says("document.getElementById('page').classList.contains('stale')")
    served.natsd.start()
    browser.until("document.getElementById('banner').hidden")

    served.collector.kill()
    browser.until("document.getElementById('banner').textContent.includes('the connection to the collector is lost')")
    assert browser.says("document.getElementById('page').classList.contains('stale')")
    served.collector.start()
    browser.until(
        "document.getElementById('banner').hidden && !document.getElementById('page').classList.contains('stale')"
    )


def test_the_policy_lets_nothing_in(served, browser):
    with served.get("") as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "sha256-" in policy
    browser.visit(served.page)
    browser.says("document.body.insertAdjacentHTML('beforeend', '<img src=https://example.net/x.png>')")
    browser.says("var s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)")
    assert browser.says("window.ran") is None
    assert browser.complaints  # the browser reports what it refused


def test_events_are_bounded_and_the_place_of_a_closed_client_is_free_again(served):
    readers = []

    def one_more() -> bool:
        try:
            readers.append(served.get("events"))
        except urllib.error.HTTPError as refused:
            return refused.code != 503  # anything else is no refusal, and would end the loop
        return True

    for _ in range(16):
        until(one_more, what="the pages of the other tests are closed")
        reader = readers[-1]
        assert reader.headers["Content-Type"].startswith("text/event-stream")
        while not (line := reader.readline()).startswith(b"data: "):
            pass
        assert json.loads(line[6:])["known"] in {True, False}
    assert not one_more()
    assert served.get("healthz").status == 200
    for reader in readers:
        reader.close()
    until(one_more)
    readers[-1].close()
