"""Tests of other tail shippers for finding files and identity that no other test here covers."""

from pathlib import Path

from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from producing import Host, append

HOST = "web1.example.net"


def test_a_name_that_cannot_be_read_is_reported_once_and_read_completely_when_it_can(
    tmp_path: Path, natsd: NatsServer
) -> None:
    logs = tmp_path / "logs"
    (logs / "dir.log").mkdir(parents=True)  # matches, and is ignored at every scan
    (logs / "dir.log" / "inside.log").write_bytes(b"not ours\n")
    broken, other = logs / "broken.log", logs / "other.log"
    broken.symlink_to(broken)  # ELOOP, for every user: root may read a file without permissions
    other.touch()
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, logs / "*.log", options=("--poll", "10ms"))
        collector = fleet.consume()
        wanted = b""
        for number in range(20):  # each needs a scan
            append(other, b"line %d\n" % number)
            wanted += b"line %d\n" % number
            until(lambda: fleet.archived(HOST, other) == wanted, what=lambda: producer.log)  # noqa: B023
        assert producer.log.count("file_unreadable") == 1, producer.log
        (logs / "new").write_bytes(b"one\ntwo\n")
        (logs / "new").rename(broken)
        until(lambda: fleet.archived(HOST, broken) == b"one\ntwo\n", what=lambda: producer.log)
        assert "dir.log" not in producer.log
        assert producer.stop() == 0
        assert collector.stop() == 0


def test_a_file_that_grows_byte_by_byte_over_restarts_is_one_source_and_one_row(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.touch()
    host = Host(tmp_path, "app.log")
    text = b"".join(b"%d\n" % number for number in range(500))
    for at in range(0, len(text), 97):
        append(path, text[at : at + 97])
        host.ship()
        if at % 3 == 0:
            host.restart()
    host.ship()
    assert host.archive.text(path) == text
    assert len(host.archive.sources_of(path)) == 1
    assert len(host.checkpoints.load()) == 1
