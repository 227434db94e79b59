"""The pictures of the README, made anew: `make pictures`. The report is the demo's, the status page a small fleet's,
and the page of `fshipper browse` that of a small archive.

    python tests/pictures.py demo-out

Needs Chromium, and a demo that was run before.
"""

import re
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from harness.browser import Browser, close
from harness.fleet import Fleet, until
from harness.natsd import running
from harness.ports import free_port

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SCREEN = {"width": 1000, "height": 760}
HOSTS = ("db1.example.net", "db2.example.net", "web1.example.net", "web2.example.net", "web3.example.net")
SECONDS = 25.0
LINE = '10.0.0.{0} - - [20/Nov/2026:10:00:{1:02d} +0000] "GET /shop/{0} HTTP/1.1" 200 {2}\n'


def report(browser: Browser, demo: Path) -> None:
    """The first screen of the demo's last day, and the list of its days."""
    browser.open(max(demo.glob("report/*-*-*/report.html")), **SCREEN)
    browser.picture(IMAGES / "report.png", whole=False)
    browser.open(demo / "report" / "index.html", **SCREEN)
    browser.picture(IMAGES / "report-days.png", whole=False)


def status(browser: Browser, directory: Path) -> None:
    """The page of a collector: hosts that ship, one that is quiet, one whose producer was killed."""
    port = free_port()
    over = threading.Event()
    with running(directory / "natsd") as natsd, Fleet(directory, natsd.url) as fleet:
        fleet.apply()
        fleet.start("consume", SHIPPER_LISTEN=f"127.0.0.1:{port}")
        logs = [directory / host / "access.log" for host in HOSTS]
        for log in logs:
            log.parent.mkdir()
            log.touch()
        busy = threading.Thread(target=write, args=(logs[1:], over))
        busy.start()
        programs = [
            fleet.start("produce", str(log), HOSTNAME=host, SHIPPER_STATE=str(log.parent / "state"))
            for host, log in zip(HOSTS, logs, strict=True)
        ]
        until(lambda: answers(port))
        browser.visit(f"http://127.0.0.1:{port}/", **SCREEN)
        time.sleep(5)
        programs[-1].kill()
        time.sleep(SECONDS)
        browser.picture(IMAGES / "status.png", whole=False)
        over.set()
        busy.join()


MESSAGES = (
    "INFO request {n} served in {ms} ms",
    "INFO cache refreshed: {ms} entries",
    "WARN upstream db1 answered after {ms} ms",
    "ERROR request failed: upstream db1 timeout after {ms} ms, order {n}",
)
ROUNDS = 12


def browse(browser: Browser, directory: Path) -> None:
    """The page of `fshipper browse` over an archive of some minutes: light with a range, and dark on a phone."""
    port = free_port()
    with running(directory / "natsd") as natsd, Fleet(directory, natsd.url) as fleet:
        fleet.apply()
        fleet.start("consume")
        logs = [directory / host / "app.log" for host in HOSTS]
        for host, log in zip(HOSTS, logs, strict=True):
            log.parent.mkdir()
            log.touch()
            fleet.start("produce", str(log), HOSTNAME=host, SHIPPER_STATE=str(log.parent / "state"))
        for number in range(ROUNDS):
            for turn, log in enumerate(logs):
                lines = [MESSAGES[(n * (turn + 3) + n // 7) % 4] for n in range(4 + (number * 5 + turn * 3) % 17)]
                with log.open("a") as stream:
                    stream.writelines(line.format(n=1000 + n, ms=7 * n + number) + "\n" for n, line in enumerate(lines))
            time.sleep(2)
        until(lambda: fleet.lag() == 0, what="all is archived")
        program = fleet.start("browse", "--listen", f"127.0.0.1:{port}")
        until(lambda: "the link is in " in program.log, what=lambda: program.log)
        link = Path(re.findall(r"the link is in (\S+)", program.log)[-1]).read_text().strip()
        for name, query, screen in (
            ("browse", "upstream", {"width": 1280, "height": 900}),
            ("browse-phone", "upstream", {"width": 390, "height": 780, "scheme": "dark"}),
        ):
            browser.visit("about:blank")
            browser.visit(f"{link}&since=1m&q={query}", **screen)
            browser.until("document.querySelectorAll('#lines > li').length > 20")
            browser.until("document.getElementById('go').textContent === 'Search'")
            if name == "browse":
                browser.says("document.querySelector('#lines > li.error').click()")
                browser.says("[...document.querySelectorAll('.detail button')][0].click()")
                browser.until("document.querySelector('.context .this') !== null")
            browser.picture(IMAGES / f"{name}.png", whole=False)


def write(logs: list[Path], over: threading.Event) -> None:
    """Some lines a second into each."""
    for number in range(1_000_000):
        for turn, log in enumerate(logs):
            with log.open("a") as stream:
                stream.writelines(LINE.format(n % 250, n % 60, n) for n in range(number, number + 40 * (turn + 1)))
        if over.wait(0.2):
            return


def answers(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


def main(demo: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, Browser() as browser:
        report(browser, demo)
        status(browser, Path(directory))
        (Path(directory) / "browse").mkdir()
        browse(browser, Path(directory) / "browse")
    close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
