"""Journal entries as lines, what a kill left of them, and how far the journal was read."""

from pathlib import Path

import pytest
from harness.formats import level_of_line

from producer.inputs.journald import Bookmark, Bookmarks, Step, line_of, lost_between, parse, reached, step

ENTRY = {
    "__CURSOR": "s=aa;i=1f;b=bb;m=1;t=1;x=1",
    "__REALTIME_TIMESTAMP": "1700000000000123",
    "_HOSTNAME": "web1",
    "SYSLOG_IDENTIFIER": "app",
    "_PID": "7",
    "MESSAGE": "hello",
}


def test_text_is_one_line_with_microseconds_in_utc() -> None:
    assert line_of(ENTRY, "text") == b"2023-11-14T22:13:20.000123Z web1 app[7]: hello\n"


def test_a_message_of_several_lines_stays_one_line_and_bytes_that_are_no_text_stay_bytes() -> None:
    assert line_of(ENTRY | {"MESSAGE": "one\ntwo\n"}, "text").endswith(b": one#012two\n")
    assert line_of(ENTRY | {"MESSAGE": [255, 10, 0, 97]}, "text").endswith(b": \xff#012\0a\n")
    assert line_of(ENTRY | {"MESSAGE": ["one", [255]]}, "text").endswith(b": one#012\xff\n")


def test_an_entry_without_its_fields_is_still_a_line() -> None:
    assert line_of({"__CURSOR": "x"}, "text") == b"1970-01-01T00:00:00.000000Z - unknown: \n"
    assert line_of({"__CURSOR": "x", "_COMM": "cron", "MESSAGE": None}, "text").endswith(b" - cron: \n")


@pytest.mark.parametrize("time", ["no number", "9" * 30, "-" + "9" * 30, None])
def test_a_time_that_is_none_stops_no_entry(time: str | None) -> None:
    assert (
        line_of(ENTRY | {"__REALTIME_TIMESTAMP": time}, "text") == b"1970-01-01T00:00:00.000000Z web1 app[7]: hello\n"
    )


@pytest.mark.parametrize("style", ["text", "json"])
def test_half_a_character_stops_no_entry(style: str) -> None:
    assert b"\xed\xa0\x80" in line_of(ENTRY | {"MESSAGE": "\ud800"}, style)


def test_json_has_every_field_in_one_order_whatever_order_journalctl_has() -> None:
    one = line_of(ENTRY, "json")
    assert one == line_of(dict(reversed(ENTRY.items())), "json")
    assert parse(one) == ENTRY


def test_what_is_no_entry_is_none() -> None:
    assert parse(b"-- No entries --") is None
    assert parse(b'{"MESSAGE": "no cursor"}') is None


def test_the_sequence_numbers_of_one_journal_give_the_number_of_entries_between() -> None:
    assert lost_between("s=aa;i=1f", "s=aa;i=20") == 0
    assert lost_between("s=aa;i=1f", "s=aa;i=2f") == 15
    assert lost_between("s=aa;i=1f", "s=bb;i=2f") == 1
    assert lost_between("s=aa;i=1f", "s=aa;i=1") == 1
    assert lost_between("nonsense", "s=aa;i=1") == 1


def test_what_is_read_again_and_is_there_already_is_passed_over() -> None:
    assert step(b"one\ntwo\nthr", b"one\n") == Step(b"two\nthr", b"", differs=False)
    assert step(b"two\nthr", b"two\nthree\nfour\n") == Step(b"", b"ee\nfour\n", differs=False)
    assert step(b"", b"one\n") == Step(b"", b"one\n", differs=False)


def test_what_is_read_again_and_differs_is_appended_from_the_first_line_that_does() -> None:
    assert step(b"one\ntwo\nthr", b"one\nthree\n") == Step(b"", b"three\n", differs=True)
    assert step(b"one\ntwo\nthr", b"zero\n") == Step(b"", b"zero\n", differs=True)


def test_where_the_first_entries_vanished_the_rest_of_what_is_there_is_found() -> None:
    assert reached(b"one\ntwo\nthr", b"two\n") == (b"two\nthr", 1)
    assert reached(b"one\ntwo\nthr", b"three\n") == (b"thr", 2)
    assert reached(b"one\ntwo\nthr", b"four\n") == (b"", 2)
    assert reached(b"", b"four\n") == (b"", 0)


def test_a_kill_between_the_two_bookmarks_does_not_stop_the_next_one(tmp_path: Path) -> None:
    bookmarks = Bookmarks(tmp_path)
    bookmarks.save(Bookmark("one", 1, 10))
    (tmp_path / ".cursor.before.tmp").hardlink_to(tmp_path / "cursor")  # killed before it was renamed
    bookmarks.save(Bookmark("two", 1, 20))
    (tmp_path / "cursor.before").unlink()
    (tmp_path / "cursor.before").hardlink_to(tmp_path / "cursor")  # killed before the new one was written
    for cursor in ("three", "four"):
        bookmarks.save(Bookmark(cursor, 1, 30))
    assert Bookmarks(tmp_path).load() == Bookmark("four", 1, 30)
    (tmp_path / "cursor").write_bytes(b"damaged")
    assert Bookmarks(tmp_path).load() == Bookmark("three", 1, 30)


def test_a_damaged_bookmark_is_renamed_and_the_one_before_it_is_taken(tmp_path: Path) -> None:
    bookmarks = Bookmarks(tmp_path)
    assert bookmarks.load() is None
    bookmarks.save(Bookmark("s=a;i=1", 1, 10))
    bookmarks.save(Bookmark("s=a;i=2", 1, 20))
    assert bookmarks.load() == Bookmark("s=a;i=2", 1, 20)
    (tmp_path / "cursor").write_bytes(b'{"v": 1, "cur')
    assert bookmarks.load() == bookmarks.load() == Bookmark("s=a;i=1", 1, 10)
    (kept,) = tmp_path.glob("cursor.damaged-*")
    assert kept.read_bytes() == b'{"v": 1, "cur'


@pytest.mark.parametrize(
    ("fields", "priority", "level"),
    [
        ({"PRIORITY": "3", "SYSLOG_FACILITY": "3"}, b"<27>", "error"),
        ({"PRIORITY": "3"}, b"<11>", "error"),
        ({"PRIORITY": "0", "SYSLOG_FACILITY": "0"}, b"<0>", "fatal"),
        ({"PRIORITY": "4", "SYSLOG_FACILITY": "24"}, b"<12>", "warn"),
        ({"PRIORITY": "6", "SYSLOG_FACILITY": "x"}, b"<14>", "info"),
        ({"PRIORITY": "8"}, b"", "none"),
        ({"PRIORITY": None}, b"", "none"),
        ({"PRIORITY": ["3", "4"]}, b"", "none"),
    ],
)
def test_the_syslog_form_is_text_with_the_priority_that_search_and_report_read(
    fields: dict[str, object], priority: bytes, level: str
) -> None:
    entry = {name: value for name, value in ENTRY.items() if name not in {"PRIORITY", "SYSLOG_FACILITY"}} | fields
    line = line_of(entry, "syslog")
    assert line == priority + line_of(entry, "text")
    assert level_of_line(line.decode()) == level
