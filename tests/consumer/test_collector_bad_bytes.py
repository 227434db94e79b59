"""Bytes that no UTF-8 decoder takes, in places where nats-py expects text: they stop no other lines."""

from harness.fleet import Fleet
from hostile import send_raw


def test_a_message_whose_subject_is_no_utf8_is_kept_as_a_dead_letter_and_stops_no_other_message(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        send_raw(
            natsd,
            b"PUB logs.p1.good.host 5\r\nfirst\r\n",
            b"PUB logs.p1.b\xffd.host 7\r\nstrange\r\n",
            b"PUB logs.p1.good.host 6\r\nsecond\r\n",
        )
        done = fleet.run("consume", "--drain")
        assert done.returncode == 0, done.stderr
        assert (fleet.archive / "live/good.host/messages.log").read_bytes() == b"first\nsecond\n"
        assert "message_dead_lettered" in done.stderr
        assert "no UTF-8" in done.stderr


def test_an_inline_status_that_is_no_utf8_stops_neither_its_own_line_nor_others(tmp_path, natsd):
    header = b"NATS/1.0 \xff\xfe\xfd\r\n\r\n"
    payload = b"payload"
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        sizes = b"%d %d" % (len(header), len(header) + len(payload))
        send_raw(
            natsd,
            b"HPUB logs.p1.good.host " + sizes + b"\r\n" + header + payload + b"\r\n",
            b"PUB logs.p1.good.host 5\r\nafter\r\n",
        )
        fleet.drain()
        assert (fleet.archive / "live/good.host/messages.log").read_bytes() == b"payload\nafter\n"
