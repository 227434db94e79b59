"""What a search selected is reported where that is nothing, as tests/situations.tsv has it."""

import json
import os
import pathlib
import re

import pytest
from harness.situations import shows
from searching import fshipper, write_archive

from consumer.archive.directory import JOURNALS
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Wanted
from consumer.read.query import Case, Options, parse
from shipper.errors import ConfigError, UsageError

WEB = [(f"web{number}.example", "/var/log/app.log") for number in range(1, 4)]
LINES = b"an error here\nan Error there\n"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    files = dict.fromkeys(WEB, LINES) | {("db1.example", "/var/log/db.log"): b'/tmp/x key="a b" host=web1\n'}
    return write_archive(tmp_path_factory.mktemp("archive"), files, lambda text: text.splitlines(keepends=True))


def notes(archive: pathlib.Path, *arguments: str, code: int = 1) -> str:
    asked = ("--archive", str(archive), "--state", str(archive.parent), *arguments)
    return fshipper(*asked, code=code).stderr.decode()


NOTHING = {
    "no host has the name": ("error", "web9.example"),
    "no host matches the pattern": ("error", "mail*"),
    "no file matches": ("error", "--file", "*nope*"),
    "the host has no such file": ("error", "web1.example", "--file", "*db.log"),
    "query and host are swapped": ("web*", "error"),
    "the host is in the query": ("host=web1.example error",),
    "the file is in the query": ("file=app.log nothing",),
    "the time has no lines of the host": ("error", "web1.example", "--until", "2020-01-01"),
    "the time has no lines": ("error", "--until", "2020-01-01"),
    "a path is taken for a regular expression": ("/tmp/ nothing",),
    "a value in quotes is a second text": ('key="a z"',),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_search_that_finds_nothing_says_what_it_selected_where(archive, name):
    shows(name, notes(archive, *NOTHING[name]))


def test_the_note_is_in_the_json_too_and_a_search_that_finds_lines_has_none(archive):
    asked = ("--json", "--archive", str(archive), "--state", str(archive.parent), "error")
    lines = [json.loads(line) for line in fshipper(*asked, "web9.example", code=1).stdout.splitlines()]
    (note,) = [line["note"] for line in lines if line["type"] == "note"]
    assert note.startswith("no host matches web9.example; 4 hosts: ")
    assert b"no host" not in fshipper(*asked, "web1.example").stderr
    both = fshipper(*asked, "web1.example", "web9.example")
    assert b"no host matches web9.example" in both.stderr


def test_other_wrong_searches_are_named(archive, tmp_path):
    shows("a parenthesis is not closed", notes(archive, "an (error", code=64))
    shows("there is no archive", notes(tmp_path / "none", "error", code=78))
    empty = tmp_path / "empty"
    (empty / "_manifest").mkdir(parents=True)
    (empty / "_archive.json").write_text('{"v":1,"id":"00"}')
    shows("the archive is empty", notes(empty, "error"))
    segment = next(archive.rglob("*.zst"))
    kept = segment.read_bytes()
    segment.write_bytes(kept[:-9] + b"damaged!!")
    try:
        shows("a segment is damaged", notes(archive, "error", code=3))
    finally:
        segment.write_bytes(kept)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_an_archive_without_rights_is_not_a_missing_one(tmp_path):
    archive = tmp_path / "logs"
    archive.mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(ConfigError) as refused:
            ArchiveReader(archive).find(Wanted())
    finally:
        os.seteuid(0)
    shows("the archive may not be read", str(refused.value))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_reader_without_rights_on_the_journals_finds_what_is_sealed(tmp_path):
    archive = write_archive(tmp_path, {WEB[0]: LINES}, lambda text: text.splitlines(keepends=True))
    for path in (*archive.rglob("*"), archive, tmp_path, *tmp_path.parents):
        path.chmod(path.stat().st_mode | 0o055)
    (archive / JOURNALS).mkdir(mode=0o700)
    os.seteuid(65534)
    try:
        found = ArchiveReader(archive).find(Wanted())
    finally:
        os.seteuid(0)
    assert [part.host for part in found] == [WEB[0][0]] * 2


@pytest.mark.parametrize(
    ("query", "line", "matches"),
    [
        ("error", "an Error", True), ("Error", "an error", False), ("error OR Fatal", "an ERROR", False),
        ("über", "ÜBER uns", True), ("/err\\S+/", "ERROR", True), ("/Err/", "error", False), ("/ERR/i", "error", True),
        ("NOT error", "an Error", False),
    ],
)  # fmt: skip
def test_a_query_without_a_capital_letter_ignores_case(query, line, matches):
    assert parse(query).matches(line.encode()) is matches
    assert parse(query, Options(Case.SENSITIVE)).matches(line.encode()) is (
        query != "über" and query in {"NOT error", "/ERR/i"}
    )
    assert parse(query, Options(Case.IGNORED)).matches(line.encode()) is (query != "NOT error")


@pytest.mark.parametrize(
    ("query", "line", "matches"),
    [
        ("ber", "darüber", False), ("ber", "ber linie", True), ("ber", "da ber", True), ("ber", "ü ber", True),
        ("ber", "daru\u0308ber", False), ("über", "darüber über", True), ("über", "darüber", False),
        ("ber", "über ber", True),
        ("an", "anan an", True), ("né", "née", False), ("né", "(né)", True), ("ok", "ok_", False), ("ok", "ok9", False),
        ("привет", "приветы", False), ("привет", "«привет»", True), ("a a", "xa a a", True), ("東", "東京", False),
    ],
)  # fmt: skip
def test_whole_words_end_where_unicode_has_no_letter(query, line, matches):
    assert parse(f'"{query}"', Options(whole_words=True)).matches(line.encode()) is matches


def test_a_byte_of_latin_1_is_a_letter_of_a_word():
    assert not parse("ber", Options(whole_words=True)).matches("darüber".encode("latin-1"))
    assert parse("ber", Options(whole_words=True)).matches("für ber".encode("latin-1"))


@pytest.mark.parametrize("query", ["/(?-i:error)/", "/(?i-s:ERR)or/", "/(?U)o+r/", "/(?-s)an e/", "/(?U:er+)o/"])
def test_a_group_with_any_flags_is_searched_for(archive, query):
    counted = fshipper(
        "--archive", str(archive), "--state", str(archive.parent), "--count", "all", "-s", query, code=None
    )
    assert int(counted.stdout) == (6 if "i-s" in query or "o+r" in query else 3)


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("/timeout$/", 2), ("/^timeout$/", 2), ("/time.*t$/", 2), ("/timeout.$/", 0), ("/timeout\\s$/", 0), ("/^$/", 2),
        ("/(timeout|x)$/", 2), ("/timeout[^a]/", 0), ("/t$/i timeout", 2), ("timeout", 2), ("/[$]t$/", 0),
    ],
)  # fmt: skip
def test_a_cr_before_the_newline_is_part_of_the_end_of_a_line(tmp_path, query, lines):
    place = write_archive(tmp_path, {WEB[0]: b"timeout\r\ntimeout\n\r\n\n"}, lambda text: [text])
    counted = fshipper("--archive", str(place), "--state", str(place.parent), "--count", "all", query, code=None)
    assert int(counted.stdout) == lines


def test_an_error_in_a_query_has_a_caret_below_its_place():
    with pytest.raises(UsageError) as error:
        parse("東 (b OR c")
    first, query, caret = str(error.value).split("\n")
    assert first.startswith("query, character 3:")
    assert query == "  東 (b OR c"
    assert caret == "     ^"
    assert re.search("fixed-strings", error.value.hint)
