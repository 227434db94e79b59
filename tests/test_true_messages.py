"""What programs write at their end is true: nothing is reported as sent or made that was not."""

import asyncio
import json
import socket

import nats
import pytest
from harness.fleet import Fleet, until

from shipper import telemetry


@pytest.fixture
def fleet(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=1) as found:
        found.apply()
        yield found


def log_file(fleet: Fleet) -> str:
    path = fleet.directory / "app.log"
    path.write_bytes(b"a line\n")
    return str(path)


def test_a_producer_without_a_session_does_not_say_that_it_is_drained(fleet, natsd):
    path = log_file(fleet)
    natsd.kill()
    done = fleet.run("produce", "--once", path, HOSTNAME="web1.example")
    assert done.returncode == 69
    assert "ended_without_session" in done.stderr
    assert "drained" not in done.stderr


def test_the_subject_of_a_first_start_is_not_guessed(fleet):
    done = fleet.run("produce", "--once", log_file(fleet), HOSTNAME="web1.example")
    (started,) = [line for line in done.stderr.splitlines() if "producer_started" in line]
    assert "subject" not in started
    assert "session_begun" in done.stderr


def test_a_refused_drain_leaves_nothing_on_the_disk(fleet):
    fleet.ship_once("web1.example", log_file(fleet))
    fleet.drain()
    other = fleet.directory / "other"
    done = fleet.run("consume", "--drain", SHIPPER_DIRECTORY=str(other), SHIPPER_STATE=str(fleet.directory / "state2"))
    assert done.returncode == 78
    assert not other.exists()
    other.mkdir()
    (other / "kept.txt").write_text("mine")
    done = fleet.run("consume", "--drain", SHIPPER_DIRECTORY=str(other))
    assert done.returncode == 78
    assert [each.name for each in other.iterdir()] == ["kept.txt"]
    assert fleet.run("search", "line").returncode == 0  # the archive that exists is as it was


def test_a_collector_can_check_its_server(fleet, natsd):
    collector = ("validate", "--role", "collector", "--connect")
    done = fleet.run(*collector)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 partition of 'logs'" in done.stdout
    natsd.kill()
    done = fleet.run(*collector)
    assert done.returncode == 69
    assert "no NATS server answers" in done.stdout


def test_the_times_of_dead_letters_for_programs_are_iso_8601(fleet):
    async def write_letter():
        client = await nats.connect(fleet.url)
        await client.publish("dlq.LOGS_0.web1", b"x", headers={"Dlq-Reason": "bad"})
        await client.flush()
        await client.close()

    asyncio.run(write_letter())
    letter = json.loads(fleet.must("dlq", "ls", "--json").splitlines()[0])
    assert letter["time"].startswith("20")
    assert letter["time"].endswith("Z")
    assert letter["time_ns"] > 0


@pytest.mark.parametrize(
    ("level", "is_chosen", "style", "is_terminal", "expected"),
    [
        ("info", False, "text", True, "warning"), ("info", True, "text", True, "info"),
        ("info", False, "json", True, "info"), ("info", False, "text", False, "info"),
        ("debug", False, "text", True, "debug"),
    ],
)  # fmt: skip
def test_work_with_an_end_is_quiet_on_a_terminal_only(monkeypatch, level, is_chosen, style, is_terminal, expected):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    assert telemetry.level_of_run(level, is_chosen=is_chosen, style=style) == expected


def test_a_hint_names_no_address_at_which_another_program_listens(fleet):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        path = log_file(fleet)
        first = fleet.start("produce", path, HOSTNAME="web1.example", SHIPPER_LISTEN=address)
        until(lambda: "session_begun" in first.log, what=lambda: first.log)
        second = fleet.run("produce", "--once", path, HOSTNAME="web1.example")
        assert "a producer of this host runs already" in second.stderr
        assert "curl" not in second.stderr
        assert first.stop() == 0
