"""Rows of hosts, log files, sign-ins and requests have example lines, the same ones from both engines."""

import random

import pytest
from day_archives import DATE
from test_report_search import found

from spark_analytics.aggregate.groups import LinePlace
from spark_analytics.report import html, number_format
from spark_analytics.report.html import Search
from spark_analytics.scan import driver_lines, line_examples
from spark_analytics.tables.day_tables import RowKey

SSHD = "Nov 20 05:00:0{} web1 sshd[7]: {} password for {} from {} port 5 ssh2"
ACCESS = '192.0.2.{} - - [20/Nov/2026:05:00:0{} +0000] "GET /{} HTTP/1.1" {} 5'
ERRORS = [f"2026-11-20 05:00:0{n % 10} ERROR disk {name} is full \x1b[31m\u202e" for n, name in enumerate("aabbbcd")]
ERRORS.append("2026-11-20 05:00:09 ERROR long " + "x" * 500)


def a_day(archive) -> None:
    """Errors after many other lines, in two segments of two codecs; sign-ins; requests; bytes that are no UTF-8."""
    calm = [f"2026-11-20 05:00:00 INFO job {n} done" for n in range(500)]
    archive.seal("\n".join([*calm, *ERRORS]).encode(), host="app1", file="/log/app", codec="none")
    archive.seal(b"\xff\xfe\x00\n", host="odd", file="/log/<b>\n\u202e")
    archive.seal(b"\xef\xbb\xbfone line\r\n", host="one", file="/log/one", codec="gzip")
    signs = [SSHD.format(n, "Failed", "root", "2001:db8::7") for n in range(6)]
    signs.append(SSHD.format(9, "Accepted", "root", "2001:db8::7"))
    archive.seal("\n".join(signs).encode() + b"\n", host="web1", file="/log/auth")
    asked = [
        ACCESS.format(n, n, path, code) for n, (path, code) in enumerate([("gone", 404), ("bad?q", 500), ("ok", 200)])
    ]
    archive.seal("\n".join(asked).encode() + b"\n", host="web1", file="/log/access")


@pytest.mark.parametrize("max_groups", [pytest.param(-1, marks=pytest.mark.long), driver_lines.MAX_GROUPS])
def test_rows_have_lines_of_their_own(archive, spark, tmp_path, monkeypatch, max_groups):
    monkeypatch.setattr(driver_lines, "MAX_GROUPS", max_groups)
    a_day(archive)
    facts = archive.reported(spark, tmp_path / "out")
    lines = {(one.kind, *one.names): list(one.lines) for one in facts.examples}

    assert lines["errors", "app1", "/log/app"] == [ERRORS[2], ERRORS[0], ERRORS[5]]
    assert lines["host", "app1"][0] == "2026-11-20 05:00:00 INFO job 0 done"
    assert lines["host", "one"] == ["one line"]
    assert lines["host", "odd"] == ["\\xff\\xfe\x00"]
    failed, accepted = (
        SSHD.format(0, "Failed", "root", "2001:db8::7"),
        SSHD.format(9, "Accepted", "root", "2001:db8::7"),
    )
    assert lines["password", "web1", "root", "2001:db8::7"] == [failed, accepted]
    assert (
        lines["failed_remote", "2001:db8::7"]
        == lines["failed_user", "root"]
        == lines["failed_host", "web1"]
        == [failed]
    )
    assert lines["path404", "/gone"] == [ACCESS.format(0, 0, "gone", 404)]
    assert lines["path5xx", "/bad"] == [ACCESS.format(1, 1, "bad?q", 500)]
    assert lines["client", "192.0.2.2"] == [ACCESS.format(2, 2, "ok", 200)]
    page = html.rendered(facts)
    assert "␛[31m&lt;U+202E&gt;</pre>" in page
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_a_search_finds_the_examples_of_a_log_file(archive, spark, tmp_path):
    a_day(archive)
    facts = archive.reported(spark, tmp_path / "out")
    (one,) = [one for one in facts.examples if one.kind == "errors" and one.names[0] == "app1"]

    lines = found(archive, Search(DATE, "", *one.names), tmp_path)
    assert all(any(line.startswith(example[:40]) for line in lines) for example in one.lines)


def test_any_line_is_found_by_its_place_in_a_file_and_in_a_block_of_it(archive):
    chance = random.Random(3)
    lines = [bytes(chance.choices(b"abc\r", k=chance.choice((0, 3, 50, 9000)))) for _ in range(900)]
    content = b"\n".join(lines)
    segments = [archive.seal(content, file=f"/log/{codec}", codec=codec) for codec in ("zstd", "gzip", "none")]
    start = content.index(b"\n", len(content) // 2) - 1
    number = content[:start].count(b"\n") + 1
    places = {RowKey("host", (str(row),)): [LinePlace(row, 0, 0), LinePlace(row, 1, 0)] for row in (0, 7, 450, 899)}
    places[RowKey("host", ("block",))] = [LinePlace(row, 2, start) for row in (0, 5, 900 - number - 1)]

    read = line_examples.find_lines(archive.root, segments, places)

    def cut(row):
        text = lines[row].decode().removesuffix("\r")
        return text if len(text) <= 300 else text[:299] + "…"

    for row in (0, 7, 450, 899):
        assert read[RowKey("host", (str(row),))] == [cut(row)] * 2
    assert read[RowKey("host", ("block",))] == [cut(number), cut(number + 5), cut(899)]


def test_a_day_reads_no_more_than_its_share_for_examples(archive, monkeypatch):
    monkeypatch.setattr(line_examples, "MAX_BYTES", 100_000)
    near, far = (archive.seal(b"x" * 99 + b"\n" * 5000, file=f"/log/{name}") for name in ("near", "far"))
    places = {RowKey("host", (str(n),)): [LinePlace(row, n, 0)] for n, row in enumerate((3000, 0))}
    archive.seal(b"y" * 300_000)

    assert line_examples.find_lines(archive.root, [far, near], places).keys() == {
        RowKey("host", ("1",)), RowKey("host", ("0",)),
    }  # fmt: skip
    monkeypatch.setattr(line_examples, "MAX_BYTES", 10)
    assert line_examples.find_lines(archive.root, [far, near], places) == {}


def test_what_controls_a_terminal_is_shown():
    assert number_format.visible("a\tb\x1b[1m\x7f\u202ec\udc80" + "d" * 300, 20) == "a␉b␛[1m␡<U+202E>c<U+DC80>dddddddd…"
