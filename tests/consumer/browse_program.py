"""`fshipper browse` as a process over a real archive, and a client that speaks to it as the page does.

with BrowseProgram(directory, natsd.url) as program:
    session = program.log_in()
    program.search(session, query="failed")      # the objects of the answer
"""

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from harness.fleet import Fleet, until

WEB, DATABASE = "web1.example.net", "db1.example.net"
SCRIPT = "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
HOSTILE = f"request failed {SCRIPT} \x1b[2J\x1b]0;pwned\x07 \u202egnp.exe\u2066 \x00".encode() + b" \xff end"
SAMPLE = {
    WEB: [
        *(b"10.0.0.%d GET /shop/%d 200 %d ms" % (n % 250, n, 7 * n % 90) for n in range(300)),
        b"ERROR request failed after 3 retries: upstream db1 timeout",
        HOSTILE,
        b"WARN disk sda1 is 91 % full",
    ],
    DATABASE: [*(b"checkpoint %d complete: wrote %d buffers" % (n, 3 * n) for n in range(40)), b"FATAL out of memory"],
}


class Answered(NamedTuple):
    """An answer that came whole."""

    code: int
    headers: Message
    body: bytes


class BrowseProgram(Fleet):
    """A fleet with an archive of some lines, and `fshipper browse` over it."""

    def __init__(self, directory: Path, url: str, *options: str, **environment: str):
        super().__init__(directory, url, partitions=2)
        self.files: dict[str, Path] = {}
        self.apply()
        for host, lines in SAMPLE.items():
            self.write(host, *lines)
        self.drain()
        self.browse = self.start("browse", *options, **environment)
        until(self.links, what=lambda: self.browse.log)

    def write(self, host: str, *lines: bytes) -> None:
        """Lines of a host, shipped to the streams."""
        file = self.files.setdefault(host, self.directory / host / "app.log")
        file.parent.mkdir(exist_ok=True)
        with file.open("ab") as stream:
            stream.writelines(line + b"\n" for line in lines)
        self.ship_once(host, file, options=(f"--state={file.parent / 'state'}",))

    def links(self) -> int:
        """How many links it has made."""
        return self.browse.log.count("the link is in ")

    @property
    def link_file(self) -> Path:
        """Where the newest link is."""
        return Path(re.findall(r"the link is in (\S+)", self.browse.log)[-1])

    @property
    def link(self) -> str:
        """The newest link."""
        return self.link_file.read_text().strip()

    @property
    def page(self) -> str:
        return self.link.partition("#")[0]

    @property
    def port(self) -> int:
        return int(self.page.rstrip("/").rpartition(":")[2])

    @property
    def token(self) -> str:
        return self.link.partition("#token=")[2]

    def ask(self, path: str, **headers: str | None) -> "Answered":
        """A whole answer; header names with _ for -."""
        try:
            with self._open(path, headers) as answer:
                return Answered(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return Answered(refused.code, refused.headers, refused.read())

    def _open(self, path: str, headers: dict[str, str | None]):
        given = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        return urllib.request.urlopen(urllib.request.Request(self.page + path, headers=given), timeout=20)

    def log_in(self) -> str:
        """A new session; requests a new link where the last one was used."""
        answer = self.ask("login", Fshipper_Token=self.token)
        if answer.code == 401:
            self.new_link()
            answer = self.ask("login", Fshipper_Token=self.token)
        assert answer.code == 200, answer
        assert "Set-Cookie" not in answer.headers
        return json.loads(answer.body)["session"]

    def new_link(self) -> None:
        """SIGHUP."""
        seen = self.links()
        self.browse.process.send_signal(signal.SIGHUP)
        until(lambda: self.links() > seen, what=lambda: self.browse.log)

    def asked(self, session: str | None, **request) -> "Answered":
        """The whole answer to a search."""
        return self.ask("search", Fshipper_Session=session, Fshipper_Search=quote(json.dumps(request)))

    def opened(self, session: str, **request):
        """The answer to a search while it comes. It is to be closed."""
        return self._open("search", {"Fshipper-Session": session, "Fshipper-Search": quote(json.dumps(request))})

    def search(self, session: str, **request) -> list[dict]:
        """The objects of a search that ends."""
        answer = self.asked(session, **request)
        assert answer.code == 200, answer
        return [json.loads(line) for line in answer.body.splitlines() if line]

    def processes(self, word: str = "") -> list[int]:
        """Ids of the processes that a search started, now."""
        parent, found = self.browse.process.pid, []
        for entry in Path("/proc").iterdir():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                arguments = (entry / "cmdline").read_text()
            except (OSError, ValueError):
                continue
            if int(fields[1]) == parent and fields[0] != "Z" and word in arguments:
                found.append(int(entry.name))
        return found

    def raw(self, text: str) -> socket.socket:
        """A connection that has sent `text`."""
        link = socket.create_connection(("127.0.0.1", self.port), 20)
        link.sendall(text.encode())
        return link


def hits(answer: list[dict]) -> list[str]:
    """The lines of an answer."""
    return [each["line"] for each in answer if each["kind"] == "hit"]
