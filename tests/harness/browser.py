"""A headless Chromium, controlled over two pipes (DevTools): how a page is drawn, and its errors."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.waiting import until

AXE = Path(__file__).resolve().parents[2] / ".npm" / "node_modules" / "axe-core" / "axe.min.js"
"""The checker of accessibility; `deploy/setup/testing.sh` installs it."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
COMPLAINTS = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Inspector.targetCrashed"}


def installed() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class _Chromium:
    """One process for all pages of this test process; it ends with it, and so does its profile."""

    shared: "_Chromium | None" = None

    def __init__(self) -> None:
        hear, self._out = os.pipe()
        self._in, say = os.pipe()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        program = installed()
        assert program
        self._directory = tempfile.TemporaryDirectory(prefix="fshipper-chromium-", ignore_cleanup_errors=True)
        # The browser wants its commands on 3 and answers on 4, whatever these are here.
        script = f'exec "$@" 3<&{hear} 4>&{say}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *arguments, f"--user-data-dir={self._directory.name}/profile"],
            pass_fds=(hear, say),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"TMPDIR": self._directory.name},
        )
        os.close(hear)
        os.close(say)
        self._waiting = b""

    def say(self, message: dict) -> None:
        os.write(self._out, json.dumps(message).encode() + b"\0")

    def next(self) -> dict:
        while b"\0" not in self._waiting:
            got = os.read(self._in, 1 << 20)
            assert got, "the browser went away"
            self._waiting += got
        message, self._waiting = self._waiting.split(b"\0", 1)
        return json.loads(message)

    def close(self) -> None:
        os.close(self._out)
        self._process.terminate()
        self._process.wait(20)
        os.close(self._in)
        self._directory.cleanup()


def close() -> None:
    """End the browser of this process."""
    if _Chromium.shared is not None:
        _Chromium.shared.close()
        _Chromium.shared = None


class Browser:
    """A page of its own: no other one has its cookies, its storage and its cache.

    `complaints` are all entries of its console, `requests` the addresses it requested.
    """

    def __init__(self) -> None:
        self._chromium = _Chromium.shared = _Chromium.shared or _Chromium()
        self._number, self._session, self.complaints, self.requests = 0, "", [], []
        self._heard: list[str] = []
        self._context = self.ask("Target.createBrowserContext")["browserContextId"]
        target = self.ask("Target.createTarget", url="about:blank", browserContextId=self._context)
        self._session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session = ""
        self.ask("Target.disposeBrowserContext", browserContextId=self._context)

    def ask(self, method: str, **parameters) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._chromium.say(message)
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, path: Path, **screen) -> None:
        self.visit(path.resolve().as_uri(), **screen)

    def visit(self, address: str, *, width=1280, height=900, scheme="light") -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._heard.clear()
        self.ask("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._heard:
            self._next()

    def grant(self, *permissions: str) -> None:
        self.ask("Browser.grantPermissions", permissions=permissions, browserContextId=self._context)

    def until(self, expression: str, *, within=60.0) -> None:
        """Wait until the condition is true in the page; the limit is a failure, not a pace."""
        until(lambda: self.says(expression), within=within, what=lambda: f"{expression}\n{self.complaints}")

    def says(self, expression: str):
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def picture(self, path: Path, *, whole=True) -> None:
        made = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(made["data"]))

    def printed(self, path: Path) -> None:
        made = self.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(made["data"]))

    def _next(self) -> dict:
        answer = self._chromium.next()
        if answer.get("sessionId", "") != self._session:
            return {}  # about another page
        method = answer.get("method", "")
        self._heard.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(answer["params"]["request"]["url"])
        if method in COMPLAINTS:
            self.complaints.append(answer["params"])
        return answer
