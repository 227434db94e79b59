"""Each input with its thread: what comes is in the spool, and it ends within a second."""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import pytest
from harness.fleet import until
from harness.ports import free_port
from spooling import NEWLINE, knows, never, plain, running, spool_in, text

from producer.inputs import syslog
from producer.inputs.pipes import Fifo
from producer.inputs.senders import Sender
from producer.inputs.spool import rotated
from producer.inputs.syslog import Syslog, parse
from shipper.errors import ConfigError, Fatal

# -- syslog -------------------------------------------------------------------------------------------------------


def test_datagrams_become_lines(tmp_path: Path) -> None:
    port = free_port()
    with (
        running(Syslog(spool_in(tmp_path), parse(f"udp:127.0.0.1:{port}"))),
        socket.socket(type=socket.SOCK_DGRAM) as to,
    ):
        for message in (b"<13>one\n", b"<13>two\nlines", b"<13>x\0"):
            to.sendto(message, ("127.0.0.1", port))
        until(lambda: text(tmp_path) == b"<13>one\n<13>two#012lines\n<13>x\n", what=lambda: repr(text(tmp_path)))


def test_what_the_kernel_holds_at_a_stop_is_still_read(tmp_path: Path) -> None:
    port = free_port()
    reader = Syslog(spool_in(tmp_path), parse(f"udp:127.0.0.1:{port}"))
    reader.prepare()
    with socket.socket(type=socket.SOCK_DGRAM) as to:
        to.sendto(b"<13>one", ("127.0.0.1", port))
    reader.stop()
    reader.read()
    reader.release()
    assert text(tmp_path) == b"<13>one\n"


def test_512_idle_connections_do_not_lock_a_sender_out(tmp_path: Path) -> None:
    port = free_port()
    reader = Syslog(spool_in(tmp_path), parse(f"tcp:127.0.0.1:{port}"), idle_seconds=0.2)
    with running(reader), contextlib.ExitStack() as stack:

        def sender(address: str) -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), 10, source_address=(address, 0)))

        idle = [sender(f"127.0.0.{2 + number % 4}") for number in range(512)]
        idle[0].sendall(b"begun")  # and never ended
        for number in range(3):
            sender("127.0.0.9").sendall(b"<13>fine %d\n" % number)
            until(lambda n=number: b"<13>fine %d\n" % n in text(tmp_path))
        until(lambda: len(reader._connections) == 512)
        assert b"begun\n" in text(tmp_path)


def test_one_address_has_at_most_its_share_of_the_connections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    reader = Syslog(spool_in(tmp_path), parse(f"tcp:127.0.0.1:{port}"), max_an_address=3, idle_seconds=3600)
    with running(reader), contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        until(lambda: len(reader._connections) == 3)
        with socket.create_connection(("127.0.0.1", port), 10) as fourth:
            assert fourth.recv(1) == b""
        with socket.create_connection(("127.0.0.1", port), 10, source_address=("127.0.0.2", 0)) as other:
            other.sendall(b"<13>fine\n")
            until(lambda: text(tmp_path) == b"<13>fine\n")
    assert "connection_refused" in capsys.readouterr().err


def test_a_connection_with_messages_is_closed_for_no_other_one(tmp_path: Path) -> None:
    port = free_port()
    reader = Syslog(spool_in(tmp_path), parse(f"tcp:127.0.0.1:{port}"), max_connections=2, idle_seconds=1.0)
    with running(reader), contextlib.ExitStack() as stack:
        busy, idle, third = (stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(3))
        third.sendall(b"<13>third\n")
        sent = 0
        while b"third" not in text(tmp_path):
            busy.sendall(b"<13>busy %d\n" % sent)
            sent += 1
            time.sleep(0.1)
            assert sent < 300
        idle.settimeout(10)
        assert idle.recv(1) == b""
        busy.sendall(b"<13>last\n")
        until(lambda: b"<13>last\n" in text(tmp_path))
    assert text(tmp_path).count(b"busy") == sent


def test_datagrams_that_the_kernel_had_to_drop_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    reader = Syslog(spool_in(tmp_path, limit=64 << 20), parse(f"udp:127.0.0.1:{port}"))
    reader.prepare()
    reader._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with socket.socket(type=socket.SOCK_DGRAM) as to:
        for _ in range(200):
            to.sendto(b"<13>" + b"x" * 1000, ("127.0.0.1", port))
        reader._selector.register(reader._socket, 1)
        reader._turn(0)
        kept = text(tmp_path).count(b"\n")
        to.sendto(b"<13>after", ("127.0.0.1", port))
        reader._turn(0)
        reader._log_dropped(0.0)
    reader.release()
    assert f"lost={200 - kept}" in plain(capsys.readouterr().err)


def test_datagrams_that_were_dropped_after_the_last_one_are_counted_at_a_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    reader = Syslog(spool_in(tmp_path, limit=64 << 20), parse(f"udp:127.0.0.1:{port}"))
    reader.prepare()
    reader._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with socket.socket(type=socket.SOCK_DGRAM) as to:
        for _ in range(200):
            to.sendto(b"<13>" + b"x" * 1000, ("127.0.0.1", port))
    reader.stop()
    reader.read()
    reader.release()
    assert f"lost={200 - text(tmp_path).count(NEWLINE)} reason=receive_buffer" in plain(capsys.readouterr().err)


def test_all_that_the_kernel_holds_of_connections_at_a_stop_is_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(syslog, "LAST_SECONDS", 60.0)  # a busy machine may need more than half a second
    port = free_port()
    reader = Syslog(spool_in(tmp_path), parse(f"tcp:127.0.0.1:{port}"))
    reader.prepare()
    lines = b"".join(b"<13>line %05d\n" % number for number in range(2_000))  # they fit into the receive buffer
    with socket.create_connection(("127.0.0.1", port)) as to:
        to.sendall(lines)
        reader.stop()
        reader.read()
    reader.release()
    assert text(tmp_path) == lines


@pytest.mark.parametrize("kind", ["tcp", "unix-stream"])
def test_connections_become_lines_and_one_that_ends_inside_a_message_leaves_a_line(kind: str, tmp_path: Path) -> None:
    port = free_port()
    place = f"127.0.0.1:{port}" if kind == "tcp" else str(tmp_path / "log.sock")
    with running(Syslog(spool_in(tmp_path), parse(f"{kind}:{place}"))):
        family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
        with socket.socket(family) as to:
            to.connect(("127.0.0.1", port) if kind == "tcp" else place)
            to.sendall(b"8 <13>a\nbc<13>one\0<13>cut")
        until(lambda: text(tmp_path) == b"<13>a#012bc\n<13>one\n<13>cut\n", what=lambda: repr(text(tmp_path)))


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_the_address_of_each_sender_stands_before_its_lines_if_it_is_asked_for(kind: str, tmp_path: Path) -> None:
    port = free_port()
    reader = Syslog(spool_in(tmp_path), parse(f"{kind}:127.0.0.1:{port}"), sender=Sender.LINE)
    lines = {f"127.0.0.{number} <189>45: %SYS-5-CONFIG_I: Configured\n".encode() for number in (2, 3)}
    with running(reader), contextlib.ExitStack() as stack:
        for number in (2, 3):
            how = socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM
            to = stack.enter_context(socket.socket(type=how))
            to.bind((f"127.0.0.{number}", 0))
            to.connect(("127.0.0.1", port))
            to.sendall(b"<189>45: %SYS-5-CONFIG_I: Configured\n")
        until(lambda: set(text(tmp_path).splitlines(keepends=True)) == lines, what=lambda: repr(text(tmp_path)))


def test_more_connections_than_the_bound_wait_until_one_ends(tmp_path: Path) -> None:
    port = free_port()
    reader = Syslog(spool_in(tmp_path), parse(f"tcp:127.0.0.1:{port}"), max_connections=2)
    with running(reader), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3)]
        for number, client in enumerate(clients):
            client.sendall(b"<%d>\n" % number)
        until(lambda: text(tmp_path).count(b"\n") == 2)
        assert len(reader._connections) == 2
        clients[0].close()
        until(lambda: text(tmp_path).count(b"\n") == 3)


def test_a_unix_socket_takes_datagrams_and_its_name_goes_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log.sock"
    with running(Syslog(spool_in(tmp_path), parse(f"unix:{path}"))):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.connect(str(path))
            to.send(b"<13>one")
        until(lambda: text(tmp_path) == b"<13>one\n")
    assert not path.exists()


def test_a_socket_without_a_listener_is_replaced_and_one_with_a_listener_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(path))
    with running(Syslog(spool_in(tmp_path), parse(f"unix:{path}"))):
        with pytest.raises(ConfigError, match="in use"):
            Syslog(spool_in(tmp_path / "other"), parse(f"unix-stream:{path}")).prepare()
        assert path.exists()
    path.write_text("a file")
    with pytest.raises(ConfigError, match="no socket"):
        Syslog(spool_in(tmp_path / "other"), parse(f"unix:{path}")).prepare()
    assert path.read_text() == "a file"


@pytest.mark.parametrize("kind", ["udp", "tcp"])
def test_a_port_that_is_in_use_is_refused_by_its_name(kind: str, tmp_path: Path) -> None:
    with socket.socket(type=socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"{kind}:127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=place):
            Syslog(spool_in(tmp_path), parse(place)).prepare()


# -- FIFO ---------------------------------------------------------------------------------------------------------


def fifo_in(directory: Path) -> Path:
    path = directory / "fifo"
    os.mkfifo(path)
    return path


def test_writers_come_and_go_and_a_fifo_never_ends(tmp_path: Path) -> None:
    path = fifo_in(tmp_path)
    with running(Fifo(spool_in(tmp_path), str(path))):
        for number in range(3):
            path.write_bytes(b"%d\n" % number)
            until(lambda: text(tmp_path).count(b"\n") == number + 1)  # noqa: B023


def test_a_full_spool_leaves_the_rest_in_the_pipe_and_a_file_ends_after_a_whole_line(tmp_path: Path) -> None:
    path, spool = fifo_in(tmp_path), spool_in(tmp_path)
    lines = b"".join(b"a line of this %d\n" % number for number in range(100_000))
    with running(Fifo(spool, str(path))), path.open("wb", buffering=0) as to:
        writer = threading.Thread(target=to.write, args=(lines,))
        writer.start()
        for count in range(1, 4):
            until(lambda: spool.position[1] >= 256 * 1024 and not spool.is_torn)
            assert spool.position[1] < 256 * 1024 + 100
            spool.tend(knows(spool), never)
            assert len(rotated(spool.directory)) == count
        until(lambda: spool._full)
        assert sum(each.size for each in rotated(spool.directory)) + spool.position[1] <= (1 << 20) + 100
        assert writer.is_alive()
        for each in rotated(spool.directory):
            assert each.path.read_bytes().endswith(b"\n")
            each.path.unlink()
        while writer.is_alive() or spool.position[1] >= 256 * 1024:
            if spool.log.exists():
                spool.tend(knows(spool), never)
            for each in rotated(spool.directory):
                each.path.unlink()


def test_a_line_that_is_longer_than_a_file_of_the_spool_is_not_read_byte_by_byte_to_its_end(tmp_path: Path) -> None:
    path, spool = fifo_in(tmp_path), spool_in(tmp_path, limit=64 << 20)
    with running(Fifo(spool, str(path))), path.open("wb", buffering=0) as to:
        to.write(b"x" * (16 << 20))
        until(lambda: spool.position[1] == 16 << 20)
        steps: list[int] = []
        wait_for_bytes, spool.wait_for_bytes = spool.wait_for_bytes, lambda: note(steps, wait_for_bytes())  # type: ignore[method-assign]
        to.write(b"x" * (1 << 20))
        until(lambda: spool.position[1] == 17 << 20)
        assert len(steps) < 70_000
        to.write(b"end\nnext line")
        until(lambda: spool.position[1] == (17 << 20) + 13)
        to.write(b" ends here\nno more")
        until(lambda: not spool.is_torn)
        spool.tend(knows(spool), never)
        until(lambda: text(tmp_path) == b"no more")


def note(steps: list[int], step: int) -> int:
    steps.append(step)
    return step


def test_a_fifo_that_is_replaced_is_read_where_its_name_leads(tmp_path: Path) -> None:
    path = fifo_in(tmp_path)
    reader = Fifo(spool_in(tmp_path), str(path))
    with running(reader):
        path.write_bytes(b"one\ntorn")
        until(lambda: text(tmp_path) == b"one\ntorn")
        path.rename(tmp_path / "old")
        os.mkfifo(path)
        until(lambda: os.path.samestat(os.fstat(reader.descriptor), path.stat()), within=5)
        path.write_bytes(b"two\n")
        until(lambda: text(tmp_path) == b"one\ntorn\ntwo\n", what=lambda: repr(text(tmp_path)))


def test_a_line_that_a_kill_cut_is_ended_before_another_stream_begins_and_continues_where_the_same_one_does(
    tmp_path: Path,
) -> None:
    path = fifo_in(tmp_path)
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "log").write_bytes(b"one\ntw")
    with path.open("r+b", buffering=0) as held:
        held.write(b"o\n")
        with running(Fifo(spool_in(tmp_path), str(path))):
            until(lambda: text(tmp_path) == b"one\ntwo\n")
    (tmp_path / "spool" / "log").write_bytes(b"one\ntw")
    with running(Fifo(spool_in(tmp_path), str(path))):
        path.write_bytes(b"new\n")
        until(lambda: text(tmp_path) == b"one\ntw\nnew\n")


def test_a_thread_that_fails_ends_the_program_with_its_reason(tmp_path: Path) -> None:
    path = fifo_in(tmp_path)
    reader = Fifo(spool_in(tmp_path), str(path))
    reader.spool.wait_for_bytes = lambda: 1 / 0  # type: ignore[method-assign,return-value]
    reader.start()
    until(lambda: not reader.is_reading)
    with pytest.raises(Fatal, match="ZeroDivisionError"):
        reader.check()
