"""What changes between listing a file and reading it is checked again before it is called missing."""

import asyncio
import json
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from auditing import LINES, Audited
from collecting import Log, cuts

from consumer.archive import manifests
from consumer.archive.finding import Weight
from consumer.archive.journal_snapshot import JournalSnapshots
from consumer.audit.auditor import Audit, AuditResult, Progress
from consumer.audit.day_inventory import Scope
from consumer.model import Until
from shipper import manifest


def audited(archive: Audited, *, meanwhile: Callable[[], object]) -> AuditResult:
    """An audit; `meanwhile` happens once, when the first day is listed and nothing is read."""
    todo = [meanwhile]

    def expect(_: int) -> None:
        while todo:
            todo.pop()()

    scope = Scope(archive=archive.archive, journals=archive.journal_path.parent)
    with JournalSnapshots(scope.journals) as journals:
        return Audit(scope, journals, Progress(expect=expect)).run()


def proven(result: AuditResult) -> int:
    return sum(row.archived.bytes for row in result.rows)


def wrong(result: AuditResult) -> list[str]:
    return [finding.text for finding in result.findings if finding.weight is not Weight.NOTE]


def opened(directory: Path) -> Audited:
    archive = Audited(directory)
    archive.send(Log(LINES), 0, len(LINES))
    archive.send(Log(LINES, id="00000000000000c3", host="db1.example.net"), 0, len(LINES))
    asyncio.run(archive.drain())
    return archive


def test_a_file_that_is_sealed_meanwhile_is_found_again_as_a_segment(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    result = audited(archive, meanwhile=lambda: asyncio.run(archive.drain(Until.SEALED)))
    assert (wrong(result), proven(result)) == ([], 2 * len(LINES))


def test_a_file_that_grows_meanwhile_is_complete_as_it_was(tmp_path: Path) -> None:
    archive = opened(tmp_path)

    def grow() -> None:
        archive.send(Log(LINES * 3), len(LINES), 3 * len(LINES))
        asyncio.run(archive.drain())

    result = audited(archive, meanwhile=grow)
    assert wrong(result) == []
    assert proven(result) >= 2 * len(LINES)


def test_segments_that_are_merged_meanwhile_are_found_again_in_one(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    for start, end in cuts(LINES, 1600):
        archive.send(Log(LINES), start, end)
        asyncio.run(archive.drain(Until.SEALED))
    result = audited(archive, meanwhile=lambda: merge(archive))
    assert (wrong(result), proven(result), len(archive.segments())) == ([], len(LINES), 4)


def merge(archive: Audited) -> None:
    """As the collector does at the end of a day."""
    parts = archive.segments()
    path = parts[-1].path.replace("0003.zst", "0004.zst")
    whole = b"".join((archive.archive / part.path).read_bytes() for part in parts)
    (archive.archive / path).write_bytes(whole)
    merged = replace(
        parts[0],
        path=path,
        lines=200,
        bytes_raw=len(LINES),
        bytes_stored=len(whole),
        crc32=f"{zlib.crc32(LINES):08x}",
        crc32_stored="",
        spans=(replace(parts[0].spans[0], end=len(LINES)),),
        replaces=tuple(part.path for part in parts),
    )
    with archive.manifest.open("ab") as lines:
        lines.write(manifest.to_line(merged))
    for part in parts:
        (archive.archive / part.path).unlink()


@pytest.mark.parametrize("left", ["its manifests", "nothing"])
def test_a_day_that_retention_removes_meanwhile_is_no_damage(tmp_path: Path, left: str) -> None:
    archive = opened(tmp_path)
    asyncio.run(archive.drain(Until.SEALED))

    def remove() -> None:
        (day,) = archive.archive.glob("date=*")
        (archive.archive / "_manifest/removed.jsonl").write_bytes(
            json.dumps({"v": 1, "date": day.name[5:]}).encode() + b"\n"
        )
        shutil.rmtree(day)
        if left == "nothing":
            shutil.rmtree(archive.manifest.parent)

    assert wrong(audited(archive, meanwhile=remove)) == []


def test_what_is_removed_for_good_meanwhile_is_found(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    asyncio.run(archive.drain(Until.SEALED))
    gone = next(archive.archive.glob("date=*/*/*/*.zst"))
    result = audited(archive, meanwhile=gone.unlink)
    assert wrong(result) == ["the segment that its manifest lists is not there"]
    assert proven(result) == len(LINES)


def test_where_files_are_sealed_faster_than_an_audit_reads_they_are_left_out_which_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = opened(tmp_path)
    ticks = iter(range(1000))
    monkeypatch.setattr(manifests, "signature", lambda *_: {"here.jsonl": (next(ticks), 0)})
    result = audited(archive, meanwhile=lambda: None)
    assert wrong(result) == []
    assert "sealed faster" in result.findings[0].text


def test_a_segment_that_has_its_name_and_is_not_listed_yet_is_a_note(tmp_path: Path) -> None:
    archive = opened(tmp_path)
    asyncio.run(archive.drain(Until.SEALED))
    (first,) = archive.archive.glob("date=*/*/*/*0001.zst")
    temporary = first.with_name(f".{first.name.replace('0001', '0009')}.0a1b2c3d.tmp")
    shutil.copy(first, temporary)
    os.link(temporary, first.with_name(first.name.replace("0001", "0009")))
    outcome = archive.audit()
    assert (outcome.code, outcome.kinds) == (0, []), outcome.texts
    assert "left unlisted" in outcome.notes[0]
    temporary.unlink()
    assert archive.audit().code == 2
