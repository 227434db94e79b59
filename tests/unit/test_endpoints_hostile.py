"""The HTTP listener with clients that are slow, many, or sent by a page of another site."""

import contextlib
import socket
import threading
import time

import pytest

from shipper import http_endpoints
from shipper.config import load
from shipper.http_endpoints import Answer, Endpoints


class Endless:
    """An answer without an end, as server-sent events are."""

    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended

    def __iter__(self):
        while not self._ended.is_set():
            yield b": still here\n\n"
            self._ended.wait(0.1)

    def close(self):
        pass


@pytest.fixture
def program():
    ended = threading.Event()
    made = Endpoints(
        "0.0.0.0:0",
        ready=str,
        status=lambda: {"sources": 2},
        pages={"/events": lambda: Answer("text/event-stream", Endless(ended))},
        allowed_hosts=["collector.example.net", "*.logs.example.net"],
    )
    yield made
    ended.set()
    made.close()


@pytest.fixture
def stack():
    with contextlib.ExitStack() as opened:
        yield opened


def connected(program, address="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", program.port), 10, source_address=(address, 0))


def asked(program, path, *headers, address="127.0.0.1", seconds=10.0):
    """The code of the answer; 0 where there is none."""
    with connected(program, address) as link:
        link.settimeout(seconds)
        try:
            link.sendall("\r\n".join([f"GET {path} HTTP/1.1", *headers, "", ""]).encode())
            first = link.makefile("rb").readline()
        except OSError:
            return 0
    return int(first.split()[1]) if first else 0


def test_health_is_answered_during_70_connections_that_send_a_byte_now_and_then(program, stack):
    slow = [stack.enter_context(connected(program)) for _ in range(70)]
    sent = 0
    for _ in range(5):
        for link in slow:
            with contextlib.suppress(OSError):
                link.send(b"G")
                sent += 1
        assert asked(program, "/healthz") == 200
        assert asked(program, "/readyz") == 200
        assert asked(program, "/metrics") == 200
        time.sleep(0.05)
    assert sent >= 70


def test_a_request_has_a_deadline_however_many_pieces_it_comes_in(program, monkeypatch):
    monkeypatch.setattr(http_endpoints, "REQUEST_SECONDS", 0.5)
    with connected(program) as link:
        link.settimeout(0.05)
        began = time.monotonic()
        ended = False
        while not ended and time.monotonic() - began < 10:
            with contextlib.suppress(TimeoutError):
                try:
                    link.send(b"X")
                    ended = link.recv(1) == b""
                except ConnectionError:
                    ended = True
        assert ended


def test_one_address_cannot_take_all_streams(program, stack):
    for number in range(http_endpoints.MOST_STREAMS_AN_ADDRESS):
        link = stack.enter_context(connected(program, "127.0.0.2"))
        link.sendall(b"GET /events HTTP/1.0\r\n\r\n")
        assert b" 200 " in link.recv(20), number

    assert asked(program, "/events", address="127.0.0.2") == 503
    assert asked(program, "/events", address="127.0.0.3") == 200
    assert asked(program, "/metrics", address="127.0.0.2") == 200


def test_connections_that_are_not_read_leave_room_for_others(program, stack):
    for address in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
        for _ in range(http_endpoints.MOST_STREAMS_AN_ADDRESS):
            link = stack.enter_context(connected(program, address))
            link.sendall(b"GET /events HTTP/1.0\r\n\r\n")
            link.recv(20)

    assert asked(program, "/status") == 503
    assert asked(program, "/healthz") == 200
    assert asked(program, "/readyz", address="127.0.0.2") == 200


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("localhost", 200), ("LOCALHOST:9600", 200), ("localhost.", 200), ("127.0.0.1:1", 200), ("10.1.2.3", 200),
        ("[::1]:9600", 200), (socket.gethostname(), 200), (f"{socket.gethostname().upper()}:9600", 200),
        ("collector.example.net", 200), ("collector.example.net.:9601", 200), ("a.logs.example.net", 200),
        ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("", 421),
        ("xlogs.example.net", 421), (".logs.example.net", 421), ("collector.example.net.evil.example", 421),
        ("[evil.example]", 421), ("evil.example:127.0.0.1", 421), ("localhost@evil.example", 421),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/status", "/healthz"])
def test_a_request_by_a_name_that_is_not_this_program_s_is_refused(program, name, code, path, capsys):
    assert asked(program, path, f"Host: {name}") == code
    if code == 421:
        assert "host_refused" in capsys.readouterr().err


def test_a_request_without_a_name_is_no_browser_s(program):
    assert asked(program, "/status") == 200
    assert asked(program, "/status", "Host: localhost", "Host: evil.example") == 400


def test_an_empty_listen_turns_the_listener_off():
    settings = load({}, environment={"SHIPPER_LISTEN": "", "SHIPPER_SUBJECT": ""})
    assert (settings.producer.listen, settings.collector.listen, settings.logs.subject) == ("", "", "logs")


def test_names_are_given_as_a_list_or_with_commas():
    settings = load({}, environment={"SHIPPER_ALLOWED_HOSTS": "a.example.net, *.example.org"})
    assert settings.producer.allowed_hosts == settings.collector.allowed_hosts == ("a.example.net", "*.example.org")


@pytest.mark.parametrize("name", ["http://a.example.net", "a.example.net:9600", "a b", "*.*.example.net", "a/b", "**"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(Exception, match="is no host name"):
        load({"collector.allowed_hosts": (name,)}, environment={})


LINK = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (["Sec-Fetch-Site: same-origin"], 200), (["Sec-Fetch-Site: none"], 200), ([], 200),
        (["Origin: http://localhost:9601"], 200), (["Origin: HTTP://LOCALHOST:9601"], 200),
        (["Sec-Fetch-Site: cross-site", *LINK], 200), (["Sec-Fetch-Site: same-site", *LINK], 200),
        (["Sec-Fetch-Site: cross-site"], 403), (["Sec-Fetch-Site: same-site"], 403),
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"], 403),
        (["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"], 403),
        (["Origin: http://evil.example"], 403), (["Origin: null"], 403), (["Origin: "], 403),
        (["Origin: http://localhost:9602"], 403), (["Origin: http://[::1"], 403),
        (["Origin: https://localhost:9601"], 403), (["Origin: http://localhost:x"], 403),
        (["Origin: https://localhost:9601", "X-Forwarded-Proto: https"], 200),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/status", "/events"])
def test_a_page_of_another_origin_reads_nothing(program, headers, code, path, capsys):
    assert asked(program, path, "Host: localhost:9601", *headers) == code
    assert ("origin_refused" in capsys.readouterr().err) == (code == 403)
