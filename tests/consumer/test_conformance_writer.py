"""CONFORMANCE, central writer (76 to 80), on a real collector and a real server."""

import os
from pathlib import Path

from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from hostile import publish

HOST = "web1.example.net"


def say(natsd: NatsServer, *lines: bytes, host: str = HOST) -> None:
    publish(natsd, *((f"logs.p0.{host}", {}, line) for line in lines))


def opened(fleet: Fleet, host: str = HOST) -> Path:
    (path,) = fleet.archive.glob(f"date=*/partition=0/host={host}/_open-messages.log")
    return path


def test_76_whatever_a_host_is_called_its_lines_stay_inside_the_archive(fleet, natsd, tmp_path):
    names = [
        b"a/../../../b", b"a/b", b"/etc/passwd", b"..", b"a/..", b"nul\x00in.it", b"x" * 240, b"x" * 2000, b"A.B",
        b"_archive.json", b"live", b"%2e%2e%2f", b"\xff\xfe", b"\x1b[2J", b"con", b"a\\b", b"~root", b"$HOME", b"`id`",
    ]  # fmt: skip
    publish(natsd, *((b"logs.p0." + name, {}, b"of " + name[:20]) for name in names), ("logs.p0.good", {}, b"sound"))
    beside = {path.name for path in tmp_path.iterdir()} | {"archive", "state", "consume-0.log"}
    collector = fleet.consume()
    until(lambda: fleet.archived("good", "messages.log") == b"sound\n", what=lambda: collector.log)
    until(lambda: fleet.lag() == 0, what=lambda: str(collector.log_file))
    assert collector.stop() == 0
    assert {path.name for path in tmp_path.iterdir()} == beside
    day = {path.parent.parent.name for path in fleet.archive.glob("date=*/partition=0/host=*/_open-messages.log")}
    assert day == {"partition=0"}
    hosts = {path.name for path in fleet.archive.glob("date=*/partition=0/host=*")}
    assert {"host=good", "host=A.B", "host=a%2Fb", "host=%2Fetc%2Fpasswd"} <= hosts
    for link in (fleet.archive / "live").rglob("*"):
        assert link.resolve().is_relative_to(fleet.archive.resolve())
    assert fleet.must("dlq", "ls", "--json").count("\n") == 3  # two are too long, one is no text


def test_78_a_file_that_is_rotated_or_deleted_under_the_collector_costs_what_was_taken_and_nothing_more(
    fleet, natsd, tmp_path
):
    collector = fleet.consume()
    taken = b""
    for number, harm in enumerate(["rename", "unlink", "none"]):
        say(natsd, *(b"%d.%d" % (number, line) for line in range(50)))
        expected = b"".join(b"%d.%d\n" % (number, line) for line in range(50))
        until(lambda: fleet.archived(HOST, "messages.log") == expected, what=lambda: collector.log)  # noqa: B023
        until(lambda: fleet.lag() == 0)
        if harm == "rename":
            opened(fleet).rename(tmp_path / "rotated")
            taken += expected
        elif harm == "unlink":
            opened(fleet).unlink()
            taken += expected
    assert (tmp_path / "rotated").read_bytes().startswith(b"0.0\n0.1\n")
    assert collector.stop() == 0
    fleet.drain("--seal")
    assert fleet.archived(HOST, "messages.log") == expected
    gaps = [gap for segment in fleet.segments() for gap in segment.gaps]
    assert {gap.reason for gap in gaps} == {"archive_changed"}
    assert sum(gap.end - gap.start for gap in gaps) == len(taken)
    assert collector.log.count("archive_damaged") == 2


def test_79_a_restart_appends_to_the_file_and_never_overwrites_it(fleet, natsd):
    expected, inodes = b"", set()
    collector = fleet.consume()
    for number in range(3):
        say(natsd, b"line %d" % number)
        expected += b"line %d\n" % number
        until(lambda: fleet.archived(HOST, "messages.log") == expected, what=lambda: collector.log)  # noqa: B023
        inodes.add(os.stat(opened(fleet)).st_ino)
        collector.restart()
    assert len(inodes) == 1
    until(
        lambda: collector.log.count("session_begun") == 4, what=lambda: collector.log
    )  # before, a signal ends it immediately
    until(lambda: fleet.lag() == 0, what=lambda: str(collector.log_file))
    assert collector.stop() == 0
    assert opened(fleet).read_bytes() == expected


def test_80_many_hosts_with_small_segments_have_each_of_them_complete(fleet, natsd):
    hosts = [f"h{number}.example.net" for number in range(20)]
    lines = [b"%03d " % number + b"x" * 500 for number in range(60)]
    config = fleet.directory / "fshipper.toml"
    config.write_text('[collector]\nsegment = "8KiB"\nbatch = "1MiB"\nopen_files = 8\n')
    collector = fleet.consume("--config", str(config))
    for first in range(0, 60, 20):  # in turn, as many hosts write
        publish(natsd, *((f"logs.p0.{host}", {}, line) for line in lines[first : first + 20] for host in hosts))
        until(lambda: fleet.archived(hosts[-1], "messages.log").count(b"\n") == first + 20, what=lambda: collector.log)  # noqa: B023
    until(lambda: fleet.lag() == 0, what=lambda: str(collector.log_file))
    assert collector.stop() == 0
    fleet.drain("--seal")
    segments = fleet.segments()
    for host in hosts:
        own = [segment for segment in segments if segment.host == host]
        assert fleet.archived(host, "messages.log") == b"".join(line + b"\n" for line in lines)
        assert sum(segment.lines for segment in own) == 60
        assert len(own) > 1
        assert all(segment.bytes_raw % 505 == 0 and not segment.gaps for segment in own)
    assert not list(fleet.archive.rglob("_open-*"))
    assert not list(fleet.archive.rglob(".*.tmp"))
