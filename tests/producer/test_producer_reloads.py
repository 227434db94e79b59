"""SIGHUP: new settings in the same process, and no line lost or doubled over it."""

import itertools
import os
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest
from harness.fleet import Fleet, Program, until
from harness.natsd import NatsServer, running
from harness.ports import free_port
from producing import append

from shipper.partition_map import partition_for

HOST = "web1.example.net"


class Reloaded:
    """A producer whose configuration file the test rewrites."""

    def __init__(self, fleet: Fleet, directory: Path, *first: str, listen: str = "", **environment: str) -> None:
        self.config = directory / "fshipper.toml"
        self.directory = directory
        self.configure(f'files = ["{directory}/app.log"]', f'listen = "{listen}"', *first)
        self.program: Program = fleet.start(
            "produce", "--config", str(self.config), HOSTNAME=HOST, SHIPPER_LISTEN=None, **environment
        )
        until(lambda: "session_begun" in self.log, what=lambda: self.log)

    @property
    def log(self) -> str:
        return self.program.log

    def configure(self, *lines: str, more: str = "") -> None:
        self.config.write_text("\n".join(["[producer]", 'poll = "20ms"', *lines, more, ""]))

    def hup(self) -> None:
        self.program.process.send_signal(signal.SIGHUP)

    def said(self, event: str) -> int:
        return self.log.count(event)

    def reload(self, event: str = "settings_reloaded") -> None:
        """SIGHUP, and wait until the producer logs `event` once more."""
        before = self.said(event)
        self.hup()
        until(lambda: self.said(event) > before, what=lambda: self.log)


def test_sighup_applies_new_settings_in_the_same_process_under_the_same_lock(tmp_path: Path, natsd: NatsServer) -> None:
    app, other = tmp_path / "app.log", tmp_path / "other.log"
    app.write_bytes(b"one\n")
    other.write_bytes(b"from its first byte\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = Reloaded(fleet, tmp_path)
        pid = producer.program.process.pid
        producer.configure(f'files = ["{app}", "{other}"]', 'encoding = "gzip"')
        producer.reload()
        append(app, b"two\n")
        until(lambda: producer.said("session_begun") == 2, what=lambda: producer.log)
        second = fleet.run("produce", "--once", str(app), HOSTNAME=HOST)
        assert second.returncode == 1
        assert str(pid) in second.stderr
        collector = fleet.consume()
        until(lambda: fleet.archived(HOST, app) == b"one\ntwo\n", what=lambda: producer.log)
        until(lambda: fleet.archived(HOST, other) == b"from its first byte\n", what=lambda: producer.log)
        assert (producer.program.process.pid, producer.program.stop()) == (pid, 0)
        assert collector.stop() == 0


def test_hup_after_hup_under_load_neither_loses_nor_doubles_a_line(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.log"
    path.touch()
    written = b""
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = Reloaded(fleet, tmp_path)
        for number in itertools.count():
            text = b"".join(b"%d %d\n" % (number, line) for line in range(2_000))
            append(path, text)
            written += text
            if number % 5 == 4:
                path.rename(tmp_path / f"app.log.{number}")
                path.touch()
            if producer.said("settings_reloaded") >= 20:
                break
            producer.hup()
            time.sleep(0.1)  # the pace of the signals is what is tried
        collector = fleet.consume()
        until(lambda: len(fleet.archived(HOST, path)) >= len(written), what=lambda: producer.log)
        assert producer.program.stop() == 0
        assert collector.stop() == 0
        assert fleet.archived(HOST, path) == written
        assert "bytes_lost" not in producer.log


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ('fils = ["/var/log/app.log"]', "did you mean producer.files"),
        ("files = []", "no file to ship"),
        ('files = ["{directory}"]', "is a directory"),
        ("files = [", "is no TOML"),
    ],
)
def test_a_bad_new_configuration_leaves_the_old_one_running(
    broken: str, said: str, tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = Reloaded(fleet, tmp_path)
        producer.configure(broken.replace("{directory}", str(tmp_path)))
        producer.reload("reload_refused")
        assert said in producer.log
        append(path, b"two\n")
        assert producer.program.stop() == 0
        assert producer.said("session_begun") == 1, "the old session was not touched"
        fleet.ship_once(HOST, path)
        fleet.drain()
        assert fleet.archived(HOST, path) == b"one\ntwo\n"


def test_settings_that_the_server_refuses_lead_back_to_those_that_worked(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    with running(tmp_path / "natsd") as natsd, Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        natsd.stop()
        with running(tmp_path / "natsd", port=natsd.port, extra="max_payload: 300KB"):
            producer = Reloaded(fleet, tmp_path, 'block = "256KiB"')
            producer.configure(f'files = ["{path}"]', 'block = "512KiB"')
            producer.reload("reload_refused")
            assert "a block needs" in producer.log
            append(path, b"two\n")
            collector = fleet.consume()
            until(lambda: fleet.archived(HOST, path) == b"one\ntwo\n", what=lambda: producer.log)
            assert producer.program.stop() == 0
            assert collector.stop() == 0


def test_a_reload_to_a_server_that_is_away_ends_nothing_and_the_next_reload_mends_it(
    tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        config = tmp_path / "fshipper.toml"
        lines = f'[producer]\nfiles = ["{path}"]\nhost = "{HOST}"\npoll = "20ms"\nlisten = ""\n[nats]\nurl = '
        config.write_text(f'{lines}"{natsd.url}"\n')
        program = fleet.start("produce", "--config", str(config), NATS_URL="", SHIPPER_LISTEN="")
        until(lambda: "session_begun" in program.log, what=lambda: program.log)
        config.write_text(f'{lines}"nats://127.0.0.1:{free_port()}"\n')
        program.process.send_signal(signal.SIGHUP)
        until(lambda: "no NATS server answers" in program.log, what=lambda: program.log)
        append(path, b"two\n")
        config.write_text(f'{lines}"{natsd.url}"\n')
        program.process.send_signal(signal.SIGHUP)
        until(lambda: program.log.count("session_begun") == 2, what=lambda: program.log)
        assert program.stop() == 0
        fleet.ship_once(HOST, path)
        fleet.drain()
        assert fleet.archived(HOST, path) == b"one\ntwo\n"


def test_settings_that_need_a_restart_are_reported_and_the_rest_is_applied(tmp_path: Path, natsd: NatsServer) -> None:
    app, other = tmp_path / "app.log", tmp_path / "other.log"
    app.write_bytes(b"one\n")
    other.write_bytes(b"other\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = Reloaded(fleet, tmp_path, f'state = "{tmp_path}/here"', SHIPPER_STATE="", SHIPPER_PARTITIONS="")
        producer.configure(
            f'files = ["{app}", "{other}"]', f'state = "{tmp_path}/elsewhere"', more="[logs]\npartitions = 3"
        )
        producer.reload("restart_needed")
        assert "producer.state" in producer.log
        assert "logs.partitions" in producer.log
        until(lambda: fleet.messages() == 2, what=lambda: producer.log)
        assert not (tmp_path / "elsewhere").exists()
        assert producer.program.stop() == 0
        assert producer.said(f"logs.p{partition_for(HOST, 4)}.{HOST}") >= 2


def test_a_fifo_that_a_reload_names_or_leaves_out_needs_a_restart_and_reports_it(
    tmp_path: Path, natsd: NatsServer
) -> None:
    app, pipe = tmp_path / "app.log", tmp_path / "app.fifo"
    app.touch()
    os.mkfifo(pipe)
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = Reloaded(fleet, tmp_path)
        producer.configure(f'files = ["{app}", "{pipe}"]')
        producer.reload("restart_needed")
        assert "producer.files" in producer.log
        assert producer.program.stop() == 0


def test_metrics_are_served_all_through_a_reload(tmp_path: Path, natsd: NatsServer) -> None:
    (tmp_path / "app.log").write_bytes(b"one\n")
    address = f"127.0.0.1:{free_port()}"
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = Reloaded(fleet, tmp_path, listen=address)
        producer.hup()
        while producer.said("session_begun") < 2:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
                assert b"fshipper_published_blocks_total" in answer.read()
        with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
            assert b'"sources": 1' in answer.read()
        moved = f"127.0.0.1:{free_port()}"
        producer.configure(f'files = ["{tmp_path}/app.log"]', f'listen = "{moved}"')
        producer.reload()
        until(lambda: producer.said("session_begun") == 3, what=lambda: producer.log)
        with urllib.request.urlopen(f"http://{moved}/metrics", timeout=5) as answer:
            assert answer.status == 200
        assert producer.program.stop() == 0


def next_phase(systemd: socket.socket) -> bytes:
    """The next notification of systemd, other than what the producer does just now."""
    while (told := systemd.recv(4096)).startswith(b"STATUS="):
        pass
    return told


def test_systemd_is_notified_of_the_begin_and_end_of_a_reload_also_when_it_is_refused(
    tmp_path: Path, natsd: NatsServer
) -> None:
    (tmp_path / "app.log").write_bytes(b"one\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, Fleet(tmp_path, natsd.url) as fleet:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)
        fleet.apply()
        producer = Reloaded(fleet, tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert next_phase(systemd) == b"READY=1"
        for broken in ("", "wrong = 1"):
            producer.configure(f'files = ["{tmp_path}/app.log"]', broken)
            before = time.monotonic_ns() // 1000
            producer.hup()
            reloading = dict(line.split("=") for line in next_phase(systemd).decode().splitlines())
            assert reloading["RELOADING"] == "1"
            assert before <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
            assert next_phase(systemd) == b"READY=1"
            if not broken:
                assert next_phase(systemd) == b"READY=1"  # the new pipeline's session
        assert producer.program.stop() == 0


def test_sighup_while_shipping_once_changes_nothing(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        program = fleet.start("produce", "--once", str(path), HOSTNAME=HOST)
        until(lambda: "session_ended" in program.log, what=lambda: program.log)  # there is no stream yet, so it waits
        program.process.send_signal(signal.SIGHUP)
        fleet.apply()
        assert program.wait() == 0, program.log
        assert "settings_reloaded" not in program.log
        fleet.drain()
        assert fleet.archived(HOST, path) == path.read_bytes()


def test_files_that_are_deleted_unread_are_read_over_a_reload_to_their_end(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    away = tmp_path / "away"
    away.mkdir()
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = Reloaded(fleet, tmp_path)
        until(lambda: fleet.messages() == 1, what=lambda: producer.log)
        port, text = natsd.port, b"".join(b"%d\n" % line for line in range(400_000))
        natsd.kill()
        append(path, text)  # more than the window holds at a time
        path.rename(tmp_path / "app.log.1")
        path.write_bytes(b"a successor\n" * 1000)
        until(lambda: producer.said("file_left") == 1, what=lambda: producer.log)
        (tmp_path / "app.log.1").rename(away / "gone")
        (away / "gone").unlink()
        producer.configure(f'files = ["{path}"]', 'drain_within = "100ms"')
        producer.reload()
        producer.reload()
        natsd.restart()
        assert natsd.port == port
        collector = fleet.consume()
        written = b"one\n" + text + b"a successor\n" * 1000
        until(lambda: len(fleet.archived(HOST, path)) >= len(written), what=lambda: producer.log)
        assert fleet.archived(HOST, path) == written
        assert "bytes_lost" not in producer.log
        assert (producer.program.stop(), collector.stop()) == (0, 0)
