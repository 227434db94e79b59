"""What is wrong with manifests, journals and names is found; what a kill leaves is not called wrong."""

import contextlib
import json
import shutil
import zlib
from collections.abc import Callable
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


def copy_first(archive: Audited) -> None:
    first = archive.archive / archive.segments()[0].path
    shutil.copy(first, first.with_name(first.name.replace("0001", "9001")))


def tear(archive: Audited, where: int) -> None:
    found = lines(archive)
    found[where] = found[where][:50] + b"\n" * (where < 2)
    write(archive, *found)


def edit(archive: Audited, **fields: Any) -> None:
    first, second, third = lines(archive)
    write(archive, first, edited(second, **fields), third)


def close_without_manifest(archive: Audited) -> None:
    archive.sealer.close_day(archive.segments()[0].path[5:15])
    archive.manifest.unlink()


def remove_day(archive: Audited, *, with_manifests: bool) -> None:
    shutil.rmtree(archive.archive / archive.segments()[0].path[:15])
    if with_manifests:
        shutil.rmtree(archive.manifest.parent)


BAD_LINE = ["bad_manifest", "missing_bytes", "unlisted_file"]
DAMAGES: dict[str, tuple[Callable[[Audited], object], list[str], str, dict[str, tuple[int, int]]]] = {
    "a segment that no manifest lists": (copy_first, ["unlisted_file"], "no manifest lists", {}),
    "a line that is gone": (
        lambda archive: write(archive, *lines(archive)[::2]),
        ["missing_bytes", "unlisted_file"], "", {"missing": (1600, 0)},
    ),
    "a doubled line": (
        lambda archive: write(archive, *lines(archive)[:2], *lines(archive)[1:]),
        ["bad_manifest"], "a second time", {"archived": (len(LINES), 200)},
    ),
    "a torn first line": (lambda archive: tear(archive, 0), BAD_LINE, "", {}),
    "a torn line": (lambda archive: tear(archive, 1), BAD_LINE, "", {}),
    "a torn last line": (lambda archive: tear(archive, 2), BAD_LINE, "", {}),
    "another version": (lambda archive: edit(archive, v=9), BAD_LINE, "line 2 cannot be read: no JSON", {}),
    "a path out of it": (lambda archive: edit(archive, path="../../etc/passwd"), BAD_LINE, "not the place", {}),
    "another host": (lambda archive: edit(archive, host="web9.example.net"), BAD_LINE, "not the place", {}),
    "a wrong type": (lambda archive: edit(archive, bytes_raw="many"), BAD_LINE, "wrong type", {}),
    "an unknown codec": (lambda archive: edit(archive, codec="lz4"), BAD_LINE, "unknown", {}),
    "a sum that is none": (lambda archive: edit(archive, crc32="nothing"), BAD_LINE, "nothing", {}),
    "other lines": (lambda archive: edit(archive, lines=1), ["damaged_file"], "lines instead of 1", {}),
    "another sum": (lambda archive: edit(archive, crc32="00000000"), ["damaged_file"], "not 00000000", {}),
    "another length": (lambda archive: edit(archive, bytes_raw=7), ["bad_account", "damaged_file"], "of text", {}),
    "another stored length": (lambda archive: edit(archive, bytes_stored=7), ["damaged_file"], "on disk", {}),
    "a closed day without its manifest": (
        close_without_manifest, ["bad_manifest", "missing_bytes", *["unlisted_file"] * 3],
        "the manifest that it closes is not there", {},
    ),
    "a day without its directory": (
        lambda archive: remove_day(archive, with_manifests=False),
        ["missing_file"] * 3, "", {"missing": (len(LINES), 200)},
    ),
    "a day of which only the journal knows": (
        lambda archive: remove_day(archive, with_manifests=True),
        ["missing_bytes"], "", {"missing": (len(LINES), 0)},
    ),
    "a journal that cannot be read": (
        lambda archive: archive.journal_path.write_bytes(b"no database" * 1000),
        ["bad_journal"], "_journal/logs.p0.sqlite", {"archived": (len(LINES), 200)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_is_wrong_is_found(tmp_path: Path, damage: str) -> None:
    archive, (change, kinds, text, totals) = await sealed(tmp_path), DAMAGES[damage]
    change(archive)
    result = archive.audit()
    assert (result.code, sorted(result.kinds)) == (2, kinds), result.texts
    assert text in result.texts
    found = result.found["totals"]
    assert {name: (found[name]["bytes"], found[name]["lines"]) for name in totals} == totals


async def test_two_collectors_may_list_the_same_segment_and_must_say_the_same(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    other = archive.manifest.with_name("other.jsonl")
    again = [edited(line, collector="other", sealed_at="2026-11-21T00:00:00Z") for line in lines(archive)]
    other.write_bytes(b"".join(again))
    result = archive.audit()
    assert (result.code, result.kinds) == (0, [])
    assert result.found["totals"]["archived"]["bytes"] == len(LINES)
    other.write_bytes(edited(again[1], lines=1))
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["bad_manifest"])
    assert "other values" in result.texts


async def test_a_day_that_retention_removed_is_no_damage(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    (day,) = archive.archive.glob("date=*")
    removed = archive.archive / "_manifest/removed.jsonl"
    removed.write_bytes(json.dumps({"v": 1, "date": day.name[5:]}).encode() + b"\n")
    result = archive.audit()  # killed after its first line
    assert (result.code, result.kinds) == (0, [])
    assert "removed by retention" in result.notes[0]
    manifests = archive.manifest.parent
    shutil.rmtree(day)
    shutil.rmtree(manifests)
    result = archive.audit()
    assert (result.code, result.kinds) == (0, [])
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
    result = archive.audit()
    assert (result.code, result.found["totals"]["archived"]["bytes"]) == (0, len(LINES))


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
    result = archive.audit()
    assert (result.code, result.kinds) == (0, []), result.texts
    assert result.found["totals"]["archived"]["bytes"] == 2 * len(LINES)
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
    result = archive.audit()
    assert (result.code, result.kinds) == (0, []), result.texts
    assert "cut off by a kill" in result.notes[0]
    await archive.drain(Until.SEALED)
    assert archive.audit().found["findings"] == []


async def test_an_open_file_that_no_journal_knows_is_found(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    archive.send(Log(LINES * 2), len(LINES), 2 * len(LINES))
    await archive.drain()
    directory = archive.opened.parent
    (directory / "_open-var~log~other.log").write_bytes(LINES)
    (directory / "_sealing-var~log~other.log-00000000000000000001.zst").write_bytes(LINES)
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["unlisted_file", "unlisted_file"])
    assert "no journal knows" in result.texts
    assert [each["bytes"] for each in result.found["findings"]] == [len(LINES)] * 2


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
    result = archive.audit()
    assert (result.code, result.kinds) == (0, []), result.texts
    assert "had lost the partition" in result.notes[0]
    assert result.found["totals"]["archived"]["bytes"] == 2 * len(LINES)


async def test_open_files_whose_journal_is_elsewhere_are_reported_to_be_unproven(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    archive.send(Log(LINES * 2), len(LINES), 2 * len(LINES))
    await archive.drain()
    identity = json.loads((archive.archive / "_archive.json").read_bytes())["id"]
    state = tmp_path / "state"
    (state / "collector").mkdir(parents=True)
    (archive.archive / "_journal").rename(state / "collector" / identity)
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["unlisted_file"])
    assert "SHIPPER_STATE" in result.found["findings"][0]["hint"]
    result = archive.audit("--state", str(state))
    assert (result.code, result.kinds) == (0, [])
    assert result.found["totals"]["archived"]["bytes"] == 2 * len(LINES)


async def test_a_journal_older_than_the_archive_is_found(tmp_path: Path) -> None:
    archive = await sealed(tmp_path)
    old = archive.journal_path.read_bytes()
    archive.send(Log(LINES * 2), len(LINES), 2 * len(LINES))
    await archive.drain(Until.SEALED)
    archive.journal_path.write_bytes(old)
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["bad_journal"])
    assert f"lacks {len(LINES):,} bytes" in result.texts


async def test_plain_lines_and_names_that_are_no_utf_8_are_no_error(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    archive.say(b"a line from anybody")
    archive.send(Log(LINES, file="/var/log/caf\udce9 [x]=1.log.gz"), 0, len(LINES))
    await archive.drain()
    assert archive.audit().code == 0
    await archive.drain(Until.SEALED)
    result = archive.audit()
    assert result.code == 0
    assert {row["host"] for row in result.found["files"]} == {HOST}
    assert result.found["totals"]["archived"]["lines"] == 201
