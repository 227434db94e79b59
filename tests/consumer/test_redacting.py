"""What must not stay is blacked out in sealed segments: the rest stays as it was, and it is on record."""

import re
import shutil
import zlib
from pathlib import Path

import pytest
from auditing import LINES, Audited, Result, audit, in_process
from collecting import FILE, HOST, KilledError, Log, cuts, kill_at
from dying import Lives, Places
from harness.fleet import unpack

from consumer.archive.directory import lock_path
from consumer.archive.manifests import Listing
from consumer.audit import redact as app
from consumer.audit.redact import OfSource, PlacesUnknownError, RegexMatches, blackened, joined
from consumer.model import Until
from consumer.segments.compaction import Merger
from consumer.segments.rewrite_segment import rewriting
from consumer.segments.sealer import Sealer
from shipper.durable_files import Lock
from shipper.linear_regex import Linear
from shipper.manifest import Segment, SourceSpan, from_line, standing, to_line
from shipper.model import Span

SOURCE = "00000000000000a1"
SECRET = b"57 a line"


@pytest.fixture
def archive(tmp_path: Path) -> Audited:
    return Audited(tmp_path)


def redact(place: Path, *arguments: str) -> Result:
    return in_process("redact", str(place), "--host", HOST, *arguments)


async def filled(archive: Audited, until: Until = Until.SEALED) -> Log:
    """Two hosts' files, in several segments each."""
    log = Log(LINES)
    other = Log(LINES, id="00000000000000b2", host="web2.example.net")
    for start, end in cuts(LINES, len(LINES) // 3 + 1):
        archive.send(other, start, end)
        archive.send(log, start, end)
        archive.send(other, start, end)
        await archive.drain(until)
    return log


def texts(place: Path, host: str = HOST) -> list[bytes]:
    """The segments that count, in their order."""
    listed = [
        from_line(line)
        for path in place.glob("archive/_manifest/date=*/*.jsonl")
        for line in path.read_bytes().splitlines()
    ]
    chosen = sorted((each for each in standing(listed) if each.host == host), key=lambda each: each.path)
    return [unpack(place / "archive" / each.path) for each in chosen]


async def test_matches_are_redacted_and_everything_else_stays_as_it_was(archive: Audited, tmp_path: Path) -> None:
    await filled(archive)
    result = redact(archive.archive, "--match", "57 a [a-z]+", "--yes")
    assert result.code == 0
    assert sum(each["bytes"] for each in result.found["segments"]) == 2 * len(SECRET)  # 57 and 157
    assert b"".join(texts(tmp_path)) == LINES.replace(SECRET, b"*" * len(SECRET))
    assert b"".join(texts(tmp_path, "web2.example.net")) == LINES
    assert not [path for path in archive.archive.glob("date=*/*/*/*") if SECRET in unpack(path) and HOST in str(path)]


async def test_the_audit_is_complete_and_shows_what_was_done_and_why(archive: Audited) -> None:
    await filled(archive)
    redact(archive.archive, "--source", SOURCE, "--span", "100-150", "--reason", "request 17", "--yes")
    result = archive.audit()
    assert (result.code, result.kinds) == (0, [])
    (note,) = result.notes
    assert note.startswith(f"50 bytes (bytes 100-150 of source {SOURCE}) were blacked out at 20")
    assert note.endswith(": request 17")


@pytest.mark.parametrize(("start", "end"), [(0, 10), (100, 2500), (1900, 2000), (0, len(LINES))])
async def test_bytes_of_a_source_are_redacted_wherever_they_are_stored(
    archive: Audited, tmp_path: Path, start: int, end: int
) -> None:
    await filled(archive)
    assert redact(archive.archive, "--source", SOURCE, "--span", f"{start}-{end}", "--yes").code == 0
    assert b"".join(texts(tmp_path)) == blackened(LINES, [Span(start, end)])
    assert archive.audit().code == 0


async def test_whole_lines_with_a_match_are_redacted(archive: Audited, tmp_path: Path) -> None:
    await filled(archive)
    redact(archive.archive, "--match", "57", "--whole-lines", "--file", FILE, "--yes")
    lines = LINES.splitlines(keepends=True)
    black = [b"*" * (len(line) - 1) + b"\n" if b"57" in line else line for line in lines]
    assert b"".join(texts(tmp_path)) == b"".join(black)


async def test_a_second_time_nothing_is_left_to_do(archive: Audited) -> None:
    await filled(archive)
    redact(archive.archive, "--match", "57", "--yes")
    before = archive.files()
    assert redact(archive.archive, "--match", "57", "--yes").found["segments"] == []
    assert redact(archive.archive, "--match", "[*]+", "--yes").found["segments"] == []
    assert archive.files() == before
    assert redact(archive.archive, "--match", "58", "--yes").code == 0  # and again in what is black already
    assert archive.audit().code == 0


async def test_every_free_number_during_a_segment_serves_and_the_order_of_bytes_stays(
    archive: Audited, tmp_path: Path
) -> None:
    await filled(archive)
    found = LINES
    for number in range(1, 5):  # from 2 to 1, 0, 3, 4; the next segment has 5
        assert redact(archive.archive, "--match", f"^{number}0 a", "--yes").code == 0
        found = found.replace(b"\n%d0 a" % number, b"\n" + b"*" * 4)
        assert b"".join(texts(tmp_path)) == found
    assert archive.audit().code == 0
    before = archive.files()
    assert redact(archive.archive, "--match", "^50 a", "--yes").code == 69
    assert (archive.files(), b"".join(texts(tmp_path))) == (before, found)


async def test_a_number_that_a_collector_may_take_is_not_taken(archive: Audited) -> None:
    archive.send(Log(LINES), 0, len(LINES))
    await archive.drain(Until.SEALED)
    assert redact(archive.archive, "--match", "^1 a", "--yes").code == 0  # from number 1 to number 0
    with Lock(lock_path(archive.archive, 0), "partition 0"):
        result = redact(archive.archive, "--match", "^2 a", "--yes")
        assert (result.code, "the collector stopped for a moment" in result.errors) == (69, True)
    assert redact(archive.archive, "--match", "^2 a", "--yes").code == 0
    assert archive.audit().code == 0


async def test_a_dry_run_and_a_missing_answer_change_nothing(archive: Audited) -> None:
    await filled(archive)
    before = archive.files()
    assert redact(archive.archive, "--match", "57", "--dry-run").found["done"] is False
    refused = redact(archive.archive, "--match", "57")
    assert (refused.code, "--yes" in refused.errors) == (64, True)
    assert archive.files() == before


async def test_open_files_are_named_and_the_exit_code_reports_it(archive: Audited) -> None:
    archive.send(Log(LINES), 0, len(LINES))
    await archive.drain()
    result = redact(archive.archive, "--match", "57", "--yes")
    assert result.code == 2
    assert [path.rpartition("/")[2] for path in result.found["open_files"]] == ["_open-var~log~app.log"]
    assert redact(archive.archive, "--match", "57", "--file", "/var/log/app", "--yes").code == 0


async def test_the_collector_continues_after_it(archive: Audited, tmp_path: Path) -> None:
    await filled(archive)
    redact(archive.archive, "--match", "57", "--yes")
    more = Log(LINES + b"more\n")
    archive.send(more, len(LINES), len(LINES) + 5)
    await archive.drain(Until.SEALED)
    assert b"".join(texts(tmp_path)) == LINES.replace(b"57", b"**") + b"more\n"
    assert archive.audit().code == 0


async def test_where_places_are_not_known_nothing_is_done(archive: Audited) -> None:
    archive.send(Log(b"one\nno end"), 0, 10)
    archive.send(Log(b"another\n", id="00000000000000c3"), 0, 8)
    await archive.drain(Until.SEALED)
    before = archive.files()
    result = redact(archive.archive, "--source", SOURCE, "--span", "0-3", "--yes")
    assert (result.code, "--match" in result.errors) == (1, True)
    assert archive.files() == before


async def test_a_damaged_segment_stays_recognizable_as_damaged(archive: Audited) -> None:
    await filled(archive)
    victim = min(archive.archive.glob(f"date=*/*/host={HOST}/*"))
    victim.write_bytes(victim.read_bytes()[:-3])
    result = redact(archive.archive, "--match", "a", "--yes")
    assert (result.code, "fshipper audit" in result.errors) == (1, True)


async def test_a_running_merge_is_waited_for(archive: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(archive)
    monkeypatch.setattr("consumer.segments.rewrite_segment.WAIT_SECONDS", 0.2)
    with rewriting(archive.archive, 0) as alone:
        assert alone
        assert redact(archive.archive, "--match", "57", "--yes").code == 69
    assert redact(archive.archive, "--match", "57", "--yes").code == 0


async def test_merging_waits_for_a_redaction_and_keeps_the_record(archive: Audited, tmp_path: Path) -> None:
    await filled(archive)
    redact(archive.archive, "--source", SOURCE, "--span", "100-150", "--reason", "request 17", "--yes")
    (date,) = [path.name.removeprefix("date=") for path in archive.archive.glob("date=*")]
    merger = Merger(archive.archive, archive.sealer, below=1 << 20, most=1 << 30)
    with rewriting(archive.archive, 0):
        assert not merger.merge(date, 0, Listing(archive.archive, date), lambda: True)
        assert len(texts(tmp_path)) == 3
    assert merger.merge(date, 0, Listing(archive.archive, date), lambda: True)
    assert texts(tmp_path) == [blackened(LINES, [Span(100, 150)])]
    result = archive.audit()
    assert (result.code, "request 17" in result.texts) == (0, True)
    assert redact(archive.archive, "--match", "199 a line", "--yes").code == 0  # now there is one segment
    assert archive.audit().code == 0


def work(place: Path) -> None:
    """What is killed, and run again."""
    assert redact(place / "archive", "--match", "a line", "--yes").code == 0


async def test_a_kill_at_any_step_leaves_one_text_that_counts_and_the_next_run_finishes(
    lives: Lives, places: Places
) -> None:
    await filled(Audited(places.first))
    black = LINES.replace(b"a line", b"******")
    deaths = 0
    for place in lives.every_step(work, places.copy):
        deaths += 1
        lengths = [len(text) for text in texts(place)]
        assert sum(lengths) == len(LINES), f"killed at step {deaths}"
        assert b"".join(texts(place)).replace(b"a line", b"******") == black
        work(place)
        assert b"".join(texts(place)) == black
        assert audit(str(place / "archive")).kinds == [], f"killed at step {deaths}"
        left = [path.name for path in (place / "archive").glob(f"date=*/*/host={HOST}/*")]
        assert len(left) == 3, left
        shutil.rmtree(place)
    assert deaths > 20


async def test_unlisted_leftovers_of_a_kill_do_not_stop_a_redaction_of_something_else(
    archive: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(archive)
    with monkeypatch.context() as patched:
        kill_at(patched, Sealer, "record")
        with pytest.raises(KilledError):
            redact(archive.archive, "--match", "57", "--yes")
    redact(archive.archive, "--match", "58", "--yes")
    assert b"".join(texts(tmp_path)) == LINES.replace(b"58", b"**")
    assert archive.audit().code == 0


async def test_the_audit_names_what_a_kill_left(archive: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(archive)
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.unlink", lambda *_, **__: None)
        redact(archive.archive, "--match", "57", "--yes")
    result = archive.audit()
    assert result.code == 2
    assert "it was redacted, and is still there as it was before" in result.texts
    redact(archive.archive, "--match", "57", "--yes")
    assert archive.audit().code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--yes",), 64),
        (("--match", "(", "--yes"), 64),
        (("--match", "x", "--source", SOURCE, "--yes"), 64),
        (("--source", SOURCE, "--yes"), 64),
        (("--source", SOURCE, "--span", "5-5", "--yes"), 64),
    ],
)
def test_contradictory_options_are_refused(archive: Audited, arguments: tuple[str, ...], code: int) -> None:
    assert redact(archive.archive, *arguments).code == code


def test_there_has_to_be_an_archive(tmp_path: Path) -> None:
    assert redact(tmp_path / "nowhere", "--match", "x").code == 78


def segment(*spans: SourceSpan, **more: int) -> Segment:
    raw = sum(span.end - span.start for span in spans)
    plain = {"lines": 1, "bytes_raw": raw, "bytes_stored": raw, "first_seq": 1, "last_seq": 1} | more
    return Segment(
        collector="c", partition=0, host="h", file="/f", path="p", codec="none", first_time="", last_time="",
        spans=spans, **plain,
    )  # fmt: skip


def test_a_source_with_a_gap_has_its_bytes_where_its_spans_say() -> None:
    holed = segment(SourceSpan(source="s", start=0, end=10), SourceSpan(source="s", start=20, end=30))
    assert OfSource("s", 5, 25).ranges(holed, b"") == [Span(5, 15)]
    assert OfSource("s", 22, 24).ranges(holed, b"") == [Span(12, 14)]
    assert [each.bytes for each in OfSource("s", 5, 25).records(holed, [], at="", reason="")] == [5, 5]
    assert not OfSource("s", 12, 18).concerns(holed)


@pytest.mark.parametrize("more", [{"joins": 1}, {"filtered": 3}, {"edited": -2}, {"bytes_raw": 11}])
def test_text_that_is_not_its_spans_has_unknown_places(more: dict[str, int]) -> None:
    with pytest.raises(PlacesUnknownError):
        OfSource("s", 0, 5).ranges(segment(SourceSpan(source="s", start=0, end=10), **more), b"")


def test_ranges_are_joined_and_newlines_stay() -> None:
    assert joined([Span(0, 2), Span(2, 4), Span(3, 5), Span(7, 8)]) == [Span(0, 5), Span(7, 8)]
    assert blackened(b"ab\ncd\n", [Span(1, 5)]) == b"a*\n**\n"
    assert RegexMatches(Linear(b"x*")).ranges(segment(), b"aaa") == []


def test_an_older_reader_is_given_no_field_that_it_does_not_know() -> None:
    assert b"redactions" not in to_line(segment())


PINS = b"".join(b"line %d of a log\n" % number for number in range(9)) + b"pin=4711;\n"


def guesses(archive: Audited) -> list[bytes]:
    """The PINs that a sum in a manifest or in the journal confirms, by trying all."""
    listed = b"".join(path.read_bytes() for path in archive.archive.glob("_manifest/**/*.jsonl"))
    named = {int(each, 16) for each in re.findall(rb"(?=([0-9a-f]{8}))", listed)}
    disk = b"".join(path.read_bytes() for path in archive.journal_path.parent.iterdir())
    kept = {int.from_bytes(disk[at : at + 4]) for at in range(len(disk) - 3)}
    found = []
    for number in range(10_000):
        text = PINS.replace(b"4711", b"%04d" % number)
        whole, part = zlib.crc32(text), zlib.crc32(text[50:])
        if {whole, part} & named or {whole, ~whole & 0xFFFFFFFF} & kept:  # inverted: the copy is not the host's file
            found.append(b"%04d" % number)
    return found


async def test_a_redacted_pin_cannot_be_found_by_trying_all_sums(archive: Audited) -> None:
    archive.send(Log(PINS), 0, 50)
    await archive.drain(Until.SEALED)
    archive.send(Log(PINS), 50, len(PINS))
    await archive.drain(Until.SEALED)
    merged(archive)
    assert b"4711" in guesses(archive)
    assert redact(archive.archive, "--match", "4711", "--yes").code == 0
    assert b"4711" not in guesses(archive)
    result = archive.audit()
    assert (result.code, result.kinds, result.found["compared"]["journal"]) == (0, [], 0)


def merged(archive: Audited) -> None:
    (day,) = {each.path.split("/")[0].removeprefix("date=") for each in archive.segments()}
    merger = Merger(archive.archive, archive.sealer, below=1 << 30, most=1 << 30)
    assert merger.merge(day, 0, Listing(archive.archive, day), lambda: True)


async def test_no_sum_of_a_redacted_source_comes_back_with_its_next_block(archive: Audited) -> None:
    log = Log(PINS + b"more\n")
    archive.send(log, 0, len(PINS))
    await archive.drain(Until.SEALED)
    redact(archive.archive, "--match", "4711", "--yes")
    archive.send(log, len(PINS), len(log.data))
    await archive.drain(Until.SEALED)
    with archive.journal() as journal:
        (known,) = journal.sources_of(HOST, newest=9)
    assert (known.watermark, known.crc, known.proven) == (len(log.data), None, False)
    assert archive.audit().code == 0


async def test_a_running_collector_forgets_the_sums_of_what_is_redacted_meanwhile(archive: Audited) -> None:
    archive.send(Log(PINS), 0, len(PINS))
    await archive.drain(Until.SEALED)
    with Lock(lock_path(archive.archive, 0), "a collector"):
        redact(archive.archive, "--match", "4711", "--yes")
        with archive.journal() as journal:
            assert journal.sources_of(HOST, newest=9)[0].crc is not None
    await archive.drain()
    with archive.journal() as journal:
        assert journal.sources_of(HOST, newest=9)[0].crc is None


async def test_sums_that_a_kill_left_are_erased_by_the_next_run_and_every_line_stays_readable(
    archive: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.send(Log(PINS), 0, len(PINS))
    await archive.drain(Until.SEALED)
    kill_at(monkeypatch, app, "erase_sums")
    with pytest.raises(KilledError):
        redact(archive.archive, "--match", "4711", "--yes")
    before = archive.manifest.stat().st_size
    assert b"4711" in guesses(archive)
    assert redact(archive.archive, "--match", "4711", "--yes").code == 0
    assert (b"4711" in guesses(archive), archive.manifest.stat().st_size) == (False, before)
    assert len(archive.segments()) == 2
