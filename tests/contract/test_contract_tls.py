"""TLS that the settings require is there, or nothing is sent: what each client does with each server."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nats.errors
import pytest
import trustme
from harness.fleet import Fleet, until
from harness.natsd import running
from harness.wiretap import Wiretap, answers_the_handshake, forwarded, info, plaintext, says, stripped

from shipper import main
from shipper.config import load
from shipper.errors import CertificateRefused, ConfigError, InsecureConnection, Unavailable
from shipper.jetstream.connection import connect
from shipper.settings import NatsSettings

TOKEN = "s3cr3t-t0ken"
HANDSHAKE = b"\x16\x03"
"""The first bytes of a TLS handshake: they say no more than the server's name."""


@dataclass
class Certificates:
    ca: Path
    certificate: Path
    key: Path
    other_ca: Path
    server: Path
    server_key: Path

    @property
    def tls(self) -> str:
        return f'cert_file: "{self.server}", key_file: "{self.server_key}"'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    directory = tmp_path_factory.mktemp("tls")
    authority, other = trustme.CA(), trustme.CA()
    names = {
        name: directory / f"{name}.pem" for name in ("ca", "certificate", "key", "other_ca", "server", "server_key")
    }
    authority.cert_pem.write_to_path(str(names["ca"]))
    other.cert_pem.write_to_path(str(names["other_ca"]))
    for whose, cert, key in (("localhost", "server", "server_key"), ("client", "certificate", "key")):
        made = authority.issue_cert(whose, "127.0.0.1")
        made.cert_chain_pems[0].write_to_path(str(names[cert]))
        made.private_key_pem.write_to_path(str(names[key]))
    return Certificates(**names)


@pytest.fixture(scope="module")
def servers(files: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of real servers, by what they offer."""
    directory = tmp_path_factory.mktemp("servers")
    token = f'authorization {{ token: "{TOKEN}" }}'
    tls = f"tls {{ {files.tls} }}\n{token}"
    first = f"tls {{ {files.tls}, handshake_first: true }}\n{token}"
    with (
        running(directory / "plain", jetstream=False, extra=token) as plain,
        running(directory / "required", jetstream=False, extra=tls) as required,
        running(directory / "optional", jetstream=False, extra=f"{tls}\nallow_non_tls: true") as optional,
        running(directory / "first", jetstream=False, extra=first) as begins,
    ):
        yield {"plain": plain.port, "required": required.port, "optional": optional.port, "first": begins.port}


def settings_for(wish: str, port: int, files: Certificates) -> NatsSettings:
    """What a client requires. The token is what must never be seen."""
    fields = {
        "nats": {"url": f"nats://127.0.0.1:{port}"},
        "tls": {"url": f"tls://127.0.0.1:{port}"},
        "TLS": {"url": f"TLS://127.0.0.1:{port}"},
        "ca": {"url": f"nats://127.0.0.1:{port}", "ca": files.ca},
        "no scheme, ca": {"url": f"127.0.0.1:{port}", "ca": files.ca},
        "certificate": {"url": f"nats://127.0.0.1:{port}", "certificate": files.certificate, "key": files.key},
        "mixed": {"url": f"nats://127.0.0.1:{port},tls://127.0.0.1:1"},
        "first": {"url": f"nats://127.0.0.1:{port}", "tls_first": True},
    }[wish]
    return NatsSettings(token=TOKEN, connect_timeout=2.0, **fields)


async def outcome(settings: NatsSettings) -> str:
    try:
        connection = await connect(settings, name="test", inbox="_INBOX")
    except (InsecureConnection, Unavailable) as error:
        return type(error).__name__
    try:
        encrypted = connection.client.is_encrypted
        await connection.client.flush(1)
        return "TLS" if encrypted else "plain"
    except nats.errors.Error:
        return "lost"
    finally:
        await connection.close()


@pytest.fixture
def trusted(files: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system trusts the authority of the servers."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files.ca))


REFUSED = "InsecureConnection"
TABLE = [
    # wish, offer, end
    ("nats", "plain", "plain"),
    ("nats", "required", "TLS"),
    ("nats", "optional", "plain"),
    ("nats", "stripped", "lost"),  # TLS was not required: the token was sent, and the server closes the connection
    *(
        (wish, offer, end)
        for wish in ("tls", "TLS", "ca", "no scheme, ca", "certificate", "mixed")
        for offer, end in (("plain", REFUSED), ("required", "TLS"), ("optional", "TLS"), ("stripped", REFUSED))
    ),
    ("first", "plain", REFUSED),
    ("first", "first", "TLS"),
    ("first", "stripped", REFUSED),
]


@pytest.mark.parametrize(("wish", "offer", "end"), TABLE)
async def test_each_wish_meets_each_offer_with_the_expected_end_and_no_secret_in_the_clear(
    wish: str, offer: str, end: str, servers: dict[str, int], files: Certificates, trusted: None
) -> None:
    behind = servers["required" if offer == "stripped" else offer]
    with Wiretap(stripped(behind) if offer == "stripped" else forwarded(behind)) as tap:
        met = await outcome(settings_for(wish, tap.port, files))
        assert met == end or (wish == "first" and end == REFUSED and met == "Unavailable")  # a reset may come first
        assert tap.connections
        if end in {"plain", "lost"}:
            assert TOKEN.encode() in tap.received  # what this test would see
        elif end == REFUSED and wish != "first":
            assert bytes(tap.received) == b""
        else:
            assert tap.received.startswith(HANDSHAKE)
            assert b"CONNECT" not in tap.received
            assert TOKEN.encode() not in tap.received


# -- answers that are no TLS ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (answers_the_handshake(b"+OK\r\nPONG\r\n"), InsecureConnection),
        (answers_the_handshake(b"HTTP/1.1 400 Bad Request\r\n\r\n"), InsecureConnection),
        (answers_the_handshake(b""), Unavailable),
        (says(info(tls_required=False, tls_available=False)), InsecureConnection),
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Unavailable),
        (says(b"INFO []\r\n"), Unavailable),
        (says(b'INFO "tls_required"\r\n'), Unavailable),
        (says(b'INFO {"connect_urls": 1}\r\n'), InsecureConnection),
        (says(b"INFO " + b"[" * 100_000 + b"\r\n"), Unavailable),
        (says(b"INFO " + b"x" * 1_000_000 + b"\r\n"), Unavailable),
        (says(b"-ERR 'tls'\r\n"), Unavailable),
    ],
)
async def test_an_answer_that_is_no_tls_ends_in_an_error_and_gets_no_secret(
    reply: Callable[..., None], error: type[Exception]
) -> None:
    with Wiretap(reply) as tap:
        with pytest.raises(error) as raised:
            await connect(NatsSettings(url=tap.url("tls"), token=TOKEN, connect_timeout=2.0), name="t", inbox="_INBOX")
        assert raised.value.hint
        assert b"CONNECT" not in tap.received
        assert TOKEN.encode() not in tap.received


async def test_a_server_that_the_authority_did_not_sign_gets_no_secret(
    servers: dict[str, int], files: Certificates
) -> None:
    with Wiretap(forwarded(servers["required"])) as tap:
        with pytest.raises(CertificateRefused, match="we do not trust the server's certificate"):
            await connect(NatsSettings(url=tap.url("tls"), token=TOKEN, ca=files.other_ca), name="t", inbox="_INBOX")
        assert TOKEN.encode() not in tap.received


async def test_servers_that_a_plaintext_server_names_are_not_queried(files: Certificates) -> None:
    with Wiretap(plaintext) as other, Wiretap(says(info(connect_urls=[f"127.0.0.1:{other.port}"]))) as tap:
        with pytest.raises(InsecureConnection):
            await connect(NatsSettings(url=tap.url("tls"), token=TOKEN, ca=files.ca), name="t", inbox="_INBOX")
        assert not other.connections


async def test_one_server_with_tls_in_the_list_is_found_and_the_others_hear_nothing(
    servers: dict[str, int], files: Certificates
) -> None:
    with Wiretap(plaintext) as tap:
        for _ in range(6):  # the order is random
            urls = f"{tap.url('nats')},tls://127.0.0.1:{servers['required']},{tap.url('tls')}"
            connection = await connect(NatsSettings(url=urls, token=TOKEN, ca=files.ca), name="t", inbox="_INBOX")
            assert connection.client.is_encrypted
            await connection.close()
        assert bytes(tap.received) == b""


async def test_a_key_in_the_url_and_an_nkey_stay_secret_too(tmp_path: Path) -> None:
    seed = tmp_path / "host.nk"
    seed.write_text("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n")
    with Wiretap(plaintext) as tap:
        for settings in (
            NatsSettings(url=tap.url("tls", "user:password@")),
            NatsSettings(url=tap.url("tls"), nkey_seed=seed),
            NatsSettings(url=tap.url("tls"), user="user", password="password"),
        ):
            with pytest.raises(InsecureConnection) as raised:
                await connect(settings, name="t", inbox="_INBOX")
            assert "password" not in str(raised.value)
        assert tap.connections == 3
        assert bytes(tap.received) == b""


# -- settings that cannot be meant ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://nats.example.net:4222", "begins with http:// is not a NATS URL; write nats://HOST:4222"),
        ("https://u:hidden@nats.example.net", "is not a NATS URL"),
        ("nat://nats.example.net", "is not a NATS URL"),
        ("nats://", "names no host"),
        ("tls://:4222", "names no host"),
        ("nats://nats.example.net:42x2", "the port of a URL"),
        ("nats://u:hidden@nats.example.net:99999", "the port of a URL"),
    ],
)
def test_a_url_that_no_nats_server_can_have_is_a_configuration_error(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load({"nats.url": f"nats://good.example.net,{url}"}, environment={})
    assert said in str(raised.value)
    assert "--url" in str(raised.value)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["nats.example.net", "nats.example.net:4222", "nats://[::1]:4222", "tls://nats.example.net", "a,b:1", "u:p@h:1"],
)
def test_urls_that_worked_before_are_taken_as_they_are(url: str) -> None:
    assert load({"nats.url": url}, environment={}).nats.url == tuple(url.split(","))


def test_a_url_of_tls_without_a_port_means_the_port_of_nats() -> None:
    from nats.aio.client import Client  # noqa: PLC0415

    assert Client._parse_server_uri("tls://nats.example.net").port == 4222


async def test_a_key_without_its_certificate_is_a_configuration_error(files: Certificates) -> None:
    with pytest.raises(ConfigError, match="NATS_KEY is set, and NATS_CERTIFICATE is not"):
        await connect(NatsSettings(url="tls://127.0.0.1:1", key=files.key), name="t", inbox="_INBOX")


async def test_a_websocket_without_tls_is_refused_where_tls_is_required(files: Certificates) -> None:
    with pytest.raises(ConfigError, match="never encrypted") as raised:
        await connect(NatsSettings(url="ws://127.0.0.1:1", ca=files.ca), name="t", inbox="_INBOX")
    assert "wss://" in raised.value.hint


async def test_a_websocket_without_its_package_gets_the_hint_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="aiohttp") as raised:
        await connect(NatsSettings(url="wss://127.0.0.1:1"), name="t", inbox="_INBOX")
    assert "pip install 'fshipper[websocket]'" in raised.value.hint


# -- the programs ---------------------------------------------------------------------------------------------------

COMMANDS = [
    "status",
    "status --watch",
    "status --json --watch",
    "status --forget web1",
    "audit archive --hosts",
    "dlq ls",
    "dlq requeue --all",
    "tail",
    "tail -f",
    "replay --to-subject x.y",
    "partition plan --partitions 1",
    "partition apply --partitions 1",
    "partition status",
    "partition export",
    "partition backup b --all",
    "partition copy-config LOGS_0 L",
    "partition purge LOGS_0 --all --yes",
    "partition rm-message LOGS_0 1",
    "partition account",
    "partition events",
    "partition move --partitions 2 --yes",
    "partition balance",
    "partition edge 100-101 --yes",
    "partition serve",
    "produce --once a.log",
    "produce a.log",
    "consume --directory out",
    "consume --directory out --drain",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_with_78_and_sends_nothing_where_tls_is_stripped(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_bytes(b"one\n")
    (tmp_path / "archive" / "_manifest").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with Wiretap(plaintext) as tap:
        for name, value in {
            "NATS_URL": tap.url("tls"), "NATS_TOKEN": TOKEN, "SHIPPER_STATE": str(tmp_path / "state"),
            "HOSTNAME": "web1.example.net", "SHIPPER_LISTEN": "127.0.0.1:0",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        code = main.run(command.split())
        said = capfd.readouterr()
        assert "no secure connection: the settings require TLS (tls:// in NATS_URL)" in said.err, said
        assert "\nhint: " in said.err
        assert code == 78
        assert tap.connections
        assert bytes(tap.received) == b""


def test_validate_reports_it_as_a_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with Wiretap(plaintext) as tap:
        monkeypatch.setenv("NATS_TOKEN", TOKEN)
        options = [
            "--host",
            "web1",
            "--state",
            str(tmp_path),
            "--json",
            "--url",
            tap.url("tls"),
            str(tmp_path / "*.log"),
        ]
        assert main.run(["validate", "--connect", *options]) == 69
        (check,) = [each for each in json.loads(capfd.readouterr().out)["checks"] if each["check"] == "server"]
        assert "offers no TLS" in check["text"]
        assert check["sign"] == "wrong"
        assert bytes(tap.received) == b""


# -- a long run -----------------------------------------------------------------------------------------------------


def ready(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_daemons_whose_server_loses_tls_send_nothing_report_the_reason_and_continue_when_it_is_back(
    files: Certificates, tmp_path: Path
) -> None:
    log, host = tmp_path / "app.log", "web1.example.net"
    log.write_bytes(b"before\n")
    extra = f'tls {{ {files.tls} }}\nauthorization {{ token: "{TOKEN}" }}'
    with (
        running(tmp_path / "natsd", extra=extra) as natsd,
        Wiretap(forwarded(natsd.port)) as tap,
        Fleet(tmp_path, tap.url("tls"), partitions=1) as fleet,
    ):
        secure = {"NATS_CA": str(files.ca), "NATS_TOKEN": TOKEN}
        fleet.must("partition", "apply", "--partitions", "1", **secure)
        addresses = [free_address() for _ in range(3)]
        programs = [
            fleet.start("produce", str(log), HOSTNAME=host, SHIPPER_LISTEN=addresses[0], **secure),
            fleet.start("consume", SHIPPER_LISTEN=addresses[1], **secure),
            fleet.start("partition", "serve", **secure),
        ]
        until(lambda: log.exists() and fleet.archived(host, log) == b"before\n", what="archived")
        until(lambda: "session_begun" in programs[2].log)
        assert TOKEN.encode() not in tap.received
        tap.cut(stripped(natsd.port))
        with log.open("ab") as file:
            file.write(b"meanwhile\n")
        for address in addresses[:2]:
            until(lambda address=address: ready(address)[0] == 503 and "no TLS" in ready(address)[1], what=address)
        for program in programs:
            until(
                lambda program=program: "the settings require TLS" in program.log,
                what=lambda program=program: program.log,
            )
            assert program.process.poll() is None, program.log
        until(lambda: tap.connections > 6)
        assert bytes(tap.received) == b""
        tap.cut(forwarded(natsd.port))
        until(lambda: fleet.archived(host, log) == b"before\nmeanwhile\n", what="archived")
        for address in addresses[:2]:
            until(lambda address=address: ready(address)[0] == 200, what=address)
        assert TOKEN.encode() not in tap.received
