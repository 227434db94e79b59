"""Syslog messages as lines: framing of streams, addresses, what is kept and what is left off."""

import pytest

from producer.inputs.senders import address_of, with_address
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


def test_a_connection_that_counts_its_messages_may_have_newlines_in_them_and_between_them() -> None:
    assert Frames().feed(b"10 <2>two\nin17 <4>four\n<3>x\n8 <5>five\n") == (b"<2>two#012in1\n<4>four\n<3>x\n<5>five\n")


def test_a_count_is_only_one_before_a_pri() -> None:
    for text in (
        b"12 monkeys\n1234567890 <x>\n",
        b"54 <1 minute elapsed\n<13>one\n",
        b"9 <>one\n",
        b"9 <192>x\n",
        b"9 <013>x\n",
        b"0 <13>x\n",
        b"1000000000 <13>x\n",
        b"9  <13>x\n",
    ):
        assert Frames().feed(text) == text


def test_a_connection_that_sent_a_message_without_a_count_sends_none_with_one() -> None:
    text = b"<13>one\n30 <13>Nov 28 10:00:00 h app: x\n5 <1>y\n"
    assert Frames().feed(text) == text
    assert Frames().feed(b"\r\n\0\n6 <1>abc") == b"<1>abc\n"  # an empty one decides nothing


@pytest.mark.parametrize(
    "text", [b"<1>one\n10 <2>two\nin1<3>x\n12 monkeys\n7 <4>four", b"10 <2>two\nin1<3>x\n12 <1 min\n7 <4>four8 <1"]
)
def test_any_cut_of_the_bytes_gives_the_same_lines(text: bytes) -> None:
    whole = Frames().feed(text)
    for size in range(1, 12):
        frames = Frames()
        assert b"".join(frames.feed(text[at : at + size]) for at in range(0, len(text), size)) == whole


def test_a_stream_that_closes_inside_a_message_leaves_the_rest_as_a_line_of_its_own() -> None:
    for text in (b"<1>one\n<2>two", b"6 <1>one20 <2>two"):
        frames = Frames()
        assert (frames.feed(text), frames.close()) == (b"<1>one\n", b"<2>two\n")
        assert frames.close() == b""


@pytest.mark.parametrize("counted", [True, False])
def test_a_message_that_is_too_long_is_split_and_nothing_of_it_is_dropped(counted: bool) -> None:
    message = b"<1>" + b"x" * (2 * MAX_MESSAGE_BYTES)
    lines = Frames().feed(b"%d %b" % (len(message), message) + b"5 <2>y\n" if counted else message + b"\n<2>y\n")
    *parts, last = lines.splitlines()
    assert b"".join(parts) == message
    assert last == b"<2>y"
    assert max(map(len, parts)) == MAX_MESSAGE_BYTES


def test_a_nul_ends_a_message_as_the_c_library_writes_it() -> None:
    assert Frames().feed(b"<1>one\0<2>two\n\0<3>three") == b"<1>one\n<2>two\n"


def test_the_address_of_a_sender_stands_before_each_line_and_before_no_empty_one() -> None:
    frames = Frames()
    assert with_address("192.0.2.1", frames.feed(b"<1>one\n\n<2>two\n<3>")) == b"192.0.2.1 <1>one\n192.0.2.1 <2>two\n"
    assert with_address("192.0.2.1", frames.close()) == b"192.0.2.1 <3>\n"
    assert with_address("192.0.2.1", frames.close()) == b""
    assert with_address("", b"<1>one\n") == b"<1>one\n"


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("192.0.2.7", 514), "192.0.2.7"),
        (("::ffff:192.0.2.7", 514, 0, 0), "192.0.2.7"),  # of IPv4, to a socket of IPv6
        (("2001:db8::7", 514, 0, 0), "2001:db8::7"),
        (("fe80::1%eth0", 514, 0, 2), "fe80::1%eth0"),
        ("", ""),
        ("/run/sender", ""),
        (b"\0abstract", ""),
        (None, ""),
    ],
)
def test_a_sender_has_an_address_only_if_its_socket_has_one(peer: object, address: str) -> None:
    assert address_of(peer) == address


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
