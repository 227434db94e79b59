"""A sealed file changed together with its manifest line: the sums of journals and producers show it."""

import contextlib
import sqlite3
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from auditing import LINES, Audited, Result, packed
from collecting import FILE, HOST, Log, cuts
from harness.fleet import unpack
from hypothesis import given
from hypothesis import strategies as st
from test_collector_edits import piece, send

from consumer.archive.finding import Finding, Weight
from consumer.archive.journal_snapshot import JournalSnapshots
from consumer.archive.manifests import Listing
from consumer.audit.auditor import Audit, Progress
from consumer.audit.day_inventory import Scope
from consumer.audit.text_parts import PartSums, TextPart
from consumer.model import Until
from consumer.segments.compaction import Merger
from producer.transform.edits import Edits
from shipper import manifest
from shipper.control import SourceMark
from shipper.manifest import SourceSpan
from shipper.model import End

DAY = 86400.0
MALLORY, ROOT = b"57 a line of", b"57 a wine of"


def forge(archive: Audited, path: str, before: bytes = MALLORY, after: bytes = ROOT) -> None:
    """Change text of a sealed segment, and make its manifest line anew."""
    made_anew(archive.archive, path, before, after)


def made_anew(archive: Path, path: str, before: bytes, after: bytes) -> None:
    """The same below an archive directory."""
    file = archive / path
    text = unpack(file).replace(before, after)
    file.write_bytes(packed(text, file.suffix))
    stored = file.read_bytes()
    (listed,) = (each for each in archive.glob("_manifest/date=*/*.jsonl") if path in each.read_text())
    lines = []
    for line in listed.read_bytes().splitlines(keepends=True):
        segment = manifest.from_line(line)
        if segment.path == path:
            sums = {"crc32": f"{zlib.crc32(text):08x}", "crc32_stored": f"{zlib.crc32(stored):08x}"}
            segment = replace(segment, bytes_raw=len(text), bytes_stored=len(stored), **sums)
        lines.append(manifest.to_line(segment))
    listed.write_bytes(b"".join(lines))


def of(outcome: Result) -> list[str]:
    return [each["text"] for each in outcome.found["findings"] if each["kind"] == "different_sum"]


async def sealed(archive: Audited, log: Log, *sizes: int) -> None:
    """A source in as many segments as there are sizes."""
    start = 0
    for size in sizes or (len(log.data),):
        archive.send(log, start, start + size)
        await archive.drain(Until.SEALED)
        start += size


def audited(archive: Audited, *marks: SourceMark) -> list[Finding]:
    """What an audit finds that knows `marks` of the producer; notes excepted."""
    scope = Scope(archive=archive.archive, journals=archive.journal_path.parent)
    with JournalSnapshots(scope.journals) as journals:
        found = Audit(scope, journals, Progress(), {HOST: marks}).run().findings
    return [each for each in found if each.weight is not Weight.NOTE]


def mark(offset: int, *, data: bytes = LINES) -> SourceMark:
    return SourceMark("00000000000000a1", FILE, 0, offset, offset, offset, 0, crc=zlib.crc32(data[:offset]))


async def test_a_line_changed_with_its_manifest_line_is_named_with_host_file_day_and_segment(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    await sealed(archive, Log(LINES))
    (segment,) = archive.segments()
    clean = archive.audit()
    assert (clean.code, clean.found["compared"]["journal"]) == (0, len(LINES))
    forge(archive, segment.path)
    outcome = archive.audit()
    assert (outcome.code, outcome.kinds) == (2, ["different_sum"])
    (finding,) = (each for each in outcome.found["findings"] if each["kind"] == "different_sum")
    assert (finding["host"], finding["file"], finding["path"]) == (HOST, FILE, segment.path)
    assert f"date={finding['date']}" in segment.path
    assert "differs from the journal" in finding["text"]
    (row,) = outcome.found["files"]
    assert (row["complete"], row["journal_bytes"], row["differing_bytes"]) == (False, 0, len(LINES))


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
async def test_of_several_segments_and_days_those_that_may_be_changed_are_named(tmp_path: Path, codec: str) -> None:
    archive = Audited(tmp_path, codec=codec)
    third = len(LINES) // 3
    archive.send(Log(LINES), 0, third)
    await archive.drain(Until.SEALED)
    archive.clock.turn(DAY)
    for start, end in ((third, 2 * third), (2 * third, len(LINES))):
        archive.send(Log(LINES), start, end)
        await archive.drain(Until.SEALED)
    assert archive.audit().found["compared"]["journal"] == len(LINES)
    first, second, last = archive.segments()
    forge(archive, last.path, b"190 a line", b"190 a wine")
    (text,) = of(archive.audit())
    assert first.path in text
    assert second.path in text
    assert last.path in text


async def test_the_sum_of_a_source_that_still_grows_is_compared_as_far_as_it_was_known(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    await sealed(archive, Log(LINES), 1000)
    archive.send(Log(LINES), 1000, 2000)
    await archive.drain()
    scope = Scope(archive=archive.archive, journals=archive.journal_path.parent)
    with JournalSnapshots(scope.journals) as journals:
        archive.send(Log(LINES), 2000, 3000)
        await archive.drain()
        result = Audit(scope, journals, Progress()).run()
    assert result.complete
    assert sum(row.journal_bytes for row in result.rows) == 2000  # the rest of the file came later
    forge(archive, archive.segments()[0].path, b"0 a line", b"0 a wine")
    assert archive.audit().kinds == ["different_sum"]


async def test_a_changed_journal_is_found_by_the_producers_mark(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    await sealed(archive, Log(LINES), 1000, len(LINES) - 1000)
    assert audited(archive, mark(1500)) == []
    forged = LINES.replace(MALLORY, ROOT)
    forge(archive, archive.segments()[1].path)
    (finding,) = audited(archive, mark(1500))
    assert "differs from the producer's mark, and differs from the journal" in finding.text
    with contextlib.closing(sqlite3.connect(archive.journal_path)) as journal, journal:
        journal.execute("UPDATE sources SET crc = ?", (zlib.crc32(forged),))
    assert audited(archive) == []
    (finding,) = audited(archive, mark(1500))
    assert "differs from the producer's mark" in finding.text
    assert "journal" not in finding.text
    old = mark(1500)._replace(crc=-1)  # of a producer that reports no sum
    assert audited(archive, old) == []


async def test_two_sources_of_one_file_are_told_apart_with_the_newline_between_them(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    first, second = Log(LINES[:1005]), Log(LINES, id="00000000000000b2")  # the first ends without a newline
    archive.send(first, 0, 1005, last=End.TRUNCATED)
    archive.send(second, 0, len(LINES))
    await archive.drain(Until.SEALED)
    (segment,) = archive.segments()
    assert segment.joins == 1
    assert archive.audit().found["compared"]["journal"] == 1005 + len(LINES)
    forge(archive, segment.path, b"190 a line", b"190 a wine")
    outcome = archive.audit()
    assert outcome.kinds == ["different_sum"]
    assert "00000000000000b2" in outcome.texts


async def test_sources_that_were_written_in_turn_are_no_damage(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    logs = Log(LINES), Log(LINES[::-1].replace(b"\n", b"") + b"\n", id="00000000000000b2")
    for start, end in cuts(LINES, 700):
        for log in logs:
            archive.send(log, start, min(end, len(log.data)))
    await archive.drain(Until.SEALED)
    outcome = archive.audit()
    assert (outcome.code, outcome.found["compared"]["journal"]) == (0, 0)
    assert all("order of their pieces is not recorded" in text for text in of(outcome))


@pytest.mark.parametrize("secret", [b"secret=hunter2abc", b"secret=hunter2abc-and-more", b"secret=x"])
async def test_what_a_producer_edited_is_not_compared_even_if_its_length_is_the_same(
    tmp_path: Path, secret: bytes
) -> None:
    archive = Audited(tmp_path)
    text = b"a line\n" + secret + b"\nanother\n"
    rules = Edits.of(redact=["hunter2abc"])
    send(archive, [piece(text, 0, len(text))], rules=rules)
    await archive.drain(Until.SEALED)
    outcome = archive.audit()
    assert (outcome.code, of(outcome)) == (0, [])
    assert outcome.found["compared"]["journal"] == (len(text) if secret == b"secret=x" else 0)


async def test_of_a_source_of_an_older_version_a_difference_is_a_note(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    await sealed(archive, Log(LINES))
    with contextlib.closing(sqlite3.connect(archive.journal_path)) as journal, journal:
        journal.execute("DROP TABLE altered")
    assert archive.audit().found["compared"]["journal"] == len(LINES)
    forge(archive, archive.segments()[0].path)
    outcome = archive.audit()
    assert (outcome.code, outcome.kinds) == (0, [])
    assert "older version" in of(outcome)[0]
    await sealed(archive, Log(LINES, id="00000000000000b2"))  # a source that begins now is recorded
    forge(archive, archive.segments()[1].path)
    assert archive.audit().kinds == ["different_sum"]


async def test_merged_segments_gaps_and_origins_are_compared_or_left_out_and_never_wrong(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    log = Log(LINES, origin=200)
    for start, end in ((200, 900), (900, 2000), (2000, len(LINES))):
        archive.send(log, start, end)
        await archive.drain(Until.SEALED)
    (day,) = {each.path.split("/")[0].removeprefix("date=") for each in archive.segments()}
    merger = Merger(archive.archive, archive.sealer, below=1 << 30, most=1 << 30)
    assert merger.merge(day, 0, Listing(archive.archive, day), lambda: True)
    outcome = archive.audit()
    assert (outcome.code, outcome.found["compared"]["journal"]) == (0, len(LINES) - 200)
    lost = Log(LINES, id="00000000000000c3")
    archive.send(lost, 0, 1000, last=End.TRUNCATED, gap=500)
    await archive.drain(Until.SEALED)
    outcome = archive.audit()
    assert of(outcome) == []
    forge(archive, next(each.path for each in archive.segments() if each.replaces))
    assert "different_sum" in archive.audit().kinds


async def test_a_source_that_begins_in_days_that_are_not_audited_only_matches_its_manifest(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    await sealed(archive, Log(LINES), 1000)
    archive.clock.turn(DAY)
    archive.send(Log(LINES), 1000, len(LINES))
    await archive.drain(Until.SEALED)
    last = archive.segments()[-1]
    date = last.path.split("/")[0].removeprefix("date=")
    outcome = archive.audit("--date", date)
    assert (outcome.code, outcome.found["compared"]["journal"]) == (0, 0)
    assert outcome.found["compared"]["manifest"] == len(LINES) - 1000


def test_the_summary_says_how_much_was_compared_with_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from consumer.audit.app import summary  # noqa: PLC0415
    from consumer.audit.auditor import AuditResult  # noqa: PLC0415
    from consumer.audit.producer_comparison import HostComparison  # noqa: PLC0415
    from consumer.audit.totals import Row, Sum  # noqa: PLC0415

    row = Row(HOST, FILE, "2026-11-20", 1, Sum(2048, 9), Sum(2048, 9), journal_bytes=1024)
    result = AuditResult(scope=Scope(archive=tmp_path, journals=tmp_path), rows=[row], files=1)
    assert "9 lines and 2.0 KiB match their manifests; 1.0 KiB proven by journals;" in summary(result)
    behind = HostComparison(name=HOST, answers=True, sources=1, unshipped=435)
    assert summary(result, [behind]).startswith("complete so far; 435 B not shipped yet; ")
    assert "proven by journals and 0 B by producers" in summary(result, [behind])


lengths = st.lists(st.tuples(st.sampled_from("abc"), st.binary(min_size=1, max_size=9)), min_size=1, max_size=12)


@given(lengths, st.integers(1, 7))
def test_the_parts_of_a_text_have_the_sums_of_their_bytes_however_it_is_read(
    pieces: list[tuple[str, bytes]], step: int
) -> None:
    spans, text, joins, want, at, last = [], b"", 0, [], 0, ""
    for source, data in pieces:
        if last not in {"", source} and not text.endswith(b"\n"):
            text, joins = text + b"\n", joins + 1
        spans.append(SourceSpan(source=source, start=at, end=at + len(data)))
        want.append(TextPart(source, at, at + len(data), zlib.crc32(data)))
        text, at, last = text + data, at + len(data), source
    sums, shorter = PartSums(spans, joins), PartSums(spans, joins)
    for start in range(0, len(text), step):
        sums.add(text[start : start + step])
    shorter.add(text[:-1])
    assert sums.parts() == tuple(want)
    assert shorter.parts() == ()
