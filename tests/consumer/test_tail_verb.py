"""`fshipper tail` as people run it: a real server, many hosts, a real producer."""

import os
import pty
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from collecting import Log
from harness.fleet import FSHIPPER, until
from harness.natsd import NatsServer
from hostile import publish
from tail_fleet import TailFleet, logs, objects

from shipper.jetstream.ordered_consumer import INACTIVE_SECONDS
from shipper.partition_map import partition_for

WEB, DB = "web1.example.net", "db1.example.net"
HUNDREDS = [f"web{number}.example.net" for number in range(200)]
LIMIT_SECONDS = 5.0  # a busy machine; what is measured is in docs/reference/tail.md


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer) -> Iterator[TailFleet]:
    with TailFleet(tmp_path, natsd) as fleet:
        yield fleet


def test_a_line_of_one_of_201_hosts_is_there_soon_after_its_write_and_ctrl_c_leaves_nothing(
    fleet: TailFleet, tmp_path: Path
):
    fleet.send(*(block for log in logs(HUNDREDS) for block in fleet.blocks(log)))
    path = tmp_path / "access.log"
    path.write_text("before\n")
    fleet.produce("web200.example.net", path)
    following = fleet.follow("web*")
    following.writes(b"before\n")
    seconds = []
    for number in range(5):
        line = f"line {number}\n".encode()
        with path.open("ab") as file:
            file.write(line)
        seconds.append(following.writes(f"web200.example.net {path}: ".encode() + line, within=LIMIT_SECONDS))
    print(f"median {statistics.median(seconds):.3f} s")
    assert len(fleet.readers()) == fleet.partitions
    assert following.stop(signal.SIGINT) == 130
    assert fleet.readers() == []


def test_a_follower_does_not_wait_for_the_delay_of_the_host(fleet: TailFleet, tmp_path: Path):
    path = tmp_path / "access.log"
    path.write_text("before\n")
    producer = fleet.start("produce", str(path), HOSTNAME=WEB, SHIPPER_MAX_DELAY="10s")
    until(lambda: "session_begun" in producer.log, what=lambda: producer.log)
    following = fleet.follow(WEB)
    following.writes(b"before\n")
    seconds = []
    for number in range(5):
        line = f"line {number}\n".encode()
        with path.open("ab") as file:
            file.write(line)
        seconds.append(following.writes(line))
    assert statistics.median(seconds) < LIMIT_SECONDS
    assert following.complained() == ""


def test_all_hosts_are_one_log_in_the_order_in_which_it_was_stored(fleet: TailFleet):
    sources = logs([WEB, DB, "web2.example.net"], lines=3)
    messages = [
        block
        for n in range(3)
        for log in sources
        for block in fleet.blocks(log, *(len(log.data) // 3 * k for k in (n, n + 1)))
    ]
    for message in messages:
        fleet.send(message)
    assert fleet.tail("--raw") == b"".join(f"{log.host} says {n}\n".encode() for n in range(3) for log in sources)


def test_hosts_files_and_lines_are_chosen(fleet: TailFleet):
    fleet.send(
        *fleet.blocks(Log(b"GET /\nPOST /Login\nGET /x\n", host=WEB, file="/var/log/nginx/access.log")),
        *fleet.blocks(Log(b"started\n", id="00000000000000a2", host=WEB, file="/var/log/app.log")),
    )
    fleet.send(*fleet.blocks(Log(b"GET of a database\n", host=DB, file="/var/log/db.log")))
    named = f"{WEB} /var/log/nginx/access.log: ".encode()
    assert fleet.tail("web*", "--file", "*access*", "--grep", "^GET") == named + b"GET /\n" + named + b"GET /x\n"
    assert fleet.tail("--file", "access.log", "--raw", "-i", "-g", "login") == b"POST /Login\n"
    assert fleet.tail("WEB1.example.net", "--raw", "-v", "-g", "GET", "-g", "started") == b"POST /Login\n"
    assert fleet.tail("*.example.net", "--raw", "-n", "2", "--file", "*access.log") == b"POST /Login\nGET /x\n"
    (first, second) = objects(fleet.tail("db*", WEB, "--json", "--grep", "GET of|x"))
    assert (first["host"], first["file"], first["offset"], first["line"]) == (
        WEB, "/var/log/nginx/access.log", 18, "GET /x",
    )  # fmt: skip
    assert (second["host"], second["line"]) == (DB, "GET of a database")


def test_what_was_sent_again_is_reported_once_and_what_came_late_is_reported(fleet: TailFleet):
    log = Log(b"one\ntwo\nthree\nfour\n")
    ends = (0, 4, 8, 14, 19)
    one, two, three, four = fleet.blocks(log, *ends)
    again = fleet.blocks(log, 0, 8)
    fleet.send(one, three, four, *again, three, four, one, two)
    assert fleet.tail("--raw") == b"one\nthree\nfour\ntwo\n"


def test_since_and_until_are_of_the_time_of_storing(fleet: TailFleet):
    early, late = logs([WEB, DB], lines=1)
    fleet.send(*fleet.blocks(early))
    time.sleep(1.1)
    between = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 0.05)) + "Z"
    time.sleep(1.0)
    fleet.send(*fleet.blocks(late))
    assert fleet.tail("--raw", "--since", between) == late.data
    assert fleet.tail("--raw", "--until", between) == early.data
    assert fleet.tail("--raw", "--since", "1h") == early.data + late.data
    assert fleet.tail("--raw", "--since", "1h", "--until", "30m") == b""


def test_lines_of_other_publishers_are_shown_too(fleet: TailFleet):
    fleet.send((f"logs.p1.{DB}", {}, b"hello"), (f"logs.p1.{DB}", {}, b"there"))
    assert objects(fleet.tail("db*", "--json"))[1] | {"time": ""} == {
        "v": 1,
        "host": DB, "file": "messages.log", "time": "", "time_from": "stored", "offset": None, "line": "there",
    }  # fmt: skip


def test_it_touches_no_collector_and_no_message(fleet: TailFleet):
    fleet.send(*(block for log in logs(HUNDREDS[:20]) for block in fleet.blocks(log)))
    fleet.drain()
    streams, collectors = fleet.streams(), fleet.collectors()
    following = fleet.follow("--since", "1h")
    following.writes(b"web19.example.net says 1\n")
    reading = fleet.readers()
    assert {each["config"]["ack_policy"] for each in reading} == {"none"}
    assert not any(each["config"].get("durable_name") for each in reading)
    assert following.stop(signal.SIGTERM) == 130
    assert [info["state"] | {"consumer_count": 0} for info in fleet.streams()] == [
        info["state"] | {"consumer_count": 0} for info in streams
    ]
    assert [(each["ack_floor"], each["delivered"]) for each in fleet.collectors()] == [
        (each["ack_floor"], each["delivered"]) for each in collectors
    ]
    assert fleet.readers() == []


def test_killed_it_leaves_consumers_that_the_server_forgets_soon(fleet: TailFleet):
    fleet.send(*fleet.blocks(*logs([WEB])))
    following = fleet.follow()
    following.writes(b"web1.example.net says 1\n")
    until(lambda: len(fleet.readers()) == fleet.partitions)
    following.kill()
    left = fleet.readers()
    assert {each["config"]["inactive_threshold"] for each in left} == {INACTIVE_SECONDS * 1_000_000_000}
    assert INACTIVE_SECONDS <= 15


def test_hosts_and_streams_that_appear_are_followed(fleet: TailFleet):
    following = fleet.follow("web*", "--raw")
    until(lambda: "no host is called 'web*' so far" in following.complained())
    (web, db) = logs([WEB, DB], lines=1)
    fleet.send(*fleet.blocks(db), *fleet.blocks(web))
    following.writes(web.data)
    fleet.partitions = 16
    log = Log(b"of another stream\n", host="web99.example.net")
    number = partition_for(log.host, 16)
    assert number >= 4
    fleet.add_stream(number)
    fleet.send(*fleet.blocks(log))
    following.writes(log.data)
    assert following.written() == web.data + log.data


def test_following_continues_after_a_server_that_was_killed(fleet: TailFleet, natsd: NatsServer):
    log = Log(b"one\ntwo\nthree\n")
    one, two, three = fleet.blocks(log, 0, 4, 8, 14)
    fleet.send(one)
    following = fleet.follow("--raw")
    following.writes(b"one\n")
    natsd.restart()
    fleet.send(two)
    following.writes(b"two\n")
    assert "trying again" in following.complained()
    fleet.send(three)
    following.writes(b"three\n")
    assert following.written() == log.data


def test_a_consumer_that_an_operator_deletes_is_created_again(fleet: TailFleet):
    log = Log(b"one\ntwo\n")
    one, two = fleet.blocks(log, 0, 4, 8)
    fleet.send(one)
    following = fleet.follow("--raw")
    following.writes(b"one\n")
    until(lambda: len(fleet.readers()) == fleet.partitions)
    for each in fleet.readers():
        fleet.delete_consumer(each["stream_name"], each["name"])
    fleet.send(two)
    following.writes(b"two\n")
    assert following.written() == log.data


def test_without_a_server_it_reports_it(tmp_path: Path):
    done = subprocess.run(
        [FSHIPPER, "tail", "--url", "nats://127.0.0.1:1"], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 69
    assert "no NATS server answers" in done.stderr


def test_an_unknown_host_is_reported_with_similar_names(fleet: TailFleet):
    fleet.send(*fleet.blocks(*logs([WEB])))
    assert fleet.tail("web2.example.net", code=1) == b""
    assert "no host is called 'web2.example.net' so far; there is web1.example.net" in fleet.noted


def test_an_unknown_host_that_is_named_twice_is_still_unknown(fleet: TailFleet):
    assert fleet.tail("nohost", "nohost", code=1) == b""


@pytest.mark.parametrize(
    "arguments",
    [["-f", "--until", "1m"], ["--since", "soon"], ["--grep", "("], ["-v"], ["a b"], ["--raw", "--json"], ["-n", "-1"],
     ["--since", "1m", "--until", "1h"]],
)  # fmt: skip
def test_contradictory_options_are_wrong_usage(arguments: list[str], capsys):
    from shipper.main import run  # noqa: PLC0415

    assert run(["tail", *arguments]) == 64
    assert "hint: " in capsys.readouterr().err


def test_a_pipe_that_is_closed_ends_it_quietly(fleet: TailFleet):
    fleet.send(*fleet.blocks(Log(b"x" * 99 + b"\n" * 1, host=WEB)))
    fleet.send(*fleet.blocks(Log(b"y\n" * 200_000, host=DB)))
    piped = subprocess.run(
        ["bash", "-c", f"{FSHIPPER} tail --raw | head -n 2; echo ${{PIPESTATUS[0]}}"],
        env=fleet.environment(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert piped.stdout.splitlines()[1:] == [b"y", b"0"], piped.stderr
    assert piped.stderr == b""
    assert fleet.readers() == []


def test_following_ends_when_its_reader_does_though_nothing_comes(fleet: TailFleet):
    fleet.send(*fleet.blocks(*logs([WEB], lines=1)))
    piped = subprocess.run(
        ["bash", "-c", f"{FSHIPPER} tail -f --raw | head -n 1; echo ${{PIPESTATUS[0]}}"],
        env=fleet.environment(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert piped.stdout == b"web1.example.net says 0\n0\n"


HOSTILE = b"\x1b]0;owned\x07\x1b[2J\xff\xc2\x9b31m \xe2\x80\xae caf\xc3\xa9\ttab\r\n"


def test_only_raw_in_a_pipe_gives_bytes_that_a_terminal_might_obey(fleet: TailFleet):
    fleet.send(*fleet.blocks(Log(HOSTILE, host=WEB)))
    assert fleet.tail("--raw") == HOSTILE
    for options in ([], ["--time"], ["--no-color"]):
        piped = fleet.tail(*options)
        assert b"\\x1b]0;owned\\x07\\x1b[2J\\xff\\x9b31m \\u202e caf\xc3\xa9\ttab\n" in piped
        assert b"\x1b" not in piped
    shown = on_a_terminal(fleet, "tail")
    assert b"\\x1b]0;owned\\x07\\x1b[2J\\xff\\x9b31m \\u202e caf\xc3\xa9\ttab" in shown
    assert b"\x1b[" in shown.split(b"/var/log")[0]  # its own colours
    for options in (["--no-color"], ["--raw"], ["--json"]):
        assert b"\x1b" not in on_a_terminal(fleet, "tail", *options)


def on_a_terminal(fleet: TailFleet, *arguments: str) -> bytes:
    """What a terminal gets."""
    ours, theirs = pty.openpty()
    environment = fleet.environment(TERM="xterm")
    process = subprocess.Popen([FSHIPPER, *arguments], env=environment, stdout=theirs, stdin=theirs)
    os.close(theirs)
    written = b""
    try:
        while more := os.read(ours, 65536):
            written += more
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(30) == 0
    return written


def test_output_that_is_not_read_does_not_hold_ctrl_c(fleet: TailFleet):
    fleet.send(*(fleet.blocks(Log(b"y\n" * 200_000, id=f"{n:016x}", host=DB))[0] for n in range(1, 4)))
    arguments, environment = [FSHIPPER, "tail", "-f", "--since", "1h"], fleet.environment()
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE) as process:
        until(lambda: len(fleet.readers()) >= 1)
        time.sleep(0.5)  # until the pipe is full
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    assert fleet.readers() == []


def test_memory_does_not_follow_what_is_stored(fleet: TailFleet):
    blocks = [
        fleet.blocks(Log(os.urandom(200_000).replace(b"\n", b".") + b"\n", id=f"{n:016x}", host=DB))[0]
        for n in range(1, 401)
    ]
    for start in range(0, len(blocks), 50):
        publish(fleet.server, *blocks[start : start + 50])
    until(lambda: fleet.stored() == len(blocks))
    arguments, environment = [FSHIPPER, "tail", "--raw"], fleet.environment()
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        time.sleep(1.5)  # what it reads ahead, it has read by now
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak_mib = int(status.split("VmHWM:")[1].split()[0]) / 1024
        rest = process.stdout.read()
        assert process.wait(30) == 0
    assert len(rest) == 400 * 200_001 - 1
    assert peak_mib < 150
