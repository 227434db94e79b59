"""`fshipper browse` without a browser: who may search, what a search may use, and what is left of one."""

import contextlib
import itertools
import json
import os
import subprocess
import time
from email.message import Message
from pathlib import Path

import pytest
from browse_program import DATABASE, HOSTILE, SAMPLE, WEB, BrowseProgram, hits
from harness.fleet import FSHIPPER, until
from harness.natsd import running

from consumer.web import searches as app
from consumer.web.access_control import LINK_SECONDS, TOKEN_HEADER, AccessControl, User
from consumer.web.search_process import ProcessLimits, SearchProcess
from consumer.web.server import PageRequest

OTHER = "other1.example.net"
"""The host of lines that a test adds: others count those of the sample."""
FAILED = SAMPLE[WEB][300]
SOMEBODY = User("somebody", "session of somebody")
PROXY = ("--host", "logs.example.net", "--trust-user-header", "X-Forwarded-User")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("browse")
    with running(directory / "natsd") as natsd, BrowseProgram(directory, natsd.url, *PROXY) as started:
        yield started


@pytest.fixture(scope="module")
def session(program):
    return program.log_in()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"query": "failed", "order": "oldest"}, [FAILED, HOSTILE]),
        ({"query": '"request failed" NOT script'}, [FAILED]),
        ({"query": "/checkpoint 1\\d/ (11 OR 12)", "order": "oldest"}, SAMPLE[DATABASE][11:13]),
        ({"query": "/fatal/i"}, [b"FATAL out of memory"]), ({"query": "fatal"}, [b"FATAL out of memory"]),
        ({"query": "fatal", "case_sensitive": True}, []),
        ({"severities": ["error"], "hosts": ["db*"]}, [b"FATAL out of memory"]),
        ({"severities": ["warning"], "files": ["app.log"]}, [b"WARN disk sda1 is 91 % full"]),
        ({"hosts": [DATABASE], "limit": 2}, SAMPLE[DATABASE][:-3:-1]),
        ({"hosts": [DATABASE], "limit": 2, "order": "oldest"}, SAMPLE[DATABASE][:2]),
        ({"files": ["*nothing*"]}, []), ({"until": "2020-01-01"}, []),
    ],
)  # fmt: skip
def test_a_search_finds_its_lines(program, session, request_, expected):
    answer = program.search(session, **request_)
    assert [line.encode("utf-8", "surrogateescape") for line in hits(answer)] == expected
    assert answer[0]["kind"] == "begin"
    assert answer[-1]["kind"] == "end"
    assert answer[-1]["hits"] == len(expected)


def test_the_command_that_is_shown_finds_the_same_lines(program, session):
    answer = program.search(session, query='"request failed" OR "it\'s" OR FATAL')
    done = subprocess.run(
        answer[0]["command"].replace("fshipper", FSHIPPER, 1), shell=True, capture_output=True, check=True,
        env=program.environment(), timeout=60,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == len(hits(answer)) == 3


def test_times_are_those_in_the_lines_or_those_of_storing(program, session):
    by_event = program.search(session, query="ERROR")
    (hit,) = [each for each in by_event if each["kind"] == "hit"]
    assert (hit["time_from"], hit["event_time"]) == ("stored", hit["time"])  # the line has no time
    assert "--by=stored" not in by_event[0]["command"]
    by_stored = program.search(session, query="ERROR", by="stored", since="1h", timezone="Europe/Berlin")
    (hit,) = [each for each in by_stored if each["kind"] == "hit"]
    assert "event_time" not in hit
    assert "--by=stored" in by_stored[0]["command"]
    assert program.asked(session, timezone="Nowhere/City").code == 400


def test_the_neighbours_of_a_line(program, session):
    (found,) = [each for each in program.search(session, query="ERROR") if each["kind"] == "hit"]
    around = {"time": found["time"], "offset": found["offset"], "lines": 2}
    answer = program.search(session, hosts=[WEB], files=[found["file"]], around=around)
    assert [line.encode("utf-8", "surrogateescape") for line in hits(answer)] == SAMPLE[WEB][298:303]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"query": "(a"}, "parenthesis"), ({"query": 'a "b'}, '"'), ({"query": "/(/"}, "regular expression"),
        ({"query": "a OR"}, "missing"), ({"query": "NOT"}, "missing"), ({"query": "x" * 1025}, "1024"),
        ({"since": "yesterdayish"}, "moment"), ({"since": "1h", "until": "2h"}, "time range"),
        ({"hosts": ["/etc/passwd"]}, "host"), ({"hosts": ["a b"]}, "host"), ({"files": ["a\u202eb"]}, "control"),
        ({"limit": 5001}, "limit"), ({"archive": "/etc"}, "archive"), ({"order": "sideways"}, "order"),
        ({"hosts": ["a"] * 17}, "hosts"),
    ],
)  # fmt: skip
def test_a_search_that_is_wrong_is_refused_with_the_next_step(program, session, request_, words):
    answer = program.asked(session, **request_)
    refusal = json.loads(answer.body)
    assert answer.code == 400
    assert refusal["hint"]
    assert words in refusal["error"]
    assert program.processes() == []


@pytest.mark.parametrize("name", ["--help", "-v"])
def test_what_a_browser_sends_is_never_an_option(program, session, name):
    for request in ({"hosts": [name]}, {"files": [name]}, {"query": f'"{name}"'}):
        assert program.search(session, **request)[-1]["hits"] == 0
    assert program.search(session, query=name, limit=5_000)[-1]["outcome"] == "done", "it means NOT"


def test_all_lines_are_counted_over_time_where_not_all_are_sent(program, session):
    assert program.search(session, query="checkpoint", limit=5)[-1]["outcome"] == "lines"
    answer = program.search(session, query="checkpoint", limit=5, buckets=3600)
    assert sum(each["count"] for each in answer if each["kind"] == "bucket") == 40
    assert hits(answer) == []


def test_a_token_opens_one_session(program):
    program.log_in()
    for wrong in (program.token, "", None):
        assert program.ask("login", Fshipper_Token=wrong).code == 401
    program.new_link()
    replaced = program.token
    program.new_link()
    assert program.ask("login", Fshipper_Token=replaced).code == 401
    answer = program.ask("login", Fshipper_Token=program.token)
    assert answer.code == 200
    assert len(json.loads(answer.body)["session"]) == 43
    assert "Set-Cookie" not in answer.headers
    assert program.token not in answer


def test_the_link_is_in_a_file_of_the_user_and_the_log_has_no_token(program):
    program.log_in()
    program.new_link()
    assert program.link_file.stat().st_mode & 0o777 == 0o600
    assert program.link_file.parent.stat().st_mode & 0o777 == 0o700
    assert "token=" not in program.browse.log
    assert program.token not in program.browse.log


def test_a_token_that_was_not_used_within_ten_minutes_opens_no_session(monkeypatch):
    access, now = AccessControl(), time.monotonic()
    old, new = access.new_token(), AccessControl()
    monkeypatch.setattr(time, "monotonic", lambda: now + LINK_SECONDS + 1)
    assert access.log_in(a_request("/login", **{TOKEN_HEADER: old})) is None
    assert new.log_in(a_request("/login", **{TOKEN_HEADER: new.new_token()})) is not None


@pytest.mark.parametrize("other", ["a[b]=1", "a b=2", "=", '"', "x", "a=b=c", "\xff=\xff"])
def test_cookies_of_other_programs_of_the_host_do_not_end_a_session(program, session, other):
    assert program.ask("about", Cookie=other, Fshipper_Session=session).code == 200


def test_a_session_is_in_no_cookie_because_every_port_of_the_host_receives_cookies(program, session):
    for name in ("Fshipper-Session", "session", "fshipper-browse"):
        assert program.ask("about", Cookie=f"{name}={session}").code == 401


@pytest.mark.parametrize("query", ["a\0b", "a\nb", "\x1b[2J", "\x7f"])
def test_a_query_that_no_command_can_have_is_refused_and_takes_no_slot(program, session, query):
    for _ in range(6):
        answer = program.asked(session, query=query)
        assert (answer.code, b"control characters" in answer.body) == (400, True), answer
    assert program.search(session, query="checkpoint")[-1]["outcome"] == "done"


@pytest.mark.parametrize(
    "failure",
    [ValueError("embedded null byte"), RuntimeError("can't start new thread"), OSError(24, "Too many open files")],
)
def test_a_search_that_cannot_start_gives_its_slot_back_whatever_the_reason(program, monkeypatch, failure):
    searches = app.Searches(program.archive, None)
    search = a_request("/search", **{app.SEARCH_HEADER: json.dumps({"query": "checkpoint"})})

    def fail(*_: object, **__: object) -> None:
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr(subprocess, "Popen", fail)
        for _ in range(6):
            if isinstance(failure, OSError):
                assert searches.search(SOMEBODY, search).code == 503
            else:
                with pytest.raises(type(failure)):
                    searches.search(SOMEBODY, search)
    answer = searches.search(SOMEBODY, search)
    assert answer.code == 200
    monkeypatch.setattr(answer.body._process, "end", fail)
    with pytest.raises(type(failure)):
        answer.body.close()
    assert [searches._slots.take("another") is not None for _ in range(2)] == [True, True]
    monkeypatch.undo()
    SearchProcess.end(answer.body._process)


def test_a_time_before_1970_means_from_the_beginning(program, session):
    answer = program.search(session, query="checkpoint", since="0001-01-01", limit=400)
    assert (answer[0]["since"], len(hits(answer))) == ("", 40)


@pytest.mark.parametrize("path", ["search", "about"])
def test_a_request_without_a_session_is_refused(program, session, path):
    for wrong in (None, "", "x" * 43, session[:-1], f"{session}x", program.token):
        answer = program.ask(path, Fshipper_Session=wrong, Fshipper_Search="%7B%7D")
        assert answer.code == 401, wrong
        assert b"link" in answer.body
    assert program.ask(path, Fshipper_Session=session, Fshipper_Search="%7B%7D").code == 200


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, 421), ({"Host": "localhost.evil.example:80"}, 421),
        ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "logs.example.net"}, 200), ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["about", "login", ""])
def test_other_names_and_other_origins_are_refused(program, session, headers, code, path):
    got = program.ask(path, Fshipper_Session=session, Fshipper_Search="%7B%7D", Fshipper_Token="wrong", **headers).code
    assert got == (401 if code == 200 and path == "login" else code)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_get_is_answered(program, session, method):
    with program.raw(
        f"{method} /search HTTP/1.1\r\nHost: localhost\r\nFshipper-Session: {session}\r\nContent-Length: 0\r\n\r\n"
    ) as link:
        assert b" 405 " in link.makefile("rb").readline()


def test_the_page_has_no_data_and_a_strict_policy(program):
    answer = program.ask("")
    text = answer.body.decode()
    assert answer.code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "style=" not in text
    assert "innerHTML" not in text
    assert WEB not in text
    assert str(program.archive) not in text


def test_a_proxy_on_this_machine_names_the_user(program):
    search = "%7B%22query%22%3A%22FATAL%22%7D"
    answer = program.ask("search", X_Forwarded_User="alice@example.net", Fshipper_Search=search)
    assert answer.code == 200
    assert b"FATAL" in answer.body
    until(lambda: "user=alice@example.net" in program.browse.log, what=lambda: program.browse.log)
    assert program.ask("search", X_Forwarded_User="", Fshipper_Search=search).code == 401
    twice = "X-Forwarded-User: a\r\nX-Forwarded-User: b\r\n"
    with program.raw(f"GET /about HTTP/1.1\r\nHost: localhost\r\n{twice}\r\n") as link:
        assert b" 401 " in link.makefile("rb").readline()


def test_two_searches_of_a_session_and_four_in_all(program):
    first, second, third = (program.log_in() for _ in range(3))
    with contextlib.ExitStack() as running_searches:
        for session in (first, first):
            running_searches.enter_context(program.opened(session, follow=True))
        assert program.asked(first, query="a").code == 429
        for session in (second, second):
            running_searches.enter_context(program.opened(session, follow=True))
        refused = program.asked(third, query="a")
        assert refused.code == 429
        assert refused.headers["Retry-After"]
        assert len(program.processes("search")) == 4
    until(lambda: program.processes() == [], what="the processes end")
    assert program.search(third, query="FATAL")[-1]["hits"] == 1


def test_a_search_is_a_group_of_processes_with_limits_that_ends_with_its_connection(program, session):
    with program.opened(session, follow=True):
        until(lambda: len(program.processes("search")) == 1)
        (pid,) = program.processes("search")
        assert os.getpgid(pid) == pid
        assert os.getpriority(os.PRIO_PROCESS, pid) == 10
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert "4294967296" in next(line for line in limits.splitlines() if "address space" in line)
        assert f" {app.LIVE.cpu_seconds} " in next(line for line in limits.splitlines() if "cpu time" in line)
    until(lambda: program.processes() == [], what="the process ends")
    until(lambda: "outcome=left" in program.browse.log, what=lambda: program.browse.log)


@pytest.fixture(autouse=True)
def no_search_is_left(program):
    yield
    until(lambda: program.processes() == [], what=lambda: f"processes end: {program.processes()}")


def a_request(path: str, **headers: str) -> PageRequest:
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return PageRequest(path, message, "127.0.0.1")


@pytest.fixture
def limited(program, monkeypatch):
    """A function that runs a search with limits in this process: what the page is sent."""
    monkeypatch.setenv("SHIPPER_STATE", str(program.directory / "state"))
    searches = app.Searches(program.archive, None)

    def sent(limits: ProcessLimits, **search: object) -> list[dict]:
        monkeypatch.setattr(app, "USUAL", limits)
        body = searches.search(SOMEBODY, a_request("/search", **{app.SEARCH_HEADER: json.dumps(search)})).body
        lines = [json.loads(line) for line in body if line.strip()]
        body.close()
        assert searches.status()["searches"] == 0
        return lines

    return sent


LIMITS = ProcessLimits(seconds=60.0, cpu_seconds=60, read_bytes=4 * 1024**3, output_bytes=32 * 1024**2)


@pytest.mark.parametrize(
    ("limits", "outcome", "shown"),
    [
        (LIMITS, "done", range(40, 41)),
        (LIMITS._replace(seconds=0.01), "time", range(1)),
        (LIMITS._replace(output_bytes=2_000), "bytes", range(20)),
        (LIMITS._replace(read_bytes=1), "bytes", range(41)),  # how far the process is, is known now and then
    ],
    ids=["none", "time", "sent bytes", "read bytes"],
)
def test_a_search_ends_at_its_limits_and_the_page_shows_it(limited, program, limits, outcome, shown):
    for _ in range(20):  # a process that ends before it reports how much it read has met no limit
        answer = limited(limits, query="checkpoint", order="oldest", limit=400)
        assert answer[-1]["kind"] == "end"
        assert len(hits(answer)) in shown
        if answer[-1]["outcome"] == outcome:
            break
    else:
        pytest.fail(f"the search never ended with {outcome!r}: {answer[-1]}")
    until(lambda: program.processes() == [], what="the process ends")


def test_lines_are_followed_as_they_come(program, session):
    with program.opened(session, query="arrives", follow=True) as answer:
        assert json.loads(answer.readline())["kind"] == "begin"
        found, number = {"kind": ""}, 0
        while found["kind"] != "hit":
            number += 1
            program.write(OTHER, b"line %d arrives" % number, b"another one does not")
            line = answer.readline()
            found = json.loads(line) if line.strip() else found
        assert found["line"].endswith(" arrives")
    program.drain()


def test_a_live_view_that_reads_too_slowly_loses_lines_and_counts_them(program):
    program.write(OTHER, *(b"burst %d" % n for n in range(3000)))
    program.drain()
    arguments = ["search", "--json", f"--archive={program.archive}", "--limit=0"]
    arguments += [f"--state={program.directory / 'state'}", "--", "burst"]
    for is_live in (True, False):
        process = SearchProcess(arguments, ProcessLimits(60.0, 60, None, None), is_live=is_live)
        if is_live:
            until(lambda p=process: p._ended, what="nothing waits for the reader")
        received = list(itertools.takewhile(bool, iter(lambda p=process: p.next_line(60), None)))
        assert process.end() == 0
        assert len(received) + process.dropped == 3001, "with the summary"
        assert (process.dropped > 0) == is_live


def test_every_search_is_in_the_access_log_without_its_words(program, session):
    program.search(session, query="carol@example.net", hosts=["web*"], since="2026-11-20T10:00:00Z")
    until(lambda: "hosts=web*" in program.browse.log, what=lambda: program.browse.log)
    (line,) = [line for line in program.browse.log.splitlines() if "hosts=web*" in line]
    assert "user='session " in line
    assert "since=2026-11-20T10:00:00.000Z" in line
    assert "outcome=done" in line
    assert "query_hash=" in line
    assert "sent_bytes=" in line
    assert "read_bytes=" in line
    assert "carol" not in program.browse.log


def test_it_needs_an_archive_and_a_free_address(program, tmp_path):
    done = program.run("browse", "--archive", str(tmp_path))
    assert done.returncode == 78
    assert "--archive" in done.stderr
    done = program.run("browse", "--listen", f"127.0.0.1:{program.port}")
    assert done.returncode == 69
    assert "--listen" in done.stderr
    assert program.run("browse", "--host", "*").returncode == 78


def test_it_listens_on_loopback_only(program):
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    (line,) = [line for line in listening.splitlines() if f":{program.port:04X} " in line and " 0A " in line]
    assert line.split()[1].partition(":")[0] == "0100007F"


def test_a_stop_ends_the_searches_and_no_proxy_is_trusted_by_default(tmp_path):
    with running(tmp_path / "natsd") as natsd, BrowseProgram(tmp_path, natsd.url) as program:
        assert program.ask("about", X_Forwarded_User="alice").code == 401
        assert program.ask("about", Host="logs.example.net").code == 421
        with program.opened(program.log_in(), follow=True):
            until(lambda: len(program.processes("search")) == 1)
            (pid,) = program.processes("search")
            assert program.browse.stop() == 0
            assert not Path(f"/proc/{pid}").exists()
