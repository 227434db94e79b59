"""The decisions of `fshipper tail`, without a server: what is meant, what is new, what a terminal gets."""

import asyncio
import os
import re
import zlib

import pytest
from collecting import Log
from hypothesis import given
from hypothesis import strategies as st

from consumer.archive import lines
from consumer.archive.selection import Globs, Wanted, globs_of_hosts
from consumer.read.dedup import Deduplicator
from consumer.read.display import Form, Printer, Screen, harmless
from consumer.read.follow import HORIZON_SECONDS, Merge
from consumer.read.piece import Last, Piece
from consumer.read.query import grep
from consumer.read.tail import Outlet
from shipper import codec
from shipper.edit_map import Edit, to_map
from shipper.errors import UsageError
from shipper.jetstream.ordered_consumer import TimedDelivery
from shipper.model import Block, Delivery, Edited, Encoding, Span
from shipper.moments import moment

NOW = 1_800_000_000 * 10**9
HOST = "web1.example.net"


def piece(text: bytes, *, host: str = HOST, source: str = "a1", offset: int | None = 0, at: int = 0) -> Piece:
    return Piece(at, host, "/var/log/app.log", source, offset, text)


def delivery(log: Log, start: int, end: int, sequence: int = 1) -> Delivery:
    subject, headers, payload = log.message(start, end)
    return Delivery(sequence, sequence, 0, subject, headers, payload, "")


@pytest.mark.parametrize(
    ("pattern", "filters"),
    [
        ("web1.example.net", ["logs.p0.web1.example.net"]),
        ("web*", ["logs.p0.>"]),
        ("web1.*", ["logs.p0.web1.>"]),
        ("*.example.net", ["logs.p0.>"]),
        ("a.b.c[12].d", ["logs.p0.a.b.>"]),
        ("*", ["logs.p0.>"]),
    ],
)
def test_the_server_filters_as_narrowly_as_its_words_allow(pattern: str, filters: list[str]):
    assert Wanted(hosts=globs_of_hosts([pattern])).subjects("logs.p0") == filters


def test_filters_that_others_take_in_are_left_out():
    wanted = Wanted(hosts=globs_of_hosts(["web1.example.net", "web1.*", "db1.example.net", "web1"]))
    assert wanted.subjects("logs.p0") == ["logs.p0.db1.example.net", "logs.p0.web1", "logs.p0.web1.>"]


def test_a_glob_is_of_the_whole_name():
    assert Globs(("web*",)).takes("web1.example.net")
    assert not Globs(("web",)).takes("web1")
    assert Globs(("web[12]*", "db?")).takes("db3")
    assert not Globs(("web[!1].*",)).takes("web1.x")
    assert globs_of_hosts(["WEB1."]).takes("web1")


def test_a_pattern_of_files_without_a_slash_may_be_the_last_part():
    wanted = Wanted(files=Globs(("access.log", "/srv/*")))
    assert wanted.has_file("/var/log/nginx/access.log")
    assert wanted.has_file("/srv/a/b")
    assert not wanted.has_file("/var/log/access.log.1")


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("10m", NOW - 600 * 10**9),
        ("1h30m", NOW - 5400 * 10**9),
        ("90", NOW - 90 * 10**9),
        ("2026-11-20", 1_795_132_800 * 10**9),
        ("2026-11-20T01:00:00+01:00", 1_795_132_800 * 10**9),
        ("2026-11-20T00:00:00.000000001Z", 1_795_132_800 * 10**9 + 1),
        ("2026-11-20 00:00", 1_795_132_800 * 10**9),
    ],
)
def test_a_moment_is_a_duration_ago_or_a_date_in_utc(text: str, nanoseconds: int):
    assert moment(text, NOW) == nanoseconds


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "10x", "-5m"])
def test_what_is_no_moment_is_refused(text: str):
    with pytest.raises(UsageError):
        moment(text, NOW)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30))
def test_whatever_is_sent_again_every_byte_is_reported_once(order: list[int]):
    """A producer sends in order, and after a lost session goes back: blocks of any borders, from anywhere."""
    log = Log(bytes(range(33, 33 + 60)))
    cutter, printed = Deduplicator(Wanted(), plain_file="messages.log"), bytearray(60)
    sent: set[int] = set()
    first = min(order[0], 59)
    for number, start in enumerate(order):
        end = min(60, start + 1 + number * 7 % 20)
        sent.update(range(max(start, first), end))
        for each in cutter.cut(delivery(log, start, end)):
            assert each.offset is not None
            assert each.text == log.data[each.offset : each.offset + len(each.text)]
            for at in range(each.offset, each.offset + len(each.text)):
                printed[at] += 1
    assert max(printed) <= 1
    if len(order) <= 16:  # else a hole may have been forgotten
        assert {at for at, times in enumerate(printed) if times} == sent


def test_what_was_edited_has_no_offset_and_is_reported_once():
    text, source = b"kept\nXX\n", b"kept\nsecret\n"
    edits = to_map([Edit(5, 6, 2)])
    block = Block(
        source="00000000000000a1", file="/a", span=Span(0, len(source)), origin=0, lines=2, block_crc=zlib.crc32(text),
        source_crc=0, encoding=Encoding.IDENTITY, read_at="", edited=Edited(len(text), 0),
    )  # fmt: skip
    cutter = Deduplicator(Wanted(), plain_file="m")
    message = Delivery(1, 1, 0, f"logs.p0.{HOST}", codec.to_headers(block), text + edits, "")
    assert [(each.offset, each.text) for each in cutter.cut(message)] == [(None, text)]
    assert cutter.cut(message) == []


def test_what_no_collector_applies_is_counted():
    cutter = Deduplicator(Wanted(), plain_file="m")
    good = delivery(Log(b"one\n"), 0, 4)
    assert cutter.cut(good._replace(payload=b"damaged")) == []
    assert cutter.cut(good._replace(headers={"Log-Id": "no"})) == []
    assert cutter.unreadable == 2


@given(st.lists(st.sampled_from([b"a\n", b"b\nc\n", b"open"]), max_size=12), st.integers(0, 8))
def test_the_last_lines_are_those_of_all_lines(texts: list[bytes], count: int):
    last, lines = Last(count), []
    for text in texts:
        last.add(piece(text))
        lines += text.splitlines()
    assert [line for each in last.pieces() for line in each.text.splitlines()] == (lines[-count:] if count else [])
    assert last.full == (len(lines) >= count)


@given(st.lists(st.binary(max_size=6), max_size=8), st.sampled_from(["a", "^$", "b$", "\\xff", "é"]), st.booleans())
def test_the_sieve_takes_what_grep_takes(lines: list[bytes], pattern: str, matching: bool):
    whole = b"".join(line.replace(b"\n", b"a") + b"\n" for line in lines)
    found = list(grep([pattern], inverted=not matching).take(piece(whole, offset=100)))
    expected = [
        line for line in whole.split(b"\n")[:-1]
        if (re.search(pattern, line.removesuffix(b"\r").decode("utf-8", "surrogateescape")) is not None) is matching
    ]  # fmt: skip
    assert b"".join(each.text for each in found) == b"".join(line + b"\n" for line in expected)
    assert all(whole[(each.offset or 0) - 100 :].startswith(each.text) for each in found)


def test_a_line_of_another_system_ends_before_its_cr():
    assert [each.text for each in grep(["b$"]).take(piece(b"ab\r\nbc\r\n"))] == [b"ab\r\n"]


def test_a_line_that_is_longer_than_a_cut_stays_whole():
    assert list(lines.Block(b"aaaaaa\nb\n", 0, 9, 5).pieces(3)) == [(5, b"aaaaaa\n"), (12, b"b\n")]


@given(st.lists(st.binary(max_size=30), max_size=10), st.integers(1, 40))
def test_cutting_an_archived_text_changes_no_byte_and_parts_no_short_line(texts: list[bytes], size: int):
    parts = [text for block in lines.whole_lines(iter(texts), 0) for _, text in block.pieces(size)]
    assert b"".join(parts) == b"".join(texts)
    assert all(part.endswith(b"\n") for part in parts[:-1])


@given(st.binary(max_size=60))
def test_nothing_commands_a_terminal(text: bytes):
    shown = harmless(text).decode()
    assert all(char.isprintable() or char in "\n\t" for char in shown)


def test_a_line_that_continues_gets_one_prefix_and_one_that_does_not_gets_its_end():
    printer = Printer(Form.NAMED, Screen.PROGRAM)
    named = b"web1.example.net /var/log/app.log: "
    assert printer.render(piece(b"one\nbegin", offset=0)) == named + b"one\n" + named + b"begin"
    assert printer.render(piece(b"ning\n", offset=9)) == b"ning\n"
    assert printer.render(piece(b"open", offset=14)) == named + b"open"
    assert printer.render(piece(b"other\n", host="db1")) == b"\ndb1 /var/log/app.log: other\n"
    assert printer.render(piece(b"end", offset=30)) + printer.close() == named + b"end\n"


class Feed:
    """A stream as the merge sees it."""

    def __init__(self, *times: int, caught_up: bool) -> None:
        self.trouble = None
        self.caught_up = caught_up
        self.waiting = [TimedDelivery(Delivery(at, at, 0, "", {}, b"", ""), 0.0) for at in times]

    @property
    def head(self) -> TimedDelivery | None:
        return self.waiting[0] if self.waiting else None

    def take(self) -> TimedDelivery:
        return self.waiting.pop(0)


async def test_the_oldest_of_all_streams_comes_first_and_nothing_after_the_end():
    feeds = {"a": Feed(1, 4, 9, caught_up=True), "b": Feed(2, 3, caught_up=True), "c": Feed(caught_up=True)}
    merge, printed = Merge(feeds, asyncio.Event()), []
    while head := await merge.stored({"a": 8, "b": 8, "c": 8}, until_ns=4):
        printed.append(head[1].time_ns)
        feeds[head[0]].take()
    assert printed == [1, 2, 3]
    assert (await merge.stored({"a": 8, "b": 8, "c": 8}, until_ns=None) or ("", None))[0] == "a"
    feeds["a"].take()
    assert await merge.stored({"a": 8, "b": 8, "c": 8}, until_ns=None) is None


async def test_what_comes_waits_a_moment_for_an_older_one_of_another_stream():
    now = [0.0]
    feeds = {"a": Feed(5, caught_up=True), "b": Feed(caught_up=True)}
    merge = Merge(feeds, asyncio.Event(), lambda: now[0])
    waiting = asyncio.create_task(merge.live(10.0))
    await asyncio.sleep(0)
    assert not waiting.done()
    now[0] = HORIZON_SECONDS + 0.01
    assert await waiting == "a"
    feeds["b"].waiting.append(TimedDelivery(Delivery(3, 3, 0, "", {}, b"", ""), now[0]))
    assert await merge.live(10.0) == "b"


async def test_a_full_pipe_delays_no_other_input():
    reader, writer = os.pipe()
    outlet, data = Outlet(writer), os.urandom(300_000)
    writing = asyncio.create_task(outlet.write(data))
    await asyncio.sleep(0.05)
    assert not writing.done()
    got = b""
    while len(got) < len(data):
        got += await asyncio.to_thread(os.read, reader, 65536)
    await writing
    os.close(reader)
    assert got == data
    with pytest.raises(BrokenPipeError):
        outlet.check()
    with pytest.raises(BrokenPipeError):
        await outlet.write(b"x")
    os.close(writer)
