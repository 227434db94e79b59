"""What of each source is missing or there twice, over all files and days."""

import json
import shutil
from pathlib import Path

from auditing import LINES, Audited
from collecting import FILE, HOST, Log, cuts
from hypothesis import given
from hypothesis import strategies as st

from consumer.archive.parts import FileState, Part
from consumer.audit.coverage import Coverage, ExpectedRange
from consumer.audit.verify_file import account_of
from consumer.model import SourceKey, Until
from shipper.layout import FileKey
from shipper.manifest import Gap, SourceSpan
from shipper.model import End, Span

KEY = SourceKey(HOST, "00000000000000a1")
DAY = 86400 * 10**9

spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda at: Span(at[0], at[0] + at[1])), max_size=12
)


@given(spans, spans, st.integers(0, 30), st.integers(0, 90))
def test_doubled_and_missing_bytes_are_those_of_a_set_of_bytes(
    held: list[Span], lost: list[Span], origin: int, watermark: int
) -> None:
    coverage, there = Coverage(), set[int]()
    for span in held:
        own = set(range(*span))
        assert coverage.add(KEY, FILE, span, "2026-11-20") == len(own & there)
        there |= own
        assert coverage.end(KEY) == max(there) + 1
    for span in lost:
        coverage.lose(KEY, FILE, span)
        there |= set(range(*span))
    holes = list(coverage.holes(KEY, FILE, ExpectedRange(origin, watermark)))
    missing = {byte for hole in holes for byte in range(*hole.span)}
    assert missing == set(range(origin, max([watermark, *(byte + 1 for byte in there)]))) - there
    assert sum(hole.span.length for hole in holes) == len(missing)
    between = {byte for hole in coverage.all_holes() for byte in range(*hole.span)}
    assert between == (set(range(min(there), max(there))) - there if there else set())


async def test_a_hole_of_a_source_that_was_given_up_is_a_gap_with_its_reason(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, 1000)
    archive.send(Log(LINES), 1000, 2000, last=End.TRUNCATED, gap=500)
    await archive.drain(Until.SEALED)
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["gap"])
    assert "truncated" in result.texts
    assert "2000-2500" in result.texts
    assert result.found["totals"]["missing"]["bytes"] == 500
    assert result.found["totals"]["shipped"]["bytes"] == 2500


async def test_bytes_that_another_collectors_archive_holds_are_shown_and_not_missing(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, 1000, last=End.TRUNCATED, gap=500)
    await archive.drain(Until.SEALED)
    (line,) = archive.manifest.read_bytes().splitlines()
    archive.manifest.write_bytes(line.replace(b'"truncated"', b'"elsewhere"') + b"\n")
    result = archive.audit()
    assert (result.code, result.kinds) == (0, [])
    assert "another collector's archive" in result.notes[0]
    assert result.found["totals"]["missing"]["bytes"] == 0


async def test_bytes_that_a_host_was_configured_not_to_read_are_a_note_and_the_audit_is_complete(
    tmp_path: Path,
) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, 1000, last=End.EXCLUDED, gap=500)
    await archive.drain(Until.SEALED)
    result = archive.audit()
    assert (result.code, result.kinds) == (0, [])
    assert "1000-1500" in result.notes[0]
    assert "configuration" in result.notes[0]
    assert result.found["totals"]["missing"]["bytes"] == 0


async def test_days_are_judged_together_and_one_day_by_itself(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    for start, end in cuts(LINES, 1600):
        archive.send(Log(LINES), start, end)
        await archive.drain(Until.SEALED)
        archive.clock.turn(86400.0)
    assert archive.audit().code == 0
    first, second, third = sorted(path.name[5:] for path in archive.archive.glob("date=*"))
    for option in (f"--date={second}", f"--since={second}", f"--until={second}", f"--date={third}"):
        assert archive.audit(option).code == 0, option
    shutil.rmtree(archive.archive / f"date={second}")
    shutil.rmtree(archive.archive / f"_manifest/date={second}")
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["missing_bytes"])
    assert "bytes 1600-3200" in result.texts
    assert archive.audit(f"--date={first}").code == 0
    assert archive.audit(f"--date={third}").code == 0


async def test_bytes_before_the_first_span_and_after_the_last_one_are_missed(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    for start, end in cuts(LINES, 1600):
        archive.send(Log(LINES), start, end)
        await archive.drain(Until.SEALED)
    first, *_, last = archive.segments()
    whole = archive.manifest.read_bytes()
    for segment in (first, last):
        (archive.archive / segment.path).rename(tmp_path / "away")
        archive.manifest.write_bytes(
            b"".join(line for line in whole.splitlines(keepends=True) if segment.path.encode() not in line)
        )
        result = archive.audit()
        assert (result.code, result.kinds) == (2, ["missing_bytes"])
        assert result.found["findings"][0]["bytes"] == segment.bytes_raw
        (tmp_path / "away").rename(archive.archive / segment.path)


async def test_a_day_that_was_copied_next_to_another_one_is_found_as_doubled(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, len(LINES))
    await archive.drain(Until.SEALED)
    day = archive.segments()[0].path[5:15]
    shutil.copytree(archive.archive / f"date={day}", archive.archive / "date=2030-01-01")
    copied = archive.archive / "_manifest/date=2030-01-01/here.jsonl"
    copied.parent.mkdir()
    copied.write_bytes(archive.manifest.read_bytes().replace(day.encode(), b"2030-01-01"))
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["doubled_bytes"])
    assert result.found["findings"][0]["bytes"] == len(LINES)


def test_the_account_of_a_file_adds_up_or_reports_the_difference() -> None:
    def entry(raw: int, *, file: str = FILE, gaps: tuple[Gap, ...] = (), **more: int) -> Part:
        key = FileKey("2026-11-20", 0, HOST, file)
        held = (SourceSpan(source="a", start=0, end=60), SourceSpan(source="b", start=100, end=140))
        fields = {"state": FileState.SEALED, "codec": "none", "stored": raw, "raw": raw, "crc": 0} | more
        return Part(key=key, path="x", spans=held, gaps=gaps, **fields)

    assert account_of(entry(100)) is None
    assert account_of(entry(80, joins=1, filtered=25, edited=-4)) is None
    less, more = account_of(entry(90)), account_of(entry(103, joins=1))
    assert less is not None
    assert (less.octets, "not in it" in less.text) == (10, True)
    assert more is not None
    assert (more.octets, "more than that" in more.text) == (2, True)
    assert account_of(entry(90, file="messages.log")) is None
    assert account_of(entry(90, gaps=(Gap(source="", start=0, end=9, reason="archive_changed"),))) is None


async def test_the_files_of_a_template_are_checked_as_far_as_their_journal_knows_them(tmp_path: Path) -> None:
    archive = Audited(tmp_path, template="{host}/{file}")
    archive.send(Log(LINES[:-5]), 0, len(LINES) - 5)
    await archive.drain()
    (path,) = archive.archive.glob("web1*/*")
    result = archive.audit()
    assert (result.code, result.found["totals"]["archived"]["bytes"]) == (0, len(LINES) - 5)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    result = archive.audit()
    assert (result.code, result.kinds) == (2, ["damaged_file"])


async def test_directories_of_another_layout_are_reported_and_hide_no_hole_between_spans(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    for start, end in cuts(LINES, 1600):
        archive.send(Log(LINES), start, end)
        await archive.drain(Until.SEALED)
    (archive.archive / "lost+found").mkdir()
    whole = archive.manifest.read_bytes().splitlines(keepends=True)
    archive.manifest.write_bytes(b"".join(whole[:2]))
    assert archive.audit().kinds == ["unlisted_file", "missing_bytes"]
    (archive.archive / "web1").mkdir()
    result = archive.audit()
    assert result.kinds == ["unlisted_file"]
    assert "web1 has another layout" in result.notes[0]
    archive.manifest.write_bytes(b"".join(whole[::2]))
    assert archive.audit().kinds == ["unlisted_file", "missing_bytes"]


async def test_the_newest_day_is_judged_to_the_end_of_its_sources(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    for start, end in cuts(LINES, 1600):
        archive.send(Log(LINES), start, end)
        await archive.drain(Until.SEALED)
    day = archive.segments()[0].path[5:15]
    last = archive.manifest.read_bytes().splitlines(keepends=True)[:-1]
    archive.manifest.write_bytes(b"".join(last))
    assert archive.audit("--date", day).kinds == ["unlisted_file", "missing_bytes"]


async def test_the_json_has_a_version_and_reports_what_was_audited(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, len(LINES))
    await archive.drain()
    found = archive.audit("--since", "2026-01-01").found
    assert found["v"] == 1
    assert found["since"] == "2026-01-01"
    assert found["complete"] is True
    assert set(json.loads(json.dumps(found))) == {
        "v", "archive", "since", "until", "host", "complete", "totals", "read", "findings", "files", "hosts",
        "compared",
    }  # fmt: skip
