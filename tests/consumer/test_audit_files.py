"""The audit finds what was done to files, sealed and open, and is silent over what was not."""

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from auditing import LINES, Audited, doubled, packed, swapped
from collecting import HOST, Log, cuts
from harness.fleet import unpack

from consumer.archive.directory import lock_path
from consumer.archive.parts import FileState, Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Wanted
from consumer.audit.day_inventory import expected
from consumer.audit.verify_file import check
from consumer.model import Until
from shipper import layout
from shipper.durable_files import Lock
from shipper.layout import FileKey
from shipper.model import Encoding

CODECS = ["zstd", "gzip", "none"]
DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped byte": lambda path: path.write_bytes(flipped(path.read_bytes(), path.stat().st_size // 2)),
    "its last byte cut off": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "cut to nothing": lambda path: path.write_bytes(b""),
    "a doubled line": lambda path: path.write_bytes(packed(doubled(unpack(path)), path.suffix)),
    "a doubled line instead of another": lambda path: path.write_bytes(packed(swapped(unpack(path)), path.suffix)),
    "all of it twice": lambda path: path.write_bytes(path.read_bytes() * 2),
}


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


async def sealed(directory: Path, codec: str = "zstd") -> Audited:
    archive = Audited(directory, codec=codec)
    for log in (Log(LINES), Log(LINES * 2, id="00000000000000b2", host="db1.example.net")):
        for start, end in cuts(log.data, 1500):
            archive.send(log, start, end)
    await archive.drain(Until.SEALED)
    return archive


async def opened(directory: Path) -> Audited:
    archive = Audited(directory)
    for start, end in cuts(LINES, 1500):
        archive.send(Log(LINES), start, end)
    await archive.drain()
    return archive


@pytest.mark.parametrize("codec", CODECS)
async def test_a_sealed_archive_is_complete_and_every_byte_and_line_of_it_is_counted(
    tmp_path: Path, codec: str
) -> None:
    archive = await sealed(tmp_path, codec)
    result = archive.audit()
    assert (result.code, result.found["findings"], result.errors) == (0, [], "")
    assert result.found["totals"]["archived"] == {"bytes": 3 * len(LINES), "lines": 600}
    assert [(row["host"], row["archived"]["lines"]) for row in result.found["files"]] == [
        ("db1.example.net", 400),
        (HOST, 200),
    ]


async def test_an_archive_of_open_files_is_complete(tmp_path: Path) -> None:
    archive = await opened(tmp_path)
    result = archive.audit()
    assert (result.code, result.found["findings"]) == (0, [])
    assert result.found["totals"]["archived"] == {"bytes": len(LINES), "lines": 200}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("codec", CODECS)
async def test_it_is_found_in_a_segment_and_the_other_host_is_complete(tmp_path: Path, codec: str, damage: str) -> None:
    archive = await sealed(tmp_path, codec)
    (segment,) = archive.archive.glob(f"date=*/*/host={HOST}/[!_.]*")
    DAMAGES[damage](segment)
    result = archive.audit()
    assert result.code == 2
    assert result.kinds == ["damaged_file"], result.texts
    (finding,) = result.found["findings"]
    assert (finding["host"], finding["path"]) == (HOST, str(segment.relative_to(archive.archive)))
    assert [row["complete"] for row in result.found["files"]] == [True, False]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_it_is_found_in_an_open_file(tmp_path: Path, damage: str) -> None:
    archive = await opened(tmp_path)
    DAMAGES[damage](archive.opened)
    result = archive.audit()
    assert result.code == 2
    assert set(result.kinds) <= {"damaged_file", "uncommitted_bytes"}, result.texts


async def test_a_line_appended_to_an_open_file_is_found_with_the_place_it_will_go_to(
    tmp_path: Path,
) -> None:
    archive = await opened(tmp_path)
    with archive.opened.open("ab") as file:
        file.write(LINES.splitlines(keepends=True)[-1])
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["uncommitted_bytes"])
    assert "next start of the collector cuts them off" in result.found["findings"][0]["hint"]
    assert result.found["totals"]["archived"]["lines"] == 200
    await archive.drain()
    assert archive.audit().code == 0


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("what", ["a segment", "text"])
async def test_what_is_appended_to_a_segment_is_counted_and_not_read(tmp_path: Path, codec: str, what: str) -> None:
    archive = await sealed(tmp_path, codec)
    (segment,) = archive.archive.glob(f"date=*/*/host={HOST}/[!_.]*")
    whole = segment.read_bytes()
    added = whole if what == "a segment" else b"a line of a person\n"
    segment.write_bytes(whole + added)
    result = archive.audit()
    (finding,) = result.found["findings"]
    assert (result.code, finding["kind"], finding["bytes"]) == (2, "damaged_file", len(added))
    assert f"truncate -s {len(whole)} " in finding["hint"]
    reader = ArchiveReader(archive.archive)
    (part,) = [each for each in reader.find(Wanted()) if each.host == HOST]
    with reader.open_text(part, 0, part.raw) as text:
        assert b"".join(text) == LINES
    with reader.open(part, 0, None) as lines:
        assert sum(block.text.count(b"\n") for block in lines.blocks) == LINES.count(b"\n")


@pytest.mark.parametrize("epoch", [0, 3])
async def test_bytes_that_a_collector_has_not_committed_yet_are_a_note_while_it_runs(
    tmp_path: Path, epoch: int
) -> None:
    archive = await opened(tmp_path)
    with archive.opened.open("ab") as file:
        file.write(LINES)
    with Lock(lock_path(archive.archive, 0, epoch), "the partition"):
        result = archive.audit()
    assert (result.code, result.kinds) == (0, [])
    assert result.notes == [f"{len(LINES):,} bytes in open files are not committed yet: a collector is writing them"]
    assert archive.audit().code == 2


@pytest.mark.parametrize("codec", CODECS)
async def test_a_missing_segment_is_found(tmp_path: Path, codec: str) -> None:
    archive = await sealed(tmp_path, codec)
    (segment,) = archive.archive.glob(f"date=*/*/host={HOST}/[!_.]*")
    segment.unlink()
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["missing_file"])
    assert result.found["totals"]["missing"] == {"bytes": len(LINES), "lines": 200}


async def test_a_missing_open_file_is_found_and_so_is_the_gap_that_the_next_start_makes_of_it(tmp_path: Path) -> None:
    archive = await opened(tmp_path)
    archive.opened.unlink()
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["missing_file"])
    assert result.found["totals"]["missing"]["bytes"] == len(LINES)
    await archive.drain()
    result = archive.audit()
    assert (result.code, set(result.kinds)) == (2, {"gap"}), result.texts
    assert "archive_changed" in result.texts
    await archive.drain(Until.SEALED)
    result = archive.audit()
    assert (result.code, set(result.kinds)) == (2, {"gap"}), result.texts


async def test_a_file_of_one_host_under_the_name_of_another_is_found_at_both(tmp_path: Path) -> None:
    for number, archive in enumerate([await sealed(tmp_path / "a"), await opened(tmp_path / "b")]):
        (path,) = archive.archive.glob(f"date=*/*/host={HOST}/*")
        home = path.parent.with_name("host=web9.example.net")
        home.mkdir()
        path.rename(home / path.name)
        result = archive.audit()
        assert (result.code, sorted(result.kinds)) == (2, ["missing_file", "unlisted_file"]), number
        assert {each["host"] for each in result.found["findings"]} == {HOST, "web9.example.net"}


@pytest.mark.parametrize("codec", CODECS)
async def test_every_single_flipped_byte_of_a_segment_is_found(tmp_path: Path, codec: str) -> None:
    """Also in the time of a gzip header and the window of a zstd frame, which decode to the same text."""
    archive = Audited(tmp_path, codec=codec)
    archive.send(Log(LINES[:400]), 0, 400)
    await archive.drain(Until.SEALED)
    (segment,) = archive.segments()
    entry = expected(segment)
    data = archive.segment.read_bytes()
    assert check(archive.archive, entry).sound
    for at in range(len(data)):
        archive.segment.write_bytes(flipped(data, at))
        assert not check(archive.archive, entry).sound, at


async def test_files_of_many_frames_and_members_are_read_to_their_end(tmp_path: Path) -> None:
    parts = [LINES, LINES * 20, LINES[:1000]]
    for codec, suffix in (("zstd", ".zst"), ("gzip", ".gz")):
        archive = await sealed(tmp_path / codec, codec)
        (segment,) = [each for each in archive.segments() if each.host == HOST]
        entry = expected(segment)
        path = archive.archive / segment.path
        path.write_bytes(b"".join(packed(part, suffix) for part in parts))
        assert check(archive.archive, entry).raw == sum(map(len, parts))
        path.write_bytes(b"".join(packed(part, suffix) for part in parts)[:-30])
        found = check(archive.archive, entry)
        assert found.wrong
        assert found.raw <= sum(map(len, parts))
        path.write_bytes(packed(LINES, suffix) + b"rubbish")
        assert "cannot be unpacked" in " ".join(check(archive.archive, entry).wrong)


async def test_a_file_that_swells_far_beyond_what_it_should_hold_is_left_off_early(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    (path,) = archive.archive.glob(f"date=*/*/host={HOST}/[!_.]*")
    bomb = packed(bytes(300 << 20), ".zst")
    path.write_bytes(bomb)
    (segment,) = [each for each in archive.segments() if each.host == HOST]
    found = check(archive.archive, expected(segment))
    assert found.raw < 100 << 20
    assert "far more text" in " ".join(found.wrong)


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
async def test_open_files_of_frames_are_proven_and_any_flipped_byte_of_their_blocks_is_found(
    tmp_path: Path, codec: str
) -> None:
    encoding = Encoding.GZIP if codec == "gzip" else Encoding.ZSTD
    archive = Audited(tmp_path, codec=codec, frames=codec)
    for start, end in cuts(LINES, 1500):
        archive.send(Log(LINES, encoding=encoding), start, end)
    await archive.drain()
    result = archive.audit()
    assert (result.code, result.found["totals"]["archived"]) == (0, {"bytes": len(LINES), "lines": 200})
    data = archive.opened.read_bytes()
    assert len(data) < len(LINES)
    for at in (len(data) // 3, len(data) // 2, len(data) - 5):
        archive.opened.write_bytes(flipped(data, at))
        assert archive.audit().kinds == ["damaged_file"]
    archive.opened.write_bytes(data[:-7])
    assert archive.audit().kinds == ["damaged_file"]
    archive.opened.write_bytes(data + data[:50])
    assert archive.audit().kinds == ["uncommitted_bytes"]
    archive.opened.write_bytes(data)
    await archive.drain(Until.SEALED)
    result = archive.audit()
    assert (result.code, result.found["totals"]["archived"]) == (0, {"bytes": len(LINES), "lines": 200})


async def test_a_segment_that_is_a_directory_is_no_crash(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    (path,) = archive.archive.glob(f"date=*/*/host={HOST}/[!_.]*")
    path.unlink()
    path.mkdir()
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["unreadable_file"])


async def test_only_what_is_requested_is_read(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    (segment,) = archive.archive.glob(f"date=*/*/host={HOST}/[!_.]*")
    segment.unlink()
    assert archive.audit("--host", "db*").code == 0
    assert archive.audit("--host", "web*").code == 2
    day = archive.segments()[0].path[5:15]
    assert archive.audit("--date", day).code == 2
    assert archive.audit("--date", "2001-01-01").code == 69
    assert archive.audit("--host", "mail*").code == 69


async def test_a_copy_of_an_archive_without_its_journals_is_verified_by_its_manifests(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    for name in ("_journal", "_archive.json"):
        path = archive.archive / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert archive.audit().code == 0
    archive.manifest.unlink()
    assert archive.audit().code == 2


def test_a_file_that_is_sealed_before_it_is_read_is_verified_as_the_segment(tmp_path: Path) -> None:
    key = FileKey("2026-11-20", 0, HOST, "/var/log/app.log")
    segment, open_file = layout.segment_path(key, 1, "zstd"), f"{layout.directory(key)}/_open-app.log"
    entry = Part(
        key=key, path=layout.sealing_path(segment), state=FileState.SEALING, codec="none", stored=len(LINES),
        raw=len(LINES), crc=zlib.crc32(LINES), lines=200, becomes=segment, also=open_file,
    )  # fmt: skip
    place = tmp_path / segment
    place.parent.mkdir(parents=True)
    place.write_bytes(packed(LINES, ".zst"))
    (tmp_path / open_file).write_bytes(b"the next open file\n")
    found = check(tmp_path, entry)
    assert (found.wrong, found.raw, found.lines, found.uncommitted) == ((), len(LINES), 200, 0)

    place.write_bytes(packed(swapped(LINES), ".zst"))
    assert not check(tmp_path, entry).sound
    place.unlink()
    assert not check(tmp_path, entry).sound
    (tmp_path / open_file).write_bytes(LINES)  # a kill between journal and rename
    assert check(tmp_path, entry).sound
    (tmp_path / open_file).unlink()
    assert check(tmp_path, entry).missing
