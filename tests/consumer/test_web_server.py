"""`fshipper web` without a browser: who comes in and how, what a reader may not do, and which files are served."""

import asyncio
import contextlib
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from email.message import Message

import pytest
from browse_program import WEB
from harness.fleet import until
from harness.natsd import running
from web_program import DAY, PASSWORD, USERS, WebProgram

from consumer.web import access_control, failed_logins
from consumer.web.access_control import AccessControl, LoginError, Refused
from consumer.web.accounts import AccountFile, LocalAccount, hash_of
from consumer.web.failed_logins import FailedLogins
from consumer.web.roles import Role
from consumer.web.server import PageRequest, StreamedAnswer
from shipper.http_endpoints import Answer

PAGES = ("/", "/logs/", "/parts", "/report/", f"/report/{DAY}/report.html")
DATA = ("/about", "/search", "/events")
PROXY = ("--user-header", "X-Forwarded-User", "--operator", "carol", "--host", "logs.example.net")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("web")
    with running(directory / "natsd") as natsd, WebProgram(directory, natsd.url, *PROXY) as started:
        yield started


@pytest.fixture
def clients(program):
    """A signed-in client for each role."""
    found = {}
    for name, role in USERS.items():
        found[role] = program.client()
        assert found[role].sign_in(name).code == 200
    return found


def test_without_a_session_there_is_no_data_and_pages_lead_to_the_login(program):
    stranger = program.client()
    for path in PAGES:
        answer = stranger.get(path)
        assert (answer.code, answer.body) == (303, b"")
        assert answer.headers["Location"] == f"/sign-in?next={path}"
    for path in DATA:
        assert stranger.get(path, Fshipper_Search="%7B%7D").code == 401
    assert stranger.ask("POST", "/forget", {"host": WEB}).code == 401
    page = stranger.get("/sign-in")
    assert page.code == 200
    assert WEB.encode() not in page.body


def test_a_session_of_an_account_is_in_a_cookie_that_scripts_and_other_sites_cannot_use(program):
    client = program.client()
    answer = client.sign_in("bob")
    (cookie,) = answer.headers.get_all("Set-Cookie")
    assert re.fullmatch(r"fshipper_session=[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict", cookie), cookie
    assert PASSWORD not in program.web.log
    assert json.loads(client.get("/about").body)["role"] == "reader"
    secret = client.cookies["fshipper_session"]
    for other in ("a[b]=1", "x", '"', "fshipper_session=wrong"):
        assert client.get("/about", Cookie=f"{other}; fshipper_session={secret}").code == 200
    assert client.ask("POST", "/sign-out").code == 200
    assert program.client().get("/about", Cookie=f"fshipper_session={secret}").code == 401
    assert client.get("/about").code == 401


def test_behind_tls_the_cookie_is_only_for_it(program):
    client = program.client()
    answer = client.sign_in("bob", X_Forwarded_Proto="https", Origin=f"https://127.0.0.1:{program.port}")
    assert answer.headers["Set-Cookie"].startswith("__Host-fshipper_session=")
    assert answer.headers["Set-Cookie"].endswith("; Secure")
    assert client.get("/about").code == 401, "a cookie of the encrypted page is not taken without encryption"
    assert client.get("/about", X_Forwarded_Proto="https").code == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_a_cookie_opens_nothing_for_another_user_of_this_machine(program, clients):
    """Browsers send cookies to all ports of a host, so another user's program may receive one."""
    cookie = f"fshipper_session={clients['operator'].cookies['fshipper_session']}"
    request = f"GET /about HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
    script = (
        "import os, socket; os.setgid(65534); os.setuid(65534); link = socket.socket();"
        f" link.connect(('127.0.0.1', {program.port})); link.sendall({request.encode()!r});"
        " print(link.recv(12)[9:].decode())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "401"
    assert clients["operator"].get("/about").code == 200


def test_a_link_opens_one_session_of_an_operator(program):
    client = program.client()
    token = program.link.partition("#token=")[2]
    assert program.link == f"{program.page}/sign-in#token={token}"
    assert client.get("/login", Fshipper_Token=token).code == 200
    assert json.loads(client.get("/about").body)["role"] == "operator"
    assert program.client().get("/login", Fshipper_Token=token).code == 401
    assert token not in program.web.log


@pytest.mark.parametrize(("name", "role"), [("carol", "operator"), ("dave", "reader")])
def test_a_proxy_names_the_user(program, name, role):
    about = json.loads(program.client().get("/about", X_Forwarded_User=name).body)
    assert (about["user"], about["role"]) == (name, role)
    twice = f"GET /about HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-User: {name}\r\nX-Forwarded-User: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", program.port), 20) as link:
        link.sendall(twice.encode())
        assert b" 401 " in link.makefile("rb").readline()


def test_only_a_trusted_proxy_may_name_a_user():
    access = AccessControl(access_control.ProxyUsers("X-User"))
    headers = Message()
    headers["X-User"] = "carol"
    assert access.user(PageRequest("/about", headers, "10.0.0.1")) is None
    assert access.user(PageRequest("/about", headers, "10.0.0.1", is_trusted_proxy=True)).role is Role.READER


READER_MAY_NOT = {
    "search longer": ("GET", "/search", None, {"Fshipper_Search": "%7B%22longer%22%3A%20true%7D"}),
    "forget a host": ("POST", "/forget", {"host": WEB}, {}),
}


@pytest.mark.parametrize("what", READER_MAY_NOT)
def test_a_reader_cannot_do_what_an_operator_can(program, clients, what):
    method, path, body, headers = READER_MAY_NOT[what]
    assert clients["reader"].ask(method, path, body, **headers).code == 403
    assert clients["operator"].ask(method, path, body, **headers).code == 200
    for proxy, code in (("dave", 403), ("carol", 200)):
        assert program.client().ask(method, path, body, X_Forwarded_User=proxy, **headers).code == code


def test_a_reader_sees_status_lines_and_reports(program, clients):
    reader = clients["reader"]
    assert [reader.get(path).code for path in PAGES] == [200] * len(PAGES)
    found = reader.search(query="FATAL")
    assert b"out of memory" in found.body
    with socket.create_connection(("127.0.0.1", program.port), 20) as link:
        cookie = f"fshipper_session={reader.cookies['fshipper_session']}"
        link.sendall(f"GET /events HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
        stream = link.makefile("rb")
        while not (line := stream.readline()).startswith(b"data: "):
            assert line
        assert json.loads(line[6:])["about"]["search"] == "/logs/"


def test_an_operator_forgets_a_host(program, clients):
    assert clients["operator"].ask("POST", "/forget", {"host": "../x"}).code == 400
    assert clients["operator"].ask("POST", "/forget", {"host": WEB, "more": 1}).code == 400
    assert json.loads(clients["operator"].ask("POST", "/forget", {"host": "never.example.net"}).body) == {
        "known": False
    }
    until(lambda: "host_forgotten" in program.web.log, what=lambda: program.web.log)
    assert "user=alice" in program.web.log


NOT_SERVED = (
    "/report/../accounts/accounts.json", "/report/%2e%2e/accounts/accounts.json", "/report//etc/passwd",
    f"/report/{DAY}/../../accounts/accounts.json", "/report/outside.html", f"/report/{DAY}/host/planted.html",
    "/report/.hidden.html", "/report/tables/x.parquet", f"/report/{DAY}/report.html%00.json", "/report/spark.log",
)  # fmt: skip


def test_only_files_of_reports_are_served(program, clients):
    (program.reports / "outside.html").write_text("no report")
    (program.reports / DAY / "host" / "planted.html").symlink_to(program.accounts)
    for path in NOT_SERVED:
        answer = clients["operator"].get(path)
        assert answer.code == 404, path
        assert b"argon2" not in answer.body
        assert b"no report" not in answer.body.replace(b"There is no such page", b"")
    for path in (
        "/report/latest/report.html",
        "/report/week-2026-W47.html",
        f"/report/{DAY}/host/web1.example.net.html",
    ):
        answer = clients["reader"].get(path)
        assert (answer.code, b"<h1>the report</h1>" in answer.body) == (200, True), path
    sheet = clients["reader"].get(f"/report/{DAY}/report.json")
    assert sheet.headers["Content-Disposition"].startswith("attachment")


def test_a_served_report_has_links_to_the_other_pages_and_a_policy(program, clients):
    answer = clients["reader"].get(f"/report/{DAY}/report.html")
    assert b"<body>" in answer.body
    assert b"alone" not in answer.body
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-abc='; connect-src 'none'; frame-ancestors 'none'")


def test_a_report_that_cannot_be_read_is_reported_with_the_next_step(program, clients, tmp_path):
    hidden = program.reports.rename(tmp_path / "elsewhere")
    try:
        answer = clients["reader"].get("/report/")
        assert (answer.code, b"There is no report yet" in answer.body) == (404, True)
    finally:
        hidden.rename(program.reports)
    if os.geteuid() != 0:
        (program.reports / "index.html").chmod(0)
        answer = clients["reader"].get("/report/")
        (program.reports / "index.html").chmod(0o640)
        assert (answer.code, b"readable-by" in answer.body) == (503, True)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Host": "logs.example.net"}, 200),
    ],
)  # fmt: skip
def test_other_names_and_other_origins_are_refused(clients, headers, code):
    for path in ("/about", "/", "/report/"):
        assert clients["operator"].get(path, **headers).code == code
    assert clients["operator"].ask("POST", "/forget", {"host": "x.example"}, **headers).code == code


def test_methods_and_sizes_that_no_page_sends_are_refused(program, clients):
    for method, path in (
        ("POST", "/search"),
        ("PUT", "/"),
        ("DELETE", "/forget"),
        ("GET", "/forget"),
        ("POST", "/events"),
    ):
        assert clients["operator"].ask(method, path).code == 405, (method, path)
    assert clients["operator"].ask("POST", "/login", b"x" * 5000).code == 413
    assert clients["operator"].ask("POST", "/login", b"\xff{").code == 400
    assert clients["operator"].get("/nothing").code == 404
    with socket.create_connection(("127.0.0.1", program.port), 20) as link:
        link.sendall(b"GET /about\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 400 " in link.makefile("rb").readline()


def test_every_page_has_a_strict_policy(clients):
    for path in ("/", "/logs/", "/parts", "/sign-in"):
        answer = clients["operator"].get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'sha256-"), path
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["Cache-Control"] == "no-store"
        text = answer.body.decode()
        assert not re.search(r'\sstyle="|innerHTML|\son[a-z]+="', text), path
        assert not re.search(r"(src|href)=.https?://", text), path


def test_an_unfinished_request_ends_and_health_is_answered_meanwhile(program):
    with contextlib.ExitStack() as opened:
        slow = [opened.enter_context(socket.create_connection(("127.0.0.1", program.port), 30)) for _ in range(40)]
        for link in slow:
            with contextlib.suppress(OSError):  # it had to give way to a newer one
                link.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        assert program.client().get("/healthz").code == 200
        for link in slow:
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                answer = link.makefile("rb").read()  # it ends, or this test does with a timeout
            assert answer == b"" or answer.startswith(b"HTTP/1.1 503"), answer
    assert program.client().get("/healthz").code == 200


def test_accounts_are_changed_while_it_runs_and_sessions_of_before_end(program):
    assert program.user("erin", password=PASSWORD).returncode == 0
    assert stat.S_IMODE(program.accounts.stat().st_mode) == 0o600
    assert PASSWORD not in program.accounts.read_text()
    client = program.client()
    assert client.sign_in("erin").code == 200
    assert json.loads(client.get("/about").body)["role"] == "reader"
    assert program.user("erin", "--role", "operator", password="another long password").returncode == 0
    assert client.get("/about").code == 401
    assert client.sign_in("erin", "another long password").code == 200
    assert program.user("erin", "--remove").returncode == 0
    assert client.get("/about").code == 401


def test_nobody_has_an_account_while_the_file_is_away_or_open_to_others(program):
    client, away = program.client(), program.accounts.with_name("away")
    for hide, show in (
        (lambda: program.accounts.rename(away), lambda: away.rename(program.accounts)),
        (lambda: program.accounts.chmod(0o666), lambda: program.accounts.chmod(0o600)),
    ):
        assert client.sign_in("bob").code == 200
        hide()
        try:
            assert client.get("/about").code == 401
            assert client.sign_in("bob").code == 401
        finally:
            show()


@pytest.mark.parametrize(
    ("arguments", "password", "words"),
    [
        (("frank",), "short", "12"), (("../x",), PASSWORD, "name"), (("nobody", "--remove"), "", "no account"),
    ],
)  # fmt: skip
def test_an_account_that_is_wrong_is_refused(program, arguments, password, words):
    before = program.accounts.read_bytes()
    done = program.user(*arguments, password=password)
    assert done.returncode == 64
    assert words in done.stderr
    assert "hint: " in done.stderr
    assert program.accounts.read_bytes() == before


def test_accounts_that_others_may_read_are_refused(program):
    program.accounts.chmod(0o644)
    try:
        done = program.run("web", f"--accounts={program.accounts}", "--listen", "127.0.0.1:0")
        assert done.returncode == 78
        assert "chmod 600" in done.stderr
    finally:
        program.accounts.chmod(0o600)


def test_it_listens_on_other_addresses_only_behind_a_proxy(program):
    done = program.run("web", "--listen", "0.0.0.0:0")
    assert done.returncode == 78
    assert "web.proxies" in done.stderr


@pytest.mark.parametrize("left", ["before the first piece", "between two pieces"])
def test_a_streamed_answer_is_closed_however_its_client_leaves(left):
    """What it holds, such as the slot of a search, would be lost otherwise."""
    closed, pieces = [], []

    class Body:
        def __iter__(self):
            while True:
                yield b"x"

        def close(self):
            closed.append(True)

    async def leave() -> None:
        gone = asyncio.Event()

        async def receive() -> dict:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict) -> None:
            pieces.append(message)
            if message["type"] == "http.response.body" or left == "before the first piece":
                gone.set()
                await asyncio.Event().wait()

        body = Body()
        await StreamedAnswer(Answer("text/plain", body), body)({"type": "http"}, receive, send)

    asyncio.run(asyncio.wait_for(leave(), 20))
    assert closed == [True]
    assert len(pieces) == (1 if left == "before the first piece" else 2)


# -- passwords ----------------------------------------------------------------------------------------------------


def test_failed_logins_make_the_next_one_wait(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    file = AccountFile(tmp_path / "private" / "accounts.json")
    file.replace({"alice": LocalAccount(role=Role.READER, password=hash_of(PASSWORD))})
    access = AccessControl(accounts=file)
    request = PageRequest("/login", Message(), "10.0.0.1")
    for _ in range(failed_logins.FREE_FAILURES):
        with pytest.raises(LoginError) as refused:
            access.log_in_as(request, "alice", "wrong")
        assert refused.value.why is Refused.WRONG
    with pytest.raises(LoginError) as refused:
        access.log_in_as(request, "alice", PASSWORD)
    assert (refused.value.why, refused.value.seconds) == (Refused.LATER, 1.0)
    assert access.log_in_as(request._replace(address="10.0.0.2"), "alice", PASSWORD)
    now[0] += 1.0
    assert access.log_in_as(request, "alice", PASSWORD)


def test_waits_grow_to_a_limit_and_are_bounded_in_number(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    failures = FailedLogins()
    for _ in range(60):
        failures.add(["address 10.0.0.1"])
    assert failures.seconds_left(["address 10.0.0.1"]) == failed_logins.LONGEST_WAIT_SECONDS
    for number in range(failed_logins.MOST_KEYS + 10):
        failures.add([f"name {number}"])
    assert len(failures._failures) == failed_logins.MOST_KEYS


def test_a_password_of_an_unknown_name_is_verified_as_long(tmp_path, monkeypatch):
    verified = []
    monkeypatch.setattr("argon2.PasswordHasher.verify", lambda _, known, given: verified.append(known[:30]) or False)
    file = AccountFile(tmp_path / "private" / "accounts.json")
    file.replace({"alice": LocalAccount(role=Role.READER, password=hash_of(PASSWORD))})
    for name in ("alice", "nobody", "x" * 64, ""):
        with pytest.raises(LoginError):
            AccessControl(accounts=file).log_in_as(PageRequest("/login", Message(), "10.0.0.1"), name, "wrong")
    assert len(verified) == 4
    assert len({known.rpartition("$")[0] for known in verified}) == 1, "the same parameters"


def test_sessions_are_few_and_end_after_their_time(monkeypatch):
    access = AccessControl()
    sessions = []
    for _ in range(access_control.MOST_SESSIONS_A_USER + 1):
        headers = Message()
        headers[access_control.TOKEN_HEADER] = access.new_token()
        sessions.append(access.log_in(PageRequest("/login", headers, "127.0.0.1")))

    def user(session):
        headers = Message()
        headers[access_control.SESSION_HEADER] = session
        return access.user(PageRequest("/about", headers, "127.0.0.1"))

    assert user(sessions[0]) is None
    assert user(sessions[1]) is not None
    later = time.monotonic() + access_control.SESSION_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert user(sessions[1]) is None
