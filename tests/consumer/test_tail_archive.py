"""`fshipper tail` further back than the streams: what the archive has, no line twice, none missing at the border."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from collecting import Log, cuts
from harness.natsd import NatsServer
from tail_fleet import TailFleet, objects

from shipper import layout

HOST = "web1.example.net"
LINES = b"".join(b"line %03d\n" % n for n in range(100))
BLOCK = 10 * len(b"line 000\n")


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer) -> Iterator[TailFleet]:
    with TailFleet(tmp_path, natsd, partitions=1) as fleet:
        yield fleet


@pytest.fixture
def archived(fleet: TailFleet) -> TailFleet:
    """Ten blocks, all archived and in the stream still."""
    fleet.send(*(block for cut in cuts(LINES, BLOCK) for block in fleet.blocks(Log(LINES, host=HOST), *cut)))
    fleet.drain()
    return fleet


@pytest.mark.parametrize("purged", [0, 1, 4, 9, 10])
def test_every_line_is_reported_once_wherever_the_stream_begins(archived: TailFleet, purged: int):
    archived.purge("LOGS_0", purged + 1)
    assert archived.tail("--raw") == LINES
    assert archived.tail("web*", "--raw", "-n", "15") == LINES[-15 * 9 :]
    lines = objects(archived.tail("--json"))
    assert [each["offset"] for each in lines] == list(range(0, 900, 9))


def test_sealed_segments_and_open_files_and_the_stream_are_one(archived: TailFleet):
    archived.drain("--seal")
    more = LINES.replace(b"line", b"more")
    log = Log(LINES + more, host=HOST)
    spans = [(start + len(LINES), end + len(LINES)) for start, end in cuts(more, BLOCK)]
    for start, end in spans[:5]:
        archived.send(*archived.blocks(log, start, end))
    archived.drain()
    archived.purge("LOGS_0", 13)
    for start, end in spans[5:]:
        archived.send(*archived.blocks(log, start, end))
    assert archived.tail("--raw") == LINES + more
    assert archived.tail("--raw", "--from", "streams") == (LINES + more)[12 * BLOCK :]
    assert archived.tail("--raw", "--from", "archive") == LINES + more[: 5 * BLOCK]


def test_lines_of_other_publishers_are_shown_once_too(fleet: TailFleet):
    fleet.send(*((f"logs.p0.{HOST}", {}, b"line %d" % n) for n in range(4)))
    fleet.drain()
    fleet.purge("LOGS_0", 3)
    fleet.send((f"logs.p0.{HOST}", {}, b"line 4"))
    assert fleet.tail("--raw") == b"".join(b"line %d\n" % n for n in range(5))


def test_frames_as_they_came_are_read_too(fleet: TailFleet, tmp_path: Path):
    config = tmp_path / "frames.toml"
    config.write_text('[collector]\nstore = "frames"\n')
    fleet.send(*(block for cut in cuts(LINES, BLOCK) for block in fleet.blocks(Log(LINES, host=HOST), *cut)))
    fleet.drain("--config", str(config))
    fleet.purge("LOGS_0", 6)
    assert fleet.tail("--raw") == LINES


def test_without_the_archive_it_reports_where_the_streams_begin(archived: TailFleet):
    archived.purge("LOGS_0", 6)
    elsewhere = {"SHIPPER_DIRECTORY": str(archived.directory / "nowhere")}
    assert archived.tail("--raw", "--since", "1h", **elsewhere) == LINES[5 * BLOCK :]
    assert "the streams begin at 2" in archived.noted
    assert archived.tail("--raw", "--since", "1h", "--archive", str(archived.archive), **elsewhere) == LINES


def test_an_archive_needs_no_server(archived: TailFleet):
    archived.server.kill()
    assert archived.tail("--from", "archive", "--raw", "web*", "--since", "1h") == LINES
    assert archived.tail("--from", "archive", "db*", code=1) == b""
    archived.tail(code=69)


def test_a_directory_that_is_no_archive_is_wrong_configuration(fleet: TailFleet, tmp_path: Path):
    fleet.tail("--archive", str(tmp_path), code=78)
    assert "there is no archive at" in fleet.noted


def test_only_the_days_that_are_requested_are_opened(archived: TailFleet):
    archived.drain("--seal")
    archived.purge("LOGS_0", 11)
    grown_old(archived, "2026-01-02")
    assert archived.tail("--raw", "--since", "2026-01-02", "--until", "2026-01-03") == LINES
    assert archived.tail("--raw", "--since", "2026-01-03") == b""
    assert archived.tail("--raw", "--until", "2026-01-02") == b""


def test_unreadable_parts_are_reported_and_the_rest_is_shown(archived: TailFleet):
    archived.drain("--seal")
    other = Log(b"sound\n", id="00000000000000b1", host=HOST, file="/var/log/other.log")
    archived.send(*archived.blocks(other))
    archived.drain("--seal")
    archived.purge("LOGS_0", 12)
    (segment,) = (each for each in archived.segments() if each.file != other.file)
    (archived.archive / segment.path).unlink()
    assert archived.tail("--raw", code=1) == other.data
    assert segment.path in archived.noted


def grown_old(fleet: TailFleet, day: str) -> None:
    """All sealed segments become ones of an earlier day."""
    for manifest in fleet.archive.glob("_manifest/date=*/*.jsonl"):
        date = manifest.parent.name.removeprefix("date=")
        fields = json.loads(manifest.read_bytes())
        fields["path"] = fields["path"].replace(date, day)
        fields["first_time"], fields["last_time"] = f"{day}T10:00:00.000000Z", f"{day}T10:30:00.000000Z"
        older = fleet.archive / layout.manifest_path(day, "here")
        older.parent.mkdir(parents=True)
        older.write_text(json.dumps(fields) + "\n")
        shutil.move(fleet.archive / f"date={date}", fleet.archive / f"date={day}")
        manifest.unlink()
