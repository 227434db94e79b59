"""What other clients can put on the wire of a real server, and where SHIPPER_OUTPUT lets it go."""

import json
import socket

import pytest
from fleet import Fleet
from natsd import NatsServer

HOST = "web1.example.net"


def plain(server: NatsServer, *messages: tuple[str, bytes], headers: str = "") -> None:
    """Messages as they are on the wire, from a client that checks nothing."""
    with socket.create_connection(("127.0.0.1", server.port)) as link:
        link.recv(4096)
        wire = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
        head = f"NATS/1.0\r\n{headers}\r\n".encode()
        for subject, payload in messages:
            if headers:
                size = len(head) + len(payload)
                wire += f"HPUB {subject} {len(head)} {size}\r\n".encode() + head + payload + b"\r\n"
            else:
                wire += f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n"
        link.sendall(wire + b"PING\r\n")
        answer = b""
        while b"PONG" not in answer:
            answer += link.recv(4096)


@pytest.mark.parametrize(
    ("output", "name"), [("logs/{host}-%Y.log", f"logs/{HOST}-20??.log"), ("{host}/{file}", f"{HOST}/messages.log")]
)
def test_the_template_of_the_blog_is_written_as_it_describes(output, name, fleet, natsd):
    plain(natsd, *((f"logs.p0.{HOST}", b"line %d" % number) for number in range(100)))
    fleet.must("consume", "--drain", "--output", output)
    fleet.must("consume", "--drain", "--output", output)
    (lines,) = fleet.archive.glob(name)
    assert not list(fleet.archive.glob("date=*"))
    assert lines.read_bytes() == b"".join(b"line %d\n" % number for number in range(100))


def test_a_template_that_names_one_file_for_two_partitions_is_refused(natsd, tmp_path):
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        refused = fleet.run("consume", "--drain", "--output", "%Y.log")
        assert refused.returncode == 78
        assert "{partition}" in refused.stderr
        fleet.must("consume", "--drain", "--output", "{partition}/%Y.log")
        fleet.must("consume", "--drain", "--partitions", "0", "--output", "%Y.log")


def test_a_template_that_leads_out_of_the_archive_is_refused(fleet):
    for output in ("../{host}.log", "/tmp/{host}.log", "a/../../{host}.log", "{secret}.log"):
        assert fleet.run("consume", "--drain", "--output", output).returncode == 78


def test_what_a_hostile_client_can_publish_ends_in_the_archive_or_with_the_dead_letters(fleet, natsd, tmp_path):
    hosts = ["*", ">", "a%2F..%2Fb", "%" * 90, "x" * 240, "q\\u0000", "'\"#", "UPPER"]
    plain(natsd, *((f"logs.p0.{host}", b"x") for host in hosts))
    for headers in ("Log-Id: 1\r\n", "Nats-Expected-Stream: LOGS_0\r\nLog-Id: 1\r\n", "Log-Id: 1\r\n : v\r\n"):
        plain(natsd, ("logs.p0.*", b"poison"), (f"logs.p0.{HOST}", bytes(1_000_000)), headers=headers)
    plain(natsd, (f"logs.p0.{HOST}", b"sound"))
    beside = {path.name for path in tmp_path.iterdir()} | {"archive", "state"}
    fleet.drain("--seal")
    assert {path.name for path in tmp_path.iterdir()} == beside
    assert fleet.archived(HOST, "messages.log") == b"sound\n"
    assert fleet.lag() == 0
    status = json.loads(fleet.must("partition", "status", "--json"))
    assert status
