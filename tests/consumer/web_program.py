"""`fshipper web` as a process over a real archive and a directory of reports, and clients with and without a session.

with WebProgram(directory, natsd.url) as program:
    client = program.client()
    client.sign_in("alice", PASSWORD)
    client.get("/about")
"""

import asyncio
import http.client
import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import nats
from browse_program import SAMPLE
from harness.fleet import FSHIPPER, Fleet, until
from harness.ports import free_port

PASSWORD = "correct horse battery"
USERS = {"alice": "operator", "bob": "reader"}
DAY = "2026-11-27"
PAGE = (
    """<!doctype html><html><head><meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;;"""
    """ style-src &#39;sha256-abc=&#39;"></head><body class="alone"><h1>the report</h1></body></html>"""
)


class Answered(NamedTuple):
    """A whole answer."""

    code: int
    headers: http.client.HTTPMessage
    body: bytes


class Client:
    """A browser without scripts: it keeps cookies, and may come from another address of this machine."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self.port, self.address, self.cookies = port, address, {}

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, 30, source_address=(self.address, 0))
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            given.setdefault("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        text = json.dumps(body).encode() if isinstance(body, dict) else body
        try:
            connection.request(method, path, text, given)
            answer = connection.getresponse()
            found = Answered(answer.status, answer.headers, answer.read())
        finally:
            connection.close()
        for cookie in found.headers.get_all("Set-Cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return found

    def get(self, path: str, **headers: str) -> Answered:
        return self.ask("GET", path, **headers)

    def sign_in(self, name: str, password: str = PASSWORD, **headers: str) -> Answered:
        return self.ask("POST", "/login", {"name": name, "password": password}, **headers)

    def search(self, **request: object) -> Answered:
        return self.get("/search", Fshipper_Search=quote(json.dumps(request)))


class WebProgram(Fleet):
    """A fleet with an archive, reports, two accounts, and `fshipper web`."""

    def __init__(self, directory: Path, url: str, *options: str, **environment: str) -> None:
        super().__init__(directory, url, partitions=2)
        self.apply()
        for host, lines in SAMPLE.items():
            file = self.directory / host / "app.log"
            file.parent.mkdir()
            file.write_bytes(b"".join(line + b"\n" for line in lines))
            self.ship_once(host, file, options=(f"--state={file.parent / 'state'}",))
        self.drain()
        self.reports = self.directory / "reports"
        for name in ("index.html", f"{DAY}/report.html", f"{DAY}/host/web1.example.net.html", "week-2026-W47.html"):
            path = self.reports / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(PAGE)
        (self.reports / DAY / "report.json").write_text("{}")
        (self.reports / "latest").symlink_to(DAY)
        self.accounts = self.directory / "accounts" / "accounts.json"
        for name, role in USERS.items():
            assert self.user(name, "--role", role, password=PASSWORD).returncode == 0
        self.port = free_port()
        self.web = self.start(
            "web", f"--report={self.reports}", f"--accounts={self.accounts}", *options,
            SHIPPER_LISTEN=f"127.0.0.1:{self.port}", **environment,
        )  # fmt: skip
        until(lambda: "the link is in " in self.web.log, what=lambda: self.web.log)

    @property
    def page(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def link(self) -> str:
        """The newest link."""
        return Path(re.findall(r"the link is in (\S+)", self.web.log)[-1]).read_text().strip()

    def publish(self, subject: str, payload: bytes) -> None:
        async def within() -> None:
            connection = await nats.connect(self.url)
            await connection.publish(subject, payload)
            await connection.flush()
            await connection.close()

        asyncio.run(within())

    def client(self, address: str = "127.0.0.1") -> Client:
        return Client(self.port, address)

    def user(self, name: str, *options: str, password: str = "") -> subprocess.CompletedProcess[str]:
        """`fshipper web user`, with a password on standard input."""
        command = [FSHIPPER, "web", "user", name, f"--accounts={self.accounts}", *options]
        return subprocess.run(
            command,
            input=f"{password}\n",
            text=True,
            capture_output=True,
            env=self.environment(),
            timeout=60,
            check=False,
        )
