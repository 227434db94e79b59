"""The time at which a line was stored is kept to the second: while its file is open, sealed, merged, redacted."""

import datetime as dt
import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from collecting import FILE, HOST, Log, PartitionHarness
from keeping import Past, seal_all, standing, tend, write_open
from searching import fshipper, lines_of, search

from consumer.archive import frame_index, stored_times
from consumer.archive.event_times import TimeOf, TimeOrigin
from consumer.archive.journal import MARKS_BYTES
from consumer.archive.stored_times import PLANES, StoredTimes, joined
from consumer.model import Until
from consumer.read.query import parse
from consumer.segments import rewrite_segment
from shipper.layout import NANOSECONDS

START = 1_795_824_000
"""2026-11-28T00:00:00Z."""
DAY = "2026-11-28"
BURST = [(512, 1), (602, 200), (603, 200), (604, 100), (695, 1)]
"""00:08:32, three seconds from 00:10:02 on, 00:11:35: seconds and lines."""


class Written(NamedTuple):
    """An archive, and what was written to it: the second of each line."""

    harness: PartitionHarness
    lines: list[tuple[int, bytes]]

    @property
    def archive(self) -> Path:
        return self.harness.archive


def harness_at(place: Path, **more: Any) -> PartitionHarness:
    harness = PartitionHarness(place, **more)
    journals = harness.archive / "_journal"
    journals.mkdir(exist_ok=True)
    (harness.archive / "_archive.json").write_text(json.dumps({"id": "0000"}))
    harness.journal_path = journals / "0000.p0.sqlite"
    return harness


def moved_to(harness: PartitionHarness, second: float) -> None:
    harness.clock.turn(START + second + 0.01 - harness.clock())


async def burst(place: Path, state: str, *, timed: bool, codec: str = "zstd") -> Written:
    """The burst, a block for each second or line, with what happened since, which is `state`."""
    harness, seconds = harness_at(place, codec=codec), [second for second, count in BURST for _ in range(count)]
    lines = [
        f"{dt.datetime.fromtimestamp(START + second, dt.UTC):%Y-%m-%dT%H:%M:%SZ} line {number}".encode()
        if timed
        else f"line {number}".encode()
        for number, second in enumerate(seconds)
    ]
    log, at = Log(b"".join(line + b"\n" for line in lines)), 0
    for number, (second, count) in enumerate(BURST):
        moved_to(harness, second + 0.7)
        size = sum(len(line) + 1 for line in lines[sum(many for _, many in BURST[:number]) :][:count])
        harness.send(log, at, at + size)
        at += size
        if state in {"restarted", "merged"} or number == len(BURST) - 1:
            await harness.drain(Until.SEALED if state in {"sealed", "merged", "redacted"} else Until.DRAINED)
    if state == "sealed after a restart":
        await harness.drain(Until.SEALED)
    if state == "merged":
        tend(place, Past())
    if state == "redacted":
        (segment,) = standing(place)
        text = log.data.replace(b"line 7\n", b"XXXX X\n")
        with rewrite_segment.alone(harness.archive, [0]):
            rewrite_segment.replace_segment_text(harness.archive, segment, text)
    return Written(harness, list(zip(seconds, lines, strict=True)))


STATES = ("open", "restarted", "sealed", "sealed after a restart", "merged", "redacted")


@pytest.mark.parametrize("timed", [True, False], ids=["timed", "plain"])
@pytest.mark.parametrize(
    ("state", "codec"),
    [*((state, "zstd") for state in STATES), *itertools.product(STATES[2:], ("gzip", "none"))],
)
async def test_a_burst_has_its_true_numbers(tmp_path: Path, state: str, codec: str, timed: bool) -> None:
    written = await burst(tmp_path, state, timed=timed, codec=codec)
    assert {segment.codec for segment in standing(tmp_path)} <= {codec}
    for by in TimeOf:
        every = search(written.archive, parse(""), by=by, bucket_ns=NANOSECONDS)
        buckets = Counter[int]()
        for part in every.search.totals.by_part.values():
            buckets.update(part.buckets)
        assert buckets == {(START + second) * NANOSECONDS: count for second, count in BURST}
        assert [hit.time_ns // NANOSECONDS - START for hit in every.hits] == [second for second, _ in written.lines]
        expected = {TimeOrigin.LINE} if timed and by is TimeOf.EVENT else {TimeOrigin.STORED}
        assert set(every.search.totals.origins) == expected
        for since, until, count in [(0, 570, 1), (600, 900, 501), (602, 603, 200), (603, 605, 300), (605, 695, 0)]:
            span = {"since_ns": (START + since) * NANOSECONDS, "until_ns": (START + until) * NANOSECONDS}
            found = search(written.archive, parse("line" if state != "redacted" else ""), by=by, **span)
            assert len(found.hits) == count


@pytest.mark.parametrize("state", ["open", "merged"])
async def test_four_commands_say_the_same(tmp_path: Path, state: str) -> None:
    written = await burst(tmp_path, state, timed=False)
    where = ("--archive", str(written.archive))
    since = ("--since", f"{DAY}T00:10:00Z", "--until", f"{DAY}T00:11:00Z")
    assert fshipper("line", "--count", "all", *since, *where).stdout == b"500\n"
    bars = fshipper("line", "--histogram", "1s", *since, *where).stdout.decode().splitlines()
    assert [bar.split()[:2] for bar in bars] == [
        [f"{DAY}T00:10:0{second}Z", count] for second, count in ((2, "200"), (3, "200"), (4, "100"))
    ]
    for verb in (["tail", "--json"], ["replay", "--json", "--speed", "max"]):
        output = fshipper(*since, *where, "--from", "archive", verb=verb).stdout.splitlines()
        assert Counter(json.loads(line)["time"][11:] for line in output) == {
            "00:10:02Z": 200, "00:10:03Z": 200, "00:10:04Z": 100
        }  # fmt: skip
    (hit,) = (json.loads(line) for line in fshipper("501", "--json", *where).stdout.splitlines()[:1])
    assert (hit["time"], hit["event_time"], hit["time_from"]) == (f"{DAY}T00:11:35Z", f"{DAY}T00:11:35Z", "stored")
    assert fshipper("501", *where).stdout.startswith(f"*{DAY}T00:11:35Z {HOST} {FILE}: line 501".encode())


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
def test_times_of_earlier_versions_are_estimates_no_finer_than_they_are_known(tmp_path: Path, codec: str) -> None:
    span = ((START + 512) * NANOSECONDS, (START + 695) * NANOSECONDS)
    write_open(tmp_path, FILE, [b"line\n" * 100], date=DAY, stored_ns=span)
    seal_all(tmp_path, codec=codec)
    archive = tmp_path / "archive"
    (archive / "_archive.json").write_text("{}")
    done = fshipper("line", "--limit", "1", "--archive", str(archive))
    assert done.stdout.startswith(f"~{DAY}T00Z {HOST}".encode())
    (hit,) = (json.loads(line) for line in fshipper("line", "--json", "--limit", "1", "--by", "stored", "--archive",
                                                    str(archive)).stdout.splitlines()[:1])  # fmt: skip
    assert hit["time_from"] == "estimated"
    assert hit["stored_between"] == [f"{DAY}T00:08:32Z", f"{DAY}T00:11:35Z"]
    output = fshipper("-t", "--from", "archive", "--by", "stored", "--archive", str(archive), verb=["tail"]).stdout
    assert {line[:15] for line in output.splitlines()} == {f"~{DAY}T00Z".encode()}
    for verb in (["tail"], ["replay", "--speed", "max"]):
        output = fshipper("--json", "--from", "archive", "--archive", str(archive), verb=verb).stdout
        for each in map(json.loads, output.splitlines()):
            assert (each["time"], each["time_from"]) == (f"{DAY}T00:08:32Z", "estimated")
            assert each["stored_between"] == hit["stored_between"]


def drawn_file(place: Path, drawn: random.Random, file: str, codec: str) -> list[tuple[int, int, bytes]]:
    """A file of random blocks in random seconds, open, sealed or merged; second, offset and content of its lines."""
    steps_back = drawn.choice((0, 0, 1, 40))  # of the server's clock, in seconds
    lines, start, second = list[tuple[int, int, bytes]](), 0, drawn.randrange(0, 80_000)
    parts = drawn.choice((1, 1, 2, 3))
    for part in range(parts):
        blocks, marks, size = list[bytes](), list[tuple[int, int]](), 0
        for _ in range(drawn.randrange(1, 30)):
            second = max(0, second + drawn.choice((0, 0, 1, 2, 60, drawn.randrange(900), -steps_back)))
            block = b"".join(b"line %d%s\n" % (drawn.randrange(10), b"+" * drawn.randrange(9)) for _ in range(9))
            if not marks or marks[-1][1] != START + second:
                marks.append((size, START + second))
            lines += [(second, start + size + at, line) for at, line in lines_of(block)]
            blocks.append(block)
            size += len(block)
        stored = sorted(second for _, second in marks)
        span = (stored[0] * NANOSECONDS, stored[-1] * NANOSECONDS + drawn.randrange(NANOSECONDS))
        write_open(
            place, file, blocks, date=DAY, start=start, sequence=100 * part + 7, stored_ns=span, seconds=marks,
            source=f"{drawn.randrange(1 << 60):016x}",
        )  # fmt: skip
        start += size
        if part < parts - 1 or drawn.random() < 0.7:
            seal_all(place, codec=codec)
    return lines


def check_drawn(place: Path, seed: int) -> None:
    drawn = random.Random(seed)
    place.mkdir()
    harness = harness_at(place)
    (place / "journal.sqlite").symlink_to(harness.journal_path)
    codec = drawn.choice(("zstd", "zstd", "gzip", "none"))
    files = {
        f"/{number}.log": drawn_file(place, drawn, f"/{number}.log", codec) for number in range(drawn.randrange(1, 3))
    }
    if drawn.random() < 0.5:
        seal_all(place, codec=codec)
        tend(place, Past())
    for _ in range(4):
        since, word = drawn.randrange(0, 86_400), b"line %d" % drawn.randrange(10)
        until = since + drawn.choice((1, 30, 3_600, 40_000))
        bucket = drawn.choice((1, 10, 3600))
        expected = Counter[int](
            START + second - (START + second) % bucket
            for lines in files.values() for second, _, line in lines
            if since <= second < until and word in line
        )  # fmt: skip
        for by in TimeOf:
            found = search(
                harness.archive, parse(word.decode().join(('"', '"'))), by=by, since_ns=(START + since) * NANOSECONDS,
                until_ns=(START + until) * NANOSECONDS, bucket_ns=bucket * NANOSECONDS,
            )  # fmt: skip
            buckets = Counter[int]()
            for each in found.search.totals.by_part.values():
                buckets.update(each.buckets)
            assert {start // NANOSECONDS: count for start, count in buckets.items()} == expected, seed
            times = [hit.time_ns for hit in found.hits]
            assert times == sorted(times) or found.search.totals.is_approximate


@pytest.mark.parametrize("first", [0])
def test_drawn_files_and_windows_equal_a_reference_that_reads_each_line(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 25):
        check_drawn(tmp_path / str(seed), seed)


def test_1000_drawn_files_and_windows_equal_a_reference_that_reads_each_line(tmp_path: Path) -> None:
    for seed in range(1000, 1250):  # four windows each
        check_drawn(tmp_path / str(seed), seed)


def day_of_lines(place: Path, *, late: int = 0, ahead: int = 0) -> int:
    """A sealed day of a host that writes ten lines a second, stored `late` seconds after their times; its bytes."""
    noise = random.Random(7)
    lines = [
        f"{dt.datetime.fromtimestamp(START + second + ahead - late, dt.UTC):%Y-%m-%d %H:%M:%S} "
        f"{noise.randbytes(30).hex()} line {each}\n".encode()
        for second in range(0, 86_400, 4)
        for each in range(4)
    ]
    marks, at = list[tuple[int, int]](), 0
    for number, line in enumerate(lines):
        if number % 4 == 0:
            marks.append((at, START + number))
        at += len(line)
    span = (START * NANOSECONDS, (START + 86_396) * NANOSECONDS)
    write_open(place, FILE, lines, date=DAY, stored_ns=span, seconds=marks)
    seal_all(place)
    (segment,) = standing(place)
    return segment.bytes_stored


def busy_day(place: Path, codec: str, disorder: int) -> int:
    """A sealed day of 120 MB of text, with lines up to `disorder` seconds older than those before; its stored bytes."""
    noise = random.Random(7)
    tails = [f" {noise.randbytes(60).hex()} line\n".encode() for _ in range(997)]
    blocks, marks, at = list[bytes](), list[tuple[int, int]](), 0
    for second in range(86_400):
        stamps = (START + second - noise.randrange(disorder + 1) for _ in range(10))
        block = b"".join(
            b"%s%s" % (dt.datetime.fromtimestamp(stamp, dt.UTC).isoformat().encode(), tails[(second + stamp) % 997])
            for stamp in stamps
        )
        marks.append((at, START + second))
        blocks.append(block)
        at += len(block)
    span = (START * NANOSECONDS, (START + 86_399) * NANOSECONDS)
    write_open(place, FILE, blocks, date=DAY, stored_ns=span, seconds=marks)
    seal_all(place, codec=codec)
    (segment,) = standing(place)
    return segment.bytes_stored


@pytest.mark.parametrize(("codec", "disorder"), [("zstd", 0), ("zstd", 45), ("none", 45)])
def test_a_window_of_one_percent_of_a_day_by_event_reads_at_most_five(
    tmp_path: Path, codec: str, disorder: int
) -> None:
    stored = busy_day(tmp_path, codec, disorder)
    since = (START + 40_000) * NANOSECONDS
    window = {"since_ns": since, "until_ns": since + 864 * NANOSECONDS, "by": TimeOf.EVENT}
    found = search(tmp_path / "archive", parse("line"), counts_only=True, **window).search
    assert found.totals.hits == 8_640 or disorder
    assert 8_000 < found.totals.hits < 9_300
    assert 0 < found.totals.bytes_read <= 0.05 * stored
    assert set(found.totals.origins) == {TimeOrigin.LINE}


async def in_one_run(place: Path, codec: str, blocks: list[bytes]) -> PartitionHarness:
    """Blocks that come 100 s apart, in one segment: of zstd, their frames are copied."""
    harness, log, at = harness_at(place, codec=codec), Log(b"".join(blocks)), 0
    for number, block in enumerate(blocks):
        moved_to(harness, 100 * number)
        harness.send(log, at, at + len(block))
        at += len(block)
    await harness.drain(Until.SEALED)
    return harness


@pytest.mark.parametrize("codec", ["zstd", "none"])
async def test_a_line_that_began_before_the_frame_is_one_line(tmp_path: Path, codec: str) -> None:
    """A producer ships a last line without a newline after some silence, and its rest later."""
    noise = random.Random(1)
    blocks = [
        (b"" if number == 0 else b" tail of %d\n" % (number - 1))
        + b"".join(b"line %d %s\n" % (number, noise.randbytes(100).hex().encode()) for _ in range(1_500))
        + b"head of %d" % number
        for number in range(12)
    ]
    harness = await in_one_run(tmp_path, codec, blocks)
    span = {"since_ns": (START + 700) * NANOSECONDS, "until_ns": (START + 800) * NANOSECONDS}
    found = search(harness.archive, parse(""), **span)
    assert [hit.line for hit in found.hits] == [*blocks[7].split(b"\n")[1:-1], b"head of 7 tail of 7"]
    (segment,) = standing(tmp_path)
    assert found.search.totals.bytes_read < 0.6 * segment.bytes_stored
    window = ("--since", f"{DAY}T00:11:40Z", "--until", f"{DAY}T00:13:20Z", "--by", "stored", "--from", "archive")
    output = fshipper(*window, "--archive", str(harness.archive), "--raw", verb=["tail"]).stdout
    assert output == b"".join(hit.line + b"\n" for hit in found.hits)


@pytest.mark.parametrize("codec", ["zstd", "none"])
async def test_the_first_line_of_a_frame_is_found(tmp_path: Path, codec: str) -> None:
    noise = random.Random(1)
    blocks = [
        b"".join(b"line %d %s\n" % (number, noise.randbytes(100).hex().encode()) for _ in range(1_500))
        for number in range(12)
    ]
    harness = await in_one_run(tmp_path, codec, blocks)
    span = {"since_ns": (START + 700) * NANOSECONDS, "until_ns": (START + 800) * NANOSECONDS}
    for by in TimeOf:
        found = search(harness.archive, parse(""), by=by, **span)
        assert [hit.line for hit in found.hits] == blocks[7].splitlines()


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
async def test_search_and_tail_give_lines_without_a_time_the_same_one(tmp_path: Path, codec: str) -> None:
    """Also where the line with the time was stored long before, and where a file begins with lines that have none."""

    def at(second: int, text: str) -> bytes:
        return f"{dt.datetime.fromtimestamp(START + second, dt.UTC):%Y-%m-%d %H:%M:%S} {text}\n".encode()

    blocks = [
        b"-- the log begins --\n", *(at(100 * number, f"line {number}") for number in range(1, 5)),
        *(b"  of the trace of line 4\n" for _ in range(4)), at(900, "line 9"),
    ]  # fmt: skip
    harness = await in_one_run(tmp_path, codec, blocks)
    for since, until in itertools.combinations(
        ("00:00:00", "00:01:00", "00:06:00", "00:10:00", "00:14:00", "23:00:00"), 2
    ):
        where = (
            "--since",
            f"{DAY}T{since}Z",
            "--until",
            f"{DAY}T{until}Z",
            "--archive",
            str(harness.archive),
            "--json",
        )
        hits = [json.loads(line) for line in fshipper("", *where, code=None).stdout.splitlines()]
        output = fshipper(*where, "--from", "archive", verb=["tail"], code=None).stdout.splitlines()
        assert [(each["line"], each["event_time"], each["time_from"]) for each in hits if each["type"] == "hit"] == [
            (each["line"], each["event_time"], each["time_from"]) for each in map(json.loads, output)
        ], (since, until)


@pytest.mark.parametrize(("late", "ahead"), [(7 * 86_400, 0), (0, 7_200), (3_700, 0)])
def test_lines_long_before_or_after_their_storing_are_found_by_their_own_times(
    tmp_path: Path, late: int, ahead: int
) -> None:
    day_of_lines(tmp_path, late=late, ahead=ahead)
    (segment,) = standing(tmp_path)
    assert (segment.late // 60, segment.ahead // 60) == (late // 60, ahead // 60)
    since = (START + 40_000 + ahead - late) * NANOSECONDS
    window = {"by": TimeOf.EVENT, "since_ns": since, "until_ns": since + 600 * NANOSECONDS}
    assert len(search(tmp_path / "archive", parse("line"), **window).hits) == 600


AUTUMN = 1_792_886_400
"""2026-10-25T00:00:00Z: at 01:00Z the clocks of Berlin go back from 03:00 to 02:00."""
HOURS = range(0, 14_400, 60)
SCENES = {
    "an hour occurs twice": [(second, second if second < 3_600 else second - 3_600) for second in HOURS],
    "two days without a connection": [(172_800 + second // 60, second) for second in HOURS],
    "disconnected for an hour": [(second if second < 3_600 else max(second, 7_200), second) for second in HOURS],
    "the clock of the host is set back": [(second, second if second < 7_200 else second - 2_400) for second in HOURS],
    "the clock of the host is ahead": [(second, second + 5_400) for second in HOURS],
}


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none", "open"])
@pytest.mark.parametrize("scene", SCENES)
def test_each_line_is_found_in_the_window_of_its_time(tmp_path: Path, scene: str, codec: str) -> None:
    (tmp_path / "journal.sqlite").symlink_to(harness_at(tmp_path).journal_path)
    is_twice = scene == "an hour occurs twice"
    local = AUTUMN + (7_200 if is_twice else 0)
    lines = [
        f"{dt.datetime.fromtimestamp(local + event, dt.UTC):%Y-%m-%d %H:%M:%S} line\n".encode()
        for _, event in SCENES[scene]
    ]
    marks, size = list[tuple[int, int]](), len(lines[0])
    for number, (second, _) in enumerate(SCENES[scene]):
        if not marks or marks[-1][1] != AUTUMN + second:
            marks.append((size * number, AUTUMN + second))
    write_open(
        tmp_path, FILE, lines, date=f"{dt.datetime.fromtimestamp(marks[0][1], dt.UTC):%Y-%m-%d}", seconds=marks,
        stored_ns=(marks[0][1] * NANOSECONDS, marks[-1][1] * NANOSECONDS), zone="Europe/Berlin" if is_twice else "",
    )  # fmt: skip
    if codec != "open":
        seal_all(tmp_path, codec=codec)
    archive, expected, counts = tmp_path / "archive", Counter[int](), Counter[int]()
    for _, event in SCENES[scene]:
        expected[event // 1_800] += 1
    if is_twice:  # the first of the two is assumed: 01:00Z to 02:00Z has none
        expected = Counter({0: 60, 1: 60, **dict.fromkeys(range(4, 8), 30)})
    for number in range(-2, 14):
        window = {"since_ns": (AUTUMN + 1_800 * number) * NANOSECONDS}
        window["until_ns"] = window["since_ns"] + 1_800 * NANOSECONDS
        counts[number] = len(search(archive, parse("line"), by=TimeOf.EVENT, **window).hits)
    assert +counts == expected


def test_what_was_not_searched_is_said(tmp_path: Path) -> None:
    write_open(tmp_path, FILE, [b"2026-11-28 00:00:01 line\n"], date=DAY, stored_ns=(START * NANOSECONDS,) * 2)
    seal_all(tmp_path)
    archive = tmp_path / "archive"
    (archive / "_archive.json").write_text("{}")
    where = ("--archive", str(archive), "--until", "2020-01-01T01:00:00Z")
    done = fshipper("line", "--json", *where, code=1)
    assert json.loads(done.stdout.splitlines()[-1])["stored_until"] == "2020-01-01T01:10:00.000Z"
    assert b"stored after 2020-01-01T01:10:00Z were not searched" in done.stderr
    later = fshipper("line", "--json", "--late", "1d", *where, code=1)
    assert json.loads(later.stdout.splitlines()[-1])["stored_until"] == "2020-01-02T01:00:00.000Z"
    assert b"not searched" not in fshipper("line", "--archive", str(archive)).stderr


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
@pytest.mark.parametrize("until", [Until.DRAINED, Until.SEALED])
async def test_lines_are_found_where_the_clock_of_the_server_was_set_back(
    tmp_path: Path, codec: str, until: Until
) -> None:
    harness, log = harness_at(tmp_path, codec=codec), Log(b"line 1\nline 2\nline 3\nline 4\n")
    for number, second in enumerate((100, 200, 90, 120)):
        moved_to(harness, second)
        harness.send(log, 7 * number, 7 * number + 7)
        await harness.drain(until if number == 3 else Until.DRAINED)
    for by, (since, lines) in itertools.product(TimeOf, {80: b"3", 100: b"1", 120: b"4", 200: b"2"}.items()):
        span = {"since_ns": (START + since) * NANOSECONDS, "until_ns": (START + since + 15) * NANOSECONDS}
        hits = search(harness.archive, parse("line"), by=by, **span).hits
        assert [hit.line[-1:] for hit in hits] == [lines], since


async def test_times_of_a_file_that_was_truncated_are_those_of_what_is_left(tmp_path: Path) -> None:
    harness, log = harness_at(tmp_path), Log(b"line 1\nline 2\nline 3\nline 4\n")
    for number in range(3):
        moved_to(harness, 60 * number)
        harness.send(log, 7 * number, 7 * number + 7)
        await harness.drain()
    (opened,) = harness.archive.glob("date=*/partition=0/host=*/_open-*")
    opened.write_bytes(log.data[:10])
    moved_to(harness, 240)
    harness.send(log, 21, 28)
    await harness.drain(Until.SEALED)
    hits = search(harness.archive, parse("line")).hits
    assert [(hit.line, hit.time_ns // NANOSECONDS - START) for hit in hits] == [(b"line 1", 0), (b"line 4", 240)]


async def test_many_marks_leave_the_row_that_is_written_with_every_batch(tmp_path: Path) -> None:
    harness, log = harness_at(tmp_path), Log(b"".join(b"line %04d\n" % number for number in range(200)))
    for number in range(200):
        moved_to(harness, 2 * number)
        harness.send(log, 10 * number, 10 * number + 10)
        await harness.drain(batch_bytes=1)
    with harness.journal() as journal:
        (file,) = journal.files.values()
        assert len(file.marks) < MARKS_BYTES
        assert len(journal.marks(file.path)) == 200 * PLANES
    await harness.drain(Until.SEALED)
    hits = search(harness.archive, parse("line")).hits
    assert [hit.time_ns // NANOSECONDS - START for hit in hits] == list(range(0, 400, 2))


def test_marks_of_parts_are_those_of_the_whole() -> None:
    times = StoredTimes([0, 10, 20, 35], [100, 101, -105, 110], 112 * NANOSECONDS, 50)
    assert StoredTimes.of(times.plain, first_ns=0, last_ns=112 * NANOSECONDS, raw=50) == times
    whole = joined([times.part(0, 15), times.part(15, 30), times.part(30, 50)])
    assert [whole.at(offset) // NANOSECONDS for offset in (0, 9, 10, 19, 35, 49)] == [100, 100, 101, 101, 110, 110]
    assert whole.bounds(25) == (105 * NANOSECONDS, 110 * NANOSECONDS)
    left = joined([times.part(10, 20), times.part(40, 50)])
    assert [left.at(offset) // NANOSECONDS for offset in (0, 9, 10, 19)] == [101, 101, 110, 110]


@pytest.mark.parametrize("damage", [1, 5, 9, 13, 17, 30])
def test_damaged_times_are_not_used(tmp_path: Path, damage: int) -> None:
    times = StoredTimes(list(range(0, 900, 9)), list(range(START, START + 200, 2)), 0, 900)
    path, good = tmp_path / "a", b"text" + frame_index.encode_times(times.plain, 900)
    path.write_bytes(good)
    with path.open("rb") as stream:
        assert frame_index.read_times(stream, 900) == (times.plain, 4)
        assert frame_index.read_times(stream, 1800) == (b"", len(good))
    bad = bytearray(good)
    bad[-damage] ^= 0x55
    path.write_bytes(bad)
    with path.open("rb") as stream:
        assert frame_index.read_times(stream, 900) == (b"", len(bad))


def test_damaged_times_of_a_manifest_line_are_not_used() -> None:
    plain = StoredTimes(list(range(0, 900, 9)), list(range(START, START + 200, 2)), 0, 900).plain
    text = stored_times.to_text(plain)
    assert (stored_times.from_text(text), stored_times.to_text(b"")) == (plain, "")
    for bad in (text[:-4], text[4:], "+" + text, "no base64", "\u2028", "AAAA"):
        assert stored_times.from_text(bad) == b""


def test_the_times_of_a_busy_file_take_less_than_a_percent(tmp_path: Path) -> None:
    """A line a minute is the dearest file that there is; what it costs is in docs/reference/archive-format.md."""
    marks = [(90 * 40 * number, START + number) for number in range(3_600)]
    text = b"".join(
        b"%010d GET /%s 200\n" % (number, random.Random(number).randbytes(36).hex().encode())
        for number in range(40 * 3_600)
    )
    span = (START * NANOSECONDS, (START + 3_599) * NANOSECONDS)
    write_open(tmp_path, FILE, [text], date=DAY, stored_ns=span, seconds=marks)
    seal_all(tmp_path)
    (segment,) = standing(tmp_path)
    with (tmp_path / "archive" / segment.path).open("rb") as stream:
        index = frame_index.read(stream)
        assert index is not None
        assert len(index.times) == 3_600 * PLANES
        assert len(frame_index.encode_times(index.times, index.raw)) <= 0.01 * segment.bytes_stored


async def test_the_zone_of_a_host_is_kept_with_its_segments(tmp_path: Path) -> None:
    harness, log = harness_at(tmp_path), Log(b"one\ntwo\n")
    for start, zone in ((0, "Europe/Berlin"), (4, "Europe/Paris")):
        subject, headers, payload = log.message(start, start + 4)
        harness.bus.store(subject, headers | {"Shipper-Zone": zone}, payload)
        await harness.drain()
    (part,) = search(harness.archive, parse("")).search.parts
    assert part.zone == "Europe/Paris"
    await harness.drain(Until.SEALED)
    assert [segment.zone for segment in harness.segments()] == ["Europe/Paris"]
    done = fshipper("one", "--timezone", "host", "--archive", str(harness.archive)).stdout.decode()
    assert done[1:].startswith("2026-") and "+01:00 " in done  # noqa: PT018 - one line
    in_zone = fshipper("one", "--timezone", "Asia/Kolkata", "--archive", str(harness.archive)).stdout.decode()
    assert "+05:30 " in in_zone
    assert b"is no zone" in fshipper("one", "--timezone", "Nowhere/City", code=64).stderr


def test_lines_of_a_host_that_was_disconnected_are_found_by_their_own_times(tmp_path: Path) -> None:
    """An hour of lines came within one second, in the middle of a day."""
    seconds = [*range(0, 40_000, 10), *[43_600] * 360, *range(43_600, 80_000, 10)]
    lines = [
        f"{dt.datetime.fromtimestamp(START + 10 * number, dt.UTC):%Y-%m-%d %H:%M:%S} line {number}\n".encode()
        for number in range(len(seconds))
    ]
    marks, at = list[tuple[int, int]](), 0
    for second, line in zip(seconds, lines, strict=True):
        if not marks or marks[-1][1] != START + second:
            marks.append((at, START + second))
        at += len(line)
    span = (START * NANOSECONDS, (START + 79_990) * NANOSECONDS)
    write_open(tmp_path, FILE, lines, date=DAY, stored_ns=span, seconds=marks)
    seal_all(tmp_path)
    (segment,) = standing(tmp_path)
    assert 3_500 <= segment.late <= 3_700
    since = (START + 41_000) * NANOSECONDS
    window = {"by": TimeOf.EVENT, "since_ns": since, "until_ns": since + 600 * NANOSECONDS}
    assert len(search(tmp_path / "archive", parse("line"), **window).hits) == 60
