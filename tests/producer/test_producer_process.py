"""The program itself, on a real server: one state directory, signals, and kill -9."""

import time
from pathlib import Path

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from harness.waiting import slowdown
from producing import append

HOST = "web1.example.net"


@pytest.mark.real_start
def test_a_state_directory_that_is_in_use_is_refused_with_the_name_of_the_process(
    tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        first = fleet.produce(HOST, path)
        until(lambda: "session_begun" in first.log, what=lambda: first.log)
        second = fleet.run("produce", "--once", str(path), HOSTNAME=HOST)
        assert second.returncode == 1
        assert str(first.process.pid) in second.stderr
        assert f"(fshipper produce {path})" in second.stderr
        assert f"systemctl status fshipper-producer, or ps -fp {first.process.pid}" in second.stderr
        assert "curl http://127.0.0.1:0/status" in second.stderr
        assert f"kill -HUP {first.process.pid}" in second.stderr
        assert "state directory" not in second.stderr
        assert first.stop() == 0


@pytest.mark.parametrize("trouble", ["gone", "hung"])
def test_sigterm_ends_within_the_deadline_when_the_server_is_away_and_the_next_start_sends_the_rest(
    trouble: str, tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        config = tmp_path / "fshipper.toml"
        config.write_text('[producer]\ndrain_within = "1s"\npoll = "50ms"\n')
        producer = fleet.produce(HOST, path, options=("--config", str(config)))
        until(lambda: fleet.messages() == 1, what=lambda: producer.log)
        if trouble == "gone":
            natsd.kill()
        else:
            natsd.pause()
        append(path, b"two\n")
        time.sleep(0.3)  # read and in flight, or not: both must end
        began = time.monotonic()
        assert producer.stop(within=10) == 0, producer.log
        assert time.monotonic() - began < 5 * slowdown()
        if trouble == "gone":
            natsd.start()
        else:
            natsd.resume()
        fleet.ship_once(HOST, path)
        fleet.drain()
        assert fleet.archived(HOST, path) == b"one\ntwo\n"


def test_sigterm_waits_for_what_is_in_flight_and_leaves_the_checkpoint_at_the_last_byte(
    tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n" * 200_000)
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, path)
        until(lambda: fleet.messages() > 0, what=lambda: producer.log)
        assert producer.stop() == 0
        assert "left=0" in producer.log
        before = fleet.messages()
        fleet.ship_once(HOST, path)
        fleet.drain()
        assert fleet.archived(HOST, path) == path.read_bytes()
        assert fleet.messages() - before <= 4  # nothing that was acknowledged came again


def test_a_producer_that_is_killed_again_and_again_ships_every_byte_once(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.log"
    path.touch()
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, path, options=("--poll", "20ms"))
        until(lambda: "session_begun" in producer.log, what=lambda: producer.log)
        written = b""
        for number in range(6):
            text = b"".join(b"%d %d\n" % (number, line) for line in range(30_000))
            append(path, text)
            written += text
            if number % 2:
                path.rename(tmp_path / f"app.log.{number}")
                path.touch()
            producer.restart()
        collector = fleet.consume()
        until(lambda: len(fleet.archived(HOST, path)) >= len(written), what=lambda: producer.log)
        assert fleet.archived(HOST, path) == written
        assert producer.stop() == 0
        assert collector.stop() == 0


def test_hints_and_polling_give_the_same(tmp_path: Path, natsd: NatsServer) -> None:
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        paths = {"web1.example.net": ("--poll", "1h"), "web2.example.net": ("--poll", "50ms", "--no-watch")}
        programs = []
        for host, options in paths.items():
            (tmp_path / host).mkdir()
            programs.append(fleet.produce(host, tmp_path / host / "*.log", options=options))
        for program in programs:
            until(lambda: "session_begun" in program.log, what=lambda: program.log)  # noqa: B023
        collector = fleet.consume()
        for text in (b"one\n", b"two\n", b"three\n"):
            for host in paths:
                append(tmp_path / host / "app.log", text)
                until(lambda: fleet.archived(host, tmp_path / host / "app.log").endswith(text))  # noqa: B023
                if text == b"two\n":
                    (tmp_path / host / "app.log").rename(tmp_path / host / "app.log.1")
        for host in paths:
            assert fleet.archived(host, tmp_path / host / "app.log") == b"one\ntwo\nthree\n"
        for program in [*programs, collector]:
            assert program.stop() == 0
