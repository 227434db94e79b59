"""The pictures of the README, made anew: `make pictures`. The report is the demo's, the status page a small fleet's.

    python tests/pictures.py demo-out

Needs Chromium, and a demo that was run before.
"""

import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from browser import Browser
from fleet import Fleet, until
from natsd import running

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SCREEN = {"width": 1000, "height": 760}
HOSTS = ("db1.example.net", "db2.example.net", "web1.example.net", "web2.example.net", "web3.example.net")
SECONDS = 25.0
LINE = '10.0.0.{0} - - [20/Nov/2026:10:00:{1:02d} +0000] "GET /shop/{0} HTTP/1.1" 200 {2}\n'


def report(browser: Browser, demo: Path) -> None:
    """The first screen of the demo's last day."""
    browser.open(max(demo.glob("report/**/report.html")), **SCREEN)
    browser.picture(IMAGES / "report.png", whole=False)


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


def write(logs: list[Path], over: threading.Event) -> None:
    """Some lines a second into each."""
    for number in range(1_000_000):
        for turn, log in enumerate(logs):
            with log.open("a") as stream:
                stream.writelines(LINE.format(n % 250, n % 60, n) for n in range(number, number + 40 * (turn + 1)))
        if over.wait(0.2):
            return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


def main(demo: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, Browser(Path(directory) / "profile") as browser:
        report(browser, demo)
        status(browser, Path(directory))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
