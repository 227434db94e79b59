"""What is wrong with manifests, journals and names is found; what a kill leaves is not called wrong."""

import contextlib
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from auditing import LINES, Audited
from collecting import HOST, KilledError, Log, cuts, kill_at
from test_collector_sealing import STEPS

from consumer.model import Until
from consumer.segments.sealer import Sealer
from shipper.errors import ArchiveTrouble


async def sealed(directory: Path) -> Audited:
    """Three segments of one file."""
    archive = Audited(directory)
    for start, end in cuts(LINES, 1600):
        archive.send(Log(LINES), start, end)
        await archive.drain(Until.SEALED)
    assert len(archive.segments()) == 3
    return archive


def lines(archive: Audited) -> list[bytes]:
    return archive.manifest.read_bytes().splitlines(keepends=True)


def write(archive: Audited, *found: bytes) -> None:
    archive.manifest.write_bytes(b"".join(found))


def edited(line: bytes, **fields: Any) -> bytes:
    return json.dumps(json.loads(line) | fields, separators=(",", ":")).encode() + b"\n"


async def test_a_segment_that_no_manifest_lists_is_found(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    first = archive.archive / archive.segments()[0].path
    shutil.copy(first, first.with_name(first.name.replace("0001", "9001")))
    said = archive.audit()
    assert (said.code, said.kinds) == (2, ["unlisted_file"])
    assert said.found["findings"][0]["bytes"] == first.stat().st_size


async def test_a_line_that_is_gone_is_found_at_its_segment_and_at_its_source(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    first, _, last = lines(archive)
    write(archive, first, last)
    said = archive.audit()
    assert (said.code, sorted(said.kinds)) == (2, ["missing_bytes", "unlisted_file"])
    assert said.found["totals"]["missing"]["bytes"] == 1600


async def test_a_doubled_line_of_a_manifest_is_found_and_counts_once(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    first, second, third = lines(archive)
    write(archive, first, second, second, third)
    said = archive.audit()
    assert (said.code, said.kinds) == (2, ["bad_manifest"])
    assert "a second time" in said.texts
    assert said.found["totals"]["archived"]["bytes"] == len(LINES)


@pytest.mark.parametrize("where", [0, 1, 2])
async def test_a_torn_line_of_a_manifest_is_found(tmp_path: Path, where: int) -> None:
    archive = await sealed(tmp_path)
    found = lines(archive)
    found[where] = found[where][:50] + b"\n" * (where < 2)
    write(archive, *found)
    said = archive.audit()
    assert said.code == 2
    assert sorted(said.kinds) == ["bad_manifest", "missing_bytes", "unlisted_file"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"v": 9}, "version"),
        ({"path": "../../etc/passwd"}, "not the place"),
        ({"host": "web9.example.net"}, "not the place"),
        ({"bytes_raw": "many"}, "wrong type"),
        ({"codec": "lz4"}, "unknown"),
        ({"crc32": "nothing"}, "nothing"),
    ],
)
async def test_a_line_with_impossible_values_is_found(tmp_path: Path, fields: dict[str, Any], why: str) -> None:
    archive = await sealed(tmp_path)
    first, second, third = lines(archive)
    write(archive, first, edited(second, **fields), third)
    said = archive.audit()
    assert said.code == 2
    assert "bad_manifest" in said.kinds
    assert f"line 2 cannot be read: {why}" in said.texts or why in said.texts


@pytest.mark.parametrize("fields", [{"lines": 1}, {"crc32": "00000000"}, {"bytes_raw": 7}, {"bytes_stored": 7}])
async def test_a_line_that_differs_from_its_segment_is_found(tmp_path: Path, fields: dict[str, Any]) -> None:
    archive = await sealed(tmp_path)
    first, second, third = lines(archive)
    write(archive, first, edited(second, **fields), third)
    said = archive.audit()
    assert said.code == 2
    assert "damaged_file" in said.kinds


async def test_two_collectors_may_list_the_same_segment_and_must_say_the_same(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    other = archive.manifest.with_name("other.jsonl")
    again = [edited(line, collector="other", sealed_at="2026-11-21T00:00:00Z") for line in lines(archive)]
    other.write_bytes(b"".join(again))
    said = archive.audit()
    assert (said.code, said.kinds) == (0, [])
    assert said.found["totals"]["archived"]["bytes"] == len(LINES)
    other.write_bytes(edited(again[1], lines=1))
    said = archive.audit()
    assert (said.code, said.kinds) == (2, ["bad_manifest"])
    assert "other values" in said.texts


async def test_a_manifest_that_is_missing_while_its_directory_is_there_is_found(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    archive.sealer.close_day(archive.segments()[0].path[5:15])
    archive.manifest.unlink()
    said = archive.audit()
    assert said.code == 2
    assert set(said.kinds) == {"bad_manifest", "unlisted_file", "missing_bytes"}
    assert "the manifest that it closes is not there" in said.texts


async def test_a_day_without_its_directory_is_found(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    (day,) = archive.archive.glob("date=*")
    shutil.rmtree(day)
    said = archive.audit()
    assert (said.code, set(said.kinds)) == (2, {"missing_file"})
    assert said.found["totals"]["missing"] == {"bytes": len(LINES), "lines": 200}


async def test_a_day_of_which_nothing_at_all_is_left_is_found_by_what_the_journal_remembers(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    (day,) = archive.archive.glob("date=*")
    shutil.rmtree(day)
    shutil.rmtree(archive.manifest.parent)
    said = archive.audit()
    assert (said.code, said.kinds) == (2, ["missing_bytes"])
    assert said.found["totals"]["missing"]["bytes"] == len(LINES)


async def test_a_day_that_retention_removed_is_no_damage(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    (day,) = archive.archive.glob("date=*")
    removed = archive.archive / "_manifest/removed.jsonl"
    removed.write_bytes(json.dumps({"v": 1, "date": day.name[5:]}).encode() + b"\n")
    said = archive.audit()  # killed after its first line
    assert (said.code, said.kinds) == (0, [])
    assert "removed by retention" in said.notes[0]
    manifests = archive.manifest.parent
    shutil.rmtree(day)
    shutil.rmtree(manifests)
    said = archive.audit()
    assert (said.code, said.kinds) == (0, [])
    assert archive.audit("--date", day.name[5:]).code == 0


async def test_parts_of_a_merged_segment_count_no_more(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    parts = archive.segments()
    merged = archive.archive / parts[0].path.replace("-0000", "-0001")
    merged.write_bytes(b"".join((archive.archive / part.path).read_bytes() for part in parts))
    whole = edited(
        lines(archive)[0],
        path=str(merged.relative_to(archive.archive)),
        lines=200,
        bytes_raw=len(LINES),
        bytes_stored=merged.stat().st_size,
        crc32=f"{zlib.crc32(LINES):08x}",
        crc32_stored="",
        spans=[{"source": parts[0].spans[0].source, "start": 0, "end": len(LINES)}],
        replaces=[part.path for part in parts],
    )
    archive.manifest.write_bytes(archive.manifest.read_bytes() + whole)
    assert archive.audit().code == 0  # killed before the parts were removed
    for part in parts:
        (archive.archive / part.path).unlink()
    said = archive.audit()
    assert (said.code, said.found["totals"]["archived"]["bytes"]) == (0, len(LINES))


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
async def test_a_kill_while_sealing_leaves_nothing_that_is_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, after: bool
) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, len(LINES))
    archive.send(Log(LINES, id="00000000000000c3", host="db1.example.net"), 0, len(LINES))
    await archive.drain()
    await die_while_sealing(archive, monkeypatch, owner, name, after=after)
    said = archive.audit()
    assert (said.code, said.kinds) == (0, []), said.texts
    assert said.found["totals"]["archived"]["bytes"] == 2 * len(LINES)
    await archive.drain(Until.SEALED)
    assert archive.audit().found["totals"]["archived"]["bytes"] == 2 * len(LINES)


async def die_while_sealing(
    archive: Audited, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, *, after: bool
) -> None:
    with monkeypatch.context() as patched:
        kill_at(patched, owner, name, after=after)
        with archive.worker(Until.SEALED) as worker, contextlib.suppress(KilledError, ArchiveTrouble):
            await worker.run()  # a kill in a parallel task ends that task only


async def test_a_manifest_line_that_a_kill_tore_is_a_note_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = await sealed(tmp_path)
    archive.send(Log(LINES * 2), len(LINES), len(LINES) + 1000)
    await die_while_sealing(archive, monkeypatch, Sealer, "record", after=True)
    archive.manifest.write_bytes(archive.manifest.read_bytes()[:-20])
    said = archive.audit()
    assert (said.code, said.kinds) == (0, []), said.texts
    assert "cut off by a kill" in said.notes[0]
    await archive.drain(Until.SEALED)
    assert archive.audit().found["findings"] == []


async def test_an_open_file_that_no_journal_knows_is_found(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    archive.send(Log(LINES * 2), len(LINES), 2 * len(LINES))
    await archive.drain()
    directory = archive.opened.parent
    (directory / "_open-var~log~other.log").write_bytes(LINES)
    (directory / "_sealing-var~log~other.log-00000000000000000001.zst").write_bytes(LINES)
    said = archive.audit()
    assert (said.code, said.kinds) == (2, ["unlisted_file", "unlisted_file"])
    assert "no journal knows" in said.texts


async def test_of_two_epochs_the_newest_journal_counts_and_what_a_fenced_collector_left_is_a_note(
    tmp_path: Path,
) -> None:
    archive = await sealed(tmp_path)
    archive.send(Log(LINES * 2), len(LINES), 2 * len(LINES))
    await archive.drain()
    journals = archive.archive / "_journal"
    shutil.copy(archive.journal_path, journals / "logs.p0.1.sqlite")
    archive.journal_path.write_bytes(b"no database")
    (archive.opened.parent / "_open-var~log~late.log").write_bytes(LINES)
    said = archive.audit()
    assert (said.code, said.kinds) == (0, []), said.texts
    assert "had lost the partition" in said.notes[0]
    assert said.found["totals"]["archived"]["bytes"] == 2 * len(LINES)


async def test_open_files_whose_journal_is_elsewhere_are_reported_to_be_unproven(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    archive.send(Log(LINES * 2), len(LINES), 2 * len(LINES))
    await archive.drain()
    identity = json.loads((archive.archive / "_archive.json").read_bytes())["id"]
    state = tmp_path / "state"
    (state / "collector").mkdir(parents=True)
    (archive.archive / "_journal").rename(state / "collector" / identity)
    said = archive.audit()
    assert (said.code, said.kinds) == (2, ["unlisted_file"])
    assert "SHIPPER_STATE" in said.found["findings"][0]["hint"]
    said = archive.audit("--state", str(state))
    assert (said.code, said.kinds) == (0, [])
    assert said.found["totals"]["archived"]["bytes"] == 2 * len(LINES)


async def test_a_journal_that_cannot_be_read_is_a_finding_and_the_segments_are_verified(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    archive.journal_path.write_bytes(b"no database" * 1000)
    said = archive.audit()
    assert (said.code, said.kinds) == (2, ["bad_journal"])
    assert str(archive.journal_path) in said.texts
    assert said.found["totals"]["archived"]["bytes"] == len(LINES)


async def test_a_journal_older_than_the_archive_is_found(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    old = archive.journal_path.read_bytes()
    archive.send(Log(LINES * 2), len(LINES), 2 * len(LINES))
    await archive.drain(Until.SEALED)
    archive.journal_path.write_bytes(old)
    said = archive.audit()
    assert (said.code, said.kinds) == (2, ["bad_journal"])
    assert f"lacks {len(LINES):,} bytes" in said.texts


async def test_plain_lines_and_names_that_are_no_utf_8_are_no_error(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    archive.say(b"a line from anybody")
    archive.send(Log(LINES, file="/var/log/caf\udce9 [x]=1.log.gz"), 0, len(LINES))
    await archive.drain()
    assert archive.audit().code == 0
    await archive.drain(Until.SEALED)
    said = archive.audit()
    assert said.code == 0
    assert {row["host"] for row in said.found["files"]} == {HOST}
    assert said.found["totals"]["archived"]["lines"] == 201
