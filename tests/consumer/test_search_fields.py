"""Fields in queries and counts: JSON and logfmt lines, next to text with a colon, which keeps its meaning."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keeping import DAY_NS, seal_all, write_open
from searching import fshipper, search, write_archive

from consumer.archive import frame_index, segment_io
from consumer.archive.event_times import TimeOf
from consumer.read import counting
from consumer.read.counting import CountBy, Counted, Values, counted_by
from consumer.read.fields import MAX_LINE_BYTES, fields_of
from consumer.read.piece import Piece
from consumer.read.query import Case, Options, Query, parse
from shipper.errors import UsageError
from shipper.layout import NANOSECONDS

JSON_LINE = (
    b'{"status":500,"path":"\\/api\\/v1","user":{"name":"Bob Smith"},"ok":true,"tags":["a","b"],"ms":12.5,"k.l":"x"}'
)
LOGFMT = b'ts=1 status=500 msg="disk \\"sda\\" full" ms=12.5, empty= Level=Warn'
SYSLOG = b'Nov 28 10:00:00 web1 app[7]: {"level":"error","code":7}'


def taken(query: Query, line: bytes) -> bool:
    """Whether a block with other lines yields it: the way of a search, with the literals first."""
    found = list(query.take(Piece(0, "h", "f", "", 0, b"before\n" + line + b"\nafter\n")))
    return line in b"".join(each.text for each in found).split(b"\n")


@pytest.mark.parametrize(
    ("query", "line", "matches"),
    [
        ("status:500", JSON_LINE, True), ("status:500", LOGFMT, True), ("status:50", LOGFMT, False),
        ("status:50*", LOGFMT, True), ("-status:500", JSON_LINE, False), ("-status:404", JSON_LINE, True),
        ("status:>499.5", JSON_LINE, True), ("status:>500", JSON_LINE, False), ("ms:>=12.5 ms:<=12.5", LOGFMT, True),
        ("ok:true", JSON_LINE, True), ("ok:>0", JSON_LINE, False), ("tags:b", JSON_LINE, True),
        ("tags:c", JSON_LINE, False), ("tags:*", JSON_LINE, True), ("nothing:*", JSON_LINE, False),
        ('user.name:"bob smith"', JSON_LINE, True), ('user.name:"Bob smith"', JSON_LINE, False),
        ("user.name:bob", JSON_LINE, False), ("k.l:x", JSON_LINE, True), ("path:/api/*", JSON_LINE, True),
        ("path:*v1", JSON_LINE, True), ("path:*/v2*", JSON_LINE, False), ('msg:"disk \\"sda\\" full"', LOGFMT, True),
        ("msg:*sda*full", LOGFMT, True), ('empty:""', LOGFMT, True), ('msg:""', LOGFMT, False),
        ("level:warn", LOGFMT, True), ("Level:warn", LOGFMT, False), ("level:error code:7", SYSLOG, True),
        ("code:7 OR code:8", SYSLOG, True), ("status:200", b'{"status":200,"status":404}', True),
        ("status:404", b'{"status":200,"status":404}', True), ("a:b", b'{"a":"b"', False),
        # Text with a colon is found as before.
        ("http://x", b"GET http://x/y", True), ("10:30:00", b"at 10:30:00", True), ("ERROR:", b"ERROR: x", True),
        ("00:1b:44:11:3a:b7", b"mac 00:1b:44:11:3a:b7", True), ("fe:dc:ba", b"mac fe:dc:ba:98", True),
        ("fe80::1", b"from fe80::1%eth0", True), ("C:\\x", b"open C:\\x.txt", True), ("C:>", b"C:> dir", True),
        ("std::string", b"a std::string b", True), ("error:<nil>", b"error:<nil>", True),
        ("status:500", b"got status:5003", True), ('error:"disk full"', b"error: the disk full", True),
        ("-level:debug", b"level:debug", False), ('"status:500"', LOGFMT, False),
        ("http:x", b'{"http":{"u":1}} http:x', True),
    ],
)  # fmt: skip
def test_a_field_or_the_same_characters_as_text(query: str, line: bytes, matches: bool) -> None:
    parsed = parse(query)
    assert parsed.matches(line) is matches
    assert taken(parsed, line) is matches


@pytest.mark.parametrize("query", ["status:>5oo", "status:>=10ms", "(ms:<1x)", "ms:>-"])
def test_only_numbers_are_compared(query: str) -> None:
    if query == "ms:>-":  # nothing of a number: text
        assert parse(query).matches(b"ms:>-")
        return
    with pytest.raises(UsageError, match="only numbers without a unit"):
        parse(query)


def test_notes_explain_what_looks_like_a_field_and_is_none() -> None:
    assert "status:>500 compares" in parse("status>500").notes[0]
    assert "write (level:a OR level:b)" in parse("level:(error OR warn)").notes[0]
    assert not parse('level:"error" x').notes


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":' * 100_000, b"{" * 100_000, b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}", b'{"a":NaN,"b":1e999999999}',
        b'{"a":' + b"9" * 10_000 + b"}", b'{"a":"\\ud800"}', b'{"a":"\xff\x00"}', b'a="' * 20_000, b"a=" * 20_000,
        b"a=1 " * (MAX_LINE_BYTES // 3), b'{"a":1}' + b" " * MAX_LINE_BYTES, b'a="\\' * 9_000, b'{"":{"":1}}', b"{}",
    ],
    ids=range(14),
)  # fmt: skip
def test_hostile_lines_are_never_an_error(line: bytes) -> None:
    for query in ("a:1", "a:>1", "-a:1", "a:*", 'a:""', "a:*x*"):
        parse(query).matches(line)
    Values().add(Counted(CountBy.FIELD, "a"), line)


def test_of_a_line_that_is_too_long_or_broken_no_field_is_known() -> None:
    assert fields_of(b'{"a":1}' + b" " * MAX_LINE_BYTES) == []
    assert fields_of(b'{"a":1') == []
    assert fields_of(b'x {"a":{"b":[1,null,{"c":false}]}} y') == [("a.b", "1"), ("a.b", "null"), ("a.b.c", "false")]


VALUES = st.one_of(st.sampled_from(["500", "a b", "x/y", 'q"q', "Käse", "error"]), st.integers(0, 20).map(str))
NAMES = st.sampled_from(["status", "a", "user.name", "Level"])


@settings(max_examples=200, deadline=None)
@given(
    pairs=st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=4), wanted=st.tuples(NAMES, VALUES),
    json_form=st.booleans(), ascii_form=st.booleans(),
)  # fmt: skip
def test_what_a_writer_wrote_is_found_by_name_and_value(
    pairs: list[tuple[str, str]], wanted: tuple[str, str], json_form: bool, ascii_form: bool
) -> None:
    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    if json_form:
        line = json.dumps(dict(pairs), ensure_ascii=ascii_form).encode()
        pairs = list(dict(pairs).items())
    else:
        line = " ".join(f"{name}={quoted(value)}" for name, value in pairs).encode()
    query = parse(f"{wanted[0]}:{quoted(wanted[1])}", Options(Case.SENSITIVE))
    assert query.matches(line) is (wanted in pairs)
    assert taken(query, line) is (wanted in pairs)


def test_values_are_counted_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_VALUES", 3)
    values, others = Values(), Values()
    for number in range(6):
        values.add(Counted(CountBy.FIELD, "n"), b"n=%d n=%d" % (number % 4, number % 4))
    others.add(Counted(CountBy.FIELD, "n"), b"m=1")
    values.merge(others)
    assert (dict(values.lines), values.other, values.without) == ({"0": 2, "1": 2, "2": 1}, 1, 1)
    assert counted_by("field:host") == Counted(CountBy.FIELD, "host")
    assert counted_by("host") == Counted(CountBy.HOST)


def test_a_record_has_the_fields_of_all_its_lines() -> None:
    record = b'2026-11-20T00:00:00Z {\n  "status": 500,\n  "user": {"name": "Ann Lee"}\n}\n'
    for text, matches in (("status:500", True), ('user.name:"Ann Lee"', True), ("status:50", False)):
        assert parse(text).matches_record(record) is matches
    assert parse("b:2 -a:2").matches_record(b"at=1 a=1\n  b=2\n")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    lines = [
        b'{"time":"2026-11-20T00:00:%02dZ","level":"%s","status":%d}' % (at, level, status)
        for at, (level, status) in enumerate([(b"info", 200)] * 5 + [(b"error", 500)] * 3 + [(b"info", 404)])
    ]
    return write_archive(tmp_path, {("web1", "/a.log"): b"\n".join([*lines, b"no field"]) + b"\n"}, lambda text: [text])


def objects(archive: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    done = fshipper("--json", "--archive", str(archive), "--state", str(archive.parent), *arguments, code=code)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_lines_are_counted_by_a_field_and_by_level(archive: Path) -> None:
    found = objects(archive, "", "--count=status", "--top=2")
    assert [(each["name"], each["count"]) for each in found if each["type"] == "count"] == [("200", 5), ("500", 3)]
    assert (found[-1]["hits"], found[-1]["without_field"], found[-1]["other_values"]) == (10, 1, 0)
    text = fshipper("--archive", str(archive), "", "--count=status", "--top=2")
    assert text.stdout == b"5 200\n3 500\n"
    assert b"1 more value of 1 line; --top N shows more" in text.stderr
    assert b"1 of 10 lines that match have no field status" in text.stderr
    assert b"no line that matches has a field hots" in fshipper("--archive", str(archive), "", "--count=hots").stderr
    found = objects(archive, "", "--count=level", "--histogram=5s")
    levels = {each["name"]: each["count"] for each in found if each["type"] == "count"}
    assert levels == {"info": 6, "error": 3, "none": 1}
    buckets = [each for each in found if each["type"] == "bucket"]
    assert [each["levels"] for each in buckets] == [{"info": 5}, {"error": 3, "info": 1, "none": 1}]
    assert {"v": 1, "type": "count", "by": "level", "name": "error", "count": 3} in objects(
        archive, "", "--count=field:level"
    )


def test_fields_are_written_with_each_line(archive: Path) -> None:
    first = objects(archive, "status:>=500", "--fields", "--limit=1")[0]
    assert first["fields"] == {"time": ["2026-11-20T00:00:05Z"], "level": ["error"], "status": ["500"]}
    assert "fields" not in objects(archive, "status:500")[0]
    for wrong in (["--fields", "--count=all"], ["--top=2"], ["--count="]):
        assert b"hint" in fshipper("--json", "--archive", str(archive), "", *wrong, code=64).stderr


@pytest.mark.parametrize("by", list(TimeOf))
def test_the_newest_lines_are_those_of_a_search_that_reads_everything(
    tmp_path: Path, by: TimeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read from their end, in spans of time: late lines, lines without a time, lines before their clock."""
    for module, name in ((segment_io, "FRAME_BYTES"), (segment_io, "CHUNK_BYTES"), (frame_index, "FRAME_BYTES")):
        monkeypatch.setattr(module, name, 256)
    drawn = random.Random(7)
    text, marks, stored = b"", [], DAY_NS // NANOSECONDS
    for at in range(300):
        stored += drawn.choice((0, 0, 1, 1, 2))
        marks += [(len(text), stored)] if not marks or marks[-1][1] < stored else []
        own = stored - DAY_NS // NANOSECONDS - drawn.choice((0, 0, 1, 30, 500)) + drawn.choice((0, 0, 58))
        own = max(0, own)
        clock = f"2026-11-20T{own // 3600:02}:{own // 60 % 60:02}:{own % 60:02}Z "
        text += f"{clock if drawn.random() < 0.7 else '  at '}line {at}\n".encode()
    write_open(
        tmp_path, "/a.log", [text], seconds=marks,
        stored_ns=(marks[0][1] * NANOSECONDS, marks[-1][1] * NANOSECONDS),
    )  # fmt: skip
    seal_all(tmp_path)
    archive = tmp_path / "archive"
    (archive / "_archive.json").write_text(json.dumps({"id": "0000"}))
    reads_back = 0
    query = parse("line")
    end_ns = DAY_NS + 6 * 3600 * NANOSECONDS
    for limit in (1, 7, *range(20, 130, 12), 200):
        for since_ns, until_ns in ((0, None), (DAY_NS + 60 * NANOSECONDS, end_ns)):
            span: dict[str, Any] = {"by": by, "since_ns": since_ns, "until_ns": until_ns}
            found = search(archive, query, newest_first=True, limit=limit, **span)
            every = search(archive, query, newest_first=True, limit=limit, bucket_ns=NANOSECONDS, **span)
            assert [(hit.time_ns, hit.line) for hit in found.hits] == [(hit.time_ns, hit.line) for hit in every.hits]
            assert len(found.hits) == limit
            reads_back += found.search.totals.bytes_read < every.search.totals.bytes_read
    assert reads_back > 2, "of a file only the end was read"
