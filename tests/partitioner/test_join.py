"""`fshipper fleet init`, `fleet token`, `join`, `leave`: hosts join a site once, and who has no right gets none."""

import base64
import datetime as dt
import http.client
import json
import os
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from harness import forking
from harness.fleet import Program, until
from harness.natsd import binary
from harness.ports import free_ports

from partitioner.access.roster import Roster
from partitioner.enrolment.authority import Authority, fingerprint
from partitioner.enrolment.server import FAILURES_A_MINUTE
from partitioner.enrolment.site import Reload, Site
from partitioner.enrolment.tokens import JoinToken, TokenBook
from shipper.errors import ShipperError, UsageError

HOST = "web1.example.net"
NOW = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)


class RealSite:
    """A site as `fleet init` makes it, with its real server; hosts are directories."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.access, self.etc, self.archive = directory / "nats", directory / "etc", directory / "archive"
        self.port, self.join_port, self.monitor = free_ports(3)
        self.programs: list[Program] = []
        self.server: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str, **more: str):
        return forking.run(self.placed(arguments), env=self.environment() | more, within=120)

    def placed(self, arguments: tuple[str, ...]) -> list[str]:
        return [*arguments, *(["--dir", str(self.access)] if arguments[0] == "fleet" else [])]

    def environment(self) -> dict[str, str]:
        here = {"PATH": os.environ["PATH"], "HOME": str(self.directory)}
        return here | {"SHIPPER_LISTEN": "127.0.0.1:0", "SHIPPER_STATE": str(self.directory / "state")}

    def must(self, *arguments: str, **more: str) -> str:
        ended = self.run(*arguments, **more)
        assert ended.returncode == 0, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def init(self) -> str:
        return self.must(
            *("fleet", "init", f"127.0.0.1:{self.port}", "--join-port", str(self.join_port)),
            *("--etc", str(self.etc), "--store", str(self.directory / "store"), "--archive", str(self.archive)),
        )

    def begin(self) -> None:
        self.init()
        config = self.access / "nats-server.conf"
        config.write_text(config.read_text().replace('"127.0.0.1:8222"', f'"127.0.0.1:{self.monitor}"'))
        with (self.directory / "nats.log").open("wb") as log:
            self.server = subprocess.Popen([binary(), "-c", str(config)], stdout=log, stderr=log)
        until((self.access / "nats-server.pid").exists, what="the server runs")
        until(lambda: self.apply().returncode == 0, what=lambda: self.apply().stderr)
        self.serving = self.start("fleet", "serve")
        until(self.answers, what=lambda: self.serving.log)

    def restart(self) -> None:
        """The next program that lets hosts join; it counts failures from 0."""
        assert self.serving.stop() == 0
        self.serving = self.start("fleet", "serve")
        until(self.answers, what=lambda: self.serving.log)

    def apply(self):
        config = str(self.etc / "partitioner.toml")
        return self.run("partition", "apply", "--partitions", "1", "--yes", "--config", config)

    def start(self, *arguments: str) -> Program:
        log = self.directory / f"{arguments[0]}-{len(self.programs)}.log"
        program = Program(self.placed(arguments), self.environment(), log)
        self.programs.append(program)
        return program

    def answers(self) -> bool:
        try:
            return self.request("GET", "/ca.pem")[0] == 200
        except OSError:
            return False

    def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=str(self.access / "ca.pem"))
        link = http.client.HTTPSConnection("127.0.0.1", self.join_port, context=context, timeout=30)
        try:
            link.request(method, path, body)
            answer = link.getresponse()
            return answer.status, answer.read()
        finally:
            link.close()

    def token(self, *arguments: str) -> str:
        return json.loads(self.must("fleet", "token", *arguments, "--json"))["token"]

    def join(self, token: str, host: str = HOST, *paths: str, at: str = ""):
        return self.run(
            "join", token, *paths, "--host", host, "--etc", str(self.directory / (at or host)), "--no-start"
        )

    def members(self) -> set[str]:
        return {name for name, member in Roster.load(self.access).members.items() if member.role == "host"}

    def end(self) -> None:
        for program in self.programs:
            program.kill()
        if self.server:
            self.server.kill()
            self.server.wait()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = RealSite(tmp_path_factory.mktemp("site"))
    try:
        site.begin()
        yield site
    finally:
        site.end()


def test_a_host_joins_ships_and_leaves_and_its_key_never_leaves_it(site):
    log = site.directory / "app.log"
    log.write_text("one\ntwo\n")
    token = site.token(HOST)
    joined = site.join(token, HOST, str(log))
    assert joined.returncode == 0, joined.stderr
    assert "The server accepts this host." in joined.stdout
    assert not list(site.access.glob(f"secrets/{HOST}*"))
    config = site.directory / HOST / "producer.toml"
    site.must("produce", "--once", "--config", str(config))
    site.must("consume", "--drain", "--config", str(site.etc / "collector.toml"))
    assert [path.read_bytes() for path in site.archive.glob("date=*/partition=*/host=*/_open-*app.log")] == [
        log.read_bytes()
    ]

    assert site.join(token, HOST, str(log)).returncode == 0, "again with the same key it repairs"
    assert not (site.directory / HOST / "producer.env").exists(), "the configuration is as it was"

    site.must("leave", "--etc", str(config.parent), "--yes")
    assert HOST not in site.members()
    until(lambda: site.run("produce", "--once", "--config", str(config)).returncode != 0, within=60)
    assert site.run("leave", "--etc", str(config.parent), "--yes").returncode == 64


def test_a_configuration_that_is_there_stays_and_gets_the_site_by_its_environment_file(site):
    etc = site.directory / "mine"
    etc.mkdir()
    (etc / "producer.toml").write_text('[producer]\nfiles = ["/var/log/mine.log"]\n')
    (etc / "producer.env").write_text("# mine\nNATS_URL=nats://old:4222\n")
    assert site.join(site.token("mine.example.net"), "mine.example.net", at="mine").returncode in {0, 69, 78}
    assert (etc / "producer.toml").read_text() == '[producer]\nfiles = ["/var/log/mine.log"]\n'
    lines = (etc / "producer.env").read_text().splitlines()
    assert lines[0] == "# mine"
    assert f"NATS_URL=tls://127.0.0.1:{site.port}" in lines
    assert "NATS_URL=nats://old:4222" not in lines


def test_a_token_that_was_stolen_used_or_has_ended_gives_no_key(site):
    site.restart()
    token = site.token("web2.example.net")
    assert site.join(token, "web2.example.net").returncode == 0
    ended = site.token("web3.example.net", "--for", "1ms")
    other_site = JoinToken.parse(token)
    strange = JoinToken(other_site.address, bytes(32), other_site.id, other_site.secret).text()
    unknown = JoinToken(other_site.address, other_site.fingerprint, bytes(8), other_site.secret).text()
    bound, free = site.token("web4.example.net"), site.token()
    cases = [
        ((token, "web2.example.net", "thief"), "the token was used by web2.example.net from 127.0.0.1"),
        ((token, "web9.example.net", "thief"), "the token was used by web2.example.net"),
        ((ended, "web3.example.net", "late"), "the token ended at"),
        ((bound, "web9.example.net", "thief"), "the token is for web4.example.net"),
        ((free, "web2.example.net", "thief"), "web2.example.net is in the roster already, with another key"),
        ((unknown, "web9.example.net", "thief"), "the token is unknown here"),
        ((strange, "web9.example.net", "thief"), "is not the site that made this token"),
        ((token[:-4], "web9.example.net", "thief"), "this is no join token"),
        (("password", "web9.example.net", "thief"), "this is no join token"),
    ]
    before = site.members()
    for (text, host, at), message in cases:
        refused = site.join(text, host, at=at)
        assert refused.returncode != 0
        assert message in refused.stderr, refused.stderr
        assert "hint: " in refused.stderr
    assert site.members() == before
    listed = site.must("fleet", "tokens")
    assert "used by web2.example.net from 127.0.0.1" in listed
    assert base64.b64encode(other_site.secret).decode() not in (site.access / "join-tokens.json").read_text()

    site.restart()
    assert site.join(free, "web5.example.net").returncode == 0, "a token that was refused to others is still good"
    again = site.token("web2.example.net", "--replace")
    assert site.join(again, "web2.example.net", at="new").returncode == 0
    assert site.run("fleet", "token", "web2.example.net").returncode == 64, "it has joined already"


def test_a_revoked_host_is_disconnected_at_once(site):
    log = site.directory / "live.log"
    log.write_text("one\n")
    assert site.join(site.token("web6.example.net"), "web6.example.net", str(log)).returncode == 0
    producer = site.start("produce", "--config", str(site.directory / "web6.example.net/producer.toml"))
    until(lambda: "session_begun" in producer.log, what=lambda: producer.log)
    site.must("fleet", "revoke", "web6.example.net", "--yes")
    until(lambda: "session_ended" in producer.log, what=lambda: producer.log)
    assert "web6.example.net" not in site.members()


def test_nothing_that_strangers_send_ends_the_site_and_their_failures_are_limited(site):
    bodies = [b"", b"{", b"[]", b"null", b'{"version":1}', b"x" * 100_000, json.dumps({"version": 1, "id": 3}).encode()]
    bodies.append(
        json.dumps(dict.fromkeys(("id", "host", "key", "signature", "secret"), "\0") | {"version": 1}).encode()
    )
    site.restart()
    began = time.monotonic()
    codes = [site.request("POST", path, body)[0] for body in bodies for path in ("/join", "/leave")]
    assert set(codes) <= {400, 403, 429, 503}
    if time.monotonic() - began < 60:
        assert codes.count(429) == len(codes) - FAILURES_A_MINUTE
    assert site.request("GET", "/join")[0] == 405
    assert site.request("GET", "/../site.json")[0] == 404
    assert site.answers()


def test_a_second_init_changes_nothing_and_a_missing_file_is_made_again(site):
    before = {path: path.read_bytes() for path in site.access.rglob("*") if path.is_file() and "lock" not in path.name}
    assert "Everything is there already." in site.init()
    (site.etc / "reader.toml").unlink()
    assert f"made {site.etc / 'reader.toml'}" in site.init()
    assert {path: path.read_bytes() for path in before} == before


def test_a_certificate_that_ends_soon_is_made_anew_by_the_same_authority(tmp_path):
    authority = Authority(tmp_path, now=NOW)
    assert authority.make(["logs.example.net", "10.0.0.5"]) == [authority.certificate, authority.server_certificate]
    assert authority.make(["logs.example.net"]) == []
    known = fingerprint(authority.certificate.read_bytes())
    later = Authority(tmp_path, now=NOW + dt.timedelta(days=800))
    assert later.make(["logs.example.net"]) == [authority.server_certificate]
    assert later.make(["other.example.net"]) == [authority.server_certificate], "another name"
    assert fingerprint(authority.certificate.read_bytes()) == known
    assert (authority.key.stat().st_mode & 0o777, authority.server_key.stat().st_mode & 0o777) == (0o600, 0o600)


def test_a_server_that_cannot_be_reloaded_uses_no_token_and_the_next_try_succeeds(site, tmp_path):
    id_, secret, _ = TokenBook(site.access, now=NOW).make("web7.example.net", 60, replace_key=False)
    from partitioner.access.credentials import USER, new_key, public  # noqa: PLC0415 - of this test only
    from partitioner.enrolment.protocol import joining  # noqa: PLC0415 - of this test only

    key = new_key(USER)
    signature = base64.b64encode(key.sign(joining(id_.hex(), "web7.example.net", public(key)))).decode()
    request = (id_.hex(), secret, "web7.example.net", public(key), signature, "10.0.0.7")
    broken = Site(site.access, "tls://x:4222", Reload("false", tmp_path / "none"), lambda: NOW)
    with pytest.raises(ShipperError, match="false ended with 1"):
        broken.join(*request)
    assert not any(entry.used for entry in TokenBook(site.access, now=NOW).entries() if entry.id == id_.hex())
    whole = Site(site.access, "tls://x:4222", Reload("true", tmp_path / "none"), lambda: NOW)
    assert whole.join(*request).url == "tls://x:4222"
    forged = (*request[:4], base64.b64encode(bytes(64)).decode(), request[5])
    with pytest.raises(ShipperError, match="not signed"):
        whole.join(*forged)


@pytest.mark.parametrize(
    "arguments",
    [
        ("fleet", "init", "0.0.0.0"),
        ("fleet", "init", "a b"),
        ("fleet", "init", "logs.example.net:99999"),
        ("fleet", "token", "--for", "30d"),
        ("fleet", "token", "web99.example.net", "--replace"),
        ("fleet", "token", "web1 example"),
        ("join", "fsj1_abc"),
        ("fleet", "serve", "--listen", "4443"),
    ],
)
def test_what_is_mistyped_is_an_error_with_the_next_step(site, arguments):
    ended = (
        site.run(*arguments, "--etc", str(site.directory / "typo")) if arguments[0] == "join" else site.run(*arguments)
    )
    assert ended.returncode in {64, 78}
    assert "hint: " in ended.stderr


def test_a_token_survives_copying_only_as_a_whole():
    token = JoinToken("logs.example.net:4443", bytes(range(32)), bytes(8), bytes(20))
    assert JoinToken.parse(token.text()) == token
    for wrong in (token.text()[1:], token.text()[:-1], token.text().swapcase(), "", "fsj1_", token.text() + "é"):
        with pytest.raises(UsageError):
            JoinToken.parse(wrong)
