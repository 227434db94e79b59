"""Bytes that are in the archive twice are found, and the later copy is removed with a record."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from auditing import LINES, Audited, audit, command, in_process, tree
from collecting import FILE, HOST, KilledError, Log, cuts, kill_at
from dying import Lives, Places
from harness.fleet import unpack

from consumer.archive.manifests import Listing
from consumer.audit.redact import OfSource, Rewriter
from consumer.audit.repair_duplicates import _places
from consumer.model import Until
from consumer.segments.compaction import Merger
from consumer.segments.rewrite_segment import alone, rewriting
from consumer.segments.sealer import Sealer
from shipper.durable_files import Lock
from shipper.manifest import Segment, SourceSpan, from_line, standing, to_line
from shipper.model import End

THIRD = len(LINES) // 3


class Doubled:
    """An archive of two partitions, to which a test sends the same source, as an older producer did."""

    def __init__(self, directory: Path, **harness: str) -> None:
        self.first = Audited(directory, **harness)
        self.second = Audited(directory, **({"partition": 1} | harness))
        self.second.journal_path = self.second.archive / "_journal/logs.p1.sqlite"
        self.second.clock.turn(10.0)
        self.archive = self.first.archive

    async def fill(self, *logs: Log, until: Until = Until.SEALED) -> "Doubled":
        """Each log in the first partition in three segments, and as a whole in the second one."""
        for log in logs or (Log(LINES),):
            for start, end in cuts(log.data, len(log.data) // 3 + 1):
                self.first.send(log, start, end)
                await self.first.drain(Until.SEALED)
            for start, end in cuts(log.data, 700):
                self.second.send(log, start, end)
        await self.second.drain(until)
        return self

    def repair(self, *arguments: str) -> tuple[int, dict]:
        return repair(self.archive, *arguments)

    def text(self, host: str = HOST) -> bytes:
        """What counts of a host, in the order of the sources' bytes."""
        return b"".join(unpack(self.archive / each.path) for each in ordered(self.archive, host))

    def unchanged(self) -> dict:
        """The archive without its locks."""
        return {path: found for path, found in tree(self.archive).items() if "/_lock" not in path}


def ordered(archive: Path, host: str = HOST) -> list[Segment]:
    found = [each for each in standing(lines_of(archive)) if each.host == host and each.bytes_raw]
    return sorted(found, key=lambda each: each.spans[0].start)


def lines_of(archive: Path) -> list[Segment]:
    paths = sorted(archive.glob("_manifest/date=*/*.jsonl"))
    return [from_line(line) for path in paths for line in path.read_bytes().splitlines()]


def repair(archive: Path, *arguments: str) -> tuple[int, dict]:
    """`fshipper audit --repair-duplicates --json`: its exit code and its output; {} after an error."""
    done = audit(str(archive), "--repair-duplicates", *arguments)
    return done.code, done.found or {"errors": done.errors}


def copied(archive: Path, segment: Segment, path: str, **more: object) -> Path:
    """A segment is copied manually, with its manifest line."""
    fields = json.loads(to_line(segment)) | {"path": path} | more
    target = archive / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(archive / segment.path, target)
    listing = archive / f"_manifest/{path.partition('/')[0]}/here.jsonl"
    listing.parent.mkdir(exist_ok=True)
    with listing.open("ab") as lines:
        lines.write(json.dumps(fields, separators=(",", ":")).encode() + b"\n")
    return target


async def complete_after(place: Doubled, wanted: bytes = LINES) -> None:
    """Dry run, run, rerun: found, removed, nothing left; the audit is complete, with the record as a note."""
    result = audit(str(place.archive))
    assert (result.code, set(result.kinds)) == (2, {"doubled_bytes"})
    assert all("--repair-duplicates" in each["hint"] for each in result.found["findings"] if each["weight"] == "damage")
    before = place.unchanged()
    code, dry = place.repair()
    assert (code, dry["done"], [each["refused"] for each in dry["segments"]]) == (
        2,
        False,
        [None] * len(dry["segments"]),
    )
    assert place.unchanged() == before
    code, done = place.repair("--yes", "--reason", "ticket 7")
    assert (code, done["done"]) == (0, True)
    assert [each["bytes"] for each in done["segments"]] == [each["bytes"] for each in dry["segments"]]
    assert place.text() == wanted
    after = place.unchanged()
    assert place.repair("--yes") == (0, {"v": 1, "done": True, "segments": [], "open_files": []})
    assert place.unchanged() == after
    result = audit(str(place.archive))
    assert (result.code, result.kinds) == (0, [])
    assert any("second copy of bytes" in note and "ticket 7" in note for note in result.notes)


@pytest.mark.parametrize("harness", [{}, {"codec": "gzip"}, {"codec": "none"}, {"frames": "zstd"}], ids=str)
async def test_a_source_in_two_partitions_is_there_once_afterwards(tmp_path: Path, harness: dict) -> None:
    place = await Doubled(tmp_path, **harness).fill()
    assert len(place.text()) == 2 * len(LINES)
    await complete_after(place)
    assert {each.partition for each in ordered(place.archive)} == {0}
    (empty,) = [each for each in standing(lines_of(place.archive)) if each.is_emptied]
    (record,) = empty.removals
    assert (record.start, record.end, record.bytes, record.reason) == (0, len(LINES), len(LINES), "ticket 7")
    assert "@" in record.by
    assert record.path in empty.replaces
    assert len(record.kept) == 3


async def test_only_the_part_that_is_doubled_is_removed(tmp_path: Path) -> None:
    place, log = Doubled(tmp_path), Log(LINES)
    middle, later = LINES.index(b"50 a line"), LINES.index(b"150 a line")
    place.first.send(log, 0, later)
    await place.first.drain(Until.SEALED)
    place.second.send(Log(LINES, origin=middle), middle, len(LINES))
    await place.second.drain(Until.SEALED)
    code, done = place.repair("--yes")
    assert (code, done["segments"][0]["bytes"]) == (0, later - middle)
    assert place.text() == LINES
    (left,) = [each for each in ordered(place.archive) if each.partition == 1]
    assert left.spans == (SourceSpan(source=log.id, start=later, end=len(LINES)),)
    assert left.lines == LINES[later:].count(b"\n")


async def test_three_copies_become_one(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    segment = ordered(place.archive)[0]
    copied(place.archive, segment, segment.path.replace("partition=0", "partition=7"), partition=7)
    await complete_after(place)


async def test_a_segment_that_was_copied_with_its_line_is_removed(tmp_path: Path) -> None:
    place = Doubled(tmp_path)
    place.first.send(Log(LINES), 0, len(LINES))
    await place.first.drain(Until.SEALED)
    (segment,) = ordered(place.archive)
    number = segment.path[-24:-4]
    again = copied(place.archive, segment, segment.path.replace(number, f"{int(number) + 5:020d}"))
    next_day = copied(place.archive, segment, segment.path.replace(segment.path[5:15], "2030-01-01"))
    await complete_after(place)
    assert not again.exists()
    assert not next_day.exists()
    assert (place.archive / segment.path).exists()


async def test_a_source_that_was_doubled_on_a_later_day_stays_on_the_first_one(tmp_path: Path) -> None:
    place = Doubled(tmp_path)
    place.second.clock.turn(3 * 86400.0)
    await place.fill()
    days = sorted({each.path[5:15] for each in ordered(place.archive)})
    assert len(days) == 2
    assert audit(str(place.archive), "--date", days[0]).code == 0
    assert place.repair("--until", days[0])[1]["segments"] == []
    await complete_after(place)
    assert {each.path[5:15] for each in ordered(place.archive)} == {days[0]}


async def test_a_merged_segment_that_holds_its_source_twice_is_cut(tmp_path: Path) -> None:
    place = Doubled(tmp_path)
    log = Log(LINES)
    for start, end in cuts(LINES, THIRD + 1):
        place.first.send(log, start, end)
        await place.first.drain(Until.SEALED)
    first = ordered(place.archive)[0]
    number = first.path[-24:-4]
    copied(place.archive, first, first.path.replace(number, f"{int(number) + 50:020d}"))
    merger = Merger(place.archive, place.first.sealer, below=1 << 20, most=1 << 30)
    date = first.path[5:15]
    assert merger.merge(date, 0, Listing(place.archive, date), lambda: True)
    (whole,) = standing(lines_of(place.archive))
    assert whole.bytes_raw == len(LINES) + first.bytes_raw
    await complete_after(place)


async def test_merging_afterwards_keeps_the_record_and_restores_nothing(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    assert place.repair("--yes")[0] == 0
    date = ordered(place.archive)[0].path[5:15]
    place.second.send(Log(LINES + b"more\n"), len(LINES), len(LINES) + 5)
    await place.second.drain(Until.SEALED)
    merger = Merger(place.archive, place.second.sealer, below=1 << 20, most=1 << 30)
    for partition in (0, 1):
        assert merger.merge(date, partition, Listing(place.archive, date), lambda: True)
    assert place.text() == LINES + b"more\n"
    result = audit(str(place.archive))
    assert (result.code, len(result.notes)) == (0, 1)


async def test_two_sources_in_one_segment_are_distinguished_by_their_order(tmp_path: Path) -> None:
    place = Doubled(tmp_path)
    old, new = Log(b"an old line\n" * 50 + b"no end"), Log(LINES, id="00000000000000b2")
    place.first.send(old, 0, len(old.data))
    await place.first.drain(Until.SEALED)
    place.second.send(old, 0, len(old.data), last=End.ROTATED)
    place.second.send(new, 0, len(LINES))
    await place.second.drain(Until.SEALED)
    (both,) = [each for each in ordered(place.archive) if each.partition == 1]
    assert (len(both.spans), both.joins) == (2, 1)
    code, done = place.repair("--yes")
    assert (code, done["segments"][0]["bytes"]) == (0, len(old.data))
    (left,) = [each for each in ordered(place.archive) if each.partition == 1]
    assert (unpack(place.archive / left.path), left.joins) == (LINES, 0)
    assert audit(str(place.archive)).code == 0


async def test_copies_that_differ_both_stay_and_the_exit_code_reports_it(tmp_path: Path) -> None:
    place = Doubled(tmp_path)
    place.first.send(Log(LINES), 0, len(LINES))
    await place.first.drain(Until.SEALED)
    other = LINES.replace(b"57 a line", b"57 A LINE")
    place.second.send(Log(other), 0, len(other))
    await place.second.drain(Until.SEALED)
    before = place.unchanged()
    code, done = place.repair("--yes")
    assert code == 2
    assert "are not the same in" in done["segments"][0]["refused"]
    assert place.unchanged() == before
    assert audit(str(place.archive)).kinds == ["doubled_bytes"]


async def test_a_copy_that_was_redacted_differs_until_the_other_one_is_redacted_too(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    date = ordered(place.archive)[0].path[5:15]
    source, span = ("--source", Log(b"").id), ("--span", "100-150")
    done = in_process("redact", str(place.archive), "--host", HOST, *source, *span, "--date", date, "--yes")
    assert done.code == 0
    black = LINES[:100] + bytes(10 if byte == 10 else 42 for byte in LINES[100:150]) + LINES[150:]
    await complete_after(place, black)


async def test_a_copy_of_which_only_one_is_redacted_is_refused_with_the_way_out(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    later = next(each for each in ordered(place.archive) if each.partition == 1)
    Rewriter(place.archive, OfSource(Log(b"").id, 100, 150), reason="x").rewrite(later.path)
    code, done = place.repair("--yes")
    assert (code, "fshipper redact" in done["segments"][0]["hint"]) == (2, True)
    assert len(place.text()) == 2 * len(LINES)


async def test_a_damaged_first_copy_is_no_reason_to_remove_the_sound_one(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    first = place.archive / ordered(place.archive)[0].path
    first.write_bytes(first.read_bytes()[:-3])
    code, done = place.repair("--yes")
    assert code == 2
    assert "cannot be read" in done["segments"][0]["refused"] or "not what" in done["segments"][0]["refused"]
    assert len([each for each in ordered(place.archive) if each.partition == 1]) == 1


async def test_an_open_file_is_not_touched_and_is_named(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill(until=Until.DRAINED)
    before = place.unchanged()
    code, done = place.repair("--yes")
    assert (code, done["segments"]) == (2, [])
    (opened,) = done["open_files"]
    assert opened["bytes"] == len(LINES)
    assert "/_open-" in opened["path"]
    assert "--drain --seal" in opened["hint"]
    assert place.unchanged() == before
    assert "--drain --seal" in audit(str(place.archive)).found["findings"][0]["hint"]
    await place.second.drain(Until.SEALED)
    await complete_after(place)


async def test_files_of_a_template_are_named_and_left(tmp_path: Path) -> None:
    place = Doubled(tmp_path, template="{partition}/{host}/{file}")
    for harness in (place.first, place.second):
        harness.send(Log(LINES), 0, len(LINES))
        await harness.drain()
    code, done = place.repair("--yes")
    assert code == 2
    assert "template" in done["open_files"][0]["hint"]


async def test_edited_lines_are_removed_where_whole_segments_are_the_same_and_else_refused(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    for listing in place.archive.glob("_manifest/date=*/*.jsonl"):
        found = [from_line(line) for line in listing.read_bytes().splitlines()]
        edited = [json.loads(to_line(each)) | {"filtered": 10, "spans": _longer(each)} for each in found]
        listing.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in edited if each["partition"] == 1))
    (segment,) = ordered(place.archive)
    again = copied(place.archive, segment, segment.path.replace("partition=1", "partition=5"), partition=5)
    code, done = place.repair("--yes")
    assert (code, again.exists()) == (0, False)
    assert done["segments"][0]["bytes"] == len(LINES) + 10
    half = {"spans": [{"source": Log(b"").id, "start": 100, "end": len(LINES) + 10 + 100}]}
    copied(place.archive, segment, segment.path.replace("partition=1", "partition=6"), partition=6, **half)
    code, done = place.repair("--yes")
    assert (code, "are not known" in done["segments"][0]["refused"]) == (2, True)


def _longer(segment: Segment) -> list[dict]:
    (span,) = segment.spans
    return [{"source": span.source, "start": span.start, "end": span.end + 10}]


@pytest.mark.parametrize(("second", "left"), [(700, [500, 700]), (500, [500])])
async def test_gaps_of_the_removed_copy_stay_on_record_unless_the_first_one_has_them(
    tmp_path: Path, second: int, left: list[int]
) -> None:
    place, log = Doubled(tmp_path), Log(LINES)
    for harness, gap in ((place.first, 500), (place.second, second)):
        harness.send(log, 0, len(LINES), last=End.TRUNCATED, gap=gap)
        await harness.drain(Until.SEALED)
    assert place.repair("--yes")[0] == 0
    gaps = [(gap.start, gap.end) for each in standing(lines_of(place.archive)) for gap in each.gaps]
    assert gaps == [(len(LINES), len(LINES) + length) for length in left]


async def test_it_waits_for_a_merge_and_another_repair_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await Doubled(tmp_path).fill()
    monkeypatch.setattr("consumer.segments.rewrite_segment.WAIT_SECONDS", 0.2)
    for partition in (0, 1):  # of the copy that stays, too
        with rewriting(place.archive, partition) as is_alone:
            assert is_alone
            assert place.repair("--yes")[0] == 69
    assert place.text() != LINES
    with Lock(place.archive / "_lock/repair.lock", "x"):
        assert place.repair("--yes")[0] == 1
    assert place.repair("--yes")[0] == 0


async def test_what_is_merged_between_planning_and_removing_is_left_to_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await Doubled(tmp_path).fill()
    date = ordered(place.archive)[0].path[5:15]

    @contextlib.contextmanager
    def late(*arguments: Any) -> Iterator[None]:
        merger = Merger(place.archive, place.first.sealer, below=1 << 20, most=1 << 30)
        assert merger.merge(date, 0, Listing(place.archive, date), lambda: True)
        with alone(*arguments):
            yield

    with monkeypatch.context() as patched:
        patched.setattr("consumer.audit.repair_duplicates.alone", late)
        code, done = place.repair("--yes")
    assert (code, done["segments"][0]["hint"]) == (2, "run it again")
    assert len(place.text()) == 2 * len(LINES)
    await complete_after(place)


async def test_days_that_retention_removed_hold_no_first_copy(tmp_path: Path) -> None:
    place = Doubled(tmp_path)
    place.second.clock.turn(3 * 86400.0)
    await place.fill()
    first = min(each.path[5:15] for each in ordered(place.archive))
    (place.archive / "_manifest/removed.jsonl").write_bytes(json.dumps({"v": 1, "date": first}).encode() + b"\n")
    assert place.repair("--yes") == (0, {"v": 1, "done": True, "segments": [], "open_files": []})


async def test_manifests_of_an_older_version_are_repaired(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    for listing in place.archive.glob("_manifest/date=*/*.jsonl"):
        lines = [json.loads(line) for line in listing.read_bytes().splitlines()]
        for line in lines:
            for name in ("crc32_stored", "labels", "filtered", "edited", "replaces", "redactions", "removals"):
                line.pop(name, None)
        listing.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    await complete_after(place)


async def test_a_day_that_is_closed_stays_closed(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    (listing,) = place.archive.glob("_manifest/date=*/*.jsonl")
    other = listing.with_name("other.jsonl")
    listing.rename(other)  # listed under a name that its lines do not have
    other.with_suffix(".done").write_bytes(b"{}")
    assert place.repair("--yes")[0] == 0
    assert [path.name for path in listing.parent.glob("*.jsonl")] == [other.name]


async def test_duplicates_are_removed_while_a_collector_runs(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    more = Log(LINES + b"more\n" * 50)
    async with place.second.running():
        assert place.repair("--yes")[0] == 0
        place.second.send(more, len(LINES), len(more.data))
    await place.second.drain(Until.SEALED)
    assert place.text() == more.data
    assert audit(str(place.archive)).code == 0


def work(place: Path) -> None:
    """What is killed, and run again."""
    code, _ = repair(place / "archive", "--yes")
    assert code == 0


async def test_a_kill_at_any_step_leaves_the_old_segment_or_the_new_one_and_the_next_run_finishes(
    lives: Lives, places: Places
) -> None:
    await Doubled(places.first).fill()
    deaths = 0
    for place in lives.every_step(work, places.copy):
        deaths += 1
        sealed = [len(unpack(place / "archive" / each.path)) for each in ordered(place / "archive")]
        assert sum(sealed) in {len(LINES), 2 * len(LINES)}, f"killed at step {deaths}"
        work(place)
        text = b"".join(unpack(place / "archive" / each.path) for each in ordered(place / "archive"))
        assert text == LINES, f"killed at step {deaths}"
        assert audit(str(place / "archive")).kinds == [], f"killed at step {deaths}"
        assert len(list((place / "archive").glob("date=*/*/*/*"))) == 4
        shutil.rmtree(place)
    assert deaths > 20


async def test_the_audit_names_what_a_kill_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = await Doubled(tmp_path).fill()
    with monkeypatch.context() as patched:
        kill_at(patched, Sealer, "record", after=True)
        with pytest.raises(KilledError):
            place.repair("--yes")
    result = audit(str(place.archive))
    assert (result.code, "--repair-duplicates --yes again" in result.found["findings"][0]["hint"]) == (2, True)
    assert place.repair("--yes")[0] == 0
    assert audit(str(place.archive)).code == 0


@pytest.mark.parametrize("arguments", [("--yes",), ("--repair-duplicates", "--hosts")])
def test_contradictory_options_are_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    Audited(tmp_path)
    assert audit(str(tmp_path / "archive"), *arguments).code == 64


async def test_another_user_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await Doubled(tmp_path).fill()
    before = tree(place.archive)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    code, result = place.repair("--yes")
    assert (code, "belongs to another user" in result["errors"]) == (78, True)
    assert tree(place.archive) == before


async def test_a_person_sees_what_and_how_much_would_be_removed_and_the_command(tmp_path: Path) -> None:
    place = await Doubled(tmp_path).fill()
    repair_of = ("audit", place.archive, "--repair-duplicates")
    code, out, _ = command(*repair_of)
    assert (code, f"would remove {len(LINES):,} doubled bytes in date=" in out) == (2, True)
    assert f"{len(LINES):,} bytes and 200 lines in 1 segment would be removed; to do it, add --yes" in out
    code, out, _ = command(*repair_of, "--yes")
    assert (code, f"removed {len(LINES):,} bytes and 200 lines in 1 segment\n" in out) == (0, True)
    assert command(*repair_of) == (0, "nothing is in the archive twice\n", "")


def test_a_text_whose_spans_do_not_add_up_has_unknown_places() -> None:
    def segment(*spans: tuple[str, int, int], **more: object) -> Segment:
        return Segment(
            collector="c", partition=0, host="h", file=FILE, path="p", codec="none", lines=1, bytes_raw=1,
            bytes_stored=1, first_seq=1, last_seq=1, first_time="", last_time="",
            spans=tuple(SourceSpan(source=a, start=b, end=c) for a, b, c in spans), **more,
        )  # fmt: skip

    two = (("a", 0, 3), ("b", 5, 7))
    assert _places(segment(*two), b"xxxyy") == [0, 3]
    assert _places(segment(*two, joins=1), b"xxx\nyy") == [0, 4]
    assert _places(segment(*two, joins=1), b"xxxyy\n") == [0, 3]
    assert _places(segment(*two), b"xxxyyz") is None
    assert _places(segment(*two, joins=1), b"xxxyy") is None
    assert _places(segment(*two, edited=1), b"xxxyy") is None
