"""`fshipper status` of real programs on a real server: who ships, who is dead, and the exit code."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import nats
import pytest
from harness.fleet import FSHIPPER, Fleet, until
from harness.natsd import running

from shipper.heartbeat import Heartbeat, LaggingFile, encode
from shipper.main import run

SOON = ("--dead-after", "1s", "--stuck-after", "1s")


@pytest.fixture
def fleet(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=2) as found:
        found.apply()
        yield found


def write(fleet: Fleet, host: str, lines: int = 10) -> Path:
    path = fleet.directory / host / "app.log"
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as log:
        log.write(b"one line of many\n" * lines)
    return path


def produce(fleet: Fleet, host: str):
    return fleet.start("produce", str(write(fleet, host)), HOSTNAME=host, SHIPPER_HEARTBEAT="0.25s")


def status(fleet: Fleet, *arguments: str) -> tuple[int, dict]:
    done = fleet.run("status", "--json", *SOON, *arguments)
    return done.returncode, json.loads(done.stdout)


def states(fleet: Fleet, *arguments: str) -> dict[str, str]:
    return {host["host"]: host["state"] for host in status(fleet, *arguments)[1]["hosts"]}


def publish(url: str, *messages: tuple[str, bytes]) -> None:
    async def within():
        client = await nats.connect(url)
        for subject, payload in messages:
            await client.publish(subject, payload)
        await client.flush()
        await client.close()

    asyncio.run(within())


def test_the_fleet_from_its_first_line_to_a_death_that_is_known_for_good(fleet, natsd):
    collector = fleet.consume()
    first, second = produce(fleet, "web1.example"), produce(fleet, "web2.example")
    until(lambda: set(states(fleet).values()) == {"shipping"}, what=lambda: first.log + second.log)
    until(lambda: fleet.archived("web1.example", fleet.directory / "web1.example/app.log"))

    code, all_well = status(fleet)
    assert (code, all_well["well"], all_well["counts"]["shipping"]) == (0, True, 2)
    assert [each["collector"] for each in all_well["partitions"]] == [all_well["partitions"][0]["collector"]] * 2
    (web1,) = [host for host in all_well["hosts"] if host["host"] == "web1.example"]
    assert (web1["files"], web1["shipped_bytes"], web1["backlog_bytes"]) == (1, 170, 0)

    second.kill()
    until(lambda: states(fleet)["web2.example"] == "dead", within=10)
    assert status(fleet)[0] == 2
    assert status(fleet, "web1*")[0] == 0
    assert states(fleet, "web*", "--state", "dead") == {"web2.example": "dead"}

    collector.restart()
    natsd.restart()
    until(lambda: states(fleet)["web1.example"] in {"shipping", "quiet"}, what=lambda: first.log)
    assert states(fleet)["web2.example"] == "dead"

    text = fleet.must("status", "--forget", "web2.example")
    assert text == "web2.example is forgotten\n"
    left = states(fleet)
    assert left["web1.example"] in {"shipping", "quiet"}
    assert left.get("web2.example") == "unknown"  # its lines are still in the stream


def test_a_host_that_is_requested_to_end_is_known_to_have_been_stopped(fleet):
    producer = produce(fleet, "web1.example")
    until(lambda: states(fleet).get("web1.example") == "shipping")
    assert producer.stop() == 0
    until(lambda: states(fleet)["web1.example"] == "dead", within=10)
    (host,) = status(fleet)[1]["hosts"]
    assert host["why"].startswith("was stopped ")


def test_a_host_whose_stream_is_gone_is_stuck_and_lives(fleet):
    produce(fleet, "web1.example")
    until(lambda: states(fleet).get("web1.example") == "shipping")
    partition = status(fleet)[1]["hosts"][0]["partition"]

    async def remove():
        client = await nats.connect(fleet.url)
        await client.request(f"$JS.API.STREAM.DELETE.LOGS_{partition}", b"", timeout=5)
        await client.close()

    asyncio.run(remove())
    write(fleet, "web1.example")
    until(lambda: "stuck" in states(fleet, "--dead-after", "20s").values(), within=30)
    (host,) = status(fleet, "--dead-after", "20s")[1]["hosts"]
    assert host["backlog_bytes"] == 170
    assert f"LOGS_{partition}" in host["why"]


def test_a_partition_without_a_collector_is_not_well(fleet):
    fleet.ship_once("web1.example", write(fleet, "web1.example"))
    code, found = status(fleet)
    assert code == 2
    assert [each["why"] for each in found["partitions"] if each["lag"]] == [
        "1 message waits, and no collector reads them"
    ]
    assert [host["state"] for host in found["hosts"]] == ["ended"]
    fleet.drain()
    assert status(fleet)[0] == 0


def test_the_table_names_the_worst_first_and_no_terminal_obeys_it(fleet):
    worst = (LaggingFile(file="/a\x1b[2J\u202e.log", offset=0, behind=9, age=9.0),)
    quiet = Heartbeat(version="1.0", partition=0, every=60.0, up=60.0, files=1, silent=60.0)
    stuck = Heartbeat(
        version="0.9\x1b[31m", partition=1, every=60.0, up=60.0, files=1, silent=60.0, backlog=2048, backlog_age=60.0,
        shipped=1, trouble="\x1b]0;x\x07 full", worst=worst,
    )  # fmt: skip
    many = [(f"logs.beat.quiet{number}", encode(quiet)) for number in range(20)]
    publish(fleet.url, *many, ("logs.beat.zz", encode(stuck)), ("logs.p0.plain", b"a line"))

    done = fleet.run("status", "--limit", "3", *SOON)
    rows = done.stdout.splitlines()
    assert done.returncode == 2
    assert rows[1].split()[:2] == ["zz", "stuck"]
    assert "2.0 KiB wait, nothing moved for 60 s" in rows[1]
    assert rows[2].split()[:2] == ["plain", "unknown"]
    assert "… and 19 more hosts" in done.stdout
    assert "22 hosts: 1 stuck, 1 unknown, 20 quiet" in done.stdout
    assert "versions: 1.0 (20), 0.9\\x1b[31m (1)" in done.stdout
    assert "\x1b" not in done.stdout
    assert fleet.run("status", "quiet*").returncode == 0


def test_watching_prints_one_object_a_line_until_it_ends(fleet, natsd):
    publish(fleet.url, ("logs.p0.plain", b"a line"))
    watching = subprocess.Popen(
        [FSHIPPER, "status", "--json", "--watch", "--every", "0.1s"],
        env=fleet.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        looks = [json.loads(watching.stdout.readline()) for _ in range(3)]
        natsd.restart()
        looks += [json.loads(watching.stdout.readline()) for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0, watching.stderr.read()
    finally:
        watching.kill()
        watching.communicate()
    assert {look["hosts"][0]["host"] for look in looks} == {"plain"}
    assert looks[-1]["at"] > looks[0]["at"]


def test_a_server_without_heartbeats_is_distinguished_from_one_without_hosts(fleet):
    async def remove():
        client = await nats.connect(fleet.url)
        await client.request("$JS.API.STREAM.DELETE.LOGS_BEATS", b"", timeout=5)
        await client.close()

    done = fleet.run("status")
    assert (done.returncode, "no host has sent anything yet" in done.stdout) == (0, True)
    asyncio.run(remove())
    assert "the server has no stream of heartbeats" in fleet.must("status")
    fleet.consume()
    until(
        lambda: "the server has no stream of heartbeats" not in fleet.must("status"),
        what="the collector makes their stream",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--state", "sleepy"), 64, "states are dead, stuck, unknown, shipping, quiet"),
        (("--dead-after", "soon"), 64, "no duration"),
        (("--forget", "a b"), 78, "cannot stand in a NATS subject"),
        (("--url", "nats://127.0.0.1:1"), 69, "no NATS server answers"),
    ],
)
def test_what_cannot_be_done_is_reported_with_its_code(capsys, arguments, code, text):
    assert run(["status", *arguments]) == code
    assert text in "".join(capsys.readouterr())


def test_a_server_without_streams_gets_the_command_that_creates_them(natsd, capsys):
    assert run(["status", "--url", natsd.url]) == 69
    assert "fshipper partition apply" in capsys.readouterr().err


def test_a_collectors_rights_are_enough(tmp_path):
    lines = (Path(__file__).parents[2] / "deploy/nats/nats-server.conf").read_text().splitlines()
    users = [line.removeprefix("#").removeprefix(" ") for line in lines[lines.index("# authorization {") :]]
    rights = "\n".join(users).replace('password: "$2a$11$..."', 'password: "x"')
    rights = rights.replace("users: [", 'users: [ { user: "admin", password: "x" },', 1)
    with running(tmp_path / "natsd", extra=rights) as natsd, Fleet(tmp_path, natsd.url) as fleet:
        fleet.must("partition", "apply", NATS_USER="admin", NATS_PASSWORD="x")
        collector = fleet.start("consume", NATS_USER="collector", NATS_PASSWORD="x")
        web1 = fleet.start(
            "produce",
            str(write(fleet, "web1.example.net")),
            HOSTNAME="web1.example.net",
            NATS_USER="web1",
            NATS_PASSWORD="x",
        )
        as_collector = {"NATS_USER": "collector", "NATS_PASSWORD": "x"}

        def seen() -> str:
            done = fleet.run("status", "--json", **as_collector)
            return done.stdout if done.returncode == 0 else ""

        until(lambda: '"state": "shipping"' in seen(), what=lambda: web1.log + collector.log)
        assert "refused" not in web1.log + collector.log


def test_a_named_host_that_is_unknown_is_not_well(fleet):
    quiet = Heartbeat(version="1.0", partition=0, every=60.0, up=60.0, files=1, silent=60.0)
    publish(fleet.url, ("logs.beat.web1", encode(quiet)))
    assert fleet.run("status", "web1").returncode == 0
    mistyped = fleet.run("status", "wbe1", "web*")
    assert (mistyped.returncode, mistyped.stderr) == (
        2,
        "error: no host is called 'wbe1': did you mean web1? there is web1\n",
    )
    assert fleet.run("status", "web1", "--state", "dead").returncode == 0  # none is dead: that was checked
