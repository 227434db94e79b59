"""Syslog messages as lines: framing of streams, addresses, what is kept and what is left off."""

import pytest

from producer.inputs.syslog import MAX_MESSAGE_BYTES, Frames, line_of, parse
from shipper.errors import ConfigError


def test_a_message_is_one_line_of_exactly_the_bytes_that_came() -> None:
    assert line_of(b"<13>Nov 20 12:00:00 web1 app: \xff hello ") == b"<13>Nov 20 12:00:00 web1 app: \xff hello \n"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\0", b"\n\0"])
def test_what_ends_a_message_on_the_way_is_left_off(end: bytes) -> None:
    assert line_of(b"<13>one" + end) == b"<13>one\n"


def test_a_newline_inside_is_written_as_rsyslog_does_and_a_nul_inside_stays() -> None:
    assert line_of(b"<13>one\ntwo\0three\n") == b"<13>one#012two\0three\n"


def test_a_message_of_nothing_is_no_line() -> None:
    assert line_of(b"\r\n") == line_of(b"") == line_of(b"\0") == b""


def test_counted_messages_and_lines_are_distinguished_at_each_message() -> None:
    assert Frames().feed(b"<1>one\n10 <2>two\nin1<3>x\n7 <4>four<5>five\r\n") == (
        b"<1>one\n<2>two#012in1\n<3>x\n<4>four\n<5>five\n"
    )


def test_a_line_that_begins_with_a_number_is_no_counted_message() -> None:
    assert Frames().feed(b"12 monkeys\n1234567890 <x>\n") == b"12 monkeys\n1234567890 <x>\n"


def test_any_cut_of_the_bytes_gives_the_same_lines() -> None:
    text = b"<1>one\n10 <2>two\nin1<3>x\n12 monkeys\n7 <4>four"
    whole = Frames().feed(text)
    for size in range(1, 12):
        frames = Frames()
        assert b"".join(frames.feed(text[at : at + size]) for at in range(0, len(text), size)) == whole


def test_a_stream_that_closes_inside_a_message_leaves_the_rest_as_a_line_of_its_own() -> None:
    for text in (b"<1>one\n<2>two", b"<1>one\n20 <2>two"):
        frames = Frames()
        assert (frames.feed(text), frames.close()) == (b"<1>one\n", b"<2>two\n")
        assert frames.close() == b""


@pytest.mark.parametrize("counted", [True, False])
def test_a_message_that_is_too_long_is_split_and_nothing_of_it_is_dropped(counted: bool) -> None:
    message = b"<1>" + b"x" * (2 * MAX_MESSAGE_BYTES)
    lines = Frames().feed(b"%d %b" % (len(message), message) + b"<2>y\n" if counted else message + b"\n<2>y\n")
    *parts, last = lines.splitlines()
    assert b"".join(parts) == message
    assert last == b"<2>y"
    assert max(map(len, parts)) == MAX_MESSAGE_BYTES


def test_a_unix_stream_ends_its_messages_with_nul_as_the_c_library_does() -> None:
    assert Frames(b"\n\0").feed(b"<1>one\0<2>two\n\0<3>three") == b"<1>one\n<2>two\n"


def test_addresses_have_names_in_the_archive() -> None:
    assert parse("udp:127.0.0.1:514").name == "/syslog/udp/127.0.0.1:514"
    assert parse("tcp:[::1]:601").name == "/syslog/tcp/[::1]:601"
    assert parse("unix:/dev/log").name == "/dev/log"
    assert parse("unix-stream:/run/app/log").is_stream


@pytest.mark.parametrize(
    "text",
    ["", "514", "udp:514", "udp:host", "udp:host:0", "udp:host:65536", "tcp::1:514", "file:/x", "unix:", "udp::1"],
)
def test_what_is_no_address_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert "udp:127.0.0.1:514" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("udp:0.0.0.0:514", True),
        ("tcp:[::]:514", True),
        ("tcp:log.example.net:514", True),
        ("udp:127.0.0.1:514", False),
        ("tcp:[::1]:514", False),
        ("tcp:localhost:514", False),
        ("unix:/dev/log", False),
    ],
)
def test_an_address_that_other_machines_reach_is_known(text: str, is_open: bool) -> None:
    assert parse(text).is_open is is_open
