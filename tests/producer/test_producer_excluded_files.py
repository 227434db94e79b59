"""A file that the configuration no longer names, or excludes, is not read; named again, it goes on exactly once."""

import os
import signal
import sqlite3
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from producing import Host, Producer, append, partly_shipped, rotate

from producer.checkpoint import recovery as recover
from producer.discovery.scanner import Watched, name_filter, scan
from producer.model import Destination, Place
from producer.session import control
from producer.session.delivery import Window
from shipper.control import Receipt, ReceiptsReply, ResendAnswer, ResendRequest
from shipper.model import End

HOST = "web1.example.net"
LINE = b"0123456789abcde\n"


def configure(host: Host, *patterns: str, exclude: tuple[str, ...] = ()) -> None:
    """What the next start watches."""
    paths = [str(host.directory / pattern) for pattern in patterns]
    host.following = replace(host.following, watched=Watched.of(paths, exclude))


def reload_with(host: Host, *patterns: str, exclude: tuple[str, ...] = (), **while_down: Any) -> None:
    configure(host, *patterns, exclude=exclude)
    host.restart(**while_down)


class Opened:
    """The files that were opened for reading."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.inodes: set[int] = set()
        real = os.pread

        def noting(descriptor: int, size: int, offset: int) -> bytes:
            self.inodes.add(os.fstat(descriptor).st_ino)
            return real(descriptor, size, offset)

        patch.setattr(os, "pread", noting)


def half_shipped(tmp_path: Path) -> tuple[Host, Path]:
    path = tmp_path / "secret.log"
    path.write_bytes(LINE * 1000)
    host = Host(tmp_path, "*.log")
    partly_shipped(host)
    assert 0 < len(host.archive.text(path)) < 16_000
    return host, path


@pytest.mark.parametrize("how", ["excluded", "no longer named"])
def test_of_a_file_that_is_half_read_nothing_more_is_read_and_the_rest_is_recorded(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, path = half_shipped(tmp_path)
    before = host.archive.text(path)
    patterns, exclude = (("*.log",), ("*secret*",)) if how == "excluded" else (("other.log",), ())
    opened = Opened(monkeypatch)
    reload_with(host, *patterns, exclude=exclude, while_down=lambda: append(path, LINE))
    host.ship()
    append(path, LINE)
    host.ship()
    host.restart()
    host.ship()
    assert host.archive.text(path) == before
    assert path.stat().st_ino not in opened.inodes
    assert list(host.archive.ends.values()) == [End.EXCLUDED]
    assert host.archive.lost(path) == 16_016 - len(before)
    assert host.sources.excluded_bytes == {str(path): 16_032 - len(before)}
    assert host.open_files == 0


def test_of_a_file_that_was_only_noticed_not_even_its_name_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.write_bytes(LINE)
    host = Host(tmp_path, "*.log")
    reload_with(host, "*.log", exclude=("*secret*",))
    host.ship()
    assert host.archive.files == {}
    assert host.sources.idle
    assert host.sources.excluded_bytes == {str(path): len(LINE)}
    host.restart()
    host.ship()
    assert host.archive.files == {}


def test_a_restart_between_excluding_and_the_acknowledgement_repeats_the_record_only(tmp_path: Path) -> None:
    host, path = half_shipped(tmp_path)
    before = host.archive.text(path)
    reload_with(host, "*.log", exclude=("*secret*",))
    (piece,) = host.read_all()
    assert (piece.end, piece.data) == (End.EXCLUDED, b"")
    host.deliver()
    host.restart()  # killed before the acknowledgement
    host.ship()
    host.restart()
    assert host.read_all() == []
    reload_with(host, "*.log")
    host.ship()
    assert host.archive.text(path) == path.read_bytes()
    assert host.archive.text(path).startswith(before)


def test_a_collector_that_misses_bytes_of_an_excluded_file_is_notified(tmp_path: Path) -> None:
    host, _ = half_shipped(tmp_path)
    (id_,) = host.archive.files
    reload_with(host, "*.log", exclude=("*secret*",))
    request = ResendRequest(id_, 100)
    assert control.to_missing(request, host.sources, Window(1 << 20)).answer is ResendAnswer.EXCLUDED
    assert not host.sources.is_on_disk(host.sources.acks.known[id_])
    host.ship()
    assert control.to_missing(request, host.sources, Window(1 << 20)).answer is ResendAnswer.EXCLUDED


def test_what_the_server_lost_of_an_excluded_file_is_recorded_and_not_read_again(tmp_path: Path) -> None:
    host, _ = half_shipped(tmp_path)
    reload_with(host, "*.log", exclude=("*secret*",))
    host.ship()
    (id_,) = host.archive.files
    first = host.sources.acks.known[id_].ring[0].offset
    host.sources.acks.rewind(sequence=1, archived={id_: first})
    host.restart()
    (piece,) = host.read_all()
    assert (piece.span.end, piece.data, piece.end, piece.gap) == (first, b"", End.EXCLUDED, 16_000 - first)


def test_nothing_of_what_is_no_longer_named_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(LINE)
    host = Host(tmp_path, "app.log")
    host.ship()
    rotate(path)
    path.write_bytes(LINE)
    host.ship()
    host.let_go()
    assert host.sources.ended_files.deletable_files()
    reload_with(host, "other.log")
    host.ship()
    assert host.sources.ended_files.deletable_files() == []


def test_a_checkpoint_of_an_older_version_knows_nothing_of_it_and_is_read(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(LINE)
    host = Host(tmp_path, "app.log")
    host.ship()
    host.kill()
    with sqlite3.connect(host.state) as database:
        database.execute("ALTER TABLE sources DROP COLUMN left_out")
    append(path, LINE)
    host.start()
    host.ship()
    assert host.archive.text(path) == 2 * LINE


@pytest.mark.parametrize(
    ("pattern", "path", "is_named"),
    [
        ("/a/*.log", "/a/x.log", True),
        ("/a/*.log", "/a/.x.log", False),
        ("/a/.*.log", "/a/.x.log", True),
        ("/a/*.log", "/a/b/x.log", False),
        ("/a/*/x.log", "/a/.b/x.log", False),
        ("/a/**/*.log", "/a/x.log", True),
        ("/a/**/*.log", "/a/b/c/x.log", True),
        ("/a/**/*.log", "/a/.b/x.log", False),
        ("/a/**", "/a/b/c", True),
        ("/a/app[1].log", "/a/app[1].log", True),
        ("/a/app[1].log", "/a/app1.log", True),
        ("/a/app.log", "/a/app.log.1", False),
        ("/a/**/.hidden", "/a/b/.hidden", True),
    ],
)
def test_the_names_of_a_pattern_are_those_that_it_finds(
    pattern: str, path: str, is_named: bool, tmp_path: Path
) -> None:
    assert name_filter(Watched((pattern,)))(path) is is_named
    there = Path(str(tmp_path) + path)
    there.parent.mkdir(parents=True)
    there.touch()
    found = scan(Watched((str(tmp_path) + pattern,))).files
    assert (str(there) in {seen.path for seen in found}) is is_named


def test_only_files_that_the_configuration_names_are_opened_when_a_lost_checkpoint_is_recovered(
    tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "secret.log"
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        path.write_bytes(b"shipped\n")
        fleet.ship_once(HOST, path)
        fleet.drain()
        append(path, b"never\n")
        other = tmp_path / "other.log"
        other.write_bytes(b"other\n")
        for checkpoint in (tmp_path / "state").rglob("checkpoint.sqlite*"):
            checkpoint.unlink()
        collector = fleet.consume()
        fleet.ship_once(HOST, other)
        until(lambda: fleet.archived(HOST, other) == b"other\n", what="the collector")
        assert collector.stop() == 0
        assert fleet.archived(HOST, path) == b"shipped\n"


def test_a_file_that_was_noticed_and_then_excluded_never_arrives(tmp_path: Path, natsd: NatsServer) -> None:
    public, secret = tmp_path / "pub.log", tmp_path / "s.log"
    public.write_bytes(b"public\n")
    secret.write_bytes(b"secret\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        refused = fleet.run("produce", "--once", "--url", "nats://127.0.0.1:9", public, secret, HOSTNAME=HOST)
        assert refused.returncode != 0
        done = fleet.run("produce", "--once", "--exclude", "s.log", public, HOSTNAME=HOST)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("file_excluded") == 1
        assert "rotated" not in done.stderr
        fleet.drain()
        assert fleet.archived(HOST, public) == b"public\n"
        assert fleet.archived(HOST, secret) == b""
        assert fleet.run("produce", "--once", public, secret, HOSTNAME=HOST).returncode == 0
        fleet.drain()
        assert fleet.archived(HOST, secret) == b"secret\n"


def test_a_reload_that_excludes_a_file_ends_its_shipping_and_one_that_names_it_again_continues(
    tmp_path: Path, natsd: NatsServer
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"before\n")
    config = tmp_path / "fshipper.toml"

    def configure(exclude: str) -> None:
        config.write_text(f'[producer]\npoll = "20ms"\nfiles = ["{tmp_path}/*.log"]\nexclude = [{exclude}]\n')

    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        configure("")
        collector = fleet.consume()
        producer = fleet.start("produce", "--config", str(config), HOSTNAME=HOST, SHIPPER_LISTEN="")
        until(lambda: fleet.archived(HOST, path) == b"before\n", what="the first line")
        configure('"app.log"')
        producer.process.send_signal(signal.SIGHUP)
        log = producer.log_file
        until(lambda: log.read_text().count("session_begun") == 2, what="the reload")
        append(path, b"excluded\n")
        other = tmp_path / "other.log"
        other.write_bytes(b"other\n")
        until(lambda: fleet.archived(HOST, other) == b"other\n", what="another file")
        assert fleet.archived(HOST, path) == b"before\n"
        configure("")
        producer.process.send_signal(signal.SIGHUP)
        until(lambda: fleet.archived(HOST, path) == b"before\nexcluded\n", what="named again")
        assert producer.stop() == 0
        assert collector.stop() == 0
        assert "bytes_lost" not in log.read_text()
        audit = fleet.run("audit", str(fleet.archive))
        assert audit.returncode == 0, audit.stdout


@pytest.mark.parametrize("how", ["link", "link to a link", "directory", "hard link"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("exclude", ["*secret*", "{}/hidden/secret.log"])
def test_an_excluded_file_is_not_read_under_another_name(how: str, known: bool, exclude: str, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    path, public = tmp_path / "hidden" / "secret.log", tmp_path / "pub.log"
    path.write_bytes(b"secret\n")
    if how == "link":
        public.symlink_to(path)
    elif how == "link to a link":
        (tmp_path / "between").symlink_to(path)
        public.symlink_to("between")
    elif how == "directory":
        (tmp_path / "logs").symlink_to(tmp_path / "hidden")
    else:
        os.link(path, public)
    patterns = ("logs/*.log", "*.log") if exclude.startswith("{") or how == "directory" else ("*.log", "hidden/*.log")
    host = Host(tmp_path, *patterns)
    if known:
        host.ship()
        assert host.archive.order
    host.archive.order.clear()
    reload_with(host, *patterns, exclude=(exclude.format(tmp_path),))
    append(path, b"later\n")
    host.ship()
    host.let_go()
    host.restart()
    host.ship()
    assert host.archive.order == []
    assert host.sources.unread == []
    assert host.open_files == 0


def test_of_a_file_that_was_deleted_while_it_was_excluded_nothing_counts_as_lost(tmp_path: Path) -> None:
    host, path = half_shipped(tmp_path)
    reload_with(host, "*.log", exclude=("*secret*",))
    host.ship()
    path.unlink()
    gaps = dict(host.archive.gaps)
    reload_with(host, "*.log")
    host.ship()
    host.let_go()
    assert host.archive.gaps == gaps
    assert set(host.archive.ends.values()) == {End.EXCLUDED}


async def test_no_receipt_makes_the_producer_open_a_file_that_the_configuration_does_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, other = tmp_path / "app.log", tmp_path / "shadow"
    for path in (named, other):
        path.write_bytes(LINE)
    crc = zlib.crc32(LINE)
    receipts = [Receipt(str(number) * 16, str(path), 0, 16, crc) for number, path in enumerate((other, named))]
    told = ReceiptsReply("archive", 0, tuple(receipts))

    async def ask(*_: object, **__: object) -> ReceiptsReply:
        return told

    class Empty:
        async def last_stored(self, _: str) -> None:
            return None

    monkeypatch.setattr(recover.receipts, "ask", ask)
    recovery = recover.Recovery(Destination("logs", "h", Place(partition=0)), Producer(tmp_path, named.name).task())
    opened = Opened(monkeypatch)
    found = await recovery.sources(Empty(), dict)
    assert [source.file for source in found] == [str(named)]
    assert other.stat().st_ino not in opened.inodes


@pytest.mark.parametrize("acknowledged", [0, 1])
@pytest.mark.parametrize("delivered", [False, True])
def test_blocks_that_were_in_flight_at_the_change_are_not_read_again_and_nothing_is_doubled(
    acknowledged: int, delivered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.log"
    path.write_bytes(LINE * 1000)
    host = Host(tmp_path, "*.log")
    pieces = host.read(8000)
    assert len(pieces) > 1
    for piece in pieces if delivered else pieces[:acknowledged]:
        host.archive.take(piece)
    host.acknowledge(acknowledged)
    host.save()
    before = host.archive.text(path)
    opened = Opened(monkeypatch)
    reload_with(host, "*.log", exclude=("*secret*",))
    host.ship()
    assert host.archive.text(path) == before
    assert path.stat().st_ino not in opened.inodes
    reload_with(host, "*.log")
    host.ship()
    assert host.archive.text(path) == LINE * 1000
