"""`fshipper validate`: all problems together, the source of each value, and the replies of a real server."""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer, running

from producer.preflight.report import Sign
from producer.preflight.validate import writable
from shipper.heartbeat import beats_config
from shipper.jetstream.admin import administration
from shipper.jetstream.connection import connect
from shipper.main import run
from shipper.settings import NatsSettings

HOST = "web1.example.net"
NO_SUBSCRIBER = 65534
Validate = Callable[..., tuple[int, dict[str, Any]]]

RIGHTS = {
    "publish": ["logs.*.web1.example.net", "ctl.up.web1.example.net", "$JS.API.DIRECT.GET.*.logs.*.web1.example.net"],
    "subscribe": ["_INBOX_web1.example.net.>", "ctl.down.web1.example.net"],
}
"""As in deploy/nats/nats-server.conf."""


@pytest.fixture
def validate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Validate:
    """Runs `fshipper validate --json ...`; the exit code and the checks by name, each as (sign, text, hint)."""
    monkeypatch.setenv("HOSTNAME", HOST)
    monkeypatch.setenv("SHIPPER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SHIPPER_FILE", str(tmp_path / "*.log"))
    (tmp_path / "app.log").write_bytes(b"one\n")

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = run(["validate", "--json", *arguments])
        return code, json.loads(capsys.readouterr().out)

    return call


def check(found: dict[str, Any], name: str) -> dict[str, str]:
    """The one check of that name."""
    (one,) = [each for each in found["checks"] if each["check"] == name]
    return one


def signs(found: dict[str, Any]) -> dict[str, str]:
    return {each["check"]: each["sign"] for each in found["checks"]}


# -- settings, files, directories -----------------------------------------------------------------------------------


def test_every_problem_of_the_settings_is_reported_together_with_its_place(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "fshipper.toml"
    config.write_text('[producer]\nblok = "1MiB"\npoll = "often"\n')
    monkeypatch.setenv("SHIPPER_WINDOW", "huge")
    code, found = validate("--config", str(config), "--partitions", "-1")
    texts = "\n".join(each["text"] for each in found["checks"])
    assert (code, found["ok"]) == (78, False)
    for problem in ("did you mean producer.block", "'often' is no duration", "SHIPPER_WINDOW", "--partitions"):
        assert problem in texts


def test_a_value_is_shown_with_the_flag_the_variable_or_the_file_it_comes_from(
    validate: Validate, tmp_path: Path
) -> None:
    config = tmp_path / "fshipper.toml"
    config.write_text('[producer]\nblock = "64KiB"\n[logs]\npartitions = 4\n')
    code, found = validate("--config", str(config), "--partitions", "8")
    assert code == 0
    assert found["settings"]["producer.block"] == {"value": "65536", "from": str(config)}
    assert found["settings"]["logs.partitions"] == {"value": "8", "from": "--partitions"}
    assert found["settings"]["producer.host"] == {"value": HOST, "from": "HOSTNAME"}
    assert "producer.window" not in found["settings"], "it is the default"


def test_secrets_are_never_shown(validate: Validate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_PASSWORD", "hush-1")
    monkeypatch.setenv("NATS_TOKEN", "hush-2")
    monkeypatch.setenv("NATS_URL", "nats://me:hush-3@127.0.0.1:4222")
    _, found = validate()
    assert found["settings"]["nats.url"]["value"] == "nats://127.0.0.1:4222"
    assert found["settings"]["nats.password"] == {"value": "***", "from": "NATS_PASSWORD"}
    assert "hush" not in json.dumps(found)


def test_a_pattern_that_matches_no_file_is_a_warning_and_no_error(validate: Validate, tmp_path: Path) -> None:
    code, found = validate(str(tmp_path / "none-*.txt"))
    assert (code, found["ok"]) == (0, True)
    assert "none-*.txt matches no file yet" in next(c for c in found["checks"] if c["sign"] == "warning")["text"]


def test_a_file_that_cannot_be_read_is_an_error(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "loop.log").symlink_to(tmp_path / "loop.log")
    code, found = validate()
    assert code == 78
    assert "loop.log: Too many levels of symbolic links" in json.dumps(found["checks"])


def test_a_directory_and_no_file_at_all_are_errors(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = validate(str(tmp_path))
    assert (code, "is a directory" in check(found, "files")["text"]) == (78, True)
    monkeypatch.delenv("SHIPPER_FILE")
    code, found = validate()
    assert (code, check(found, "files")["text"]) == (78, "no file to ship")


def test_a_state_directory_that_is_not_there_is_reported_and_not_made(validate: Validate, tmp_path: Path) -> None:
    code, found = validate()
    assert (code, check(found, "state")["sign"]) == (0, "info")
    assert f"{tmp_path}/state/producer/{HOST} would be made" in check(found, "state")["text"]
    assert not (tmp_path / "state").exists()
    (tmp_path / "state" / "producer" / HOST).mkdir(parents=True)
    assert check(validate()[1], "state")["sign"] == "ok"


def test_a_state_directory_that_cannot_be_made_is_an_error(validate: Validate, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"a file lies there")
    code, found = validate()
    assert (code, check(found, "state")["sign"]) == (78, "wrong")


@contextlib.contextmanager
def rights_of_nobody() -> Iterator[None]:
    """Root may write everywhere: the block runs as a user that may not. Other users have no such right to lose."""
    root = os.geteuid() == 0
    if root:
        os.setresuid(NO_SUBSCRIBER, NO_SUBSCRIBER, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)


def test_a_state_directory_without_the_right_to_write_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as directory:  # `tmp_path` is hidden from others altogether
        os.chmod(directory, 0o555)
        with rights_of_nobody():
            found = writable("state", Path(directory))
    assert (found.sign, found.text) == (Sign.WRONG, f"this user may not write to {directory}")


@pytest.mark.parametrize("url", ["nats://me:a/b@h:1", "nats://me:a@b@h:1", "me:ab@h:1", "nats://ab@h:1"])
def test_what_is_secret_in_a_url_is_never_shown(validate: Validate, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("NATS_URL", url)
    shown = validate()[1]["settings"]["nats.url"]["value"]
    assert shown == url.replace(url[url.find("//") + 2 if "//" in url else 0 : url.rfind("@") + 1], "")


def test_a_credentials_file_that_is_not_there_is_found_without_a_server(
    validate: Validate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_CREDS", "/nowhere/at/all.creds")
    code, found = validate()
    assert (code, check(found, "nats.creds")["sign"]) == (78, "wrong")


def test_a_collectors_configuration_needs_no_files_but_a_directory_that_can_be_written(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHIPPER_FILE")
    monkeypatch.setenv("SHIPPER_DIRECTORY", str(tmp_path / "archive"))
    code, found = validate()
    assert (code, check(found, "archive")["sign"]) == (0, "info")
    assert "files" not in signs(found)
    (tmp_path / "archive").write_bytes(b"")
    assert validate()[0] == 78


def test_for_people_each_check_is_a_line_with_a_sign_and_the_next_step(
    validate: Validate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--url", "nats://127.0.0.1:1", "--connect"]) == 69
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("+ host: web1.example.net, partition 0") for line in lines)
    (number,) = [number for number, line in enumerate(lines) if line.startswith("! server: no NATS server answers")]
    assert "correct NATS_URL (--url)" in lines[number + 1]


# -- with a server --------------------------------------------------------------------------------------------------


def on_server(server: NatsServer, work: Callable[[Any], Any], **user: str) -> Any:
    async def within() -> Any:
        async with administration(NatsSettings.model_validate({"url": server.url, **user})) as admin:
            return await work(admin)

    return asyncio.run(within())


def make(server: NatsServer, **changes: Any) -> None:
    config = {
        "name": "LOGS_0",
        "subjects": ["logs.p0.>"],
        "discard": "new",
        "max_bytes": 1 << 30,
        "allow_direct": True,
    } | changes
    on_server(server, lambda admin: admin.create_stream(config))


def messages(server: NatsServer, stream: str = "LOGS_0") -> int:
    return int(on_server(server, lambda admin: admin.stream(stream))["state"]["messages"])


def test_a_server_that_is_ready_passes_every_check_and_stores_nothing(validate: Validate, natsd: NatsServer) -> None:
    make(natsd)
    code, found = validate("--connect", "--url", natsd.url)
    assert (code, found["ok"]) == (0, True), found
    asked = ["server", "max_payload", "inbox", "questions", "publish", "stream", "direct_get"]
    assert {signs(found)[name] for name in asked} == {"ok"}
    assert "no collector answers" in check(found, "collector")["text"]
    assert "no collector keeps heartbeats here" in check(found, "name")["text"]
    assert messages(natsd) == 0
    on_server(natsd, lambda admin: admin.create_stream(beats_config("logs")))
    assert signs(validate("--connect", "--url", natsd.url)[1])["name"] == "ok"


def test_a_host_that_may_not_read_its_heartbeats_is_notified_that_its_name_is_not_checked(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = with_rights(validate, tmp_path, monkeypatch, without="$JS.API.DIRECT.GET.*.logs.*.web1.example.net")
    assert (code, signs(found)["name"], signs(found)["direct_get"]) == (0, "warning", "info")
    assert "is not checked at the start" in check(found, "name")["text"]
    assert "only its sequence is compared" in check(found, "direct_get")["text"]


def test_without_connect_no_request_is_sent(validate: Validate) -> None:
    code, found = validate("--url", "nats://127.0.0.1:1")
    assert (code, "server" in signs(found)) == (0, False)


def test_a_missing_stream_is_reported_with_the_command_that_makes_it(validate: Validate, natsd: NatsServer) -> None:
    code, found = validate("--connect", "--url", natsd.url, "--partitions", "4")
    assert code == 69
    assert (check(found, "publish")["sign"], check(found, "stream")["sign"]) == ("wrong", "wrong")
    assert check(found, "publish")["hint"] == "create it: fshipper partition apply --partitions 4"


def test_the_partition_map_decides_and_the_settings_that_disagree_are_named(
    validate: Validate, tmp_path: Path, natsd: NatsServer
) -> None:
    Fleet(tmp_path, natsd.url, partitions=4).apply()
    code, found = validate("--connect", "--url", natsd.url, "--partitions", "64")
    assert (code, check(found, "partitions")["sign"]) == (0, "info")
    assert (
        "version 1 of the partition map: partition 1 of 4; SHIPPER_PARTITIONS is 64"
        in (check(found, "partitions")["text"])
    )
    assert "LOGS_1" in check(found, "publish")["text"]
    _, found = validate("--connect", "--url", natsd.url, "--partitions", "4")
    assert check(found, "partitions")["sign"] == "ok"


@pytest.mark.parametrize(("number", "sign"), [("0", "wrong"), ("64", "wrong"), ("4", "info")])
def test_without_a_map_the_settings_must_agree_with_the_streams(
    validate: Validate, natsd: NatsServer, number: str, sign: str
) -> None:
    for partition in range(4):
        make(natsd, name=f"LOGS_{partition}", subjects=[f"logs.p{partition}.>"])
    code, found = validate("--connect", "--url", natsd.url, "--partitions", number)
    assert (check(found, "partitions")["sign"], code) == (sign, 69 if sign == "wrong" else 0)
    if sign == "wrong":
        assert "the server has 4 partitions and no partition map" in check(found, "partitions")["text"]
        assert "SHIPPER_PARTITIONS=4" in check(found, "partitions")["hint"]


def test_a_server_without_jetstream_is_reported(validate: Validate, tmp_path: Path) -> None:
    with running(tmp_path / "plain", jetstream=False) as server:
        code, found = validate("--connect", "--url", server.url)
    assert (code, check(found, "jetstream")["sign"]) == (69, "wrong")


def test_a_collector_that_answers_is_seen(validate: Validate, tmp_path: Path, natsd: NatsServer) -> None:
    with Fleet(tmp_path, natsd.url, partitions=0) as fleet:
        fleet.apply()
        collector = fleet.consume()
        until(lambda: "session_begun" in collector.log, what=lambda: collector.log)
        _, found = validate("--connect", "--url", natsd.url)
        assert "a collector answers for partition 0" in check(found, "collector")["text"]
        assert collector.stop() == 0


def test_a_payload_limit_below_a_block_is_wrong(validate: Validate, tmp_path: Path) -> None:
    with running(tmp_path / "small", extra="max_payload: 100KB") as server:
        make(server)
        code, found = validate("--connect", "--url", server.url)
    assert (code, check(found, "max_payload")["sign"]) == (69, "wrong")
    assert "--block" in check(found, "max_payload")["hint"]


def fill(server: NatsServer) -> None:
    async def within() -> None:
        connection = await connect(NatsSettings.model_validate({"url": server.url}), name="test", inbox="_INBOX_test")
        answer = b""
        while b"error" not in answer:
            answer = (await connection.client.request("logs.p0.other", b"x" * 100_000, timeout=30)).data
        await connection.close()

    asyncio.run(within())


def test_a_full_stream_is_wrong_though_it_would_take_the_subject(validate: Validate, natsd: NatsServer) -> None:
    make(natsd, max_bytes=1 << 20)
    fill(natsd)
    code, found = validate("--connect", "--url", natsd.url)
    assert (code, check(found, "room")["sign"], check(found, "publish")["sign"]) == (69, "wrong", "ok")


@pytest.mark.parametrize(
    ("changes", "name", "sign", "code"),
    [
        ({"discard": "old"}, "discard", "warning", 0),
        ({"max_bytes": -1}, "max_bytes", "warning", 0),
        ({"storage": "memory", "max_bytes": 1 << 20}, "storage", "warning", 0),
        ({"retention": "workqueue"}, "retention", "wrong", 69),
        ({"max_msg_size": 100_000}, "max_msg_size", "wrong", 69),
        ({"allow_direct": False}, "direct_get", "wrong", 69),
        ({"name": "OTHER"}, "publish", "wrong", 69),
        ({"subjects": ["logs.p1.>"]}, "publish", "wrong", 69),
    ],
)
def test_a_stream_that_could_lose_or_refuse_lines_is_reported(
    changes: dict[str, Any], name: str, sign: str, code: int, validate: Validate, natsd: NatsServer
) -> None:
    make(natsd, **changes)
    ended, found = validate("--connect", "--url", natsd.url)
    assert (ended, check(found, name)["sign"]) == (code, sign), found


def guarded(publish: list[str], subscribe: list[str]) -> str:
    quoted = [json.dumps(subjects) for subjects in (publish, subscribe)]
    return (
        'authorization { users: [ { user: "admin", password: "a" }\n'
        f'{{ user: "web1", password: "b", permissions: {{ publish: {{ allow: {quoted[0]} }}\n'
        f"subscribe: {{ allow: {quoted[1]} }} }} }} ] }}"
    )


def with_rights(
    validate: Validate, directory: Path, monkeypatch: pytest.MonkeyPatch, *, without: str = "", password: str = "b"
) -> tuple[int, dict[str, Any]]:
    """`validate` as a host with the documented rights but one."""
    rights = {way: [subject for subject in subjects if subject != without] for way, subjects in RIGHTS.items()}
    with running(directory / "guarded", extra=guarded(**rights)) as server:
        config = {"name": "LOGS_0", "subjects": ["logs.p0.>"], "discard": "new", "allow_direct": True}
        on_server(server, lambda admin: admin.create_stream(config), user="admin", password="a")
        monkeypatch.setenv("NATS_USER", "web1")
        monkeypatch.setenv("NATS_PASSWORD", password)
        return validate("--connect", "--url", server.url)


def test_the_documented_rights_of_a_host_are_enough(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = with_rights(validate, tmp_path, monkeypatch)
    assert (code, found["ok"]) == (0, True), found
    assert "not shown to this user" in check(found, "stream")["text"]


@pytest.mark.parametrize(
    ("without", "name", "right"),
    [
        ("logs.*.web1.example.net", "publish", "logs.p0.web1.example.net"),
        ("ctl.up.web1.example.net", "collector", "ctl.up.web1.example.net"),
        ("_INBOX_web1.example.net.>", "inbox", "_INBOX_web1.example.net.>"),
        ("ctl.down.web1.example.net", "questions", "ctl.down.web1.example.net"),
    ],
)
def test_a_right_that_is_missing_is_named_and_the_others_are_not_blamed(
    without: str, name: str, right: str, validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = with_rights(validate, tmp_path, monkeypatch, without=without)
    assert code == 69
    assert [each["check"] for each in found["checks"] if each["sign"] == "wrong"] == [name]
    assert right in check(found, name)["hint"]
    assert "the server refuses this user the right to" in check(found, name)["text"]


def test_a_wrong_password_is_refused_by_the_server(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = with_rights(validate, tmp_path, monkeypatch, password="wrong")
    assert (code, check(found, "server")["sign"]) == (69, "wrong")
    assert "refuses us" in check(found, "server")["text"]


# -- secrets that others can read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "said"),
    [(0o600, ""), (0o640, ""), (0o644, "may read it"), (0o606, "may read and change it"), (0o602, "may change it")],
)
@pytest.mark.parametrize("setting", ["NATS_NKEY", "NATS_CREDS", "NATS_KEY"])
def test_a_secret_that_other_users_can_read_or_change_is_a_visible_warning(
    validate: Validate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, mode: int, said: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SU...")
    secret.chmod(mode)
    monkeypatch.setenv(setting, str(secret))
    code, found = validate()
    warnings = [each for each in found["checks"] if each["check"].startswith("nats.") and each["sign"] == "warning"]
    assert code == 0
    assert [said in each["text"] and str(secret) in each["text"] for each in warnings] == ([True] if said else [])
    assert all(each["hint"] == f"chmod 600 {secret}" for each in warnings)


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ('[nats]\npassword = "hush"\n', 0o644, "holds a secret, and every user of this machine may read it"),
        ('[nats]\ntoken = "hush"\n', 0o666, "may read and change it"),
        ('[nats]\nurl = "nats://me:hush@127.0.0.1:4222"\n', 0o604, "holds a secret"),
        ("[logs]\npartitions = 4\n", 0o666, "every user of this machine may read and change it"),
        ("[logs]\npartitions = 4\n", 0o644, ""),
        ('[nats]\npassword = "hush"\n', 0o640, ""),
    ],
)
def test_a_configuration_file_that_others_can_read_or_change_is_a_warning(
    validate: Validate, tmp_path: Path, text: str, mode: int, said: str
) -> None:
    config = tmp_path / "fshipper.toml"
    config.write_text(text)
    config.chmod(mode)
    code, found = validate("--config", str(config))
    warnings = [each["text"] for each in found["checks"] if each["check"] == "config"]
    assert code == 0
    assert [said in warning for warning in warnings] == ([True] if said else [])
    assert "hush" not in json.dumps(found)


@pytest.mark.parametrize(
    ("environment", "warned"),
    [
        ({"NATS_URL": "nats://nats.example.net", "NATS_TOKEN": "hush"}, True),
        ({"NATS_URL": "nats://me:hush@nats.example.net"}, True),
        ({"NATS_URL": "nats://127.0.0.1,me:hush@10.0.0.1:4222"}, True),
        ({"NATS_URL": "tls://nats.example.net", "NATS_TOKEN": "hush"}, False),
        ({"NATS_URL": "nats://me:hush@127.0.0.1,nats://[::1]:4222,localhost", "NATS_TOKEN": "hush"}, False),
        ({"NATS_URL": "nats://nats.example.net"}, False),
    ],
)
def test_a_password_for_another_machine_without_tls_is_a_warning(
    validate: Validate, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], warned: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, found = validate()
    assert code == 0
    assert [each["sign"] for each in found["checks"] if each["check"] == "tls"] == (["warning"] if warned else [])
