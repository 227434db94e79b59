"""Names of files that hold a secret: nothing of it leaves the host, and each file keeps one name of its own."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from harness.fleet import Fleet
from harness.fleet import until as processes_until
from harness.natsd import NatsServer, running
from harness.waiting import becomes
from producing import Collector, Host, Producer, append
from prometheus_client import REGISTRY

from producer import batcher
from producer.batcher import Encoder
from producer.transform.edits import Edits
from shipper import codec
from shipper.compression import Compressor
from shipper.model import Encoding

SECRET = "hunter2x"
KEY = b"k" * 32


@pytest.mark.parametrize(
    "name", [f"/var/log/app-password={SECRET}.log", f"/srv/token={SECRET}/a.log", f"/l/ssn-{SECRET}.log", f"/{SECRET}"]
)
def test_a_secret_in_a_name_is_replaced_by_its_rule_and_a_hash_that_keeps_names_apart(name: str) -> None:
    patterns = ["token", "ssn-[a-z0-9]+", f"^/{SECRET}$"]
    shipped = Edits.of(redact=patterns, name_key=KEY).of_name(name)
    assert SECRET not in shipped
    assert shipped.startswith("/")
    assert shipped == Edits.of(redact=patterns, name_key=KEY).of_name(name)
    assert shipped != Edits.of(redact=patterns, name_key=b"x" * 32).of_name(name)
    assert shipped != Edits.of(redact=patterns, name_key=KEY).of_name(name.replace(SECRET, SECRET[:-1] + "y"))


def test_a_redacted_name_stays_as_it_is() -> None:
    edits = Edits.of(redact=["token", "[0-9a-f]{12}"], name_key=KEY)
    for name in (f"/d/postgres://me:{SECRET}@db/x", "/d/0123456789ab.log"):
        shipped = edits.of_name(name)
        assert shipped != name
        assert edits.of_name(shipped) == shipped


def test_usual_names_and_those_of_a_producer_that_redacts_nothing_stay() -> None:
    names = ["/var/log/auth.log", "/var/log/token-service.log", "/var/log/passwords/app.log", str(Path("/tmp/\udcff"))]
    assert [Edits.of(redact=["token", "card", "email"]).of_name(name) for name in names] == names
    assert Edits().of_name(f"/l/password={SECRET}") == f"/l/password={SECRET}"


def test_a_redacted_name_is_logged_once_without_the_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edits = Edits.of(redact=["token"])
    for name in ("app.log", "café-token=hunter2x.log", "\udcff-password=hunter2x.log"):
        (tmp_path / name).write_bytes(b"one\n")
    host = Host(tmp_path, "*.log", edits=edits)
    encoder = Encoder(Compressor(Encoding.IDENTITY), edits)
    before = REGISTRY.get_sample_value("fshipper_secret_file_names_total") or 0
    for _ in range(3):
        host.sources.scan()
        entries = encoder.entries(host.read_all())
        assert len(entries) == 3
        assert not any(SECRET in codec.from_headers(entry.headers).file for entry in entries)
        for path in tmp_path.glob("*.log"):
            append(path, b"more\n")
    said = [line for line in capsys.readouterr().err.splitlines() if "file_name_holds_secret" in line]
    assert len(said) == 2
    assert REGISTRY.get_sample_value("fshipper_secret_file_names_total") == before + 2
    assert not any(SECRET in line for line in said)


def test_few_redacted_names_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MOST_NAMES", 2)
    edits = Edits.of(redact=["token"])
    for number in range(5):
        (tmp_path / f"token=hunter{number}x.log").write_bytes(b"one\n")
    host, encoder = Host(tmp_path, "*.log", edits=edits), Encoder(Compressor(Encoding.IDENTITY), edits)
    host.sources.scan()
    assert len(encoder.entries(host.read_all())) == 5
    assert len(encoder._reported) <= 2


def test_rotations_restarts_and_a_lost_checkpoint_keep_the_name_and_double_nothing(tmp_path: Path) -> None:
    one, two = tmp_path / f"a-password={SECRET}1.log", tmp_path / f"a-password={SECRET}2.log"
    names = {path: Edits.of(redact=["token"], name_key=KEY).of_name(str(path)) for path in (one, two)}
    for path in names:
        path.write_bytes(b"first of %s\n" % path.name[-5:].encode())
    producer = Producer(tmp_path, "*.log", edits=Edits.of(redact=["token"], name_key=KEY))

    def texts() -> list[bytes]:
        return [producer.archived().text(name) for name in names.values()]

    async def scenario() -> None:
        async with producer.running():
            await becomes(lambda: texts() == [b"first of 1.log\n", b"first of 2.log\n"])
            append(one, b"more\n")
            one.rename(f"{one}.1")
            one.write_bytes(b"after\n")
            await becomes(lambda: texts()[0] == b"first of 1.log\nmore\nafter\n")
            shown = producer.pipeline.status()["redacted_names"]
            assert {each["inode"] for each in shown} >= {one.stat().st_ino, two.stat().st_ino}
            assert {each["file"] for each in shown} == set(names.values())
        append(two, b"later\n")
        async with producer.running():
            await becomes(lambda: texts()[1] == b"first of 2.log\nlater\n")
        (tmp_path / "checkpoint.sqlite").unlink()
        append(two, b"last\n")
        Collector(producer.bus, producer.archived())
        async with producer.running():
            await becomes(lambda: texts()[1] == b"first of 2.log\nlater\nlast\n")

    asyncio.run(scenario())
    assert set(producer.archived().files.values()) == set(names.values())
    assert texts() == [b"first of 1.log\nmore\nafter\n", b"first of 2.log\nlater\nlast\n"]


def test_nothing_of_the_secret_is_on_the_server_in_the_archive_or_in_a_log(tmp_path: Path, natsd: NatsServer) -> None:
    path, other = tmp_path / f"app-password={SECRET}.log", tmp_path / "other.log"
    for each in (path, other):
        each.write_bytes(b"one\n")
    config = tmp_path / "fshipper.toml"
    config.write_text(
        f'[producer]\nfiles = ["{tmp_path}/*.log"]\nredact = ["token"]\npattern_time = "2s"\nheartbeat = "200ms"\n'
    )
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        planned = json.loads(fleet.must("produce", "--dry-run", "--json", "--config", str(config), HOSTNAME="web1"))
        (name,) = {read["file"] for read in planned["reads"] if read["path"] == str(path)}
        assert SECRET not in name
        producer = fleet.start("produce", "--config", str(config), HOSTNAME="web1")
        collector = fleet.consume()
        processes_until(lambda: fleet.archived("web1", name) == b"one\n", what=producer.log)
        append(path, b"two\n")
        processes_until(lambda: fleet.archived("web1", name) == b"one\ntwo\n", what=producer.log)
        os.mkfifo(tmp_path / f"fifo-password={SECRET}.log")
        path.rename(gone := tmp_path / f"app-password={SECRET}.log.1")
        gone.unlink()
        events = ("fifo_not_read", "file_left")
        processes_until(lambda: all(each in producer.log for each in events), what=producer.log)
        told = fleet.must("audit", "--hosts", "--json") + fleet.must("status", "--json")
        assert name in told
        assert SECRET not in told + producer.log + collector.log
        assert "setting_without_effect" in producer.log
        assert "no effect since 0.2.0" in producer.log
        assert producer.stop() == collector.stop() == 0
        for root in (fleet.archive, tmp_path / "state" / "collector", natsd.directory):
            for file in root.rglob("*"):
                assert SECRET not in str(file)
                assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_a_host_with_a_second_name_logs_no_secret_of_what_the_first_one_shipped(
    tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / f"app-password={SECRET}.log"
    path.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        fleet.ship_once("first", path)
        done = fleet.run("produce", "--once", "--redact", "token", str(path), HOSTNAME="second")
        assert done.returncode == 0, done.stderr
        assert "shipped_as_another_host" in done.stderr
        assert SECRET not in done.stderr


def test_a_reload_that_is_refused_leaves_names_in_the_log_redacted(tmp_path: Path) -> None:
    path, config = tmp_path / f"app-password={SECRET}.log", tmp_path / "fshipper.toml"
    path.write_bytes(b"one\n")
    settings = f'[producer]\nfiles = ["{tmp_path}/app-*.log"]\npoll = "20ms"\n'
    config.write_text(settings + 'redact = ["token"]\nblock = "64KiB"\n')
    with running(tmp_path / "natsd") as natsd, Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        natsd.stop()
        with running(tmp_path / "natsd", port=natsd.port, extra="max_payload: 300KB"):
            producer = fleet.start("produce", "--config", str(config), HOSTNAME="web1")
            processes_until(lambda: "session_begun" in producer.log, what=lambda: producer.log)
            config.write_text(settings + 'block = "512KiB"\n')
            producer.process.send_signal(signal.SIGHUP)
            processes_until(lambda: "reload_refused" in producer.log, what=lambda: producer.log)
            path.rename(f"{path}.1")
            processes_until(lambda: "file_left" in producer.log, what=lambda: producer.log)
            assert SECRET not in producer.log
            assert producer.stop() == 0


def test_a_file_that_was_shipped_under_its_plain_name_goes_on_there_and_nothing_is_doubled(
    tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app-password=hunter3y.log"  # other than in the test above: the server is the same
    path.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        fleet.ship_once("web1", path)
        fleet.drain()
        append(path, b"two\n")
        fleet.ship_once("web1", path, options=("--redact", "token"))
        fleet.drain()
        assert fleet.archived("web1", path) == b"one\ntwo\n"
        path.rename(f"{path}.1")
        path.write_bytes(b"three\n")
        fleet.ship_once("web1", path, options=("--redact", "token"))
        fleet.drain()
        planned = json.loads(
            fleet.must("produce", "--dry-run", "--json", "--redact", "token", str(path), HOSTNAME="web1")
        )
        (name,) = {read["file"] for read in planned["reads"]}
        assert "hunter3y" not in name
        assert fleet.archived("web1", name) == b"three\n"
        assert fleet.archived("web1", path) == b"one\ntwo\n"
