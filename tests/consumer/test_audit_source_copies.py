"""Bytes that stand twice under different names: a note that names both, and no note of texts that programs repeat."""

import contextlib
import io
from pathlib import Path

import pytest
from auditing import Audited, Said
from collecting import HOST, Log, cuts
from test_collector_edits import piece, send

from consumer.audit import source_copies
from consumer.model import Until
from producer.transform.edits import Edits
from shipper.main import run
from shipper.model import End

DAY = 86400.0
APP, COPY = "/var/log/app.log", "/var/log/app-20261128.log"


def timed(lines: int, word: str = "a") -> bytes:
    times = (divmod(number, 60) for number in range(lines))
    return b"".join(b"2026-11-20T10:%02d:%02dZ %s line\n" % (*time, word.encode()) for time in times)


def numbered(lines: int) -> bytes:
    """F1 of the reports: nothing in it is a time."""
    return b"".join(b"unique line %d\n" % number for number in range(1, lines + 1))


def notes(said: Said) -> list[tuple[str, str, int]]:
    """File, the other file, and bytes."""
    assert (said.code, said.kinds) == (0, [])
    found = [each for each in said.found["findings"] if each["kind"] == "same_text"]
    return [(each["file"], each["other"], each["bytes"]) for each in found]


async def archive_of(archive: Audited, *logs: Log, block: int = 700, until: Until = Until.SEALED) -> None:
    """One source after the other, each in a segment of its own, unless it goes on."""
    for log in logs:
        for start, end in cuts(log.data, block):
            archive.send(log, start, end)
        await archive.drain(until)


def log_of(data: bytes, number: int, file: str, host: str = HOST) -> Log:
    return Log(data, id=f"{number:016x}", file=file, host=host)


@pytest.mark.parametrize("until", [Until.SEALED, Until.DRAINED])
@pytest.mark.parametrize(
    ("original", "copy", "common"),
    [
        (timed(40), timed(40), timed(40)),
        (timed(310), timed(300), timed(300)),
        (timed(300), timed(310), timed(300)),
        (numbered(310), numbered(300), numbered(300)),
        (numbered(80), numbered(80), numbered(80)),
        (b"x" * 70_000, b"x" * 70_000, b"x" * 70_000),
        (timed(200) + b"half a li", timed(200) + b"half", timed(200) + b"half"),
    ],
    ids=["the same", "the first lines", "more lines", "F1", "without times", "one long line", "half a line"],
)
async def test_a_source_that_is_all_or_the_beginning_of_another_name_s_is_a_note(
    original: bytes, copy: bytes, common: bytes, until: Until, tmp_path: Path
) -> None:
    archive = Audited(tmp_path)
    await archive_of(archive, log_of(original, 1, APP), log_of(copy, 2, COPY), until=until)
    assert notes(archive.audit()) == [(COPY, APP, len(common))]


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
async def test_a_copy_is_found_over_segments_days_and_sources_that_share_a_file(codec: str, tmp_path: Path) -> None:
    archive = Audited(tmp_path, codec=codec)
    first = log_of(timed(310), 1, APP)
    archive.send(first, 0, 1000)
    await archive.drain(Until.SEALED)
    archive.clock.turn(DAY)
    archive.send(first, 1000, 2345)
    await archive.drain(Until.SEALED)
    archive.send(first, 2345, len(first.data), last=End.TRUNCATED)
    await archive_of(archive, log_of(timed(100, "another"), 2, APP))
    await archive_of(archive, log_of(timed(90, "older"), 3, COPY), until=Until.DRAINED)
    await archive_of(archive, log_of(timed(300), 4, COPY), block=901)
    said = archive.audit()
    assert notes(said) == [(COPY, APP, len(timed(300)))]
    (text,) = (note for note in said.notes if "perhaps a copy" in note)
    assert "source 0000000000000004" in text
    assert "(source 0000000000000001, " in text


async def test_the_note_says_files_bytes_lines_and_the_next_step_and_the_verdict_stays(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    await archive_of(archive, log_of(timed(310), 1, APP), log_of(timed(300), 2, COPY))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(["audit", str(archive.archive)]) == 0
    words = " ".join(out.getvalue().split())
    assert f"{HOST} {COPY} " in words
    assert f"all {len(timed(300)):,} bytes (300 lines) of source 0000000000000002 are in {APP} (source" in words
    assert "perhaps a copy of a rotation" in words
    assert 'exclude = ["/var/log/app-*.log"]' in words
    assert "; complete" in words or " complete;" in words


BANNER = b"".join(b"   %s\n" % line for line in (b"Welcome to the program", b"=" * 60, b"Copyright the authors") * 8)
BUILT = b"built 2026-01-01 10:00:00 of the branch main\n" * 20
OLD = timed(40).replace(b"2026-11", b"2024-11")
CRON = b"nothing to do, good night\nall is well\n" * 40


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (timed(5), timed(5)),  # less than 512 bytes
        (BANNER, BANNER),
        (BANNER, BANNER + timed(100)),
        (BUILT, BUILT + timed(100, "own")),
        (CRON, CRON),
        (BANNER + timed(100), BANNER + timed(100, "other")),
        (timed(50) + timed(50, "one"), timed(50) + timed(50, "other")),
        (timed(60) + b"one\n", timed(60) + b"another\n"),
        (timed(200)[5000:], timed(200)),
        (OLD, OLD),
    ],
    ids=[
        "short",
        "banner",
        "banner and more",
        "built",
        "cron",
        "after a banner",
        "differs later",
        "at its end",
        "the end of it",
        "old",
    ],
)
async def test_what_programs_write_again_and_what_differs_later_is_no_note(
    one: bytes, other: bytes, tmp_path: Path
) -> None:
    archive = Audited(tmp_path)
    await archive_of(archive, log_of(one, 1, "/var/log/job-mon.log"))
    archive.clock.turn(DAY)
    await archive_of(archive, log_of(other, 2, "/var/log/job-tue.log"))
    assert notes(archive.audit()) == []


async def test_other_hosts_the_same_name_and_one_source_in_two_places_are_no_note(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    text = timed(100)
    await archive_of(archive, log_of(text, 1, APP), log_of(text, 2, APP), log_of(text, 3, COPY, host="web2"))
    assert notes(archive.audit()) == []


async def test_what_was_edited_and_what_began_later_is_not_compared(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    text = timed(100)
    rules = Edits.of(drop_lines=["10:00:"], redact=[])
    send(archive, [piece(text, 0, len(text))], rules=rules)
    await archive.drain(Until.SEALED)
    late = Log(text, id="00000000000000c3", file=COPY, origin=500)
    archive.send(late, 500, len(text))
    await archive_of(archive, log_of(text, 2, "/var/log/app.log.old"))
    assert notes(archive.audit()) == []


async def test_every_copy_of_a_file_is_named_once(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    names = [f"/var/log/app.log.{number}" for number in range(1, 5)]
    logs = [log_of(timed(100 + number), number, name) for number, name in enumerate(names)]
    await archive_of(archive, log_of(timed(300), 9, APP), *logs)
    found = notes(archive.audit())
    assert [file for file, _, _ in found] == names
    assert [octets for _, _, octets in found] == [len(log.data) for log in logs]


async def test_without_a_budget_for_reading_the_bytes_up_to_a_known_sum_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Audited(tmp_path)
    await archive_of(archive, log_of(timed(310), 1, APP), log_of(timed(300), 2, COPY))
    monkeypatch.setattr(source_copies, "MOST_READ_BYTES", 1000)
    assert notes(archive.audit()) == [(COPY, APP, 8192)]


async def test_of_too_many_sources_the_newest_are_compared_and_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Audited(tmp_path)
    early = [log_of(timed(100, f"early {number}"), number, f"/var/log/{number}.log") for number in range(4)]
    await archive_of(archive, *early, log_of(timed(300), 8, APP), log_of(timed(300), 9, COPY))
    monkeypatch.setattr(source_copies, "MOST_SOURCES", 3)
    said = archive.audit()
    assert (said.code, said.kinds) == (0, [])
    found = [each for each in said.found["findings"] if each["kind"] == "same_text"]
    assert [each["file"] for each in found] == [COPY, ""]
    assert "3 sources of the first days were not compared" in found[-1]["text"]
    assert "--since" in found[-1]["hint"]
