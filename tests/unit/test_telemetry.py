import contextlib
import inspect
import io
import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
import structlog
from harness.fleet import until
from prometheus_client import REGISTRY, Counter

from shipper import events, http_endpoints, telemetry
from shipper.events import browsing, collecting, producing, sessions
from shipper.events.table import error
from shipper.http_endpoints import Answer, Endpoints, serving
from shipper.telemetry import REPEAT_SECONDS
from shipper.testing import Clock

LOGGING = """
from shipper import events
from shipper.telemetry import set_up_logging
set_up_logging(style={style!r}, level={level!r})
for _ in range(3):
    events.file_unreadable(path="/a", error="EIO")
events.producer_started(host="web1", subject="logs.p0.web1", files=2)
events.file_followed(path="/a", source="00", offset=0)
"""


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def repeats(clock):
    return telemetry._Repeats(clock)


def passed(repeats, method="warning", **event):
    try:
        return repeats(None, method, event)
    except structlog.DropEvent:
        return None


def test_a_repeated_warning_is_held_back_and_the_next_one_reports_how_often(repeats, clock):
    assert passed(repeats, event="e", error="EIO") == {"event": "e", "error": "EIO"}
    assert [passed(repeats, event="e", error="EIO") for _ in range(5)] == [None] * 5
    clock.turn(REPEAT_SECONDS + 1)
    assert passed(repeats, event="e", error="EIO") == {"event": "e", "error": "EIO", "repeated": 5}


def test_an_error_that_lasts_is_reported_with_back_off_and_again_when_it_comes_back(repeats, clock):
    said = []
    for second in range(100):
        if passed(repeats, event="e", error="EIO"):
            said.append(second)
        clock.turn(1)
    assert said == [0, 10, 30, 70]
    clock.turn(200)
    assert passed(repeats, event="e", error="EIO")
    clock.turn(REPEAT_SECONDS)
    assert passed(repeats, event="e", error="EIO")


def test_every_loss_is_reported(repeats):
    assert all(passed(repeats, "error", event="bytes_lost", file="/a", bytes=7) for _ in range(5))
    assert all(passed(repeats, "error", event="messages_lost", input="/syslog", lost=7) for _ in range(5))


def test_the_first_event_is_logged_whatever_the_clock_shows():
    assert passed(telemetry._Repeats(lambda: 0.0), event="e") is not None


@pytest.mark.parametrize("other", [{"event": "f"}, {"event": "e", "file": "/b"}, {"event": "e", "partition": 2}])
def test_another_event_file_or_partition_is_no_repetition(repeats, other):
    assert passed(repeats, event="e")
    assert passed(repeats, **other)


@pytest.mark.parametrize("method", ["info", "debug"])
def test_normal_events_are_never_held_back(repeats, method):
    assert all(passed(repeats, method, event="e") for _ in range(5))


def test_the_memory_of_what_was_logged_is_bounded(repeats):
    for number in range(3 * telemetry.MAX_REMEMBERED):
        passed(repeats, event="e", file=str(number))
    assert len(repeats._seen) <= telemetry.MAX_REMEMBERED


def said(style, level):
    program = LOGGING.format(style=style, level=level)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_logs_go_to_stderr_one_object_a_line_with_stable_names():
    warning, info = [json.loads(line) for line in said("json", "info")]
    assert (warning["event"], warning["level"], warning["file"]) == ("file_unreadable", "warning", "/a")
    assert (info["event"], info["host"], info["files"]) == ("producer_started", "web1", 2)
    assert info["timestamp"].endswith("Z")


def test_text_logs_hold_the_same_without_colours_outside_a_terminal():
    warning, info = said("text", "info")
    assert "file_unreadable" in warning
    assert "web1" in info
    assert "\x1b" not in warning + info


def test_the_level_decides_what_is_logged():
    assert [json.loads(line)["event"] for line in said("json", "debug")][-1] == "file_followed"
    assert [json.loads(line)["event"] for line in said("json", "warning")] == ["file_unreadable"]


class Program:
    """A program that is scraped."""

    reason = ""

    def __enter__(self):
        self.endpoints = Endpoints("127.0.0.1:0", ready=lambda: self.reason, status=lambda: {"sources": 2})
        return self

    def __exit__(self, *_):
        self.endpoints.close()

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.endpoints.port}{path}") as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_are_served_as_prometheus_reads_them():
    events.bytes_lost(file="/a", lost=7, reason="deleted")
    with Program() as program:
        code, kind, body = program.get("/metrics?x=1")
    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'fshipper_lost_bytes_total{reason="deleted"} ' in body


def test_every_metric_has_our_prefix_and_a_help_text():
    with Program() as program:
        _, _, body = program.get("/metrics")
    ours = [line.split(" ", 3) for line in body.splitlines() if line.startswith("# HELP fshipper_")]
    assert len(ours) > 20
    assert all(len(words) == 4 and words[3] for words in ours)


def test_the_program_is_healthy_while_it_answers():
    with Program() as program:
        assert program.get("/healthz")[::2] == (200, "ok\n")


def test_readiness_gives_the_reason_why_not():
    with Program() as program:
        assert program.get("/readyz")[::2] == (200, "ready\n")
        program.reason = "no session with the server yet"
        assert program.get("/readyz")[::2] == (503, "no session with the server yet\n")


def test_the_status_is_json():
    with Program() as program:
        code, kind, body = program.get("/status")
    assert (code, kind, json.loads(body)) == (200, "application/json", {"sources": 2})


def test_an_unknown_path_lists_the_valid_ones():
    with Program() as program:
        code, _, body = program.get("/")
    assert code == 404
    for path in ("/metrics", "/healthz", "/readyz", "/status"):
        assert path in body


def served(**options):
    return Endpoints("127.0.0.1:0", **{"ready": str, "status": dict, **options})


def fetched(endpoints, path, method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{endpoints.port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


class Numbers:
    """A body in chunks."""

    closed = 0

    def __iter__(self):
        yield from (b"1", b"2", b"3")

    def close(self):
        Numbers.closed += 1


def test_a_program_may_serve_pages_of_its_own():
    Numbers.closed = 0
    pages = {
        "/": lambda: Answer("text/html", b"hello", headers={"X-Mood": "good"}),
        "/n": lambda: Answer("t/n", Numbers()),
    }
    with contextlib.closing(served(pages=pages)) as endpoints:
        code, headers, body = fetched(endpoints, "/")
        assert (code, headers["X-Mood"], headers["Cache-Control"], body) == (200, "good", "no-store", b"hello")
        assert fetched(endpoints, "/n")[2] == b"123"
        assert fetched(endpoints, "/nowhere")[2] == b"try / /healthz /metrics /n /readyz /status\n"
        until(lambda: Numbers.closed == 1, what="its thread lets it go behind the last byte")
        code, headers, body = fetched(endpoints, "/n", "HEAD")
        assert (code, body) == (200, b"")
        until(lambda: Numbers.closed == 2)
        code, headers, body = fetched(endpoints, "/healthz", "HEAD")
        assert (code, headers["Content-Length"], body) == (200, "3", b"")


def test_a_page_that_fails_is_reported_and_the_others_are_written(capfd):
    def failing():
        raise KeyError("secret")

    with contextlib.closing(served(status=failing)) as endpoints:
        code, _, body = fetched(endpoints, "/status")
        assert (code, b"secret" in body) == (500, False)
        assert fetched(endpoints, "/healthz")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_status_that_changes_while_it_is_computed_is_computed_again():
    asked = []

    def changing():
        asked.append(1)
        if len(asked) < 3:
            raise RuntimeError("dictionary changed size during iteration")
        return {"sources": 3}

    with contextlib.closing(served(status=changing)) as endpoints:
        assert json.loads(fetched(endpoints, "/status")[2]) == {"sources": 3}


def test_connections_are_bounded_and_the_oldest_silent_ones_give_way(capfd):
    before = threading.active_count()
    with contextlib.closing(served()) as endpoints, contextlib.ExitStack() as stack:
        for _ in range(2 * http_endpoints.MOST_CONNECTIONS):  # each is silent
            stack.enter_context(socket.create_connection(("127.0.0.1", endpoints.port)))
        assert fetched(endpoints, "/healthz")[0] == 200
        until(lambda: threading.active_count() - before <= http_endpoints.MOST_REQUESTS_AN_ADDRESS + 2)
        stack.close()
        until(lambda: threading.active_count() - before <= 1)
    assert capfd.readouterr().err == ""


def test_nothing_is_served_on_request():
    with serving("", ready=str, status=dict) as endpoints:
        assert endpoints is None


@pytest.mark.parametrize("listen", ["127.0.0.1:busy", "127.0.0.1:99999", "127.0.0.1:{port}"])
def test_an_address_that_cannot_be_used_costs_a_warning_and_not_the_program(listen, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with serving(listen.format(port=other.getsockname()[1]), ready=str, status=dict) as endpoints:
            assert endpoints is None
    said = capsys.readouterr().err
    assert "--listen" in said
    assert ("perhaps another fshipper" in said) == ("{port}" in listen)


def test_the_port_is_free_again_after_the_block():
    with serving("127.0.0.1:0", ready=str, status=dict) as endpoints:
        port = endpoints.port
    with serving(f"127.0.0.1:{port}", ready=str, status=dict) as endpoints:
        assert endpoints.port == port


def test_what_a_terminal_might_obey_is_escaped_in_the_log() -> None:
    hostile = "from shipper import events; from shipper.telemetry import set_up_logging; "
    hostile += "set_up_logging(style='text', level='info'); "
    hostile += r"events.file_unreadable(path='h\x1b[2J\u202e', error='/a\nb\udcff')"
    said = subprocess.run([sys.executable, "-c", hostile], capture_output=True, text=True, check=True).stderr
    assert said.count("\n") == 1
    assert not set(said) & set("\x1b\u202e")
    assert "\\x1b[2J" in said


def test_a_row_logs_each_of_its_arguments_and_counts_by_those_it_has(capsys):
    rows = [
        event
        for module in (browsing, collecting, producing, sessions)
        for event in vars(module).values()
        if hasattr(event, "__wrapped__")
    ]
    assert len(rows) > 90
    for event in rows:
        arguments = dict.fromkeys(inspect.signature(event).parameters, 1)
        event(**arguments)
        logged = capsys.readouterr().err
        assert logged.count("\n") == 1
        assert event.__name__ in logged
        assert logged.count("=") >= len(arguments), logged


def test_a_row_counts_by_its_labels_and_renames_what_it_logs(capsys):
    counter = Counter("fshipper_test_total", "Of this test", ["partition", "host"])

    @error("It happened.", counter, per="partition host", by="octets", path="file", hint="do it")
    def happened(*, partition: int, host: str, octets: int, path: str) -> None: ...

    happened(partition=3, host="web1", octets=7, path="/a")
    assert REGISTRY.get_sample_value("fshipper_test_total", {"partition": "3", "host": "web1"}) == 7
    logged = capsys.readouterr().err
    for field in ("happened", "error", "partition=3", "host=web1", "bytes=7", "file=/a", "hint='do it'"):
        assert field in logged
    assert happened.__doc__ == "It happened."
    REGISTRY.unregister(counter)


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("", True), ("1", False), ("0", False)])
def test_the_log_on_a_terminal_obeys_no_color(monkeypatch, no_color, coloured):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    before = structlog.get_config()
    try:
        telemetry.set_up_logging(style="text", level="info")
        structlog.get_logger().info("something_happened", host="web1")
    finally:
        structlog.configure(**before)
    assert "something_happened" in terminal.getvalue()
    assert ("\x1b[" in terminal.getvalue()) is coloured


def test_a_program_serves_its_own_metrics_and_those_of_both_only():
    kept = {}
    for hidden in (events.PRODUCER_METRICS, events.COLLECTOR_METRICS):
        with http_endpoints.serving("127.0.0.1:0", ready=str, status=dict, hidden_metrics=hidden) as endpoints:
            body = fetched(endpoints, "/metrics")[2].decode()
        kept[hidden] = {line.split()[2] for line in body.splitlines() if line.startswith("# TYPE fshipper_")}
        assert "_created" not in body.replace("consumers_created", "")
    collector, producer = kept.values()
    assert {"fshipper_leases_held", "fshipper_sessions_ended_total"} <= collector
    assert {"fshipper_published_bytes_total", "fshipper_sessions_ended_total"} <= producer
    assert "fshipper_published_bytes_total" not in collector
    assert "fshipper_leases_held" not in producer
    assert "fshipper_control_ignored_total" in collector & producer
