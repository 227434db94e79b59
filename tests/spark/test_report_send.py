"""`fshipper report send`: each report once to each target, also after kills; servers that refuse, or are slow or false.

Servers are real: aiosmtpd and http.server on loopback. Kills are SIGKILL of the real command.
"""

import email
import email.policy
import hashlib
import hmac
import http.server
import json
import os
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from harness import forking
from test_report_facts import a_host, facts_of

from spark_analytics.delivery import message, targets, transport
from spark_analytics.delivery import send as sending
from spark_analytics.delivery.send import Delivered, Event
from spark_analytics.report import json_export
from spark_analytics.report.model import Finding, State

DATE = "2026-11-20"
ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
PATTERN = "cannot open <path> of customer <n>"


@dataclass
class Receiver:
    """What a server received, and what it does before it replies."""

    messages: list = field(default_factory=list)
    before_reply: Callable[[], object] = lambda: None
    at_recipient: Callable[[], object] = lambda: None
    reply: str = ""

    async def handle_RCPT(self, _server, _session, envelope, address, _options) -> str:  # noqa: N802 - aiosmtpd's name
        self.at_recipient()
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server, _session, envelope) -> str:  # noqa: N802
        if self.reply:
            return self.reply
        self.messages.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        self.before_reply()
        return "250 OK"


class Loopback(Controller):
    """A server on a free port."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def smtp(receiver: Receiver, **options) -> Iterator[int]:
    controller = Loopback(receiver, hostname="127.0.0.1", port=0, **options)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


@dataclass
class Web:
    """A web server on loopback."""

    requests: list = field(default_factory=list)
    before_reply: Callable[[], object] = lambda: None
    status: int = 200
    headers: dict = field(default_factory=dict)

    @contextmanager
    def running(self, context: ssl.SSLContext | None = None) -> Iterator[int]:
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                web.requests.append((self.path, dict(self.headers), body))
                web.before_reply()
                self.send_response(web.status)
                for name, value in web.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_arguments) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    made = facts_of(a_host("web1"), a_host("web2"))
    day = tmp_path / "report" / made.date
    day.mkdir(parents=True)
    (day / "report.json").write_text(json_export.to_text(made))
    (day / "report.html").write_text(f"<p>{PATTERN}</p>")
    return tmp_path / "report"


def settings(reports: Path, text: str) -> Path:
    path = reports.parent / "send.toml"
    path.write_text(text)
    return path


def mail_settings(reports: Path, port: int, more: str = 'tls = "none"\n') -> Path:
    return settings(
        reports,
        f'[[target]]\nname = "ops"\nkind = "mail"\nhost = "127.0.0.1"\nport = {port}\n'
        f'sender = "Reports <fshipper@example.net>"\nto = ["ops@example.net", "b@example.org"]\n{more}',
    )


def hook_settings(reports: Path, port: int, more: str = "", scheme: str = "http", kind: str = "webhook") -> Path:
    url = f"{scheme}://127.0.0.1:{port}/hook"
    return settings(reports, f'[[target]]\nname = "chat"\nkind = "{kind}"\nurl = "{url}"\n{more}')


def command(reports: Path, config: Path, *arguments: str) -> list[str]:
    where = ["--out", str(reports), "--settings", str(config)]
    return ["report", "send", *where, *arguments]


def send(reports: Path, config: Path, *arguments: str) -> subprocess.CompletedProcess:
    done = forking.run(command(reports, config, *arguments), env=ENVIRONMENT, within=120)
    assert "Traceback" not in done.stderr
    return done


def killed(reports: Path, config: Path, arm: Callable[[Callable[[], None]], object]) -> None:
    """Runs the command; `arm` gets what kills it."""
    started: list[subprocess.Popen] = []
    ready = threading.Event()

    def kill() -> None:
        ready.wait(60)
        started[0].send_signal(signal.SIGKILL)
        started[0].wait()

    arm(kill)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started.append(forking.popen(command(reports, config), env=ENVIRONMENT, **quiet))
    ready.set()
    assert started[0].wait(60) == -signal.SIGKILL


def secret(reports: Path, name: str, text: str) -> Path:
    path = reports.parent / name
    path.touch(0o600)
    path.write_text(text)
    return path


# -- mail --------------------------------------------------------------------------------------------------------------


def test_a_mail_arrives_once_as_text_and_html(reports):
    receiver = Receiver()
    with smtp(receiver) as port:
        config = mail_settings(reports, port)
        first, second = send(reports, config), send(reports, config)

    assert (first.returncode, second.returncode) == (0, 0)
    assert "sent before" in second.stdout
    (mail,) = receiver.messages
    assert mail["To"] == "ops@example.net, b@example.org"
    assert DATE in mail["Subject"]
    assert mail["Auto-Submitted"] == "auto-generated"
    assert {part.get_content_type() for part in mail.walk()} == {"multipart/alternative", "text/plain", "text/html"}
    assert "took" not in mail.get_body(("plain",)).get_content()


def test_after_a_kill_between_sending_and_noting_nothing_arrives_twice(reports):
    receiver = Receiver()
    with smtp(receiver) as port:
        config = mail_settings(reports, port)
        killed(reports, config, lambda kill: setattr(receiver, "before_reply", kill))
        receiver.before_reply = lambda: None
        second, third = send(reports, config), send(reports, config)
        assert len(receiver.messages) == 1
        assert (second.returncode, third.returncode) == (1, 0)
        assert "in doubt" in second.stderr
        assert send(reports, config, "--resend").returncode == 0

    first, again = receiver.messages
    assert first["Message-ID"] == again["Message-ID"] is not None


def test_after_a_kill_before_the_message_it_is_sent(reports):
    receiver = Receiver()
    with smtp(receiver) as port:
        config = mail_settings(reports, port)
        killed(reports, config, lambda kill: setattr(receiver, "at_recipient", kill))
        receiver.at_recipient = lambda: None
        assert receiver.messages == []
        assert send(reports, config).returncode == 0
    assert len(receiver.messages) == 1


def test_a_refused_mail_is_sent_by_the_next_run(reports):
    receiver = Receiver(reply="451 mailbox is locked\r\n evil")
    with smtp(receiver) as port:
        config = mail_settings(reports, port)
        refused = send(reports, config)
        receiver.reply = ""
        assert send(reports, config).returncode == 0
    assert refused.returncode == 1
    assert "refused the mail: 451 mailbox is locked" in refused.stderr
    assert len(receiver.messages) == 1


def test_a_missing_server_is_an_error_of_send_only(reports):
    before = (reports / DATE / "report.json").read_bytes()
    with smtp(Receiver()) as port:
        pass
    done = send(reports, mail_settings(reports, port))
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert (reports / DATE / "report.json").read_bytes() == before


def test_a_server_that_does_not_answer_leaves_the_message_in_doubt(reports):
    receiver, release = Receiver(), threading.Event()
    receiver.before_reply = lambda: release.wait(60)
    with smtp(receiver) as port:
        config = mail_settings(reports, port, 'tls = "none"\ntimeout = 0.2\n')
        first = send(reports, config)
        release.set()
        time.sleep(0)
        second = send(reports, config)
    assert (first.returncode, second.returncode) == (1, 0)
    assert "did not answer" in first.stderr
    assert len(receiver.messages) == 1


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def context_for(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def trusted(reports: Path, authority: trustme.CA) -> str:
    path = reports.parent / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return f'ca = "{path}"\n'


def test_the_password_is_sent_over_starttls_only(reports, authority):
    seen = []

    def check(_server, _session, _envelope, mechanism, data) -> AuthResult:
        seen.append((mechanism, data.login, data.password))
        return AuthResult(success=data.password == b"s3cret")

    receiver = Receiver()
    options = {"tls_context": context_for(authority), "require_starttls": True, "authenticator": check}
    with smtp(receiver, auth_require_tls=True, **options) as port:
        credentials = secret(reports, "mail.credentials", "reports\ns3cret\n")
        config = mail_settings(reports, port, f'credentials = "{credentials}"\n' + trusted(reports, authority))
        done = send(reports, config)
    assert done.returncode == 0, done.stderr
    assert seen[-1][1:] == (b"reports", b"s3cret")
    assert len(receiver.messages) == 1


@pytest.mark.parametrize("why", ["unknown authority", "other name"])
def test_a_wrong_certificate_gets_neither_password_nor_mail(reports, authority, why):
    receiver = Receiver()
    own = trustme.CA() if why == "unknown authority" else authority
    context = context_for(own, "127.0.0.1" if why == "unknown authority" else "other.example.net")
    with smtp(receiver, tls_context=context) as port:
        done = send(reports, mail_settings(reports, port, trusted(reports, authority)))
    assert done.returncode == 1
    assert "certificate verify failed" in done.stderr
    assert receiver.messages == []


def test_a_password_is_never_sent_without_encryption(reports):
    credentials = secret(reports, "mail.credentials", "reports\ns3cret\n")
    done = send(reports, mail_settings(reports, 25, f'tls = "none"\ncredentials = "{credentials}"\n'))
    assert done.returncode == 78
    assert "without encryption" in done.stderr


def test_secrets_that_others_can_read_are_refused(reports):
    credentials = secret(reports, "mail.credentials", "reports\ns3cret\n")
    credentials.chmod(0o644)
    with smtp(Receiver()) as port:
        done = send(reports, mail_settings(reports, port, f'credentials = "{credentials}"\n'))
    assert done.returncode == 1
    assert "s3cret" not in done.stderr


@pytest.mark.parametrize("value", ["a@b\\nBcc: evil@example.net", "a@b\\r\\n\\r\\nbody", "a\\u0000b"])
@pytest.mark.parametrize("key", ["sender", "host", "name"])
def test_no_setting_begins_another_header(reports, key, value):
    config = mail_settings(reports, 25)
    text = "\n".join(
        f'{key} = "{value}"' if line.startswith(f"{key} =") else line for line in config.read_text().splitlines()
    )
    config.write_text(text)
    assert send(reports, config).returncode == 78


def test_hostile_names_in_findings_stay_text():
    made = facts_of(a_host("web1"))
    finding = made.verdict.findings[:1]
    hostile = "web1\r\nBcc: evil@example.net\x1b[31m <script>"
    shown = message.made(made, base=None, page=None)
    shown = message.Message(
        **{name: getattr(shown, name) for name in shown.__slots__}
        | {"headline": message.clean(hostile), "findings": (("x", "attention", message.clean(hostile)),)}
    )
    target = targets.MailTarget(name="a", kind="mail", host="h", sender="a@example.net", to=("b@example.net",))
    mail = transport.mail_of(target, shown, "id")
    assert mail["Bcc"] is None
    assert "<script>" not in message.as_html(shown)
    assert "\x1b" not in message.as_text(shown) + json.dumps(message.as_slack(shown))
    assert "<" not in message.as_slack(shown)["text"]
    assert len(finding) <= 1


# -- webhooks ----------------------------------------------------------------------------------------------------------


def test_a_webhook_gets_signed_json_once(reports):
    web = Web()
    with web.running() as port:
        config = hook_settings(reports, port, f'secret = "{secret(reports, "key", "k3y")}"\n')
        assert [send(reports, config).returncode for _ in range(2)] == [0, 0]
    ((path, headers, body),) = web.requests
    assert path == "/hook"
    signed = headers["X-Fshipper-Timestamp"].encode() + b"." + body
    assert headers["X-Fshipper-Signature"] == "sha256=" + hmac.new(b"k3y", signed, hashlib.sha256).hexdigest()
    content = json.loads(body)
    assert (content["v"], content["date"], content["id"]) == (1, DATE, headers["Idempotency-Key"])
    assert content["totals"]["hosts"] == 2


def test_a_webhook_gets_nothing_twice_after_a_kill(reports):
    web = Web()
    with web.running() as port:
        config = hook_settings(reports, port)
        killed(reports, config, lambda kill: setattr(web, "before_reply", kill))
        web.before_reply = lambda: None
        assert send(reports, config).returncode == 1
        assert len(web.requests) == 1


def test_a_receiver_that_knows_the_key_gets_the_message_again_after_a_kill(reports):
    web = Web()
    with web.running() as port:
        config = hook_settings(reports, port, "idempotent = true\n")
        killed(reports, config, lambda kill: setattr(web, "before_reply", kill))
        web.before_reply = lambda: None
        assert [send(reports, config).returncode for _ in range(2)] == [0, 0]
    assert len(web.requests) == 2
    assert len({headers["Idempotency-Key"] for _, headers, _ in web.requests}) == 1


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("slack", {"text", "mrkdwn", "unfurl_links", "unfurl_media"}), ("teams", {"type", "attachments"})],
)
def test_chats_get_their_own_json(reports, kind, keys):
    web = Web()
    with web.running() as port:
        assert send(reports, hook_settings(reports, port, kind=kind)).returncode == 0
    assert set(json.loads(web.requests[0][2])) == keys


@pytest.mark.parametrize("status", [307, 404, 503])
def test_a_webhook_that_refuses_is_tried_again_by_the_next_run(reports, status):
    web, other = Web(status=status), Web()
    with other.running() as elsewhere, web.running() as port:
        web.headers = {"Location": f"http://127.0.0.1:{elsewhere}/"}
        config = hook_settings(reports, port)
        refused = send(reports, config)
        web.status = 200
        assert send(reports, config).returncode == 0
    assert (refused.returncode, other.requests) == (1, [])
    assert str(status) in refused.stderr


def test_a_webhook_with_a_wrong_certificate_gets_nothing(reports, authority):
    web = Web()
    with web.running(context_for(trustme.CA())) as port:
        done = send(reports, hook_settings(reports, port, trusted(reports, authority), "https"))
    assert done.returncode == 1
    assert "certificate verify failed" in done.stderr
    assert web.requests == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/T0 k3y", "http://127.0.0.1:k3y/x", "http://u:k3y@127.0.0.1:1/x"])
def test_a_secret_in_the_url_of_a_webhook_is_in_no_message_and_not_in_the_ledger(reports, url):
    file = secret(reports, "url", url)
    done = send(reports, settings(reports, f'[[target]]\nname = "chat"\nkind = "slack"\nurl_file = "{file}"\n'))
    ledger = (reports / ".sent.jsonl").read_text()

    assert done.returncode == 1
    assert "chat" in done.stderr
    assert "k3y" not in done.stderr + done.stdout + ledger
    assert "doubt" not in ledger


def test_apprise_sends_to_its_services(reports):
    pytest.importorskip("apprise")
    web = Web()
    with web.running() as port:
        url = secret(reports, "urls", f"json://127.0.0.1:{port}/x\n")
        config = settings(reports, f'[[target]]\nname = "a"\nkind = "apprise"\nurl_file = "{url}"\n')
        assert [send(reports, config).returncode for _ in range(2)] == [0, 0]
    assert DATE in json.loads(web.requests[0][2])["title"]


# -- what is sent, and when --------------------------------------------------------------------------------------------


def another_day(reports: Path, date: str, *hosts) -> None:
    text = json_export.to_text(facts_of(*hosts)).replace(DATE, date)
    (reports / date).mkdir()
    (reports / date / "report.json").write_text(text)


def test_changed_sends_a_day_only_if_its_verdict_differs_from_the_last_one(reports):
    web = Web()
    with web.running() as port:
        config = hook_settings(reports, port)
        send(reports, config)
        another_day(reports, "2026-11-21", a_host("web1"), a_host("web2"))
        same = send(reports, config)
        another_day(reports, "2026-11-22", a_host("web1", 0, before=(900,) * 7), a_host("web2"))
        send(reports, config)
        assert "not due" in same.stdout
        assert [json.loads(body)["date"] for _, _, body in web.requests] == [DATE, "2026-11-22"]
        assert send(reports, config, "--days", "3", "--when", "always").returncode == 0
    assert [json.loads(body)["date"] for _, _, body in web.requests][2:] == ["2026-11-21"]


def test_attention_sends_nothing_about_a_calm_day(reports):
    web = Web()
    with web.running() as port:
        config = hook_settings(reports, port, 'when = "attention"\n')
        assert send(reports, config).returncode == 0
        assert web.requests == []
        another_day(reports, "2026-11-22", a_host("web1", 0, before=(900,) * 7), a_host("web2"))
        send(reports, config)
    assert json.loads(web.requests[0][2])["needs_attention"]


def test_the_page_with_log_lines_is_attached_only_on_request(reports):
    receiver = Receiver()
    with smtp(receiver) as port:
        send(reports, mail_settings(reports, port))
        send(reports, mail_settings(reports, port, 'tls = "none"\nlines = true\n'), "--when", "always")
        config = mail_settings(reports, port, 'tls = "none"\nlines = true\n')
        config.write_text(config.read_text().replace('"ops"', '"others"'))
        send(reports, config)
    without, with_page = receiver.messages
    assert PATTERN not in without.as_string()
    (page,) = with_page.iter_attachments()
    assert PATTERN in page.get_content()


def test_a_message_without_lines_has_the_sentence_without_text_of_log_lines():
    given = {"kind": "new_pattern", "state": State.ATTENTION}
    finding = Finding(text="3 new error patterns: “password of <x> is y”", plain="3 new error patterns", **given)
    assert message._sentence(finding, with_lines=False) == "3 new error patterns"
    assert message._sentence(finding, with_lines=True) == finding.text
    assert message._sentence(Finding(text="2 hosts silent: a, b", **given), with_lines=False) == "2 hosts silent: a, b"


def test_a_card_shows_names_from_other_machines_as_they_are():
    shown = message._without_markdown("host [Reset](http://evil.example/x) *b* _i_ `c` www.evil.example")
    assert "](" not in shown.replace("\\](", "")
    assert "http:" not in shown
    assert "www." not in shown
    assert shown.count("\\") == 8


def test_a_torn_record_damages_no_other(tmp_path):
    path = tmp_path / sending.LEDGER
    one, other = Delivered("2026-11-20", "f", "a"), Delivered("2026-11-21", "f", "a")
    with sending.opened(path) as book:
        book.note(one, Event.SENT, "v")
    with path.open("ab") as file:
        file.write(b'{"v": 1, "date": "2026-1')
    with sending.opened(path) as book:
        book.note(other, Event.SENT, "v")
    with sending.opened(path) as book:
        assert (book.states[one], book.states[other]) == (Event.SENT, Event.SENT)


def test_only_one_process_sends_at_a_time(reports):
    with smtp(Receiver()) as port, sending.opened(reports / sending.LEDGER):
        done = send(reports, mail_settings(reports, port))
    assert done.returncode == 69
    assert "is running" in done.stderr


def test_without_targets_nothing_is_sent(reports):
    done = send(reports, settings(reports, "# nothing yet\n"))
    assert done.returncode == 0
    assert not (reports / sending.LEDGER).exists()
