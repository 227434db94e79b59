"""`fshipper report patterns FILE`: a line for each line, whatever the file holds."""

import io
import random
import re
import time
import tracemalloc

import pytest

from spark_analytics.lines.log_formats import LineKind, LogFormat
from spark_analytics.patterns import app, cluster, mask
from spark_analytics.patterns.app import patterns_of
from spark_analytics.patterns.cluster import REST
from spark_analytics.patterns.mask import masked, pattern_text

SSH = "Dec 10 06:55:{:02d} web1 sshd[{}]: Failed password for root from 10.0.0.{} port {} ssh2"
LINES = [SSH.format(n % 60, 2000 + n, n % 250, 4000 + n) for n in range(40)]


def templates(content: bytes) -> list[str]:
    return [pattern.template for pattern in patterns_of(io.BytesIO(content))]


WANTED = ["Failed password for root from <*> port <*>"] * 40


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_every_encoding_gives_the_same_lines(encoding, newline):
    assert templates(newline.join(LINES).encode(encoding)) == WANTED
    assert templates((newline.join(LINES) + newline).encode(encoding)) == WANTED


def test_big_endian_and_line_feeds_inside_characters_are_read():
    text = "one \u0a0a two\nthree \u010a four\n\u0a00\n"
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        assert len(templates(mark + text.encode(encoding))) == 3


def test_a_file_without_a_byte_has_no_lines():
    assert templates(b"") == []
    assert templates(b"\n\n") == ["<*>", "<*>"]


def test_a_header_without_a_message_yields_nothing():
    assert templates(b"2026-11-20 05:00:00 INFO a.B:\n" * 9) == ["<*>"] * 9


def test_any_bytes_have_a_pattern_for_each_line():
    noise = random.Random(3).randbytes(200_000)
    assert len(templates(noise)) == noise.count(b"\n") + (not noise.endswith(b"\n"))
    assert not any(re.search(r"[\t\n\r\x00-\x1f]", template) for template in templates(noise))


def test_a_stream_that_cannot_be_read_twice_is_kept():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise io.UnsupportedOperation

    assert [pattern.template for pattern in patterns_of(Pipe("\n".join(LINES).encode()))] == WANTED


def test_a_line_of_many_megabytes_is_one_line():
    long = b"Dec 10 06:55:46 web1 app[1]: " + b"x" * (5 << 20)
    assert len(templates(b"first\n" + long + b"\nlast")) == 3


def test_continuation_lines_have_patterns_of_their_own():
    trace = "2026-11-20 05:00:0{} ERROR [main] app.Main: job {} failed\n\tat app.Main.run(Main.java:{})\n"
    assert (
        templates("".join(trace.format(n, n, n) for n in range(9)).encode())
        == [
            "job <*> failed",
            "at app.Main.run(Main.java:<*>)",
        ]
        * 9
    )


HEADERS = {
    ("rfc3164", "Jun  4 15:16:01 combo sshd(pam_unix)[19939]: check pass 7"): "check pass 0",
    ("rfc3164", "Jul  9 12:16:49 combo kernel: mtrr: v2.0"): "mtrr: v0.0",
    ("iso_utc", "2015-10-18 18:01:47,978 INFO [main] org.a.v2.MRAppMaster: Created 5"): "Created 0",
    ("iso_utc", "2015-07-29 17:41:44,747 - INFO  [Q[myid=1]/0:0:2181:Fast@774] - Time out: 3200"): "Time out: 0",
    ("iso_utc", "2016-09-28 04:30:30, Info                  CBS    Loaded 1"): "Loaded 0",
    ("iso_utc", "2026-11-20T05:00:00.123Z web1 nginx[12]: started"): "started",
    ("iso_utc", "2026-11-20 05:00:00 nothing but words"): "nothing but words",
    ("android", "03-17 16:13:38.811  1702  2395 D WindowManager: frozen 3"): "frozen 0",
    ("klog", "I1120 05:00:00.123456    1234 server.go:56] listening on 8080"): "listening on 0",
    ("apache_error", "[Sun Dec 04 04:47:44 2005] [notice] child 7 ok"): "child 0 ok",
    ("epoch_fifth", "134681 node-246 unix.hw state 1077804742 1 all is well"): "all is well",
    ("none", "12:00:00 is a time in words"): "0:0:0 is a time in words",
    ("any", "<34>1 no time at all"): "<0>0 no time at all",
}


@pytest.mark.parametrize(("family", "line"), HEADERS)
def test_the_header_is_cut_off(family, line):
    assert masked(line, family) == HEADERS[family, line]


def test_a_message_is_cut_at_its_maximum_length():
    cut = masked("word " * 1000, "none")
    assert len(cut) == 513
    assert cut.endswith("0")


def test_the_pattern_of_json_is_its_message():
    json_lines = LogFormat("json", LineKind.JSON)
    assert pattern_text('{"time":"2026-11-20T05:00:00Z","msg":"job 7 done"}', json_lines) == "job 0 done"
    assert pattern_text('{"time":7,"a":1}', json_lines) == '{"time":0,"a":0}'
    assert pattern_text('{"torn": ', json_lines) == '{"torn": '
    assert pattern_text('{"a":' * 5000, json_lines).startswith('{"a":')


def test_the_pattern_of_a_request_keeps_its_method_and_status():
    request = '10.0.0.1 - - [20/Nov/2026:05:00:00 +0000] "GET /x HTTP/1.1" 404 12 "-" "curl"'
    assert pattern_text(request, LogFormat("clf", LineKind.ACCESS)) == "GET 404"


@pytest.mark.parametrize("family", ["any", "iso_utc", "rfc3164", "epoch_dated", "clf", "android"])
def test_no_line_makes_a_header_slow(family):
    begins = ("", "Jun  4 15:16:01 ", "2026-11-20 05:00:00", "03-17 16:13:38.811", "- 1117838570 2005.06.03 a ")
    for begin in begins:
        for one in ("a ", "a", "[", "[[]", "1 ", "1:", "-", "a[1", "a b(", "|", ": ", "\\", "12:00:00", "Jun "):
            started = time.process_time()
            masked(begin + one * 1000, family)
            assert time.process_time() - started < 0.05


def test_more_texts_than_the_most_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(app, "MAX_DISTINCT", 500)
    monkeypatch.setattr(cluster, "MAX_DISTINCT", 500)
    letters = "abcdefghijklmnop"
    words = ["".join(letters[int(digit, 16)] for digit in f"{n:06x}") for n in range(20_000)]
    content = "".join(f"{word} happened to everybody else\n" * (1 + (n < 5)) for n, word in enumerate(words)).encode()
    tracemalloc.start()
    found = list(patterns_of(io.BytesIO(content)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 20_005
    assert found[0].template.endswith("happened to everybody else")
    assert found.count(REST) == 20_005 - 505
    assert peak < 3 << 20


def test_masking_is_the_same_with_and_without_the_carriage_return():
    assert mask.masked("a 1\r", "none").rstrip() == mask.masked("a 1", "none")
