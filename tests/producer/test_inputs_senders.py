"""A file for each sender of a syslog listener: bounded in number and in bytes, ended when the sender is silent."""

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.fleet import until
from harness.ports import free_port
from producing import Host
from spooling import plain, running

from producer.inputs.senders import Sender, Senders
from producer.inputs.spool import LOG, Progress, Space, Spool, SpoolNames
from producer.inputs.syslog import Syslog, parse
from shipper.control import Receipt, ReceiptsReply
from shipper.layout import file_name

LIMIT = 1 << 16


class Listening:
    """A listener with a spool for each sender, and the host that ships them: the test is the pipeline."""

    def __init__(self, directory: Path, *, limit: int = 3, idle_seconds: float = 600.0, space: int = LIMIT) -> None:
        self.root = directory / "spool"
        self.root.mkdir(exist_ok=True)
        self.port = free_port()
        self.space = Space(space)
        self.names = SpoolNames()
        left = [self.open(path.read_text()) for path in sorted(self.root.glob("*/name")) if ".from" in path.read_text()]
        self.senders = Senders("/udp", self.open, self.names.remove, left, limit=limit, idle_seconds=idle_seconds)
        address = parse(f"udp:127.0.0.1:{self.port}")
        self.reader = Syslog(self.open("/udp"), address, sender=Sender.FILE, senders=self.senders)
        self.host = Host(directory, "spool/*/log", spools=self.names, state=directory)

    def open(self, name: str) -> Spool:
        spool = Spool(self.root / file_name(name), name, limit_bytes=LIMIT, space=self.space)
        self.names.add(spool)
        return spool

    def send(self, number: int, message: bytes) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as to:
            to.bind((f"127.0.0.{number}", 0))
            to.sendto(message, ("127.0.0.1", self.port))

    def step(self) -> None:
        """Scan, ship, save, tend the spools."""
        self.host.ship()
        acks = self.host.sources.acks
        archived = [Receipt(each.id, each.file, 0, each.offset, -1) for each in acks.known.values()]
        self.host.sources.ended_files.note_receipts(ReceiptsReply("a1", 0, tuple(archived)))
        progress = Progress.of(acks.known.values(), acks.unsaved_ids)
        for spool in self.reader.spools:
            spool.tend(progress, self.host.sources.ended_files.release)
        self.reader.end_idle(progress)
        self.host.save()

    def stepped(self, is_so: Callable[[], bool]) -> Callable[[], bool]:
        """The same, after another step."""

        def asked() -> bool:
            self.step()
            return is_so()

        return asked

    def log_of(self, number: int) -> Path:
        return self.root / file_name(f"/udp.from/127.0.0.{number}") / LOG

    def archived(self, number: int) -> bytes:
        return self.host.archive.text(self.log_of(number))


def test_what_exceeds_the_bound_is_in_one_file_with_the_address_in_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Listening(tmp_path, limit=2)
    with running(here.reader):
        for number in (2, 3, 4, 5, 4, 2):
            here.send(number, b"<1>from %d" % number)
        common = here.root / "udp" / LOG
        wanted = [b"127.0.0.4 <1>from 4", b"127.0.0.4 <1>from 4", b"127.0.0.5 <1>from 5"]
        until(lambda: common.exists() and sorted(common.read_bytes().splitlines()) == wanted)
        until(lambda: here.log_of(2).read_bytes() == b"<1>from 2\n" * 2)
        assert here.log_of(3).read_bytes() == b"<1>from 3\n"
        assert len(list(here.root.iterdir())) == 3
    assert plain(capsys.readouterr().err).count("senders_full") == 1


def test_a_silent_sender_makes_room_for_another_and_its_next_message_begins_a_file_again(tmp_path: Path) -> None:
    here = Listening(tmp_path, limit=1, idle_seconds=0.05)
    with running(here.reader):
        for turn, number in enumerate((2, 3, 2, 2)):
            before = here.archived(number)
            here.send(number, b"<1>%d" % turn)
            until(here.stepped(lambda n=number, b=before, t=turn: here.archived(n) == b + b"<1>%d\n" % t))
            until(here.stepped(lambda: not here.senders.spools))
            assert list(here.root.iterdir()) == [here.root / "udp"]
            assert list(here.names.values()) == ["/udp"]


def test_a_sender_that_sends_again_before_its_file_has_ended_loses_nothing(tmp_path: Path) -> None:
    here = Listening(tmp_path, idle_seconds=0.0)
    with running(here.reader):
        for turn in range(200):
            here.send(2, b"<1>%d" % turn)
            here.step()
        wanted = b"".join(b"<1>%d\n" % turn for turn in range(200))
        until(here.stepped(lambda: here.archived(2) == wanted), what=lambda: repr(here.archived(2))[:200])


def test_all_senders_together_have_the_space_of_one_input_and_none_of_them_blocks_it(tmp_path: Path) -> None:
    here = Listening(tmp_path, limit=40, space=1 << 14)
    sent = [b"<1>" + b"%04d" % number + b"x" * 200 for number in range(400)]
    with running(here.reader):
        for number, message in enumerate(sent):
            here.send(2 + number % 40, message)
        until(lambda: here.space.free <= 0)
        assert sum(path.stat().st_size for path in here.root.glob("*/log*")) <= (1 << 14) + 2 * (1 << 17)
        archived: Callable[[], int] = lambda: sum(here.archived(2 + number).count(b"\n") for number in range(40))  # noqa: E731
        until(here.stepped(lambda: archived() == 400), what=lambda: f"{archived()} {here.space.free}")
    for number in range(40):
        assert here.archived(2 + number) == b"".join(each + b"\n" for each in sent[number::40])


def test_a_restart_goes_on_with_the_spools_of_the_senders(tmp_path: Path) -> None:
    here = Listening(tmp_path)
    with running(here.reader):
        here.send(2, b"<1>one")
        until(lambda: here.log_of(2).exists() and here.log_of(2).read_bytes() == b"<1>one\n")
    with here.log_of(2).open("ab") as log:
        log.write(b"<1>cut by a ki")
    os.sync()
    again = Listening(tmp_path)
    with running(again.reader), contextlib.closing(again.host.sources):
        again.send(2, b"<1>two")
        until(again.stepped(lambda: again.archived(2) == b"<1>one\n<1>cut by a ki\n<1>two\n"))


SAME = b"".join(b"<13>%08d\n" % number for number in range(100))
"""What each of several senders sends: more than is ever taken for chance."""


def spooled(host: Host, sender: str) -> Path:
    """A spool of a sender with the bytes of all others."""
    log = host.directory / "spool" / sender / LOG
    log.parent.mkdir(parents=True)
    log.write_bytes(SAME)
    return log


def following_spools(directory: Path, *patterns: str) -> Host:
    senders = ("2", "3", "4")
    names = {str(directory / "spool" / sender / LOG): f"/udp.from/{sender}" for sender in senders}
    return Host(directory, "spool/*/log", *patterns, spools=names, state=directory)


@pytest.mark.parametrize("is_rotated", [False, True])
@pytest.mark.parametrize("is_read", [False, True])
def test_spools_of_the_same_bytes_are_all_shipped_whenever_each_is_found(
    is_read: bool, is_rotated: bool, tmp_path: Path
) -> None:
    host = following_spools(tmp_path)
    first = [spooled(host, "2"), spooled(host, "3")]
    host.sources.scan()
    if is_read:
        host.ship()
    found: list[Path] = []

    def go_on() -> None:
        found.append(spooled(host, "4"))
        for log in first if is_rotated else []:
            log.rename(log.with_name(f"log-{1:020d}"))

    host.restart(while_down=go_on)
    for _ in range(3):
        host.ship()
        host.now += host.following.rotate_wait + 0.1
    assert [host.archive.text(log) for log in (*first, *found)] == [SAME] * 3
    assert list(host.checkpoints.load_copies()) == []


def test_a_rotated_spool_that_no_scan_saw_is_shipped_although_another_has_its_bytes(tmp_path: Path) -> None:
    host = following_spools(tmp_path)
    first = spooled(host, "2")
    host.ship()
    log = spooled(host, "4")
    log.rename(log.with_name(f"log-{1:020d}"))
    log.write_bytes(b"<13>after\n")
    for _ in range(3):
        host.ship()
        host.now += host.following.rotate_wait + 0.1
    assert host.archive.text(first) == SAME
    assert host.archive.text(log) == SAME + b"<13>after\n"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_watched_file_with_the_bytes_of_a_spool_is_shipped_at_once(is_there: bool, tmp_path: Path) -> None:
    host = following_spools(tmp_path, "*.log")
    log = spooled(host, "2")
    path = tmp_path / "app.log"
    if not is_there:
        path.write_bytes(SAME)
        os.utime(path, (host.wall - 100, host.wall - 100))
        path.rename(path.with_suffix(".kept"))
    host.ship()
    if is_there:
        path.write_bytes(SAME)
    else:  # its last block is acknowledged, and the spool is gone: only sums are left of it
        log.unlink()
        for _ in range(2):
            host.now += host.following.rotate_wait + 0.1
            host.ship()
        [source] = host.sources.acks.known.values()
        host.sources.ended_files.release(source)
        path.with_suffix(".kept").rename(path)
    host.ship()
    assert host.archive.text(path) == SAME
