"""Files that ended stay open until an archive has them, within bounds: bytes, age, and a share of the descriptors."""

import os
from pathlib import Path
from typing import Any

import pytest
from harness.fleet import Fleet
from harness.fleet import until as becomes
from harness.natsd import NatsServer
from producing import Host, append, rotate

from producer.model import Archived
from producer.tailer import retained_files as holding
from producer.tailer.retained_files import Bounds, RetainedFiles
from shipper import events
from shipper.control import Receipt, ReceiptsReply

HOST = "web1.example.net"


@pytest.fixture
def let_go(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The events about files that were closed."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(events, "held_file_let_go", lambda **fields: said.append(fields))
    return said


class Holder:
    """A host whose files are rotated, deleted and held; stepped by the test."""

    def __init__(self, directory: Path, bounds: Bounds, **options: Any) -> None:
        self.path = directory / "app.log"
        self.now = 0.0
        self.held = RetainedFiles(bounds, clock=lambda: self.now)
        self.host = Host(directory, "app.log", retained=self.held, **options)

    def turn(self, text: bytes) -> str:
        """A generation comes, is shipped, rotated away and deleted; its source."""
        before = set(self.host.sources.acks.known)
        append(self.path, text)
        self.host.ship()
        self.path.rename(self.path.with_name("app.log.1"))
        self.host.let_go()
        self.path.with_name("app.log.1").unlink()
        (source,) = set(self.host.sources.acks.known) - before
        return source

    def tell(self, *sources: str, archive: str = "a1") -> None:
        known = self.host.sources.acks.known
        receipts = [Receipt(id_, known[id_].file, 0, known[id_].offset, known[id_].crc) for id_ in sources]
        self.host.sources.ended_files.note_receipts(ReceiptsReply(archive, 0, tuple(receipts)))


def deleted_files_open(directory: Path) -> int:
    """Descriptors of this process whose file was in `directory` and has no name."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        found += target.endswith("(deleted)") and target.startswith(str(directory))
    return found


def test_a_deleted_file_is_held_until_an_archive_has_it(tmp_path: Path, let_go: list[Any]) -> None:
    holder = Holder(tmp_path, Bounds(1000, 60.0))
    first, second = holder.turn(b"one\n" * 10), holder.turn(b"two\n" * 10)
    assert (len(holder.held), holder.held.octets, deleted_files_open(tmp_path)) == (2, 80, 2)
    holder.tell(first)
    assert (len(holder.held), deleted_files_open(tmp_path)) == (1, 1)
    holder.tell(second, archive="another")
    assert (len(holder.held), deleted_files_open(tmp_path)) == (0, 0)
    assert holder.host.sources.acks.known[second].archives == (Archived("another", 40),)
    assert not let_go


def test_a_file_that_is_archived_when_it_ends_is_not_held(tmp_path: Path) -> None:
    holder = Holder(tmp_path, Bounds(1000, 60.0))
    append(holder.path, b"one\n")
    holder.host.ship()
    (source,) = holder.host.sources.acks.known
    holder.tell(source)
    holder.path.unlink()
    holder.host.let_go()
    assert (len(holder.held), holder.host.open_files) == (0, 0)


def test_the_oldest_are_closed_where_more_is_held_than_allowed_and_that_is_reported(
    tmp_path: Path, let_go: list[Any]
) -> None:
    holder = Holder(tmp_path, Bounds(100, 60.0))
    sources = [holder.turn(b"%4d\n" % number * 9) for number in range(4)]
    assert (len(holder.held), holder.held.octets, deleted_files_open(tmp_path)) == (2, 90, 2)
    assert [each["source"] for each in let_go] == sources[:2]
    assert {each["octets"] for each in let_go} == {45}
    holder.turn(b"x" * 200 + b"\n")  # more than is allowed at all
    assert len(holder.held) == 0
    assert deleted_files_open(tmp_path) == 0


def test_nothing_is_held_longer_than_its_time(tmp_path: Path, let_go: list[Any]) -> None:
    holder = Holder(tmp_path, Bounds(1000, 60.0))
    first = holder.turn(b"one\n")
    holder.now += 40.0
    holder.turn(b"two\n")
    holder.now += 30.0
    holder.host.ship()
    assert [each["source"] for each in let_go] == [first]
    assert len(holder.held) == 1


def test_a_file_that_has_a_name_is_closed_without_an_event_as_it_is_found_there(
    tmp_path: Path, let_go: list[Any]
) -> None:
    holder = Holder(tmp_path, Bounds(1000, 60.0))
    append(holder.path, b"one\n")
    holder.host.ship()
    holder.path.rename(tmp_path / "app.log.1")
    holder.host.let_go()
    assert len(holder.held) == 1
    holder.now += 61.0
    holder.host.ship()
    assert len(holder.held) == 0
    assert not let_go


def test_nothing_is_held_where_it_is_switched_off(tmp_path: Path, let_go: list[Any]) -> None:
    holder = Holder(tmp_path, Bounds(0, 60.0))
    holder.turn(b"one\n")
    assert (len(holder.held), deleted_files_open(tmp_path)) == (0, 0)
    assert not let_go


def test_a_file_that_was_truncated_or_continues_in_a_copy_is_not_held(tmp_path: Path) -> None:
    holder = Holder(tmp_path, Bounds(1000, 60.0))
    append(holder.path, b"one\n" * 10)
    holder.host.ship()
    holder.path.write_bytes(b"two\n")
    holder.host.ship()
    holder.host.let_go()
    assert len(holder.host.archive.ends) == 1
    assert len(holder.held) == 0


def test_what_is_held_and_what_is_read_have_their_bound_of_descriptors_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [Bounds(1, 1.0, limit).files for limit in (1, 8, 1000, 1 << 30)] == [1, 2, 250, holding.MOST_FILES]
    holder = Holder(tmp_path, Bounds(1000, 60.0, 8), open_files=8)
    for number in range(5):
        holder.turn(b"%d\n" % number)
    assert len(holder.held) == 2
    for number in range(20):
        append(tmp_path / f"{number}.log", b"line\n")
    holder.host.kill()
    holder.host._patterns.append(str(tmp_path / "*.log"))
    many = Host(tmp_path, "*.log", retained=holder.held, open_files=8)
    many.ship()
    opened = sum(tail.fd >= 0 for tail in many.sources.readers)
    assert opened + len(holder.held) == 8


def test_the_end_of_the_process_reports_what_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(events, "held_files_end", lambda **fields: said.append(fields))
    holder = Holder(tmp_path, Bounds(1000, 60.0))
    holder.turn(b"one\n")
    append(holder.path, b"two\n")
    holder.host.ship()
    rotate(holder.path)
    holder.host.let_go()
    assert len(holder.held) == 2
    holder.held.close()
    assert said == [{"files": 1, "octets": 4}]
    assert deleted_files_open(tmp_path) == 0


def test_sources_that_went_back_are_read_from_what_is_held_and_are_held_again(tmp_path: Path) -> None:
    holder = Holder(tmp_path, Bounds(1000, 60.0))
    sources = [holder.turn(b"%d\n" % number * 10) for number in range(3)]
    append(holder.path, b"live\n")
    holder.host.ship()
    holder.host.sources.acks.rewind(sequence=0, archived={})
    holder.host.sources.close()
    holder.host.archive = type(holder.host.archive)()
    holder.host.kill()
    holder.host.start()  # the process goes on: what is held is still there
    holder.host.ship()
    holder.host.let_go()
    assert holder.host.archive.text(holder.path) == b"0\n" * 10 + b"1\n" * 10 + b"2\n" * 10 + b"live\n"
    assert not holder.host.archive.gaps
    assert len(holder.held) == 3
    holder.tell(*sources)
    assert len(holder.held) == 0


def test_a_file_of_a_source_that_goes_back_stays_held_however_little_is_acknowledged_now(tmp_path: Path) -> None:
    holder = Holder(tmp_path, Bounds(1000, 60.0))
    source = holder.turn(b"one\n")
    known = dict(holder.host.sources.acks.known)
    holder.held.settle({source: known[source].rewound(sequence=0, archived=0)})
    assert len(holder.held) == 1


def test_over_a_reload_deleted_files_are_held_until_the_collector_has_them(tmp_path: Path, natsd: NatsServer) -> None:
    path, config = tmp_path / "app.log", tmp_path / "c.toml"
    path.write_bytes(b"one\n" * 1000)
    config.write_text('[producer]\nrotate_wait = "200ms"\n[collector]\nreceipt_every = "200ms"\n')
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, path, options=("--poll", "20ms", "--config", str(config)))
        becomes(lambda: fleet.messages() == 1, what=lambda: producer.log)
        path.unlink()

        def held() -> int:
            names = [
                f"/proc/{producer.process.pid}/fd/{name}" for name in os.listdir(f"/proc/{producer.process.pid}/fd")
            ]
            return sum(os.path.realpath(name).endswith("app.log (deleted)") for name in names)

        becomes(lambda: fleet.messages() == 2, what=lambda: producer.log)
        assert held() == 1
        producer.process.send_signal(1)
        becomes(lambda: "settings_reloaded" in producer.log)
        becomes(lambda: producer.log.count("session_begun") == 2)
        assert held() == 1
        collector = fleet.consume("--config", str(config))
        becomes(lambda: held() == 0, what=lambda: producer.log + collector.log)
        assert (producer.stop(), collector.stop()) == (0, 0)
