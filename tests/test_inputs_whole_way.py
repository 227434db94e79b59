"""Standard input, FIFOs, syslog and the journal, from their writers to the archive: real programs, real kills."""

import contextlib
import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from harness.fleet import FSHIPPER, Fleet, until
from harness.journaling import Journal, line
from harness.natsd import NatsServer
from harness.ports import free_port

HOST = "web1.example.net"


def pipe_into(fleet: Fleet, data: bytes, *options: str, within: float = 120.0) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [FSHIPPER, "produce", *options, "-"],
        input=data,
        env=fleet.environment(HOSTNAME=HOST),
        capture_output=True,
        timeout=within,
        check=False,
    )


def test_what_is_piped_in_is_in_the_archive_byte_for_byte_when_the_program_ends(
    tmp_path: Path, natsd: NatsServer
) -> None:
    text = b"".join(b"%d\n" % number for number in range(3_000_000)) + b"no newline at the end"
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        done = pipe_into(fleet, text)
        assert done.returncode == 0, done.stderr
        fleet.drain()
        assert fleet.archived(HOST, "/dev/stdin") == text
        again = pipe_into(fleet, b"another stream\n", "--name", "/builds/7")
        assert again.returncode == 0, again.stderr
        fleet.drain()
        assert fleet.archived(HOST, "/dev/stdin") == text
        assert fleet.archived(HOST, "/builds/7") == b"another stream\n"


def test_a_fifo_that_is_written_without_a_pause_arrives_byte_for_byte_through_kills_of_the_producer(
    tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app.fifo"
    os.mkfifo(path)
    text = b"".join(b"line %d\n" % number for number in range(1_500_000))
    with Fleet(tmp_path, natsd.url) as fleet, open(path, "r+b", buffering=0) as fifo:
        fleet.apply()
        producer = fleet.produce(HOST, path)
        writer = threading.Thread(target=lambda: [fifo.write(text[at : at + 777]) for at in range(0, len(text), 777)])
        writer.start()
        for turn in range(1, 6):
            before = spooled(tmp_path)
            until(lambda: producer.log.count("input_started") == turn, what=lambda: producer.log)  # noqa: B023
            until(lambda: spooled(tmp_path) > before or not writer.is_alive(), what=lambda: producer.log)  # noqa: B023
            producer.restart()
        writer.join()
        until(
            lambda: producer.log.count("input_started") == 6 and spooled(tmp_path) == len(text),
            what=lambda: producer.log,
        )
        assert producer.stop() == 0, producer.log
        fleet.drain()
        assert fleet.archived(HOST, path) == text


def test_what_came_over_tcp_and_was_spooled_before_a_kill_arrives_once(tmp_path: Path, natsd: NatsServer) -> None:
    port = free_port()
    name = f"/syslog/tcp/127.0.0.1:{port}"
    sent = 0
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, options=("--syslog", f"tcp:127.0.0.1:{port}"))
        for _ in range(4):
            with connected(port) as client, contextlib.suppress(OSError):
                before = spooled(tmp_path)
                for _ in range(50):
                    client.sendall(b"".join(b"<13>%08d\n" % number for number in range(sent, sent + 1000)))
                    sent += 1000
                until(lambda: spooled(tmp_path) > before + 200_000, what=lambda: producer.log)  # noqa: B023
            held = spool_bytes(tmp_path)
            producer.kill()
            logged = len(producer.log)
            producer.start()
        until(lambda: "input_started" in producer.log[logged:], what=lambda: producer.log)
        assert producer.stop() == 0, producer.log
        fleet.drain()
        archived = fleet.archived(HOST, name)
        assert held in archived
        numbers = [int(line.removeprefix(b"<13>")) for line in archived.splitlines() if len(line) == 12]
        assert numbers == sorted(set(numbers))
        assert len(archived.splitlines()) - len(numbers) <= 4  # messages that a kill cut


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_each_sender_has_a_file_and_kills_lose_and_double_nothing_that_was_spooled(
    kind: str, tmp_path: Path, natsd: NatsServer
) -> None:
    port = free_port()
    addresses = [f"127.0.0.{number}" for number in (2, 3, 4)]
    sent = 0
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        collector = fleet.consume()
        config = tmp_path / "fshipper.toml"
        config.write_text(f'[producer]\nsyslog = ["{kind}:127.0.0.1:{port}"]\nsyslog_sender = "file"\n')
        producer = fleet.start("produce", "--config", str(config), HOSTNAME=HOST)
        for turn in range(1, 5):
            until(lambda: producer.log.count("input_started") == turn, what=lambda: producer.log)  # noqa: B023
            with contextlib.ExitStack() as stack:
                sockets = [stack.enter_context(sending(kind, each, port)) for each in addresses]
                for _ in range(20):
                    for each in sockets:
                        for number in range(sent, sent + 10):
                            each.sendall(b"<13>%08d\n" % number)
                    sent += 10
                until(lambda: all(b"%08d" % (sent - 1) in of_sender(tmp_path, each) for each in addresses))  # noqa: B023
            producer.restart()
        until(lambda: producer.log.count("input_started") == 5, what=lambda: producer.log)
        assert producer.stop() == 0, producer.log
        wanted = b"".join(b"<13>%08d\n" % number for number in range(sent))
        for each in addresses:
            name = f"/syslog/{kind}/127.0.0.1:{port}.from/{each}"
            until(lambda: fleet.archived(HOST, name) == wanted, what=lambda: fleet.archived(HOST, name)[-200:])  # noqa: B023
        assert collector.stop() == 0
        assert fleet.run("audit").returncode == 0


def sending(kind: str, address: str, port: int) -> socket.socket:
    to = socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    to.bind((address, 0))
    to.connect(("127.0.0.1", port))
    return to


def of_sender(directory: Path, address: str) -> bytes:
    found = sorted(directory.glob(f"state/producer/*/spool/*.from~{address}/log*"), key=lambda path: path.name == "log")
    return b"".join(path.read_bytes() for path in found if path.exists())


def test_journal_entries_arrive_once_through_ten_kills(tmp_path: Path, natsd: NatsServer) -> None:
    journal = Journal(tmp_path)
    config = tmp_path / "fshipper.toml"
    config.write_text(f'[producer]\njournald = "text"\njournald_directory = "{journal.directory}"\n')
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = fleet.start("produce", "--config", str(config), HOSTNAME=HOST, PATH=journal.path)
        count = 0
        for turn in range(10):
            journal.add(*(f"message {number}" for number in range(count + 1, count + 301)))
            count += 300
            until(lambda: spool_bytes(tmp_path).count(b"\n") > turn * 300 + 30 * turn, what=lambda: producer.log)  # noqa: B023
            producer.kill()
            logged = len(producer.log)
            producer.start()
        wanted = b"".join(line(number, f"message {number}") for number in range(1, count + 1))
        until(lambda: "input_started" in producer.log[logged:], what=lambda: producer.log)
        until(lambda: spool_bytes(tmp_path).count(b"\n") >= count, what=lambda: producer.log)
        assert producer.stop() == 0, producer.log
        fleet.drain()
        assert fleet.archived(HOST, "/journal") == wanted


def test_a_full_spool_makes_the_writer_wait_and_nothing_is_lost(tmp_path: Path, natsd: NatsServer) -> None:
    config = tmp_path / "fshipper.toml"
    config.write_text('[producer]\nspool = "1MiB"\n')
    path = tmp_path / "app.fifo"
    os.mkfifo(path)
    text = b"".join(b"%d\n" % number for number in range(600_000))
    with Fleet(tmp_path, natsd.url) as fleet, open(path, "r+b", buffering=0) as fifo:
        producer = fleet.produce(HOST, path, options=("--config", str(config)))  # the stream does not exist yet
        writer = threading.Thread(target=fifo.write, args=(text,))
        writer.start()
        until(lambda: "spool_full" in producer.log, what=lambda: producer.log)
        assert spooled(tmp_path) <= 1024 * 1024
        assert writer.is_alive()
        fleet.apply()
        until(lambda: not writer.is_alive(), within=120, what=lambda: producer.log)
        assert producer.stop() == 0, producer.log
        fleet.drain()
        assert fleet.archived(HOST, path) == text


def spools(directory: Path) -> list[Path]:
    """The files of every spool, oldest first."""
    found = [*directory.glob("state/producer/*/spool/*/log-*"), *directory.glob("state/producer/*/spool/*/log")]
    return sorted(found, key=lambda path: (path.name == "log", path.name))


def spooled(directory: Path) -> int:
    return sum(path.stat().st_size for path in spools(directory) if path.exists())


def spool_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in spools(directory) if path.exists())


def connected(port: int) -> socket.socket:
    found: list[socket.socket] = []

    def connects() -> bool:
        with contextlib.suppress(OSError):
            found.append(socket.create_connection(("127.0.0.1", port)))
        return bool(found)

    until(connects)
    return found[0]


def test_a_sigterm_ships_what_was_piped_in_and_the_next_stream_is_one_of_its_own(
    tmp_path: Path, natsd: NatsServer
) -> None:
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        with subprocess.Popen(
            [FSHIPPER, "produce", "-"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=fleet.environment(HOSTNAME=HOST),
        ) as producer:
            assert producer.stdin
            producer.stdin.write(b"one\nno newline")
            producer.stdin.flush()
            until(lambda: spooled(tmp_path) == len(b"one\nno newline"))
            producer.terminate()
            assert producer.wait(20) == 0
        assert pipe_into(fleet, b"two\n").returncode == 0
        fleet.drain()
        assert fleet.archived(HOST, "/dev/stdin") == b"one\nno newline\ntwo\n"


def test_a_file_and_what_is_piped_in_end_together_with_once(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"a file\nits end")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        done = pipe_into(fleet, b"piped\nin", "--once", str(path))
        assert done.returncode == 0, done.stderr
        fleet.drain()
        assert fleet.archived(HOST, "/dev/stdin") == b"piped\nin"
        assert fleet.archived(HOST, path) == b"a file\nits end"


def test_what_an_input_left_is_shipped_by_a_run_without_it(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.fifo"
    os.mkfifo(path)
    other = tmp_path / "app.log"
    other.write_bytes(b"a file\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        producer = fleet.produce(HOST, path)  # the stream does not exist yet
        path.write_bytes(b"one\ntwo\ntor")
        until(lambda: spooled(tmp_path) == 11, what=lambda: producer.log)
        producer.kill()
        fleet.apply()
        fleet.ship_once(HOST, other)
        fleet.drain()
        assert fleet.archived(HOST, path) == b"one\ntwo\ntor"
        assert fleet.archived(HOST, other) == b"a file\n"


def test_a_lost_checkpoint_is_found_again_for_a_spool_and_nothing_is_doubled(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.fifo"
    os.mkfifo(path)
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        collector = fleet.consume()
        producer = fleet.produce(HOST, path)
        path.write_bytes(b"one\ntwo\n")
        until(lambda: fleet.archived(HOST, path) == b"one\ntwo\n", what=lambda: producer.log)
        producer.kill()
        for checkpoint in tmp_path.glob("state/producer/*/checkpoint.sqlite*"):
            checkpoint.unlink()
        producer.start()
        path.write_bytes(b"three\n")
        until(lambda: fleet.archived(HOST, path).endswith(b"three\n"), what=lambda: producer.log)
        assert fleet.archived(HOST, path) == b"one\ntwo\nthree\n"
        assert "source_recovered" in producer.log
        assert producer.stop() == collector.stop() == 0


def test_vanished_journal_entries_are_a_gap_that_is_recorded_once(tmp_path: Path, natsd: NatsServer) -> None:
    journal = Journal(tmp_path)
    config = tmp_path / "fshipper.toml"
    config.write_text(f'[producer]\njournald = "text"\njournald_directory = "{journal.directory}"\n')
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        for _ in range(2):
            journal.add("kept")
            fleet.must("produce", "--once", "--config", str(config), HOSTNAME=HOST, PATH=journal.path)
            journal.add("lost", "lost")
            journal.vacuum(3)
        drained = fleet.run("consume", "--drain").stderr
        assert fleet.archived(HOST, "/journal") == line(1, "kept") + line(4, "kept")
        assert drained.count("gap_recorded") == 1, drained
        assert "end=2 file=/journal" in drained
        fleet.must("produce", "--once", "--config", str(config), HOSTNAME=HOST, PATH=journal.path)
        assert "gap_recorded" not in fleet.run("consume", "--drain").stderr


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--syslog", "udp:host"), "is no address to listen on"),
        (("--once", "--syslog", "udp:127.0.0.1:5140"), "--syslog has none"),
        (("--name", "build.log", "-"), "is no absolute path"),
        (("-",), "there is no standard input"),
        (("--journald", "text", "--config", "{config}"), "is no directory"),
        (("--once", "{fifo}"), "has none"),
    ],
)
def test_an_input_that_cannot_work_is_refused_with_the_way_out(
    arguments: tuple[str, ...], wanted: str, tmp_path: Path
) -> None:
    config, fifo = tmp_path / "fshipper.toml", tmp_path / "app.fifo"
    config.write_text('[producer]\njournald_directory = "/missing"\n')
    os.mkfifo(fifo)
    fleet = Fleet(tmp_path, "nats://127.0.0.1:1")
    given = [argument.format(config=config, fifo=fifo) for argument in arguments]
    command = f'exec "{FSHIPPER}" produce "$@" <&-'
    done = subprocess.run(
        ["sh", "-c", command, "sh", *given], env=fleet.environment(HOSTNAME=HOST), capture_output=True, check=False
    )
    assert done.returncode == 78, done.stderr
    assert wanted in done.stderr.decode()
    assert b"hint: " in done.stderr


def test_a_fifo_that_a_glob_finds_is_not_read_and_is_reported_with_the_next_step(
    tmp_path: Path, natsd: NatsServer
) -> None:
    os.mkfifo(tmp_path / "a.fifo")
    (tmp_path / "b.log").write_bytes(b"a file\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        done = fleet.run("produce", "--once", str(tmp_path / "[ab].*"), HOSTNAME=HOST)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("fifo_not_read") == 1
        fleet.drain()
        assert fleet.archived(HOST, tmp_path / "b.log") == b"a file\n"
