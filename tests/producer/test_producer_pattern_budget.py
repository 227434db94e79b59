"""Patterns have a budget of time: most run on a linear engine, and a block that takes too long holds back its file."""

import asyncio
import itertools
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet
from fleet import until as processes_until
from hypothesis import given, settings
from hypothesis import strategies as st
from natsd import NatsServer
from producing import Producer, append
from prometheus_client import REGISTRY
from waiting import becomes, slowdown

from producer.fingerprint import Mark
from producer.model import Piece
from producer.redaction.detectors import KINDS, detector
from producer.transform.edits import Edits
from producer.transform.line_filter import Pattern, joined
from producer.transform.regex_process import IS_LINE, LINES, MATCHES, Matcher
from producer.transform.time_budget import Budget, OverBudget
from shipper.errors import ShipperError
from shipper.linear_regex import Linear
from shipper.model import Span

EVIL = r"(?=a)(a+)+$"
"""Exponential, and not supported by the linear engine: it has a look-ahead."""
EVIL_LINE = b"a" * 40 + b"!\n"

# -- the linear engine finds what `re` finds ----------------------------------------------------------------------

TYPICAL = [
    *("DEBUG", "^GET /health", "(?i)error|warn", r"\d{3} [a-z.]+", r"user=\w+", r"\bpass\w*\s*[=:]\s*\S+", r"^\s*#"),
    *("^$", r"^\s*$", r'"[^"]*"', r"[^ ]+@[^ ]+", r"\b\d{1,3}(?:\.\d{1,3}){3}\b", r"(?:a|ab)(?:c|bcd)", r"x*?y"),
    *(r"a{2,3}?a", r"[\w.+-]+@[\w-]+\.\w+", r"\.$", "é+", "[é]", r"(?i)[^k]\d", r"[\s\S]b", r"\W\d", r"\D+$"),
    *(r"(?i:Set-)Cookie: .*", r"(?P<key>id)=(\d+)", r"a.c", "(?s)a.c", r"\x41|\101", r"[a-c\-]+", r"\Aone", r"one\Z"),
    *("(a|b|)c", r"(?i)straße", "(?i)É"),
]
ONLY_RE = ["(?=a)b", "(?<=x)y", "(?!z)a", r"(a)\1", "(a*)*", r"\Ba", "(?>a)b", "a++", "a{2000}", "(?-m:a$)"]
PARTS = [
    *("a", "b", "k", "K", ".", r"\d", r"\w", r"\s", r"\S", r"\b", "^", "$", "[a-k]", "[^a]", r"[^\W\d]", "é", " ", ":"),
    *("(a|ab)", "(?:b|)", "(?i:k)", "a+", "a*?", "[ab]{1,2}", "(?:ab)+", "b?", "1|", "(?s:.)", r"\n?"),
]
EXPRESSIONS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map("".join)
BYTES = [
    b"a",
    b"b",
    b"ab",
    b"k",
    b"K",
    b" ",
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b"\v",
    b"1",
    b"\xc3\xa9",
    b"\xff",
    b":",
    b"_",
]
TEXTS = st.lists(st.sampled_from(BYTES), max_size=24).map(b"".join)


def linear(expression: str, *, may_be_empty: bool = True) -> Pattern:
    """The pattern on the linear engine, also where `re` would be quick enough."""
    slow = Pattern.of_re(expression)
    return slow._replace(linear=Linear.of(slow.regex.pattern, may_be_empty=may_be_empty))


def same(expression: str, text: bytes) -> None:
    """The linear engine and `re`, which checks each line alone, find the same."""
    slow = Pattern.of_re(expression)._replace(scans=False)
    assert list(linear(expression).lines(text)) == list(slow.lines(text))
    finder = linear(expression, may_be_empty=False)
    if finder.linear and not text.endswith(b"\r"):  # a CR that ends no line: part of it where `re` scans, too
        assert list(finder.matches(text)) == list(slow.matches(text))


@pytest.mark.parametrize("expression", TYPICAL)
@given(text=TEXTS)
@settings(max_examples=40)
def test_the_linear_engine_finds_what_re_finds_in_what_users_write(expression: str, text: bytes) -> None:
    assert linear(expression).linear
    same(expression, text)


@given(EXPRESSIONS, TEXTS)
@settings(max_examples=600)
def test_the_linear_engine_finds_what_re_finds_or_is_not_used(expression: str, text: bytes) -> None:
    try:
        re.compile(expression.encode())
    except re.error:
        return
    if linear(expression).linear:
        same(expression, text)


@pytest.mark.parametrize("expression", ONLY_RE)
def test_what_the_linear_engine_cannot_express_or_takes_otherwise_is_left_to_re(expression: str) -> None:
    assert linear(expression).linear is None


@pytest.mark.parametrize("octet", [bytes([octet]) for octet in (*range(10), *range(11, 256, 3))])
@pytest.mark.parametrize(
    "expression", [rb"\d", rb"\w", rb"\s", rb"\D", rb"\W", rb"\S", rb"(?i)[a-z]", rb".", rb"(?i)[^a-z]"]
)
def test_each_class_has_the_same_bytes(expression: bytes, octet: bytes) -> None:
    linear = Linear.of(expression, may_be_empty=False)
    assert linear
    assert bool(linear.search(octet, 0, 1)) == bool(re.search(expression, octet))


# -- time grows as the text does -----------------------------------------------------------------------------------

ADVERSARIES = {
    "token": [
        *(b"token>", b"token>a", b"token ", b"token=", b'token="', b'token="\\', b'token:\\"', b"token_", b"token-a "),
        *(b"--token ", b"://", b"://a:", b"://a:b", b"eyJ", b"eyJaaaaaaaa.", b"bearer ", b"authorization:", b"ghp_a"),
        *(
            b"authorization: a ",
            b"password>a<",
            b"secretkey=",
            b"api_key ",
            b"token%3a",
            b"token=&",
            b"apitoken>secret>",
        ),
        *(b"AKIA", b"token='", b"pwd:=>\t"),
    ],
    "card": [b"4", b"4 ", b"4-4", b"411 ", b"4111 1111 1111 111", b"4111111111111111", b"1234567890123456789 ", b"0.4"],
    "email": [b"@", b"@a", b"@a.", b"a@", b"@1.", b"a%40", b"%40a.1", b"@-", b"a@a.a", b"@a-", b"\xff@\xff."],
}
USERS = [
    r"\w+@\w+\.com",
    "(a+)+$",
    "(a|aa)+$",
    "(.*a){12}",
    r"^(\w+\s?)*$",
    "x.*y",
    "a.*b.*c",
    r"\s+$",
    "([a-z]+)+[0-9]",
]
UNITS = [b"a", b"x", b" ", b"a ", b"ab", b"aaab", b"\t", b"a@"]


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of the fastest of three."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)


def grows_no_faster_than_its_text(work: Callable[[bytes], Any], unit: bytes, least: int) -> None:
    """Eight times as much takes less than 30 times as long; quadratic would be 64 times."""
    small, large = unit * (least // len(unit)), unit * (8 * least // len(unit))
    before = max(seconds(lambda: work(small)), 0.0002)  # else the clock's steps are measured
    after = seconds(lambda: work(large))
    assert after < 30 * before, (unit, before, after)


@pytest.mark.parametrize(("name", "unit"), [(name, unit) for name, units in ADVERSARIES.items() for unit in units])
def test_time_of_each_ready_pattern_doubles_with_its_text(name: str, unit: bytes) -> None:
    for tail in (b"", b"<", b"\n", b"!"):
        grows_no_faster_than_its_text(lambda text: list(detector(name)(text + tail)), unit, 2048)  # noqa: B023


def test_each_ready_pattern_is_tried() -> None:
    assert set(KINDS) == ADVERSARIES.keys()


@pytest.mark.parametrize(("pattern", "unit"), list(itertools.product(USERS, UNITS)))
def test_time_of_a_search_for_a_users_pattern_doubles_with_its_text(pattern: str, unit: bytes) -> None:
    found = Pattern.of(pattern)
    assert not found.needs_own_process
    grows_no_faster_than_its_text(lambda text: list(found.lines(text + b"!")), unit, 2048)


def test_elements_of_xml_are_blacked_out_as_before() -> None:
    text = b"<token>abc</token> token>x<b token>\n</ secret>y</ token></ password>a token>b</password>\n"
    expected = []
    for name in (b"password", b"passwd", b"passphrase", b"secret", b"token"):
        expected += [found.span(1) for found in re.finditer(name + rb">([^<\n]+)</", text)]
    assert joined(sorted(hit[:2] for hit in detector("token")(text))) == joined(sorted(expected))
    assert len(expected) == 4


# -- the process for the others ------------------------------------------------------------------------------------


def test_a_pattern_for_re_is_run_in_a_process_of_its_own_and_finds_the_same() -> None:
    text = b"one a=1\nb=2 a=3\r\nx\n" * 9000
    matcher = Matcher(("(?<=a=).", "(?!x)^."), Budget(20))
    try:
        for number, pattern in enumerate(map(Pattern.of_re, ("(?<=a=).", "(?!x)^."))):
            matcher._budget.begin()
            assert matcher.ask(number, MATCHES, text) == list(pattern.matches(text))
            assert matcher.ask(number, LINES, text) == list(pattern.lines(text))
            assert matcher.ask(number, IS_LINE, b"a=1\r") == [(0, 4)]
            assert matcher.ask(number, IS_LINE, b"x") == []
    finally:
        matcher.close()


def test_a_block_over_budget_ends_the_process_and_the_next_block_gets_another() -> None:
    edits = Edits.of(redact=[EVIL], pattern_seconds=0.2)
    matcher = edits.matcher
    assert matcher
    for _ in range(2):
        edits.budget.begin()
        with pytest.raises(OverBudget, match=r"takes more than 0\.2 s of CPU time"):
            matcher.ask(0, MATCHES, EVIL_LINE)
        edits.budget.begin()
        assert matcher.ask(0, MATCHES, b"aaa\n") == [(0, 3)]
    edits.close()


def test_a_process_that_another_user_kills_is_replaced_before_a_file_is_held_back() -> None:
    budget = Budget(20)
    matcher = Matcher(("(?=a)a",), budget)
    budget.begin()
    assert matcher.ask(0, MATCHES, b"ba\n") == [(1, 2)]
    assert matcher._process
    matcher._process.kill()
    assert matcher.ask(0, MATCHES, b"ba\n") == [(1, 2)]
    matcher.close()


def test_many_matches_of_a_linear_pattern_are_counted_too() -> None:
    """Each search is linear; as many as there are bytes are not."""
    edits = Edits.of(redact=["x.*y|x"], pattern_seconds=0.05)
    with pytest.raises(OverBudget):
        edits.of_piece(Piece("0" * 16, "/f", 0, Span(0, 500_000), b"x" * 500_000, 0, Mark()))


# -- files that are held back --------------------------------------------------------------------------------------


def is_held(producer: Producer, name: str) -> bool:
    return hasattr(producer, "pipeline") and [
        Path(each["file"]).name for each in producer.pipeline.status()["held_back"]
    ] == [name]


def test_a_block_over_budget_is_never_shipped_unedited_and_the_other_files_continue(tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.log", tmp_path / "good.log"
    bad.write_bytes(b"first line\n" * 5)
    good.write_bytes(b"one\n")
    edits = Edits.of(redact=[EVIL], pattern_seconds=0.2)
    producer = Producer(tmp_path, "*.log", edits=edits, block=4096)

    async def scenario() -> None:
        async with producer.running():
            await becomes(lambda: {bad, good} <= {Path(file) for file in producer.archived().files.values()})
            append(bad, EVIL_LINE + b"behind it\n")
            await becomes(lambda: is_held(producer, "bad.log"))
            append(good, b"two\n")
            await becomes(lambda: producer.archived().text(good) == b"one\ntwo\n")
            status = producer.pipeline.status()
            assert status["held_back"] == [{"file": str(bad), "offset": 55, "tries": 1}]
            assert "held back until a pattern is corrected" in status["trouble"]
            assert REGISTRY.get_sample_value("fshipper_held_back_files") == 1
            assert REGISTRY.get_sample_value("fshipper_blocks_over_budget_total") >= 1
        assert producer.archived().text(bad) == b"first line\n" * 5

        producer.options["edits"] = Edits.of(redact=["nothing here"])  # corrected
        async with producer.running():
            await becomes(
                lambda: producer.archived().watermarks[producer.archived().sources_of(bad)[0]] == bad.stat().st_size
            )
        spans = [message.headers["Log-Span"] for message in producer.stream if message.headers["Log-File"] == str(bad)]
        assert spans == ["0-55", f"55-{bad.stat().st_size}"]
        assert edits.matcher
        assert edits.matcher._process is None

    asyncio.run(scenario())


def test_once_reports_that_a_file_could_not_be_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "bad.log").write_bytes(b"fine\n" + EVIL_LINE)
    (tmp_path / "good.log").write_bytes(b"one\n")
    producer = Producer(tmp_path, "*.log", edits=Edits.of(drop_lines=[EVIL], pattern_seconds=0.2))
    with pytest.raises(ShipperError, match="bad"):
        asyncio.run(producer.ship_once())
    assert set(map(Path, producer.archived().files.values())) == {tmp_path / "good.log"}


def test_an_over_long_line_is_held_back_where_it_would_be_cut(tmp_path: Path) -> None:
    bad = tmp_path / "bad.log"
    bad.write_bytes(b"fine\n" + b"a" * 9000 + b"!\n")
    edits = Edits.of(redact=["(?=a)(a+)+b"], pattern_seconds=0.2)
    producer = Producer(tmp_path, "*.log", edits=edits, block=4096)

    async def scenario() -> None:
        async with producer.running():
            await becomes(lambda: is_held(producer, "bad.log"))
            await becomes(lambda: producer.archived().text(bad) == b"fine\n")

    asyncio.run(scenario())


def test_the_end_waits_for_one_block_over_budget_at_most(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.log").write_bytes(EVIL_LINE)
    edits = Edits.of(redact=[EVIL], pattern_seconds=0.5)
    producer = Producer(tmp_path, "*.log", edits=edits)

    async def scenario() -> float:
        running = asyncio.create_task(producer.run())
        await becomes(lambda: bool(edits.budget.held_back))
        asked = time.thread_time(), time.monotonic()
        producer.stop.request()
        await running
        return time.monotonic() - asked[1]

    asyncio.run(scenario())
    assert len(edits.budget.held_back) < 10  # each of the others would have taken half a second


def test_what_is_held_back_is_tried_again_with_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    budget = Budget(1, clock=lambda: now)
    waits = []
    for _ in range(9):
        budget.hold("a", "/f", 5, OverBudget("slow"))
        assert budget.must_wait("a")
        waits.append(budget.held_back[0].again_at - now)
        now = budget.held_back[0].again_at
        assert not budget.must_wait("a")
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    budget.passed("a")
    assert not budget.held_back


def test_sighup_with_a_corrected_pattern_releases_the_file_and_sigterm_ends_in_time(
    tmp_path: Path, natsd: NatsServer
) -> None:
    bad, good, config = tmp_path / "bad.log", tmp_path / "good.log", tmp_path / "fshipper.toml"
    bad.write_bytes(b"secret=1\n" + EVIL_LINE + b"secret=2\n")
    good.write_bytes(b"secret=3\n")

    def configure(pattern: str) -> None:
        config.write_text(f"""[producer]
files = ["{bad}", "{good}"]
poll = "20ms"
pattern_time = "200ms"
listen = ""
redact = ['secret=.', '{pattern}']
""")

    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        configure(EVIL)
        producer = fleet.start("produce", "--config", str(config), HOSTNAME="web1.example.net", SHIPPER_LISTEN="")
        collector = fleet.consume()

        def archived(path: Path) -> bytes:
            return fleet.archived("web1.example.net", path)

        processes_until(lambda: archived(good) == b"[redacted]\n", what="the other file")
        processes_until(lambda: "block_over_budget" in producer.log_file.read_text(), what="held back")
        assert archived(bad) == b""
        configure("a{40}")
        producer.process.send_signal(signal.SIGHUP)
        processes_until(
            lambda: archived(bad) == b"[redacted]\n[redacted]!\n[redacted]\n",
            what=producer.log_file.read_text,
        )
        configure(EVIL)
        producer.process.send_signal(signal.SIGHUP)
        processes_until(lambda: producer.log_file.read_text().count("settings_reloaded") == 2, what="reloaded")
        append(good, EVIL_LINE)
        processes_until(lambda: producer.log_file.read_text().count("block_over_budget") == 2, what="held back")
        began = time.monotonic()
        assert producer.stop() == 0
        assert time.monotonic() - began < 15 * slowdown()  # less than drain_within: it does not wait for the file
        assert archived(good) == b"[redacted]\n"
        assert collector.stop() == 0
